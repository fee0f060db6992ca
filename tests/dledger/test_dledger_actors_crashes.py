"""Parts of a member that fail: who is restarted with them, and what of the session goes on."""

from __future__ import annotations

import pytest
import trio
from group_kit import Group, opened

from actors.dledger.replication.append_messages import Committed
from actors.errors import OutcomeUnknown
from actors.events.dledger import DispatcherChanged, RoleChanged
from actors.runtime import ActorDown, AskTimeout
from actors.storage.ledger import store_messages

SYNC_S = 60.0
HELD_S = 10.0
"""Longer than most questions wait; the store's wait for a minute."""


async def appended(group: Group, leader: str, found: list[object], body: bytes) -> None:
    try:
        found.append(await group.append(leader, body, timeout_s=10.0))
    except (OutcomeUnknown, ActorDown) as error:
        found.append(error)


def sessions(group: Group, name: str) -> int:
    return len(group.events(RoleChanged, name))


async def test_a_dispatcher_crashes_alone(autojump_clock: object) -> None:
    """Neither another dispatcher nor an append notices, though one member is away besides."""
    async with opened() as group:
        leader = await group.leader()
        one, other = (name for name in group.names if name != leader)
        await group.append(leader, b"before")
        before, since = sessions(group, leader), len(group.seen)
        found: list[object] = []
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(appended, group, leader, found, b"%d" % number)
                if number == 10:
                    await group.crash(leader, group.paths(leader).dispatcher(one))
                await trio.sleep(0.01)
        path = group.paths(leader).dispatcher(one)
        await group.until(lambda: ("started", path) in group.lives(since))
        here = [each for each in group.lives(since) if each[1].startswith(f"/{leader}/")]
        assert here == [("crashed", path), ("started", path)], "its connection ends at the peer"
        assert all(isinstance(answer, Committed) for answer in found), found
        assert len(found) == 20
        assert sessions(group, leader) == before, "the session goes on"
        done = await group.append(leader, b"after")
        await group.until_shown(done.last_index)
        assert await group.entries(one) == await group.entries(other)
        states = [each.peer for each in group.events(DispatcherChanged, leader)]
        assert states.count(one) == 2 * states.count(other) - 1, "it compared again, and matched"


async def test_an_entry_handler_that_crashed_has_the_session_renewed(
    autojump_clock: object,
) -> None:
    async with opened() as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        await group.append(leader, b"before")
        before, since = sessions(group, follower), len(group.seen)
        paths = group.paths(follower)
        await group.crash(follower, paths.entry_handler)
        found: list[object] = []
        await appended(group, leader, found, b"meanwhile")
        assert isinstance(found[0], Committed)
        await group.until(lambda: sessions(group, follower) > before)
        role = group.role(follower)
        assert role is not None
        assert (role.role, role.leader) == ("FOLLOWER", leader)
        done = await group.append(leader, b"after")
        await group.until_shown(done.last_index)
        dispatchers = paths.entry_handler.replace("entry_handler", "dispatchers")
        others = [paths.dispatcher(name) for name in group.names if name != follower]
        assert group.lives(since) == [
            ("crashed", paths.entry_handler),
            *(("stopped", path) for path in reversed(others)),
            ("stopped", dispatchers),
            ("started", paths.entry_handler),
            *(("started", path) for path in others),
            ("started", dispatchers),
        ]
        assert await group.bodies(follower) == [b"before", b"meanwhile", b"after"]


async def test_a_checker_that_crashed_has_the_session_renewed(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        await group.append(leader, b"before")
        for name in group.names:
            if name != leader:
                group.world.network.cut_both(leader, name)
        found: list[object] = []
        before = sessions(group, leader)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(appended, group, leader, found, b"in doubt")
            await trio.sleep(0.5)
            await group.crash(leader, group.paths(leader).quorum_ack_checker)
        assert isinstance(found[0], OutcomeUnknown | ActorDown)
        group.world.network.heal_all()
        await group.until(lambda: sessions(group, leader) > before)
        role = group.role(leader)
        assert role is not None
        assert (role.role, role.term) == ("LEADER", 0), "the term goes on"
        done = await group.append(await group.leader(), b"after")
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [b"before", b"in doubt", b"after"]


async def test_an_entry_reader_that_crashed_serves_again(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        done = await group.append(leader, b"before")
        await group.until_shown(done.last_index)
        since = len(group.seen)
        await group.crash(leader, group.paths(leader).entry_reader)
        path = group.paths(leader).entry_reader
        await group.until(lambda: ("started", path) in group.lives(since))
        leader = await group.leader()
        done = await group.append(leader, b"after")
        await group.until_shown(done.last_index)
        assert await group.bodies(leader) == [b"before", b"after"]
        assert (await group.offsets(leader)).master == leader


async def test_a_maintainer_that_crashed_begins_as_a_candidate(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        await group.append(leader, b"before")
        last = group.events(RoleChanged, leader)[-1]
        await group.crash(leader, group.paths(leader).state_maintainer)
        await group.until(lambda: group.events(RoleChanged, leader)[-1] != last)
        anew = group.events(RoleChanged, leader)[-1]
        assert (anew.session, anew.role) == (last.session + 1, "CANDIDATE")
        done = await group.append(await group.leader(), b"after")
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [b"before", b"after"]


async def test_a_maintainer_waits_for_a_store_that_waits_for_a_sync(autojump_clock: object) -> None:
    """Its first question is held behind a removal, which is held behind the sync of what goes."""
    async with opened(durability="written") as group:
        old = await group.leader()
        await group.append(old, b"before")
        group.world.node(old).disk.faults.slow_syncs(SYNC_S, SYNC_S)
        for name in group.names:
            if name != old:
                group.world.network.cut_both(old, name)
        with pytest.raises(OutcomeUnknown):
            await group.append(old, b"of the old leader alone")
        await group.until(lambda: bool(group.leaders) and old not in group.leaders)
        done = await group.append(await group.leader(), b"instead")
        group.world.network.heal_all()
        await until_held(group, old)
        path, since = group.paths(old).state_maintainer, len(group.seen)
        await group.crash(old, path)
        await trio.sleep(HELD_S)
        assert [what for what, each in group.lives(since) if each == path] == ["crashed"]
        assert await is_held(group, old), "all the while"
        await group.until_shown(done.last_index)
        lives = [what for what, each in group.lives(since) if each == path]
        assert lives == ["crashed", "started"]
        assert await group.bodies(old) == [b"before", b"instead"]


async def is_held(group: Group, name: str) -> bool:
    """Whether the member's store has what is asked now wait behind a removal."""
    try:
        await group.ref(name, "store").ask(
            store_messages.MemberRecord,
            lambda reply_to: store_messages.GetMember(reply_to=reply_to),
            timeout_s=0.1,
        )
    except AskTimeout:
        return True
    return False


async def until_held(group: Group, name: str) -> None:
    with trio.fail_after(SYNC_S):
        while not await is_held(group, name):  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.1)


@pytest.mark.parametrize("part", ["store", "syncer"])
async def test_storage_that_fails_ends_the_node(autojump_clock: object, part: str) -> None:
    async with opened() as group:
        leader = await group.leader()
        await group.append(leader, b"before")
        await group.crash(leader, getattr(group.paths(leader), part))
        with trio.fail_after(20.0):
            await group.world.node(leader).wait_ended()
        assert group.world.node(leader).take_failure() is not None
        del group.systems[leader]
        second = await group.leader()
        done = await group.append(second, b"after")
        await group.until_shown(done.last_index)
        assert await group.bodies(second) == [b"before", b"after"]
