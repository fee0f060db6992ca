"""`stop`: the leader of a group goes first, so that it can still send others what they lack; who
starts, stops or hangs is not said to be no longer there."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from cluster_samples import master, slave_group
from cluster_world import CONFIG, NODES, Node, three_nodes
from ledger_samples import follower, leader

from actors.cluster import commands


def nobody(node: str) -> None:
    """No process has any data open."""


@pytest.mark.parametrize(
    ("leads", "follows"),
    [(master(promotion=1), slave_group(promotion=1)), (leader(leader="n2"), follower(leader="n2"))],
    ids=["classic", "dledger"],
)
async def test_whoever_leads_stops_first(
    leads: dict[str, Any], follows: dict[str, Any], autojump_clock: trio.abc.Clock
) -> None:
    world = three_nodes()
    stopped: list[str] = []

    @attrs.define
    class Noted(Node):
        async def stop(self) -> None:
            stopped.append(self.name)
            await super().stop()

    world.nodes["n0"] = Noted("n0", follows)
    world.nodes["n1"] = Noted("n1", follows)
    world.nodes["n2"] = Noted("n2", leads)
    answer = await commands.stop(CONFIG, NODES, world.connect, nobody)  # type: ignore[arg-type]
    assert answer == commands.Answer("n2: stopped\nn0: stopped\nn1: stopped", 0)
    assert stopped == ["n2", "n0", "n1"]


async def test_a_node_that_does_not_run_is_said(autojump_clock: trio.abc.Clock) -> None:
    world = three_nodes()
    world.nodes["n0"].up = False
    answer = await commands.stop(CONFIG, NODES, world.connect, nobody)  # type: ignore[arg-type]
    assert answer == commands.Answer("n0: was not running\nn1: stopped\nn2: stopped", 0)


async def test_a_node_that_starts_is_waited_for(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    world = three_nodes()
    starting = world.nodes["n0"]
    starting.up = False

    @nursery.start_soon
    async def serve() -> None:
        await trio.sleep(CONFIG.answer_timeout_s / 2)
        starting.up = True

    def holder(node: str) -> int | None:
        starts = node == "n0" and not (starting.up or starting.asked)
        return 7 if starts else None

    answer = await commands.stop(CONFIG, NODES, world.connect, holder)  # type: ignore[arg-type]
    assert answer == commands.Answer("n0: stopped\nn1: stopped\nn2: stopped", 0)
    assert not starting.up


async def test_a_node_that_hangs_is_not_said_to_have_stopped(
    autojump_clock: trio.abc.Clock,
) -> None:
    world = three_nodes()
    world.nodes["n0"].up = False
    held = {"n0": 7}
    answer = await commands.stop(CONFIG, NODES, world.connect, held.get)  # type: ignore[arg-type]
    hangs = "n0: not stopped: process 7 has its data, but no answer"
    assert answer == commands.Answer(f"{hangs}\nn1: stopped\nn2: stopped", 1)
    answer = await commands.stop(CONFIG, ("n0",), world.connect, held.get)  # type: ignore[arg-type]
    assert answer == commands.Answer(hangs, 1)
    answer = await commands.status(
        CONFIG,
        ("n0",),
        world.connect,  # type: ignore[arg-type]
        held.get,
        as_json=False,
    )
    assert answer.text.split("\n")[2].startswith("  n0: no answer, but process 7 has its data (")
    assert answer.exit_code == 1


@pytest.mark.parametrize("hanging", [("n0",), ("n0", "n1"), ("n0", "n1", "n2")])
async def test_nodes_that_hang_are_waited_for_once(
    autojump_clock: trio.abc.Clock, hanging: tuple[str, ...]
) -> None:
    world = three_nodes()
    for name in hanging:
        world.nodes[name].status_s = math.inf
    held = dict.fromkeys(hanging, 7)
    begun_s = trio.current_time()
    answer = await commands.stop(CONFIG, NODES, world.connect, held.get)  # type: ignore[arg-type]
    all_hang = len(hanging) == len(NODES)
    most_s = CONFIG.answer_timeout_s if all_hang else commands.REST_S
    assert trio.current_time() - begun_s == pytest.approx(most_s)
    assert answer.text.count("not stopped: process 7 has its data, but no answer") == len(hanging)
    assert answer.text.count(": stopped") == len(NODES) - len(hanging)
    assert answer.exit_code == 1


async def test_status_waits_little_for_one_that_hangs(autojump_clock: trio.abc.Clock) -> None:
    world = three_nodes()

    world.nodes["n0"].status_s = math.inf
    asked = partial(
        commands.status,
        CONFIG,
        connect=world.connect,  # type: ignore[arg-type]
        holder={"n0": 7}.get,
        as_json=False,
    )
    begun_s = trio.current_time()
    answer = await asked(NODES)
    assert trio.current_time() - begun_s == pytest.approx(commands.REST_S)
    lines = answer.text.split("\n")
    assert lines[1] == "orders: no master, appends fail: n0 does not answer; `promote orders`"
    assert lines[2] == "  n0: no answer, but process 7 has its data (silent for 2.0 s)"
    assert lines[3].startswith("  n1: running")
    assert answer.exit_code == 1
    begun_s = trio.current_time()
    answer = await asked(("n0",))  # nobody says that all is well but it
    assert trio.current_time() - begun_s == pytest.approx(CONFIG.answer_timeout_s)
    assert answer.exit_code == 1


async def test_a_node_has_stopped_once_its_data_is_free(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    world = three_nodes()
    held = dict.fromkeys(NODES, 7)

    @attrs.define
    class Slow(Node):
        async def stop(self) -> None:
            await super().stop()
            nursery.start_soon(self._end)

        async def _end(self) -> None:
            await trio.sleep(5)
            del held[self.name]

    for name, node in world.nodes.items():
        world.nodes[name] = Slow(name, node.group)
    answer = await commands.stop(CONFIG, NODES, world.connect, held.get)  # type: ignore[arg-type]
    assert answer == commands.Answer("n0: stopped\nn1: stopped\nn2: stopped", 0)
    assert held == {}


async def test_a_stop_names_what_a_node_waited_for(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    world = three_nodes()
    waits = "n2 lacks 21940 bytes of orders"

    @attrs.define
    class Waits(Node):
        async def stop(self) -> None:
            self.waits_for = waits
            nursery.start_soon(self._end)

        async def _end(self) -> None:
            await trio.sleep(3)
            self.up = False

    world.nodes["n0"] = Waits("n0", world.nodes["n0"].group)
    answer = await commands.stop(CONFIG, NODES, world.connect, nobody)  # type: ignore[arg-type]
    first = f"n0: stopped; it waited 3 s, at last as {waits}"
    assert answer == commands.Answer(f"{first}\nn1: stopped\nn2: stopped", 0)


async def test_a_node_without_a_place_is_asked_again(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    """It was "not running" on another machine, and said to have stopped."""
    world = three_nodes()
    full = world.nodes["n1"]
    full.slots = False
    ask = partial(commands.status, CONFIG, connect=world.connect, holder=nobody, as_json=False)
    answer = await ask(NODES)  # type: ignore[arg-type]
    taken = "n1: all 64 client slots are taken"
    assert f"  n1: runs, but cannot be asked ({taken})" in answer.text.split("\n")
    assert answer.exit_code == 1
    answer = await commands.stop(CONFIG, ("n1",), world.connect, nobody)  # type: ignore[arg-type]
    assert answer == commands.Answer(f"n1: not stopped: {taken}", 1)

    @nursery.start_soon
    async def leave() -> None:
        await trio.sleep(CONFIG.answer_timeout_s / 2)
        full.slots = True

    answer = await commands.stop(CONFIG, ("n1",), world.connect, nobody)  # type: ignore[arg-type]
    assert answer == commands.Answer("n1: stopped", 0)
    assert not full.up


async def test_a_group_that_takes_no_appends_is_an_exit_code(
    autojump_clock: trio.abc.Clock,
) -> None:
    world = three_nodes()
    ask = partial(commands.status, CONFIG, NODES, world.connect, nobody)  # type: ignore[arg-type]
    assert (await ask(as_json=True)).exit_code == 0
    world.nodes["n0"].group = master(part="fenced", reason="n1 has more")
    answer = await ask(as_json=False)
    assert "takes no appends" in answer.text.split("\n")[1]
    assert answer.exit_code == (await ask(as_json=True)).exit_code == 1
