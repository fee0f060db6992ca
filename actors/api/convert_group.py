"""Between `GroupState`, `Claim` and their frames."""

from __future__ import annotations

from actors.log_types import Claim, GroupState, Reign
from wire.api import frames


def from_group_state(request: int, state: GroupState) -> frames.Group:
    return frames.Group(
        id=request,
        group=state.group,
        cluster=state.cluster,
        node=state.node,
        boot=state.boot,
        role=state.role,
        state=state.state,
        reason=state.reason,
        opened=state.opened,
        number=state.number,
        master=state.master,
        history=tuple(
            frames.Reign(reign.number, reign.token, reign.master, reign.start_bytes)
            for reign in state.history
        ),
        min=state.min,
        written=state.written,
        synced=state.synced,
        acknowledged=state.acknowledged,
        high_water=state.high_water,
        unanswered=state.unanswered,
        claimed=state.claimed,
        forgot=state.forgot,
        damage=state.damage,
        forced=state.forced,
        no_room=state.no_room,
    )


def to_group_state(frame: frames.Group) -> GroupState:
    return GroupState(
        group=frame.group,
        cluster=frame.cluster,
        node=frame.node,
        boot=frame.boot,
        role=frame.role,
        state=frame.state,
        reason=frame.reason,
        opened=frame.opened,
        number=frame.number,
        master=frame.master,
        history=tuple(
            Reign(reign.number, reign.token, reign.master, reign.start) for reign in frame.history
        ),
        min=frame.min,
        written=frame.written,
        synced=frame.synced,
        acknowledged=frame.acknowledged,
        high_water=frame.high_water,
        unanswered=frame.unanswered,
        claimed=frame.claimed,
        forgot=frame.forgot,
        damage=frame.damage,
        forced=frame.forced,
        no_room=frame.no_room,
    )


def from_claim(request: int, group: str, claim: Claim, *, on: bool) -> frames.Fence:
    return frames.Fence(
        id=request,
        group=group,
        number=claim.number,
        on=on,
        token=claim.token,
        by=claim.by,
        master=claim.master,
        again=claim.again,
        kept=claim.kept,
        force=claim.force,
    )


def to_claim(frame: frames.Fence) -> Claim:
    return Claim(
        number=frame.number,
        token=frame.token,
        by=frame.by,
        master=frame.master,
        again=frame.again,
        kept=frame.kept,
        force=frame.force,
    )
