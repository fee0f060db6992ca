"""A group's state machine, its snapshots and their way to a member, broken on purpose, one rule at
a time: functions that patch. As in `broken_actors`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import attrs
from broken_core import Mutation, Patch

from actors.dledger.machine import machine_run, snapshot_keeping, state_machine_caller
from actors.dledger.machine.state_machine_caller import SnapshotTaking
from actors.dledger.replication import append_waits
from actors.storage.ledger.snapshots import Reader
from actors.storage.log.commit_log import CommitLog
from actors.trees import dledger as trees


def snapshot_says_one_more(patch: Patch) -> None:
    """A snapshot says that it stands for one entry more than the machine has."""
    real: Any = SnapshotTaking.begin

    def begin(machine: Any, folder: Any, index: int, term: int) -> Any:
        return real(machine, folder, index + 1, term)

    patch.setattr(SnapshotTaking, "begin", staticmethod(begin))


def snapshot_is_not_synced(patch: Patch) -> None:
    """A snapshot gets its name while it is in the page cache: a power loss may leave a torn one."""

    async def sync_paths(self: Any, paths: tuple[str, ...], number: int) -> None:
        await self.ctx.self_ref.tell(state_machine_caller._Synced(number=number))

    patch.setattr(state_machine_caller.StateMachineCaller, "_sync_paths", sync_paths)


def torn_snapshot_is_loaded(patch: Patch) -> None:
    """Nobody looks at a snapshot's checksum."""

    def read(self: Any, size: int = 1 << 20) -> bytes:
        data: bytes = self._file.pread(self.at_bytes, size)
        self.at_bytes += len(data)
        return data

    patch.setattr(Reader, "read", read)


def log_goes_before_its_snapshot(patch: Patch) -> None:
    """The log lets go of entries that come soon behind the last snapshot, too."""
    real: Any = snapshot_keeping.SnapshotKeeping.floor

    def floor(self: Any) -> int | None:
        index = real.fget(self)
        return None if index is None else index + 60

    patch.setattr(snapshot_keeping.SnapshotKeeping, "floor", property(floor))


def last_entry_again_after_a_load(patch: Patch) -> None:
    """The entry that a snapshot ends with is applied once more."""
    real = machine_run.MachineRun.load

    def load(self: Any, disk: Any, snapshot: Any) -> Generator[None, None, None]:
        yield from real(self, disk, snapshot)
        self.applied = snapshot.index - 1

    patch.setattr(machine_run.MachineRun, "load", load)


def installed_is_not_loaded(patch: Patch) -> None:
    """A member that has applied something keeps its machine when a snapshot comes."""
    real = machine_run.MachineRun.load

    def load(self: Any, disk: Any, snapshot: Any) -> Generator[None, None, None]:
        if self.applied < 0:
            yield from real(self, disk, snapshot)
        self.applied, self.term = snapshot.index, snapshot.term

    patch.setattr(machine_run.MachineRun, "load", load)


def install_keeps_the_old_tail(patch: Patch) -> None:
    """A log that begins anew behind a snapshot keeps the files that it had."""

    def restart_at(self: Any, offset_bytes: int) -> None:
        self._close_handles()
        while self._bases:
            self._forget(self._bases.pop())
        self.written_bytes = self._reserved_bytes = offset_bytes

    patch.setattr(CommitLog, "restart_at", restart_at)


def machine_takes_what_is_written(patch: Patch) -> None:
    """A machine is given entries before they are committed."""
    real = state_machine_caller.StateMachineCaller._grew

    def grew(self: Any, log: Any) -> None:
        real(self, attrs.evolve(log, committed_index=log.end_index))

    patch.setattr(state_machine_caller.StateMachineCaller, "_grew", grew)


def results_of_the_entry_before(patch: Patch) -> None:
    """Whoever appended an entry gets the result of the one before."""
    real = append_waits.AppliedResults.add

    def add(self: Any, last: int, results: tuple[object, ...]) -> None:
        real(self, last + 1, results)

    patch.setattr(append_waits.AppliedResults, "add", add)


def answered_before_it_is_applied(patch: Patch) -> None:
    """An append is answered when it is committed, whatever the machine has."""
    real = trees.Quorum
    patch.setattr(trees, "Quorum", lambda **given: real(**{**given, "by_applied": False}))


def passed_snapshot_is_loaded(patch: Patch) -> None:
    """A snapshot that has come is loaded though the machine has meanwhile applied more than it
    stands for.
    """
    real = state_machine_caller.StateMachineCaller._synced

    async def synced(self: Any, number: int) -> None:
        install, applied = self._install, self._run.applied
        if install is not None and number == install.number:
            self._run.applied = -1
        await real(self, number)
        self._run.applied = applied

    patch.setattr(state_machine_caller.StateMachineCaller, "_synced", synced)


MACHINE_MUTATIONS: tuple[Mutation, ...] = (
    snapshot_says_one_more,
    snapshot_is_not_synced,
    torn_snapshot_is_loaded,
    log_goes_before_its_snapshot,
    last_entry_again_after_a_load,
    installed_is_not_loaded,
    install_keeps_the_old_tail,
    machine_takes_what_is_written,
    results_of_the_entry_before,
    answered_before_it_is_applied,
    passed_snapshot_is_loaded,
)
