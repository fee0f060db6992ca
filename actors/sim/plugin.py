"""pytest fixtures for your own suite: a simulated cluster on virtual time.

Opt in where your tests are, with pytest and pytest-trio installed:

    pytest_plugins = ["actors.sim.plugin"]

    async def test_my_service(cluster):
        log = cluster.log("orders")                  # what `node.log("orders")` gives in production
        receipt = await log.append([b"one"])
        cluster.cut("n1")                            # n1 reaches no other node
        await trio.sleep(3600)                       # a virtual hour: no time at all
        cluster.heal("n1")
        await cluster.converged("orders")
        assert (await cluster.offsets("n1", "orders")).written == receipt.next

Tests are async functions; one that uses `cluster` or `world` needs no mark and no clock of its own.
Time is virtual: it jumps to the next deadline whenever nothing can run. Hence two rules: whatever
the test uses must live on Trio (`trio.sleep`, `trio.current_time`), and nothing may touch a real
socket, file or thread, for virtual time does not wait for those. Your own service runs in the
test's tasks or, if it is to be killed too, as a node of its own: `world.add_node`,
`world.start_node`.

Fixtures:

- `cluster`: a `SimCluster`, three nodes n0 (master), n1, n2, all running, group "orders" with
  `copies = 2`, `durability = "synced"`. Real nodes; only network, disk and clocks are simulated.
- `cluster_config`: override it for another cluster: return `classic_config(nodes=5, copies=3)`, or
  what `actors.load_config` gives for your own file (addresses and directories are then simulated).
- `world`: the `World` under it: `world.network`, `world.node("n1").disk.faults`, `world.events`.
- `world_seed`: override it to explore; by default the environment's SIM_SEED (0) and the test's id,
  so each test has one history, the same in every run. A failure's report shows how to repeat it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import pytest
import trio
from pytest_trio import trio_fixture  # type: ignore[import-untyped]

from actors.config import ClusterConfig
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.scheduler import TRIO_VERSION, virtual_clock
from actors.sim.world import World, open_world


@pytest.fixture
def world_seed(request: pytest.FixtureRequest) -> str:
    """The seed from which everything random in the test's world is drawn."""
    return f"{os.environ.get('SIM_SEED', '0')}:{request.node.nodeid}"


@pytest.fixture
def cluster_config() -> ClusterConfig:
    """The cluster that `cluster` runs."""
    return classic_config()


async def _world(world_seed: str, nursery: trio.Nursery) -> World:
    """Make the world, which lasts until the test ends."""
    world: World = await nursery.start(_keep_world, world_seed)
    return world


async def _cluster(world: World, cluster_config: ClusterConfig) -> SimCluster:
    """Run all nodes of `cluster_config` in the world."""
    cluster = SimCluster(world, cluster_config)
    await cluster.start()
    return cluster


world = trio_fixture(_world)
cluster = trio_fixture(_cluster)


async def _keep_world(seed: str, task_status: trio.TaskStatus[World]) -> None:
    """Keep the world until the test ends, and tell it of the end: a world that is cancelled does
    not show what failed.
    """
    over = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_world, seed, over, task_status)
        try:
            await trio.sleep_forever()
        finally:
            over.set()


async def _run_world(seed: str, over: trio.Event, task_status: trio.TaskStatus[World]) -> None:
    with trio.CancelScope(shield=True):
        async with open_world(seed) as world:
            task_status.started(world)
            await over.wait()


def run_on_virtual_time(
    async_fn: Callable[[], Awaitable[object]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> Any:
    """Run a test that uses a world; pytest-trio calls this instead of `trio.run`."""
    clock = clock or virtual_clock()
    return trio.run(async_fn, clock=clock, instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use a world. pytest-trio finds a clock only among a test's own arguments, and
    checks for a mark first.
    """
    for item in items:
        if "world" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.trio(run=run_on_virtual_time), append=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Say how to repeat a failure of a test that uses a world."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and "world" in getattr(item, "fixturenames", ()):
        seed = os.environ.get("SIM_SEED", "0")
        line = f"SIM_SEED={seed} pytest {item.nodeid!r} (trio {TRIO_VERSION})"
        report.sections.append(("simulated world", line))
