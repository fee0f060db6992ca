"""Between `GroupState`, `Claim` and their frames, whose fields have the same names."""

from __future__ import annotations

from typing import Any

import attrs

from actors.epochs import Epoch
from actors.log_types import Claim, GroupState
from wire.api import frames


def from_group_state(request: int, state: GroupState) -> frames.Group:
    fields = _fields(state, type(state))
    epochs = (
        frames.Epoch(epoch.number, epoch.token, epoch.master, epoch.start_bytes)
        for epoch in state.history
    )
    return frames.Group(id=request, **fields | {"history": tuple(epochs)})


def to_group_state(frame: frames.Group) -> GroupState:
    epochs = (
        Epoch(epoch.number, epoch.token, epoch.master, epoch.start) for epoch in frame.history
    )
    return GroupState(**_fields(frame, GroupState) | {"history": tuple(epochs)})


def from_claim(request: int, group: str, claim: Claim, *, on: bool) -> frames.Fence:
    return frames.Fence(id=request, group=group, on=on, **_fields(claim, Claim))


def to_claim(frame: frames.Fence) -> Claim:
    return Claim(**_fields(frame, Claim))


def _fields(source: object, kind: type[attrs.AttrsInstance]) -> dict[str, Any]:
    """What `source` has under the names of the fields of `kind`."""
    return {field.name: getattr(source, field.name) for field in attrs.fields(kind)}
