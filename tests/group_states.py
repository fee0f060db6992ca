"""What a member may say of itself, and what is wished of three, for tests of whoever hears it."""

from __future__ import annotations

import json
from typing import Any

import attrs

from actors.config.kinds import KINDS
from actors.epochs import Epoch
from actors.group_status import GroupStatus
from actors.ha.core.promotion import Wish
from actors.log_types import GroupState

R0 = Epoch(0, 11, "n0", 0)
WISH = Wish(
    group="orders",
    members=("n0", "n1", "n2"),
    file_master="n0",
    counting=("n0", "n1", "n2"),
    copies=2,
    synced=True,
)
"""A promotion of the furthest of n0, n1 and n2."""


def status_of(**changes: Any) -> dict[str, Any]:
    """What a node's status has of a group: it is the open master of an empty one, but for this."""
    own = GroupStatus(
        mode="classic",
        terms=KINDS["classic"].terms,
        role="master",
        leads=True,
        leader="n0",
        epoch=0,
        is_open=True,
        first=0,
        written=0,
        synced=0,
        acknowledged=0,
    )
    found: dict[str, Any] = json.loads(json.dumps(attrs.evolve(own, **changes).plain()))
    return found


def slave(node: str, end: int = 0, **changes: Any) -> GroupState:
    """A slave that follows n0, with everything synced."""
    state = GroupState(
        cluster="demo",
        node=node,
        boot=1,
        group="orders",
        role="slave",
        state="following",
        reason="",
        opened=False,
        number=0,
        master="n0",
        history=(R0,),
        min=0,
        written=end,
        synced=end,
        acknowledged=0,
        high_water=0,
        unanswered=0,
    )
    return attrs.evolve(state, **changes)


def master(end: int, **changes: Any) -> GroupState:
    """n0, open."""
    state = slave("n0", end, role="master", state="open", opened=True)
    return attrs.evolve(state, **changes)
