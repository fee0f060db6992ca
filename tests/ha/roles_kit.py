"""Role rules of one node, what a member says to them, and what they make of it."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import group_states

from actors.epochs import Epoch
from actors.ha.core.extent import LogExtent
from actors.ha.core.role_effects import Effects, Fence, RoleState
from actors.ha.core.role_rules import RoleRules
from actors.log_types import Claim, GroupRecord, GroupState, Promotion

A = Epoch(0, 1, "n0", 0)
B = Epoch(0, 2, "n0", 100)
P = Epoch(1, 7, "n1", 100)


def rules(
    node: str = "n0",
    members: tuple[str, ...] = ("n1", "n2"),
    copies: int = 2,
    synced: bool = True,
    **record: Any,
) -> RoleRules:
    tokens = itertools.count(1001)
    return RoleRules(
        group="orders",
        node=node,
        file_master="n0",
        members=members,
        copies=copies,
        synced=synced,
        draw_token=lambda: next(tokens),
        record=GroupRecord(**record),
    )


def start(found: RoleRules, end: int = 0, now_s: float = 0.0, **more: Any) -> Effects:
    return found.started(found.promotion, LogExtent(0, end, end), now_s, **more)


def said(node: str, end: int = 0, *history: Epoch, **changes: Any) -> GroupState:
    return group_states.slave(node, end, **{"state": "connecting", "history": history, **changes})


def claim(number: int = 1, **changes: Any) -> Claim:
    return attrs.evolve(Claim(number=number, token=77, by="n2", master="n1"), **changes)


def promoted(
    found: RoleRules, promotion: Promotion, now_s: float, *, force: bool = False
) -> Effects:
    """Claimed, confirmed and recorded, as a coordinator does."""
    by = claim(promotion.number, master=promotion.master)
    assert found.fence(by, on=True, now_s=now_s).refused == ""
    assert found.fence(attrs.evolve(by, kept=True), on=True, now_s=now_s).refused == ""
    return found.recorded(promotion, now_s, token=by.token, force=force)


def opened(effects: Effects) -> bool:
    return effects.gate is not None and effects.gate.open


def fenced(found: RoleRules) -> Fence | None:
    view = found.view()
    assert (view.state is RoleState.FENCED) == (view.fence is not None)
    return view.fence


def slave(end: int = 0, **record: Any) -> RoleRules:
    one = rules(node="n1", members=("n0", "n2"), **record)
    start(one, end)
    return one
