"""Parts that fail beside a state machine: it stays what it is, and goes on applying."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group_kit import Group, opened
from machine_kit import SNAPSHOTS, Shelf, appended, grown, other

CRASHES = 4  # one more than a supervisor takes within its period


def crashing(group: Group, name: str, what: str) -> tuple[list[str], str]:
    """Paths whose actors are to fail, and the one that its group starts anew for that."""
    paths = group.paths(name)
    peer = next(each for each in group.names if each != name)
    match what:
        case "rpc_peers":
            return [paths.peer(peer)] * CRASHES, f"{paths.base}/rpc_peers"
        case "entry_pusher":
            return [paths.quorum_ack_checker] * CRASHES, f"{paths.base}/entry_pusher"
        case "dispatchers":
            return [paths.dispatcher(peer)] * CRASHES, paths.entry_handler.replace(
                "entry_handler", "dispatchers"
            )
        case _:
            path: str = getattr(paths, what)
            return [path], path


async def crash_all(group: Group, name: str, what: str) -> None:
    """Have them fail, each once it runs again, and wait until what they are part of does."""
    paths, anew = crashing(group, name, what)
    since = len(group.seen)
    for number, path in enumerate(paths, 1):
        ref = group.systems[name].ref(path)
        await group.until(lambda ref=ref: ref.alive)
        await group.crash(name, path)
        await group.until(
            lambda path=path, number=number: group.lives(since).count(("crashed", path)) == number
        )
    await group.until(lambda: ("started", anew) in group.lives(since))


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize(
    "what",
    [
        *["rpc_peers", "entry_pusher", "dispatchers"],
        *["quorum_ack_checker", "entry_handler", "entry_reader", "state_maintainer"],
    ],
)
async def test_no_crash_of_another_part_stops_the_machine(
    autojump_clock: Any, what: str, leads: bool
) -> None:
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        bodies = await appended(group, leader, 0, 20)
        name = leader if leads else other(group, leader)
        book, since = shelf.books[name], len(group.seen)
        await crash_all(group, name, what)
        leader = await group.leader()
        done = await group.append(leader, b"after")
        assert done.results == (len(bodies) + 1,)
        await group.until(shelf.all_have(group, [*bodies, "after"]))
        assert shelf.books[name] is book
        path = group.paths(name).state_machine_caller
        assert path not in [each for _, each in group.lives(since)]


async def test_a_machine_hears_who_leads_after_each_crash(autojump_clock: Any) -> None:
    """Whoever leads learned so for the present term, and nobody else believes it."""
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        for what in ("entry_reader", "entry_pusher", "rpc_peers"):
            name = await group.leader()
            await crash_all(group, name, what)
            leader = await group.leader()
            await appended(group, leader, 0, 1)
            await trio.sleep(5.0)
            role = group.role(leader)
            assert role is not None
            assert role.role == "LEADER"
            for each, book in shelf.books.items():
                last = book.roles[-1] if book.roles else ("stopped", -1)
                assert (last == ("started", role.term)) == (each == leader), (what, book.roles)
                assert last[0] == ("started" if each == leader else "stopped")


async def test_snapshots_go_on_after_a_crash_of_the_pusher(autojump_clock: Any) -> None:
    """Its own, and those for a member that lacks what is gone."""
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        away = other(group, leader)
        await group.kill(away)
        bodies = await grown(group, shelf, leader)
        await crash_all(group, leader, "entry_pusher")
        leader = await group.leader()
        await group.append(leader, b"after")
        await group.start(away)
        await group.until(shelf.all_have(group, [*bodies, "after"]))
        assert shelf.books[away].loads == 1
