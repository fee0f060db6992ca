"""Actions that wait for the moment in which they matter: they meet it, or do nothing."""

from __future__ import annotations

import contextlib

import pytest
import trio
from test_sim_actions import GROUP, Stage, stage

from actors.errors import TriologError
from actors.events import ha
from actors.sim.actions.action import Ground
from actors.sim.classic.actions.replace import NewDisk
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.history import FaultInjected
from actors.sim.world import SimEvent

END = 1 << 20


async def append(on: Stage, count: int = 30) -> None:
    """Appends that overlap, whatever becomes of them."""

    async def one(number: int) -> None:
        with contextlib.suppress(TriologError):  # the node may be gone
            await on.cluster.log(GROUP).append([b"more %d" % number + b"y" * 500])

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, number)
            await trio.sleep(0.1)


@pytest.mark.parametrize("node", ["n0", "n1"])
async def test_power_goes_while_a_sync_is_on_its_way(node: str, autojump_clock: object) -> None:
    async with stage() as on:
        logs, unsynced = DiskLogBytes(on.cluster, on.runner.group), list[bool]()
        power_loss = on.cluster.power_loss

        async def look(name: str) -> None:
            unsynced.append(logs.written(name, 0, END) != logs.durable(name, 0, END))
            await power_loss(name)

        on.cluster.power_loss = look  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, on)
            await on.do(f"at 0.1 power_loss_in_sync {node} for 0.5 extra 0.4")
        assert on.runner.counts == {"power_loss_in_sync": 1}
        assert unsynced == [True]


async def test_a_node_that_writes_nothing_keeps_its_power(autojump_clock: object) -> None:
    async with stage() as on:
        await on.do("at 0.1 power_loss_in_sync n1 for 0.5 extra 0.4")
        assert on.runner.counts == {}
        on.world.node("n1").disk.on_sync(["/a/commitlog/b"])  # nobody listens any more


async def test_two_that_wait_for_one_disk_do_not_hinder_each_other(autojump_clock: object) -> None:
    async with stage() as on:
        line = "at 0.1 power_loss_in_sync n1 for 0.5 extra 0.4"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, on)
            await on.do(line, line)
        assert on.runner.counts == {"power_loss_in_sync": 1}


async def test_a_slave_with_a_new_disk_is_heard_before_the_others(autojump_clock: object) -> None:
    async with stage(copies=3) as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, on)
            await on.do("at 0.5 new_disk n1 extra 1.0")
        assert on.runner.counts == {"new_disk": 1}
        reported = [
            seen.kind if isinstance(seen, FaultInjected) else "heard"
            for seen in on.history.observations
            if (isinstance(seen, FaultInjected) and seen.where in ("n1", "n2"))
            or (isinstance(seen, SimEvent) and isinstance(seen.event, ha.HATransferStarted))
        ]
        wiped = reported.index("wiped")
        assert reported[wiped : wiped + 4] == ["wiped", "start", "heard", "heal"]


async def test_no_new_disk_where_somebody_else_is_needed(autojump_clock: object) -> None:
    async with stage() as on:
        await on.do("at 0.1 new_disk n0 extra 1.0")  # the master
        assert on.runner.counts == {}


def test_two_nodes_are_too_few_for_a_new_disk() -> None:
    assert NewDisk().nodes(Ground(names=("n0", "n1"), duration_s=1.0)) == ()
    assert NewDisk().nodes(Ground(names=("n0", "n1", "n2"), duration_s=1.0)) == ("n1", "n2")
