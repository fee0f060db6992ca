"""A member that the others' cluster file does not name: both sides say so, once, and the status."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from group_kit import opened, run_member
from rpc_kit import ADDRESSES, STRANGER, Client, answer_frame, calling, serving

from actors.dledger.leader_status import LATELY_S, NON_MEMBERS_MAX, NonMembers
from actors.dledger.rpc.peer import UNHEARD_REPORTED
from actors.dledger.rpc.peer_messages import GetLink, Link
from wire.dledger.rpc import HeartBeatResponse

TURNED_AWAY = f"ends each connection at once: its cluster file may not name {ADDRESSES['n1']}"


def test_a_stranger_is_news_until_it_stays_away() -> None:
    found = NonMembers()
    assert found.came("10.0.0.9", 1.0)
    assert not found.came("10.0.0.9", 1.0 + LATELY_S), "it comes again and again"
    assert found.lately(LATELY_S) == ("10.0.0.9",)
    assert found.lately(2.0 + 2 * LATELY_S) == ()
    assert found.came("10.0.0.9", 2.0 + 2 * LATELY_S)


def test_a_crowd_of_strangers_is_bounded() -> None:
    found = NonMembers()
    news = [found.came(f"10.0.1.{number}", 1.0) for number in range(99)]
    assert sum(news) == NON_MEMBERS_MAX
    assert len(found.lately(1.0)) == NON_MEMBERS_MAX
    assert found.came("10.0.2.1", 2.0 + LATELY_S), "there is room again"


async def test_the_server_says_once_whom_it_turns_away(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(members=(("g", "n0"), ("h", "n0"))) as kit:
        for _ in range(5):
            assert await kit.turned_away("stranger")
        assert kit.role_status.non_members.lately(trio.current_time()) == (STRANGER,)
    assert caplog.messages == [
        f"{group}: n0 turned away {STRANGER}: the cluster file names no member at that address"
        for group in ("g", "h")
    ]
    assert {(each.name, each.levelno) for each in caplog.records} == {
        ("triolog.dledger", logging.WARNING)
    }


async def test_a_peer_that_ends_each_connection_without_a_word(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Not after the first: that may have been a peer that stops."""
    async with calling(warns="g") as kit:
        listener = await kit.listen()

        async def turn_away() -> str:
            """One more call, whose connection ends at once; what the link says of it."""
            count = len(kit.received)
            await trio.sleep(2)
            await kit.call("x")
            Client.of(await listener.accept()).stream.abort()
            await kit.answers(count + 1)
            link = await kit.system.ref("/n1/peer").ask(
                Link, lambda reply: GetLink(reply_to=reply), timeout_s=1.0
            )
            return link.error

        for _ in range(UNHEARD_REPORTED - 1):
            assert "reset" in await turn_away()
        for _ in range(3):
            assert await turn_away() == TURNED_AWAY
        assert caplog.messages == [f"g: n0 {TURNED_AWAY}"]
        await trio.sleep(2)
        count = len(kit.received)
        await kit.call("x")
        client = Client.of(await listener.accept())
        number, _ = await client.next_request()
        await client.put(answer_frame(number, HeartBeatResponse(code=200)))
        await kit.answers(count + 1)
        client.stream.abort()
        await trio.sleep(2)
        for _ in range(UNHEARD_REPORTED):
            await turn_away()
    assert caplog.messages == [f"g: n0 {TURNED_AWAY}"] * 2, "news again, as it was over"


async def test_both_sides_say_that_a_member_is_not_named(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(started=False) as group:
        whole = group.config
        own = attrs.evolve(whole.ledger_groups_of("n0")[0], members=("n0", "n1"))
        nodes = {name: whole.nodes[name] for name in own.members}
        pair = attrs.evolve(whole, nodes=nodes, groups={"ledger": own})
        for name in own.members:
            main: Any = partial(run_member, pair, name)
            group.systems[name] = await group.world.start_node(name, main)
        await group.leader()
        await group.start("n2")
        await trio.sleep(60)
    away = whole.nodes["n2"]
    there = [
        f"ledger: {name} turned away {away}: the cluster file names no member at that address"
        for name in own.members
    ]
    here = [
        f"ledger: {name} ends each connection at once: its cluster file may not name {away}"
        for name in own.members
    ]
    warnings = [each for each in caplog.messages if "found no leader" not in each]
    assert sorted(warnings) == sorted(there + here), "once in a minute each"
