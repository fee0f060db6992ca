"""The store actor: sessions, group commit, removals that wait for a sync, its life."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from ledger_kit import FILE, LAYOUT, chain, model, opened, sim_disk
from ledger_store_kit import running

from actors.errors import LogFull, StorageError, TooLarge
from actors.events import store as events
from actors.runtime import (
    ActorDown,
    ReplyTo,
)
from actors.sim.disk import DiskOptions, SimDisk
from actors.storage.ledger import store_messages
from actors.storage.ledger.ledger import NotInSequence, TermVote
from actors.storage.ledger.term_files import read_checkpoint
from actors.storage.log.growth import MINOR_WITHIN_S, Subscribe


async def test_what_is_synced_survives_a_power_loss(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        opened_ = await kit.open(1, term=2)
        assert (opened_.end_index, opened_.end_term) == (-1, -1)
        added = await kit.append(1, b"one", b"two")
        assert (added.first_index, added.last_index, added.positions) == (0, 1, (0, 51))
        await kit.synced(1)
        assert kit.grown[-1].end_term == 2
    disk.power_loss()
    assert model(opened(disk)) == [(0, 2, b"one"), (1, 2, b"two")]


async def test_a_write_of_an_earlier_session_is_refused(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        with pytest.raises(store_messages.StaleSession, match="a write of session 3"):
            await kit.append(3, b"x")
        await kit.open(4)
        await kit.append(4, b"a")
        assert (await kit.open(5, term=7)).end_index == 0
        for write in (kit.append(4, b"x"), kit.change(4, entries=tuple(chain([b"x"]))),
                      kit.change(4, cut_from=0), kit.open(4)):  # fmt: skip
            with pytest.raises(store_messages.StaleSession):
                await write
        await kit.store.tell(store_messages.Commit(session=4, index=0))
        await kit.append(5, b"b")
        await kit.synced(1)
        assert (kit.grown[-1].end_index, kit.grown[-1].end_term) == (1, 7)
        assert kit.grown[-1].committed_index == -1


async def test_appends_that_wait_are_written_together(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        await kit.open(1)
        answers: list[Any] = []
        for number in range(50):
            await kit.store.tell(
                store_messages.Append(
                    session=1,
                    bodies=(b"%d" % number,) * 3,
                    reply_to=ReplyTo.local(answers.append),
                )
            )
        await kit.synced(149)
        assert [answer.first_index for answer in answers] == list(range(0, 150, 3))
        assert len({grown.end_index for grown in kit.grown}) <= 4


async def test_one_append_that_is_too_large_fails_alone(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        await kit.open(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.append, 1, b"a")
            with pytest.raises(TooLarge):
                await kit.append(1, b"x", bytes(FILE))
        await kit.append(1, b"b")
        await kit.synced(1)


async def test_a_removal_waits_for_the_sync_that_runs(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, *[b"x" * 900] * 9)
        await kit.synced(8)
        disk.faults.slow_syncs(2.0, 0.5)
        await kit.append(1, b"y")
        began_s = trio.current_time()
        done: list[str] = []

        async def cut() -> None:
            new = chain([b"n" * 900], term=3, index=2, pos=2 * 948)
            assert (await kit.change(1, cut_from=2, entries=tuple(new))).end_index == 2
            done.append("cut")

        async def append() -> None:
            await trio.sleep(0.1)
            await kit.open(1, term=3)
            assert (await kit.append(1, b"z")).first_index == 3
            done.append("append")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut)
            nursery.start_soon(append)
        assert sorted(done) == ["append", "cut"]
        assert trio.current_time() >= began_s + 1.5
        await kit.synced(3)
        assert kit.grown[-1].cuts == 1
    disk.power_loss()
    assert [entry[:2] for entry in model(opened(disk))] == [(0, 1), (1, 1), (2, 3), (3, 3)]


async def test_a_follower_is_re_based_and_refuses_what_does_not_fit(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"old")
        await kit.synced(0)
        new = tuple(chain([b"n" * 900] * 3, term=2, index=70, pos=FILE + 500))
        assert (await kit.change(1, restart=True, entries=new)).end_index == 72
        with pytest.raises(NotInSequence):
            await kit.change(1, entries=new)
        await kit.synced(72)
        assert kit.grown[-1].begin_index == 70
    assert [entry[0] for entry in model(opened(disk))] == [70, 71, 72]


async def test_a_vote_is_on_the_disk_when_it_is_answered(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        vote = TermVote(5, "n2")
        answer = await kit.store.ask(
            TermVote,
            lambda reply_to: store_messages.SaveVote(vote=vote, reply_to=reply_to),
            timeout_s=9.0,
        )
        assert answer == vote
        disk.faults.fail("write", 28, path_part="currterm", skip=1)
        with pytest.raises(LogFull):
            await kit.store.ask(
                TermVote,
                lambda reply_to: store_messages.SaveVote(vote=TermVote(6, "n1"), reply_to=reply_to),
                timeout_s=9.0,
            )
    disk.power_loss()
    assert opened(disk).vote == vote


async def test_a_session_is_open_once_its_vote_is_on_the_disk(autojump_clock: Any) -> None:
    """Without room for the vote the session before goes on, and takes writes."""
    disk = sim_disk()
    async with running(disk) as kit:
        vote = TermVote(5, "n2")
        assert (await kit.open(1, 5, vote)).session == 1
        assert opened(sim_copy(disk)).vote == vote
        await kit.append(1, b"a")
        disk.faults.fail("write", 28, path_part="currterm", skip=1, times=1)
        with pytest.raises(LogFull):
            await kit.open(2, 6, TermVote(6, "n1"))
        await kit.append(1, b"b")
        with pytest.raises(store_messages.StaleSession):
            await kit.open(0, 7, TermVote(7, "n1"))
    disk.power_loss()
    assert opened(disk).vote == vote


async def test_the_committed_index_is_written_down(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"a", b"b")
        await kit.store.tell(store_messages.Commit(session=1, index=9))
        await trio.sleep(5)
        assert kit.grown[-1].committed_index == 1
        assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == 1
    assert opened(disk).committed_index == 1


async def test_an_idle_store_comes_to_rest(autojump_clock: Any) -> None:
    """A second after the last write the index is synced, then the mark that says so."""
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"a")
        await trio.sleep(5)
        again = opened(sim_copy(disk))
        assert again.opened.index_made is None
        assert disk.durable(f"{LAYOUT.index}/{0:020d}")
        before = disk._rng.getstate()
        await trio.sleep(8)
        assert disk._rng.getstate() == before  # not one sync more


def sim_copy(disk: SimDisk) -> SimDisk:
    """What a power loss now would leave at the least."""
    copy = sim_disk()
    for folder in ("", "/data", "/index", "/sums"):
        copy.mkdir(f"{LAYOUT.root}{folder}")
        for name in disk.listdir(f"{LAYOUT.root}{folder}"):
            data = disk.durable(f"{LAYOUT.root}{folder}/{name}")
            if data is not None:
                file = copy.open(f"{LAYOUT.root}{folder}/{name}", "x")
                file.resize(len(data))
                file.pwrite(data, 0)
    return copy


async def test_who_need_not_know_at_once_is_notified_a_little_later(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        await kit.open(1)
        listener = kit.registry.ref("/n0/listener")
        await kit.store.tell(Subscribe(subscriber=listener, within_s=1.0))
        await trio.sleep(0.1)
        known = len(kit.grown)
        await kit.append(1, b"a")
        await kit.append(1, b"b")
        await trio.sleep(0.5)
        assert len(kit.grown) == known
        await trio.sleep(1.0)
        assert [grown.end_index for grown in kit.grown[known:]] == [1], "the newest alone"


async def test_a_commit_is_heard_of_a_little_later_where_it_is_minor(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        await kit.open(1)
        await kit.append(1, b"a")
        await trio.sleep(2.0)
        listener = kit.registry.ref("/n0/listener")
        subscription = Subscribe(subscriber=listener, minor=store_messages.COMMITS)
        await kit.store.tell(subscription)
        await trio.sleep(0.1)
        known = len(kit.grown)
        await kit.store.tell(store_messages.Commit(session=1, index=0))
        await trio.sleep(2 * MINOR_WITHIN_S)
        assert [grown.committed_index for grown in kit.grown[known:]] == [0]


async def test_a_member_is_what_the_writes_before_have_made_it(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:

        async def member() -> store_messages.MemberRecord:
            found: store_messages.MemberRecord = await kit.store.ask(
                store_messages.MemberRecord,
                lambda reply_to: store_messages.GetMember(reply_to=reply_to),
                timeout_s=9.0,
            )
            return found

        found = await member()
        assert (found.session, found.vote.term) == (store_messages.NO_SESSION, 1)
        assert (found.begin, found.end, found.end_term, found.stored) == (-1, -1, -1, -1)
        await kit.open(4, term=3)
        await kit.append(4, b"a", b"b", b"c")
        await kit.store.tell(
            store_messages.Change(session=4, cut_from=1, reply_to=ReplyTo.local(lambda _: None))
        )
        found = await member()
        assert (found.session, found.begin, found.end, found.end_term) == (4, 0, 0, 3)
        assert found.stored == 0, "a removal is on the disk"
        assert found.committed == -1


async def test_a_condemned_log_ends_the_store(autojump_clock: Any) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(StorageError, match="entry 3 differs"), flatten_subgroups=True
    ):
        async with running(sim_disk()) as kit:
            await kit.store.tell(store_messages.Condemn(reason="entry 3 differs"))
            await trio.sleep(1)


async def test_a_failed_write_ends_the_store(autojump_clock: Any) -> None:
    disk = sim_disk()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with running(disk) as kit:
            await kit.open(1)
            disk.faults.fail("write", 5, path_part="data/")
            with pytest.raises(ActorDown):
                await kit.append(1, b"a")
            await trio.sleep_forever()
    assert "Input/output error" in repr(caught.value)


async def test_a_full_disk_is_a_named_refusal(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        disk.faults.fail("prepare", 28, path_part="data/")
        with pytest.raises(LogFull):
            await kit.append(1, b"a")
        assert (await kit.append(1, b"b")).first_index == 0
        await kit.synced(0)


async def test_what_was_cut_at_the_start_is_reported(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"a" * 100)
        await kit.synced(0)
    disk.open(f"{LAYOUT.commit_log}/{0:020d}", "w").pwrite(b"\1" * 20, 148)
    disk.unlink(LAYOUT.synced)
    async with running(disk) as kit:
        assert [
            type(event) for event in kit.events if type(event).__module__ == events.__name__
        ] == [
            events.LogTruncated,
            events.RecoveryFinished,
        ]


async def test_old_files_leave_and_a_full_disk_hurries_it(autojump_clock: Any) -> None:
    """What is not committed stays, however old it is."""
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, *[b"x" * 900] * 12)
        await kit.synced(11)
        await trio.sleep(25)
        assert kit.grown[-1].begin_index == 0
        disk.options = DiskOptions(capacity_bytes=disk._reserved_pages * 4096)  # it is full now
        await kit.store.tell(store_messages.Commit(session=1, index=8))
        disk.faults.fail("prepare", 28, path_part="data/")
        with pytest.raises(LogFull):
            await kit.append(1, *[b"y" * 900] * 4)
        await trio.sleep(1)
        assert (kit.grown[-1].begin_index, kit.grown[-1].cuts) == (8, 2)
        assert len([event for event in kit.events if isinstance(event, events.SegmentExpired)]) == 2
        with pytest.raises(LogFull, match="90% full"):
            await kit.append(1, b"y")
    assert [entry[0] for entry in model(opened(disk))] == [8, 9, 10, 11]
