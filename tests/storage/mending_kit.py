"""A log with damage, and what looks after it, for the tests of mending."""

from __future__ import annotations

import random

import attrs
from storage_kit import fill, finish

from actors.env.protocols import run_here
from actors.log_types import GoodRange
from actors.runtime import ReplyTo
from actors.sim.disk import SimDisk
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import CommitLog, segment_path
from actors.storage.log.digests import RANGE_BYTES, Digests
from actors.storage.log.log_reader import LogReader
from actors.storage.scrub.log_check import LogCheck, Rot
from actors.storage.scrub.mending import (
    Damage,
    GetDamage,
    GetGoodRange,
    Mend,
    Mended,
    Mender,
)

LAYOUT = StoreLayout("/d")
SEGMENT = 4 * RANGE_BYTES
END = 2 * SEGMENT
LONG = 100 << 10
"""A body of more than one range: the third record's, from 20 KiB on."""
BODIES = [b"%02d" % number * 5000 for number in range(2)] + [b"long" * (LONG // 4)]
BODIES += [b"%02d" % number * 5000 for number in range(60)]


@attrs.define
class Held:
    """A log of three files, two of which are complete, and what looks after it."""

    disk: SimDisk
    good: bytes
    places: list[tuple[int, int]]
    check: LogCheck
    mender: Mender
    to_sync: list[str]

    @staticmethod
    def opened(disk: SimDisk, good: bytes, places: list[tuple[int, int]]) -> Held:
        to_sync: list[str] = []
        digests = Digests.open(disk, LAYOUT.digests, SEGMENT, 0, len(good))
        check = LogCheck(
            reader=LogReader(disk, LAYOUT.commit_log, SEGMENT),
            digests=digests,
            record_bytes_max=1 << 20,
            limit_bytes=END,
            own_from_bytes=None,
        )
        mender = Mender(
            check=check,
            disk=disk,
            layout=LAYOUT,
            sync_file=to_sync.append,
            run_beside=run_here,
            undigested=lambda: END,
        )
        return Held(disk, good, places, check, mender, to_sync)

    @staticmethod
    def made(seed: int = 0) -> Held:
        disk = SimDisk(random.Random(seed))
        log = CommitLog.load(disk, LAYOUT.commit_log, SEGMENT)
        places = fill(log, BODIES)
        assert log.written_bytes > END
        log.close(remove_spare=False)
        paths = [segment_path(LAYOUT.commit_log, base) for base in (0, SEGMENT, END)]
        for path in paths:
            file = disk.open(path, "w")
            file.sync()
            file.close()
        disk.sync_dir(LAYOUT.commit_log)
        good = b"".join(disk.open(path, "r").pread(0, SEGMENT) for path in paths)
        held = Held.opened(disk, good, places)
        for base in (0, SEGMENT):
            finish(held.check.digest_file(base))
        held.check.digests.take_dirty()
        for base in (0, SEGMENT):
            file = disk.open(segment_path(LAYOUT.digests, base), "w")
            file.sync()
            file.close()
        disk.sync_dir(LAYOUT.digests)
        return held

    def again(self) -> Held:
        """As the next start sees it."""
        return Held.opened(self.disk, self.good, self.places)

    def forget_digests(self) -> Held:
        self.check.digests.close()
        self.disk.rmtree(LAYOUT.digests)
        self.disk.sync_dir(LAYOUT.root)
        return self.again()

    def spoil(self, offset: int) -> None:
        path = segment_path(LAYOUT.commit_log, offset - offset % SEGMENT)
        self.disk.inode(path).flip_bit(offset % SEGMENT, 1)

    def now(self, start: int, end: int) -> bytes:
        return self.check.reader.read(start, end - start, end)

    def original(self, start: int, end: int) -> bytes:
        return self.good[start:end]

    async def find(self) -> tuple[Rot, ...]:
        """What a round of the scrub finds."""
        for base in (0, SEGMENT):
            walk = self.check.walk_all(base)
            while finish(self.check.step(walk)):
                pass
        return tuple(self.check.rotten.values())

    async def mend(self, start: int, data: bytes, *, outvotes: bool = False) -> Mended:
        answers: list[Mended | Exception] = []
        reply: ReplyTo[Mended] = ReplyTo.local(answers.append, asked=None)
        await self.mender.handle(
            Mend(start=start, data=data, source="n0", outvotes=outvotes, reply_to=reply)
        )
        (answer,) = answers
        assert isinstance(answer, Mended)
        return answer

    async def give(self, start: int) -> GoodRange:
        answers: list[GoodRange | Exception] = []
        reply: ReplyTo[GoodRange] = ReplyTo.local(answers.append, asked=None)
        await self.mender.handle(GetGoodRange(start=start, reply_to=reply))
        (answer,) = answers
        assert isinstance(answer, GoodRange)
        return answer

    async def damage(self, only: tuple[int, int] | None = None) -> list[Damage | Exception]:
        answers: list[Damage | Exception] = []
        reply: ReplyTo[Damage] = ReplyTo.local(answers.append, asked=None)
        await self.mender.handle(GetDamage(only=only, reply_to=reply))
        return answers

    def with_end(self) -> Held:
        """Some records of the third file are synced, too: less than a range, without a digest."""
        self.places = [each for each in self.places if sum(each) < END + RANGE_BYTES]
        self.check.limit_bytes = sum(self.places[-1])
        return self

    def settle(self) -> None:
        self.mender.settle(tuple(self.check.rotten.values()))
