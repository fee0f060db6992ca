"""WriteSocket sends the log to one slave.

Source: apache/rocketmq store/ha/DefaultHAConnection.WriteSocketService; the decisions and their
differences are in `core.transfer_progress`.

Differs from upstream: bytes are compared with what was written before they are sent
(`storage.scrub.scrubber`), so that a damaged copy does not become the slave's;
`storage.scrub.approval` says how long that holds.

Messages: Answer, ahead of all else, and Begin, once, from read_socket; LogGrew from the store. It
asks the scrubber Check, ahead of what it sends. With `poll_s` growth does not wake it: it looks at
each multiple of that, as an idle writer of upstream's ASYNC_MASTER does (T19). It defers its
position to connection_state. It waits only for its own slave's socket, so a stalled slave does not
delay others. It ends with the connection: when a send fails, or when the file that it needs was
deleted by age.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import SendHalf
from actors.ha import connection_state
from actors.ha.core.dialect import Dialect
from actors.ha.core.states import Lost
from actors.ha.core.transfer_progress import Expired, Frame, Heartbeat, TransferProgress, Wait
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog import store_messages
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.scrub import scrubber_messages
from actors.storage.scrub.approval import HOLDS_S, Approval

TURN_BYTES = 1 << 20
"""Bytes sent between two looks at the mailbox, so that a stop or a deletion is noticed in time."""
COPY_BYTES = 16 << 10
"""The largest frame that is read and sent with its header in one call. A larger one is sent by
sendfile, but not over a slow link, where bytes on the disk might rot meanwhile.
"""
TURN_S = HOLDS_S / 4
"""The longest turn on a slow link, so that bytes are sent not much later than HOLDS_S after they
were compared.
"""
AHEAD_BYTES = scrubber_messages.CHECK_BYTES
"""With fewer bytes left that may be sent, the next ones are asked for: while one answer's bytes are
sent, those of the next are compared.
"""
CHECK_TIMEOUT_S = 60.0
"""How long the scrubber may take to answer. A file without digests is parsed first: 1 GiB of small
records in some seconds.
"""


@attrs.frozen(kw_only=True)
class Begin:
    """The slave's first report was accepted: send from `start_bytes` on."""

    start_bytes: int


@attrs.frozen(kw_only=True)
class Answer:
    """Send this, the answer to a handshake; no frame was sent yet."""

    data: bytes


@attrs.frozen(kw_only=True)
class _Wake:
    """Timer: a heartbeat or the next tick of the rate limit is due; or a long turn goes on."""


@attrs.frozen(kw_only=True)
class _CheckDue:
    """Timer: damaged bytes may have been mended."""


@attrs.frozen
class _Checked:
    """The scrubber's answer for the bytes from `start_bytes` on."""

    start_bytes: int
    outcome: scrubber_messages.Checked | Exception


Message: TypeAlias = Answer | Begin | store_messages.LogGrew
_Inbox: TypeAlias = Message | _Wake | _CheckDue | _Checked


def _only(message: object) -> None:
    return None


@attrs.define
class WriteSocket(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        scrubber: answers which bytes may be sent; None: all may.
    """

    mailbox = MailboxSpec(capacity=8, conflate={store_messages.LogGrew: _only, _Wake: _only})
    _connection: int
    _send: SendHalf
    _dialect: Dialect
    _synced: bool
    _progress: TransferProgress
    _log: LogReader
    _connection_state: ActorRef[connection_state.Message]
    _poll_s: float | None = None
    _scrubber: ActorRef[scrubber_messages.Check] | None = None
    _approval: Approval = attrs.field(factory=lambda: Approval(ahead_bytes=AHEAD_BYTES))
    _checking: bool = False
    _leaves_bytes: int = 0
    _min_bytes: int = 0
    _busy_s: float = 0.0
    _sent_bytes: int = 0
    _ending: bool = False

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        began_s = self.ctx.now_s()
        woken = self._poll_s is None
        for message in messages:
            match message:
                case Answer():
                    await self._answer(message.data)
                case Begin():
                    woken = True
                    self._progress.start(message.start_bytes, began_s)
                case store_messages.LogGrew():
                    self._grew(message, began_s)
                case _CheckDue():
                    pass
                case _Checked():
                    woken = True
                    self._checked(message)
                case _Wake():
                    woken = True
                case _:
                    assert_never(message)
        self._ask_ahead()
        if not woken:
            self._poll_later()
        elif not self._ending:
            await self._take_turn()
            self._ask_ahead()
        self._busy_s = self.ctx.now_s() - began_s

    async def _answer(self, data: bytes) -> None:
        try:
            await self._send_small(data)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await self._end(Lost.BROKEN, str(error))
        else:
            self._sent_bytes += len(data)

    def _grew(self, message: store_messages.LogGrew, now_s: float) -> None:
        """Note the log's new range, which may have come during the last turn."""
        self._leaves_bytes = message.synced_bytes if self._synced else message.written_bytes
        self._min_bytes = message.min_bytes
        self._log.drop_below(message.min_bytes)
        self._approval.grew(self._leaves_bytes, now_s - self._busy_s)

    def _ask_ahead(self) -> None:
        """Have the next bytes checked before they are due."""
        next_bytes, scrubber = self._progress.next_bytes, self._scrubber
        if scrubber is None or self._checking or self._ending or next_bytes is None:
            return
        start = self._approval.ask_from(next_bytes, self.ctx.now_s())
        if start is not None:
            self._checking = True
            self.ctx.ask_later(
                scrubber,
                scrubber_messages.Checked,
                lambda reply_to: scrubber_messages.Check(start_bytes=start, reply_to=reply_to),
                timeout_s=CHECK_TIMEOUT_S,
                on_reply=lambda outcome: _Checked(start, outcome),
            )

    def _checked(self, message: _Checked) -> None:
        """Take the scrubber's answer. At damaged bytes the slave has to wait, connected."""
        self._checking = False
        start, until, outcome = message.start_bytes, message.start_bytes, message.outcome
        is_good = False
        if isinstance(outcome, scrubber_messages.Checked):
            is_good, until = not outcome.rotten, outcome.until_bytes
            self._approval.answered(start, until, outcome.compared_s)
        if not is_good:
            recheck_s = scrubber_messages.RECHECK_S
            self._approval.is_bad(until, self.ctx.now_s() + recheck_s)
            self.ctx.timers.start("check", recheck_s, _CheckDue())

    def _limit(self, now_s: float) -> tuple[int, float]:
        """The offset up to which bytes may be sent, and until when."""
        next_bytes = self._progress.next_bytes
        if self._scrubber is None or next_bytes is None:
            return self._leaves_bytes, now_s + TURN_S
        limit_bytes, until_s = self._approval.limit(next_bytes, now_s)
        return limit_bytes, min(until_s, now_s + TURN_S)

    def _poll_later(self) -> None:
        assert self._poll_s is not None
        if not self.ctx.timers.active("poll"):
            next_s = (self.ctx.now_s() // self._poll_s + 1) * self._poll_s
            self.ctx.timers.start_at("poll", next_s, _Wake())

    async def on_stop(self, reason: StopReason) -> None:
        self._log.close()

    async def _take_turn(self) -> None:
        """Send until nothing is due, at most TURN_BYTES and TURN_S."""
        sent_before = self._sent_bytes
        now_s = self.ctx.now_s()
        limit_bytes, until_s = self._limit(now_s)
        self._progress.grew(self._min_bytes, limit_bytes)
        try:
            while self._sent_bytes - sent_before < TURN_BYTES and now_s < until_s:
                step = self._progress.next_step(now_s)
                match step:
                    case Frame() | Heartbeat():
                        await self._send_step(step)
                    case Wait():
                        if step.until_s is not None:
                            self.ctx.timers.start_at("wake", step.until_s, _Wake())
                        break
                    case Expired():
                        detail = f"{step.next_bytes} is needed, {step.min_bytes} is the first kept"
                        await self._end(Lost.EXPIRED, detail)
                        return
                    case _:
                        assert_never(step)
                now_s = self.ctx.now_s()
            else:
                self.ctx.self_ref.offer(_Wake())  # conflated: there is always room
        except OffsetGone as error:
            await self._end(Lost.EXPIRED, str(error))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await self._end(Lost.BROKEN, str(error))
        else:
            self._defer_position(sent_before)

    async def _send_step(self, step: Frame | Heartbeat) -> None:
        """Send one whole frame. If that is interrupted the stream is unusable, so the connection
        ends.
        """
        size = step.size_bytes if isinstance(step, Frame) else 0
        header = self._dialect.encode_frame_header(step.offset_bytes, size)
        self._progress.sending(step)
        if size == 0:
            await self._send_small(header)
        else:
            file, position, _ = self._log.file_at(step.offset_bytes)
            if size <= COPY_BYTES or self._busy_s > TURN_S:
                body = file.pread(position, size)
                assert len(body) == size  # FilesArePresized
                await self._send_small(header + body)
            else:
                await self._send_small(header)
                await self._send.send_file(file, position, size)
        self._progress.sent(step, self.ctx.now_s())
        self._sent_bytes += len(header) + size

    async def _send_small(self, data: bytes) -> None:
        sent = self._send.send_now(data)
        if sent < len(data):
            await self._send.send_all(data[sent:])

    def _defer_position(self, sent_before: int) -> None:
        next_bytes = self._progress.next_bytes
        if next_bytes is not None and self._sent_bytes > sent_before:
            self._connection_state.defer(
                connection_state.Sent(
                    connection=self._connection,
                    next_bytes=next_bytes,
                    sent_bytes=self._sent_bytes,
                ),
                within_s=connection_state.RATES_WITHIN_S,
            )

    async def _end(self, reason: Lost, detail: str) -> None:
        self._ending = True
        await self._connection_state.tell(
            connection_state.Ending(connection=self._connection, reason=reason, detail=detail)
        )
        self.ctx.stop()
