"""Every action does to a cluster what its name says, mends itself, and is counted if it took."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from node_roles_kit import promote

from actors.errors import OutcomeUnknown, TriologError
from actors.events.runtime import ActorCrashed
from actors.ha.core.claims import CLAIM_LEASE_S
from actors.log_types import Claim, Offsets
from actors.runtime.errors import describe
from actors.sim.actions.script import parse_fault
from actors.sim.classic.actions.network import STRANGER, STRANGER_ADDRESS
from actors.sim.classic.actions.operator import keep_tending, tend
from actors.sim.classic.faults import ACTIONS
from actors.sim.classic.judges.checkers import invariants
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.classic.plan import ClassicPlan
from actors.sim.classic.runner import FaultRunner
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.history import FaultInjected, History
from actors.sim.running import run_plan
from actors.sim.world import SimEvent, World, open_world

GROUP = "orders"
SLOW = {"copies": 2, "segment_bytes": 16 << 10, "frame_bytes": 1024, "reconnect_interval_s": 0.5}


@attrs.frozen
class Stage:
    """A running cluster with something in its log, and who does things to it."""

    world: World
    cluster: SimCluster
    runner: FaultRunner
    history: History

    async def do(self, *lines: str) -> None:
        await self.runner.run(tuple(map(parse_fault, lines)))

    @property
    def kinds(self) -> list[str]:
        return [seen.kind for seen in self.history.observations if isinstance(seen, FaultInjected)]


@asynccontextmanager
async def stage(seed: int = 1, **settings: Any) -> AsyncIterator[Stage]:
    async with open_world(seed) as world:
        config = classic_config(
            **{"segment_bytes": 16 << 10, "reconnect_interval_s": 0.5, **settings}
        )
        cluster = SimCluster(world, config)
        world.network.add_host(STRANGER, STRANGER_ADDRESS)
        group = config.groups[GROUP]
        history = History(invariants(group, DiskLogBytes(cluster, group)))
        world.on_event.append(history.add)
        runner = FaultRunner(cluster=cluster, group=group, history=history, actions=ACTIONS)
        await cluster.start()
        for number in range(10):
            await cluster.log(GROUP).append([b"%d;" % number + b"x" * 700] * 3)
        await cluster.converged(GROUP)
        await trio.sleep(2)  # the synced mark is on the disk
        yield Stage(world, cluster, runner, history)
        await runner.mend()
        await cluster.log(GROUP).append([b"last"])
        await cluster.converged(GROUP)
        assert history.violations == []
        await cluster.stop()


@pytest.mark.parametrize(
    "line",
    [
        "at 0.1 cut n0 n1 for 1",
        "at 0.1 cut_one_way n1 n0 for 1",
        "at 0.1 isolate n0 for 1",
        "at 0.1 reset n1 n0",
        "at 0.1 clog n0 n1 for 1",
        "at 0.1 kill n1 for 1",
        "at 0.1 kill_starting n0 for 1 extra 0.001",
        "at 0.1 stop n1 for 1",
        "at 0.1 power_loss n0 n2 for 1",
        "at 0.1 power_loss_all n0 n1 n2 for 1",
        "at 0.1 pause n1 for 1",
        "at 0.1 clock_jump n0 for 1 extra -60",
        "at 0.1 slow_sync n1 for 1 extra 0.5",
        "at 0.1 bit_rot n1 for 1",
        "at 0.1 rot_repaired n1 n2 for 1 in kill extra 0.1",
        "at 0.1 rot_repaired n0 n2 for 1 in neither",
        "at 0.1 derived_rot n1 for 1 in consumequeue",
        "at 0.1 derived_rot n1 for 1 in consumequeue extra 1",
        "at 0.1 derived_rot n1 for 1 in consumequeue extra 2",
        "at 0.1 derived_rot n1 for 1 in consumequeue extra 3",
        "at 0.1 old_sector n1 for 1",
        "at 0.1 false_report n1 extra -1",
        "at 0.1 false_report n1 extra 1099511627776",
        "at 0.1 stranger n0",
        "at 0.1 hand_over_called_off n0 for 1",
        "at 0.1 promote n1 n2",
        "at 0.1 promote n1 n0",
        "at 0.1 fail_over n2 for 1 extra 0.5",
    ],
)
async def test_an_action_takes_effect_and_is_mended(line: str, autojump_clock: object) -> None:
    fault = parse_fault(line)
    async with stage() as on:
        await on.do(line)
        assert on.runner.counts[fault.kind] == 1
        assert fault.kind in on.kinds[:2]
        assert all(on.cluster.runs(name) for name in on.cluster.names)


async def test_a_judge_that_looks_while_power_goes_knows_of_it(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """What a node of a `written` group loses so is no loss that a later look may complain of."""
    async with stage(durability="written", copies=3) as on:
        real = on.cluster.power_loss

        async def power_loss(name: str) -> None:
            await real(name)
            on.runner.note("kill", "n2")  # another action, at the same moment

        monkeypatch.setattr(on.cluster, "power_loss", power_loss)
        for _ in range(5):
            await on.cluster.log(GROUP).append([b"y" * 3000])
        await on.do("at 0.0 old_sector n1 for 1")


@pytest.mark.checklist(24, 47, 48)
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("eio_write", ""),
        ("eio_write", "commitlog"),
        ("eio_write", "consumequeue"),
        ("eio_write", "/events/"),
        ("eio_write", "synced"),
        ("eio_sync", ""),
        ("eio_sync", "commitlog"),
        ("eio_sync", "consumequeue"),
        ("eio_read", "commitlog"),
        ("short_write", "commitlog"),
        ("short_write", "consumequeue"),
        ("disk_full", ""),
        ("no_inodes", ""),
    ],
)
@pytest.mark.parametrize("node", ["n0", "n1"])
async def test_a_disk_error_ends_the_node_or_not_and_nothing_is_lost(
    kind: str, where: str, node: str, autojump_clock: object
) -> None:
    async with stage() as on:
        place = f" in {where}" if where else ""

        async def load() -> None:
            for number in range(20):
                await trio.sleep(0.2)
                try:
                    with trio.move_on_after(1.0):
                        await on.cluster.log(GROUP).append([b"more %d" % number + b"y" * 500])
                        await on.cluster.log(GROUP, node).read(0)
                except TriologError:
                    pass  # the node may be gone

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await on.do(f"at 0.1 {kind} {node} for 4{place}")
        if kind == "disk_full":
            await trio.sleep(60.0)  # a master looks at its disk from time to time
        assert on.cluster.runs(node)
        assert on.runner.counts[kind] == 1
        assert "felt" in on.kinds
        if kind in ("disk_full", "no_inodes"):
            assert "died" not in on.kinds


async def test_a_promotion_moves_the_master_and_is_refused_for_a_silent_one(
    autojump_clock: object,
) -> None:
    async with stage() as on:
        await on.do("at 0.1 promote n2 n1", "at 5.0 promote n2 n1")
        assert on.cluster.master_of(GROUP) == "n2"
        assert on.runner.counts == {"promote": 1}
        receipt = await on.cluster.log(GROUP).append([b"to the new one"])
        assert receipt.copies >= 2
        await on.do("at 0.1 isolate n0 for 60", "at 5.0 promote n0 n2")
        assert on.runner.counts["promote"] == 1
        assert "not promoted" in on.kinds
        assert on.cluster.master_of(GROUP) == "n2"


async def test_an_old_master_that_went_on_alone_is_resynced(autojump_clock: object) -> None:
    async with stage(slave_timeout_s=0.3) as on:

        async def append_to_the_old_one() -> None:
            await trio.sleep(0.2)
            with pytest.raises(OutcomeUnknown):
                await on.cluster.log(GROUP, "n0").append([b"a tail that nobody else has"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_to_the_old_one)
            await on.do("at 0.1 fail_over n1 for 3 extra 1.0", "at 20 fail_over n1")
        assert on.runner.counts == {"fail_over": 1}
        assert on.kinds[-2:] == ["resync", "resynced"]
        assert on.cluster.master_of(GROUP) == "n1"


async def test_a_fail_over_that_is_refused_leaves_the_master(autojump_clock: object) -> None:
    async with stage(copies=1) as on:
        await on.do("at 0.1 fail_over n1 for 3 extra 1.0")
        assert on.runner.counts == {}
        assert "not promoted" in on.kinds
        assert on.cluster.master_of(GROUP) == "n0"


async def test_a_master_that_lacks_what_others_hold_is_replaced(autojump_clock: object) -> None:
    async with stage() as on:
        on.cluster.cut("n0", "n2")
        await on.cluster.log(GROUP).append([b"n2 does not have it"])
        await promote(on.cluster, 1, "n2", "n1")
        on.cluster.heal()
        with trio.fail_after(60.0):
            while "promoting" not in on.kinds:
                await tend(on.runner)
                await trio.sleep(0.5)
        assert (await on.cluster.log(GROUP).append([b"to the next one"])).copies >= 2
        assert on.cluster.master_of(GROUP) != "n2"


async def test_damage_is_refused_at_the_start_and_mended(autojump_clock: object) -> None:
    tended = set()
    for seed in range(6):
        async with stage(seed) as on:
            await on.do("at 0.1 bit_rot n1 for 9", "at 0.2 kill n1 for 0.1")
            assert on.kinds.count("damaged") == 1
            tended.update(on.kinds)
    assert {"refused to start", "repaired", "wiped"} <= tended


async def test_damage_that_a_promotion_meets_ends_the_node_until_it_is_mended(
    autojump_clock: object,
) -> None:
    async with stage() as on:
        await on.do("at 0.1 bit_rot n1 for 9", "at 0.2 promote n1 n0")
        kinds = on.kinds
        assert "died" in kinds
        assert kinds.index("repaired") < kinds.index("start", kinds.index("damaged"))
        assert on.cluster.runs("n1")


async def test_damage_may_be_reported_after_it_was_mended(autojump_clock: object) -> None:
    """The node has read it, and is paused while the bytes are put back."""
    async with stage() as on:
        await on.cluster.power_loss("n1")
        on.runner.note("damaged", f"n1 {on.runner.atlas.flip_bit('n1', on.world.rng('rot'))}")

        def repair(seen: SimEvent) -> None:
            if isinstance(seen.event, ActorCrashed):
                on.runner.repair("n1")

        on.world.on_event.append(repair)
        await on.runner.up("n1")
        assert "refused to start" in on.kinds


@pytest.mark.parametrize("silent", [True, False])
async def test_a_promotion_that_got_lost_half_way_is_asked_for_again(
    silent: bool, autojump_clock: object
) -> None:
    """While the chosen one is silent; otherwise that one ends it."""
    async with stage() as on:
        if silent:
            await on.cluster.kill("n1")
        claim = Claim(number=1, token=7, by="n2", master="n1")
        for each in (claim, attrs.evolve(claim, again=True, kept=True)):
            await on.cluster.node("n0").fence(GROUP, each, True)
        await tend(on.runner, alone=True)
        assert on.kinds == []  # its coordinator may be about to end it
        await trio.sleep(CLAIM_LEASE_S + 1.0)
        await tend(on.runner)
        assert on.kinds == (["promoting"] if silent else [])
        assert (await on.cluster.log(GROUP).append([b"goes on"])).copies >= 2


async def test_a_promotion_comes_before_a_hand_over_is_called_off(autojump_clock: object) -> None:
    """Nobody renews that claim; and when it is called off there is nothing to take back."""
    async with stage() as on:
        with trio.fail_after(60):
            await on.do("at 0.1 hand_over_called_off n0 for 9", "at 7 promote n1 n2 for 1")
        assert on.runner.counts == {"hand_over_called_off": 1, "promote": 1}
        assert on.runner.master == "n1"


async def test_what_finds_nothing_to_break_is_not_counted(autojump_clock: object) -> None:
    async with stage() as on:
        await on.cluster.kill("n1")
        await on.do("at 0.1 kill n1", "at 0.1 stop n1", "at 0.1 pause n1", "at 0.1 reset n1 n2")
        await on.do("at 0.1 power_loss n1", "at 0.1 kill_starting n1", "at 0.1 old_sector n1")
        assert on.runner.counts == {}


async def test_a_failure_without_a_fault_is_reported(autojump_clock: object) -> None:
    async with stage() as on:
        world = on.world.node("n1")
        await on.cluster.kill("n1")
        world.failure = RuntimeError("of itself")
        await on.runner.up("n1")
        (violation,) = on.history.violations
        assert (violation.checker, violation.text) == (
            "NothingFails",
            "n1 died: RuntimeError: of itself",
        )
        on.history.violations.clear()


async def test_a_start_that_fails_without_a_fault_is_reported(autojump_clock: object) -> None:
    async with stage() as on:
        await on.cluster.kill("n1")
        disk = on.world.node("n1").disk
        path = next(p for p in disk.listdir("/data/n1/groups/orders/commitlog"))
        inode = disk.inode(f"/data/n1/groups/orders/commitlog/{path}")
        inode.flip_bit(4, 0)  # not by the atlas
        await on.runner.up("n1")
        checkers = {violation.checker for violation in on.history.violations}
        assert checkers == {"NothingFails", "NodesStart"}
        inode.flip_bit(4, 0)
        on.history.violations.clear()


async def test_who_ends_after_all_was_mended_is_started_again(autojump_clock: object) -> None:
    async with stage() as on:
        await on.runner.mend()
        await on.cluster.log(GROUP).append([b"more"])
        await on.cluster.kill("n2")
        end = await on.runner.converged(60.0)
        assert (await on.cluster.offsets("n2", GROUP)).written == end.written


async def test_who_is_started_while_the_others_are_looked_at_is_looked_at_too(
    autojump_clock: object,
) -> None:
    async with stage() as on, trio.open_nursery() as nursery:
        await on.cluster.kill("n2")
        await on.cluster.log(GROUP).append([b"more"])
        looked = on.cluster.converged

        async def converged(group: str, *, within_s: float = 60.0) -> Offsets:
            end = await looked(group, within_s=within_s)
            if not on.cluster.runs("n2"):
                on.cluster.cut("n2")
                await on.cluster.start("n2")
                nursery.start_soon(heal)
            return end

        async def heal() -> None:
            await trio.sleep(5.0)
            on.cluster.heal()

        on.cluster.converged = converged  # type: ignore[method-assign]
        end = await on.runner.converged(60.0)
        assert (await on.cluster.offsets("n2", GROUP)).written == end.written


@pytest.mark.parametrize("felt", [True, False])
async def test_a_master_that_dies_after_all_was_mended_is_started_again(
    felt: bool, autojump_clock: object
) -> None:
    """Nobody converges without it. That it died is reported, unless its disk was made to fail."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def die_late() -> None:
        await trio.sleep(9.0)
        if felt:
            on.world.node("n0").disk.faults.on_effect("write")
        await on.cluster.kill("n0")
        on.world.node("n0").failure = full

    async with stage() as on, trio.open_nursery() as nursery:
        await on.runner.mend()
        on.cluster.cut("n1", "n0")  # what n1 lacks is copied only when the operator has come
        await on.cluster.log(GROUP).append([b"more"])
        nursery.start_soon(keep_tending, on.runner)
        nursery.start_soon(die_late)
        await trio.sleep(9.5)
        on.cluster.heal()
        end = await on.runner.converged(60.0)
        assert [(await on.cluster.offsets(n, GROUP)).written for n in ("n0", "n1")] == (
            [end.written] * 2
        )
        assert [(each.checker, each.text) for each in on.history.violations] == (
            [] if felt else [("NothingFails", f"n0 died: {describe(full)}")]
        )
        on.history.violations.clear()
        nursery.cancel_scope.cancel()


async def test_whoever_cannot_start_is_not_waited_for(autojump_clock: object) -> None:
    async with stage() as on:
        await on.cluster.kill("n1")
        inode = on.world.node("n1").disk.inode(f"/data/n1/groups/orders/commitlog/{0:020d}")
        inode.flip_bit(4, 0)  # not by the atlas
        await on.runner.converged(60.0)
        assert not on.cluster.runs("n1")
        inode.flip_bit(4, 0)
        on.history.violations.clear()


@pytest.mark.parametrize("at_s", [3.0, 6.0])
def test_a_node_on_a_slow_disk_has_the_time_to_remember_its_end(at_s: float) -> None:
    """Two syncs, of the file and of its name, of which each takes almost 4 s."""
    slow = f"at {at_s} slow_sync n1 for 15.0 extra 3.9"
    script = tuple(map(parse_fault, (slow, f"at {at_s + 0.2} stop n1 for 0.5")))
    plan = ClassicPlan.draw("a")
    plan = attrs.evolve(plan, nodes=2, settings=SLOW, skews_ms={}, script=script)
    assert run_plan(plan).violations == ()
