"""LogJudge compares the end of a copy's log with what its master sends, before the copy follows it.

A stock broker believes whatever its slave reports (classic-ha.md T1, T3): a slave that has more
than the master, or other bytes, is sent what comes next all the same, and stores it behind bytes
that the master never had. So on a connection of its own the judge asks for the last bytes of the
copy once more. To ask for an offset is to report it: nothing is reported that the copy does not
have on its disk. The CRCs of the records before it may not have been checked since the start.

A master that sends none of them has either deleted them or never had them. A report of 0 tells
these apart, because the answer begins with the master's last file.

Messages: Verify from ha_client. Its feeder answers; a newer question replaces an older one. A
restart forgets nothing that anybody waits for. There is no upstream.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from actors.env.protocols import Address, Network, RunBeside, Stream
from actors.ha.core.dialect import Dialect
from actors.ha.role_messages import NotCompared, Verified, Verify
from actors.runtime import Actor
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.buffer import NEED_DATA
from wire.errors import RemoteProtocolError
from wire.ha.frames import FrameData, FrameStarted

COMPARE_BYTES = 1 << 20
"""So much of the log's end is compared, or all of it: some thousand records."""
COMPARE_S = 9.0
"""An answer comes within so much: a master that has nothing to send says so after 5 s, and
ha_client asks again after 10 s.
"""
SILENT_S = 1.0
"""A master that has what it is asked for sends some within so much, or is asked otherwise too."""
RECEIVE_BYTES = 64 << 10


@attrs.define(kw_only=True)
class LogJudge(Actor[Verify]):
    """See the module's text.

    Attributes:
        make_reader: makes a reader of the copy's log.
        connect_timeout_s: for one attempt.
    """

    network: Network
    master: Address
    dialect: Dialect
    make_reader: Callable[[], LogReader]
    connect_timeout_s: float
    run_beside: RunBeside
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    async def handle(self, message: Verify) -> None:
        self._scope.cancel()
        self._scope = trio.CancelScope()
        self.ctx.spawn(self._feed, message, self._scope)

    async def _feed(self, question: Verify, scope: trio.CancelScope) -> None:
        reader = self.make_reader()
        with scope:
            try:
                with trio.fail_after(COMPARE_S):
                    verdict = await self._judged(reader, question)
                question.reply_to.send(verdict)
            except* trio.TooSlowError:
                question.reply_to.fail(NotCompared(f"no answer within {COMPARE_S:g} s"))
            except* (OSError, trio.BrokenResourceError, OffsetGone, RemoteProtocolError) as group:
                question.reply_to.fail(NotCompared(str(_first(group))))
            finally:
                reader.close()

    async def _judged(self, reader: LogReader, question: Verify) -> Verified:
        """Compare. Raises: alone or in an ExceptionGroup: OSError, BrokenResourceError: the
        connection failed, or the copy cannot be read; OffsetGone: likewise; RemoteProtocolError:
        the master sent no frames.
        """
        end_bytes, bases = question.end_bytes, await self.run_beside(reader.bases)
        begin_bytes = bases[0] if bases else end_bytes
        if begin_bytes >= end_bytes:
            return Verified(fits=True)  # an empty log, or one that begins with nothing in it
        size = reader.segment_bytes
        start_bytes = min(max(begin_bytes, end_bytes - COMPARE_BYTES), question.synced_bytes)
        start_bytes = max(start_bytes, 1)  # 0 asks for the last file
        last_bytes = min((end_bytes - 1) // size * size, question.synced_bytes)
        starts = (start_bytes, max(start_bytes, last_bytes))
        answers = await self._answers(starts, end_bytes)
        for start_bytes in starts:
            theirs = answers.get(start_bytes)
            if theirs is not None and theirs.says(start_bytes):
                return await self._compared(reader, start_bytes, end_bytes, theirs)
        # The master has all of its last file: does that begin above or below?
        last_bytes = answers[0].offset_bytes
        if last_bytes <= starts[-1]:
            return Verified(fits=False, detail=_lost(f"at or below {starts[0]}", end_bytes))
        return Verified(
            fits=False,
            detail=f"the master has deleted its file that holds offset {end_bytes - 1}, the last of"
            f" this copy: its last file begins at {last_bytes}",
        )

    async def _answers(self, starts: tuple[int, ...], end_bytes: int) -> dict[int, _Answer]:
        """What the master sends from the first of these offsets on, or if it is silent there for
        SILENT_S, from each of them and from 0. Raises: an ExceptionGroup, see `_asked`.
        """
        answers: dict[int, _Answer] = {}
        async with trio.open_nursery() as nursery:

            async def ask(start_bytes: int, after_s: float) -> None:
                await trio.sleep(after_s)
                size_bytes = end_bytes - start_bytes if start_bytes else 1
                answers[start_bytes] = await self._asked(start_bytes, size_bytes)
                if start_bytes and answers[start_bytes].says(start_bytes):
                    nursery.cancel_scope.cancel()

            for start_bytes in dict.fromkeys((*starts, 0)):
                after_s = 0.0 if start_bytes == starts[0] else SILENT_S
                nursery.start_soon(ask, start_bytes, after_s)
        return answers

    async def _compared(
        self, reader: LogReader, start_bytes: int, end_bytes: int, theirs: _Answer
    ) -> Verified:
        if theirs.offset_bytes != start_bytes:
            detail = f"asked for offset {start_bytes}, the master sent {theirs.offset_bytes}"
            return Verified(fits=False, detail=detail)
        until_bytes = start_bytes + len(theirs.data)
        ours = await self.run_beside(lambda: _own(reader, start_bytes, until_bytes))
        if ours != theirs.data:
            pairs = zip(ours, theirs.data, strict=True)
            same = next(at for at, (our, their) in enumerate(pairs) if our != their)
            detail = f"the master has other bytes from offset {start_bytes + same} on"
            return Verified(fits=False, detail=detail)
        if until_bytes < end_bytes:
            return Verified(fits=False, detail=_lost(f"at {until_bytes}", end_bytes))
        return Verified(fits=True)

    async def _asked(self, start_bytes: int, size_bytes: int) -> _Answer:
        """What the master sends who reports `start_bytes`, up to so many bytes of log."""
        with trio.fail_after(self.connect_timeout_s):
            stream = await self.network.connect(self.master.host, self.master.port)
        try:
            return await self._receive(stream, start_bytes, size_bytes)
        finally:
            stream.abort()

    async def _receive(self, stream: Stream, start_bytes: int, size_bytes: int) -> _Answer:
        receive, send = stream.halves()
        await send.send_all(self.dialect.encode_report(start_bytes))
        decoder, data = self.dialect.frame_decoder(), bytearray()
        first: int | None = None
        while True:
            while (event := decoder.next_event()) is not NEED_DATA:
                match event:
                    case FrameStarted(offset, size):
                        first = offset if first is None else first
                        if size == 0 or offset != first + len(data):
                            return _Answer(first, bytes(data))
                    case FrameData(_, came):
                        data += came
                        if len(data) >= size_bytes:
                            assert first is not None
                            return _Answer(first, bytes(data[:size_bytes]))
                    case _:
                        pass
            if not (came := await receive.receive_some(RECEIVE_BYTES)):
                raise trio.BrokenResourceError("the master closed the connection")
            decoder.receive_data(came)


@attrs.frozen
class _Answer:
    """Bytes of the master's log from `offset_bytes` on; none if it has sent a heartbeat first."""

    offset_bytes: int
    data: bytes

    def says(self, start_bytes: int) -> bool:
        """Whether it is more than that the master has nothing there."""
        return bool(self.data) or self.offset_bytes != start_bytes


def _lost(where: str, end_bytes: int) -> str:
    return f"the master's log ends {where}, this copy at {end_bytes}: the master has lost the rest"


def _own(reader: LogReader, start_bytes: int, end_bytes: int) -> bytes:
    """The copy's bytes. Raises: OSError, OffsetGone."""
    data = b""
    while start_bytes + len(data) < end_bytes:
        at = start_bytes + len(data)
        data += reader.read(at, end_bytes - at, end_bytes)
    return data


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
