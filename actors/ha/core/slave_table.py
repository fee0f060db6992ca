"""What the master knows of its slaves and their connections, for its status.

Source: apache/rocketmq store/ha/DefaultHAService.getRuntimeInfo and HARuntimeInfo (5.3.3);
classic-ha.md 5.4 and T12.

Differs from upstream: there is a row for each configured slave, so that a missing slave is seen.
Each row says why its last connection ended. The newest identified connection of a slave replaces
the older one (with `upstream` both stay: T12).

So another process on a slave's machine that reports 0 replaces the real slave's connection. The
newer connection is not refused while the older one stands, even if it reports less than the older
one has acknowledged, for these reasons:
- A slave that restarted without its tail does exactly this, and its old connection may be half
  open. If it was refused until the old one is gone, it would wait for housekeeping (20 s).
  Meanwhile what the old one acknowledged would count as a copy that no node has, and with another
  slave's copy an append would be acknowledged with too few copies.
- The newer one could be refused, and the older one not be believed until it proves itself
  (group_transfer's rule for an older connection). That is safe, but the proof has to name bytes
  that were written later, so the last append before a pause would wait for the next one, or time
  out.
- Nothing in eight bytes distinguishes the two, and a Java slave has no other channel.
The replaced real slave connects again and replaces the other one: appends wait that long, and no
acknowledgement of a lost tail counts meanwhile.
"""

from __future__ import annotations

import attrs

from actors.ha.core.extent import LogExtent
from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.states import MASTER_TRANSITIONS, HAConnectionState, Lost, Trigger, after


@attrs.frozen(kw_only=True)
class SlaveStatus:
    """One configured slave, as its master sees it. Upstream's names in brackets.

    Attributes:
        node, kind: from the configuration.
        counts: whether its reports count towards `copies`; a Java slave of a `synced` group is
            "written only".
        address: the newest connection's, "" if there never was one. [addr]
        connection: the newest connection's number, 0 if there never was one.
        state: SHUTDOWN: not connected; READY: connected, no report yet; TRANSFER.
        ack_bytes: last accepted report on this connection; None before it. [slaveAckOffset]
        next_bytes: first byte not sent yet; None before the first report. [transferFromWhere]
        lag_bytes: the master's end minus `ack_bytes`; None without an acknowledgement. [diff]
        in_sync: connected and `lag_bytes` below the configured gap. [inSync]
        bytes_per_s: bytes sent in the last full second. [transferredByteInSecond]
        sent_bytes: bytes sent on this connection.
        connected_s, report_age_s: seconds since the connect and the last report; None if there was
            none.
        last_error: why the previous connection ended, "" if none did.
    """

    node: str
    kind: str
    counts: bool
    address: str
    connection: int
    state: HAConnectionState
    ack_bytes: int | None
    next_bytes: int | None
    lag_bytes: int | None
    in_sync: bool
    bytes_per_s: int
    sent_bytes: int
    connected_s: float | None
    report_age_s: float | None
    last_error: str


SHOWN_REFUSALS = (Lost.REPORT_NEGATIVE, Lost.REPORT_AHEAD, Lost.REPORT_BELOW_MIN)
"""Refused reports that a slave's row shows as reasons although the connection never became the
slave's.
"""


@attrs.define(kw_only=True)
class _Connection:
    number: int
    address: str
    opened_s: float
    state: HAConnectionState = HAConnectionState.READY
    ack_bytes: int | None = None
    report_s: float | None = None
    next_bytes: int | None = None
    sent_bytes: int = 0
    ending: tuple[Lost, str] | None = None
    meter: RateLimiter = attrs.field(factory=RateLimiter)


@attrs.define(kw_only=True)
class _Row:
    kind: str
    counts: bool
    current: _Connection | None = None  # the newest identified connection, also after its end
    last_error: str = ""


@attrs.define(kw_only=True)
class SlaveTable:
    """Rows by slave; connections by number.

    Attributes:
        in_sync_gap_bytes: upstream's haMaxGapNotInSync.
        upstream: whether connections do not replace each other (`compat`).
    """

    in_sync_gap_bytes: int
    upstream: bool = False
    _rows: dict[str, _Row] = attrs.field(factory=dict, init=False)
    _live: dict[int, tuple[str, _Connection]] = attrs.field(factory=dict, init=False)

    def add_slave(self, slave: str, kind: str, *, counts: bool) -> None:
        assert slave not in self._rows
        self._rows[slave] = _Row(kind=kind, counts=counts)

    def know(self, slave: str) -> None:
        """Have a row for a slave that may have none yet: one that no configuration names."""
        self._rows.setdefault(slave, _Row(kind="python", counts=True))

    def kind(self, slave: str) -> str:
        """The kind of this slave: "python" or "java"."""
        return self._rows[slave].kind

    @property
    def connection_count(self) -> int:
        """The number of open connections, identified or not."""
        return len(self._live)

    def opened(self, slave: str, connection: int, address: str, now_s: float) -> None:
        """Note an accepted stream from the slave's address; its first report will identify it."""
        assert connection not in self._live
        opened = _Connection(number=connection, address=address, opened_s=now_s)
        self._live[connection] = (slave, opened)
        row = self._rows[slave]
        if row.current is None or row.current.state == HAConnectionState.SHUTDOWN:
            row.current = opened

    def reported(self, connection: int, offset_bytes: int, now_s: float) -> int | None:
        """Note an accepted report.

        Returns: the number of a connection that has to end because there is a newer one of the same
            slave; None if there is none.
        """
        found = self._live.get(connection)
        if found is None:
            return None
        slave, reporting = found
        reporting.ack_bytes = offset_bytes
        reporting.report_s = now_s
        if reporting.state != HAConnectionState.READY:
            return None
        reporting.state = after(MASTER_TRANSITIONS, reporting.state, Trigger.FIRST_REPORT)
        row = self._rows[slave]
        older = row.current
        if older is None or older is reporting:
            return None
        if older.number > connection and older.state == HAConnectionState.TRANSFER:
            # It was accepted before the current one, and reported after it.
            return None if self.upstream else connection
        row.current = reporting
        replaced = older.state == HAConnectionState.TRANSFER and not self.upstream
        return older.number if replaced else None

    def sent(self, connection: int, next_bytes: int, sent_bytes: int, now_s: float) -> None:
        """Note how far the log was sent on this connection, and how many bytes."""
        found = self._live.get(connection)
        if found is None:
            return
        sending = found[1]
        sending.meter.count(sent_bytes - sending.sent_bytes, now_s)
        sending.next_bytes = next_bytes
        sending.sent_bytes = sent_bytes

    def ending(self, connection: int, reason: Lost, detail: str) -> str | None:
        """Note why a connection is about to end; the first reason is kept.

        Returns: its slave; None if the connection is not open.
        """
        found = self._live.get(connection)
        if found is None:
            return None
        slave, ending = found
        if ending.ending is None:
            ending.ending = (reason, f"{reason.value}: {detail}" if detail else reason.value)
        return slave

    def closed(self, connection: int) -> tuple[str, str] | None:
        """Note that a connection has ended.

        Returns: its slave and the reason; None if it was known to have ended.
        """
        found = self._live.pop(connection, None)
        if found is None:
            return None
        slave, ended = found
        spoke = ended.state == HAConnectionState.TRANSFER
        ended.state = after(MASTER_TRANSITIONS, ended.state, Trigger.LOST)
        reason, text = ended.ending or (Lost.BROKEN, Lost.BROKEN.value)
        row = self._rows[slave]
        if row.current is ended or (
            reason != Lost.REPLACED and (spoke or reason in SHOWN_REFUSALS)
        ):
            row.last_error = text
        return slave, text

    def status(self, extent: LogExtent, now_s: float) -> tuple[SlaveStatus, ...]:
        """The status of every configured slave, in the order of the configuration."""
        return tuple(
            self._slave_status(slave, row, extent.written_bytes, now_s)
            for slave, row in self._rows.items()
        )

    def _slave_status(self, slave: str, row: _Row, end_bytes: int, now_s: float) -> SlaveStatus:
        current = row.current
        connected = current is not None and current.state != HAConnectionState.SHUTDOWN
        ack_bytes = current.ack_bytes if current is not None else None
        lag_bytes = max(end_bytes - ack_bytes, 0) if ack_bytes is not None else None
        report_s = current.report_s if current is not None else None
        return SlaveStatus(
            node=slave,
            kind=row.kind,
            counts=row.counts,
            address=current.address if current is not None else "",
            connection=current.number if current is not None else 0,
            state=current.state if current is not None else HAConnectionState.SHUTDOWN,
            ack_bytes=ack_bytes,
            next_bytes=current.next_bytes if current is not None else None,
            lag_bytes=lag_bytes,
            in_sync=connected and lag_bytes is not None and lag_bytes < self.in_sync_gap_bytes,
            bytes_per_s=current.meter.last_second_bytes(now_s) if current is not None else 0,
            sent_bytes=current.sent_bytes if current is not None else 0,
            connected_s=now_s - current.opened_s if connected and current is not None else None,
            report_age_s=now_s - report_s if report_s is not None else None,
            last_error=row.last_error,
        )
