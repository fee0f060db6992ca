"""Scrubber checks whether a log's bytes are what was written, before they are sent or counted.

Messages: LogGrew from the store. Check comes from an actor that is about to send log bytes, and is
answered once they have been compared with their digests, so that a damaged copy is never copied.
GetScrubbed is answered at once. Readers send Doubt about bytes that they could not show. Look comes
from `repair`, whose other questions are in `mending`. It asks the group's syncer to sync files
whose damage reads well again, and sends CopyState to the role keeper, to the readers, and to a
subscriber, the slave's client. A restart goes on with what is in its files; a round of the scrub
begins anew.

It does three things, the most urgent first. It answers Check. It makes digests of what the store
has parsed as it opened, and of what was written (on a slave, once its records were parsed, and
giving way to copying). And it reads the whole log, at `scrub_bytes_per_s`, because nothing else
reads old files before they are needed.

Damage is kept in `rotten`, survives a restart, and is read again every RECHECK_S. So a range that
was mended by whatever means is noticed; it counts as good once its file was synced then. There is
no upstream.
"""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar, assert_never

import attrs

from actors.config import CommitLogGroup
from actors.env import Env
from actors.env.protocols import Syncer
from actors.events import store as events
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog.store_messages import GetRange, LogGrew, LogRange
from actors.storage.commitlog.store_messages import Message as StoreMessage
from actors.storage.files.stepping import answered
from actors.storage.layout import StoreLayout
from actors.storage.log.digests import RANGE_BYTES, Digests
from actors.storage.log.growth import Subscribe
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.log.pacing import Pacing
from actors.storage.log.syncer import FileSynced, SyncFile
from actors.storage.scrub import mending
from actors.storage.scrub.log_check import (
    ROTTEN_MAX,
    LogCheck,
    Rot,
    RottenFile,
    Steps,
    Walk,
)
from actors.storage.scrub.scrubber_messages import (
    CHECK_BYTES,
    RECHECK_S,
    WITHOUT_END,
    Check,
    Checked,
    CopyState,
    Doubt,
    GetScrubbed,
    Look,
    Looked,
    ScrubProgress,
    Watch,
)

DIGEST_WITHIN_S: Final = 0.05
"""The seconds for which written bytes are collected before they are digested; nothing waits for it.
"""
LOG_SHARE: Final = 0.5
"""The log's share of `scrub_bytes_per_s`; the rest is for what is derived from it."""
ROUND_FIRST_S: Final = 10.0
ROUND_PAUSE_S: Final = 60.0
"""The least pause in seconds between two rounds over a log; a round over a short log takes no time.
"""
SYNC_S: Final = 5.0
"""The seconds between two syncs of digests. Newer ones may be lost when the node ends abruptly, and
are made again.
"""
LOOKED_AGAIN_S: Final = 1.0
"""The least seconds between two parses of undigested bytes for a reader's doubt. Any client may ask
for an offset at which no record begins, and a parse takes some 0.1 s with `LogCheck.at_once_bytes`
of small records.
"""
PARSED_AGAIN_S: Final = 60.0
"""The least seconds between two parses of a whole file whose digests fit although a reader found
damage in it.
"""
ASK_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class _GoOn:
    """Timer, or from this actor: there are more written bytes to digest."""


@attrs.frozen(kw_only=True)
class _ScrubDue:
    """Timer: the next step of the scrub's round is due."""


@attrs.frozen(kw_only=True)
class _RecheckDue:
    """Timer: known damage has to be read again."""


@attrs.frozen(kw_only=True)
class _LookDue:
    """Timer: undigested bytes may be parsed for a reader's doubt again."""


@attrs.frozen(kw_only=True)
class _DigestOn:
    """From this actor: a file has to be digested.

    That is so before bytes of it may be sent or are good again, or because the store has checked
    its records as it opened.
    """


@attrs.frozen(kw_only=True)
class _SyncDue:
    """Timer: written digests have to be synced."""


@attrs.frozen(kw_only=True)
class _DigestsSynced:
    """The written digests are synced, or they are lost and will be made again."""


@attrs.frozen(kw_only=True)
class _FileSynced:
    """A file in which damage was mended was synced, or that failed."""

    path: str
    outcome: FileSynced | Exception


Message: TypeAlias = LogGrew | Check | Doubt | Watch | GetScrubbed | Look | mending.Message
_Timed: TypeAlias = _GoOn | _ScrubDue | _RecheckDue | _LookDue | _DigestOn | _SyncDue
_Inbox: TypeAlias = Message | _Timed | _DigestsSynced | _FileSynced


def _only(message: object) -> None:
    return None


@attrs.define(kw_only=True)
class Scrubber(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        writes_itself: whether this node is the master, so that what it appends need not be parsed.
        log_syncer: the group's syncer, which syncs mended files.
        keeper: the role keeper, which is sent CopyState.
        readers: the readers, which are sent CopyState too, so that they show no damaged bytes.
    """

    mailbox = MailboxSpec(
        conflate={
            **dict.fromkeys((LogGrew, _GoOn, _DigestOn), _only),
            Doubt: attrgetter("is_record"),
        }
    )
    env: Env
    layout: StoreLayout
    group: CommitLogGroup
    store: ActorRef[StoreMessage]
    writes_itself: bool
    log_syncer: ActorRef[SyncFile]
    keeper: ActorRef[CopyState] | None = None
    readers: ActorRef[CopyState] | None = None
    _pacing: Pacing = attrs.field(init=False)
    _check: LogCheck = attrs.field(init=False)
    _mender: mending.Mender = attrs.field(init=False)
    _live: Walk = attrs.field(init=False)
    _round: Walk | None = attrs.field(default=None, init=False)
    _looking: Walk | None = attrs.field(default=None, init=False)  # of the last Look
    _progress: ScrubProgress = attrs.field(init=False)
    _min_bytes: int = attrs.field(default=0, init=False)
    _written_bytes: int = attrs.field(default=0, init=False)
    _file: RottenFile = attrs.field(init=False)
    _published: tuple[Rot, ...] = attrs.field(default=(), init=False)
    _published_beyond: int | None = attrs.field(default=None, init=False)
    _had_room: bool = attrs.field(default=True, init=False)  # for all damage, since the round began
    _watching: ActorRef[CopyState] | None = attrs.field(default=None, init=False)
    _syncer: Syncer = attrs.field(init=False)
    _is_syncing: bool = attrs.field(default=False, init=False)
    _parked: list[Check] = attrs.field(factory=list, init=False)  # until their files are digested
    _boundaries: tuple[int, int] = attrs.field(init=False)
    """Two offsets at which a record begins, or will: in the log's digested part and behind it."""
    _parsed_s: float = attrs.field(default=-PARSED_AGAIN_S, init=False)
    _looked_bytes: int = attrs.field(default=0, init=False)  # parsed lately, up to there
    _doubted: Doubt | None = attrs.field(default=None, init=False)  # waits for _LookDue
    _to_digest: dict[int, Walk] = attrs.field(factory=dict, init=False)  # by their first bytes

    async def on_start(self) -> None:
        """Read the known damage before the first message, so that it does not count as good."""
        disk = self.env.disk
        held = await self.store.ask(
            LogRange,
            lambda reply_to: GetRange(reply_to=reply_to, takes_parsed=True),
            timeout_s=ASK_TIMEOUT_S,
        )
        size, end = held.segment_bytes, held.written_bytes
        self._min_bytes = held.min_bytes
        self._pacing = Pacing.of_digests(gives_way=not self.writes_itself)
        newest = max(held.min_bytes, end - end % size)
        self._check = LogCheck(
            reader=LogReader(disk, held.folder, size),
            digests=Digests.open(disk, self.layout.digests, size, held.min_bytes, end),
            record_bytes_max=self.group.record_bytes_max,
            limit_bytes=held.synced_bytes,
            # Recovery has checked the records of the file that the log ends in.
            own_from_bytes=newest if self.writes_itself else None,
            parsed=held.parsed,
        )
        self._syncer = disk.syncer()
        self._mender = mending.Mender(
            check=self._check,
            disk=disk,
            layout=self.layout,
            sync_file=self._sync_file,
            run_beside=self.env.run_beside,
            undigested=self._undigested,
        )
        self._live = self._check.walk_from(newest)
        self._boundaries = (held.begins_bytes, end)
        self._progress = ScrubProgress(self._live.at)
        await self._look_at_known()
        parsed = held.parsed[0]  # no file's beginning, where an earlier run has taken what it said
        for base in range(max(held.min_bytes, parsed - parsed % size), newest, size):
            self._have_digested(self._check.walk_from(base))
        wanted = Subscribe(subscriber=self.ctx.self_ref, within_s=DIGEST_WITHIN_S)
        await self.store.tell(wanted)
        if self.group.scrub_bytes_per_s:
            self.ctx.timers.start("scrub", ROUND_FIRST_S, _ScrubDue())

    async def on_stop(self, reason: StopReason) -> None:
        self._syncer.close()
        self._check.reader.close()
        self._check.digests.close()
        self._file.close()

    async def handle(self, message: _Inbox) -> None:
        match message:
            case LogGrew():
                self._grew(message)
                await self._digest()
            case _GoOn():
                await self._digest()
            case Check():
                await self._answer(message)
            case Doubt():
                await self._doubt(message)
            case Watch():
                self._watching = message.subscriber
                await self._watching.tell(self._state_of_copy())
            case GetScrubbed():
                message.reply_to.send(self._progress.said(self._min_bytes))
            case Look():
                message.reply_to.send(await self._look_on(message.position))
            case _ScrubDue():
                await self._scrub()
            case _RecheckDue():
                await self._recheck()
            case _LookDue():
                doubted, self._doubted, self._looked_bytes = self._doubted, None, 0
                if doubted is not None:
                    await self._doubt(doubted)
            case _DigestOn():
                await self._digest_on()
            case _SyncDue():
                self._sync()
            case _DigestsSynced():
                self._is_syncing = False
            case _FileSynced():
                self._mender.synced(message.path, done=isinstance(message.outcome, FileSynced))
            case mending.GetDamage() | mending.GetGoodRange() | mending.Mend():
                await self._mender.handle(message)
            case _:
                assert_never(message)
        if self._check.digests.is_dirty and not self.ctx.timers.active("sync"):
            self.ctx.timers.start("sync", SYNC_S, _SyncDue())
        await self._publish()

    def _rotten(self) -> tuple[Rot, ...]:
        return tuple(sorted(self._check.rotten.values(), key=lambda rot: rot.start))

    # ---- what is written ----

    def _grew(self, message: LogGrew) -> None:
        check = self._check
        check.limit_bytes = message.synced_bytes
        self._written_bytes = message.written_bytes
        if self.writes_itself and self._boundaries[1] <= self._live.at:
            self._boundaries = (self._boundaries[1], message.written_bytes)
        if message.min_bytes > self._min_bytes:
            self._min_bytes = message.min_bytes
            check.reader.drop_below(message.min_bytes)
            self._syncer.forget(check.digests.drop_below(message.min_bytes))
            for start in [each for each in check.rotten if each < message.min_bytes]:
                check.forget(start)
            if check.beyond_bytes is not None:
                check.beyond_bytes = max(check.beyond_bytes, message.min_bytes)
        if self._live.at < self._min_bytes:
            self._live = check.walk_from(self._min_bytes)

    def _undigested(self) -> int:
        """Return an offset at which a record begins, at or below what is digested next.

        All bytes behind it can be parsed from there.
        """
        live = self._live
        if live.parses and not live.broken and live.record_at <= live.at:
            return live.record_at
        return max(live.base, self._boundaries[0])

    async def _digest(self) -> None:
        """Digest some of the written ranges; then other messages get a turn."""
        if self.ctx.timers.active("pause"):
            return
        began_s = self.ctx.now_s()
        size = await self._step(self._live)
        if not size:
            with suppress(OffsetGone):
                await self._run(self._check.begin(self._live))
            self._pacing.at_end()
            return
        if self._live.is_done:
            self._live = self._check.walk_from(self._live.end)
        pause_s = self._pacing.pause_s(began_s, self.ctx.now_s(), size, self._written_bytes)
        if pause_s:
            self.ctx.timers.start("pause", pause_s, _GoOn())
        else:
            self.ctx.self_ref.offer(_GoOn())

    async def _step(self, walk: Walk) -> int:
        try:
            return await self._run(self._check.step(walk))
        except OffsetGone:
            return 0  # the file has just expired; the next LogGrew says where the log begins

    async def _run(self, steps: Steps[T]) -> T:
        return await answered(steps, self.env.run_beside)

    # ---- what is sent ----

    async def _answer(self, message: Check, *, is_parsed: bool = False) -> None:
        """Answer a Check, or keep it until a file is parsed for it.

        Bytes behind the last digest come from the writer's memory, and are good.
        """
        start, end = message.start_bytes, message.start_bytes + CHECK_BYTES
        good_end = self._check.undamaged(start, end)
        limit = min(good_end, self._live.at)
        until = start
        with suppress(OffsetGone):
            until = await self._run(self._check.check(start, limit))
        is_unknown = until < limit and self._check.is_unknown(until)
        if is_unknown and until == start and not is_parsed:
            self._parked.append(message)
            base = start - start % self._check.digests.segment_bytes
            self._have_digested(self._check.walk_anew(base))
            return
        stops = until < limit and not (is_unknown and until > start)
        until = good_end if until >= limit else until
        stops |= until == good_end < end
        now_s = self.ctx.now_s()
        message.reply_to.send(Checked(until_bytes=until, rotten=stops, compared_s=now_s))

    def _have_digested(self, walk: Walk) -> None:
        queued = self._to_digest.get(walk.base)
        if queued is None or (walk.parses and not queued.parses):
            self._to_digest[walk.base] = walk
        self.ctx.self_ref.offer(_DigestOn())

    async def _digest_on(self) -> None:
        """Digest a part of the first file that waits for that; then other messages get a turn."""
        if not self._to_digest:
            return
        walk = next(iter(self._to_digest.values()))
        done = await self._step(walk)
        is_over = not done or walk.is_done or walk.broken
        if is_over:
            del self._to_digest[walk.base]
        here = [each for each in self._parked if walk.base <= each.start_bytes < walk.end]
        for each in here:
            if is_over or not self._check.is_unknown(each.start_bytes):
                self._parked.remove(each)
                await self._answer(each, is_parsed=is_over)
        if self._to_digest:
            self.ctx.self_ref.offer(_DigestOn())

    # ---- the scrub ----

    async def _scrub(self) -> None:
        """Take one step of a round, then pause for as long as the rate demands."""
        walk = self._round
        if walk is None or walk.is_done:
            base = self._min_bytes if walk is None else walk.end
            if base >= self._live.base:  # the live walk reads the file that is being written
                self._round = None
                self._end_round()
                self._progress.ended(self.ctx.now_s())
                self.ctx.timers.start("scrub", ROUND_PAUSE_S, _ScrubDue())
                return
            walk = self._round = self._check.walk_all(base)
        done = await self._step(walk)
        after_s = done / (self.group.scrub_bytes_per_s * LOG_SHARE)
        if not done:
            self._round, after_s = None, DIGEST_WITHIN_S  # until then LogGrew says what there is
        self._progress.read(walk.at)
        self.ctx.timers.start("scrub", after_s, _ScrubDue())

    async def _look_on(self, position: int) -> Looked:
        """Take one step of a round that `repair` drives.

        The last file is compared as far as it has digests. Only the live walk makes them, for it
        alone knows whether bytes have changed since they came.
        """
        walk, live = self._looking, self._live
        if walk is None or walk.is_done or walk.at != position:
            size = self._check.digests.segment_bytes
            walk = self._looking = self._check.walk_all(position - position % size)
        try:
            until = self._check.first_unknown(live.base) if walk.base == live.base else live.base
            done = await self._run(self._check.step(walk, until))
        except OffsetGone:
            return Looked(next_bytes=walk.end, is_over=False)
        self._progress.read(walk.at)
        if not done:
            self._progress.ended(self.ctx.now_s())
        return Looked(next_bytes=walk.at, is_over=not done)

    def _end_round(self) -> None:
        """End a round; one that had room for all damage from its beginning on has found all."""
        check = self._check
        if check.beyond_bytes is not None and self._had_room:
            check.beyond_bytes = None
        self._had_room = len(check.rotten) < ROTTEN_MAX

    # ---- damage ----

    async def _doubt(self, message: Doubt) -> None:
        """Compare the doubted record, and parse what has no digest.

        If its digests fit, they may have been made of damaged bytes, for instance by a master of a
        range that took long to fill. Then the file is parsed.
        """
        position, check = message.position, self._check
        if not self._min_bytes <= position < check.limit_bytes:
            return
        size = self.group.record_bytes_max if message.is_record else RANGE_BYTES
        limit = min(position + size, self._live.at)
        until = limit
        with suppress(OffsetGone):
            until = await self._run(check.check(position, limit))
            await self._look(message)
        base = position - position % check.digests.segment_bytes
        if until < limit and check.is_unknown(until):
            self._have_digested(check.walk_anew(base))
        elif (
            message.is_record
            and check.undamaged(position, position + 1) > position
            and until >= limit
        ):
            now_s = self.ctx.now_s()
            if position < self._live.at and now_s >= self._parsed_s + PARSED_AGAIN_S:
                self._parsed_s = now_s
                self._have_digested(check.walk_anew(base))

    async def _look(self, message: Doubt) -> None:
        """Parse the undigested bytes if the doubt is about them, at most every LOOKED_AGAIN_S."""
        at, is_record = self._undigested(), message.is_record
        if message.position < at or (message.position < self._looked_bytes and not is_record):
            return
        if not self.ctx.timers.active("look"):
            self.ctx.timers.start("look", LOOKED_AGAIN_S, _LookDue())
            self._looked_bytes = await self._run(self._check.check_undigested(at))
        elif self._doubted is None or is_record or not self._doubted.is_record:
            self._doubted = message

    async def _look_at_known(self) -> None:
        """Read the damage that an earlier incarnation of the node found."""
        self._file = RottenFile.open(self.env.disk, f"{self.layout.digests}/rotten")
        for start in self._file.starts:
            if self._min_bytes <= start < self._check.limit_bytes:
                self._check.remember(start, self._boundaries[0])
        await self._recheck()
        await self._publish(always=True)

    async def _recheck(self) -> None:
        """Read the damaged ranges again; those without digests are parsed in steps."""
        for base in await self._run(self._check.compare_again()):
            self._have_digested(self._check.walk_anew(base))

    async def _publish(self, *, always: bool = False) -> None:
        """Save the damage if it has changed, then send CopyState to all actors that need it."""
        now = self._rotten()
        self._mender.settle(now)
        if len(now) == ROTTEN_MAX:
            self._had_room = False
        if self._check.rotten and not self.ctx.timers.active("recheck"):
            self.ctx.timers.start("recheck", RECHECK_S, _RecheckDue())
        beyond_bytes = self._check.beyond_bytes
        if (now, beyond_bytes) == (self._published, self._published_beyond) and not always:
            return
        before, self._published, self._published_beyond = self._published, now, beyond_bytes
        if any(rot.end > self._live.at for rot in {*before} ^ {*now}):
            self._live.begun = 0  # what was digested may have been damaged, or is mended now
        known = {rot.start for rot in before}
        for rot in now:
            if rot.start not in known:
                self._check.digests.keep(rot.start)
        self._file.write(tuple(rot.start for rot in now))
        for rot in now:
            if rot.start not in known:
                found = events.RotFound(first_bytes=rot.start, next_bytes=rot.end, why=rot.reason)
                self.ctx.emit(found)
        left = {rot.start for rot in now}
        for rot in before:
            if rot.start not in left:
                self._digest_mended(rot)
                self.ctx.emit(events.RotMended(first_bytes=rot.start, next_bytes=rot.end))
                self._mender.report(rot, self.ctx.emit)
        for watching in (self.keeper, self.readers, self._watching):
            if watching is not None:
                await watching.tell(self._state_of_copy())

    def _digest_mended(self, rot: Rot) -> None:
        """Have the mended file digested, if a range had no digest because of the damage.

        Ranges of older files are digested when they are asked for, or by the next round.
        """
        if rot.start < self._live.base:
            return
        if self._live.broken:
            self._live = self._check.walk_from(self._live.base)
            self.ctx.self_ref.offer(_GoOn())
        elif self._check.is_unknown(rot.start):
            self._have_digested(self._check.walk_from(self._live.base))

    def _state_of_copy(self) -> CopyState:
        folder = self._check.reader.folder
        damage = damage_text(self._published, folder, self._published_beyond)
        ranges = [(rot.start, rot.end) for rot in self._published]
        if self._published_beyond is not None:
            ranges.append((self._published_beyond, WITHOUT_END))
        return CopyState(damage=damage, ranges=tuple(sorted(ranges)))

    def _sync_file(self, path: str) -> None:
        self.ctx.ask_later(
            self.log_syncer,
            FileSynced,
            lambda reply_to: SyncFile(path=path, reply_to=reply_to),
            timeout_s=ASK_TIMEOUT_S,
            on_reply=lambda outcome: _FileSynced(path=path, outcome=outcome),
        )

    def _sync(self) -> None:
        if self._is_syncing:
            return  # the timer is started again
        self._check.digests.save()
        paths = [p for p in self._check.digests.take_dirty() if self.env.disk.exists(p)]
        if paths:
            self._is_syncing = True
            self.ctx.spawn(self._feed_synced, paths)

    async def _feed_synced(self, paths: list[str]) -> None:
        with suppress(OSError):  # what is lost of them is made again
            await self._syncer.sync(paths)
        await self.ctx.self_ref.tell(_DigestsSynced())


def damage_text(rotten: tuple[Rot, ...], folder: str, beyond_bytes: int | None = None) -> str:
    """Describe the damage of a log for people, in one line; "" if there is none.

    Args:
        rotten: the damaged bytes.
        folder: the folder of the log's files.
        beyond_bytes: see `LogCheck`.
    """
    beyond = ""
    if beyond_bytes is not None:
        beyond = f"there is more damage from byte {beyond_bytes} on than is remembered"
    if not rotten:
        return f"{folder}: {beyond}" if beyond else ""
    first, more = rotten[0], len(rotten) - 1
    others = f", and {more} more range{'s' * (more > 1)}" if more else ""
    others += f"; {beyond}" if beyond else ""
    return f"{folder}: bytes {first.start} to {first.end} are damaged ({first.reason}){others}"
