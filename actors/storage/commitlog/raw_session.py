"""The bytes that a slave's store receives: one session's at a time, written where they belong.

PageSeal: no power loss leaves a hole in the head of a received record, which nothing would show.

A slave's writes end where its master's bytes happened to be cut, so an end may lie within a record.
The kernel writes pages back when it likes: after a power loss a page may be there as it was before
the last write to it, and the page behind it as it is now. Then the log has a hole: zeros from an
end X of some write up to the end P of X's page (or of a later one). What recovery makes of it:

| The hole                                  | Why it is noticed, or harmless                      |
|-------------------------------------------|-----------------------------------------------------|
| is 112 bytes or longer (`HEAD_BYTES_MAX`) | it covers the magic; or bodyLength, and behind it   |
|                                           | the lengths of topic and properties, which then do  |
|                                           | not add up to the size; or bytes of the body (CRC), |
|                                           | of the topic or the properties (never zero)         |
| begins where a record begins              | its size is 0, or does not fit its lengths          |
| reaches the end of the record that X is   | the same lengths, or the record's last bytes        |
| in; so also: reaches its file's end       |                                                     |
| lies in a BLANK behind its first 8 bytes  | zeros belong there                                  |
| is shorter, within one record             | in its head: **nothing**; a host or a timestamp is  |
|                                           | gone, and the slave differs from its master         |

So before anything is written beyond P, the last row's X has P written and synced: then no state of
the disk has that hole. Unsealed stays an X from which the bytes that follow begin a record, by
their magic and position: the frames of our own masters to a slave that keeps up.

What is taken for one piece: a page of 4 KiB (larger pages end where these do) by the disk, also by
one with 512-byte sectors when its power goes; a write by the kernel, which may not write a page
back in the middle of one. `compat` has no seal, as upstream.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from actors.env.protocols import Disk, Held
from actors.env.protocols import Syncer as DiskSyncer
from actors.errors import StorageError
from actors.events import store as events
from actors.runtime import ActorRef
from actors.storage.commitlog.store_messages import AppendRaw, OpenSession, RawRefused
from actors.storage.log.commit_log import CommitLog, OffsetMismatch
from wire.files.message_record import HEAD_STRUCTS, MAGIC_V1, MAGIC_V2


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
        self,
        log: CommitLog,
        messages: Sequence[AppendRaw],
        why_not: str,
        is_stopping: Callable[[], bool],
    ) -> RawWritten:
        """Write messages in order, until one is refused. It waits for the disk to seal a page.

        Args:
            why_not: refuses all; "" if nothing does.
            is_stopping: once it is true the others are dropped, and their session ends: each may
                wait for the disk, and the master sends again what was not reported.

        Raises: StorageError: a seal failed; the log ends where its page does.
        """
        first_bytes, ends_frame = None, False
        for message in messages:
            if message.session != self.session or self._source is None:
                continue  # the fence: a session that was replaced, or refused
            if is_stopping():
                self._source = None
                continue
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
        """Release what is kept; called when the store stops."""
        if self.seal is not None:
            self.seal.close()

    async def _append(self, log: CommitLog, message: AppendRaw) -> None:
        """Write all of a message, or nothing: room for all is reserved before the first part."""
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


PAGE_BYTES: Final = 4096
"""The disk has all of a page or nothing of it."""
HEAD_BYTES_MAX: Final = max(layout.size for layout in HEAD_STRUCTS)
"""112: a longer hole cannot lie between the magic and the body's length."""
_MAGIC_POSITION = struct.Struct(">4xI20xq")


def bytes_to_seal(end_bytes: int, segment_bytes: int, data: bytes | memoryview | Held) -> int:
    """How many bytes of `data` fill a page that must be synced before the rest is written.

    Args:
        end_bytes: the log's end, where `data` goes.
        segment_bytes: size of the log's files.

    Returns: 1 to HEAD_BYTES_MAX - 1; 0: all of it may be written.
    """
    at = end_bytes % segment_bytes
    rest = -at % PAGE_BYTES
    if not 0 < rest < HEAD_BYTES_MAX or len(data) < rest or at + rest >= segment_bytes:
        return 0
    return 0 if _begins_record(data, end_bytes) else rest


def _begins_record(data: bytes | memoryview | Held, position: int) -> bool:
    """Whether `data` certainly begins with a record; held bytes cannot be looked at."""
    if not isinstance(data, bytes | memoryview) or len(data) < _MAGIC_POSITION.size:
        return False
    magic, own_position = _MAGIC_POSITION.unpack_from(data)
    return magic in (MAGIC_V1, MAGIC_V2) and own_position == position


@attrs.define
class PageSeal:
    """Syncs a page that was filled. Its owner waits: seals are rare, and nothing may overtake one.

    Attributes:
        emit: takes PageSealed and SyncFailed.
    """

    _disk: Disk
    _emit: Callable[[Any], None]
    _syncer: DiskSyncer | None = None  # most stores never need it

    async def seal(self, path: str, end_bytes: int) -> None:
        """The file at `path`, whose page ends at `end_bytes` of the log, goes to the disk.

        Raises: StorageError: it did not, which is final (`syncer`).
        """
        if self._syncer is None:
            self._syncer = self._disk.syncer()
        try:
            await self._syncer.sync((path,))
        except OSError as error:
            self._emit(events.SyncFailed(error=str(error), paths=(path,)))
            raise StorageError(f"the sync of {path} failed: {error}") from error
        self._syncer.forget((path,))  # it may be deleted before the next one
        self._emit(events.PageSealed(offset_bytes=end_bytes))

    def close(self) -> None:
        """Release the syncer. No seal may be under way."""
        if self._syncer is not None:
            self._syncer.close()
