"""A user's state machine in the hands of its caller: how far it is, and what it may raise.

Upstream: openmessaging/dledger, statemachine/StateMachineCaller.java, tag 0.4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import attrs

from actors.dledger.session_messages import Leading, Told
from actors.env.protocols import Disk
from actors.errors import MachineFailed, StorageError
from actors.state_machine import LogEntry, StateMachine
from actors.storage.ledger.entry_window import AHEAD_BYTES, EntryWindow
from actors.storage.ledger.ledger import IndexGone
from actors.storage.ledger.snapshots import Reader, Snapshot

APPLY_ENTRIES_MAX: Final = 1024
"""Given to the machine by one call; then other messages get a turn."""
T = TypeVar("T")


WORDS_MAX: Final = 500
"""Characters of what a machine raised that are passed on."""


def machine_failed(what: str, error: Exception) -> MachineFailed:
    """For a caller that calls the machine: what it raised, in one line."""
    words = " ".join(str(error).split())[:WORDS_MAX]
    return MachineFailed(f"the state machine's {what} failed: {type(error).__name__}: {words}")


@contextmanager
def of_group(name: str) -> Iterator[None]:
    """What a machine raises here says whose it is."""
    try:
        yield
    except MachineFailed as failed:
        failed.args = (f"group {name}: {failed}",)
        raise


class Given(list[LogEntry]):
    """Entries of one call, and how far the machine has gone through them."""

    taken = 0

    def __iter__(self) -> Iterator[LogEntry]:
        for self.taken, each in enumerate(super().__iter__(), 1):
            yield each

    @property
    def which(self) -> str:
        """Which entries failed, as text for people. A machine that goes through them one by one
        failed on the one taken last.
        """
        first, last = self[0].index, self[-1].index
        if first == last:
            return f"entry {first}"
        at = f", at {self[self.taken - 1].index}" if self.taken else ""
        return f"entries {first} to {last}{at}"


@attrs.define
class MachineRun:
    """See the module's text. All raise MachineFailed where the machine raises.

    Attributes:
        machine: in the state that all up to `applied` has made.
        window: of the log; nothing uncommitted is read.
        applied, term: of the last entry that it has; -1: none.
        body_bytes: given to it so far.
    """

    machine: StateMachine
    window: EntryWindow
    applied: int = -1
    term: int = -1
    body_bytes: int = 0
    _started: int | None = None  # the term it was told to lead

    @classmethod
    def make(cls, make: Callable[[], StateMachine], window: EntryWindow) -> MachineRun:
        """A machine in its first state."""
        return cls(_call("making", make), window)

    def apply(self, begin: int, committed: int) -> tuple[object, ...]:
        """Give it the next committed entries, if there are any.

        Args:
            begin: of the log.

        Returns:
            For each entry that it has now, what it gave; None for one without a body.

        Raises: StorageError: what it needs next has left the log.
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
            return ()  # the news of it still waits
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
            what = f"gave {len(found)} results for {len(given)} entries"
            raise MachineFailed(f"the state machine's apply() of {given.which} {what}")
        return found

    def may_apply(self, told: Told | None, committed: int) -> int:
        """Up to where it is given entries: a leader's machine hears that it leads before those of
        its own term.
        """
        if isinstance(told, Leading) and self._started is None and self.applied < told.end:
            return min(committed, told.end)
        return committed

    def load(self, disk: Disk, snapshot: Snapshot) -> Generator[None, None, None]:
        """Have it be what the snapshot says, in the steps of its own `load`.

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

    def lead(self, told: Told | None) -> None:
        """Tell it that it leads, once all that was there before is applied; or that it leads no
        more.
        """
        leads = isinstance(told, Leading)
        term = self._started
        if term is not None and (told is None or not leads or told.term != term):
            self._started = None
            _call("leader_stopped()", lambda: self.machine.leader_stopped(term))
        if isinstance(told, Leading) and self._started is None and self.applied >= told.end:
            self._started = told.term
            _call("leader_started()", lambda: self.machine.leader_started(told.term))


def _call(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:
        raise machine_failed(what, error) from error
