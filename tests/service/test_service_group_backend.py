"""A group's log from another machine goes on with the next leader. Real nodes, virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trio.testing
from test_service_ledger import GROUP, bodies
from test_service_ledger import cluster_config as three_nodes

from actors.api.failures import RequestRefused
from actors.client import connect_group, reading
from actors.client.bench import measure
from actors.client.group_backend import GroupBackend, open_backend
from actors.client.members import MemberFinder, NobodyLeads, members_of, wait_s_of
from actors.config import ClusterConfig
from actors.env.protocols import SecretStore
from actors.errors import (
    NodeStopped,
    NotMaster,
    NotStored,
    OutcomeUnknown,
    TriologError,
    UnknownName,
)
from actors.log import Log
from actors.log_types import Chain
from actors.sim.cluster import SimCluster

__all__ = ["three_nodes"]

pytest_plugins = ["actors.sim.plugin"]
HOME = "home"
"""The client's machine: the cluster's, with no part in a group."""
MEMBERS = ("n0", "n1", "n2")


@pytest.fixture
def cluster_config(three_nodes: ClusterConfig) -> ClusterConfig:
    return attrs.evolve(three_nodes, nodes={**three_nodes.nodes, HOME: "10.0.0.9"})


def secrets_of(cluster: SimCluster) -> SecretStore:
    """A program on this machine has been given what the nodes have."""
    return cluster.world.node("n0").secret_store(HOME)


def members(
    cluster: SimCluster, group: str = GROUP, *, wait_s: float | None = None
) -> MemberFinder:
    """As a client on a machine of its own has them."""
    network = cluster.world.network.open(HOME)
    return members_of(
        cluster.config,
        group,
        leads=False,
        name=HOME,
        wait_s=wait_s,
        network=network,
        secret_store=secrets_of(cluster),
    )


@asynccontextmanager
async def opened(
    cluster: SimCluster, group: str = GROUP, *, wait_s: float | None = None
) -> AsyncIterator[tuple[GroupBackend, Log]]:
    one = partial(members, cluster, group, wait_s=wait_s)
    async with open_backend(one(), one()) as backend:
        yield backend, Log(backend, group)


async def test_appends_go_on_with_the_next_leader(cluster: SimCluster) -> None:
    network = cluster.world.network.open(HOME)
    async with connect_group(
        cluster.config, GROUP, network=network, secret_store=secrets_of(cluster)
    ) as log:
        await log.append([b"one"])
        await cluster.converged(GROUP)  # a member without its log would take the votes of all
        old = cluster.master_of(GROUP)
        await cluster.kill(old)
        await trio.sleep(1)  # the client has seen it
        await log.append([b"two"])  # nothing was under way: it only takes longer
        await cluster.start(old)
        await log.append([b"three"])
        await cluster.converged(GROUP)
        await cluster.node(cluster.master_of(GROUP)).transfer_leader(GROUP, old)
        await log.append([b"four"])
        await cluster.converged(GROUP)
        assert await bodies(log) == [b"one", b"two", b"three", b"four"]


async def test_what_was_under_way_is_in_doubt_and_never_sent_again(cluster: SimCluster) -> None:
    async with opened(cluster) as (_, log):
        await log.append([b"one"])
        await cluster.converged(GROUP)
        old, held = cluster.master_of(GROUP), list(MEMBERS)
        for name in held:
            if name != old:
                cluster.cut(name)  # no quorum: what is appended now waits
        failures: list[Exception] = []

        async def append() -> None:
            try:
                await log.append([b"two"])
            except TriologError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await trio.sleep(1)
            await cluster.kill(old)
        assert [type(failure) for failure in failures] == [NodeStopped]
        for name in held:
            if name != old:
                cluster.heal(name)
        await log.append([b"three"])
        await cluster.converged(GROUP)
        found = await bodies(log)
        assert [record for record in found if record != b"two"] == [b"one", b"three"]
        assert found.count(b"two") <= 1


@attrs.define
class Leader:
    """Takes all, or loses what is under way and refuses the next."""

    lost: Chain | None = None
    taken: list[bytes] = attrs.field(factory=list)

    async def submit(
        self, group: str, records: tuple[bytes, ...], on_done: object, chain: Chain | None
    ) -> None:
        await trio.lowlevel.checkpoint()
        if self.lost is not None:
            self.lost.broken = True
            raise NotMaster("it leads no more")
        self.taken += records


@attrs.define
class Leaders:
    """A slot in which one comes after the other."""

    to_come: list[Leader]
    members: MemberFinder = attrs.field(
        factory=lambda: MemberFinder(GROUP, (), pytest.fail, wait_s=0.0)
    )

    async def client(self) -> Leader:
        await trio.lowlevel.checkpoint()
        return self.to_come[0]

    def failed(self, client: Leader, failure: BaseException) -> bool:
        self.to_come.remove(client)
        return True


@pytest.mark.parametrize("lost", [True, False])
async def test_the_next_leader_takes_nothing_behind_a_failed_one_of_its_chain(
    lost: bool, autojump_clock: trio.testing.MockClock
) -> None:
    chain, other, new = Chain(), Chain(), Leader()
    slot = Leaders([Leader(lost=chain if lost else other), new])
    backend = GroupBackend(slot, slot)  # type: ignore[arg-type]
    if lost:
        with pytest.raises(NotStored, match="before it has failed"):
            await backend.submit(GROUP, (b"behind",), print, chain)
    else:
        await backend.submit(GROUP, (b"behind",), print, chain)
    assert new.taken == ([] if lost else [b"behind"])


async def test_what_an_appender_leaves_goes_to_the_next_one(cluster: SimCluster) -> None:
    """Killed under load: each record is acknowledged, in doubt or given to the next appender."""
    sent = [b"%d" % number for number in range(200)]
    doubted: list[bytes] = []
    waiting = list(sent)
    appenders = acknowledged = 0
    async with opened(cluster) as (_, log), trio.open_nursery() as nursery:

        async def kill() -> None:
            await trio.sleep(0.5)
            await cluster.kill(cluster.master_of(GROUP))

        nursery.start_soon(kill)
        while waiting:
            appender, taken = log.appender(in_flight_bytes=2000), 0
            try:
                async with appender:
                    for record in waiting:
                        await appender.send(record)
                        taken += 1
                        await trio.sleep(0.01)
            except (NotStored, OutcomeUnknown):
                pass
            left = appender.left()
            assert [waiting[each.number] for each in left] == [each.record for each in left]
            assert taken == appender.acknowledged_count + len(left)
            doubted += [bytes(each.record) for each in left if each.in_doubt]  # type: ignore[arg-type]
            again = [each.record for each in left if not each.in_doubt]
            waiting = [*again, *waiting[taken:]]  # type: ignore[list-item]
            acknowledged += appender.acknowledged_count
            appenders += 1
        await cluster.converged(GROUP)
        found = await bodies(log)
    assert appenders >= 2
    assert acknowledged == len(sent) - len(doubted)
    assert [record for record in found if record not in doubted] == [
        record for record in sent if record not in doubted
    ]
    assert len(found) == len(set(found))


async def test_a_reader_goes_on_at_its_position(cluster: SimCluster) -> None:
    sent = [b"%d" % number for number in range(300)]
    found: list[bytes] = []
    async with opened(cluster) as (backend, log), trio.open_nursery() as nursery:

        async def follow() -> None:
            async with log.reader(follow=True) as batches:
                async for batch in batches:
                    found.extend(record.body for record in batch.records)

        nursery.start_soon(follow)
        for number, record in enumerate(sent):
            await log.append([record])
            if number in (100, 200):
                victim = backend.reading.node
                await cluster.kill(victim)
                await trio.sleep(10)
                await cluster.start(victim)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert found == sent


async def test_tail_goes_on_at_its_position(cluster: SimCluster) -> None:
    sent = [b"%d" % number for number in range(60)]
    printed = bytearray()

    async def write(data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        printed.extend(data)

    async with opened(cluster) as (backend, log), trio.open_nursery() as nursery:
        await log.append([b"before"])
        await cluster.converged(GROUP)
        tail = partial(reading.tail, backend, GROUP, write, start=None, json=False)
        nursery.start_soon(tail)
        await trio.sleep(1)
        for number, record in enumerate(sent):
            if number in (0, 30):  # also before the first record has come
                await cluster.kill(backend.reading.node)
                await trio.sleep(1)
            await log.append([record])
            if number == 10:
                await cluster.start(*(name for name in MEMBERS if not cluster.runs(name)))
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert bytes(printed) == b"".join(record + b"\n" for record in sent)


async def test_read_ends_where_the_lost_member_would_have(cluster: SimCluster) -> None:
    """The next one is behind: what the first one showed to be there is waited for."""
    printed = bytearray()
    behind = "n1"
    async with opened(cluster) as (backend, log):
        backend.reading.members.nodes = ("n0", behind)
        backend.reading.members._order[:] = ["n0", behind]
        await log.append([b"%d" % number for number in range(10)])
        await cluster.converged(GROUP)
        cluster.cut(behind)
        await log.append([b"%d" % number for number in range(10, 20)])
        big = [b"x" * 60_000] * 10
        await log.append(big)
        with trio.fail_after(30):
            while (await cluster.offsets("n0", GROUP)).acknowledged < 30:  # noqa: ASYNC110
                await trio.sleep(0.1)

        async def write(data: bytes) -> None:
            if not printed:  # after the first answer
                await cluster.kill("n0")
                cluster.heal(behind)
            printed.extend(data)

        await reading.read(backend, GROUP, write, start=0, count=None, fresh=False, json=False)
    lines = bytes(printed).split()
    assert lines == [b"%d" % number for number in range(20)] + big


async def test_nobody_is_waited_for_longer_than_said(cluster: SimCluster) -> None:
    async with opened(cluster, wait_s=20.0) as (_, log):
        await log.append([b"one"])
        await cluster.converged(GROUP)
        leader = cluster.master_of(GROUP)
        await cluster.kill(leader)
        await cluster.kill(next(name for name in MEMBERS if name != leader))
        await trio.sleep(1)
        for _ in range(2):  # each request waits anew
            begun_s = trio.current_time()
            with pytest.raises(NotStored) as caught:
                await log.append([b"two"])
            assert 18.0 <= trio.current_time() - begun_s <= 30.0
        assert isinstance(caught.value, NobodyLeads)
        assert f"leads {GROUP}" in str(caught.value)
        alone = next(name for name in MEMBERS if cluster.runs(name))
        assert await bodies(log) == [b"one"]
        await cluster.kill(alone)
        with pytest.raises(RequestRefused, match="cannot reach"):
            await bodies(log)


async def test_with_no_wait_a_loss_is_the_callers(cluster: SimCluster) -> None:
    async with opened(cluster, wait_s=0.0) as (_, log):
        await log.append([b"one"])
        await cluster.kill(cluster.master_of(GROUP))
        await trio.sleep(1)
        for _ in range(2):
            begun_s = trio.current_time()
            with pytest.raises(NotStored):
                await log.append([b"two"])
            assert trio.current_time() - begun_s < 5.0


async def test_a_classic_group_after_a_promotion(cluster: SimCluster) -> None:
    async with opened(cluster, "orders") as (_, log):
        await log.append([b"one"])
        await cluster.node("n1").promote("orders", "n1", False)  # a hand-over: by the hint
        await log.append([b"two"])
        await cluster.kill("n1")
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.append, [b"three"])
            await trio.sleep(3)
            await cluster.node("n0").promote("orders", None, False)
        await cluster.start("n1")
        await log.append([b"four"])
        await cluster.converged("orders")
        assert await bodies(log) == [b"one", b"two", b"three", b"four"]


def slow_disks(cluster: SimCluster) -> None:
    """Some dozen appends a second, not a thousand: what is reported of each is the same."""
    for node in cluster.world.nodes:
        node.disk.faults.slow_syncs(0.03, 3600.0)


async def test_bench_goes_on_and_counts(cluster: SimCluster) -> None:
    slow_disks(cluster)
    of = members(cluster)

    async def kill() -> None:
        await trio.sleep(1)
        await cluster.kill(cluster.master_of(GROUP))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill)
        found = await measure(
            of.leader, GROUP, window=2, size_bytes=10, batch_count=1, seconds=12, members=of
        )
    assert not found.ended_early
    assert found.first_error is not None
    assert found.outcome_unknown + found.not_stored >= 1
    assert 11.9 < found.seconds < 15.0
    log = cluster.log(GROUP)
    stored = len(await bodies(log))
    assert found.appends <= stored <= found.appends + found.outcome_unknown + 2  # open at the end


async def test_how_long_is_waited(cluster: SimCluster) -> None:
    config = cluster.config
    assert wait_s_of(config, "orders") == config.answer_timeout_s == 10.0
    assert wait_s_of(config, GROUP) == 16.0  # until followers miss their leader, and campaign
    with pytest.raises(UnknownName):
        async with connect_group(config, "none"):
            raise AssertionError("not reached")
