"""How a master judges the requests of one slave connection: its handshake and its reports.

Source: apache/rocketmq store/ha/DefaultHAConnection.ReadSocketService.processReadEvent (4.9.8 with
the check, 5.3.3 without); classic-ha.md 1.3, 2.3 and T2, T3, T8; AutoSwitchHAConnection (5.3.3);
autoswitch-ha.md 3.2 and T3b, T49.

Differs from upstream:
- Every report is checked before it touches any state, the first one included: below zero or above
  the master's end closes the connection (T3, T8); so does a later one above what this connection
  was sent, for no slave has what it never got; a first report below the first byte kept is refused
  and visible (T2). With `upstream` none is checked, as in 5.3.3.
- In a dialect with a handshake a report counts only behind one of a replica that the group
  has, and a handshake behind a report ends the connection; upstream answers anybody, at any time.
- Housekeeping counts complete requests, so a peer that trickles single bytes does not keep a
  connection alive, and it also covers connections that never reported.
"""

from __future__ import annotations

import attrs

from actors.ha.core.dialect import Handshake
from actors.ha.core.extent import LogExtent
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.start_rule import StartRule
from actors.ha.core.states import Lost
from wire.ha.autoswitch import HandshakeRequest


@attrs.frozen(kw_only=True)
class Start:
    """The first report was accepted.

    Attributes:
        report_bytes: the offset that the slave reported.
        start_bytes: where the master begins to send.
        holds_from_bytes: the slave holds everything from here up to what it acknowledges. For a
            report above 0 the wire does not say where the slave's log begins; it is taken to be
            whole.
    """

    report_bytes: int
    start_bytes: int
    holds_from_bytes: int


@attrs.frozen(kw_only=True)
class RefusedReport:
    """A report that ends the connection, with the range it was judged by."""

    reason: Lost
    report_bytes: int
    min_bytes: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class Identified:
    """A handshake was accepted.

    Attributes:
        slave: whose it is.
        async_learner: whether it asks to be counted in no set.
        answer: what to send now, ahead of all frames.
    """

    slave: str
    async_learner: bool
    answer: bytes


@attrs.frozen
class RefusedRequest:
    """A request that ends the connection, whatever it reports."""

    reason: Lost
    detail: str


@attrs.frozen(kw_only=True)
class Effects:
    """What one input asks for, in this order.

    At most one of `acked_bytes` (with or without `start`), `refused`, `stranger` and `silent` is
    set.
    """

    identified: Identified | None = None
    start: Start | None = None
    acked_bytes: int | None = None
    refused: RefusedReport | None = None
    stranger: RefusedRequest | None = None
    silent: bool = False


NOTHING = Effects()


@attrs.define(kw_only=True)
class ReportProgress:
    """Turns the reports of one connection into acknowledgements.

    Attributes:
        start_rule, segment_bytes: decide by the first report where to begin to send; a handshake
            may change the rule.
        housekeeping_s: a connection without a complete request for longer is closed.
        mark: how far the log was sent on this connection.
        handshake: the dialect's; None: it has none.
        upstream: whether every report is believed (`compat`).
    """

    start_rule: StartRule
    segment_bytes: int
    housekeeping_s: float
    mark: SentMark
    handshake: Handshake | None = None
    upstream: bool = False
    _last_report_s: float
    _extent: LogExtent | None = None
    _slave: str = ""  # by its handshake
    _request: HandshakeRequest | None = None  # not answered yet
    _held_report_bytes: int | None = None
    _start_bytes: int | None = None
    _over: bool = False

    @property
    def started(self) -> bool:
        """Whether a report was accepted, so that the peer counts as this slave."""
        return self._start_bytes is not None

    @property
    def deadline_s(self) -> float:
        """When to call `tick`."""
        return self._last_report_s + self.housekeeping_s

    def grew(self, extent: LogExtent) -> Effects:
        """Note the store's new range, and judge what waited for the first range."""
        self._extent = extent
        if self._request is None and self._held_report_bytes is None:
            return NOTHING
        answered = self._answer(extent)
        if self._held_report_bytes is None:
            return answered
        report_bytes, self._held_report_bytes = self._held_report_bytes, None
        return attrs.evolve(self._judge(report_bytes, extent), identified=answered.identified)

    def requested(self, request: HandshakeRequest, now_s: float) -> Effects:
        """Judge a handshake. Another one before the first report gets another answer."""
        self._last_report_s = now_s
        if self._over:
            return NOTHING
        if self.handshake is None or self.started or self._held_report_bytes is not None:
            return self._turn_away(Lost.HANDSHAKE_LATE, "")
        slave = self.handshake.identify(request)
        if not slave or self._slave not in ("", slave):
            who = request.address or f"broker id {request.broker_id}"
            detail = f"{who}, on a connection of {self._slave}" if self._slave else who
            return self._turn_away(Lost.NO_REPLICA, detail)
        self._slave, self._request = slave, request
        self.start_rule = self.handshake.start_rule(request)
        return self._answer(self._extent) if self._extent is not None else NOTHING

    def report(self, report_bytes: int, now_s: float) -> Effects:
        """Judge a report: the last complete one of what was read."""
        self._last_report_s = now_s
        if self._over:
            return NOTHING
        if self.handshake is not None and not self._slave:
            return self._turn_away(Lost.NO_HANDSHAKE, "")
        if self._extent is None:
            self._held_report_bytes = report_bytes
            return NOTHING
        return self._judge(report_bytes, self._extent)

    def tick(self, now_s: float) -> Effects:
        """Close the connection if it was silent for too long; harmless when called early."""
        if self._over or now_s < self.deadline_s:
            return NOTHING
        self._over = True
        return Effects(silent=True)

    def _answer(self, extent: LogExtent) -> Effects:
        request, self._request = self._request, None
        if request is None:
            return NOTHING
        assert self.handshake is not None
        return Effects(
            identified=Identified(
                slave=self._slave,
                async_learner=request.async_learner,
                answer=self.handshake.answer(extent),
            )
        )

    def _turn_away(self, reason: Lost, detail: str) -> Effects:
        self._over = True
        return Effects(stranger=RefusedRequest(reason, detail))

    def _judge(self, report_bytes: int, extent: LogExtent) -> Effects:
        reason = self._why_not(report_bytes, extent)
        if reason is not None:
            self._over = True
            unsent = reason is Lost.REPORT_UNSENT
            return Effects(
                refused=RefusedReport(
                    reason=reason,
                    report_bytes=report_bytes,
                    min_bytes=extent.min_bytes,
                    max_bytes=self._sent_bytes() if unsent else extent.written_bytes,
                )
            )
        if self.started:
            return Effects(acked_bytes=report_bytes)
        start_bytes = self.start_rule.start_bytes(report_bytes, extent, self.segment_bytes)
        assert self.upstream or extent.min_bytes <= start_bytes <= extent.written_bytes
        self._start_bytes = start_bytes
        start = Start(
            report_bytes=report_bytes,
            start_bytes=start_bytes,
            holds_from_bytes=start_bytes if report_bytes == 0 else 0,
        )
        return Effects(start=start, acked_bytes=report_bytes)

    def _why_not(self, report_bytes: int, extent: LogExtent) -> Lost | None:
        if report_bytes < 0:
            return Lost.REPORT_NEGATIVE
        if self.upstream:
            return None
        if report_bytes > extent.written_bytes:
            return Lost.REPORT_AHEAD
        if self.started and report_bytes > self._sent_bytes():
            return Lost.REPORT_UNSENT
        if not self.started and 0 < report_bytes < extent.min_bytes:
            return Lost.REPORT_BELOW_MIN
        return None

    def _sent_bytes(self) -> int:
        """The end of what the slave can have: of its first report, or of what it was sent since."""
        assert self._start_bytes is not None
        return max(self._start_bytes, self.mark.end_bytes)
