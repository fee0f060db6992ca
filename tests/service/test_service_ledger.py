"""DLedger groups on whole nodes: appended, read and followed through the same `Log`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

import actors
from actors.api.failures import RequestRefused
from actors.client.appending import Rules
from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.errors import Closed, NotMaster, TooLarge
from actors.log_types import Message
from actors.runtime import ActorRef
from actors.sim.cluster import SimCluster, classic_config
from wire.api import frames

pytest_plugins = ["actors.sim.plugin"]
GROUP = "ledger"
LARGE = 12


@pytest.fixture
def cluster_config() -> ClusterConfig:
    """Three nodes with a group of either kind."""
    classic = classic_config()
    ledger = DLedgerGroup(
        name=GROUP,
        members=("n0", "n1", "n2"),
        data_file_bytes=64 << 10,
        index_file_bytes=64 << 10,
    )
    config = ClusterConfig(
        name=classic.name,
        data_dir=classic.data_dir,
        nodes=classic.nodes,
        groups={**classic.groups, GROUP: ledger},
        api_port=classic.api_port,
    )
    validate(config)
    return config


def other(cluster: SimCluster) -> str:
    """A member that does not lead."""
    return next(name for name in cluster.names if name != cluster.master_of(GROUP))


async def bodies(log: actors.Log) -> list[bytes]:
    async with log.reader() as batches:
        return [record.body async for batch in batches for record in batch.records]


async def test_what_the_leader_takes_every_member_shows(cluster: SimCluster) -> None:
    log = cluster.log(GROUP)
    first = await log.append([b"one", b"two"])
    assert (first.count, first.last, first.next) == (2, first.first + 1, first.first + 2)
    assert first.copies >= 2
    second = await log.append([Message(None, b"three")])
    assert second.first == first.next
    await cluster.converged(GROUP)
    for name in cluster.names:
        assert await bodies(cluster.log(GROUP, name)) == [b"one", b"two", b"three"]
    async with log.reader() as batches:
        async for batch in batches:
            assert not any(record.is_message for record in batch.records)


async def test_a_follower_names_the_leader(cluster: SimCluster) -> None:
    follower = other(cluster)
    with pytest.raises(NotMaster) as caught:
        await cluster.log(GROUP, follower).append([b"one"])
    assert caught.value.hint == cluster.master_of(GROUP)


async def test_without_a_majority_nobody_leads_and_nothing_is_taken(cluster: SimCluster) -> None:
    alone = other(cluster)
    for name in cluster.names:
        if name != alone:
            await cluster.kill(name)
    await trio.sleep(30)
    with pytest.raises(NotMaster, match="no leader"):
        await cluster.log(GROUP, alone).append([b"one"])


async def test_the_next_leader_has_all_and_the_old_one_follows(cluster: SimCluster) -> None:
    log = cluster.log(GROUP)
    for number in range(20):
        await log.append([b"%d" % number])
    old = cluster.master_of(GROUP)
    await cluster.kill(old)
    with trio.fail_after(60):
        while cluster.master_of(GROUP) == old:  # noqa: ASYNC110
            await trio.sleep(1)
    await log.append([b"after"])
    await cluster.start(old)
    await cluster.converged(GROUP)
    assert await bodies(cluster.log(GROUP, old)) == [*(b"%d" % n for n in range(20)), b"after"]


async def test_a_reader_follows_and_passes_over_what_opens_terms(cluster: SimCluster) -> None:
    got: list[bytes] = []

    async def follow() -> None:
        async with cluster.log(GROUP, other(cluster)).reader(follow=True) as batches:
            async for batch in batches:
                got.extend(record.body for record in batch.records)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await trio.sleep(1)
        assert got == []
        async with cluster.log(GROUP).appender() as out:
            for number in range(100):
                await out.send(b"%d" % number)
        await trio.sleep(5)
        assert got == [b"%d" % number for number in range(100)]
        nursery.cancel_scope.cancel()


async def test_what_a_ledger_does_not_carry_is_refused(cluster: SimCluster) -> None:
    log = cluster.log(GROUP)
    with pytest.raises(RequestRefused, match="plain bytes"):
        await log.append([Message(None, b"one", tags="t")])
    with pytest.raises(RequestRefused, match="no empty records"):
        await log.append([b"one", b""])
    with pytest.raises(TooLarge):
        await log.append([b"x" * (64 << 10)])
    assert (await log.append([b"one"])).count == 1


async def test_what_only_a_classic_group_has_is_refused(cluster: SimCluster) -> None:
    node = cluster.node("n0")
    with pytest.raises(RequestRefused, match="elect their leader"):
        await node.promote(GROUP, None, False)


async def test_status_says_who_leads_and_how_far_each_is(cluster: SimCluster) -> None:
    receipt = await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    leader = cluster.master_of(GROUP)
    found = (await cluster.node(leader).status())["groups"]
    assert list(found) == ["orders", GROUP]
    said = found[GROUP]
    assert (said["mode"], said["role"], said["leader"]) == ("dledger", "leader", leader)
    assert said["acknowledged"] == said["synced"] == receipt.next
    assert {peer["end"] for peer in said["peers"]} == {receipt.next}
    assert said["counts"]["acknowledged"] == 1
    follower = (await cluster.node(other(cluster)).status())["groups"][GROUP]
    rules = Rules.of({"groups": {GROUP: follower}}, GROUP)
    assert not rules.takes_empty, "what the client's append goes by"
    assert rules.body_bytes_max == cluster.config.groups[GROUP].body_bytes_max
    assert (follower["role"], follower["leader"], follower["peers"]) == ("follower", leader, ())


async def test_an_ordered_stop_ends_appends(cluster: SimCluster) -> None:
    leader = cluster.master_of(GROUP)
    node = cluster.node(leader)
    log = node.log(GROUP)
    await log.append([b"one"])
    await cluster.stop(leader)
    with pytest.raises(Closed):
        await log.append([b"two"])
    await cluster.start(leader)
    await cluster.converged(GROUP)
    assert await bodies(cluster.log(GROUP)) == [b"one"]


async def test_a_fresh_read_shows_what_was_answered_anywhere_before(cluster: SimCluster) -> None:
    log = cluster.log(GROUP)
    for number in range(5):
        receipt = await log.append([b"%d" % number])
        for name in cluster.names:
            batch = await cluster.log(GROUP, name).read(receipt.first, fresh=True)
            assert [record.body for record in batch.records] == [b"%d" % number]


async def test_a_leader_that_is_cut_off_shows_nothing_as_fresh(cluster: SimCluster) -> None:
    old = cluster.master_of(GROUP)
    await cluster.log(GROUP).append([b"one"])
    cluster.cut(old)
    own = cluster.log(GROUP, old)
    assert (await own.read(0)).records  # what it knows
    with pytest.raises(RequestRefused, match=r"leads? ledger"):
        await own.read(0, fresh=True)
    cluster.heal()
    await cluster.converged(GROUP)
    assert (await own.read(0, fresh=True)).records


@attrs.define
class Delayed:
    """An actor that is asked only after something else has happened."""

    ref: ActorRef[Any]
    first: Callable[[], Awaitable[None]]

    async def ask(self, *args: Any, **options: Any) -> Any:
        await self.first()
        return await self.ref.ask(*args, **options)


async def test_what_an_older_leadership_knew_is_not_fresh(cluster: SimCluster) -> None:
    """Between its index and its proof a leader is deposed, answers are given elsewhere, and it
    leads again."""
    name, next_leader = cluster.master_of(GROUP), other(cluster)
    await cluster.log(GROUP).append([b"one"])
    part: Any = cluster.node(name).part(GROUP)
    maintainer = part.maintainer

    async def lead_elsewhere() -> None:
        part.maintainer = maintainer
        for old, new in ((name, next_leader), (next_leader, name)):
            await cluster.converged(GROUP)
            await cluster.node(old).transfer_leader(GROUP, new)
            with trio.fail_after(10):
                while not cluster.node(new).is_open(GROUP):  # noqa: ASYNC110
                    await trio.sleep(0.1)
            await cluster.node(new).log(GROUP).append([b"of " + new.encode()])

    part.maintainer = Delayed(maintainer, lead_elsewhere)
    log = cluster.log(GROUP, name)
    with pytest.raises(RequestRefused, match=f"{name} does not lead ledger any more"):
        await log.read(0, fresh=True)
    assert len((await log.read(0, fresh=True)).records) == 3


async def test_a_follower_that_gets_nothing_waits_for_it_so_long(cluster: SimCluster) -> None:
    """Its disk is full: the leader answers it, and what was committed does not come."""
    follower = other(cluster)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    cluster.world.node(follower).disk.faults.fill(10.0)
    for _ in range(LARGE):  # more than the files that are there take
        last = (await cluster.log(GROUP).append([b"x" * (32 << 10)])).last
    log = cluster.node(follower).log(GROUP)
    with (
        trio.fail_after(100),
        pytest.raises(RequestRefused, match=r"what n\d had committed") as caught,
    ):
        await log.read(last, fresh=True)
    assert caught.value.error == frames.ERROR_NOT_AVAILABLE
    assert (await log.read(0)).records, "what it has it shows"
    await trio.sleep(20.0)
    assert [record.position for record in (await log.read(last, fresh=True)).records] == [last]


async def test_a_leader_that_answers_that_it_leads_no_more_is_not_called_silent(
    cluster: SimCluster,
) -> None:
    """It is deposed between its index and its proof; a follower had asked it."""
    name, next_leader = cluster.master_of(GROUP), other(cluster)
    asking = next(node for node in cluster.names if node not in (name, next_leader))
    part: Any = cluster.node(name).part(GROUP)
    maintainer = part.maintainer

    async def lead_elsewhere() -> None:
        part.maintainer = maintainer
        await cluster.node(name).transfer_leader(GROUP, next_leader)

    part.maintainer = Delayed(maintainer, lead_elsewhere)
    log = cluster.log(GROUP, asking)
    with pytest.raises(RequestRefused) as caught:
        await log.read(0, fresh=True)
    assert str(caught.value).startswith(f"{name} could not say what is committed: {name} ")


async def test_without_a_leader_nothing_is_fresh(cluster: SimCluster) -> None:
    follower = other(cluster)
    await cluster.kill(cluster.master_of(GROUP))
    with pytest.raises(RequestRefused):
        await cluster.log(GROUP, follower).read(0, fresh=True)
