"""Frames by which the members of a group agree on its master; `frames` has them in its tables.

An epoch is an array: number (of the promotion, 0: the cluster file's master), token (0 for what is
older than epochs), master, start (position where the log ended when it began).
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from wire.api.base import (
    NAME_CHARS_MAX,
    NUMBER_MAX,
    POSITION_MAX,
    Count,
    Frame,
    Id,
    Name,
    Number,
    Position,
)

EPOCHS_MAX = 256
"""Longest history that is sent; its owner keeps no more either."""


class Epoch(Struct, frozen=True, array_like=True):
    """See the module's text."""

    number: Number
    token: Annotated[int, Meta(ge=0, le=POSITION_MAX)]
    master: str
    start: Position


class GetGroup(Frame, frozen=True, kw_only=True, tag="get_group"):
    id: Id
    group: Name


class WatchGroup(Frame, frozen=True, kw_only=True, tag="watch_group"):
    id: Id
    group: Name


class Fence(Frame, frozen=True, kw_only=True, tag="fence"):
    """`number`: of the promotion that is about to take place. `on`: false takes the fence away.

    The rest is a claim's: `actors.log_types.Claim`, field by field.
    """

    id: Id
    group: Name
    number: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    on: bool
    token: Count = 0
    by: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    master: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    again: bool = False
    kept: bool = False
    force: bool = False


class Record(Frame, frozen=True, kw_only=True, tag="record"):
    """`master` is the group's master by promotion `number`. `force`: to that master itself: open
    without hearing anybody, whatever was lost. `token`: of the claim that it comes from.
    """

    id: Id
    group: Name
    number: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    master: Name
    token: Count = 0
    force: bool = False


class Resync(Frame, frozen=True, kw_only=True, tag="resync"):
    id: Id
    group: Name


class Transfer(Frame, frozen=True, kw_only=True, tag="transfer"):
    """`node` is to lead a DLedger group; null: the member that has most of the log."""

    id: Id
    group: Name
    node: Name | None = None


class Transferred(Frame, frozen=True, kw_only=True, tag="transferred"):
    id: Id
    value: dict[str, Any]


class Group(Frame, frozen=True, kw_only=True, tag="group"):
    """What one node is in one group. See `actors.log_types.GroupState`, field by field."""

    id: Id
    group: str
    cluster: str
    node: str
    boot: Number
    role: str
    state: str
    reason: str
    opened: bool
    number: Number
    master: str
    history: Annotated[tuple[Epoch, ...], Meta(max_length=EPOCHS_MAX)]
    min: Position
    written: Position
    synced: Position
    acknowledged: Position
    high_water: Position
    unanswered: Count
    claimed: Number = 0
    forgot: str = ""
    damage: str = ""
    forced: bool = False
    no_room: str = ""


class Resynced(Frame, frozen=True, kw_only=True, tag="resynced"):
    id: Id
    value: dict[str, Any]
