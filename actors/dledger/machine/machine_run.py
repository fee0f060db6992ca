"""A user's state machine as its caller runs it: what it has applied, and what it may raise.

Upstream: openmessaging/dledger, statemachine/StateMachineCaller.java, tag 0.4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import attrs

from actors.dledger.session_messages import Leading, SessionChange
from actors.env.protocols import Disk
from actors.errors import MachineFailed, StorageError
from actors.readable import counted
from actors.state_machine import LogEntry, StateMachine
from actors.storage.ledger.entry_window import AHEAD_BYTES, EntryWindow
from actors.storage.ledger.ledger import IndexGone
from actors.storage.ledger.snapshots import Reader, Snapshot

APPLY_ENTRIES_MAX: Final = 1024
"""The most entries given to the machine by one call; then other messages get a turn."""
T = TypeVar("T")


REASON_CHARS_MAX: Final = 500
"""How many characters of an error of the machine are passed on."""


def machine_failed(what: str, error: Exception) -> MachineFailed:
    """Return the error, in one line, of a member whose machine raised `error` in a call."""
    text = " ".join(str(error).split())[:REASON_CHARS_MAX]
    return MachineFailed(f"the state machine's {what} failed: {type(error).__name__}: {text}")


@contextmanager
def of_group(name: str) -> Iterator[None]:
    """Name the group in a MachineFailed that is raised in this block."""
    try:
        yield
    except MachineFailed as failed:
        failed.args = (f"group {name}: {failed}",)
        raise


class Given(list[LogEntry]):
    """The entries of one call, and how far the machine has gone through them."""

    taken = 0

    def __iter__(self) -> Iterator[LogEntry]:
        for self.taken, each in enumerate(super().__iter__(), 1):
            yield each

    @property
    def which(self) -> str:
        """The entries on which a call failed, for people.

        A machine that takes its entries one by one failed on the one that it took last.
        """
        first, last = self[0].index, self[-1].index
        if first == last:
            return f"entry {first}"
        at = f", at {self[self.taken - 1].index}" if self.taken else ""
        return f"entries {first} to {last}{at}"


@attrs.define
class MachineRun:
    """A state machine and its position. Methods raise MachineFailed where the machine raises.

    Attributes:
        machine: the user's machine, in the state after all entries up to `applied`.
        window: reads the log; nothing uncommitted is read.
        applied, term: index and term of the last entry that the machine has; -1 for none.
        body_bytes: how many bytes of bodies the machine was given so far.
    """

    machine: StateMachine
    window: EntryWindow
    applied: int = -1
    term: int = -1
    body_bytes: int = 0
    _started: int | None = None  # the term in which it was called as leader

    @classmethod
    def make(cls, make: Callable[[], StateMachine], window: EntryWindow) -> MachineRun:
        """Make a machine in its first state."""
        return cls(_call("making", make), window)

    def apply(self, begin: int, committed: int) -> tuple[object, ...]:
        """Give the machine the next committed entries, if there are any.

        Args:
            begin: the log's first entry.

        Returns:
            The machine's result for each of these entries; None for one without a body.

        Raises: StorageError: the next entry that it needs has been removed from the log.
        """
        first = self.applied + 1
        if first > committed:
            return ()
        if first < begin:
            raise StorageError(
                f"the state machine needs entry {first}, the log begins at {begin}, and no whole"
                " snapshot covers what is between. To have this member begin anew, remove all but"
                " currterm, its vote, from its folder of the group"
            )
        self.window.end = committed
        try:
            behind = self.window.fits(first, committed, AHEAD_BYTES)
            entries = self.window.entries(first, min(behind, first + APPLY_ENTRIES_MAX - 1))
        except IndexGone:
            return ()  # the report of that cut is still in the mailbox
        given = Given(LogEntry(one.index, one.term, one.body) for one in entries if one.body)
        found = self._give(given) if given else []
        self.applied, self.term = entries[-1].index, entries[-1].term
        self.body_bytes += sum(len(one.body) for one in given)
        results = iter(found)
        return tuple(next(results) if one.body else None for one in entries)

    def _give(self, given: Given) -> list[object]:
        try:
            found = list(self.machine.apply(given))
        except Exception as error:
            raise machine_failed(f"apply() of {given.which}", error) from error
        if len(found) != len(given):
            what = (
                f"gave {counted(len(found), 'result')} for"
                f" {counted(len(given), 'entry', 'entries')}"
            )
            raise MachineFailed(f"the state machine's apply() of {given.which} {what}")
        return found

    def may_apply(self, change: SessionChange | None, committed: int) -> int:
        """Return the last entry that the machine may be given now.

        A leader's machine is called as leader before it gets entries of its own term.
        """
        if isinstance(change, Leading) and self._started is None and self.applied < change.end:
            return min(committed, change.end)
        return committed

    def load(self, disk: Disk, snapshot: Snapshot) -> Generator[None, None, None]:
        """Have the machine load a snapshot, in the steps of its own `load`.

        Raises: SnapshotDamaged, OSError.
        """
        reader = Reader.open(disk, snapshot)
        try:
            for _ in self.machine.load(reader.chunks()) or ():
                yield
            if reader.at_bytes != snapshot.size_bytes:
                raise MachineFailed("the state machine's load() has not read to the end")
        except (MachineFailed, StorageError, OSError):
            raise
        except Exception as error:
            raise machine_failed("load()", error) from error
        finally:
            reader.close()
        self.applied, self.term = snapshot.index, snapshot.term

    def lead(self, change: SessionChange | None) -> None:
        """Call the machine's hook for a leader once all entries before its term are applied.

        Call the hook for the end of a leadership if this member leads no more.
        """
        leads = isinstance(change, Leading)
        term = self._started
        if term is not None and (change is None or not leads or change.term != term):
            self._started = None
            _call("leader_stopped()", lambda: self.machine.leader_stopped(term))
        if isinstance(change, Leading) and self._started is None and self.applied >= change.end:
            self._started = change.term
            _call("leader_started()", lambda: self.machine.leader_started(change.term))


def _call(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:
        raise machine_failed(what, error) from error
