"""Reads of a log whose oldest files go while somebody reads them."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from handles_disk import HandlesDisk
from storage_kit import fill
from trio.testing import MockClock

from actors.runtime import Actor, ActorRef, ChildSpec, SupervisorSpec, open_system
from actors.sim.disk import SimDisk
from actors.storage import pull_service, store
from actors.storage.commit_log import CommitLog
from actors.storage.pull_service import Pulled, PullService
from wire.commitlog import RECORD_BYTES_MAX
from wire.message_record import decode_record
from wire.record_scan import scan

S = 4096


@attrs.define
class StoreOf(Actor[store.Message]):
    """A store of which only the range is known."""

    log: CommitLog

    async def handle(self, message: store.Message) -> None:
        if isinstance(message, store.GetRange):
            message.reply_to.send(
                store.LogRange(
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
            store.LogGrew(
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
