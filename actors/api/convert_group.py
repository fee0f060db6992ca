"""Between `GroupState`, `Claim` and their frames, whose fields have the same names."""

from __future__ import annotations

from typing import Any

import attrs

from actors.log_types import Claim, GroupState, Reign
from wire.api import frames


def from_group_state(request: int, state: GroupState) -> frames.Group:
    fields = _fields(state, type(state))
    reigns = (
        frames.Reign(reign.number, reign.token, reign.master, reign.start_bytes)
        for reign in state.history
    )
    return frames.Group(id=request, **fields | {"history": tuple(reigns)})


def to_group_state(frame: frames.Group) -> GroupState:
    reigns = (
        Reign(reign.number, reign.token, reign.master, reign.start) for reign in frame.history
    )
    return GroupState(**_fields(frame, GroupState) | {"history": tuple(reigns)})


def from_claim(request: int, group: str, claim: Claim, *, on: bool) -> frames.Fence:
    return frames.Fence(id=request, group=group, on=on, **_fields(claim, Claim))


def to_claim(frame: frames.Fence) -> Claim:
    return Claim(**_fields(frame, Claim))


def _fields(source: object, kind: type[attrs.AttrsInstance]) -> dict[str, Any]:
    """What `source` has under the names of the fields of `kind`."""
    return {field.name: getattr(source, field.name) for field in attrs.fields(kind)}
