"""The dialect of auto-switch HA: epochs of frames, and the recorded sessions once more."""

from __future__ import annotations

from typing import Any

import attrs
import golden_autoswitch as golden
import pytest
from autoswitch_kit import Known, history
from hypothesis import given
from hypothesis import strategies as st

from actors.epochs import BEFORE_EPOCHS
from actors.ha.core import report_progress
from actors.ha.core.autoswitch_dialect import epoch_at, history_of, listed
from actors.ha.core.extent import LogExtent
from actors.ha.core.report_progress import ReportProgress
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.start_rule import FirstByte, LastFile
from actors.ha.core.states import Lost
from actors.ha.core.transfer_progress import Frame, Heartbeat, TransferProgress
from wire.buffer import NEED_DATA
from wire.files.epoch_file import EpochStart
from wire.ha import autoswitch
from wire.ha.autoswitch import EpochFrameStarted, HandshakeAnswer, HandshakeRequest
from wire.ha.frames import OFFSET_MAX, FrameDecoder, Report

FILE = 1000


@pytest.mark.parametrize(
    ("epochs", "offset", "number", "start", "end"),
    [
        ([], 0, 0, 0, OFFSET_MAX),
        ([(1, 0)], 0, 1, 0, OFFSET_MAX),
        ([(1, 0), (2, 500)], 499, 1, 0, 500),
        ([(1, 0), (2, 500)], 500, 2, 500, OFFSET_MAX),
        ([(1, 0), (2, 500), (3, 500)], 500, 3, 500, OFFSET_MAX),
        ([(1, 0), (2, 500), (3, 500)], 499, 1, 0, 500),
        (
            [(4, 700)],
            699,
            0,
            0,
            700,
        ),  # autoswitch-ha.md T12: an upgraded log, or one whose epochs were pruned
        ([(4, 700)], 700, 4, 700, OFFSET_MAX),
    ],
)
def test_each_byte_is_of_one_epoch(
    epochs: list[tuple[int, int]], offset: int, number: int, start: int, end: int
) -> None:
    epoch, epoch_end = epoch_at(history(*epochs), offset)
    assert (epoch.number, epoch.start_bytes, epoch_end) == (number, start, end)


def test_an_answer_lists_epochs_with_bytes_and_the_outermost() -> None:
    assert listed(()) == ()
    assert listed((BEFORE_EPOCHS,)) == ()
    found = listed((BEFORE_EPOCHS, *history((1, 90), (2, 500), (3, 500), (5, 500))))
    assert found == (EpochStart(1, 90), EpochStart(5, 500))
    assert listed(history((1, 0), (2, 0), (3, 0))) == (EpochStart(1, 0), EpochStart(3, 0))
    assert history_of(found) == (BEFORE_EPOCHS, *history((1, 90), (5, 500)))
    assert history_of((EpochStart(1, 0),)) == history((1, 0))
    assert history_of(()) == (BEFORE_EPOCHS,)


@pytest.mark.checklist(1, of="autoswitch")
def test_the_request_says_the_flags() -> None:
    dialect = Known().dialect(2, async_learner=True, sync_from_last_file=True)
    decoder = dialect.request_decoder()
    decoder.receive_data(dialect.handshake.request)
    request = decoder.next_message()
    assert request == HandshakeRequest(broker_id=2, async_learner=True, sync_from_last_file=True)
    assert dialect.handshake.start_rule(request) == LastFile()
    assert dialect.handshake.start_rule(HandshakeRequest(broker_id=2)) == FirstByte()


# ---- the recorded sessions ----


def sent_by_master(connection: str) -> list[Any]:
    decoder = FrameDecoder(autoswitch.MASTER_HEADER)
    found: list[Any] = []
    for segment in golden.segments(connection, "master"):
        decoder.receive_data(segment)
        while (event := decoder.next_event()) is not NEED_DATA:
            if isinstance(event, HandshakeAnswer | EpochFrameStarted):
                found.append(event)
    return found


@pytest.mark.checklist(2, 3, of="autoswitch")
@pytest.mark.parametrize("connection", golden.CONNECTIONS)
def test_our_master_would_have_sent_the_recorded_bytes(connection: str) -> None:
    """All headers are Java's, but for the epoch that the frame which ends one names (2.6)."""
    known = Known()
    dialect = known.dialect()
    answer, *frames = sent_by_master(connection)
    known.history = history(*((each.epoch, each.offset) for each in answer.epochs))
    theirs = b"".join(golden.segments(connection, "master"))
    ours = dialect.handshake.answer(LogExtent(0, answer.end, answer.end))
    assert theirs.startswith(ours)
    others = 0
    for frame in frames:
        known.confirm_bytes = frame.confirm
        ours = dialect.encode_frame_header(frame.offset, frame.size)
        if ours in theirs:
            assert frame.offset >= frame.epoch_start
        else:
            others += 1
            epoch, end = epoch_at(known.history, frame.offset)
            assert frame.offset + frame.size == end == frame.epoch_start
            named = attrs.evolve(frame, epoch=epoch.number, epoch_start=epoch.start_bytes)
            assert ours == autoswitch.encode_frame_header(named)
    assert others == (3 if connection == "5-c-from-b" else 0)


def reports(known: Known, mark: SentMark, extent: LogExtent | None = None) -> ReportProgress:
    dialect = known.dialect()
    progress = ReportProgress(
        start_rule=dialect.start_rule,
        segment_bytes=FILE,
        housekeeping_s=20.0,
        mark=mark,
        handshake=dialect.handshake,
        last_report_s=0.0,
    )
    if extent is not None:
        progress.grew(extent)
    return progress


def transfer(known: Known, mark: SentMark, segment_bytes: int = FILE) -> TransferProgress:
    return TransferProgress(
        frame_bytes=32768,
        header_bytes=36,
        segment_bytes=segment_bytes,
        heartbeat_s=5.0,
        mark=mark,
        stretch_end=known.dialect().stretch_end,
    )


def send_all(writer: TransferProgress, now_s: float = 0.0) -> list[tuple[int, int]]:
    """Offset and size of each frame that is due."""
    sizes = []
    while isinstance(step := writer.next_step(now_s), Frame):
        writer.sending(step)
        writer.sent(step, now_s)
        sizes.append((step.offset_bytes, step.size_bytes))
    return sizes


@pytest.mark.checklist(6, of="autoswitch")
@pytest.mark.parametrize("connection", golden.CONNECTIONS)
def test_the_recorded_slaves_get_the_recorded_ranges(connection: str) -> None:
    answer, *frames = sent_by_master(connection)
    known = Known(history(*((each.epoch, each.offset) for each in answer.epochs)))
    mark, end, sizes = SentMark(), answer.end, []
    reader, writer = reports(known, mark), transfer(known, mark, 1 << 30)
    decoder = known.dialect().request_decoder()
    for segment in golden.segments(connection, "slave"):
        decoder.receive_data(segment)
        while (request := decoder.next_message()) is not NEED_DATA:
            end = max(end, request.offset) if isinstance(request, Report) else end
            reader.grew(LogExtent(0, end, end))
            writer.grew(0, end)
            sizes += send_all(writer)
            if isinstance(request, Report):
                effects = reader.report(request.offset, 0.0)
                assert effects.acked_bytes == request.offset
                if effects.start is not None:
                    writer.start(effects.start.start_bytes, 0.0)
            else:
                identified = reader.requested(request, 0.0).identified
                assert identified is not None
                assert identified.slave == {"a": "n0", "b": "n1", "c": "n2"}[connection[2]]
                assert golden.segments(connection, "master")[0] in identified.answer
    assert sizes == [(frame.offset, frame.size) for frame in frames if frame.size]


# ---- the master's side ----


LOG = LogExtent(1000, 3500, 3000)


@pytest.mark.checklist(9, of="autoswitch")
@pytest.mark.parametrize(("from_last_file", "start"), [(False, 1000), (True, 3000)])
def test_an_empty_slave_begins_at_the_start_of_a_file(from_last_file: bool, start: int) -> None:
    known = Known(history((1, 0)))
    reader = reports(known, SentMark(), LOG)
    request = HandshakeRequest(broker_id=2, sync_from_last_file=from_last_file)
    identified = reader.requested(request, 1.0).identified
    assert identified is not None
    assert (identified.slave, identified.async_learner) == ("n1", False)
    assert identified.answer == autoswitch.encode_answer(
        HandshakeAnswer(3500, 1, (EpochStart(1, 0),))
    )
    began = reader.report(0, 2.0).start
    assert began is not None
    assert began.start_bytes == began.holds_from_bytes == start


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([77], Lost.NO_REPLICA),  # autoswitch-ha.md T49
        ([2, 77], Lost.NO_REPLICA),
        ([2, 3], Lost.NO_REPLICA),
        (["r0"], Lost.NO_HANDSHAKE),
        ([2, "r0", 2], Lost.HANDSHAKE_LATE),
    ],
)
def test_nobody_else_is_believed(inputs: list[Any], reason: Lost) -> None:
    reader = reports(Known(history((1, 0))), SentMark(), LOG)
    for number in inputs[:-1]:
        assert take(reader, number).stranger is None
    effects = take(reader, inputs[-1])
    assert effects.stranger is not None
    assert effects.stranger.reason == reason
    assert (effects.acked_bytes, effects.start, effects.identified) == (None, None, None)
    assert take(reader, 2) == take(reader, "r0") == report_progress.NOTHING  # it is over


def take(reader: ReportProgress, what: int | str) -> report_progress.Effects:
    """A handshake of this id, or "r" and an offset: a report."""
    if isinstance(what, str):
        return reader.report(int(what[1:]), 1.0)
    return reader.requested(HandshakeRequest(broker_id=what), 1.0)


@pytest.mark.parametrize(
    ("report", "reason"),
    [(3501, Lost.REPORT_AHEAD), (2**40, Lost.REPORT_AHEAD), (999, Lost.REPORT_BELOW_MIN)],
)
def test_a_first_report_of_what_the_master_has_not_ends_the_connection(
    report: int, reason: Lost
) -> None:
    """autoswitch-ha.md T3b: the original acknowledges it, and its slave joins the set."""
    reader = reports(Known(history((1, 0))), SentMark(), LOG)
    take(reader, 2)
    refused = take(reader, f"r{report}").refused
    assert refused is not None
    assert refused.reason == reason


def test_a_second_handshake_before_the_first_report_is_answered_again() -> None:
    known = Known(history((1, 0)))
    reader = reports(known, SentMark(), LOG)
    first = take(reader, 2)
    known.history = history((1, 0), (2, 3500))
    second = take(reader, 2)
    assert first.identified is not None
    assert second.identified is not None
    assert len(second.identified.answer) == len(first.identified.answer) + 12


def test_what_comes_before_the_log_is_known_waits() -> None:
    reader = reports(Known(history((1, 0))), SentMark())
    assert take(reader, 2) == take(reader, "r3500") == report_progress.NOTHING
    effects = reader.grew(LOG)
    assert effects.identified is not None
    assert effects.start is not None
    assert effects.acked_bytes == 3500
    assert reader.grew(LOG) == report_progress.NOTHING


def test_a_connection_without_a_handshake_ends_with_housekeeping() -> None:
    reader = reports(Known(), SentMark(), LOG)
    assert not reader.tick(19.9).silent
    assert reader.tick(20.0).silent


@pytest.mark.checklist(6, 28, of="autoswitch")
def test_an_epoch_that_begins_on_an_open_connection_is_in_the_next_header() -> None:
    """autoswitch-ha.md T2: upstream's connection goes on under the old epoch."""
    known, mark = Known(history((1, 0))), SentMark()
    dialect, writer = known.dialect(), transfer(known, mark)
    writer.grew(0, 500)
    writer.start(0, 0.0)
    assert send_all(writer) == [(0, 500)]
    known.history = history((1, 0), (2, 500))
    writer.grew(0, 700)
    assert isinstance(writer.next_step(6.0), Frame)
    header = dialect.encode_frame_header(500, 200)
    assert header == autoswitch.encode_frame_header(EpochFrameStarted(500, 200, 2, 500, -1))
    assert send_all(writer) == [(500, 200)]
    known.history = history((1, 0), (2, 500), (3, 700))
    assert writer.next_step(6.0) == Heartbeat(700)
    header = dialect.encode_frame_header(700, 0)
    assert header == autoswitch.encode_frame_header(EpochFrameStarted(700, 0, 3, 700, -1))


@pytest.mark.checklist(11, of="autoswitch")
def test_the_largest_frame_fits_a_buffer_of_java() -> None:
    dialect = Known().dialect()
    assert dialect.frame_body_max_bytes + dialect.frame_header_bytes == 4 << 20
    assert len(dialect.encode_frame_header(0, dialect.frame_body_max_bytes)) == 36


starts = st.lists(st.integers(0, 3000), max_size=6).map(sorted)


@pytest.mark.checklist(6, of="autoswitch")
@given(starts, st.integers(0, 3000), st.integers(1, 700), st.lists(st.integers(1, 400), max_size=9))
def test_frames_cover_the_log_and_hold_one_epoch_and_one_file(
    starts: list[int], begin: int, frame_bytes: int, growth: list[int]
) -> None:
    known = Known(history(*((number, start) for number, start in enumerate(starts, 1))))
    writer = attrs.evolve(transfer(known, SentMark()), frame_bytes=frame_bytes)
    writer.start(begin, 0.0)
    end, sent = begin, begin
    for step in growth:
        end += step
        writer.grew(0, end)
        for offset, size in send_all(writer):
            assert offset == sent
            assert 0 < size <= frame_bytes
            sent = offset + size
            assert offset // FILE == (sent - 1) // FILE
            assert epoch_at(known.history, offset) == epoch_at(known.history, sent - 1)
        assert sent == end
