"""Our own code, broken on purpose, one rule at a time: functions that patch.

`sim_mutations` finds out which checker notices each; `test_sim_mutations` sees to it that it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from broken_roles import (
    a_member_is_heard_once,
    conflation_in_place,
    fresh_before_the_copies_are_back,
    fresh_is_what_the_master_believes,
    nobody_confirms_the_master,
    promotion_number_ignored,
    truncation_keeps_the_mark,
    truncation_keeps_what_was_derived,
)
from broken_store import (
    bad_sectors_end_cleaning,
    checkpoint_ahead,
    damaged_bytes_leave,
    derived_rot_is_believed,
    dispatcher_ahead_of_log,
    failed_sync_at_a_stop,
    files_need_room,
    made_again_is_dropped,
    mark_before_sync,
    names_are_not_synced,
    no_page_seal,
    no_sync_at_the_start,
    one_files_time_is_believed,
    readers_forget_at_a_crash,
    received_twice,
    recovery_cuts_below_the_mark,
    repair_takes_what_comes,
    room_again_is_not_reported,
    show_what_is_not_acknowledged,
    syncs_one_file_only,
    torn_record_kept,
    young_files_expire,
)

from actors.ha.core import report_progress, slave_progress
from actors.ha.core.ack_policy import Copies, Replica
from actors.ha.core.slave_progress import SlaveProgress
from actors.ha.core.start_rule import FirstByte, LastFile
from actors.ha.core.transfer_wait import TransferWait, _Slave
from actors.ha.settings import ClientSettings, ConnectionSettings
from actors.storage.log.commit_log import CommitLog
from actors.trees import classic, commit_log

Patch = pytest.MonkeyPatch

Mutation = Callable[[Patch], None]


# ---- acknowledging ----


def acknowledge_before_write(patch: Patch) -> None:
    """The log takes bytes for written that it writes with the next ones."""
    real, late = CommitLog.append, dict[int, bytes]()

    def append(log: CommitLog, data: Any, size_bytes: int | None = None) -> None:
        before = late.pop(id(log), b"")
        at = log.written_bytes
        if before:
            log.written_bytes -= len(before)
            real(log, before)
        assert log.written_bytes == at
        log.reserve(at + len(data))
        if size_bytes is not None or not isinstance(data, bytes | bytearray | memoryview):
            real(log, data, size_bytes)  # held bytes are a receiver's, who gives them once
        elif at // log.segment_bytes == (at + len(data)) // log.segment_bytes:
            late[id(log)] = bytes(data)
            log.written_bytes += len(data)
        else:
            real(log, data)

    patch.setattr(CommitLog, "append", append)


def acknowledge_before_the_slaves(patch: Patch) -> None:
    """Group transfer answers without copies."""

    def held_bytes(wait: TransferWait[Any]) -> int:
        return wait._extent.durable_bytes(synced=wait.synced)

    patch.setattr(TransferWait, "held_bytes", held_bytes)


def one_copy_less(patch: Patch) -> None:
    """The master counts twice."""

    def make(**given: Any) -> TransferWait[Any]:
        fewer = max(1, given["copies"] - 1)
        return TransferWait(**{**given, "copies": fewer, "policy": Copies(fewer)})

    patch.setattr(classic, "TransferWait", make)


def acknowledge_before_own_sync(patch: Patch) -> None:
    """The master's own copy counts as soon as it is written."""
    patch.setattr(
        classic, "TransferWait", lambda **given: TransferWait(**{**given, "synced": False})
    )


def timed_out_is_done(patch: Patch) -> None:
    """At its deadline an append is answered as if it had its copies."""
    real = TransferWait.settle

    def settle(wait: TransferWait[Any], now_s: float) -> Any:
        effects = real(wait, now_s)
        late = tuple((each, wait.copies) for each in effects.timed_out)
        done = tuple(sorted((*effects.done, *late), key=lambda pair: pair[0].next_bytes))
        return attrs.evolve(effects, done=done, timed_out=())

    patch.setattr(TransferWait, "settle", settle)


def sockets_count_as_nodes(patch: Patch) -> None:
    """Each connection of a slave is a copy of its own, as long as nobody has noticed its end."""

    def acked(
        wait: TransferWait[Any], slave: str, connection: int, offset: int, now_s: float
    ) -> None:
        live = wait._slaves[slave].live
        wait._replicas = None
        if connection in live:
            live[connection].held = Replica(slave, offset, now_s)

    patch.setattr(TransferWait, "acked", acked)
    patch.setattr(_Slave, "counted", property(lambda slave: tuple(slave.live.values())))


def stale_connection_counts(patch: Patch) -> None:
    """What a slave once said counts for good, also when its connection has ended and a newer one
    says that it holds less.
    """

    def counted(slave: _Slave) -> Any:
        heard = [each for each in slave.live.values() if each.held is not None]
        return tuple(heard and [max(heard, key=lambda each: each.held.end_bytes)])

    patch.setattr(TransferWait, "gone", lambda *args: None)
    patch.setattr(_Slave, "counted", property(counted))


def part_of_the_range_counts(patch: Patch) -> None:
    """An empty slave gets the last file only, and counts although it lacks all before it."""
    real = TransferWait
    patch.setattr(classic, "TransferWait", lambda **given: real(**{**given, "whole_range": False}))
    dialect = classic.classic_dialect

    def make(compat: Any) -> Any:
        return attrs.evolve(dialect(compat), start_rule=LastFile())

    patch.setattr(classic, "classic_dialect", make)


# ---- sending, receiving, reporting ----


def send_before_sync(patch: Patch) -> None:
    """Bytes leave the master before its own sync."""
    patch.setattr(
        commit_log,
        "ConnectionSettings",
        lambda **given: ConnectionSettings(**{**given, "synced": False}),
    )


def report_before_sync(patch: Patch) -> None:
    """A slave reports what it has written."""
    patch.setattr(
        classic, "ClientSettings", lambda **given: ClientSettings(**{**given, "synced": False})
    )


def report_before_write(patch: Patch) -> None:
    """A slave reports what it has received."""
    real = SlaveProgress._reportable_bytes

    def reportable(progress: Any) -> int:
        return max(real(progress), progress._next_bytes or 0)

    def reported(progress: Any, offset_bytes: int, now_s: float) -> None:
        progress._reported_bytes = max(offset_bytes, progress._reported_bytes or 0)
        progress.last_write_s = now_s

    patch.setattr(SlaveProgress, "_reportable_bytes", reportable)
    patch.setattr(SlaveProgress, "reported", reported)


def no_check_of_reports(patch: Patch) -> None:
    """The master believes every report."""
    patch.setattr(report_progress.ReportProgress, "_why_not", lambda *args: None)


def no_offset_check(patch: Patch) -> None:
    """A slave writes what comes, wherever its master says that it belongs.

    Our master always goes on where the slave's report ends, and the slave's store looks, too. So
    the master begins a little lower, and the store looks no more either.
    """
    real = CommitLog.append_raw

    def start_frame(progress: Any, head: Any) -> Any:
        progress._frame_counts = head.size > 0
        progress._next_bytes = head.offset
        progress._frame_end_bytes = head.offset + head.size
        progress.frames_accepted += 1
        return slave_progress.NOTHING

    def append_raw(
        log: CommitLog, offset_bytes: int, data: Any, size_bytes: int | None = None
    ) -> None:
        real(log, offset_bytes if log.is_empty else log.written_bytes, data, size_bytes)

    def start_bytes(rule: Any, report_bytes: int, extent: Any, segment_bytes: int) -> int:
        return max(extent.min_bytes, report_bytes - segment_bytes // 4)

    patch.setattr(SlaveProgress, "_start_frame", start_frame)
    patch.setattr(CommitLog, "append_raw", append_raw)
    patch.setattr(FirstByte, "start_bytes", start_bytes)


MUTATIONS: tuple[Mutation, ...] = (
    acknowledge_before_write,
    acknowledge_before_the_slaves,
    one_copy_less,
    acknowledge_before_own_sync,
    timed_out_is_done,
    sockets_count_as_nodes,
    stale_connection_counts,
    part_of_the_range_counts,
    send_before_sync,
    report_before_sync,
    report_before_write,
    no_check_of_reports,
    no_offset_check,
    promotion_number_ignored,
    a_member_is_heard_once,
    fresh_is_what_the_master_believes,
    nobody_confirms_the_master,
    fresh_before_the_copies_are_back,
    truncation_keeps_what_was_derived,
    truncation_keeps_the_mark,
    damaged_bytes_leave,
    repair_takes_what_comes,
    derived_rot_is_believed,
    syncs_one_file_only,
    mark_before_sync,
    files_need_room,
    room_again_is_not_reported,
    recovery_cuts_below_the_mark,
    torn_record_kept,
    no_page_seal,
    no_sync_at_the_start,
    failed_sync_at_a_stop,
    names_are_not_synced,
    received_twice,
    young_files_expire,
    bad_sectors_end_cleaning,
    one_files_time_is_believed,
    checkpoint_ahead,
    dispatcher_ahead_of_log,
    made_again_is_dropped,
    conflation_in_place,
    show_what_is_not_acknowledged,
    readers_forget_at_a_crash,
)
"""All of them, each a rule of ours that is not kept."""
