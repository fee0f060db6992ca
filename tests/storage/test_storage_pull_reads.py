"""Reads of a log whose oldest files go while somebody reads them."""

import errno
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
import trio
from handles_disk import HandlesDisk
from storage_kit import fill
from trio.testing import MockClock

from actors.runtime import Actor, ActorRef, ChildSpec, SupervisorSpec, open_system
from actors.sim.disk import SimDisk
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.commitlog.pull_service import NotARecord, Pulled, PullService, Unreadable
from actors.storage.log.commit_log import CommitLog
from actors.storage.scrub.scrubber_messages import CopyState
from wire.files.commit_log import RECORD_BYTES_MAX
from wire.files.message_record import decode_record
from wire.files.record_scan import scan
from wire.files.scanned import Stop

S = 4096


@attrs.define
class StoreOf(Actor[store_messages.Message]):
    """A store of which only the range is known."""

    log: CommitLog

    async def handle(self, message: store_messages.Message) -> None:
        if isinstance(message, store_messages.GetRange):
            message.reply_to.send(
                store_messages.LogRange(
                    min_bytes=self.log.min_bytes,
                    written_bytes=self.log.written_bytes,
                    synced_bytes=self.log.written_bytes,
                    segment_bytes=S,
                    folder=self.log.folder,
                )
            )


def tree_of(disk: SimDisk, log: CommitLog, refs: dict[str, ActorRef[Any]]) -> SupervisorSpec:
    return SupervisorSpec(
        children=(
            ChildSpec(name="store", start=lambda: StoreOf(log)),
            ChildSpec(
                name="pull",
                start=lambda: PullService(
                    disk=disk,
                    store_ref=refs["store"],
                    master="n0",
                    record_bytes_max=RECORD_BYTES_MAX,
                    synced_only=True,
                ),
            ),
        )
    )


@asynccontextmanager
async def pull_on(
    disk: SimDisk, log: CommitLog, acknowledged: int | None = None
) -> AsyncIterator[ActorRef[pull_service.Message]]:
    """A pull service over this log, acknowledged up to there; None: all of it."""
    refs: dict[str, ActorRef[Any]] = {}
    async with open_system(
        "n0",
        lambda registry: (refs.update(store=registry.ref("/n0/store")), tree_of(disk, log, refs))[
            1
        ],
    ) as system:
        pull = system.ref("/n0/pull")
        end = log.written_bytes if acknowledged is None else acknowledged
        await pull.tell(pull_service.Acknowledged(offset_bytes=end))
        yield pull


async def read(pull: ActorRef[pull_service.Message], start: int) -> Pulled:
    return await pull.ask(
        Pulled,
        lambda reply_to: pull_service.Read(start=start, max_bytes=1 << 20, reply_to=reply_to),
        timeout_s=5,
    )


@pytest.mark.checklist(46)
@pytest.mark.parametrize("gone", [1, 2])
async def test_files_that_expired_before_the_news_came_are_passed(
    autojump_clock: MockClock, gone: int
) -> None:
    disk = SimDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    bodies = [b"%d" % number * 1500 for number in range(6)]  # two in each file
    fill(log, bodies)
    async with pull_on(disk, log) as pull:
        for _ in range(gone):
            log.delete_first()
        pulled = await read(pull, 0)
        assert pulled.start == gone * S
        found = [decode_record(pulled.data, at).body for at, _ in scan(pulled.data)[0]]
        assert found == bodies[2 * gone : 2 * gone + 2]


@pytest.mark.checklist(46)
async def test_an_idle_reader_lets_go_of_files_that_expired(autojump_clock: MockClock) -> None:
    """An open handle keeps a deleted file's room taken, so that cleaning would free nothing."""
    disk = HandlesDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    fill(log, [b"%d" % number * 1500 for number in range(6)])
    async with pull_on(disk, log) as pull:
        for base in (0, S, 2 * S):
            await read(pull, base)
        assert disk.readers() == [log.path_of(base) for base in (0, S, 2 * S)]
        log.delete_first()
        log.delete_first()
        await pull.tell(
            store_messages.LogGrew(
                min_bytes=log.min_bytes,
                written_bytes=log.written_bytes,
                synced_bytes=log.written_bytes,
            )
        )
        await trio.sleep(1)
        assert disk.readers() == [log.path_of(2 * S)]


async def test_what_expired_without_copies_is_not_called_acknowledged(
    autojump_clock: MockClock,
) -> None:
    """The master's word is every slave's limit, and their logs may begin further below."""
    disk = SimDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    fill(log, [b"%d" % number * 1500 for number in range(6)])
    log.delete_first()
    log.delete_first()
    async with pull_on(disk, log, acknowledged=S) as pull:
        pulled = await read(pull, 0)
        assert (pulled.start, pulled.next, pulled.data) == (2 * S, 2 * S, b"")
        assert (pulled.offsets.min, pulled.offsets.acknowledged) == (2 * S, S)


# ---- damage ----

HEAD_BYTES = 28
"""Of a record: its size, magic and place are in them; of a filler size and magic."""
BITS = (0x01, 0x10, 0x80)


def heads(disk: SimDisk, log: CommitLog) -> list[int]:
    """Where records and fillers begin."""
    found = []
    for base in range(0, log.written_bytes, S):
        file = disk.open(log.path_of(base), "r")
        data = file.pread(0, S)
        file.close()
        records, stopped = scan(data, physical_offset=base)
        found += [base + at for at, _ in records]
        if stopped.stop is Stop.BLANK:
            found.append(base + stopped.end)
    return found


async def bodies_shown(pull: ActorRef[pull_service.Message], end: int) -> list[bytes]:
    """What a client gets that reads on and on. Raises: what the last read ended with."""
    at, found = 0, []
    while at < end:
        pulled = await read(pull, at)
        assert pulled.next > at, f"nothing at {at}, as if it were the end"
        records, stopped = scan(pulled.data, physical_offset=pulled.start)
        if stopped.stop is not Stop.END:
            raise Unreadable("the client finds it")
        found += [decode_record(pulled.data, place).body for place, _ in records]
        at = pulled.next
    return found


@pytest.mark.parametrize("bit", BITS)
async def test_no_flipped_bit_in_a_head_shortens_what_is_read(
    autojump_clock: MockClock, bit: int
) -> None:
    """A filler whose size was changed passed over a whole file, and a record's let a read turn for
    ever, both without a word.
    """
    disk = SimDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    bodies = [b"%d" % number * 1500 for number in range(6)]
    fill(log, bodies)
    async with pull_on(disk, log) as pull:
        assert await bodies_shown(pull, log.written_bytes) == bodies
        for place in [start + more for start in heads(disk, log) for more in range(HEAD_BYTES)]:
            if place >= log.written_bytes:
                continue
            flip(disk, log, place, bit)
            with suppress(NotARecord, Unreadable):
                assert await bodies_shown(pull, log.written_bytes) == bodies, place
            flip(disk, log, place, bit)


def flip(disk: SimDisk, log: CommitLog, place: int, bit: int) -> None:
    file = disk.open(log.path_of(place - place % S), "w")
    (before,) = file.pread(place % S, 1)
    file.pwrite(bytes([before ^ bit]), place % S)
    file.close()


async def test_what_is_known_to_be_damaged_is_not_shown(autojump_clock: MockClock) -> None:
    disk = SimDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    bodies = [b"%d" % number * 1500 for number in range(6)]
    fill(log, bodies)
    second = heads(disk, log)[1]
    async with pull_on(disk, log) as pull:
        await pull.tell(CopyState(damage="why", ranges=((second + 10, second + 20),)))
        pulled = await read(pull, 0)
        assert (pulled.next, len(pulled.data)) == (second, second)
        for start in (second, second + 10):
            with pytest.raises(Unreadable, match=f"bytes {second + 10} to {second + 20}"):
                await read(pull, start)
        assert (await read(pull, S)).next > S
        await pull.tell(CopyState(damage=""))
        assert await bodies_shown(pull, log.written_bytes) == bodies


async def test_a_file_that_is_too_short_is_no_end_of_the_log(autojump_clock: MockClock) -> None:
    disk = SimDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    fill(log, [b"%d" % number * 1500 for number in range(6)])
    file = disk.open(log.path_of(S), "w")
    file.resize(100)
    file.close()
    async with pull_on(disk, log) as pull:
        with pytest.raises(Unreadable, match=f"the file with log byte {S} is too short"):
            await read(pull, S)


async def test_a_bad_sector_refuses_reads_and_ends_nothing(autojump_clock: MockClock) -> None:
    """A client that read it again and again used up the restarts of the node."""
    disk = SimDisk(random.Random(1))
    log = CommitLog.load(disk, "/data/commitlog", S)
    fill(log, [b"%d" % number * 1500 for number in range(6)])
    disk.faults.fail("read", errno.EIO, path_part=log.path_of(S), times=20)
    async with pull_on(disk, log) as pull:
        for _ in range(20):
            with pytest.raises(Unreadable, match=f"log byte {S} cannot be read"):
                await read(pull, S)
        assert (await read(pull, S)).data
