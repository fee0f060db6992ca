"""What passes at `api_port`: reads from the members' addresses, all else with a proof."""

from __future__ import annotations

import errno
import os
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import msgspec
import pytest
import trio
import trio_websocket
from api_kit import MEMBER, NODE, PORT, SOCKET, BareClient, MemoryNode, Served, serving
from member_kit import slave
from proof_kit import N0, SECRET, SECRET_PATH, credentials, identity
from trio.testing import MockClock

from actors.api import frame_socket
from actors.api.credentials import (
    Credentials,
    ExpectedNode,
    MemberNetwork,
    Unproven,
    greet,
    prepare,
)
from actors.api.failures import RequestRefused
from actors.api.frame_socket import SocketClosed
from actors.client import Client, connect
from actors.config import ClusterConfig
from actors.env.local_secrets import LocalSecretStore
from actors.env.protocols import Stream
from actors.errors import ConfigError, NoRoomToStart
from actors.sim.cluster import classic_config
from actors.sim.world import SimSecretStore
from wire.api import frames as api

OTHER = b"what a stranger made up, so it is none"
# Bytes as they lie in the log, damaged or not, are for members alone.
CHANGES: tuple[api.Request, ...] = (
    api.Append(id=1, group="orders", records=(b"x",)),
    api.Fence(id=1, group="orders", number=1, master="n1", by="n1", token=1, on=True),
    api.Record(id=1, group="orders", number=1, master="n1", token=1, force=True),
    api.Resync(id=1, group="orders"),
    api.Transfer(id=1, group="orders"),
    api.Repair(id=1, group="orders"),
    api.GetRange(id=1, group="orders", start=0),
    api.Promote(id=1, group="orders"),
    api.Stop(id=1),
)
READS: tuple[api.Request, ...] = (
    api.Read(id=1, group="orders", start=0, max_bytes=1000),
    api.GetOffsets(id=1, group="orders"),
    api.GetGroup(id=1, group="orders"),
    api.GetStatus(id=1),
    api.GetTree(id=1),
    api.Tail(id=1, group="orders", start=0, max_bytes=1000, credit_bytes=1000),
    api.WatchOffsets(id=1, group="orders"),
    api.WatchGroup(id=1, group="orders"),
)


@asynccontextmanager
async def at_port(
    served: Served, who: ExpectedNode | None, *, name: str = "member n1"
) -> AsyncIterator[tuple[BareClient, api.Answer]]:
    """A connection from a member's address, and the answer to its hello."""
    async with frame_socket.connect(await served.member.connect(NODE, PORT)) as socket:
        client = BareClient(socket)
        hello = api.Hello(id=0, version=api.VERSION_MIN, name=name)
        yield client, await client.ask(greet(hello, who, socket.challenge).hello)
        await socket.close()


def test_every_request_is_a_read_or_a_change() -> None:
    """A new one is refused at the port until it is said to change nothing."""
    tried = {type(request) for request in (*CHANGES, *READS)}
    assert tried & set(api.READS) == {type(request) for request in READS}
    known = {*tried, *api.READS, api.Hello}
    assert known == set(api.Request.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "who", [None, identity(OTHER), identity(None)], ids=["old", "wrong secret", "no secret"]
)
async def test_who_has_not_the_secret_only_reads(
    who: ExpectedNode | None, autojump_clock: MockClock
) -> None:
    node = MemoryNode(stored=[b"x"] * 3, acknowledged=300)
    async with serving(node) as served:
        for request in CHANGES:
            async with at_port(served, who) as (client, welcome):
                assert isinstance(welcome, api.Welcome)
                assert welcome.proof == b""
                answer = await client.ask(request)
                assert isinstance(answer, api.Failed)
                assert answer.error == api.ERROR_PERMISSION
                assert "cluster.secret" in answer.message
        for request in READS:
            async with at_port(served, who) as (client, _):
                assert not isinstance(await client.ask(request), api.Failed)
        assert len(node.stored) == 3
        assert not node.stopped


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
async def test_who_has_the_secret_may_do_all(
    change: api.Request, autojump_clock: MockClock
) -> None:
    async with serving() as served, at_port(served, N0) as (client, welcome):
        assert isinstance(welcome, api.Welcome)
        assert welcome.proof
        answer = await client.ask(change)
        assert not isinstance(answer, api.Failed) or answer.error != api.ERROR_PERMISSION


async def test_without_a_secret_of_its_own_a_node_only_shows(autojump_clock: MockClock) -> None:
    async with serving(secret=None) as served:
        async with at_port(served, N0) as (client, welcome):
            assert isinstance(welcome, api.Welcome)
            assert welcome.proof == b""
            for request in CHANGES:
                answer = await client.ask(msgspec.structs.replace(request, id=2))
                assert isinstance(answer, api.Failed)
                assert answer.error == api.ERROR_PERMISSION


async def test_what_one_said_is_of_no_use_to_another(autojump_clock: MockClock) -> None:
    """Every connection has its own challenge, and takes one hello."""
    async with serving() as served:
        async with frame_socket.connect(await served.member.connect(NODE, PORT)) as socket:
            heard = greet(api.Hello(id=0, version=1, name="member n1"), N0, socket.challenge).hello
            assert isinstance(await BareClient(socket).ask(heard), api.Welcome)
            again = await BareClient(socket).ask(msgspec.structs.replace(heard, id=1))
            assert isinstance(again, api.Failed)
        async with frame_socket.connect(await served.member.connect(NODE, PORT)) as socket:
            client = BareClient(socket)
            welcome = await client.ask(heard)
            assert isinstance(welcome, api.Welcome)
            assert welcome.proof == b""
            refused = await client.ask(api.Stop(id=1))
            assert isinstance(refused, api.Failed)


async def test_over_the_socket_file_nobody_proves_anything(autojump_clock: MockClock) -> None:
    async with serving() as served, connect(SOCKET, network=served.host) as client:
        await client.append("orders", (b"x",))
        await client.stop()
    assert served.node.stopped


# What is demanded of an opening handshake.


@asynccontextmanager
async def web_socket(
    served: Served, host: str, headers: list[tuple[bytes, bytes]], *, port: bool = True
) -> AsyncIterator[trio_websocket.WebSocketConnection]:
    if port:
        stream = await served.member.connect(NODE, PORT)
    else:
        stream = await served.host.connect_unix(SOCKET)
    async with trio.open_nursery() as nursery:
        yield await trio_websocket.wrap_client_stream(
            nursery,
            stream.trio_stream(),  # type: ignore[arg-type] # any stream will do
            host,
            frame_socket.RESOURCE,
            extra_headers=headers,
        )
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "host", [NODE, f"{NODE}:{PORT}", MEMBER, f"{MEMBER}:1", "localhost", "localhost:80"]
)
async def test_the_name_of_a_member_passes(host: str, autojump_clock: MockClock) -> None:
    async with serving() as served, web_socket(served, host, []) as connection:
        assert len(connection.handshake_headers) > 0


@pytest.mark.parametrize(
    ("host", "headers", "words"),
    [
        (NODE, [(b"Origin", b"http://evil.example")], "web pages.*'http://evil.example'"),
        (NODE, [(b"ORIGIN", b"http://" + NODE.encode())], "web pages"),
        (NODE, [(b"origin", b"null")], "web pages"),
        ("evil.example", [], "expected a member's address as Host, found 'evil.example'"),
        (f"evil.example:{PORT}", [], "expected a member's address"),
        (f"{NODE}.evil.example", [], "expected a member's address"),
        ("localhost.evil.example", [], "expected a member's address"),
        (f"[{NODE}]x", [], "expected a member's address"),
    ],
)
async def test_pages_and_foreign_names_are_refused(
    host: str, headers: list[tuple[bytes, bytes]], words: str, autojump_clock: MockClock
) -> None:
    async with serving() as served:
        with pytest.RaisesGroup(trio_websocket.ConnectionRejected) as caught:
            async with web_socket(served, host, headers):
                raise AssertionError("not reached")
        (rejected,) = caught.value.exceptions
        assert isinstance(rejected, trio_websocket.ConnectionRejected)
        assert (rejected.status_code, bool(rejected.body)) == (403, True)
        await trio.sleep(1)
        (closed,) = served.events("APIConnectionClosed")
        assert re.search(words, (rejected.body or b"").decode())
        assert re.search(words, closed.reason)


async def test_the_socket_file_asks_for_no_name(autojump_clock: MockClock) -> None:
    async with serving() as served, web_socket(served, "any.example", [], port=False):
        pass


async def test_a_client_says_why_it_was_refused(autojump_clock: MockClock) -> None:
    async with serving(hosts=frozenset({"10.9.9.9"})) as served:
        with pytest.raises(ConnectionError, match=f"refused: .* found '{NODE}:{PORT}"):
            async with connect((NODE, PORT), network=served.member):
                raise AssertionError("not reached")


# The other side.


@asynccontextmanager
async def client_at(served: Served, who: ExpectedNode | None) -> AsyncIterator[Client]:
    async with connect((NODE, PORT), network=served.member, identity=who) as client:
        yield client


@pytest.mark.parametrize(
    ("who", "words"),
    [
        (None, "nothing proves who answers at a port: name the cluster file"),
        (identity(None), f"there is no secret at {SECRET_PATH}"),
        (identity(OTHER), "expected the same cluster.secret on all machines"),
    ],
    ids=["HOST:PORT", "none", "another"],
)
async def test_a_client_gives_nothing_to_who_has_not_proved_itself(
    who: ExpectedNode | None, words: str, autojump_clock: MockClock
) -> None:
    """Who has taken a node's address would say that it is acknowledged."""
    async with serving(MemoryNode(stored=[b"x"], acknowledged=100)) as served:
        async with client_at(served, who) as client:
            assert (await client.read("orders", 0, 1000, False)).records
            for change in (
                client.append("orders", (b"x",)),
                client.promote("orders"),
                client.resync("orders"),
                client.repair("orders"),
                client.transfer_leader("orders"),
                client.stop(),
            ):
                with pytest.raises(RequestRefused, match=words) as caught:
                    await change
                assert caught.value.error == api.ERROR_PERMISSION
        assert len(served.node.stored) == 1


async def test_a_client_that_proves_itself_appends_over_the_port(autojump_clock: MockClock) -> None:
    async with serving() as served, client_at(served, N0) as client:
        await client.append("orders", (b"x",))


@pytest.mark.parametrize("secret", [None, OTHER], ids=["none", "another"])
async def test_a_member_with_the_secret_believes_nobody_without(
    secret: bytes | None, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(MemoryNode(acknowledged=100), secret=secret) as served:
        async with slave(served) as found:
            await trio.sleep(5)
            assert (found.got, found.received, found.events()) == ([], [], ["MasterLinkLost"])
            with pytest.raises(Unproven, match="n0 has not proved that it is of cluster demo"):
                await found.links.group_state("n0", "orders")


async def test_a_member_without_believes_as_before(autojump_clock: MockClock) -> None:
    """Until an operator gives it the secret: it may be the first that was upgraded."""
    async with serving(MemoryNode(acknowledged=100)) as served:
        network = MemberNetwork(served.member, credentials(None))
        async with slave(served, network=network) as found:
            state = await found.links.group_state("n0", "orders")
            assert state.node == "n0"


async def test_an_older_node_is_read_by_clients_and_not_believed_by_members(
    autojump_clock: MockClock,
) -> None:
    async with serving() as served:
        listener = await served.host.listen(NODE, PORT + 1)

        async def serve() -> None:  # as a version does that sends no challenge
            stream = await listener.accept()
            with suppress(SocketClosed):
                await talk(stream)

        async def talk(stream: Stream) -> None:
            async with frame_socket.accept(stream) as frames:
                assert isinstance(api.decode_request(await frames.receive()), api.Hello)
                welcome = api.Welcome(
                    id=0,
                    version=1,
                    cluster="demo",
                    node="n0",
                    boot=1,
                    groups=("orders",),
                    frame_bytes_max=1 << 20,
                    records_per_append_max=10,
                    in_flight_requests_max=10,
                    in_flight_bytes_max=1 << 20,
                )
                await frames.send(api.encode(welcome))
                await frames.receive()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            async with connect((NODE, PORT + 1), network=served.member, identity=N0) as client:
                with pytest.raises(RequestRefused, match="of a version that cannot prove itself"):
                    await client.append("orders", (b"x",))
        await listener.aclose()


# Before a node starts.


def store_of(files: dict[str, bytes]) -> SimSecretStore:
    return SimSecretStore(random.Random(1), files)


def loopback(api_port: int | None = 9000) -> ClusterConfig:
    config = classic_config(api_port=api_port)
    nodes = {name: f"127.0.0.{number + 1}" for number, name in enumerate(config.nodes)}
    return attrs.evolve(config, nodes=nodes)


def test_the_first_start_on_one_machine_makes_the_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files: dict[str, bytes] = {}
    prepare(loopback(), store_of(files))
    (made,) = files.values()
    prepare(loopback(), store_of(files))
    assert list(files.values()) == [made]
    assert caplog.messages == []


def test_on_several_machines_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    files: dict[str, bytes] = {}
    prepare(classic_config(), store_of(files))
    assert files == {}
    (line,) = caplog.messages
    assert line.startswith("no secret at /data/cluster.secret")
    files[SECRET_PATH] = SECRET
    prepare(classic_config(), store_of(files))
    assert len(caplog.messages) == 1


def test_without_a_port_there_is_nothing_to_prove() -> None:
    files: dict[str, bytes] = {}
    prepare(loopback(None), store_of(files))
    assert files == {}


def test_a_secret_that_others_may_read_stops_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = attrs.evolve(loopback(), data_dir=str(tmp_path))
    path = tmp_path / "cluster.secret"
    path.write_bytes(SECRET)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="only its owner may read"):
        prepare(config, LocalSecretStore())
    known = Credentials("demo", str(path), LocalSecretStore())
    assert [known.secret() for _ in range(3)] == [None] * 3  # reported once, whoever connects
    (line,) = caplog.messages
    assert line.endswith("only reads pass at api_port meanwhile")
    mode = path.stat().st_mode
    path.chmod(0o600)
    assert known.secret() == SECRET
    path.chmod(mode)
    assert known.secret() is None
    assert len(caplog.messages) == 2


def test_a_disk_without_room_for_the_secret_is_no_mistake_in_the_cluster_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor tries such a start again, and nothing lies around."""

    def write(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    config = attrs.evolve(loopback(), data_dir=str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", write)
        with pytest.raises(NoRoomToStart, match="cannot make the secret: No space left"):
            prepare(config, LocalSecretStore())
    assert list(tmp_path.iterdir()) == []
    prepare(config, LocalSecretStore())
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.secret"]
