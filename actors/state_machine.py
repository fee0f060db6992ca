"""What a user writes to have a DLedger group run a state machine: `StateMachine`.

Upstream: openmessaging/dledger, statemachine/StateMachine.java, CommittedEntryIterator.java,
tag 0.4.0.

Differs: entries come in batches and each has a result, which its appender gets; leadership is
reported; a machine is made anew at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs


@attrs.frozen
class LogEntry:
    """A committed entry.

    Attributes:
        index: in the log, from 0 on; indexes rise, with gaps where a leader opened its term.
        term: of the leader that appended it.
        body: what was appended, never empty.
    """

    index: int
    term: int
    body: bytes


class StateMachine(Protocol):
    """One member's copy of what a group's entries come to. Made by a function without arguments at
    each start of the member, in its first state.

    Every member applies the same entries in the same order, so a method may depend on nothing but
    these: no clock, no randomness. All methods are called by one actor, one at a time, and run on
    the event loop: what takes longer than some milliseconds holds up the node.

    Errors: an exception of any of them ends the member, for its state is in doubt.
    """

    def apply(self, entries: Sequence[LogEntry]) -> Sequence[object]:
        """Take entries that follow on those before.

        Returns:
            One result for each entry, in order. Where an entry was appended on this member, the
            appender gets it.
        """

    def save(self) -> Iterable[bytes]:
        """The state as it is now, in chunks of any size (a megabyte or less is good); together at
        least one byte.

        A list or a tuple is taken as it is, and entries are applied while it is written. Anything
        else, a generator most of all, is read step by step, and entries wait until it has ended.
        """

    def load(self, chunks: Iterator[bytes]) -> Iterable[None] | None:
        """Replace the state, whatever it was, by one that `save` gave.

        Args:
            chunks: the same bytes, in chunks of other sizes; read to its end.

        Returns:
            None, or, from a generator function, what lets others run at every step.
        """

    def leader_started(self, term: int) -> None:
        """This member leads `term`, and all entries of earlier terms have been applied."""

    def leader_stopped(self, term: int) -> None:
        """It does not lead that term any more. Only after `leader_started`."""


Machines: TypeAlias = Mapping[str, Callable[[], StateMachine]]
"""By DLedger group: makes its machine, at each start of the node's member."""
