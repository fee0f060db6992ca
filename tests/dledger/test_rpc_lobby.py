"""A storm of junk from a member's own address: its cost is bounded, and the member gets in."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
from rpc_kit import frame_of, request, serving

from actors.env.protocols import Address, Stream
from actors.events.remoting import RPCConnectionOpened, RPCConnectionRefused
from actors.remoting.lobby import (
    CROWDED,
    FIRST_BYTES,
    FIRST_WORD_S,
    FREE_BURST,
    FREE_PER_S,
    MADE_WAY,
    NO_REQUEST,
    WAITING_MAX,
    Lobby,
)
from actors.remoting.server import RPCServer
from actors.runtime.accepting import UNOWNED_MAX, Admitted
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import AppendEntryRequest

STORM = 500
"""Connections each second."""


async def storm(kit: Any, count: int, junk: bytes) -> list[Any]:
    """So many connections, one after the other, that send this and stay."""
    clients = []
    for _ in range(count):
        client = await kit.connect("n1")
        if junk:
            await client.put(junk)
        clients.append(client)
        await trio.sleep(1 / STORM)
    return clients


async def ask(kit: Any) -> None:
    client = await kit.connect("n1")
    await client.ask(request(term=7))
    assert (await client.answer_of(RequestCode.METADATA))[1].term == 7
    client.stream.abort()


@pytest.mark.parametrize("junk", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\1\0\0\0\0\xff{"])
async def test_junk_becomes_no_connection_and_a_member_does(
    junk: bytes, autojump_clock: object
) -> None:
    async with serving() as kit:
        begun_s = trio.current_time()
        await storm(kit, 1000, junk)
        await ask(kit)  # which is not let in before it has spoken
        seconds = trio.current_time() - begun_s
        opened = len(kit.seen(RPCConnectionOpened))
        assert opened <= FREE_BURST + FREE_PER_S * seconds + 1
        assert opened > FREE_BURST, "the next ones after a while need not speak either"
        await trio.sleep(FIRST_WORD_S + 1)
        reported = {each.reason: each.count for each in kit.seen(RPCConnectionRefused)}
        assert set(reported) <= {MADE_WAY, NO_REQUEST}
        assert reported, "they are counted"
        assert len(kit.seen(RPCConnectionRefused)) < 30, "a storm is not one of events"


async def test_of_the_silent_ones_the_oldest_makes_way(autojump_clock: object) -> None:
    async with serving() as kit:
        await storm(kit, FREE_BURST + 200, b"")
        *others, last = await storm(kit, 2 * WAITING_MAX, b"")
        ended = 0
        for client in others[:20]:  # of which one or two needed not wait
            with trio.move_on_after(0.05):
                ended += await client.ended()
        assert ended > 10
        reported = [each.reason for each in kit.seen(RPCConnectionRefused)]
        assert set(reported) == {MADE_WAY}
        with trio.fail_after(1):
            await ask(kit)
        await last.ask(request(term=9))
        assert (await last.answer_of(RequestCode.METADATA))[1].term == 9


@pytest.mark.parametrize("size", [10, FIRST_BYTES * 4])
async def test_what_was_said_first_is_heard(size: int, autojump_clock: object) -> None:
    """In many pieces, and before all of a large request is there."""
    async with serving() as kit:
        await storm(kit, FREE_BURST + 100, b"")
        client = await kit.connect("n1")
        frame = frame_of(request(AppendEntryRequest, term=3, body=b"x" * size), 1)
        for at in range(0, len(frame), 1 + len(frame) // 7):
            await client.put(frame[at : at + 1 + len(frame) // 7])
            await trio.sleep(0.1)
        number, answer = await client.answer_of(RequestCode.APPEND)
        assert (number, answer.term) == (1, 3)
        (found,) = [asked.request for part, asked in kit.asked if part == "quorum_ack_checker"]
        assert found.body == b"x" * size


@attrs.define(eq=False)
class Visitor:
    """A stream, its receiving half too, that says a whole request, or nothing before its end."""

    speaks: bool
    ended: trio.Event = attrs.field(factory=trio.Event)
    remote: Address = attrs.field(factory=lambda: Address("n1", 1))

    def halves(self) -> tuple[Any, Any]:
        return self, None

    async def receive_some(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self.speaks:
            await self.ended.wait()
        return b"" if self.ended.is_set() else frame_of(request(term=7), 1)[:max_bytes]

    def abort(self) -> None:
        self.ended.set()


async def test_who_has_spoken_makes_no_way_while_there_is_no_room(autojump_clock: object) -> None:
    """All that wait of one address are bounded; each that is closed is reported."""
    room, let_in, reported = trio.Event(), [], []

    async def take(stream: Stream) -> None:
        let_in.append(stream)

    async def turn_away(stream: Stream, reason: str) -> None:
        reported.append(reason)

    lobby = Lobby(room.wait, take, turn_away)
    lobby.is_free("n1")
    silent = [Visitor(False) for _ in range(10)]
    spoken = [Visitor(True) for _ in range(WAITING_MAX + 16)]
    async with trio.open_nursery() as nursery:
        for visitor in (*silent, *spoken):
            nursery.start_soon(lobby.wait, cast(Stream, visitor))
            await trio.testing.wait_all_tasks_blocked()
        assert all(visitor.ended.is_set() for visitor in silent)
        assert not any(visitor.ended.is_set() for visitor in spoken[:WAITING_MAX])
        assert all(visitor.ended.is_set() for visitor in spoken[WAITING_MAX:])
        assert reported == [MADE_WAY] * 10 + [CROWDED] * 16
        room.set()
    assert len(let_in) == WAITING_MAX


async def test_no_more_than_the_places_kept_come_at_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those that had to speak first: a member finds a place among them."""
    unowned = []
    admit = RPCServer.admit

    async def slowly(server: RPCServer, stream: Stream) -> Admitted | None:
        await trio.sleep(0.01)
        unowned.append(len(server._arrived) + len(server._starting))
        return await admit(server, stream)

    async with serving() as kit:
        await storm(kit, FREE_BURST + 100, b"")
        clients = await storm(kit, WAITING_MAX, b"")
        monkeypatch.setattr(RPCServer, "admit", slowly)
        asked = len(kit.asked)
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.ask, request(term=7))
        await trio.sleep(2)
        assert max(unowned) <= UNOWNED_MAX + 1
        assert len(kit.asked) - asked > WAITING_MAX / 2
