"""The master's decisions: where to start, which reports to believe, what to send next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ha.core import report_progress, transfer_progress
from actors.ha.core.acceptance import Acceptance
from actors.ha.core.dialect import ClassicDialect, classic_dialect
from actors.ha.core.extent import LogExtent
from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.report_progress import ReportProgress
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.start_rule import FirstByte, LastFile, StartRule
from actors.ha.core.states import Lost
from actors.ha.core.transfer_progress import Expired, Frame, Heartbeat, TransferProgress, Wait

FILE = 1000
HEADER = 12


def reports(
    extent: LogExtent | None = None,
    start_rule: StartRule | None = None,
    mark: SentMark | None = None,
) -> ReportProgress:
    progress = ReportProgress(
        start_rule=start_rule or FirstByte(),
        segment_bytes=FILE,
        housekeeping_s=20.0,
        mark=mark or SentMark(),
        last_report_s=0.0,
    )
    if extent is not None:
        assert progress.grew(extent) == report_progress.NOTHING
    return progress


@pytest.mark.checklist(3)
@pytest.mark.parametrize(
    ("end", "upstream_start"),
    [(0, 0), (1, 0), (999, 0), (1000, 1000), (2500, 2000), (3000, 3000)],
)
def test_a_report_of_zero_starts_at_the_first_byte_or_with_compat_at_the_last_file(
    end: int, upstream_start: int
) -> None:
    extent = LogExtent(0, end, end)
    assert FirstByte().start_bytes(0, extent, FILE) == 0
    assert LastFile().start_bytes(0, extent, FILE) == upstream_start


@pytest.mark.checklist(3)
def test_the_first_byte_is_the_first_one_kept() -> None:
    extent = LogExtent(2000, 4500, 4500)
    assert FirstByte().start_bytes(0, extent, FILE) == 2000
    assert LastFile().start_bytes(0, extent, FILE) == 4000


def test_the_rule_for_the_last_file_at_upstream_s_size() -> None:
    extent = LogExtent(0, 2_500_000_000, 2_500_000_000)
    assert LastFile().start_bytes(0, extent, 1 << 30) == 2_147_483_648


@pytest.mark.checklist(4)
@pytest.mark.parametrize("rule", [FirstByte(), LastFile()])
@pytest.mark.parametrize("report", [1000, 1001, 2345, 2500])
def test_a_report_inside_the_log_starts_exactly_there(rule: StartRule, report: int) -> None:
    progress = reports(LogExtent(1000, 2500, 2500), rule)
    effects = progress.report(report, 1.0)
    assert effects.start is not None
    assert (effects.start.start_bytes, effects.acked_bytes) == (report, report)
    assert progress.started


def test_an_empty_slave_holds_what_it_gets_from_the_start_on() -> None:
    start = reports(LogExtent(0, 2500, 2500), LastFile()).report(0, 1.0).start
    assert start is not None
    assert (start.start_bytes, start.holds_from_bytes) == (2000, 2000)


@pytest.mark.checklist(8)
@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (-1, Lost.REPORT_NEGATIVE),
        (2501, Lost.REPORT_AHEAD),
        (int.from_bytes(b"GET / HT"), Lost.REPORT_AHEAD),
    ],
)
@pytest.mark.parametrize("first", [None, 1200])
def test_an_impossible_report_is_refused_also_as_the_first(
    report: int, reason: Lost, first: int | None
) -> None:
    progress = reports(LogExtent(1000, 2500, 2500))
    if first is not None:
        progress.report(first, 0.5)
    effects = progress.report(report, 1.0)
    assert effects.acked_bytes is None
    assert effects.start is None
    assert effects.refused == report_progress.RefusedReport(
        reason=reason, report_bytes=report, min_bytes=1000, max_bytes=2500
    )
    assert progress.report(1500, 1.1) == report_progress.NOTHING  # the connection is over


@pytest.mark.checklist(8)
def test_a_later_report_above_what_was_sent_is_refused() -> None:
    """No slave has what it never got; the end of a frame may be reported once it was begun."""
    mark = SentMark()
    progress = reports(LogExtent(1000, 2500, 2500), mark=mark)
    assert progress.report(1200, 0.5).acked_bytes == 1200
    mark.raise_to(1500)
    assert progress.report(1500, 0.6).acked_bytes == 1500
    assert progress.report(1501, 0.7).refused == report_progress.RefusedReport(
        reason=Lost.REPORT_UNSENT, report_bytes=1501, min_bytes=1000, max_bytes=1500
    )
    assert progress.report(1500, 0.8) == report_progress.NOTHING  # the connection is over


@pytest.mark.checklist(8)
def test_an_empty_slave_may_report_where_it_was_started() -> None:
    progress = reports(LogExtent(1000, 2500, 2500))
    assert progress.report(0, 0.5).acked_bytes == 0
    assert progress.report(1000, 0.6).acked_bytes == 1000
    refused = progress.report(1001, 0.7).refused
    assert refused is not None
    assert (refused.reason, refused.max_bytes) == (Lost.REPORT_UNSENT, 1000)


@pytest.mark.checklist(9)
def test_a_first_report_below_the_first_byte_is_refused_but_a_later_one_is_not() -> None:
    extent = LogExtent(1000, 2500, 2500)
    refused = reports(extent).report(999, 1.0).refused
    assert refused is not None
    assert refused.reason == Lost.REPORT_BELOW_MIN
    progress = reports(LogExtent(0, 2500, 2500), mark=SentMark(end_bytes=700))
    progress.report(500, 1.0)
    progress.grew(extent)  # the first file was deleted while the slave was behind
    assert progress.report(600, 2.0).acked_bytes == 600


def test_a_report_before_the_store_has_spoken_waits_for_it() -> None:
    progress = reports()
    assert progress.report(300, 1.0) == report_progress.NOTHING
    assert progress.report(400, 1.0) == report_progress.NOTHING
    effects = progress.grew(LogExtent(0, 500, 500))
    assert effects.acked_bytes == 400
    assert progress.grew(LogExtent(0, 600, 600)) == report_progress.NOTHING


@pytest.mark.checklist(10)
def test_housekeeping_counts_from_the_last_report_or_from_the_accept() -> None:
    progress = reports(LogExtent(0, 10, 10))
    assert progress.deadline_s == 20.0
    assert not progress.tick(19.9).silent
    progress.report(0, 19.9)
    assert not progress.tick(20.0).silent
    assert not progress.tick(39.8).silent
    assert progress.tick(39.9).silent
    assert progress.tick(50.0) == report_progress.NOTHING


def transfer(limit: int | None = None, frame: int = 300, start: int | None = 0) -> TransferProgress:
    progress = TransferProgress(
        frame_bytes=frame,
        header_bytes=HEADER,
        segment_bytes=FILE,
        heartbeat_s=5.0,
        limiter=RateLimiter(limit),
    )
    if start is not None:
        progress.start(start, 0.0)
    return progress


@pytest.mark.checklist(2)
def test_nothing_is_sent_before_the_first_report() -> None:
    progress = transfer(start=None)
    progress.grew(0, 5000)
    assert progress.next_step(1000.0) == Wait(None)


@pytest.mark.checklist(5)
@given(
    start=st.integers(0, 2500),
    frame=st.integers(1, 1500),
    grown=st.lists(st.integers(1, 1200), max_size=8),
)
def test_frames_are_contiguous_and_never_cross_a_file(
    start: int, frame: int, grown: list[int]
) -> None:
    progress = transfer(frame=frame, start=start)
    limit, expected = start, start
    for size in grown:
        limit += size
        progress.grew(0, limit)
        while isinstance(step := progress.next_step(0.0), Frame):
            assert step.offset_bytes == expected
            assert 1 <= step.size_bytes <= frame
            last = step.offset_bytes + step.size_bytes - 1
            assert last // FILE == step.offset_bytes // FILE
            progress.sent(step, 0.0)
            expected = last + 1
        assert expected == limit


@pytest.mark.checklist(8)
def test_the_mark_is_raised_before_a_frame_leaves() -> None:
    """So the report that answers it finds it raised, however fast it comes."""
    progress = transfer(start=100)
    progress.grew(0, 350)
    step = progress.next_step(0.0)
    assert isinstance(step, Frame)
    progress.sending(step)
    assert (progress.mark.end_bytes, progress.next_bytes) == (350, 100)
    progress.sent(step, 0.0)
    progress.sending(Heartbeat(350))
    assert progress.mark.end_bytes == 350


@pytest.mark.checklist(6)
def test_a_heartbeat_only_when_idle() -> None:
    progress = transfer(start=100)
    progress.grew(0, 100)
    assert progress.next_step(4.9) == Wait(5.0)
    assert progress.next_step(5.0) == Heartbeat(100)
    progress.sent(Heartbeat(100), 5.0)
    assert progress.next_step(5.0) == Wait(10.0)
    progress.grew(0, 150)
    progress.sent(Frame(100, 50), 9.0)
    assert progress.next_step(13.0) == Wait(14.0)
    assert progress.next_step(14.0) == Heartbeat(150)


def test_nothing_beyond_what_may_leave_is_sent() -> None:
    progress = transfer(start=500)
    progress.grew(0, 400)  # the slave held more before than is synced here now
    assert progress.next_step(1.0) == Wait(5.0)
    progress.grew(0, 501)
    assert progress.next_step(1.0) == Frame(500, 1)


@pytest.mark.checklist(46)
def test_a_deleted_file_ends_the_transfer() -> None:
    progress = transfer(start=500)
    progress.grew(1000, 2500)
    assert progress.next_step(1.0) == Expired(500, 1000)


@pytest.mark.checklist(60)
@given(limit=st.integers(1, 3000), frame=st.integers(1, 900))
def test_flow_control_keeps_the_rate_without_empty_frames(limit: int, frame: int) -> None:
    progress = transfer(limit=limit, frame=frame)
    progress.grew(0, 10**9)
    now_s, sent, steps = 0.0, 0, 0
    while now_s < 10.0:
        step = progress.next_step(now_s)
        if isinstance(step, Wait):
            assert step.until_s is not None
            assert step.until_s > now_s
            now_s = step.until_s
            assert sent <= (limit + HEADER) * now_s
            continue
        assert isinstance(step, Frame)
        progress.sent(step, now_s)
        sent += HEADER + step.size_bytes
        steps += 1
    assert sent <= (limit + HEADER) * 10
    assert sent > (limit - HEADER - 1) * 9
    assert steps < 10 * (limit // (HEADER + 1) + 2)


def test_an_exhausted_budget_keeps_the_heartbeat() -> None:
    progress = transfer(limit=13)
    progress.grew(0, 100)
    progress.sent(Frame(0, 1), 0.0)
    assert progress.next_step(0.5) == Wait(1.0)
    progress.limiter.count(1000, 5.1)
    assert progress.next_step(5.2) == Heartbeat(1)


def test_the_meter_shows_the_last_full_second() -> None:
    meter = RateLimiter()
    assert meter.budget_bytes(0.0) is None
    meter.count(700, 0.2)
    assert meter.last_second_bytes(0.9) == 0
    meter.count(300, 0.9)
    assert meter.last_second_bytes(1.0) == 1000
    meter.count(50, 1.5)
    assert meter.last_second_bytes(2.1) == 50
    assert meter.last_second_bytes(9.0) == 0


def test_unknown_addresses_are_counted_and_reported_ever_more_rarely() -> None:
    acceptance = Acceptance({"127.0.0.2": "n1"})
    assert acceptance.admit("127.0.0.2") == "n1"
    assert not acceptance.worth_reporting
    reported = []
    for count in range(1, 101):
        assert acceptance.admit("10.0.0.9") is None
        if acceptance.worth_reporting:
            reported.append(count)
    assert reported == [1, 2, 4, 8, 16, 32, 64]
    acceptance.full()
    assert (acceptance.refused_count, acceptance.full_count) == (100, 1)


def test_the_dialect_is_chosen_by_compat() -> None:
    assert classic_dialect(None) == ClassicDialect(FirstByte())
    assert classic_dialect("upstream") == ClassicDialect(LastFile(), upstream=True)
    dialect = classic_dialect(None)
    assert dialect.encode_report(1) == b"\0" * 7 + b"\1"
    assert dialect.encode_frame_header(1, 2) == b"\0" * 7 + b"\1" + b"\0\0\0\2"
    assert (dialect.frame_header_bytes, dialect.frame_body_max_bytes) == (12, 4_194_292)


def test_an_extent_that_cannot_be_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        LogExtent(5, 4, 4)
    with pytest.raises(AssertionError):
        LogExtent(0, 4, 5)
    assert LogExtent(0, 4, 3).durable_bytes(synced=True) == 3
    assert LogExtent(0, 4, 3).durable_bytes(synced=False) == 4


def test_a_step_that_does_not_continue_is_our_bug() -> None:
    progress = transfer(start=10)
    with pytest.raises(AssertionError):
        progress.sent(transfer_progress.Heartbeat(11), 0.0)
