"""One connection of a slave to its master: takes frames, gives bytes to the store, and reports.

Source: apache/rocketmq store/ha/DefaultHAClient.java (5.3.3), dispatchReadRequest and
reportSlaveMaxOffsetPlus; classic-ha.md 1.4, 2.1, 2.5 and T1, T4, T5, T6, T9.

Differs from upstream:
- The first report is sent at once (up to 4.9.8 after 5 s).
- In a `synced` group only synced offsets are reported, and the first report waits until all that is
  written has been synced (T6). What was reported is held, even after a power loss.
- A report follows the store's answer: bytes that the store did not take are never acknowledged
  (T4). With the dialect's `upstream` it follows the hand-over, whatever comes of it.
- What comes from a Java master is reported by whole records, once these were checked, see
  `RecordVerifier`.
- Frame bodies go to the store in the pieces in which they arrive; upstream waits for the whole
  body.
- A frame that is too large is refused at once (T10). With `upstream` the slave waits for the rest
  of it, as upstream's does: it does not read on, goes on to report, and gives the master up as
  silent.
- Time of last read and last write are separate (T5), and an empty log takes only a multiple of the
  file size (T9).
- An empty log stays empty until bytes come: upstream's slave makes the file that a heartbeat names,
  and is refused for ever once its master has deleted that file for its age.
- It notes where the master's log ends whenever a frame shows that.
- With `passive` the first report of a connection is repeated, so that nothing of what comes after
  it counts at the master.
- Where frames name epochs (`trail`), an epoch is in the own history before the first byte of it is
  given to the store, and what readers may see follows what the master says of it.
"""

from __future__ import annotations

from collections import deque
from typing import assert_never

import attrs

from actors.epochs import History
from actors.ha.core.dialect import Dialect
from actors.ha.core.epoch_trail import EpochTrail
from actors.ha.core.extent import LogExtent
from actors.ha.core.states import Lost
from wire.buffer import NEED_DATA
from wire.errors import RemoteProtocolError
from wire.ha.autoswitch import EpochFrameStarted, HandshakeAnswer, MasterMessage
from wire.ha.frames import (
    FrameData,
    FrameDecoder,
    FrameEnded,
    FrameEvent,
    FrameStarted,
    FrameTooLarge,
)

UPSTREAM_FRAME_BYTES = 32 << 10
"""The body of upstream's largest frame by default (haTransferBatchSize). Whoever sets another size
gives a multiple of FRAME_UNIT_BYTES.
"""
FRAME_UNIT_BYTES = 1 << 10
AT_ONCE_S = 1.0
"""A master that has data sends some within this time after the first report."""
FRAME_PLACE_BYTES = 64 << 10
"""Where a frame may end for other reasons than the end of the log: at a multiple of this in its
file. A file's end is one, and our own master compares bytes in such ranges before it sends them.
"""


@attrs.frozen
class Append:
    """Bytes for the store, exactly at the end of what it was given before.

    Attributes:
        offset_bytes: the physical offset of the first byte.
        data: the bytes, at least one; None: the bytes that `body_kept` was about.
        ends_frame: whether the frame is complete with these bytes.
    """

    offset_bytes: int
    data: bytes | None
    ends_frame: bool


@attrs.frozen(kw_only=True)
class Effects:
    """What one input asks for, in this order: follow, append, report, close.

    Attributes:
        follow: an epoch of the master's has begun: have its history, up to this end of the own log,
            on the disk before bytes are appended.
        report_bytes: the report to send now; call `reported` then.
        lost: why the connection has ended; nothing may be done on it any more.
        expected_bytes, got_bytes: the offsets, if one was refused.
        detail: more about it for people, or "".
    """

    follow: tuple[History, int] | None = None
    append: tuple[Append, ...] = ()
    report_bytes: int | None = None
    lost: Lost | None = None
    expected_bytes: int | None = None
    got_bytes: int | None = None
    detail: str = ""


NOTHING = Effects()


@attrs.define(kw_only=True)
class SlaveProgress:
    """The state of one connection. It is made when the store has reported where its log ends.

    Attributes:
        synced: whether the group's durability is "synced".
        segment_bytes: the size of a local log file.
        heartbeat_s: a report is sent so long after the previous one, whatever arrives.
        housekeeping_s: the connection to a master that is silent for longer is ended.
        extent: the local log; during the connection only this connection makes it grow.
        last_read_s, last_write_s: the times of the last bytes in and out; at first of the connect.
        seen_bytes: nothing from there on is reported, because its records were not checked yet;
            None if they need not be.
        passive: whether the first report is repeated, whatever comes after it.
        trail: the master's epochs; None: frames name none.
        frames_accepted: how many frames came at the right offset, heartbeats included.
        first_bytes: where the first frame begins; None before it.
        master_end_bytes: where the master's log ended when it sent the last frame that shows that;
            None before the first. See `shows_end`.
    """

    dialect: Dialect
    synced: bool
    segment_bytes: int
    heartbeat_s: float
    housekeeping_s: float
    extent: LogExtent
    last_read_s: float
    last_write_s: float
    seen_bytes: int | None = None
    passive: bool = False
    trail: EpochTrail | None = None
    frames_accepted: int = attrs.field(default=0, init=False)
    first_bytes: int | None = attrs.field(default=None, init=False)
    master_end_bytes: int | None = attrs.field(default=None, init=False)
    _decoder: FrameDecoder[FrameStarted] | FrameDecoder[MasterMessage] = attrs.field(init=False)
    _next_bytes: int | None = attrs.field(init=False)  # None: an empty log, any file start will do
    _frame_end_bytes: int = attrs.field(default=0, init=False)
    _frame_counts: bool = attrs.field(
        default=False, init=False
    )  # whether the frame under way has to be reported
    _frame_ends: deque[int] = attrs.field(
        factory=deque, init=False
    )  # given to the store and not in extent yet
    _applied_bytes: int = attrs.field(init=False)  # end of the last frame that is in extent
    _reported_bytes: int | None = attrs.field(default=None, init=False)
    _confirm_bytes: int = attrs.field(default=-1, init=False)  # by the last header
    _over: bool = attrs.field(default=False, init=False)
    _hangs: bool = attrs.field(default=False, init=False)  # in a frame that never ends (T10)

    def __attrs_post_init__(self) -> None:
        self._decoder = self.dialect.frame_decoder()
        written_bytes = self.extent.written_bytes
        self._next_bytes = written_bytes if written_bytes > 0 else None
        self._applied_bytes = written_bytes

    @property
    def reported_bytes(self) -> int | None:
        """The offset of this connection's last report; None before the first."""
        return self._reported_bytes

    @property
    def deadline_s(self) -> float:
        """When to call `tick`."""
        silent_s = self.last_read_s + self.housekeeping_s
        if self._reported_bytes is None:
            return silent_s
        return min(silent_s, self.last_write_s + self.heartbeat_s)

    @property
    def confirm_bytes(self) -> int:
        """Up to here readers may see the own log, by the last header; -1: none has said so."""
        return min(self._confirm_bytes, self.extent.written_bytes)

    def begin(self) -> Effects:
        """Send the first report, unless a sync has to end before; this is the first input."""
        return self._report_if_new()

    def received(self, data: bytes, now_s: float) -> Effects:
        """Take bytes from the master. Those before a refused frame are still appended."""
        return self._received(data, now_s)

    def body_kept(self, size_bytes: int, now_s: float) -> Effects:
        """Note so many bytes, of the present frame's body alone, which the caller keeps."""
        return self._received(size_bytes, now_s)

    def _received(self, came: bytes | int, now_s: float) -> Effects:
        if self._over or self._hangs:
            return NOTHING
        self.last_read_s = now_s
        appends: list[Append] = []
        refused, follow = NOTHING, None
        try:
            if isinstance(came, bytes):
                self._decoder.receive_data(came)
            else:
                appends.append(self._piece(self._decoder.body_passed(came), came, None))
            while refused is NOTHING and (event := self._decoder.next_event()) is not NEED_DATA:
                refused = self._take(event, appends)
                if refused.follow is not None:
                    follow, refused = refused.follow, NOTHING
        except RemoteProtocolError as error:
            self._hangs = self.dialect.upstream and isinstance(error, FrameTooLarge)
            refused = NOTHING if self._hangs else self._end(Lost.BAD_FRAME)
        if refused is NOTHING and self.dialect.upstream and self._reported_bytes is not None:
            refused = self._report_if_new()
        return attrs.evolve(refused, append=tuple(appends), follow=follow)

    def grew(self, extent: LogExtent) -> Effects:
        """Note the range that the store published after an append or a sync."""
        if self._over:
            return NOTHING
        self.extent = extent
        while self._frame_ends and self._frame_ends[0] <= extent.written_bytes:
            self._applied_bytes = self._frame_ends.popleft()
        cut = self._reported_bytes is not None and extent.written_bytes < self._reported_bytes
        if cut and not self.dialect.upstream:
            return self._end(Lost.LOG_CUT)
        return self._report_if_new()

    def seen(self, seen_bytes: int) -> Effects:
        """Note that the records up to there were checked and are good."""
        self.seen_bytes = seen_bytes
        return NOTHING if self._over else self._report_if_new()

    def tick(self, now_s: float) -> Effects:
        """Give a silent master up, or report the same offset again, if that is due."""
        if self._over:
            return NOTHING
        if now_s >= self.last_read_s + self.housekeeping_s:
            return self._end(Lost.SILENT)
        if self._reported_bytes is not None and now_s >= self.last_write_s + self.heartbeat_s:
            again = self._reported_bytes
            return Effects(
                report_bytes=again if self.passive else max(again, self._reportable_bytes())
            )
        return NOTHING

    def reported(self, offset_bytes: int, now_s: float) -> None:
        """Note that the whole report was sent."""
        assert (
            self._reported_bytes is None or offset_bytes >= self._reported_bytes
        )  # ReportMonotonic
        held_bytes = self.extent.durable_bytes(synced=self.synced)
        assert self.dialect.upstream or offset_bytes <= held_bytes  # ReportedIsHeld
        self._reported_bytes = offset_bytes
        self.last_write_s = now_s

    def _take(self, event: FrameEvent | HandshakeAnswer, appends: list[Append]) -> Effects:
        match event:
            case HandshakeAnswer():
                return self._end(Lost.WRONG_PHASE)
            case FrameStarted():
                return self._start_frame(event)
            case FrameData(offset, data):
                appends.append(self._piece(offset, len(data), data))
            case FrameEnded(offset_end):
                if self._frame_counts:
                    self._frame_ends.append(offset_end)
            case _:
                assert_never(event)
        return NOTHING

    def _piece(self, offset: int, size: int, data: bytes | None) -> Append:
        assert offset == self._next_bytes  # FramesContiguous
        self._next_bytes = offset + size
        return Append(offset, data, self._next_bytes == self._frame_end_bytes)

    def _start_frame(self, head: FrameStarted) -> Effects:
        offset, size = head.offset, head.size
        self._frame_counts = size > 0
        if self._next_bytes is None:
            if offset < 0:
                return NOTHING  # a heartbeat of a master that has nothing either
            if offset % self.segment_bytes != 0:
                return self._end(Lost.UNALIGNED, expected_bytes=0, got_bytes=offset)
            self._next_bytes = offset
        if offset != self._next_bytes:
            return self._end(
                Lost.OFFSET_MISMATCH, expected_bytes=self._next_bytes, got_bytes=offset
            )
        if self.frames_accepted == 0:
            self.first_bytes = offset
        self.frames_accepted += 1
        self._frame_end_bytes = offset + size
        # Up to 4.9.8 a heartbeat may come in front of all data, where the first report came late.
        is_first = self.frames_accepted == 1 and self.last_read_s < self.last_write_s + AT_ONCE_S
        if shows_end(offset, size, self.segment_bytes) and not (size == 0 and is_first):
            self.master_end_bytes = offset + size
        return NOTHING if self.trail is None else self._follow(self.trail, head)

    def _follow(self, trail: EpochTrail, head: FrameStarted) -> Effects:
        assert isinstance(head, EpochFrameStarted)
        if problem := trail.frame(head):
            return attrs.evolve(self._end(Lost.EPOCH_MISMATCH), detail=problem)
        self._confirm_bytes = head.confirm
        return Effects(follow=(trail.theirs, head.offset)) if trail.due(head.offset) else NOTHING

    def _reportable_bytes(self) -> int:
        if self.dialect.upstream and self._frame_ends:
            return self._frame_ends[-1]
        held_bytes = self.extent.synced_bytes if self.synced else self._applied_bytes
        return held_bytes if self.seen_bytes is None else min(held_bytes, self.seen_bytes)

    def _report_if_new(self) -> Effects:
        offset_bytes = self._reportable_bytes()
        if self._reported_bytes is None:
            # The master goes on where the first report says, so that must be the end of the log.
            if offset_bytes == self.extent.written_bytes:
                return Effects(report_bytes=offset_bytes)
        elif offset_bytes > self._reported_bytes and not self.passive:
            return Effects(report_bytes=offset_bytes)
        return NOTHING

    def _end(
        self, lost: Lost, expected_bytes: int | None = None, got_bytes: int | None = None
    ) -> Effects:
        self._over = True
        return Effects(lost=lost, expected_bytes=expected_bytes, got_bytes=got_bytes)


def shows_end(offset: int, size: int, segment_bytes: int) -> bool:
    """Whether a frame shows that the master's log ended with it when it was sent.

    A master sends a heartbeat when it has sent all, and fills a frame unless its log ends there, or
    a file. A limit of bytes per second on the master may cut frames shorter; upstream's counts
    headers only, and so hardly ever does.
    """
    if size == 0:
        return True
    is_short = size < UPSTREAM_FRAME_BYTES and size % FRAME_UNIT_BYTES != 0
    return is_short and (offset + size) % segment_bytes % FRAME_PLACE_BYTES != 0
