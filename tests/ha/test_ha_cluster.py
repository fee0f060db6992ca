"""Whole nodes, with real stores, in a simulated world: one master and two slaves."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from ha_cluster import NODES, Cluster, setups
from ha_kit import SEGMENT, cluster, until

from actors.env import Env
from actors.errors import NodeStopped, OutcomeUnknown, ReplicationTimeout, StorageError
from actors.runtime import ActorDown, Registry, SupervisorSpec, open_system, render_spec
from actors.sim.world import open_world
from actors.trees.classic import classic_trees
from actors.trees.node import node_tree


def opened(seed: int = 1) -> Any:
    return open_world(seed)


@pytest.mark.checklist(26, 40)
async def test_three_nodes_hold_the_same_bytes(autojump_clock: object) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 3"))
        await nodes.start()
        answers = [await nodes.append(b"x" * size, b"y") for size in range(1, 900, 30)]
        assert {answer.copies for answer in answers} == {3}
        await nodes.assert_logs_equal()
        assert await nodes.written("n0") > 4 * SEGMENT


@pytest.mark.checklist(25)
@pytest.mark.parametrize("seed", range(4))
async def test_a_slave_killed_anywhere_comes_back_and_is_equal(
    autojump_clock: object, seed: int
) -> None:
    async with opened(seed) as world:
        nodes = Cluster(world, cluster("copies = 2"))
        await nodes.start()
        rng = world.rng("test")
        acknowledged = 0
        for round_number in range(5):
            victim = rng.choice(["n1", "n2"])
            async with trio.open_nursery() as nursery:

                async def kill(victim: str = victim) -> None:
                    await trio.sleep(rng.random())
                    await world.kill_node(victim)

                nursery.start_soon(kill)
                for number in range(30):
                    answer = await nodes.append(b"%d-%d" % (round_number, number) * 20)
                    acknowledged = max(acknowledged, answer.next_bytes)
                    await trio.sleep(rng.random() * 0.05)
            await nodes.start(victim)
        await nodes.assert_logs_equal()
        assert await nodes.written("n0") >= acknowledged


@pytest.mark.checklist(25)
async def test_a_master_killed_comes_back_and_goes_on(autojump_clock: object) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 2"))
        await nodes.start()
        for _ in range(10):
            await nodes.append(b"before" * 50)
        before = await nodes.until_equal()
        await world.kill_node("n0")
        await trio.sleep(3.0)
        await nodes.start("n0")
        assert await nodes.written("n0") == before
        await nodes.until_in_sync(2)
        for _ in range(10):
            await nodes.append(b"after" * 50)
        await nodes.assert_logs_equal()


@pytest.mark.checklist(10, 22)
async def test_a_cut_for_an_hour_heals(autojump_clock: object) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 2"))
        await nodes.start()
        await nodes.append(b"x")
        world.network.cut_both("n0", "n1")
        for _ in range(60):
            await nodes.append(b"meanwhile" * 30)
            await trio.sleep(60.0)
        status = await nodes.status("n0")
        assert [slave.in_sync for slave in status.slaves] == [False, True]
        world.network.heal_both("n0", "n1")
        await nodes.assert_logs_equal()


async def test_a_failed_sync_ends_its_node_and_says_why(autojump_clock: object) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 1"))
        await nodes.start()
        await nodes.append(b"x")
        world.node("n0").disk.faults.fail("sync", errno.EIO, path_part="commitlog")
        with pytest.raises((OutcomeUnknown, ActorDown)):
            await nodes.append(b"y")
        with trio.fail_after(20.0):
            await world.node("n0").wait_ended()
        failure = world.node("n0").take_failure()
        assert failure is not None
        assert StorageError in leaves(failure)
        assert world.node("n1").failure is None
        assert (await nodes.status("n1")).client is not None


def leaves(error: BaseException) -> set[type[BaseException]]:
    if isinstance(error, BaseExceptionGroup):
        return set().union(*(leaves(each) for each in error.exceptions))
    return {type(error)}


async def test_files_of_the_dispatcher_that_cannot_be_synced_end_the_node_too(
    autojump_clock: object,
) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 1"))
        await nodes.start("n0")
        world.node("n0").disk.faults.fail("sync", errno.EIO, path_part="consumequeue")
        await nodes.append(b"x")
        with trio.fail_after(20.0):
            await world.node("n0").wait_ended()
        failure = world.node("n0").take_failure()
        assert failure is not None
        assert leaves(failure) <= {StorageError, OSError}


@pytest.mark.checklist(27)
@pytest.mark.parametrize(("compat", "at_once"), [("", False), ('compat = "upstream"', True)])
async def test_what_has_no_copies_is_readable_at_once_only_with_compat(
    autojump_clock: object, compat: str, at_once: bool
) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 2", compat))
        await nodes.start("n0")
        with pytest.raises(ReplicationTimeout):
            await nodes.append(b"x", timeout_s=1.0)
        end = await nodes.written("n0")
        assert await nodes.acknowledged("n0") == (end if at_once else 0)
        await nodes.start("n1")

        async def replicated() -> bool:
            return await nodes.acknowledged("n0") == end

        await until(replicated)


@pytest.mark.checklist(61)
async def test_an_ordered_stop_answers_waits_and_closes_the_store(
    autojump_clock: object,
) -> None:
    async with opened() as world:
        nodes = Cluster(world, cluster("copies = 2"))
        await nodes.start("n0")
        outcomes: list[Exception] = []

        async def put() -> None:
            try:
                await nodes.append(b"never copied", timeout_s=60.0)
            except OutcomeUnknown as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put)
            await trio.sleep(1.0)
            began_s = trio.current_time()
            await world.stop_node("n0")
            assert trio.current_time() - began_s < 3.0
        assert [type(error) for error in outcomes] == [NodeStopped]
        root = nodes.config.group_dir("n0", "orders")
        assert not world.node("n0").disk.exists(f"{root}/abort")


MASTER_TREE = """\
/n0 [one_for_one, 3 restarts in 30 s, any_significant]
└─ orders [rest_for_one, 3 restarts in 30 s, any_significant] transient significant
   ├─ storage [one_for_all, 3 restarts in 30 s, any_significant] temporary significant
   │  ├─ syncer temporary significant
   │  └─ store temporary significant
   ├─ dispatcher temporary significant
   ├─ pull_service permanent
   ├─ scrubber permanent back-off 1-30 s
   ├─ derived_scrubber permanent back-off 1-30 s
   ├─ group_transfer permanent
   ├─ connection_state permanent
   ├─ connections [dynamic, at most 18 children, 3 restarts in 30 s] permanent
   └─ accept_socket permanent
"""

SLAVE_TREE = """\
/n1 [one_for_one, 3 restarts in 30 s, any_significant]
└─ orders [rest_for_one, 3 restarts in 30 s, any_significant] transient significant
   ├─ storage [one_for_all, 3 restarts in 30 s, any_significant] temporary significant
   │  ├─ syncer temporary significant
   │  └─ store temporary significant
   ├─ dispatcher temporary significant
   ├─ pull_service permanent
   ├─ scrubber permanent back-off 1-30 s
   ├─ derived_scrubber permanent back-off 1-30 s
   ├─ connection_state permanent
   └─ ha_client permanent back-off 1-30 s
"""


@pytest.mark.parametrize(("name", "picture"), [("n0", MASTER_TREE), ("n1", SLAVE_TREE)])
async def test_the_trees_as_printed(autojump_clock: object, name: str, picture: str) -> None:
    seen: list[str] = []

    async def look(env: Env, task_status: trio.TaskStatus[None]) -> None:
        def build(registry: Registry) -> SupervisorSpec:
            spec = node_tree([classic_trees(setups(cluster(), name, env, registry))])
            seen.append(render_spec(spec, name))
            return SupervisorSpec()

        async with open_system(name, build, rng=env.rng, events=env.events):
            task_status.started()

    async with opened() as world:
        world.add_node(name, NODES[name])
        await world.start_node(name, look)
    assert seen == [picture.strip()]
