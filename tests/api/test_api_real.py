"""The API on this machine's sockets."""

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from api_kit import BareClient, MemoryNode
from proof_kit import credentials

from actors.api import frame_socket, socket_file
from actors.api.accept_socket import TcpEndpoint, UnixEndpoint
from actors.api.server import api_spec
from actors.env.local_disk import LocalDisk
from actors.env.tcp import TcpNetwork
from actors.runtime import ChildSpec, System, open_system
from actors.runtime.spec import SupervisorSpec
from wire.api import frames

pytestmark = pytest.mark.real_io

GATE = partial(credentials().gate, "n0", frozenset(("127.0.0.1",)))


@asynccontextmanager
async def serving(node: MemoryNode, folder: Path) -> AsyncIterator[tuple[System, str]]:
    path = socket_file.api_socket_path(str(folder))
    before = partial(socket_file.remove_pointer, LocalDisk(), str(folder))
    spec = api_spec(
        TcpNetwork(),
        node,
        unix=UnixEndpoint(path=path, before=before),
        tcp=TcpEndpoint(host="127.0.0.1", port=0, allowed=("127.0.0.2",), gate=GATE),
    )
    root = SupervisorSpec(children=(ChildSpec(name="api", start=spec),))
    async with open_system("n0", root, events=node.sink) as system:
        yield system, path


@pytest.mark.parametrize("name", ["n0", "long" * 50])
async def test_appends_and_reads_over_a_unix_socket(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    node = MemoryNode()
    async with serving(node, folder) as (_, path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert path == f"{folder}/api.sock"
        stream = await TcpNetwork().connect_unix(path)
        async with frame_socket.connect(stream) as socket:
            client = BareClient(socket)
            assert isinstance(
                await client.ask(frames.Hello(id=0, version=1, name="x")), frames.Welcome
            )
            bodies = [os.urandom(1) * size for size in (0, 1, 125, 126, 65_535, 65_536, 4 << 20)]
            for number, body in enumerate(bodies):
                await client.send(frames.Append(id=number, group="orders", records=(body,)))
            for number in range(len(bodies)):
                answer = await client.receive()
                assert isinstance(answer, frames.Appended)
                assert answer.id == number
            for number, body in enumerate(bodies):
                batch = await client.ask(
                    frames.Read(id=99, group="orders", start=100 * number, max_bytes=1)
                )
                assert isinstance(batch, frames.Batch)
                assert batch.records[0].body == body
            await socket.close()


async def test_a_crashed_connection_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = MemoryNode()
    async with serving(node, tmp_path) as (system, path):
        streams = [await TcpNetwork().connect_unix(path) for _ in range(2)]
        async with (
            frame_socket.connect(streams[0]) as bad,
            frame_socket.connect(streams[1]) as good,
        ):
            clients = [BareClient(bad), BareClient(good)]
            for client in clients:
                await client.ask(frames.Hello(id=0, version=1, name="x"))

            def crash(self: MemoryNode) -> None:
                raise AssertionError("a mistake of ours")

            monkeypatch.setattr(MemoryNode, "request_stop", crash)
            assert isinstance(await clients[0].ask(frames.Stop(id=1)), frames.Stopping)
            with pytest.raises(frame_socket.SocketClosed), trio.fail_after(10):
                await bad.receive()
            answer = await clients[1].ask(frames.GetStatus(id=1))
            assert isinstance(answer, frames.Status)
        tree = system.tree().find("/n0/api")
        assert tree is not None
        assert [child.restarts for child in tree.children] == [0, 0, 0]
