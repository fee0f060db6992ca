"""Questions of `role_rules` that need no state: may a log be opened, may it follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from actors.epochs import Kind, compare, cut, prune, trim
from actors.events import roles as events
from actors.ha.core.role_effects import Fence, RoleState, Verdict
from actors.log_types import GroupRecord, GroupState, Promotion


def why_not_open(
    record: GroupRecord, end_bytes: int, members: Mapping[str, GroupState]
) -> tuple[Fence, str] | None:
    """What forbids that a master begins its epoch at this end, by what its members hold and know.

    A member may hold what others do not, if that is older than the newest epoch here: the rest of
    a master that was replaced. What is as young, or goes on where this log ends, was lost here.
    """
    history = record.history
    held = trim(history, end_bytes)
    own_number = held[-1].number if held else 0
    for member, said in members.items():
        found = compare(said.history, said.written, history, end_bytes)
        if found.kind is Kind.FITS:
            continue
        if found.kind is Kind.AHEAD:
            text = f"{member} goes on up to {said.written}, this log ends at {end_bytes}"
            return Fence.SLAVE_AHEAD, text
        for epoch in trim(said.history, said.written):
            if epoch not in history and epoch.number >= own_number:
                text = f"{member} holds what {epoch.master} wrote from {epoch.start_bytes} on"
                return Fence.SLAVE_AHEAD, text
    for member, said in members.items():
        lost = _once_longer(record.promotion_number, end_bytes, said)
        if lost is not None:
            return Fence.SHORTER_THAN_MARK, f"it ends at {end_bytes}, and {member} {lost}"
    mark = record.high_water_bytes
    if end_bytes < mark:
        return Fence.SHORTER_THAN_MARK, f"it ends at {end_bytes}, {mark} was acknowledged"
    return None


def _once_longer(number: int, end_bytes: int, said: GroupState) -> str | None:
    """What a member that acts by `number` knows of its master's log, whatever it holds itself: that
    it was longer. So this is an older copy of it, and who has the rest may be silent.

    An epoch of the present promotion that began at the very end says nothing: one in which nothing
    was written is forgotten here.
    """
    if said.acknowledged > end_bytes:
        return f"has heard that all below {said.acknowledged} is acknowledged"
    begun = [epoch.start_bytes for epoch in said.history if epoch.number == number]
    if max(begun, default=0) > end_bytes:
        return f"knows that it ended at {max(begun)} once"
    return None


def conflict(promotion: Promotion, heard: Mapping[str, GroupState]) -> tuple[Fence, str] | None:
    """A member that has another master by the same promotion."""
    for member, said in heard.items():
        if said.number == promotion.number and said.master != promotion.master:
            return Fence.CONFLICT, f"{member} says {said.master}, by number {said.number}"
    return None


def hears_enough(
    record: GroupRecord, number: int, others: int, copies: int, heard: Mapping[str, GroupState]
) -> bool:
    """Whether a master by promotion `number` may open although some of its `others` are silent.

    A new master needs one of every set of nodes that may hold something acknowledged. A node that
    was master before has that itself, and only has to hear whether it still is. So has a node that
    hears the master of the promotion before, if that opened the log: whatever was acknowledged
    until then is in its log, and that log is one of those `heard`.

    A member that forgot is no witness of what it forgot. A master that forgot was perhaps one of
    those that held it, and so needs one more of them, and enough members for one of them to know
    every promotion.
    """
    informed = [said for said in heard.values() if said.forgot != "all"]
    witnesses = [said for said in informed if not said.forgot]
    if any(opened_by(said, number - 1) for said in witnesses):
        return True
    if record.forgot:
        return len(witnesses) >= (max(copies, others + 2 - copies) if copies > 1 else 1)
    if number == 0 or any(epoch.number == number for epoch in record.history):
        return bool(informed)
    return len(witnesses) >= max(1, others + 1 - copies)


def knows_promotions(copies: int, members: Sequence[str], heard: Mapping[str, GroupState]) -> bool:
    """Whether a slave that forgot them has heard of every promotion by which a master opened.

    Its own master may have been replaced without knowing it, and would count it as a copy. As many
    as an append has copies cannot all have missed a promotion: its master opened because fewer did.
    """
    informed = [said for said in heard.values() if said.forgot != "all"]
    return len(informed) >= copies or len(heard) >= len(members)


def why_uninformed(members: Sequence[str], heard: Mapping[str, GroupState]) -> str:
    """Why a slave that forgot all waits, for people."""
    silent = ", ".join(member for member in members if member not in heard)
    return f"it began empty, and has not heard {silent}, who may know of a later promotion"


def why_asking(
    node: str, record: GroupRecord, silent: Sequence[str], heard: Mapping[str, GroupState]
) -> str:
    """Why the master `node` is still closed, for people."""
    empty = [member for member, said in heard.items() if said.forgot]
    if record.forgot:
        empty.insert(0, node)
    text = f"has not heard {', '.join(silent)}"
    if empty:
        who = ", ".join(empty)
        text += f", and {who} cannot know what was acknowledged (began empty, or lost bytes)"
    return text


def opened_by(said: GroupState, number: int) -> bool:
    """Whether this member was a master that took appends by promotion `number`."""
    return any(epoch.number == number and epoch.master == said.node for epoch in said.history)


def without_partial_record(
    record: GroupRecord, node: str, end_bytes: int, kept_bytes: int, *, certain: bool
) -> GroupRecord:
    """The mark of a slave's log whose end was cut at a start.

    A slave reports whatever bytes it has. The beginning of a record at their end is cut when the
    store opens, and nobody was told that such a record is safe. A master acknowledges whole
    records: a mark of its own is never lowered.

    Args:
        certain: nothing else can have been cut: an ordered stop, or all reported bytes were synced.
    """
    own = bool(record.history) and record.history[-1].master == node
    if own or not certain or not end_bytes < record.high_water_bytes <= end_bytes + kept_bytes:
        return record
    return attrs.evolve(record, high_water_bytes=end_bytes)


def after_cut(record: GroupRecord, end_bytes: int) -> GroupRecord:
    """What is remembered once a log was cut: nothing of what is gone."""
    return attrs.evolve(
        record,
        history=cut(record.history, end_bytes),
        high_water_bytes=min(record.high_water_bytes, end_bytes),
        cut_bytes=None,
    )


def after_loss(record: GroupRecord, end_bytes: int) -> GroupRecord:
    """What is remembered of a slave's log that ends where it started, if it was longer once.

    One without a byte that has followed a master was removed, perhaps: its mark is a second old.
    """
    lost = end_bytes < record.high_water_bytes or (end_bytes == 0 and bool(record.history))
    return attrs.evolve(record, forgot="log") if lost and not record.forgot else record


@attrs.define(kw_only=True)
class Question:
    """A slave's connection that waits for its verdict.

    Attributes:
        end_bytes: of its log.
        number: of what its master was asked first for it.
    """

    session: int
    end_bytes: int
    number: int = 0


@attrs.frozen(kw_only=True)
class Judged:
    """What becomes of a slave, of what it remembers, and of its connection."""

    state: RoleState
    reason: str
    record: GroupRecord
    verdict: Verdict
    event: object


def judge(node: str, record: GroupRecord, question: Question, said: GroupState) -> Judged:
    """Whether a slave's log is a part of its master's, by what the master says of its own."""
    session, end = question.session, question.end_bytes
    found = compare(record.history, end, said.history, said.written)
    if found.kind is Kind.FITS:
        forgot = record.forgot if said.written else ""
        return Judged(
            state=RoleState.FOLLOWING,
            reason=f"nobody counts on what it holds below {said.written} yet" if forgot else "",
            record=attrs.evolve(record, history=prune(said.history), forgot=forgot),
            verdict=Verdict(
                session=session, fits=True, whole_at_bytes=said.written if forgot else None
            ),
            event=events.SlaveVerified(
                session=session, master=said.node, number=said.number, end_bytes=end
            ),
        )
    reason = (
        f"this log ({end} bytes) and that of {said.node} ({said.written} bytes) are equal up"
        f" to {found.consistent_bytes} only ({found.kind.value}): `resync {node}` sets the rest"
        " aside"
    )
    return Judged(
        state=RoleState.DIVERGED,
        reason=reason,
        record=record,
        verdict=Verdict(session=session, fits=False, detail=reason),
        event=events.LogDiverged(
            session=session,
            master=said.node,
            how=found.kind.value,
            end_bytes=end,
            consistent_bytes=found.consistent_bytes,
        ),
    )
