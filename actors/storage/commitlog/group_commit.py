"""Group commit: all appends that wait, one encoding pass, one write.

Upstream: apache/rocketmq store/.../CommitLog.java, asyncPutMessage (5.3.3), one record at a time
under a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from actors.errors import LogFull, NodeStopped, NotStored, Overloaded
from actors.log_types import BEHIND_FAILED
from actors.runtime import ActorRef
from actors.storage.commitlog.append_batch import AppendBatch, AppendEncoder
from actors.storage.commitlog.store_messages import Append, RecordsWritten, Waiting
from actors.storage.files.room import NoRoom
from actors.storage.log.commit_log import CommitLog

GROUP_BYTES = 4 << 20
"""One group takes appends up to so many encoded bytes; then other actors get a turn."""
GROUP_APPENDS = 1024
AHEAD_MAX_MS = 100 * 365 * 86_400_000
"""A stored time further ahead of the clock is no time: followed, it would be that of all records to
come. A clock that has lost its battery, and begins in 1970, is less behind."""


@attrs.frozen
class Placed:
    """One append of a group, and where its records lie."""

    append: Append
    first_bytes: int
    last_bytes: int
    next_bytes: int

    def waiting(self, acknowledger: ActorRef[RecordsWritten]) -> Waiting:
        """What the acknowledger is told of it."""
        return Waiting(
            first_bytes=self.first_bytes,
            last_bytes=self.last_bytes,
            next_bytes=self.next_bytes,
            count=len(self.append.records),
            deadline_s=self.append.deadline_s,
            reply_to=self.append.reply_to.bound_to(acknowledger),
        )


@attrs.frozen(kw_only=True)
class Group:
    """What became of some appends. Those not in `written` are answered.

    Attributes:
        taken: appends dealt with, from the first on.
        written: those in the log now, in log order.
        rolled: first offsets of the segments that were begun.
        failed: the disk's error; the log's end is unknown then.
    """

    taken: int
    written: list[Placed]
    rolled: tuple[int, ...] = ()
    failed: OSError | None = None


@attrs.define(kw_only=True)
class GroupCommit:
    """Writes appends to a log. Never awaits.

    Attributes:
        log: written by nobody else meanwhile.
        wall_clock_ms: store timestamps come from it, and never fall, but to it from a time that is
            none (AHEAD_MAX_MS).
        last_ts: the newest store timestamp, ms since 1970.
        no_room: called when the disk has none, so that nothing was written; why, for people.
    """

    log: CommitLog
    encoder: AppendEncoder
    wall_clock_ms: Callable[[], int]
    last_ts: int
    no_room: Callable[[NoRoom], str]

    def commit(
        self, appends: Sequence[Append], now_s: float, refusal: Callable[[], NotStored | None]
    ) -> Group:
        """Write the first of `appends`, as many as one group takes (at least one).

        Args:
            refusal: why no append is taken at all; a new error for each.
        """
        batch = self.encoder.begin(self.log.written_bytes)
        now_ms = self.wall_clock_ms()
        followed = self.last_ts <= now_ms + AHEAD_MAX_MS
        self.last_ts = max(self.last_ts, now_ms) if followed else now_ms
        placed: list[Placed] = []
        taken = 0
        is_closed = refusal() is not None
        for append in appends[:GROUP_APPENDS]:
            if batch.next_bytes - batch.start_bytes >= GROUP_BYTES:
                break
            taken += 1
            error = refusal() if is_closed else None
            if append.chain is not None and append.chain.broken:
                error = NotStored(BEHIND_FAILED)
            if error is None and append.deadline_s <= now_s:
                error = Overloaded("the append waited for its turn until its deadline")
            if error is None:
                try:
                    span = self.encoder.add(batch, append.records, self.last_ts)
                    placed.append(Placed(append, *span))
                except NotStored as refused:
                    error = refused
            if error is not None:
                append.reply_to.fail(error)
        return self._write(batch, placed, taken) if placed else Group(taken=taken, written=[])

    def _write(self, batch: AppendBatch, placed: list[Placed], taken: int) -> Group:
        log = self.log
        rolled = []
        try:
            log.reserve(batch.next_bytes)
        except OSError as error:
            self.encoder.take_back(batch)
            if isinstance(error, NoRoom):
                why, failed = self.no_room(error), None
            else:
                why, failed = f"no room up to {batch.next_bytes}: {error}", error
            for each in placed:
                each.append.reply_to.fail(LogFull(why))
            return Group(taken=taken, written=[], failed=failed)
        try:
            for number, part in enumerate(batch.parts):
                if number:
                    log.roll()
                    rolled.append(log.written_bytes)
                log.append(part)
        except OSError as error:
            for each in placed:
                each.append.reply_to.fail(
                    NodeStopped(f"the disk failed: {error}", each.first_bytes, each.last_bytes)
                )
            return Group(taken=taken, written=[], rolled=tuple(rolled), failed=error)
        assert log.written_bytes == batch.next_bytes  # EncodedWhereItLies
        return Group(taken=taken, written=placed, rolled=tuple(rolled))
