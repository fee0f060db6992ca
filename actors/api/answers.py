"""What requests are answered: the welcome, and those that take their time."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from actors.api import convert
from actors.api.convert_group import from_group_state, to_claim
from actors.api.failures import RequestRefused
from actors.api.handle import NodeHandle, NodeIdentity
from actors.api.limits import ApiLimits
from wire import api

Slow: TypeAlias = (
    api.Read
    | api.GetOffsets
    | api.GetStatus
    | api.GetTree
    | api.Promote
    | api.GetGroup
    | api.Fence
    | api.Record
    | api.Resync
    | api.Transfer
    | api.GetRange
    | api.Repair
)


def hello_of(request: api.Request) -> api.Hello:
    """A connection's first request. Raises: RequestRefused: it is none that is spoken."""
    if not isinstance(request, api.Hello):
        raise RequestRefused(api.ERROR_BAD_REQUEST, "the first request must be hello")
    if request.version < api.VERSION_MIN:
        spoken = f"this node speaks versions {api.VERSION_MIN} to {api.PROTOCOL_VERSION}"
        raise RequestRefused(api.ERROR_VERSION, spoken)
    return request


def welcome(
    request: api.Hello, identity: NodeIdentity, limits: ApiLimits, proof: bytes
) -> api.Welcome:
    """The answer to a hello whose version is spoken."""
    return api.Welcome(
        id=request.id,
        version=min(request.version, api.PROTOCOL_VERSION),
        cluster=identity.cluster,
        node=identity.node,
        boot=identity.boot,
        groups=identity.groups,
        frame_bytes_max=api.FRAME_BYTES_MAX,
        records_per_append_max=api.RECORDS_PER_APPEND_MAX,
        in_flight_requests_max=limits.in_flight_requests,
        in_flight_bytes_max=limits.in_flight_bytes,
        proof=proof,
    )


async def answer(
    handle: NodeHandle, request: Slow, form: convert.BatchForm
) -> api.Answer | bytes | str:
    """The answer as a frame, or already encoded. Raises: what the node's handle does."""
    match request:
        case api.Read():
            batch = await handle.read(
                request.group, request.start, request.max_bytes, request.fresh
            )
            data, _ = convert.encode_batch(request.id, batch, form, costs=False)
            return data
        case api.GetOffsets():
            offsets = await handle.wait_offsets(request.group, None)
            return convert.from_offsets(request.id, offsets)
        case api.GetStatus():
            return api.Status(id=request.id, value=await handle.status())
        case api.GetTree():
            return api.Tree(id=request.id, value=await handle.tree())
        case api.Promote():
            value = await handle.promote(request.group, request.node, request.force)
            return api.Promoted(id=request.id, value=value)
        case api.GetGroup():
            return from_group_state(request.id, await handle.group_state(request.group))
        case api.Fence():
            state = await handle.fence(request.group, to_claim(request), request.on)
            return from_group_state(request.id, state)
        case api.Record():
            state = await handle.record(
                request.group, request.number, request.master, request.token, request.force
            )
            return from_group_state(request.id, state)
        case api.Resync():
            return api.Resynced(id=request.id, value=await handle.resync(request.group))
        case api.Transfer():
            moved = await handle.transfer_leader(request.group, request.node)
            return api.Transferred(id=request.id, value=moved)
        case api.GetRange():
            found = await handle.log_range(request.group, request.start)
            return api.Range(id=request.id, start=found.start, data=found.data, digest=found.digest)
        case api.Repair():
            value = await handle.repair(request.group, request.source)
            return api.Repaired(id=request.id, value=value)
        case _:
            assert_never(request)
