"""A slave among epochs: what it makes of an answer, and of the frames that come behind it."""

from __future__ import annotations

from typing import Any

import golden_autoswitch as golden
import pytest
from autoswitch_kit import Known, history
from hypothesis import given
from hypothesis import strategies as st

from actors.epochs import BEFORE_EPOCHS, Epoch, History, compare, follow, line
from actors.ha.core import epoch_trail
from actors.ha.core.epoch_trail import EpochTrail, OwnLog, Verdict
from actors.ha.core.extent import LogExtent
from actors.ha.core.slave_progress import NOTHING, Effects, SlaveProgress
from actors.ha.core.states import Lost
from wire.buffer import NEED_DATA
from wire.files.epoch_file import EpochStart, decode_epoch_file
from wire.ha import autoswitch
from wire.ha.autoswitch import EpochFrameStarted, HandshakeAnswer
from wire.ha.frames import FrameDecoder, Report

FILE = 4096


def answer(end: int, *epochs: tuple[int, int]) -> HandshakeAnswer:
    listed = tuple(EpochStart(*each) for each in epochs)
    return HandshakeAnswer(end, epochs[-1][0] if epochs else -1, listed)


def own(end: int, *epochs: tuple[int, int], known: int | None = None) -> OwnLog:
    starts = history(*epochs) if epochs else (BEFORE_EPOCHS,)
    return OwnLog(
        history=starts,
        min_bytes=0,
        end_bytes=end,
        begins=lambda offset: offset % 10 == 0,
        known_bytes=known,
    )


@pytest.mark.checklist(13, 14, 16, of="autoswitch")
@pytest.mark.parametrize(
    ("mine", "theirs", "verdict", "end"),
    [
        (own(0), answer(900, (1, 0), (2, 500)), Verdict.FOLLOWS, 0),
        (own(600, (1, 0), (2, 500)), answer(900, (1, 0), (2, 500)), Verdict.FOLLOWS, 600),
        # The four of autoswitch-ha.md 4.3.
        (own(600, (1, 100), (2, 300), (3, 500)), answer(550, (1, 100), (2, 300), (3, 450)),
         Verdict.CUT, 450),
        (own(700, (1, 0), (2, 500)), answer(600, (1, 0), (2, 500)), Verdict.CUT, 600),
        (own(600, (1, 100), (2, 300)), answer(900, (1, 200), (2, 500)), Verdict.UNRELATED, None),
        (own(900, (3, 500), (4, 800)), answer(700, (3, 500), (5, 700)), Verdict.CUT, 700),
        # A returning master with bytes of its own in the epoch before.
        (own(900, (1, 0), (2, 650)), answer(650, (1, 0), (3, 650)), Verdict.CUT, 650),
        # Older than epochs: autoswitch-ha.md T5, T12.
        (own(500), answer(900, (1, 0)), Verdict.UNRELATED, None),
        (own(500), answer(900, (1, 500)), Verdict.FOLLOWS, 500),
        (own(500), answer(900, (1, 400)), Verdict.CUT, 400),
        (own(500), answer(600), Verdict.FOLLOWS, 500),
        # A master that was deposed: autoswitch-ha.md T9.
        (own(900, (1, 0), (3, 700)), answer(2000, (1, 0), (2, 500)), Verdict.DEPOSED, None),
        (own(700, (1, 0), (3, 700)), answer(700, (1, 0)), Verdict.FOLLOWS, 700),  # no byte of it
        # Where no record begins nothing is cut.
        (own(900, (1, 0)), answer(655, (1, 0), (3, 655)), Verdict.NO_RECORD, None),
        # Of what is not known nothing is believed.
        (own(900, known=0), answer(2000, (1, 0)), Verdict.UNKNOWN, None),
        (own(900, (1, 0), (2, 500), known=500), answer(2000, (1, 0), (2, 500)), Verdict.CUT, 500),
        (own(900, (1, 0), (2, 500), known=500), answer(300, (1, 0), (4, 300)), Verdict.CUT, 300),
        (own(900, (1, 0)), answer(-1), Verdict.DEPOSED, None),
    ],
)  # fmt: skip
def test_what_a_slave_makes_of_an_answer(
    mine: OwnLog, theirs: HandshakeAnswer, verdict: Verdict, end: int | None
) -> None:
    found = mine.agree(theirs)
    assert (found.verdict, found.end_bytes) == (verdict, end)
    assert found.text.startswith(verdict.value)


def test_a_log_below_the_own_first_byte_is_given_up_whole() -> None:
    mine = OwnLog(history=history((1, 0)), min_bytes=600, end_bytes=900, begins=lambda at: False)
    found = mine.agree(answer(500, (1, 0), (2, 500)))
    assert (found.verdict, found.end_bytes) == (Verdict.CUT, 500)


def test_a_master_that_has_lost_its_last_epoch_is_followed_in_the_epoch_that_was_told() -> None:
    """Java records no epoch that begins where its last one does: autoswitch-ha.md T1."""
    mine, theirs = own(900, (1, 0), (3, 700)), answer(2000, (1, 0), (2, 700))
    for told, verdict in ((0, Verdict.DEPOSED), (2, Verdict.DEPOSED), (3, Verdict.CUT)):
        assert mine.agree(theirs, told_epoch=told).verdict is verdict
    assert mine.agree(theirs, told_epoch=4).end_bytes == 700


# ---- frames ----


def slave(theirs: History, end: int = 0, dialect: Any = None) -> SlaveProgress:
    progress = SlaveProgress(
        dialect=dialect or Known().dialect(),
        synced=False,
        segment_bytes=FILE,
        heartbeat_s=5.0,
        housekeeping_s=20.0,
        extent=LogExtent(0, end, end),
        last_read_s=0.0,
        last_write_s=0.0,
        trail=EpochTrail(theirs),
    )
    assert progress.begin() == Effects(report_bytes=end)
    progress.reported(end, 0.0)
    return progress


def frame(offset: int, size: int, epoch: int, start: int, confirm: int = -1) -> bytes:
    head = EpochFrameStarted(offset, size, epoch, start, confirm)
    return autoswitch.encode_frame_header(head) + bytes(size)


def test_an_epoch_is_followed_before_its_first_byte_is_appended() -> None:
    theirs = history((1, 0), (2, 100))
    progress = slave(theirs)
    first = progress.received(frame(0, 100, 1, 0), 1.0)
    assert first.follow == (theirs, 0)
    second = progress.received(frame(100, 10, 2, 100) + frame(110, 5, 2, 100), 1.0)
    assert second.follow == (theirs, 100)
    assert [each.offset_bytes for each in second.append] == [100, 110]
    assert progress.received(frame(115, 5, 2, 100), 1.0).follow is None


@pytest.mark.checklist(7, of="autoswitch")
def test_java_names_the_next_epoch_in_the_frame_that_ends_one() -> None:
    progress = slave(history((1, 0), (2, 100)))
    effects = progress.received(frame(0, 60, 1, 0) + frame(60, 40, 2, 100), 1.0)
    assert effects.lost is None
    assert effects.follow == (history((1, 0), (2, 100)), 0)
    assert progress.received(frame(100, 0, 2, 100), 1.0).follow == (progress.trail.theirs, 100)  # type: ignore[union-attr]


@pytest.mark.checklist(7, 18, 28, of="autoswitch")
@pytest.mark.parametrize("size", [0, 10])
def test_an_epoch_that_was_not_listed_is_taken_from_the_header(size: int) -> None:
    """With or without bytes: autoswitch-ha.md T1b."""
    progress = slave(history((1, 0)), 50)
    effects = progress.received(frame(50, size, 4, 50), 1.0)
    assert effects.follow == (history((1, 0), (4, 50)), 50)
    assert progress.received(frame(50 + size, 0, 4, 50), 2.0).follow is None
    later = progress.received(frame(50 + size, 0, 6, 50 + size), 3.0)
    assert later.follow == (history((1, 0), (4, 50), (6, 50 + size)), 50 + size)


@pytest.mark.parametrize(
    "bad",
    [
        frame(50, 60, 1, 0),  # over the end of epoch 1
        frame(50, 10, 2, 100),  # the next one's name, and its end is not reached
        frame(50, 0, 2, 100),
        frame(50, 10, 1, 7),
        frame(50, 10, 0, 0),
        frame(50, 10, 3, 40),  # a later epoch that begins before the last one
    ],
)
def test_bytes_of_other_epochs_than_those_listed_end_the_connection(bad: bytes) -> None:
    progress = slave(history((1, 0), (2, 100)), 50)
    effects = progress.received(bad, 1.0)
    assert effects.lost is Lost.EPOCH_MISMATCH
    assert effects.detail
    assert effects.append == ()


def test_a_master_cannot_name_epochs_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_trail, "ANSWER_EPOCHS_MAX", 3)
    progress = slave(history((1, 0)), 50)
    for number in (2, 3):
        assert progress.received(frame(50, 0, number, 50), 1.0).lost is None
    effects = progress.received(frame(50, 0, 4, 50), 1.0)
    assert (effects.lost, effects.detail) == (Lost.EPOCH_MISMATCH, "more than 3 epochs")


@pytest.mark.checklist(10, of="autoswitch")
@pytest.mark.parametrize("size", [0, 10])
def test_a_frame_at_another_offset_ends_the_connection(size: int) -> None:
    progress = slave(history((1, 0)), 50)
    effects = progress.received(frame(60, size, 1, 0), 1.0)
    assert (effects.lost, effects.append) == (Lost.OFFSET_MISMATCH, ())


def test_an_answer_among_frames_ends_the_connection() -> None:
    progress = slave(history((1, 0)), 50)
    again = autoswitch.encode_answer(answer(50, (1, 0)))
    assert progress.received(again, 1.0).lost is Lost.WRONG_PHASE


def test_a_master_with_nothing_says_so_to_an_empty_slave() -> None:
    progress = slave((BEFORE_EPOCHS,))
    nothing = autoswitch.encode_frame_header(EpochFrameStarted(-1, 0, 1, 0, -1))
    assert progress.received(nothing, 1.0) == NOTHING
    assert progress.received(frame(0, 10, 1, 0), 2.0).follow is not None
    other = slave(history((1, 0)), 50)
    assert other.received(nothing, 1.0).lost is Lost.OFFSET_MISMATCH


@pytest.mark.checklist(8, of="autoswitch")
def test_a_slave_repeats_its_report_and_gives_a_silent_master_up() -> None:
    progress = slave(history((1, 0)), 50)
    assert progress.tick(4.9) == NOTHING
    assert progress.tick(5.0).report_bytes == 50
    progress.reported(50, 5.0)
    assert progress.tick(20.0).lost is Lost.SILENT


@pytest.mark.checklist(35, of="autoswitch")
def test_readers_see_what_the_master_confirms_and_is_there() -> None:
    progress = slave(history((1, 0)), 50)
    assert progress.confirm_bytes == -1
    progress.received(frame(50, 10, 1, 0, confirm=55), 1.0)
    assert progress.confirm_bytes == 50
    progress.grew(LogExtent(0, 60, 60))
    assert progress.confirm_bytes == 55


# ---- the recorded sessions ----


@pytest.mark.checklist(4, 7, of="autoswitch")
@pytest.mark.parametrize("connection", golden.CONNECTIONS)
def test_our_slave_says_what_the_recorded_ones_said(connection: str) -> None:
    """The same reports, but for heartbeats; the epochs of what it holds are in Java's file."""
    decoder = FrameDecoder(autoswitch.MASTER_HEADER)
    sent = b"".join(golden.segments(connection, "master"))
    decoder.receive_data(sent)
    said = decoder.next_event()
    assert isinstance(said, HandshakeAnswer)
    head = len(autoswitch.encode_answer(said))
    reports = [each.offset for each in said_by_slave(connection)]
    broker_id = {"a": 1, "b": 2, "c": 3}[connection[2]]
    dialect = Known().dialect(broker_id)
    request = golden.segments(connection, "slave")[0]
    assert request == dialect.handshake.request
    theirs = history(*((each.epoch, each.offset) for each in said.epochs))
    end = reports[0]
    progress, found, kept = slave(theirs, end, dialect), [end], theirs[:1] if end else ()
    for segment in (sent[head + at : head + at + 100] for at in range(0, len(sent) - head, 100)):
        effects = progress.received(segment, 1.0)
        assert effects.lost is None
        if effects.follow is not None:
            kept = follow(kept, *effects.follow)
        end += sum(len(each.data or b"") for each in effects.append)
        report = progress.grew(LogExtent(0, end, end)).report_bytes
        if report is not None:
            found.append(report)
            progress.reported(report, 1.0)
    assert found == sorted(set(reports))
    file = decode_epoch_file(golden.file(f"broker-{connection[2]}/epochFileCheckpoint"))
    assert [(each.number, each.start_bytes) for each in kept] == [
        (each.epoch, each.offset) for each in file if each.epoch <= said.last_epoch
    ]


def said_by_slave(connection: str) -> list[Report]:
    decoder = autoswitch.SlaveDecoder()
    decoder.receive_data(b"".join(golden.segments(connection, "slave")))
    found = []
    while (message := decoder.next_message()) is not NEED_DATA:
        if isinstance(message, Report):
            found.append(message)
    return found


# ---- any family of logs ----


@given(st.data())
def test_slaves_become_equal_to_their_master_whatever_they_were(data: Any) -> None:
    """Masters come one after the other and write; each byte is the number of its epoch. A replica
    follows the newest master by an answer and frames, and then holds the same bytes.
    """
    logs: list[bytes] = [b"", b"", b""]
    known: list[History] = [(), (), ()]
    for number in range(1, data.draw(st.integers(2, 6)) + 1):
        # One of those whose log's last epoch is newest, as an election finds it.
        newest = max((each[-1].number if each else 0) for each in known)
        may = [at for at in range(3) if (known[at][-1].number if known[at] else 0) == newest]
        master = data.draw(st.sampled_from(may))
        end = len(logs[master])
        held = line(known[master], end) if known[master] else ()
        known[master] = (*held, Epoch(number, 0, "", end))
        logs[master] += bytes([number]) * data.draw(st.integers(0, 4))
        for other in range(3):
            if other != master and data.draw(st.booleans()):
                upto = data.draw(st.integers(0, len(logs[master])))
                catch_up(logs, known, other, master, upto, data.draw(st.integers(1, 3)))
    final = data.draw(st.sampled_from(range(3)))
    newest = max(range(3), key=lambda at: (known[at][-1].number if known[at] else 0, len(logs[at])))
    catch_up(logs, known, final, newest, len(logs[newest])) if final != newest else None
    assert logs[final] == logs[newest]


def catch_up(
    logs: list[bytes], known: list[History], own: int, master: int, upto: int, together: int = 1
) -> None:
    """The replica `own` follows `master` up to an offset, or to the end of what it has itself.

    So many frames come at once.
    """
    dialect = Known(known[master]).dialect()
    decoder = FrameDecoder(autoswitch.MASTER_HEADER)
    end = len(logs[master])
    decoder.receive_data(dialect.handshake.answer(LogExtent(0, end, end)))
    said = decoder.next_event()
    assert isinstance(said, HandshakeAnswer)
    mine = OwnLog(
        history=known[own], min_bytes=0, end_bytes=len(logs[own]), begins=lambda offset: True
    )
    found = mine.agree(said)
    assert found.end_bytes is not None, found.text
    logs[own] = logs[own][: found.end_bytes]
    assert logs[master].startswith(logs[own])
    progress = slave(found.theirs, len(logs[own]), dialect)
    at, size, frames = len(logs[own]), 1, []
    while size > 0:  # the last frame is a heartbeat
        size = max(min(upto - at, dialect.stretch_end(at) - at), 0)
        frames.append(dialect.encode_frame_header(at, size) + logs[master][at : at + size])
        at += size
    for first in range(0, len(frames), together):
        effects = progress.received(b"".join(frames[first : first + together]), 1.0)
        assert effects.lost is None, effects.detail
        if effects.follow is not None:
            known[own] = follow(known[own], *effects.follow)
        logs[own] += b"".join(each.data or b"" for each in effects.append)
        progress.grew(LogExtent(0, len(logs[own]), len(logs[own])))
    end_bytes = len(logs[own])
    assert known[own] == tuple(each for each in found.theirs if each.start_bytes <= end_bytes)
    assert compare(known[own], len(logs[own]), found.theirs, end).consistent_bytes == len(logs[own])
