"""Makes the answers to requests: the welcome, and the answers to requests that take time."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from actors.api import convert
from actors.api.convert import from_group_state, to_claim
from actors.api.failures import RequestRefused
from actors.api.handle import NodeHandle, NodeIdentity
from actors.api.limits import ApiLimits
from wire.api import frames

Slow: TypeAlias = (
    frames.Read
    | frames.GetOffsets
    | frames.GetStatus
    | frames.GetTree
    | frames.Promote
    | frames.GetGroup
    | frames.Fence
    | frames.Record
    | frames.Resync
    | frames.Transfer
    | frames.GetRange
    | frames.Repair
)


def hello_of(request: frames.Request) -> frames.Hello:
    """Return a connection's first request as a hello.

    Raises: RequestRefused: it is no hello, or its version is not supported.
    """
    if not isinstance(request, frames.Hello):
        raise RequestRefused(frames.ERROR_BAD_REQUEST, "the first request must be hello")
    if request.version < frames.VERSION_MIN:
        spoken = f"this node speaks versions {frames.VERSION_MIN} to {frames.PROTOCOL_VERSION}"
        raise RequestRefused(frames.ERROR_VERSION, spoken)
    return request


def welcome(
    request: frames.Hello, identity: NodeIdentity, limits: ApiLimits, proof: bytes
) -> frames.Welcome:
    """Return the answer to a hello of a supported version."""
    return frames.Welcome(
        id=request.id,
        version=min(request.version, frames.PROTOCOL_VERSION),
        cluster=identity.cluster,
        node=identity.node,
        boot=identity.boot,
        groups=identity.groups,
        frame_bytes_max=frames.FRAME_BYTES_MAX,
        records_per_append_max=frames.RECORDS_PER_APPEND_MAX,
        in_flight_requests_max=limits.in_flight_requests,
        in_flight_bytes_max=limits.in_flight_bytes,
        proof=proof,
    )


async def answer(
    handle: NodeHandle, request: Slow, form: convert.BatchForm
) -> frames.Answer | bytes | str:
    """Return the answer as a frame, or already encoded. Raises: the errors of the node's handle."""
    match request:
        case frames.Read():
            batch = await handle.read(
                request.group, request.start, request.max_bytes, request.fresh
            )
            data, _ = convert.encode_batch(request.id, batch, form, costs=False)
            return data
        case frames.GetOffsets():
            offsets = await handle.wait_offsets(request.group, None)
            return convert.from_offsets(offsets, id=request.id)
        case frames.GetStatus():
            return frames.Status(id=request.id, value=await handle.status())
        case frames.GetTree():
            return frames.Tree(id=request.id, value=await handle.tree())
        case frames.Promote():
            value = await handle.promote(request.group, request.node, request.force)
            return frames.Promoted(id=request.id, value=value)
        case frames.GetGroup():
            return from_group_state(request.id, await handle.group_state(request.group))
        case frames.Fence():
            state = await handle.fence(request.group, to_claim(request), request.on)
            return from_group_state(request.id, state)
        case frames.Record():
            state = await handle.record(
                request.group, request.number, request.master, request.token, request.force
            )
            return from_group_state(request.id, state)
        case frames.Resync():
            return frames.Resynced(id=request.id, value=await handle.resync(request.group))
        case frames.Transfer():
            moved = await handle.transfer_leader(request.group, request.node)
            return frames.Transferred(id=request.id, value=moved)
        case frames.GetRange():
            found = await handle.log_range(request.group, request.start)
            return frames.Range(
                id=request.id, start=found.start, data=found.data, digest=found.digest
            )
        case frames.Repair():
            value = await handle.repair(request.group, request.source)
            return frames.Repaired(id=request.id, value=value)
        case _:
            assert_never(request)
