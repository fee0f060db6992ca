"""Checks of `role_rules` without state: whether a log may be opened, and whether it may follow."""

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
    """Why a master may not begin its epoch at this end, by what its members hold and know.

    A member may hold bytes that others do not if they are older than the newest epoch here: those
    of a master that was replaced. Bytes that are as young, or that go on where this log ends, were
    lost here.
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
                who = "it wrote itself" if epoch.master == member else f"{epoch.master} wrote"
                text = f"{member} holds what {who} from {epoch.start_bytes} on"
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
    """How a member that acts by `number` knows that its master's log was longer once; None: it does
    not.

    Then this log is an older copy, and the members that hold the rest may be silent. An epoch of
    the present promotion that began at the very end proves nothing: this node forgets an epoch in
    which nothing was written.
    """
    if said.acknowledged > end_bytes:
        return f"has heard that all below {said.acknowledged} is acknowledged"
    begun = [epoch.start_bytes for epoch in said.history if epoch.number == number]
    if max(begun, default=0) > end_bytes:
        return f"knows that it ended at {max(begun)} once"
    return None


def conflict(promotion: Promotion, heard: Mapping[str, GroupState]) -> tuple[Fence, str] | None:
    """Whether a member has another master by the same promotion, and which; None: none has."""
    for member, said in heard.items():
        if said.number == promotion.number and said.master != promotion.master:
            return Fence.CONFLICT, f"{member} says {said.master}, by number {said.number}"
    return None


def hears_enough(
    record: GroupRecord, number: int, others: int, copies: int, heard: Mapping[str, GroupState]
) -> bool:
    """Whether a master by promotion `number` may open although some of its `others` are silent.

    A new master has to hear one of every set of nodes that may hold an acknowledged record. A node
    that was master before holds them all, and only has to hear whether it still is master. So does
    a node that hears the master of the promotion before, if that one opened the log: all that was
    acknowledged until then is in its log, which is one of those `heard`.

    A member that forgot is not a witness of what it forgot. A master that forgot may have been one
    of those that held a record, so it has to hear one more of them, and enough members for one of
    them to know every promotion.
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
    """Whether a slave that forgot all promotions has learned every one by which a master opened.

    Its own master may have been replaced without knowing it, and would count it as a copy. Not as
    many members as an append has copies can have missed a promotion, or its master had not opened.
    """
    informed = [said for said in heard.values() if said.forgot != "all"]
    return len(informed) >= copies or len(heard) >= len(members)


def why_uninformed(members: Sequence[str], heard: Mapping[str, GroupState]) -> str:
    """For people: why a slave that forgot all promotions waits."""
    silent = ", ".join(member for member in members if member not in heard)
    return f"it began empty, and has not heard {silent}, who may know of a later promotion"


def why_asking(
    node: str, record: GroupRecord, silent: Sequence[str], heard: Mapping[str, GroupState]
) -> str:
    """For people: why the master `node` is still closed."""
    empty = [member for member, said in heard.items() if said.forgot]
    if record.forgot:
        empty.insert(0, node)
    text = f"has not heard {', '.join(silent)}"
    if len(empty) == len(heard) + 1 and not record.history:
        whom, know = ("it", "it knows") if len(silent) == 1 else ("them", "they know")
        waits = f"waits for {whom} to start, if the group is new, or to say what {know}"
        return f"{text}: {waits} ({', '.join(empty)} began empty, or lost bytes)"
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
    """The record of a slave whose log had a partial record at its end cut when the store opened.

    A slave reports whatever bytes it has, so its mark may be within a record. No master can have
    acknowledged such a record, because it acknowledges whole ones. So a mark of its own is never
    lowered.

    Args:
        certain: whether nothing else can have been cut, after an ordered stop, or because all
            reported bytes were synced.
    """
    own = bool(record.history) and record.history[-1].master == node
    if own or not certain or not end_bytes < record.high_water_bytes <= end_bytes + kept_bytes:
        return record
    return attrs.evolve(record, high_water_bytes=end_bytes)


def after_cut(record: GroupRecord, end_bytes: int) -> GroupRecord:
    """The record after the log was cut at `end_bytes`, without what it had of the rest."""
    return attrs.evolve(
        record,
        history=cut(record.history, end_bytes),
        high_water_bytes=min(record.high_water_bytes, end_bytes),
        cut_bytes=None,
    )


def after_loss(record: GroupRecord, end_bytes: int) -> GroupRecord:
    """The record of a slave whose log was longer once than it is now at a start.

    An empty log of a slave that has followed a master was perhaps removed: the mark on the disk may
    be a second old, and show nothing.
    """
    lost = end_bytes < record.high_water_bytes or (end_bytes == 0 and bool(record.history))
    return attrs.evolve(record, forgot="log") if lost and not record.forgot else record


@attrs.define(kw_only=True)
class Question:
    """A slave's connection that waits for its verdict.

    Attributes:
        end_bytes: the end of the slave's log.
        number: the number of the first question that its master was asked for it.
    """

    session: int
    end_bytes: int
    number: int = 0


@attrs.frozen(kw_only=True)
class SlaveVerdict:
    """The verdict on a slave: its new state, its new record, and what its connection does."""

    state: RoleState
    reason: str
    record: GroupRecord
    verdict: Verdict
    event: object


def judge(node: str, record: GroupRecord, question: Question, said: GroupState) -> SlaveVerdict:
    """Judge whether a slave's log is a part of its master's, by the master's own state."""
    session, end = question.session, question.end_bytes
    found = compare(record.history, end, said.history, said.written)
    if found.kind is Kind.FITS:
        forgot = record.forgot if said.written else ""
        return SlaveVerdict(
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
        f" to {found.consistent_bytes} only: `resync {node}` sets the rest aside"
    )
    return SlaveVerdict(
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
