"""Requests that take their time and have one answer."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from actors.api import convert
from actors.api.handle import NodeHandle
from wire import api

Slow: TypeAlias = api.Read | api.GetOffsets | api.GetStatus | api.GetTree | api.Promote


async def answer(handle: NodeHandle, request: Slow, *, text: bool) -> api.Answer | bytes | str:
    """The answer as a frame, or already encoded. Raises: what the node's handle does."""
    match request:
        case api.Read():
            batch = await handle.read(
                request.group, request.start, request.max_bytes, request.fresh
            )
            data, _ = convert.encode_batch(request.id, batch, text=text, costs=False)
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
        case _:
            assert_never(request)
