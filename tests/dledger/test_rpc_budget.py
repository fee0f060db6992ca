"""What all connections of a port share: it bounds, members come first, all of it comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
import trio
from entry_kit import new_entry
from rpc_kit import Client, ServerKit, answer_at_once, frame_of, keep, request, serving, success

from actors.dledger.rpc import server
from actors.dledger.rpc.rpc_messages import Asked
from actors.dledger.rpc.session import READS_MAX, RPCSession, read_cost_bytes
from actors.events.remoting import RPCConnectionClosed
from actors.remoting import budget as rpc_budget
from actors.remoting import server as remoting_server
from actors.remoting.budget import (
    FIRST_READ_BYTES,
    OWN_BYTES,
    READ_BYTES,
    RECEIVED_BYTES,
    RESERVED_BYTES,
    RPCBudget,
)
from actors.remoting.stream import (
    CLOSED_BY_PEER,
    IDLE_S,
    REST_TIMEOUT_S,
    SMALL_BYTES,
    STALLS,
)
from actors.runtime.pool import Pool
from wire.dledger.codes import RequestCode
from wire.dledger.entry import (
    BODY_BYTES_MAX,
    Entry,
)
from wire.dledger.rpc import (
    AppendEntryRequest,
    GetEntriesRequest,
    GetEntriesResponse,
    HeartBeatRequest,
    PushEntryRequest,
    VoteRequest,
)
from wire.remoting.frame import FRAME_BYTES_MAX, encode_frame
from wire.remoting.header import FLAG_ONEWAY, Header

MIB = 1 << 20
SOON_S = REST_TIMEOUT_S / 3
STRANGERS_MAX = (RECEIVED_BYTES - RESERVED_BYTES) // FRAME_BYTES_MAX
"""Half-read frames of the largest size that strangers may have. A connection's own part of each
leaves no room for one more."""
WHOLE = {"fragment_share": 0.0}


def largest(code: int = RequestCode.METADATA, size_bytes: int = FRAME_BYTES_MAX) -> bytes:
    """A frame of the largest size that is served, or of another."""
    header = Header(code=code, opaque=9)
    body = b'{"group":"g","remoteId":"n0"}'.ljust(size_bytes - len(encode_frame(header)))
    return encode_frame(header, body)


def entry(body_bytes: int = BODY_BYTES_MAX) -> Entry:
    return new_entry(index=0, term=0, pos=0, body=bytes(body_bytes))


@attrs.define
class Port:
    kit: ServerKit
    budget: RPCBudget
    nursery: trio.Nursery
    clients: list[Client] = attrs.field(factory=list)

    async def connect(self, host: str = "n1") -> Client:
        self.clients.append(await self.kit.connect(host))
        return self.clients[-1]

    async def half(self, sends: bytes, host: str = "n1") -> Client:
        """A connection that sends so much, and then nothing."""
        client = await self.connect(host)

        async def send() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await client.put(sends)

        self.nursery.start_soon(send)
        return client

    def reasons(self) -> list[str]:
        return [each.reason for each in self.kit.seen(RPCConnectionClosed)]

    def whole(self) -> bool:
        received, read = self.budget.received, self.budget.read
        return (received.free_bytes, read.free_bytes) == (received.total_bytes, read.total_bytes)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    @asynccontextmanager
    async def open_port(**options: Any) -> AsyncIterator[Port]:
        budget = RPCBudget()
        monkeypatch.setattr(remoting_server, "RPCBudget", lambda: budget)
        async with serving(**options) as kit, trio.open_nursery() as nursery:
            port = Port(kit, budget, nursery)
            yield port
            nursery.cancel_scope.cancel()
            for client in port.clients:
                client.stream.abort()

    return open_port


async def test_half_read_junk_leaves_members_their_room(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """Votes, heart-beats and small pushes pass; a member's largest push has its own room."""
    async with opened() as port:
        member = await port.connect()
        await member.ask(request(HeartBeatRequest))
        await member.answer_of(RequestCode.HEART_BEAT)
        for number in range(40):
            code = RequestCode.PUSH if number % 2 else RequestCode.APPEND
            await port.half(largest(code)[: 2 * MIB], ("n1", "n2")[number % 3 // 2])
        await trio.sleep(5)
        assert port.budget.received.free_bytes >= RESERVED_BYTES
        assert port.budget.received.free_bytes < RESERVED_BYTES + FRAME_BYTES_MAX

        for client in (member, await port.connect(), await port.connect("n2")):
            with trio.fail_after(SOON_S):
                for asked in (VoteRequest, HeartBeatRequest):
                    await client.ask(request(asked))
                    await client.next_frame()
                await client.ask(request(PushEntryRequest, entry=entry(1000)))
                await client.answer_of(RequestCode.PUSH)
                await client.ask(request(PushEntryRequest, entry=entry()))
                await client.answer_of(RequestCode.PUSH)
                await client.put(largest())
                await client.answer_of(RequestCode.METADATA)
        assert port.reasons() == []


async def test_a_member_comes_first_as_soon_as_it_shows(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """Its first small push stands before the large one in the same receive."""
    async with opened(**WHOLE) as port:
        for _ in range(10):
            await port.half(largest()[:MIB])
        await trio.sleep(5)
        member = await port.connect("n2")
        pushes = [request(PushEntryRequest, entry=entry(size)) for size in (10, BODY_BYTES_MAX)]
        with trio.fail_after(SOON_S):
            await member.ask(*pushes)
            for _ in pushes:
                await member.answer_of(RequestCode.PUSH)


async def test_strangers_go_on_when_those_who_stall_are_cut_off(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """Also those who send a byte now and then."""
    async with opened() as port:
        junk = [await port.half(largest()[:MIB]) for _ in range(STRANGERS_MAX + 1)]
        await trio.sleep(1)

        async def drip(client: Client) -> None:
            with pytest.raises((trio.BrokenResourceError, OSError)):
                while True:
                    await trio.sleep(1)
                    await client.put(b" ")

        port.nursery.start_soon(drip, junk[0])
        other = await port.half(largest(), "n2")
        with trio.fail_after(3 * REST_TIMEOUT_S):
            assert (await other.answer_of(RequestCode.METADATA))[0] == 9
        await trio.sleep(2 * REST_TIMEOUT_S)
        assert port.reasons() == [STALLS] * len(junk)
        assert port.whole()


async def test_large_frames_that_come_in_pieces_do_not_block_each_other(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    async with opened() as port:
        frame, pieces = largest(), 8
        step = FRAME_BYTES_MAX // pieces

        async def send(client: Client) -> None:
            for number in range(pieces):
                await client.put(frame[number * step : (number + 1) * step])
                await trio.sleep(1)

        clients = [await port.connect() for _ in range(10)]
        for client in clients:
            port.nursery.start_soon(send, client)
        with trio.fail_after(IDLE_S):
            for client in clients:
                assert (await client.answer_of(RequestCode.METADATA))[0] == 9
        await trio.sleep(1)
        assert port.whole()


async def test_small_frames_count_beyond_a_connections_own(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """And a client that waits for room with them goes on when its own are answered."""
    async with opened(**WHOLE) as port:
        port.kit.behave = keep
        client = await port.connect()
        small = largest(size_bytes=SMALL_BYTES)
        for number in range(2 * OWN_BYTES // SMALL_BYTES):
            assert port.whole() or number >= OWN_BYTES // SMALL_BYTES
            await client.put(small)
            await trio.sleep(1)
        free_bytes = port.budget.received.free_bytes
        assert abs(RECEIVED_BYTES - OWN_BYTES - free_bytes) < SMALL_BYTES
        for _ in range(10):
            await port.half(largest()[:MIB])
        await trio.sleep(1)
        await client.put(small)
        await trio.sleep(1)
        await client.put(small)
        await trio.sleep(1)
        waits = len(port.kit.asked)
        assert waits == 2 * OWN_BYTES // SMALL_BYTES + 1, "what was sent last is not read"
        for _, each in port.kit.asked:
            each.reply_to.send(success(each))
        port.kit.behave = answer_at_once
        with trio.fail_after(SOON_S):
            for _ in range(waits + 1):
                await client.next_frame()


async def found(asked: Asked) -> None:
    """The largest entry."""
    if isinstance(asked.request, GetEntriesRequest):
        asked.reply_to.send(GetEntriesResponse(entries=(entry(),)))
    else:
        await answer_at_once(asked)


async def test_reads_without_room_are_refused(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """By 503, while there are too many entries that are not sent; other requests are served."""
    async with opened() as port:
        port.kit.behave = keep
        get = request(GetEntriesRequest, begin_index=0, term=3)
        answer = GetEntriesResponse(entries=(entry(),))
        client, other = await port.connect(), await port.connect("n2")
        await client.ask(*[get] * READS_MAX)
        await trio.sleep(1)
        for _, asked in port.kit.asked:
            asked.reply_to.send(answer)
        assert port.budget.read.free_bytes < FIRST_READ_BYTES + read_cost_bytes(answer)
        port.kit.behave = answer_at_once
        await other.ask(request())
        await other.answer_of(RequestCode.METADATA)
        answers = [(await client.answer_of(RequestCode.GET))[1] for _ in range(READS_MAX)]
        served = (READ_BYTES - FIRST_READ_BYTES) // read_cost_bytes(answer)
        assert [each.code for each in answers] == [200] * served + [503] * (READS_MAX - served)
        assert (answers[-1].group, answers[-1].term) == ("g", 3)
        await trio.sleep(1)
        port.kit.behave = found
        await other.ask(get)
        assert (await other.answer_of(RequestCode.GET))[1] == answer
        await trio.sleep(1)
        assert port.whole()


async def test_reads_are_held_until_they_are_sent(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    async with opened() as port:
        port.kit.behave = found
        client = await port.connect()
        await client.ask(*[request(GetEntriesRequest, begin_index=0)] * 2)
        await trio.sleep(REST_TIMEOUT_S / 2)
        unsent_bytes = READ_BYTES - port.budget.read.free_bytes
        assert MIB < unsent_bytes < 2 * read_cost_bytes(GetEntriesResponse(entries=(entry(),)))
        for _ in range(2):
            await client.answer_of(RequestCode.GET)
        await trio.sleep(1)
        assert port.whole()


async def stays(client: Client) -> None:
    """It is cut off, sooner or later."""
    await trio.sleep(2 * IDLE_S)


async def leaves(client: Client) -> None:
    await client.send.aclose()


async def resets(client: Client) -> None:
    client.stream.abort()


@pytest.mark.parametrize("ends", [stays, leaves, resets], ids=lambda end: end.__name__)
@pytest.mark.parametrize(
    "sends",
    [
        largest()[:MIB],
        frame_of(request(AppendEntryRequest, body=bytes(5 * MIB)), 1),
        frame_of(request(AppendEntryRequest, body=bytes(5 * MIB)), 1) + largest()[:MIB],
        frame_of(request(AppendEntryRequest, body=bytes(5 * MIB)), 1) + bytes(100),
        frame_of(request(GetEntriesRequest, begin_index=0), 1) * 6,
        frame_of(request(), 1) * 20_000,
    ],
    ids=["half a frame", "unanswered", "both", "junk behind", "unread answers", "small answers"],
)
async def test_it_comes_back_however_a_connection_ends(
    sends: bytes,
    ends: Callable[[Client], Awaitable[None]],
    opened: Callable[..., Any],
    autojump_clock: object,
) -> None:
    async def behave(asked: Asked) -> None:
        if not isinstance(asked.request, AppendEntryRequest):
            await found(asked)

    async with opened() as port:
        port.kit.behave = behave
        client = await port.half(sends)
        await trio.sleep(10)
        assert not port.whole() or port.reasons() != []
        await ends(client)
        await trio.sleep(2 * IDLE_S)
        assert len(port.reasons()) == 1
        assert port.whole()


async def test_it_comes_back_from_who_waits_in_line(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """For room, until it is gone: by its own will, or as idle."""
    async with opened() as port:
        hoard = Pool(RECEIVED_BYTES, RESERVED_BYTES)
        taken = hoard.total_bytes - hoard.reserved_bytes
        await port.budget.received.take(taken)
        leaver, idler = [await port.half(largest()[: 100 * 1024]) for _ in range(2)]
        await trio.sleep(1)
        assert port.budget.received.free_bytes == RESERVED_BYTES
        leaver.stream.abort()
        await trio.sleep(2 * IDLE_S)
        assert await idler.ended()
        assert len(port.reasons()) == 2
        port.budget.received.give_back(taken)
        assert port.whole()


async def test_it_comes_back_from_a_crash_and_from_a_stop(
    opened: Callable[..., Any], autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as port:
        port.kit.behave = keep
        append = request(AppendEntryRequest, body=bytes(5 * MIB))
        first, _ = [await port.half(frame_of(append, 1) + largest()[:MIB]) for _ in range(2)]
        await trio.sleep(10)
        before_bytes = port.budget.received.free_bytes
        with monkeypatch.context() as patched:

            def fail(connection: object) -> None:
                raise RuntimeError("crash")

            patched.setattr(RPCSession, "step_ended", fail)
            await port.half(frame_of(request(), 1) + largest()[:MIB])
            await trio.sleep(1)
        assert port.reasons() == ["crashed"]
        assert port.budget.received.free_bytes == before_bytes
        await first.send.aclose()
        await trio.sleep(1)
        assert port.reasons() == ["crashed", CLOSED_BY_PEER]
        assert before_bytes < port.budget.received.free_bytes < RECEIVED_BYTES
        await port.kit.system.stop()
        assert len(port.reasons()) == 3
        assert port.whole()


async def test_it_comes_back_from_what_nobody_waits_for(
    opened: Callable[..., Any], autojump_clock: object
) -> None:
    """At once when it is answered, though the connection has nothing to send."""
    async with opened() as port:
        port.kit.behave = keep
        append = request(AppendEntryRequest, body=bytes(5 * MIB))
        await port.half(frame_of(append, 1, flag=FLAG_ONEWAY))
        await trio.sleep(10)
        assert not port.whole()
        ((_, asked),) = port.kit.asked
        asked.reply_to.send(success(asked))
        await trio.sleep(1)
        assert port.whole()


def test_a_port_holds_some_hundred_mib() -> None:
    assert rpc_budget.memory_bytes(server.CONNECTIONS_MAX) == 400 * MIB
