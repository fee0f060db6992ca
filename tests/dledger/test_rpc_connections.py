"""Connections at a member's port: who gets one, what ends one, and what that does to others."""

from __future__ import annotations

import pytest
import trio
from rpc_kit import (
    Client,
    ServerKit,
    answer_at_once,
    frame_of,
    keep,
    request,
    serving,
    success,
)

from actors.dledger.rpc import server, session
from actors.dledger.rpc.rpc_messages import Asked
from actors.events.remoting import RPCConnectionClosed, RPCConnectionOpened, RPCConnectionRefused
from actors.events.runtime import ActorCrashed
from actors.remoting import server as remoting_server
from actors.remoting.budget import MADE_WAY
from actors.remoting.connection import IDLE, UNANSWERED_BYTES_MAX, UNSENT_BYTES_MAX
from actors.remoting.stream import CLOSED_BY_PEER, DOES_NOT_READ, IDLE_S, SPEAKS_TLS
from actors.runtime.accepting import FULL, UNKNOWN_ADDRESS
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    HeartBeatRequest,
    MetadataResponse,
    PushEntryRequest,
    VoteRequest,
)
from wire.remoting.frame import FRAME_BYTES_MAX, encode_frame
from wire.remoting.header import Header

MIB = 1 << 20


def reasons(kit: ServerKit) -> list[str]:
    return [each.reason for each in kit.seen(RPCConnectionClosed)]


BAD_FRAMES = {
    "17 MiB": (17 * MIB).to_bytes(4) + bytes(100),
    "a negative length": b"\xff\xff\xff\xff" + bytes(100),
    "no room for a header": (3).to_bytes(4) + bytes(100),
    "a header above the frame": (8).to_bytes(4) + (5).to_bytes(4) + bytes(100),
    "an unknown encoding": (8).to_bytes(4) + (2 << 24 | 2).to_bytes(4) + b"{}xx",
    "a header that is no JSON": (8).to_bytes(4) + (4).to_bytes(4) + b"{{{{",
    "a code of 20 digits": (35).to_bytes(4) + (31).to_bytes(4) + b'{"code": 12345678901234567890 }',
    "HTTP": b"GET / HTTP/1.1\r\nHost: n0\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
async def test_what_is_no_frame_ends_the_connection(bad: bytes, autojump_clock: object) -> None:
    """And that one only; what came before it was served."""
    async with serving() as kit:
        client, other = await kit.connect(), await kit.connect()
        await client.put(frame_of(request(), 1), bad)
        assert await client.ended()
        await trio.sleep(1)
        assert len(kit.asked) == 1
        (reason,) = reasons(kit)
        assert reason
        assert reason not in (CLOSED_BY_PEER, IDLE)
        await other.ask(request())
        assert (await other.answer_of(RequestCode.METADATA))[1].code == 200


async def test_the_largest_frame_is_served(autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        header = Header(code=RequestCode.METADATA, opaque=1)
        head = len(encode_frame(header))
        body = b'{"group":"g","remoteId":"n0"}'.ljust(FRAME_BYTES_MAX - head)
        await client.put(encode_frame(header, body), frame_of(request(), 2))
        for number in (1, 2):
            assert (await client.answer_of(RequestCode.METADATA))[0] == number


async def test_tls_is_closed_with_a_line(autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        await client.put(bytes.fromhex("16030100c8010000c4"))
        assert await client.ended()
        await trio.sleep(1)
        assert reasons(kit) == [SPEAKS_TLS]


@pytest.mark.parametrize("sends", [b"", b"\0\0"], ids=["nothing", "half a frame"])
async def test_a_peer_that_leaves(sends: bytes, autojump_clock: object) -> None:
    """Answers that come later go nowhere, and the part that gives them does not notice."""
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        await client.put(frame_of(request(), 1), sends)
        await trio.sleep(1)
        await client.send.aclose()
        assert await client.ended()
        await trio.sleep(1)
        (closed,) = kit.seen(RPCConnectionClosed)
        assert (closed.reason, closed.requests, closed.unanswered) == (CLOSED_BY_PEER, 1, 1)
        asked = kit.asked[0][1]
        asked.reply_to.send(success(asked))
        await trio.sleep(1)
        assert kit.seen(ActorCrashed) == []


async def test_idleness_ends_a_connection(autojump_clock: object) -> None:
    """Of 120 s without a byte in either direction."""
    async with serving() as kit:
        kit.behave = keep
        client, silent = await kit.connect(), await kit.connect()
        begun_s = trio.current_time()
        await trio.sleep(IDLE_S / 2)
        await client.ask(request())
        await trio.sleep(IDLE_S - 1)
        assert reasons(kit) == [IDLE]
        assert await silent.ended()
        asked = kit.asked[0][1]
        asked.reply_to.send(success(asked))
        answered_s = trio.current_time()
        await client.answer_of(RequestCode.METADATA)
        assert await client.ended()
        assert trio.current_time() - answered_s == pytest.approx(IDLE_S, abs=1)
        assert trio.current_time() - begun_s > 2 * IDLE_S
        await trio.sleep(1)
        assert reasons(kit) == [IDLE, IDLE]


async def large(asked: Asked) -> None:
    """An answer of nearly all that may be unsent, to whoever asks in term 1."""
    if asked.request.term == 1:
        asked.reply_to.send(MetadataResponse(group="x" * (UNSENT_BYTES_MAX - 4096)))
    else:
        await answer_at_once(asked)


async def test_who_does_not_read_stops_itself(autojump_clock: object) -> None:
    """No more of its requests are served than the bound says, then it is cut off."""
    async with serving() as kit:
        kit.behave = large
        client, other = await kit.connect(), await kit.connect()
        for _ in range(5):
            await client.ask(request(term=1))
            await trio.sleep(1)
        served = len(kit.asked)
        assert served <= 3  # one more may be read before the answers are there
        await other.ask(request())
        await other.answer_of(RequestCode.METADATA)
        await trio.sleep(60)
        assert reasons(kit) == [DOES_NOT_READ]
        assert len(kit.asked) == served + 1


async def test_a_slow_reader_gets_everything(autojump_clock: object) -> None:
    """Its requests are read on as soon as it takes the answers."""
    async with serving() as kit:
        kit.behave = large
        client = await kit.connect()
        for number in range(1, 6):
            await client.put(frame_of(request(term=1), number))
            await trio.sleep(1)
        assert len(kit.asked) <= 3
        for number in range(1, 6):
            with trio.fail_after(5):
                frame = await client.next_frame()
            assert (frame.header.code, frame.header.opaque) == (200, number)
            assert len(frame.body) > UNSENT_BYTES_MAX - 4096
            await trio.sleep(5)


async def test_unanswered_bytes_are_bounded(autojump_clock: object) -> None:
    """The rest waits in the stream until there are answers."""
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        body = bytes(3 * MIB)
        async with trio.open_nursery() as nursery:
            asked = [request(AppendEntryRequest, body=body)] * 8
            nursery.start_soon(client.ask, *asked)
            await trio.sleep(10)
            assert UNANSWERED_BYTES_MAX - 4 * MIB < len(kit.asked) * 4 * MIB < 6 * 4 * MIB
            for number in range(8):
                await trio.sleep(1)
                found = kit.asked[number][1]
                found.reply_to.send(success(found))
                await client.answer_of(RequestCode.APPEND)


async def test_a_reset_ends_a_connection(autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        await client.ask(request())
        await client.answer_of(RequestCode.METADATA)
        client.stream.abort()
        await trio.sleep(1)
        (reason,) = reasons(kit)
        assert "reset" in reason


async def test_strangers_are_closed_and_counted(autojump_clock: object) -> None:
    async with serving() as kit:
        for _ in range(5):
            assert await kit.turned_away("stranger")
        counts = [(each.reason, each.count) for each in kit.seen(RPCConnectionRefused)]
        assert counts == [(UNKNOWN_ADDRESS, count) for count in (1, 2, 4)]
        assert kit.seen(RPCConnectionOpened) == []


async def test_connections_are_bounded(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)
    async with serving() as kit:
        first, second = [await member_of(kit) for _ in range(2)]
        assert await kit.turned_away()
        (refused,) = kit.seen(RPCConnectionRefused)
        assert (refused.reason, refused.count) == (FULL, 1)
        first.stream.abort()
        await trio.sleep(1)
        fourth = await kit.connect()
        for client in (second, fourth):
            await client.ask(request())
            await client.answer_of(RequestCode.METADATA)


async def member_of(kit: ServerKit) -> Client:
    """A connection that has asked what only members ask."""
    client = await kit.connect()
    await client.ask(request(HeartBeatRequest))
    await client.answer_of(RequestCode.HEART_BEAT)
    return client


async def test_a_crowd_of_clients_keeps_no_member_out(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group whose members cannot reach each other has no leader, for as long as they stay."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 40)
    async with serving() as kit:
        early = await member_of(kit)
        for _ in range(60):
            client = await kit.connect()
            await client.ask(request())
            await client.answer_of(RequestCode.METADATA)
        late = await member_of(kit)
        for member in (early, late):
            await member.ask(request(VoteRequest))
            await member.answer_of(RequestCode.VOTE)
        assert kit.seen(RPCConnectionRefused) == []
        assert reasons(kit) == [MADE_WAY] * (62 - (40 - remoting_server.SLOTS_KEPT))


async def test_who_waits_for_an_answer_does_not_make_way(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_server, "SLOTS_KEPT", server.CONNECTIONS_MAX - 2)
    async with serving() as kit:
        kit.behave = keep
        busy = await kit.connect()
        await busy.ask(request())
        await trio.sleep(1)
        quiet = await kit.connect()
        await trio.sleep(1)
        await kit.connect()
        assert await quiet.ended()
        assert reasons(kit) == [MADE_WAY]
        asked = kit.asked[0][1]
        asked.reply_to.send(success(asked))
        await busy.answer_of(RequestCode.METADATA)


async def test_the_listener_closes_first_and_its_crash_ends_no_connection(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as kit:
        client = await kit.connect()
        await client.ask(request())
        await client.answer_of(RequestCode.METADATA)
        with monkeypatch.context() as patched:

            async def fail(door: object, stream: object) -> None:
                raise RuntimeError("crash")

            patched.setattr(remoting_server.RPCServer, "admit", fail)
            assert await kit.turned_away()
            await trio.sleep(1)
        assert len(kit.seen(ActorCrashed)) == 1
        for each in (client, await kit.connect()):
            await each.ask(request())
            await each.answer_of(RequestCode.METADATA)
        await kit.system.stop()
        assert await client.ended()
        assert reasons(kit) == ["shutdown", "shutdown"]


async def test_a_crash_of_a_connection_is_its_own(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as kit:
        client, other = await kit.connect(), await kit.connect()
        with monkeypatch.context() as patched:

            def fail(services: object, asked: object) -> None:
                raise RuntimeError("crash")

            patched.setattr(session, "server_of", fail)
            await client.ask(request(PushEntryRequest))
            assert await client.ended()
        await other.ask(request())
        await other.answer_of(RequestCode.METADATA)
        assert reasons(kit) == ["crashed"]
