"""The slave's decisions: which bytes to take, what to report and when, when to come back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.ha.core import slave_progress
from actors.ha.core.dialect import ClassicDialect
from actors.ha.core.extent import LogExtent
from actors.ha.core.reconnect import BACKOFF_MAX_S, Reconnect
from actors.ha.core.slave_progress import Append, Effects, SlaveProgress
from actors.ha.core.states import (
    MASTER_TRANSITIONS,
    SLAVE_TRANSITIONS,
    HAConnectionState,
    Lost,
    Trigger,
    after,
)
from wire.ha.classic import FRAME_BODY_MAX, encode_frame_header

FILE = 1000


def frame(offset: int, body: bytes) -> bytes:
    return encode_frame_header(offset, len(body)) + body


def connected(
    written: int, synced_bytes: int | None = None, *, synced: bool = False
) -> SlaveProgress:
    return SlaveProgress(
        dialect=ClassicDialect(),
        synced=synced,
        segment_bytes=FILE,
        heartbeat_s=5.0,
        housekeeping_s=20.0,
        extent=LogExtent(0, written, written if synced_bytes is None else synced_bytes),
        last_read_s=0.0,
        last_write_s=0.0,
    )


def reporting(progress: SlaveProgress, effects: Effects, now_s: float) -> int | None:
    """Carry the report out, as the actor does."""
    if effects.report_bytes is not None:
        progress.reported(effects.report_bytes, now_s)
    return effects.report_bytes


def began(written: int, *, synced: bool = False) -> SlaveProgress:
    progress = connected(written, synced=synced)
    assert reporting(progress, progress.begin(), 0.0) == written
    return progress


@pytest.mark.checklist(15)
def test_the_first_report_is_the_end_of_the_log_at_once() -> None:
    assert connected(0).begin().report_bytes == 0
    assert connected(1234, 1000).begin().report_bytes == 1234


@pytest.mark.checklist(15)
def test_a_synced_slave_reports_first_when_all_is_synced() -> None:
    progress = connected(1234, 1000, synced=True)
    assert progress.begin() == slave_progress.NOTHING
    assert progress.tick(6.0) == slave_progress.NOTHING
    assert progress.grew(LogExtent(0, 1234, 1100)) == slave_progress.NOTHING
    assert progress.grew(LogExtent(0, 1234, 1234)).report_bytes == 1234


@pytest.mark.checklist(18)
def test_a_frame_split_anywhere_is_applied_once() -> None:
    stream = frame(0, b"abcdefgh") + frame(8, b"") + frame(8, b"ij")
    for cut in range(len(stream) + 1):
        progress = began(0)
        pieces = progress.received(stream[:cut], 1.0).append if cut else ()
        pieces += progress.received(stream[cut:], 1.0).append if cut < len(stream) else ()
        assert b"".join(piece.data for piece in pieces) == b"abcdefghij"
        ends = [piece.offset_bytes + len(piece.data) for piece in pieces if piece.ends_frame]
        assert ends == [8, 10]
        position = 0
        for piece in pieces:
            assert piece.offset_bytes == position
            position += len(piece.data)


def test_a_kept_body_is_appended_without_its_bytes_and_checked_like_any() -> None:
    progress = began(100)
    assert progress.received(encode_frame_header(100, 10), 1.0).append == ()
    assert progress.body_kept(4, 1.0).append == (Append(100, None, False),)
    assert progress.body_kept(6, 1.0).append == (Append(104, None, True),)
    assert reporting(progress, progress.grew(LogExtent(0, 110, 0)), 1.0) == 110
    assert progress.received(encode_frame_header(111, 10), 1.0).lost is Lost.OFFSET_MISMATCH
    assert progress.body_kept(10, 1.0) == slave_progress.NOTHING


@pytest.mark.checklist(16)
@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize("offset", [0, 99, 101, 10_000])
def test_a_frame_at_another_offset_appends_nothing(offset: int, size: int) -> None:
    progress = began(100)
    effects = progress.received(frame(offset, b"x" * size), 1.0)
    assert effects == Effects(lost=Lost.OFFSET_MISMATCH, expected_bytes=100, got_bytes=offset)
    assert progress.received(frame(100, b"x"), 1.0) == slave_progress.NOTHING


def test_what_came_before_a_refused_frame_is_kept() -> None:
    progress = began(100)
    effects = progress.received(frame(100, b"ok") + frame(100, b"again"), 1.0)
    assert effects.append == (Append(100, b"ok", ends_frame=True),)
    assert effects.lost == Lost.OFFSET_MISMATCH
    assert progress.frames_accepted == 1


@pytest.mark.checklist(17)
def test_an_empty_log_takes_a_multiple_of_the_file_size_only() -> None:
    taken = began(0).received(frame(3 * FILE, b"x"), 1.0)
    assert taken.append == (Append(3 * FILE, b"x", ends_frame=True),)
    for offset in (1, 999, 3001):
        refused = began(0).received(frame(offset, b"x"), 1.0)
        assert refused == Effects(lost=Lost.UNALIGNED, expected_bytes=0, got_bytes=offset)


@pytest.mark.checklist(17, 20)
def test_a_heartbeat_leaves_an_empty_log_empty() -> None:
    """A position without a byte would expire on the master, as bytes do, and end the copying."""
    progress = began(0)
    assert progress.received(frame(2 * FILE, b""), 1.0) == slave_progress.NOTHING
    assert progress.tick(6.0).report_bytes == 0
    taken = progress.received(frame(2 * FILE, b"x"), 7.0)
    assert taken.append == (Append(2 * FILE, b"x", ends_frame=True),)
    refused = began(0).received(frame(1, b""), 1.0)
    assert refused.lost == Lost.UNALIGNED


@pytest.mark.checklist(19)
def test_frames_of_the_largest_size_are_taken_and_others_close() -> None:
    progress = began(0)
    effects = progress.received(encode_frame_header(0, FRAME_BODY_MAX), 1.0)
    assert effects == slave_progress.NOTHING
    for size in (FRAME_BODY_MAX + 1, -1, -(2**31)):
        header = (0).to_bytes(8) + size.to_bytes(4, signed=True)
        assert began(0).received(header, 1.0).lost == Lost.BAD_FRAME


@pytest.mark.checklist(20)
def test_written_reports_ends_of_applied_frames_and_nothing_for_heartbeats() -> None:
    progress = began(100)
    progress.received(frame(100, b"a" * 50)[:40], 1.0)
    assert progress.grew(LogExtent(0, 128, 0)) == slave_progress.NOTHING  # inside the frame
    progress.received(frame(100, b"a" * 50)[40:] + frame(150, b"b") + frame(151, b""), 1.0)
    assert reporting(progress, progress.grew(LogExtent(0, 150, 0)), 1.0) == 150
    assert progress.grew(LogExtent(0, 150, 100)) == slave_progress.NOTHING  # a sync says nothing
    assert reporting(progress, progress.grew(LogExtent(0, 151, 0)), 1.0) == 151
    progress.received(frame(151, b""), 2.0)
    assert progress.grew(LogExtent(0, 151, 151)) == slave_progress.NOTHING


@pytest.mark.checklist(20)
def test_synced_reports_what_each_sync_covers() -> None:
    progress = began(100, synced=True)
    progress.received(frame(100, b"a" * 50), 1.0)
    assert progress.grew(LogExtent(0, 150, 100)) == slave_progress.NOTHING
    assert reporting(progress, progress.grew(LogExtent(0, 150, 120)), 1.0) == 120
    assert progress.grew(LogExtent(0, 150, 120)) == slave_progress.NOTHING
    assert reporting(progress, progress.grew(LogExtent(0, 150, 150)), 1.0) == 150


def test_a_log_below_what_was_reported_ends_the_connection() -> None:
    progress = began(100)
    assert progress.grew(LogExtent(0, 99, 99)).lost == Lost.LOG_CUT


def test_a_report_lower_than_before_or_of_what_is_not_held_is_our_bug() -> None:
    progress = began(100)
    with pytest.raises(AssertionError):
        progress.reported(99, 1.0)
    with pytest.raises(AssertionError):
        progress.reported(101, 1.0)


@pytest.mark.checklist(21)
def test_the_same_report_every_5_s_whatever_comes_in() -> None:
    progress = began(100, synced=True)
    assert progress.deadline_s == 5.0
    progress.received(frame(100, b"x" * 10), 4.0)
    progress.grew(LogExtent(0, 110, 100))  # the sync hangs
    assert progress.tick(4.9) == slave_progress.NOTHING
    assert reporting(progress, progress.tick(5.0), 5.0) == 100
    progress.received(frame(110, b""), 9.0)
    assert reporting(progress, progress.tick(10.0), 10.0) == 100


@pytest.mark.checklist(22)
def test_a_silent_master_is_given_up() -> None:
    progress = began(100)
    progress.received(frame(100, b""), 3.0)
    for now_s in (5.0, 10.0, 15.0, 20.0, 22.9):
        assert reporting(progress, progress.tick(now_s), now_s) in (100, None)
    assert progress.deadline_s == 23.0
    assert progress.tick(23.0).lost == Lost.SILENT
    assert progress.tick(50.0) == slave_progress.NOTHING
    assert progress.grew(LogExtent(0, 200, 200)) == slave_progress.NOTHING


@pytest.mark.checklist(24)
def test_what_the_store_did_not_take_is_never_reported() -> None:
    progress = began(100)
    progress.received(frame(100, b"x" * 10), 1.0)
    assert progress.grew(LogExtent(0, 100, 100)) == slave_progress.NOTHING  # synced once more
    assert reporting(progress, progress.tick(5.0), 5.0) == 100
    progress.received(frame(110, b"y" * 10), 6.0)
    assert progress.grew(LogExtent(0, 109, 109)) == slave_progress.NOTHING  # no whole frame
    assert progress.grew(LogExtent(0, 110, 110)).report_bytes == 110  # and not the second one


def test_a_slave_without_room_tries_again_soon() -> None:
    """Whoever makes some looks whether it was enough."""
    reconnect = Reconnect(interval_s=5.0)
    pauses = [reconnect.lost(Lost.APPEND_FAILED, "no room", 10.0, no_room=True) for _ in range(5)]
    assert pauses == [0.2, 0.4, 0.5, 0.5, 0.5]
    assert reconnect.lost(Lost.APPEND_FAILED, "another reason", 10.0) == 5.0
    upstream = Reconnect(interval_s=5.0, upstream=True)
    assert upstream.lost(Lost.APPEND_FAILED, "no room", 10.0, no_room=True) == 5.0


def test_the_first_pause_may_be_shorter() -> None:
    reconnect = Reconnect(interval_s=0.1, first_s=0.02)
    pauses = [reconnect.lost(Lost.CONNECT_FAILED, "", 0.0) for _ in range(4)]
    assert pauses == [0.02, 0.04, 0.08, 0.1]


def test_a_master_that_ends_each_connection_unheard_is_said_to_refuse_them() -> None:
    """A single end, or one after bytes, may be a master's that is just stopping."""
    reconnect, why = Reconnect(interval_s=5.0), "may name no slave at 10.0.0.2"

    def lost(reason: Lost, detail: str = "", unheard_from: str | None = "10.0.0.2") -> str:
        reconnect.lost(reason, detail, 10.0, unheard_from=unheard_from)
        return reconnect.last_error

    assert [why in lost(Lost.BROKEN, "reset") for _ in range(2)] == [False, False]
    assert lost(Lost.BROKEN, "reset") == (
        "the connection broke: reset; the master ends each connection at once: if it is one of"
        " ours, its cluster file may name no slave at 10.0.0.2"
    )
    assert why in lost(Lost.NOT_VERIFIED, "reset")  # seen by who compares the logs
    assert why in lost(Lost.PEER_CLOSED)
    assert "no slave at the address of this machine" in lost(Lost.CONNECT_FAILED, unheard_from="")
    assert why not in lost(Lost.PEER_CLOSED, unheard_from=None)
    assert why not in lost(Lost.PEER_CLOSED)
    assert why not in lost(Lost.CONNECT_FAILED, "refused", unheard_from=None)
    assert [why in lost(Lost.PEER_CLOSED) for _ in range(3)] == [False, False, True]


@pytest.mark.checklist(14)
def test_pauses_between_attempts() -> None:
    reconnect = Reconnect(interval_s=5.0)
    assert reconnect.connect_at_s == 0.0
    pauses = [reconnect.lost(Lost.CONNECT_FAILED, "refused", 10.0) for _ in range(7)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert reconnect.connect_at_s == 15.0
    assert reconnect.last_error == "the master could not be reached: refused"
    reconnect.connected()
    assert reconnect.state == HAConnectionState.TRANSFER
    assert reconnect.lost(Lost.PEER_CLOSED, "", 20.0) == 5.0  # it has not sent anything yet
    reconnect.connected()
    reconnect.frame_accepted()
    assert reconnect.lost(Lost.PEER_CLOSED, "", 20.0) == 0.2
    reconnect.connected()
    assert reconnect.lost(Lost.SILENT, "", 30.0) == 0.0
    assert reconnect.last_error == Lost.SILENT.value


def test_refused_offsets_in_a_row_are_called_diverged_and_pause_longer() -> None:
    reconnect = Reconnect(interval_s=5.0)
    pauses = []
    for _ in range(7):
        reconnect.connected()
        pauses.append(reconnect.lost(Lost.OFFSET_MISMATCH, "", 0.0))
    assert pauses == [5.0, 5.0, 10.0, 20.0, 40.0, BACKOFF_MAX_S, BACKOFF_MAX_S]
    assert reconnect.diverged
    reconnect.connected()
    reconnect.frame_accepted()
    assert not reconnect.diverged
    assert reconnect.mismatches_total == 7
    assert reconnect.lost(Lost.UNALIGNED, "", 0.0) == 5.0


def test_a_pause_longer_than_the_longest_is_kept() -> None:
    reconnect = Reconnect(interval_s=90.0, mismatches=5)
    reconnect.connected()
    assert reconnect.lost(Lost.OFFSET_MISMATCH, "", 0.0) == 90.0


def test_states_have_upstream_s_ordinals_and_stopped_is_final() -> None:
    assert [(s.name, s.value) for s in HAConnectionState] == [
        ("READY", 0),
        ("HANDSHAKE", 1),
        ("TRANSFER", 2),
        ("SUSPEND", 3),
        ("SHUTDOWN", 4),
    ]
    for table in (SLAVE_TRANSITIONS, MASTER_TRANSITIONS):
        assert table[HAConnectionState.SHUTDOWN] == {}
        for state, row in table.items():
            assert row.keys() <= set(Trigger)
            if state != HAConnectionState.SHUTDOWN:
                assert row[Trigger.STOPPED] == HAConnectionState.SHUTDOWN
    with pytest.raises(AssertionError, match="CONNECTED in SHUTDOWN"):
        after(SLAVE_TRANSITIONS, HAConnectionState.SHUTDOWN, Trigger.CONNECTED)
    reconnect = Reconnect(interval_s=5.0)
    reconnect.stopped()
    assert reconnect.state == HAConnectionState.SHUTDOWN


@pytest.mark.real_io
def test_the_core_imports_no_trio() -> None:
    script = (
        "import pkgutil, importlib, sys, actors.ha.core as core\n"
        "names = [m.name for m in pkgutil.iter_modules(core.__path__)]\n"
        "[importlib.import_module('actors.ha.core.' + name) for name in names]\n"
        "assert len(names) >= 9, names\n"
        "assert 'trio' not in sys.modules\n"
        "assert 'actors.runtime' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


# ---- a copy of a stock master's log ----


def test_a_passive_slave_repeats_its_first_report() -> None:
    progress = began(700)
    progress.passive = True
    assert progress.received(frame(700, b"x" * 100), 1.0).append
    assert progress.grew(LogExtent(0, 800, 800)) == slave_progress.NOTHING
    assert reporting(progress, progress.tick(5.0), 5.0) == 700
    progress.passive = False
    assert progress.tick(10.0).report_bytes == 800


SEGMENT = 1 << 20


@pytest.mark.parametrize(
    ("offset", "size", "shows"),
    [
        (0, 0, True),
        (SEGMENT, 0, True),
        (0, 300, True),
        (SEGMENT - 1000, 900, True),
        (SEGMENT - 1000, 1000, False),  # it ends a file
        (3 * 65536 - 1000, 1000, False),  # where our own master may cut a frame
        (0, 32 << 10, False),  # upstream's full frame
        (100, 8 << 10, False),  # a full one, where the broker's frames are smaller
        (100, 50_001, False),  # or larger
    ],
)
def test_a_frame_shows_where_the_masters_log_ends(offset: int, size: int, shows: bool) -> None:
    assert slave_progress.shows_end(offset, size, SEGMENT) is shows


def test_a_heartbeat_in_front_of_all_data_shows_no_end() -> None:
    progress = began(700)
    progress.received(frame(700, b""), 0.5)  # a 4.x master's, whose first report came late
    assert progress.master_end_bytes is None
    progress.received(frame(700, b""), 5.5)
    assert progress.master_end_bytes == 700
    late = began(700)
    late.received(frame(700, b""), 5.0)
    assert late.master_end_bytes == 700
