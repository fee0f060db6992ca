"""The API server among its clients: bounds, back-pressure, bad clients, ordered stop."""

import pytest
import trio
from api_kit import (
    NODE,
    PORT,
    SOCKET,
    BareClient,
    MemoryNode,
    Served,
    bare_client,
    serving,
)
from trio.testing import MockClock

from actors.api import frame_socket
from actors.api.frame_socket import SocketClosed
from actors.api.limits import ApiLimits
from actors.client.connection import connect
from actors.events.client import APIConnectionClosed
from actors.sim.network import NetworkOptions
from wire.api import frames


def append(number: int, *records: bytes | frames.NewMessage) -> frames.Append:
    return frames.Append(id=number, group="orders", records=records)


async def closes_with(client: BareClient, text: str) -> None:
    with pytest.raises(SocketClosed, match=text), trio.fail_after(60):
        await client.socket.receive()


# Bounds.


async def test_a_read_that_fills_no_frame_is_cut(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    node = MemoryNode(stored=[b"x" * 1000 for _ in range(10)], acknowledged=1000)
    async with serving(node) as served, bare_client(served) as client:
        monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 6000)
        batch = await client.ask(frames.Read(id=1, group="orders", start=0, max_bytes=20_000))
        assert isinstance(batch, frames.Batch)
        assert len(batch.records) == 5
        assert batch.next == 500
        monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 900)
        failed = await client.ask(frames.Read(id=1, group="orders", start=0, max_bytes=20_000))
        assert isinstance(failed, frames.Failed)
        assert (failed.error, failed.message) == (
            "TooLarge",
            "the record at 0 has 1000 bytes: too large for the API, whose frames hold 900;"
            " the next one begins at 100",
        )
        tail = frames.Tail(id=2, group="orders", start=100, max_bytes=1, credit_bytes=1)
        failed = await client.ask(tail)
        assert isinstance(failed, frames.Failed)
        assert (failed.id, failed.error) == (2, "TooLarge")
        assert isinstance(await client.ask(frames.GetStatus(id=3)), frames.Status), "it goes on"


async def test_unanswered_requests_are_bounded_by_number(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    limits = ApiLimits(in_flight_requests=10)
    async with serving(node, limits=limits) as served, bare_client(served) as client:
        await client.send(*(append(number, b"x") for number in range(30)))
        await trio.sleep(5)
        assert len(node.stored) == 10
        for done in (10, 20, 30):
            assert len(node.stored) == done
            node.answer()
            await trio.sleep(5)
        assert [(await client.receive()).id for _ in range(30)] == list(range(30))


async def test_unanswered_requests_are_bounded_by_bytes(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    limits = ApiLimits(in_flight_bytes=3000)
    async with serving(node, limits=limits) as served, bare_client(served) as client:
        await client.send(append(0, b"x" * 10_000), *(append(n, b"x" * 900) for n in range(1, 7)))
        stored = []
        for _ in range(3):
            await trio.sleep(5)
            stored.append(len(node.stored))
            node.answer()
        assert stored == [1, 4, 7], "a large one goes alone, others as many as fit"


async def test_a_store_without_room_holds_the_client_back(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served) as client:
        node.may_submit = trio.Event()
        sent = 0

        async def send_much() -> None:
            nonlocal sent
            for number in range(100):
                await client.send(append(number, b"x" * 1_000_000))
                sent += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_much)
            await trio.sleep(60)
            assert sent < 20, "what the node does not take stays with the client"
            node.may_submit.set()
            for number in range(100):
                assert (await client.receive()).id == number
        assert len(node.stored) == 100


async def test_connections_are_bounded(autojump_clock: MockClock) -> None:
    """Members and clients, if all that there are have said hello."""
    async with serving(limits=ApiLimits(clients=2, silent=0)) as served:
        async with bare_client(served), bare_client(served):
            for _ in range(3):
                with pytest.raises(SocketClosed):
                    async with bare_client(served):
                        raise AssertionError
        refused = served.events("APIConnectionRefused")
        assert [(each.reason, each.count) for each in refused] == [
            ("too many connections", 1),
            ("too many connections", 2),
        ]
        await trio.sleep(1)
        async with bare_client(served):
            pass


async def test_only_members_may_come_over_tcp(autojump_clock: MockClock) -> None:
    async with serving() as served:
        for network, allowed in ((served.member, True), (served.stranger, False)):
            stream = await network.connect(NODE, PORT)
            try:
                async with frame_socket.connect(stream) as socket:
                    client = BareClient(socket)
                    assert isinstance(
                        await client.ask(frames.Hello(id=0, version=1, name="x")), frames.Welcome
                    )
                    assert allowed
            except SocketClosed:
                assert not allowed
        (refused,) = served.events("APIConnectionRefused")
        assert refused.reason == "unknown address"


async def test_who_comes_from_another_address_reads_that(autojump_clock: MockClock) -> None:
    """It was a peer that went away, or a port that is none of a node."""
    async with serving() as served:
        words = "closed at once: refused by address, as the node's cluster file names no node at "
        with pytest.raises(ConnectionError, match=words):
            async with connect((NODE, PORT), network=served.stranger, wait_s=0.0):
                raise AssertionError("not reached")


# Bad clients.

BAD = [b"", b"junk", b"\xc1", b"\x80", "", "{", '{"type":"nope","id":1}', "[" * 100_000]


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data)[:20])
@pytest.mark.parametrize("hello", [True, False])
async def test_a_bad_frame_gets_one_answer_and_a_close(
    data: bytes | str, hello: bool, autojump_clock: MockClock
) -> None:
    async with serving() as served:
        async with bare_client(served, hello=hello) as client:
            await client.socket.send(data)
            failed = await client.receive()
            assert isinstance(failed, frames.Failed)
            assert (failed.id, failed.error) == (None, "BadFrame")
            await closes_with(client, "code 1002: the request cannot be decoded")
        await trio.sleep(1)
        assert served.kinds().count("APIFrameRefused") == 1
        (closed,) = served.events("APIConnectionClosed")
        assert closed.reason == "bad frame"
        async with bare_client(served) as other:
            assert isinstance(await other.ask(append(1, b"x")), frames.Appended)
        assert "ActorCrashed" not in served.kinds()


async def test_a_frame_above_the_limit_closes(autojump_clock: MockClock) -> None:
    async with serving() as served, bare_client(served) as client:
        await client.socket.send(bytes(frames.FRAME_BYTES_MAX))
        assert isinstance(await client.receive(), frames.Failed)
    async with serving() as served, bare_client(served) as client:
        with pytest.raises(SocketClosed, match="code 1009: Exceeded maximum message size"):
            await client.socket.send(bytes(frames.FRAME_BYTES_MAX + 1))
            await client.socket.receive()


@pytest.mark.parametrize("frame", [append(1, b"x"), frames.GetStatus(id=1), frames.Cancel(id=1)])
async def test_the_first_request_is_hello(frame: frames.Request, autojump_clock: MockClock) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served, hello=False) as client:
        failed = await client.ask(frame)
        assert failed == frames.Failed(
            id=1, error="BadRequest", message="the first request must be hello"
        )
        await closes_with(client, "code 1002")
        assert node.stored == []


async def test_a_version_that_is_too_old_is_refused(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(frames, "VERSION_MIN", 2)
    monkeypatch.setattr(frames, "PROTOCOL_VERSION", 3)
    async with serving() as served, bare_client(served, hello=False) as client:
        failed = await client.ask(frames.Hello(id=1, version=1, name="x"))
        assert failed == frames.Failed(
            id=1, error="VersionNotSupported", message="this node speaks versions 2 to 3"
        )
        await closes_with(client, "code 1002")


async def test_a_client_that_says_nothing_is_closed(autojump_clock: MockClock) -> None:
    async with serving() as served, bare_client(served, hello=False) as client:
        with trio.fail_after(11):
            assert isinstance(await client.receive(), frames.Failed)
            await closes_with(client, "code 1002: no hello")
        async with bare_client(served) as other:
            await trio.sleep(100)
            assert isinstance(await other.ask(append(1, b"x")), frames.Appended), "idle is fine"


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x00\xff" * 500,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /",
        b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789",
        b"\r\n" * 100_000,
    ],
)
async def test_what_is_no_websocket_is_closed(junk: bytes, autojump_clock: MockClock) -> None:
    async with serving() as served:
        stream = (await served.host.connect_unix(SOCKET)).trio_stream()
        with trio.move_on_after(30):
            await stream.send_all(junk)
            while await stream.receive_some(1000):
                pass
        await stream.aclose()
        await trio.sleep(60)
        async with bare_client(served) as client:
            assert isinstance(await client.ask(append(1, b"x")), frames.Appended)
        assert "ActorCrashed" not in served.kinds()
        await trio.sleep(1)
        assert served.kinds().count("APIConnectionClosed") == 2


async def test_who_leaves_before_the_handshake_is_a_lost_connection(
    autojump_clock: MockClock,
) -> None:
    """Not in words that are for a client, whom a node has turned away."""
    async with serving() as served:
        stream = (await served.host.connect_unix(SOCKET)).trio_stream()
        await stream.send_all(b"GET /")
        await stream.aclose()
        await trio.sleep(1)
        (closed,) = served.events("APIConnectionClosed")
        assert closed.reason == "connection lost"


async def test_junk_after_the_handshake_hurts_only_its_connection(
    autojump_clock: MockClock,
) -> None:
    async with serving() as served:
        raw = (await served.host.connect_unix(SOCKET)).trio_stream()
        await raw.send_all(
            b"GET / HTTP/1.1\r\nHost: n0\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert (await raw.receive_some(1000)).startswith(b"HTTP/1.1 101")
        await raw.send_all(b"\xff\xff\xff\xff" * 100)
        with trio.fail_after(60):
            while await raw.receive_some(1000):
                pass
        await raw.aclose()
        await trio.sleep(1)
        async with bare_client(served) as client:
            assert isinstance(await client.ask(append(1, b"x")), frames.Appended)
        assert "ActorCrashed" not in served.kinds()


async def test_a_client_that_does_not_read_is_closed(autojump_clock: MockClock) -> None:
    node = MemoryNode(stored=[b"x" * 500_000 for _ in range(10)], acknowledged=1000)
    async with serving(node, limits=ApiLimits(send_timeout_s=5)) as served:
        async with bare_client(served) as client:
            reads = [
                frames.Read(id=number, group="orders", start=0, max_bytes=1_000_000)
                for number in range(20)
            ]
            await client.send(*reads)
            await trio.sleep(60)
        (closed,) = served.events("APIConnectionClosed")
        assert closed.reason == "too slow"
        assert closed.unanswered > 0


# Ends.


async def test_a_lost_client_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    async with serving(node) as served:
        stream = await served.host.connect_unix(SOCKET)
        with pytest.raises(SocketClosed):
            async with frame_socket.connect(stream) as socket:
                client = BareClient(socket)
                await client.ask(frames.Hello(id=0, version=1, name="x"))
                await client.send(append(1, b"x"))
                await trio.sleep(1)
                stream.abort()
                await socket.receive()
        await trio.sleep(1)
        assert served.events("APIConnectionClosed") == [
            APIConnectionClosed(reason="connection lost", requests=2, unanswered=1)
        ]
        node.answer()
        tree = served.system.tree().find("/n0/api/connections")
        assert tree is not None
        assert tree.children == ()
        assert "DeadLettered" not in served.kinds()


async def test_an_ordered_stop_says_goodbye(autojump_clock: MockClock) -> None:
    async with serving() as served, trio.open_nursery() as nursery:
        stream = await served.host.connect_unix(SOCKET)
        with pytest.raises(SocketClosed, match="code 1001"):
            async with frame_socket.connect(stream) as socket:
                client = BareClient(socket)
                await client.ask(frames.Hello(id=0, version=1, name="x"))
                nursery.start_soon(served.system.stop)
                with trio.fail_after(2):
                    await socket.receive()


@pytest.mark.parametrize("seed", range(5))
async def test_frames_are_whole_however_the_network_cuts_them(
    seed: int, autojump_clock: MockClock
) -> None:
    options = NetworkOptions(fragment_share=0.8)
    node = MemoryNode()
    async with serving(node, options=options, seed=seed) as served, bare_client(served) as client:
        bodies = [bytes([number]) * (number * 997) for number in range(1, 40)]
        await client.send(*(append(number, body) for number, body in enumerate(bodies)))
        for number in range(len(bodies)):
            assert (await client.receive()).id == number
        assert node.stored == bodies


async def test_the_tree_is_as_documented(autojump_clock: MockClock) -> None:
    async with serving() as served:
        tree = served.system.tree().find("/n0/api")
        assert tree is not None
        assert [child.path for child in tree.children] == [
            "/n0/api/connections",
            "/n0/api/unix_socket",
            "/n0/api/tcp_socket",
        ]
        assert isinstance(served, Served)
