"""Fresh reads: up to where a reader must see the log to miss nothing acknowledged before it asked.

This is DLedger's read index, for a master that an operator chose. The master alone cannot prove
that it still is master: it may have stood still while another node was promoted, or have opened its
log and not know yet what was acknowledged before. The proof is that other members, asked since the
reader came, act by the same promotion:

- Whatever another master acknowledged by a later promotion was held by `copies` nodes that acted by
  that promotion, the master included. So if all but `copies - 1` of the n nodes that can be asked
  act by the present promotion, there was no such master
  (`actors.config.classic_guarantees.others_needed`).
- Whatever was acknowledged before the present master opened its log lies below where it opened. It
  waits until that is acknowledged again, as a Raft leader waits for an entry of its own term.

A node that began empty does not count before it knows the promotions again. After a promotion by
force, counting members proves nothing, so all of them have to agree.

The role keeper asks the questions: one to each other member for all reads that wait, and at most
one round of them at a time. A read that comes during a round waits for the next one, because the
answers must be younger than the read.

Upstream: DLedger's read index, openmessaging/dledger 0.3.x, DLedgerServer.handleGet; Raft, section
8 of the extended paper. Classic HA has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import attrs

from actors.ha.core.role_effects import Role, RoleState, RoleView
from actors.log_types import GroupState

T = TypeVar("T")

ASK_AGAIN_S: Final = 0.5
"""The pause before a member is asked again, in seconds: a question may be lost with its connection,
and an answer may be that the master is not open yet.
"""
FRESH_READS_MAX: Final = 1024
"""How many reads may wait for the members' answers at once."""


def fresh_offset(
    node: str, own: RoleView, states: Mapping[str, GroupState], needed: Callable[[bool], int]
) -> int | str:
    """The offset up to which a read here is fresh, or why it is unknown.

    Args:
        node: this node.
        own: this node's role.
        states: the states of other members, asked for since the read came.
        needed: how many of them have to agree, by whether the master opened by force.

    Returns: on the master, where it opened its log; the end of what it has acknowledged itself may
        be higher. On a slave, the end of what the master has acknowledged.
    """
    if own.forgot == "all":
        return f"{node} began empty and does not know yet who is master"
    later = [name for name, said in states.items() if said.number > own.number]
    if later:
        return f"{later[0]} acts by a later promotion than {node}"
    forced = own.forced
    if own.master == node:
        if own.role is not Role.MASTER or own.state is not RoleState.OPEN or not own.history:
            return f"{node} is its master and not open: {own.reason or own.state.value}"
        offset = own.history[-1].start_bytes
    else:
        said = states.get(own.master)
        if said is None:
            return f"its master {own.master} has not answered {node}"
        if (said.number, said.master, said.state) != (own.number, own.master, "open"):
            return f"its master {own.master} is not open: {said.reason or said.state}"
        begun = said.history[-1].start_bytes if said.history else 0
        if said.acknowledged < begun:
            return f"its master {own.master} has not got the copies yet of what is below {begun}"
        offset, forced = said.acknowledged, said.forced
    agree = [
        name
        for name, said in states.items()
        if (said.number, said.master) == (own.number, own.master) and said.forgot != "all"
    ]
    if len(agree) < needed(forced):
        others = f"{len(agree)} of the other members, {needed(forced)} have to"
        return f"{own.master} may have been replaced as its master: agree, asked just now, {others}"
    return offset


@attrs.frozen(kw_only=True)
class Refused:
    """What is fresh could not be found out in time.

    Attributes:
        reason: why not, for people.
    """

    reason: str


@attrs.frozen(kw_only=True)
class Effects(Generic[T]):
    """What one look at the reads asks for.

    Attributes:
        ask: the members to ask for their states, each with the question's number.
        done: the reads that are answered, with the offset or why there is none.
        deadline_s: when to call `settle` again; None: not needed.
    """

    ask: tuple[tuple[str, int], ...]
    done: tuple[tuple[T, int | Refused], ...]
    deadline_s: float | None


@attrs.define(kw_only=True)
class _Read(Generic[T]):
    """A read that waits.

    Attributes:
        question: the first question that was asked since it came; 0 for none.
    """

    key: T
    deadline_s: float
    question: int = 0


@attrs.define(kw_only=True)
class FreshReads(Generic[T]):
    """The fresh reads of one group on one node.

    Attributes:
        node: this node.
        members: the other members that can be asked.
        needed: see `fresh_offset`.
    """

    node: str
    members: tuple[str, ...]
    needed: Callable[[bool], int]
    _reads: list[_Read[T]] = attrs.field(factory=list)
    _answers: dict[str, tuple[int, GroupState]] = attrs.field(factory=dict)
    _again_s: float = 0.0

    def add(self, key: T, deadline_s: float) -> bool:
        """Add a read. Returns: False if there is no room for it."""
        if len(self._reads) >= FRESH_READS_MAX:
            return False
        self._reads.append(_Read(key=key, deadline_s=deadline_s))
        return True

    def heard(self, member: str, state: GroupState, asked: int) -> None:
        """Note a member's state.

        Args:
            asked: the number of the question that it answers.
        """
        known = self._answers.get(member)
        if member in self.members and asked > 0 and (known is None or asked >= known[0]):
            self._answers[member] = asked, state

    def settle(self, own: RoleView | None, now_s: float, draw: Callable[[], int]) -> Effects[T]:
        """Answer the reads that can be answered, and ask members for the others.

        Args:
            own: this node's role; None while it changes.
            draw: gives the number of the next question.
        """
        done: list[tuple[T, int | Refused]] = []
        kept = []
        for read in self._reads:
            found = self._offset(read, own)
            if isinstance(found, int):
                done.append((read.key, found))
            elif now_s >= read.deadline_s:
                done.append((read.key, Refused(reason=found)))
            else:
                kept.append(read)
        self._reads = kept
        ask = self._next_round(now_s, draw) if kept else ()
        times = [self._again_s, *(read.deadline_s for read in kept)] if kept else []
        return Effects(ask=ask, done=tuple(done), deadline_s=min(times, default=None))

    def _offset(self, read: _Read[T], own: RoleView | None) -> int | str:
        if own is None:
            return f"{self.node} just takes another part"
        states = {
            member: state
            for member, (asked, state) in self._answers.items()
            if 0 < read.question <= asked
        }
        return fresh_offset(self.node, own, states, self.needed)

    def _next_round(self, now_s: float, draw: Callable[[], int]) -> tuple[tuple[str, int], ...]:
        """The questions of the next round, or again those whose answers were lost or not enough.

        There is one round at a time.
        """
        if any(read.question for read in self._reads) and now_s < self._again_s:
            return ()
        number = draw()
        for read in self._reads:
            read.question = read.question or number
        self._again_s = now_s + ASK_AGAIN_S
        return tuple((member, number) for member in self.members)
