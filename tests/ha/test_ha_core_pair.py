"""Master's and slave's decisions joined back to back, with every cut of the streams."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.ha.core.dialect import ClassicDialect
from actors.ha.core.extent import LogExtent
from actors.ha.core.report_progress import ReportProgress
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.slave_progress import Effects, SlaveProgress
from actors.ha.core.transfer_progress import Expired, Frame, Heartbeat, TransferProgress
from wire.ha.frames import Report

FILE = 64


class Pair(RuleBasedStateMachine):
    """One master, one slave, `synced`; the model: the slave holds a prefix of the master's log."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.dialect = ClassicDialect()
        self.log = b""
        self.synced = 0
        self.slave_log = b""
        self.slave_synced = 0
        self.pending: list[bytes] = []  # given to the slave's store, not written yet
        self.connect()

    def connect(self) -> None:
        self.slave_log += b"".join(self.pending)  # a store finishes what it was given
        self.pending = []
        self.slave_synced = len(self.slave_log)
        self.down = b""  # bytes on the way to the slave
        self.up = b""
        self.decoder = self.dialect.request_decoder()
        mark = SentMark()
        self.reader = ReportProgress(
            start_rule=self.dialect.start_rule,
            segment_bytes=FILE,
            housekeeping_s=20.0,
            mark=mark,
            last_report_s=self.now_s,
        )
        self.writer = TransferProgress(
            frame_bytes=10, header_bytes=12, segment_bytes=FILE, heartbeat_s=5.0, mark=mark
        )
        self.slave = SlaveProgress(
            dialect=self.dialect,
            synced=True,
            segment_bytes=FILE,
            heartbeat_s=5.0,
            housekeeping_s=20.0,
            extent=LogExtent(0, len(self.slave_log), self.slave_synced),
            last_read_s=self.now_s,
            last_write_s=self.now_s,
        )
        self.master_grew()
        self.carry_out(self.slave.begin())
        assert self.up  # all is synced, so the first report left at once

    def carry_out(self, effects: Effects) -> None:
        assert effects.lost is None
        self.pending += [piece.data for piece in effects.append]
        if effects.report_bytes is not None:
            self.up += self.dialect.encode_report(effects.report_bytes)
            self.slave.reported(effects.report_bytes, self.now_s)

    def master_grew(self) -> None:
        extent = LogExtent(0, len(self.log), self.synced)
        self.reader.grew(extent)
        self.writer.grew(0, self.synced)

    @rule(size=st.integers(1, 100), share=st.floats(0, 1))
    def append(self, size: int, share: float) -> None:
        self.log += bytes((len(self.log) + n) % 251 for n in range(size))
        self.synced += int((len(self.log) - self.synced) * share)
        self.master_grew()

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        for _ in range(count):
            step = self.writer.next_step(self.now_s)
            assert not isinstance(step, Expired)
            if isinstance(step, Frame | Heartbeat):
                size = step.size_bytes if isinstance(step, Frame) else 0
                end = step.offset_bytes + size
                assert end <= self.synced  # nothing leaves before the master's own sync
                self.writer.sending(step)
                self.down += self.dialect.encode_frame_header(step.offset_bytes, size)
                self.down += self.log[step.offset_bytes : end]
                self.writer.sent(step, self.now_s)

    @precondition(lambda self: self.down)
    @rule(size=st.integers(1, 40))
    def to_slave(self, size: int) -> None:
        data, self.down = self.down[:size], self.down[size:]
        self.carry_out(self.slave.received(data, self.now_s))

    @rule(count=st.integers(0, 5), share=st.floats(0, 1))
    def slave_store(self, count: int, share: float) -> None:
        self.slave_log += b"".join(self.pending[:count])
        del self.pending[:count]
        self.slave_synced += int((len(self.slave_log) - self.slave_synced) * share)
        extent = LogExtent(0, len(self.slave_log), self.slave_synced)
        self.carry_out(self.slave.grew(extent))

    @precondition(lambda self: self.up)
    @rule(size=st.integers(1, 20))
    def to_master(self, size: int) -> None:
        data, self.up = self.up[:size], self.up[size:]
        self.decoder.receive_data(data)
        report = self.decoder.next_message()
        if not isinstance(report, Report):
            return
        effects = self.reader.report(report.offset, self.now_s)
        assert effects.refused is None
        assert effects.acked_bytes == report.offset
        assert report.offset <= self.slave_synced  # AckedIsSynced
        if effects.start is not None:
            self.writer.start(effects.start.start_bytes, self.now_s)

    @rule(pause_s=st.floats(0, 4))
    def time(self, pause_s: float) -> None:
        self.now_s += pause_s
        self.slave.last_read_s = self.now_s  # no test of silence here
        self.carry_out(self.slave.tick(self.now_s))

    @rule()
    def reconnect(self) -> None:
        self.connect()

    @invariant()
    def slave_is_a_prefix(self) -> None:
        whole = self.slave_log + b"".join(self.pending)
        assert self.log.startswith(whole)  # SlaveIsPrefix
        assert len(whole) <= self.synced


TestPairMachine = Pair.TestCase
TestPairMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
