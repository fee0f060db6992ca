"""Unix sockets: where their files are, who may use them, and who serves them."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.env.protocols import Address
from actors.env.tcp import TcpNetwork

pytestmark = pytest.mark.real_io

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts another user's server")


async def test_a_socket_file_is_private_and_a_stale_one_replaced(tmp_path: Path) -> None:
    network = TcpNetwork()
    path = str(tmp_path / "api.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    listener = await network.listen_unix(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    os.unlink(path)
    newer = await network.listen_unix(path)
    await listener.aclose()
    assert "api.sock" in os.listdir(tmp_path)  # not the older listener's to remove
    await newer.aclose()
    assert "api.sock" not in os.listdir(tmp_path)


async def test_a_plain_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(OSError, match="not a socket"):
        await TcpNetwork().listen_unix(str(path))
    assert path.read_text() == "data"


async def test_a_long_path_is_reached_by_its_folder(tmp_path: Path) -> None:
    """The file is where it was asked for: nowhere that anybody else can make names."""
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    path, network = str(folder / "api.sock"), TcpNetwork()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError, match=re.escape(path)):
        await network.connect_unix(path)
    listener = await network.listen_unix(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert listener.address == Address(path, 0)
    stream = await network.connect_unix(path)
    assert stream.remote == Address(path, 0)
    served = await listener.accept()
    await stream.trio_stream().send_all(b"x")
    assert await served.trio_stream().receive_some(1) == b"x"
    stream.abort()
    served.abort()
    with pytest.raises(OSError, match=re.escape(path)) as caught:
        await network.listen_unix(path)
    assert caught.value.errno == errno.EADDRINUSE
    await listener.aclose()
    assert os.listdir(folder) == []
    with pytest.raises(FileNotFoundError, match="gone"):
        await network.listen_unix(str(folder / "gone" / "api.sock"))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_name_that_is_too_long_is_an_os_error(tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * 200))
    with pytest.raises(OSError, match="too long"):
        await TcpNetwork().listen_unix(path)
    with pytest.raises(OSError, match="too long"):
        await TcpNetwork().connect_unix(path)


@contextmanager
def served_by_nobody(path: Path) -> Iterator[None]:
    """A socket file that another user serves, and lets everybody use."""
    program = (
        "import os, socket, sys;"
        "os.setgid(65534); os.setuid(65534);"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777);"
        "s.listen(); print(flush=True); s.accept()[0].recv(1)"
    )
    command = [sys.executable, "-c", program, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"\n"
        try:
            yield
        finally:
            server.kill()


@AS_ROOT
async def test_a_stranger_who_took_the_slot_before_gets_nothing() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        os.chmod(shared, 0o1777)
        path = Path(shared, "api.sock")
        with served_by_nobody(path):
            with pytest.raises(PermissionError, match="user 65534 serves it, not user 0"):
                await TcpNetwork().connect_unix(str(path))


@AS_ROOT
async def test_root_reaches_who_alone_can_have_put_the_file_there() -> None:
    """An operator asks the nodes of a service user."""
    with tempfile.TemporaryDirectory(dir="/var") as base:
        os.chmod(base, 0o755)
        folder = Path(base, "n0")
        os.mkdir(folder, 0o700)
        os.chown(folder, 65534, 65534)
        with served_by_nobody(folder / "api.sock"):
            stream = await TcpNetwork().connect_unix(str(folder / "api.sock"))
            stream.abort()


async def test_a_full_unix_backlog_is_an_error_not_a_dead_stream(tmp_path: Path) -> None:
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(path)
        full.listen(0)
        network = TcpNetwork()
        first = await network.connect_unix(path)
        with pytest.raises(OSError, match=r"full\.sock"):
            await network.connect_unix(path)
        first.abort()
