"""The bytes that a slave's store receives: one session's at a time, written where they belong."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from actors.env.protocols import Held
from actors.runtime import ActorRef
from actors.storage.commitlog.page_seal import PageSeal, bytes_to_seal
from actors.storage.commitlog.store_messages import AppendRaw, OpenSession, RawRefused
from actors.storage.log.commit_log import CommitLog, OffsetMismatch


@attrs.frozen
class Refused:
    """`message` was not written, and nothing of its session will be."""

    message: AppendRaw
    error: OffsetMismatch | OSError
    source: ActorRef[RawRefused]


@attrs.frozen
class RawWritten:
    """What became of some messages, in their order.

    Attributes:
        first_bytes: where the first of those that were written begins; None: none was.
        ends_frame: a frame ends in them.
        refused: the one that came behind them, if it could not be written.
    """

    first_bytes: int | None
    ends_frame: bool
    refused: Refused | None


@attrs.define
class RawSession:
    """Which session counts: the newest that was opened, until it is refused.

    Attributes:
        seal: for pages that end in a record's head; None: they go unsealed.
    """

    seal: PageSeal | None
    session: int = -1
    _source: ActorRef[RawRefused] | None = None

    def open(self, message: OpenSession) -> bool:
        """False for an older one, which changes nothing."""
        if message.session <= self.session:
            return False
        self.session, self._source = message.session, message.source
        return True

    async def write(
        self, log: CommitLog, messages: Sequence[AppendRaw], why_not: str
    ) -> RawWritten:
        """One after the other, until one is refused. Waits for the disk where a page is sealed.

        Args:
            why_not: refuses all; "" if nothing does.

        Raises: StorageError: a seal failed; the log ends where its page does.
        """
        first_bytes, ends_frame = None, False
        for message in messages:
            if message.session != self.session or self._source is None:
                continue  # the fence: a session that was replaced, or refused
            try:
                if why_not:
                    raise OffsetMismatch(why_not)
                await self._append(log, message)
            except (OffsetMismatch, OSError) as error:
                refused, self._source = Refused(message, error, self._source), None
                return RawWritten(first_bytes, ends_frame, refused)
            if first_bytes is None:
                first_bytes = message.offset_bytes
            ends_frame = ends_frame or message.ends_frame
        return RawWritten(first_bytes, ends_frame, None)

    def close(self) -> None:
        """At the store's end."""
        if self.seal is not None:
            self.seal.close()

    async def _append(self, log: CommitLog, message: AppendRaw) -> None:
        """All of it, or nothing: there is room for the rest before the first part is written."""
        offset, data = message.offset_bytes, message.data
        rest: bytes | memoryview | Held = data
        if self.seal is not None and offset == log.written_bytes:
            size = bytes_to_seal(offset, log.segment_bytes, data)
            if size:
                log.reserve(offset + len(data))
                path = log.path_of(offset)
                log.append_raw(offset, data, size)
                offset += size
                await self.seal.seal(path, offset)
                rest = memoryview(data)[size:] if isinstance(data, bytes) else data
        if len(rest):
            log.append_raw(offset, rest)
