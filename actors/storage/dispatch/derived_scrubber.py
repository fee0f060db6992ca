"""Derived scrubber: finds damage in consume queues and index, and has it mended from the log.

Messages: GetMended, answered at once. It asks the dispatcher which part of the log to compare, and
compares it in small steps with what is derived from it. At damage it asks the scrubber whether the
log's bytes are what was written, and then the dispatcher, which owns the files, to mend them. A
restart begins a new round.

It shares `scrub_bytes_per_s` with the scrub of the log, half and half, so that neither waits for
the other, and takes a small part of the time even if records are small. Damaged units that lookups
have found come first, even if the rate is 0. Upstream has nothing like it: RocketMQ trusts its
queue files, and repairs only their ends.

A `DerivedWalk` goes through a part of the log and compares its records with their units and
entries.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

import attrs

from actors.config import CommitLogGroup
from actors.env import Env
from actors.readable import counted
from actors.runtime import Actor, ActorRef, ReplyTo, StopReason
from actors.storage.derived.derived_mends import MENDS_MAX, EntryMend, Mend, UnitMend
from actors.storage.derived.dispatch_state import read_begun_anew
from actors.storage.derived.queue_files import QueueKey
from actors.storage.derived.record_proof import RecordProof
from actors.storage.dispatch.dispatcher_messages import (
    GetScrubRange,
    MendDerived,
    Mended,
    ScrubRange,
)
from actors.storage.dispatch.dispatcher_messages import Message as DispatcherMessage
from actors.storage.dispatch.index_scrub import IndexScrub
from actors.storage.dispatch.queue_scrub import QueueScrub
from actors.storage.files.stepping import stepped
from actors.storage.layout import StoreLayout
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.scrub.scrubber import LOG_SHARE, ROUND_FIRST_S, ROUND_PAUSE_S
from actors.storage.scrub.scrubber_messages import Check, Checked
from wire.files.commit_log import RecordHead, Stop, scan_heads

SLICE_BYTES: Final = 64 << 10
"""How many bytes of the log one step compares: it takes some milliseconds if records are small."""
HOLES_MAX: Final = 64
"""How many damaged files of a log are remembered within one round; entries of others are judged."""


@attrs.define(kw_only=True)
class DerivedWalk:
    """Compares a part of the log with what is derived from it, step by step, without changing
    anything.

    Attributes:
        reader, record_bytes_max: the log's reader, and the size of its largest possible record.
        delay_levels_ms: by which lost units of delayed messages are made again.
        queues: compares units.
        index: compares entries; None: entries are not compared.
        at: the offset of the next record.
        end: the offset at which the walk ends; None: at the log's end.
        only: the only queue whose units are compared; None: all queues.
        read_bytes: how many bytes of the log were read so far.
        damaged: where records begin that are readable, but not what was written, and where they
            end. They are passed over.
    """

    reader: LogReader
    record_bytes_max: int
    delay_levels_ms: Sequence[int]
    queues: QueueScrub
    index: IndexScrub | None
    at: int
    end: int | None = None
    only: QueueKey | None = None
    is_done: bool = False
    read_bytes: int = 0
    damaged: Mapping[int, int] = attrs.field(factory=dict)
    _wanted: int = 0

    @property
    def cost_bytes(self) -> int:
        """How many bytes were read so far, of the log and of the derived files."""
        index = 0 if self.index is None else self.index.read_bytes
        return self.read_bytes + self.queues.read_bytes + index

    def step(self, min_bytes: int, limit_bytes: int) -> Generator[None, None, list[Mend]]:
        """Compare the next records. Returns: the mends of what is damaged. Sets `is_done` at the
        walk's end.

        Args:
            min_bytes, limit_bytes: records between them have their units and entries.

        Raises: OSError: a file cannot be read. Yields after every few queues.
        """
        self.at = max(self.at, min_bytes)
        limit = limit_bytes if self.end is None else min(self.end, limit_bytes)
        proof = self.queues.proof
        proof.min_bytes, proof.limit_bytes = min_bytes, limit_bytes
        found: list[Mend] = []
        heads = self._heads(limit)
        if heads:
            found += yield from self.queues.compare(heads, self.only)
            if self.index is not None:
                found += yield from self.index.compare(heads)
        if self.is_done and self.index is not None:
            found += yield from self.index.finish()
        return found

    def skip(self) -> None:
        """Skip the rest of this log file, because its records cannot be compared."""
        self._skip_to(self.at + self.reader.segment_bytes - self.at % self.reader.segment_bytes)

    def _heads(self, limit: int) -> list[RecordHead]:
        size = self.reader.segment_bytes
        if self.at >= limit:
            self.is_done = True
            return []
        try:
            data = self.reader.read(self.at, max(SLICE_BYTES, self._wanted), limit)
        except OffsetGone:
            self.skip()
            return []
        self.read_bytes += len(data)
        heads, stopped = scan_heads(
            data,
            physical_offset=self.at,
            size_max=self.record_bytes_max,
            delay_levels_ms=self.delay_levels_ms,
        )
        for number, head in enumerate(heads if self.damaged else ()):
            if head.physical_offset in self.damaged:
                self.at = head.physical_offset
                self._skip_to(self.damaged[self.at])
                return heads[:number]
        self.at += stopped.end
        rest, file_end = len(data) - stopped.end, self.at - self.at % size + size
        self._wanted = 0
        match stopped.stop:
            case Stop.END if data:
                pass
            case Stop.BLANK if self.at + stopped.blank_bytes == file_end:
                self.at = file_end
            case Stop.INCOMPLETE if self.at + rest < min(file_end, limit):
                self._wanted = rest + stopped.missing_bytes
            case Stop.INCOMPLETE if self.at + rest >= limit:
                self.is_done = True
            case _:  # damage of the log, which the scrub of the log reports
                self.skip()
        return heads

    def _skip_to(self, at: int) -> None:
        if self.index is not None:
            self.index.holes.append((self.at, at))
            del self.index.holes[:-HOLES_MAX]
        self.at = at


SUSPECTS_S: Final = 5.0
"""How often to ask the dispatcher whether a lookup has found a damaged unit."""
SHARE_INVERSE: Final = 16
"""Small records take more time than bytes, so comparing takes at most one part in so many of the
time."""
ASK_TIMEOUT_S: Final = 30.0


@attrs.frozen(kw_only=True)
class MendedSoFar:
    """How much was mended since the actor's start.

    Attributes:
        count: how many units of queues, and entries, slots and headers of the index.
        file: the queue or index file that was mended last; "" if nothing was.
    """

    count: int
    file: str


@attrs.frozen(kw_only=True)
class GetMended:
    """A request for MendedSoFar, answered at once."""

    reply_to: ReplyTo[MendedSoFar]


@attrs.frozen(kw_only=True)
class _Due:
    """Timer: the next step."""


@attrs.frozen(kw_only=True)
class _Answered:
    """The dispatcher's answer: which part of the log to compare."""

    outcome: ScrubRange | Exception


@attrs.frozen(kw_only=True)
class _Checked:
    """The scrubber's answer: up to where the log's bytes are what was written."""

    outcome: Checked | Exception


@attrs.frozen(kw_only=True)
class _Mended:
    """The dispatcher's answer: what it has mended."""

    outcome: Mended | Exception


Message: TypeAlias = GetMended
_Inbox: TypeAlias = Message | _Due | _Answered | _Checked | _Mended


@attrs.define(kw_only=True)
class DerivedScrubber(Actor[_Inbox]):
    """The actor that scrubs the derived files; the module's text describes it.

    Attributes:
        dispatcher: owns the files.
        scrubber: knows whether the log's bytes are what was written.
    """

    env: Env
    layout: StoreLayout
    group: CommitLogGroup
    dispatcher: ActorRef[DispatcherMessage]
    scrubber: ActorRef[Check]
    _reader: LogReader = attrs.field(init=False)
    _round: DerivedWalk | None = attrs.field(default=None, init=False)
    _urgent: DerivedWalk | None = attrs.field(default=None, init=False)
    _suspects: dict[QueueKey, int] = attrs.field(factory=dict, init=False)
    _round_at_s: float = attrs.field(default=0.0, init=False)
    _paused_s: float = attrs.field(default=0.0, init=False)
    _damaged: dict[int, int] = attrs.field(factory=dict, init=False)
    _mends: tuple[Mend, ...] = attrs.field(default=(), init=False)
    _so_far: MendedSoFar = attrs.field(default=MendedSoFar(count=0, file=""), init=False)

    async def on_start(self) -> None:
        self._reader = LogReader(self.env.disk, self.layout.commit_log, self.group.segment_bytes)
        self._round_at_s = self.ctx.now_s() + ROUND_FIRST_S
        self.ctx.timers.start("step", SUSPECTS_S, _Due())

    async def on_stop(self, reason: StopReason) -> None:
        self._reader.close()

    async def handle(self, message: _Inbox) -> None:
        match message:
            case _Due():
                self.ctx.ask_later(
                    self.dispatcher,
                    ScrubRange,
                    lambda reply_to: GetScrubRange(reply_to=reply_to),
                    timeout_s=ASK_TIMEOUT_S,
                    on_reply=lambda outcome: _Answered(outcome=outcome),
                )
            case _Answered(outcome=ScrubRange() as held):
                await self._step(held)
            case _Checked(outcome=Checked(until_bytes=until, rotten=is_rotten)):
                if is_rotten:
                    self._pass_damaged(until)
                self._mend(until)
            case _Mended(outcome=Mended() as done):
                self._count(done)
                self._pause(self._paused_s)
            case GetMended():
                message.reply_to.send(self._so_far)
            # the actor that was asked has restarted, or was too slow
            case _Answered() | _Checked() | _Mended():
                self._pause(SUSPECTS_S)
            case _:
                assert_never(message)

    def _pause(self, for_s: float) -> None:
        self.ctx.timers.start("step", min(for_s, SUSPECTS_S), _Due())

    # ---- comparing ----

    async def _step(self, held: ScrubRange) -> None:
        self._suspects.update(held.suspects)
        self._reader.drop_below(held.min_bytes)
        walk = self._next_walk(held)
        if walk is None:
            rest_s = self._round_at_s - self.ctx.now_s()
            self._pause(rest_s if rest_s > 0 else SUSPECTS_S)
            return
        walk.queues.deleted = held.deleted
        if walk.index is not None:
            walk.index.newest = (held.index_name, held.index_units_next)
            walk.index.with_tag_keys = held.with_tag_keys
        before, began_s = walk.cost_bytes, self.ctx.now_s()
        try:
            found = await stepped(walk.step(held.min_bytes, held.limit_bytes))
        # the scrub reports it if it is the log, and whoever reads it next if it is a queue
        except OSError:
            walk.skip()
            found = []
        self._end(walk)
        rate = self.group.scrub_bytes_per_s * (1 - LOG_SHARE)
        by_rate_s = (walk.cost_bytes - before) / rate if rate else 0.0
        self._paused_s = max(by_rate_s, SHARE_INVERSE * (self.ctx.now_s() - began_s))
        self._mends = tuple(found[:MENDS_MAX])
        if self._mends:
            self._check()
        else:
            self._pause(self._paused_s)

    def _next_walk(self, held: ScrubRange) -> DerivedWalk | None:
        """Return the walk to go on with. One for a damaged unit that a lookup has found comes
        first.
        """
        if self._urgent is None and self._suspects:
            key, number = self._suspects.popitem()
            walk = self._walk(held, with_index=False)
            try:
                walk.at, walk.end = walk.queues.around(key, number)
            except OSError:
                return None
            walk.only = key
            self._urgent = walk
        if self._urgent is not None:
            return self._urgent
        if self._round is None and self.group.scrub_bytes_per_s:
            if self.ctx.now_s() < self._round_at_s:
                return None
            self._round = self._walk(held, with_index=True)
        return self._round

    def _walk(self, held: ScrubRange, *, with_index: bool) -> DerivedWalk:
        disk, layout, group = self.env.disk, self.layout, self.group
        proof = RecordProof(
            reader=self._reader,
            record_bytes_max=group.record_bytes_max,
            min_bytes=held.min_bytes,
            limit_bytes=held.limit_bytes,
        )
        queues = QueueScrub(
            disk=disk,
            folder=layout.consume_queue,
            file_bytes=group.consume_queue_bytes,
            proof=proof,
            has_extended=disk.exists(f"{layout.root}/consumequeue_ext"),
            begun_anew_bytes=read_begun_anew(disk, layout.begun_anew),
        )
        index = IndexScrub(
            disk=disk,
            folder=layout.index,
            slots=group.index_slots_count,
            units=group.index_units_count,
            proof=proof,
            with_tag_keys=held.with_tag_keys,
        )
        return DerivedWalk(
            reader=self._reader,
            record_bytes_max=group.record_bytes_max,
            delay_levels_ms=group.delay_levels_ms,
            queues=queues,
            index=index if with_index else None,
            at=held.min_bytes,
            damaged=dict(self._damaged),
        )

    def _end(self, walk: DerivedWalk) -> None:
        if not walk.is_done:
            return
        if walk is self._urgent:
            self._urgent = None
        else:
            self._round = None
            self._round_at_s = self.ctx.now_s() + ROUND_PAUSE_S
            self._damaged.clear()

    # ---- mending ----

    def _check(self) -> None:
        """Ask the scrubber about the records of what was found. They lie together, so one answer
        covers them.
        """
        start = min(
            (each.first_bytes for each in self._mends if isinstance(each, UnitMend | EntryMend)),
            default=None,
        )
        if start is None:
            self._mend(0)
            return
        self.ctx.ask_later(
            self.scrubber,
            Checked,
            lambda reply_to: Check(start_bytes=start, reply_to=reply_to),
            timeout_s=ASK_TIMEOUT_S,
            on_reply=lambda outcome: _Checked(outcome=outcome),
        )

    def _pass_damaged(self, until_bytes: int) -> None:
        """Begin the round again without a record that is not what was written, so its entry cannot
        be known: the links of later entries and the slots were compared with a wrong one.
        """
        is_wrong = [
            each
            for each in self._mends
            if isinstance(each, EntryMend) and each.next_bytes > until_bytes
        ]
        if not is_wrong:
            return
        first = min(is_wrong, key=lambda each: each.first_bytes)
        self._mends = tuple(each for each in self._mends if isinstance(each, UnitMend | EntryMend))
        self._round = None
        if len(self._damaged) < HOLES_MAX:
            self._damaged[first.first_bytes] = first.next_bytes
            self._round_at_s = self.ctx.now_s()
        else:
            self._damaged.clear()
            self._round_at_s = self.ctx.now_s() + ROUND_PAUSE_S

    def _mend(self, until_bytes: int) -> None:
        """Mend from records whose bytes are what was written; others wait until they are mended
        themselves.
        """
        mends = tuple(
            each
            for each in self._mends
            if not isinstance(each, UnitMend | EntryMend) or each.next_bytes <= until_bytes
        )
        self._mends = ()
        if not mends:
            self._pause(self._paused_s)
            return
        self.ctx.ask_later(
            self.dispatcher,
            Mended,
            lambda reply_to: MendDerived(mends=mends, reply_to=reply_to),
            timeout_s=ASK_TIMEOUT_S,
            on_reply=lambda outcome: _Mended(outcome=outcome),
        )

    def _count(self, done: Mended) -> None:
        before = self._so_far
        file = done.file or before.file
        self._so_far = MendedSoFar(count=before.count + done.count, file=file)


def mended_text(mended: MendedSoFar) -> str:
    """Describe what was mended, for people, in one line; "" if nothing was."""
    if not mended.count:
        return ""
    return (
        f"{counted(mended.count, 'damaged unit')} of consume queues and index mended from the log,"
        f" of {mended.file} last"
    )
