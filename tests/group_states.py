"""What a member may say of itself, and what is wished of three, for tests of whoever hears it."""

from __future__ import annotations

from typing import Any

import attrs

from actors.epochs import Epoch
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
