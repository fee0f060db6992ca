"""The course of a run with nodes in memory, in virtual time: reasons to stop, order, summary."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest
import trio
from cluster_samples import master, slave, slave_group
from cluster_world import CONFIG, NODES, MemoryRecord, World, feeding, make, started, three_nodes
from status_samples import said

from actors.cluster.links import Links
from actors.cluster.run import NOTE_SHOWN_S, START_WAIT_S, Feeding, lacking
from actors.cluster.summary import as_text
from actors.cluster.view import ClusterView, NodeView
from actors.config.model import DRAIN_STANDS_S
from actors.errors import ConfigError


@pytest.fixture
def world() -> World:
    return three_nodes()


async def test_runs_for_a_time(autojump_clock: trio.abc.Clock, world: World) -> None:
    views: list[ClusterView] = []
    run = make(world, for_s=30.0, look=views.append)
    summary = await run.run(world.open)
    assert summary.reason == "stopped by --for 30s"
    assert summary.seconds == pytest.approx(30, abs=1)
    assert world.log == ["end appends", "closing", "closed"]
    assert views[0].phase == "starting"
    assert views[-2].phase == "running"
    assert views[1].notes == ("0:00:00 opened",)
    [group] = summary.groups
    assert [member.own.written for member in group.members] == [70_000_000] * 3
    assert summary.failures == ()


async def test_each_node_is_reported_once(autojump_clock: trio.abc.Clock, world: World) -> None:
    ready: list[str] = []
    await make(world, for_s=30.0, on_ready=ready.append).run(world.open)
    assert sorted(ready) == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
async def test_signal_stops_in_order(
    autojump_clock: trio.abc.Clock, world: World, number: signal.Signals, reason: str
) -> None:
    run = make(world)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(5)
        signal.raise_signal(number)
    assert found[0].reason == reason
    assert world.log == ["end appends", "closing", "closed"]


async def test_second_signal_hurries(autojump_clock: trio.abc.Clock, world: World) -> None:
    world.nodes["n0"].group = master(slaves=[slave("n1", lag_bytes=5)])  # never catches up
    run = make(world)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep(1)
        assert found == []  # it drains
        signal.raise_signal(signal.SIGTERM)
    assert world.log == ["end appends", "hurry", "closing", "closed"]
    assert found[0].reason == "terminated"
    assert found[0].seconds < 3


async def test_an_ordered_stop_says_whom_it_waits_for(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n0"].group = master(slaves=[slave("n1", lag_bytes=5)])  # never catches up
    notes: list[str] = []
    run = make(world, on_note=notes.append)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep(0.9)
        assert notes == ["opened"]
        await trio.sleep(0.2)
        waits = "stopping: n1 lacks 5 bytes of orders; waits 9 s more at most"
        assert notes[1:] == [f"{waits}, a second signal ends it now"]
    assert found[0].seconds == pytest.approx(0.5 + DRAIN_STANDS_S, abs=0.1)
    assert len(notes) == 2


async def test_what_a_node_waits_for_is_said_where_it_is_asked_to_stop(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.closing_s, world.drains_for = 5.0, "a majority lacks 7 entries of ledger"
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        await started(nursery, make(world, say_wait=said.append), world)
        world.ended.set()
    waits = "stopping: a majority lacks 7 entries of ledger; waits 9 s more at most"
    assert said == [f"{waits}, a signal ends it now"]


@pytest.mark.parametrize("for_s", [1.0, None])
async def test_a_stop_that_is_short_or_that_nobody_waits_for_says_nothing(
    autojump_clock: trio.abc.Clock, world: World, for_s: float | None
) -> None:
    if for_s is not None:
        world.closing_s, world.drains_for = 5.0, "a majority lacks 7 entries of ledger"
    else:
        world.closing_s, world.drains_for = 0.9, "a majority lacks 7 entries of ledger"
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        await started(nursery, make(world, for_s=for_s, say_wait=said.append), world)
        if for_s is None:
            signal.raise_signal(signal.SIGTERM)
    assert said == []


async def test_signal_while_nodes_start(autojump_clock: trio.abc.Clock, world: World) -> None:
    world.opening_s = 1000.0
    run = make(world)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        signal.raise_signal(signal.SIGINT)
    assert found[0].reason == "interrupted"
    assert found[0].seconds < 1
    assert world.log == ["closed"]
    assert found[0].groups[0].unanswered == found[0].starting == NODES
    (line,) = as_text(found[0]).split("\n")  # it was one more for each: "did not answer"
    assert re.fullmatch(
        r"\S+: interrupted during the start, after \d\.\d s: not up yet: n0, n1, n2", line
    )


async def test_signal_while_one_is_not_up_yet(autojump_clock: trio.abc.Clock, world: World) -> None:
    world.nodes["n2"].up = False
    async with trio.open_nursery() as nursery:
        found = await started(nursery, make(world), world)
        signal.raise_signal(signal.SIGINT)
    first, *others = as_text(found[0]).split("\n")
    assert first.endswith(" s: not up yet: n2")
    assert any(line.startswith("    n1 slave: ") for line in others)
    assert not any("did not answer" in line for line in others)


async def test_a_node_that_came_up_a_moment_ago_is_seen_by_the_stop(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n0"].up = False  # the master
    async with trio.open_nursery() as nursery:
        found = await started(nursery, make(world), world)
        world.nodes["n0"].up = True
        signal.raise_signal(signal.SIGTERM)
    assert found[0].starting == ()
    first, *others = as_text(found[0]).split("\n")
    assert re.fullmatch(r"\S+: terminated after \d\.\d s", first)
    assert any(line.startswith("    n0 master: ") for line in others)


async def test_a_node_that_obeys_the_same_signal_stays_the_leader_that_was_known(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    """It was called a master that does not answer, where the stop asked it too late."""
    run = make(world)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(5.2)  # between two looks
        signal.raise_signal(signal.SIGTERM)
        for node in world.nodes.values():
            node.up = False
    [group] = found[0].groups
    assert (group.leader, group.gone) == ("n0", "")
    assert not any(member.gone for member in group.members)
    assert "does not answer" not in as_text(found[0])


async def test_a_node_that_fails_as_all_stop_is_no_leader(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    run = make(world)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(5.2)  # between two looks
        signal.raise_signal(signal.SIGTERM)
        world.lose("n0", "killed by SIGKILL")
    [group] = found[0].groups
    assert group.gone == "n0"


async def test_who_is_silent_long_after_the_start_does_not_start(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n2"].up = False
    async with trio.open_nursery() as nursery:
        found = await started(nursery, make(world), world)
        await trio.sleep(START_WAIT_S)
        signal.raise_signal(signal.SIGINT)
    assert found[0].starting == ()
    assert "    n2: did not answer" in as_text(found[0]).split("\n")


async def test_node_that_is_asked_to_stop_stops_all(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    run = make(world)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        world.ended.set()
    assert found[0].reason == "n1 was asked to stop"


async def test_failure_of_a_node_is_in_the_summary(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.fails_at_s = 5.0
    summary = await make(world).run(world.open)
    assert summary.failures == ("triolog: damage",)
    assert summary.reason == "failed"
    assert summary.groups[0].members[0].own.written == 70_000_000  # the last that was known


async def test_mistake_of_the_user_is_raised(autojump_clock: trio.abc.Clock, world: World) -> None:
    world.fails_at_s, world.error = 5.0, ConfigError("f: key x")
    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True):
        await make(world).run(world.open)


async def test_a_note_has_its_time_and_leaves(autojump_clock: trio.abc.Clock, world: World) -> None:
    run = make(world)
    async with trio.open_nursery() as nursery:
        await started(nursery, run, world)
        await trio.sleep(71.6)
        run.note("n1: was killed")
        assert run.view().notes == ("0:01:12 n1: was killed",)
        await trio.sleep(NOTE_SHOWN_S - 1)
        assert run.view().notes == ("0:01:12 n1: was killed",)
        await trio.sleep(2)
        assert run.view().notes == ()
        run.stop("enough")


async def test_drain_is_bounded(autojump_clock: trio.abc.Clock, world: World) -> None:
    """Also for a slave that takes a little again and again, and never has all."""
    run = make(world, for_s=1.0)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        for lag in range(100, 50, -1):
            world.nodes["n0"].group = master(slaves=[slave("n1", lag_bytes=lag)])
            await trio.sleep(1)
    assert found[0].seconds == pytest.approx(1 + CONFIG.drain_timeout_s, abs=0.5)


async def test_a_slave_that_takes_nothing_is_not_waited_for_long(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n0"].group = master(slaves=[slave("n1", lag_bytes=5)])
    summary = await make(world, for_s=1.0).run(world.open)
    assert summary.seconds == pytest.approx(1 + DRAIN_STANDS_S, abs=0.5)


async def test_drain_waits_for_connected_slaves(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    away = slave("n2", ack_bytes=None, lag_bytes=None)
    world.nodes["n0"].group = master(slaves=[slave("n1", lag_bytes=5), away])
    run = make(world, for_s=1.0)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(2.5)
        world.nodes["n0"].group = master(slaves=[slave("n1", lag_bytes=3), away])
        await trio.sleep(2.5)
        world.nodes["n0"].group = master(slaves=[slave("n1"), away])
    assert found[0].seconds == pytest.approx(5.5, abs=0.5)


async def test_fed_to_the_end(autojump_clock: trio.abc.Clock, world: World) -> None:
    record = MemoryRecord()
    run = make(world, feeding=feeding(world, 3, record), ends_with_feed=True)
    summary = await run.run(world.open)
    assert summary.reason == "the feed has ended"
    assert world.nodes["n0"].appended == [b"a", b"b"] * 3
    group = summary.groups[0]
    assert (group.appended, group.acknowledged, group.size_bytes) == (6, 6, 6)
    assert group.seconds == pytest.approx(0.3, abs=0.1)
    assert record.ended
    assert record.noted == 6


async def test_endless_feed_is_stopped_with_its_answers(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    record = MemoryRecord()
    run = make(world, feeding=feeding(world, None, record), for_s=10.0)
    summary = await run.run(world.open)
    group = summary.groups[0]
    assert group.appended == group.acknowledged == len(world.nodes["n0"].appended) > 100
    assert record.noted == group.acknowledged
    assert not record.ended


async def test_answers_are_waited_for_only_so_long(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    world.nodes["n0"].answers = False
    run = make(world, feeding=feeding(world, 1, MemoryRecord()), for_s=1.0)
    summary = await run.run(world.open)
    assert summary.seconds == pytest.approx(1 + 3 + 2, abs=1)
    assert (summary.groups[0].appended, summary.groups[0].acknowledged) == (2, 0)


async def test_feed_waits_for_its_master(autojump_clock: trio.abc.Clock, world: World) -> None:
    world.nodes["n0"].up = False
    run = make(world, feeding=feeding(world, 1, MemoryRecord()), ends_with_feed=True)
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        await trio.sleep(20)
        assert found == []
        world.nodes["n0"].up = True
    assert found[0].groups[0].acknowledged == 2


async def test_feed_whose_master_never_came_is_not_opened(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    def refuse() -> Any:
        raise AssertionError("opened")

    world.nodes["n0"].up = False
    run = make(world, feeding=Feeding(("n0",), refuse))
    async with trio.open_nursery() as nursery:
        found = await started(nursery, run, world)
        run.stop("enough")
    assert (found[0].reason, found[0].failures) == ("enough", ())
    assert found[0].seconds < 1


async def test_feed_that_fails_stops_in_order(autojump_clock: trio.abc.Clock, world: World) -> None:
    def fail() -> Any:
        raise OSError(28, "No space left on device")

    run = make(world, feeding=Feeding(("n0",), fail))
    summary = await run.run(world.open)
    assert summary.reason == "the feed failed"
    assert summary.failures == ("triolog: OSError: [Errno 28] No space left on device",)
    assert world.log == ["end appends", "closing", "closed"]


async def test_feed_that_is_a_mistake_is_raised(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    def fail() -> Any:
        raise ConfigError("feed record in use")

    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True):
        await make(world, feeding=Feeding(("n0",), fail)).run(world.open)
    assert world.log[-1] == "closed"


async def test_node_that_goes_and_comes_back(autojump_clock: trio.abc.Clock, world: World) -> None:
    run = make(world)
    async with trio.open_nursery() as nursery:
        await started(nursery, run, world)
        world.nodes["n2"].up = False
        world.again = 4
        await trio.sleep(2)
        [*_, n2] = run.view().nodes
        assert (n2.state, n2.process_restarts) == ("away", 4)
        assert n2.detail in ("it has gone", "n2 does not listen")
        assert n2.groups["orders"].written == 70_000_000  # its last word stays
        world.nodes["n2"].up = True
        await trio.sleep(2)
        assert run.view().nodes[2].state == "running"
        run.stop("enough")


async def test_node_that_does_not_answer_is_away(
    autojump_clock: trio.abc.Clock, world: World
) -> None:
    run = make(world)
    async with trio.open_nursery() as nursery:
        await started(nursery, run, world)
        world.nodes["n1"].status_s = 100.0
        await trio.sleep(10)
        assert run.view().nodes[1].state == "away"
        run.stop("enough")


async def test_last_look_is_not_an_old_answer(autojump_clock: trio.abc.Clock, world: World) -> None:
    node = world.nodes["n1"]
    links = Links(names=("n1",), connect=world.connect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(links.run)
        await links.wait_for(["n1"])
        node.status_s = 1.0
        await trio.sleep(0.8)  # an answer with the old group is under way
        node.group = slave_group(written_bytes=1)
        await links.look_again(5.0)
        assert links.views()[0].groups["orders"].written == 1
        nursery.cancel_scope.cancel()


def views(*, state: str = "running", own: NodeView | None = None, **changes: Any) -> Any:
    """n0 with one slave n1, as both say."""
    found = {"orders": said(master(slaves=[slave("n1", **changes)]))}
    first = NodeView(node="n0", state=state, groups=found, tree=None)
    return (first, own) if own is not None else (first,)


def own_view(state: str = "running", **changes: Any) -> NodeView:
    found = {"orders": said(slave_group(**changes))}
    return NodeView(node="n1", state=state, groups=found, tree=None)


GROUPS = {"orders": ("n0", "n1")}


@pytest.mark.parametrize(
    ("seen", "done"),
    [
        ((), True),
        (views(), True),
        (views(lag_bytes=1), False),
        (views(state="stopping", lag_bytes=1), False),
        (views(state="away", lag_bytes=1), True),
        (views(lag_bytes=1, ack_bytes=None), True),  # another machine's, not connected
        (views(own=own_view()), True),
        (views(own=own_view(written_bytes=69_999_999)), False),
        (views(own=own_view(written_bytes=0, client={"diverged": True})), True),
        (views(own=own_view("away")), False),
        (views(own=own_view("starting")), False),
        (views(own=NodeView(node="n1", state="starting", groups={}, tree=None)), False),
    ],
)
def test_caught_up(seen: tuple[NodeView, ...], done: bool) -> None:
    assert (not lacking(seen, GROUPS, lambda node: True)) is done


def test_caught_up_without_nodes_that_have_gone_for_good() -> None:
    seen = views(own=own_view("away", written_bytes=0))
    assert not lacking(seen, GROUPS, lambda node: node != "n1")
    assert not lacking(views(lag_bytes=1), {}, lambda node: True)
