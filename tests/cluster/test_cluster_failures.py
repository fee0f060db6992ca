"""What a run takes for a failure although its nodes run: refused slaves, lines not acknowledged."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from cluster_samples import master, slave
from cluster_world import CONFIG, MemoryRecord, World, feeding, make, started, three_nodes

from actors.cluster.explain import EXIT_DAMAGED, EXIT_FAILED
from actors.cluster.run import START_WAIT_S
from actors.errors import CorruptLog, StorageError


@pytest.fixture
def world() -> World:
    return three_nodes()


AHEAD = "the slave reported an offset above the master's end"


async def test_slave_that_is_refused_is_a_failure_and_reported_at_once(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    row = slave("n1", ack_bytes=None, lag_bytes=None, last_error=AHEAD)
    world.nodes["n0"].group = master(slaves=[row, slave("n2")])
    notes: list[str] = []
    summary = await make(world, for_s=20.0, on_note=notes.append).run(world.open)
    line = f"orders: slave n1 is refused: {AHEAD}"
    assert notes.count(line) == 1
    assert summary.failures == (f"triolog: {line}",)
    assert summary.groups[0].findings["refused"] == {"n1": AHEAD}


async def test_a_master_that_waits_for_an_operator_is_reported_once(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    reason = "n2 fell silent: `promote orders` ends it"
    world.nodes["n0"].group = master(part="fenced", fence="ABANDONED", reason=reason)
    notes: list[str] = []
    summary = await make(world, for_s=20.0, on_note=notes.append).run(world.open)
    assert notes.count(f"orders: n0 takes no appends: {reason}") == 1
    assert summary.groups[0].findings["fenced"] == {"n0": reason}


async def test_slave_that_was_let_in_is_no_failure(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    row = slave("n1", ack_bytes=None, lag_bytes=None, last_error=AHEAD)
    world.nodes["n0"].group = master(slaves=[row, slave("n2")])
    run = make(world, for_s=20.0)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        world.nodes["n0"].group = master(slaves=[slave("n1", last_error=AHEAD), slave("n2")])
    assert found[0].failures == ()
    assert len([note for note in run.view().notes if "refused" in note]) == 1


async def test_a_node_of_a_larger_run_leaves_the_judgement_to_it(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    row = slave("n1", ack_bytes=None, lag_bytes=None, last_error=AHEAD)
    world.nodes["n0"].group = master(slaves=[row, slave("n2")])
    summary = await make(world, for_s=2.0, judges=False).run(world.open)
    assert summary.failures == ()


@pytest.mark.parametrize("resumes", [True, False])
async def test_lines_sent_and_not_acknowledged_are_a_failure(
    autojump_clock: trio.abc.Clock, world: World, resumes: bool
) -> None:
    world.nodes["n0"].answers = False
    fed = feeding(world, 1, MemoryRecord())
    run = make(world, feeding=fed, for_s=1.0, ends_with_feed=True, feed_resumes=resumes)
    summary = await run.run(world.open)
    assert summary.reason == "stopped by --for 1s"
    assert summary.failures == ("triolog: orders: 2 of 2 records sent not acknowledged",)


async def test_lines_of_the_example_are_no_failure(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n0"].answers = False
    run = make(world, feeding=feeding(world, 1, MemoryRecord()), for_s=1.0)
    summary = await run.run(world.open)
    assert summary.failures == ()


@pytest.mark.parametrize("resumes", [True, False])
async def test_lines_read_and_not_sent_are_lost_unless_they_are_read_again(
    autojump_clock: trio.abc.Clock, world: World, resumes: bool
) -> None:
    fed = feeding(world, None, MemoryRecord(), rate_per_s=1)
    run = make(world, feeding=fed, for_s=3.5, ends_with_feed=True, feed_resumes=resumes)
    summary = await run.run(world.open)
    lost = ("triolog: orders: lines were read from the feed and not sent",)
    assert summary.failures == (() if resumes else lost)


async def test_a_signal_may_cut_a_feed_off(autojump_clock: trio.abc.Clock, world: World) -> None:
    fed = feeding(world, None, MemoryRecord(), rate_per_s=1)
    run = make(world, feeding=fed, ends_with_feed=True, feed_resumes=False)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(3)
        signal.raise_signal(signal.SIGINT)
    assert (found[0].reason, found[0].failures) == ("interrupted", ())


async def test_node_that_cannot_start_ends_the_run(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n1"].up = False
    notes: list[str] = []
    run = make(world, on_note=notes.append)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(100)
        assert found == []
        world.lose("n1", "its log is damaged")
    assert found[0].reason == "n1 could not start"
    assert found[0].failures == ("triolog: n1: its log is damaged",)
    assert notes == ["opened"]  # said once


async def test_the_others_go_on_without_a_node_that_ran(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    run = make(world, for_s=20.0)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        world.lose("n1", "its log is damaged")
        await trio.sleep(1)
        assert run.view().notes[-1] == "0:00:00 n1: its log is damaged, not started again"
    assert found[0].reason == "stopped by --for 20s"
    assert found[0].failures == ("triolog: n1: its log is damaged",)


async def test_time_ends_a_run_whose_node_never_answers(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n1"].up = False
    summary = await make(world, for_s=2.0).run(world.open)
    assert summary.reason == "stopped by --for 2s"
    assert summary.failures == ("triolog: n1: never answered",)
    most_s = START_WAIT_S + 2 + CONFIG.drain_timeout_s
    assert summary.seconds == pytest.approx(most_s, abs=1)


async def test_damage_is_distinguished(autojump_clock: trio.abc.Clock, world: World) -> None:
    """At the start and later: a restart would not find again what a read met."""
    world.fails_at_s = 5.0
    assert (await make(world).run(world.open)).child_code == EXIT_DAMAGED
    world.error = StorageError("a write failed")
    assert (await make(world).run(world.open)).child_code == EXIT_FAILED

    @asynccontextmanager
    async def refuse(note: Callable[[str], None]) -> AsyncIterator[World]:
        await trio.lowlevel.checkpoint()
        raise CorruptLog("damage")
        yield world

    summary = await make(world).run(refuse)
    assert (summary.child_code, summary.failures) == (EXIT_DAMAGED, ("triolog: damage",))
