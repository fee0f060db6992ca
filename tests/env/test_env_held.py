"""Received bytes that stay in the system: pipes, their pool, and what becomes of them on errors."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import network_contract
import pytest
import trio
from test_env_network import real_kit

from actors.env import Held, ReceiveHalf, SendHalf
from actors.env.local_disk import LocalDisk, LocalFile
from actors.env.pipes import PIPES_MAX, PipedBytes
from actors.sim.disk.disk import SimHeld

pytestmark = pytest.mark.real_io

DATA = bytes(range(256)) * 512  # 128 KiB


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def target(tmp_path: Path) -> Iterator[LocalFile]:
    file = LocalDisk().open(str(tmp_path / "target"), "x")
    try:
        yield file
    finally:
        file.close()


@contextmanager
def files_end_at(size_bytes: int) -> Iterator[None]:
    """The system writes as much as fits below, and refuses the rest."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@asynccontextmanager
async def sent(tmp_path: Path) -> AsyncIterator[tuple[SendHalf, ReceiveHalf]]:
    """A connection for the length of a block: its sending half, which has sent DATA, and the other
    end's receiving half."""
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    _, send = client.halves()
    receive, _ = server.halves()
    await send.send_all(DATA)
    try:
        yield send, receive
    finally:
        await network_contract.end(listener, client, server)


async def held_of(receive: object, size: int) -> PipedBytes:
    held = await receive.receive_held(size)  # type: ignore[attr-defined]
    assert isinstance(held, PipedBytes)
    return held


async def test_a_failed_write_throws_the_pipe_away_with_what_is_in_it(tmp_path: Path) -> None:
    before = descriptors()
    async with sent(tmp_path) as (_, receive):
        with target(tmp_path) as file:
            held = await held_of(receive, 50_000)
            with files_end_at(8192), pytest.raises(OSError, match="File too large") as error:
                file.pwrite_held(held, 0, len(held))
            assert error.value.filename == file.path
            assert len(held) == 0
            assert file.size_bytes == 8192, "a part of it was written, and the rest lay in the pipe"
            again = await held_of(receive, 1000)
            file.pwrite_held(again, 0, 1000)
            assert file.pread(0, 1000) == DATA[50_000:51_000], "nothing of the first came here"
    assert descriptors() == before


async def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sent(tmp_path) as (_, receive):
        held = await held_of(receive, 1000)

        def full(*_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with target(tmp_path) as file:
            monkeypatch.setattr("os.splice", full)
            with pytest.raises(OSError, match="No space left") as error:
                file.pwrite_held(held, 0, 1000)
            assert (error.value.errno, error.value.filename) == (errno.ENOSPC, file.path)
            monkeypatch.setattr("os.splice", lambda *_, **__: 0)
            with pytest.raises(OSError, match="1000 bytes were left"):
                file.pwrite_held(_held_again(held), 0, 1000)


def _held_again(held: PipedBytes) -> PipedBytes:
    """Another of the same pool, that believes to hold as much."""
    other = held._pool.take()
    assert other is not None
    other._size = 1000
    return other


async def test_a_file_system_without_splice_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sent(tmp_path) as (_, receive):
        held = await held_of(receive, 50_000)

        def unknown(*_: object, **__: object) -> int:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        with target(tmp_path) as file:
            monkeypatch.setattr("os.splice", unknown)
            file.pwrite_held(held, 7, len(held))
            assert file.pread(7, 100_000) == DATA[: file.size_bytes - 7]


async def test_copies_are_written_whole_however_little_each_call_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splice, pwrite = os.splice, os.pwrite

    def unknown(source: int, target: int, count: int, **how: int) -> int:
        if "offset_dst" in how:
            raise OSError(errno.EINVAL, "Invalid argument")
        return splice(source, target, count, **how)

    async with sent(tmp_path) as (send, receive):
        monkeypatch.setattr("os.splice", unknown)
        with target(tmp_path) as file:
            held = await held_of(receive, 50_000)
            size = len(held)
            monkeypatch.setattr("os.pwrite", lambda fd, data, at: pwrite(fd, data[:1000], at))
            file.pwrite_held(held, 5, size)
            assert file.pread(5, size) == DATA[:size]
            monkeypatch.setattr("os.pwrite", lambda *_: 0)
            await send.send_all(DATA)
            held = await held_of(receive, 50_000)
            with pytest.raises(OSError, match="were left to be written"):
                file.pwrite_held(held, 5, len(held))
            assert len(held) == 0


async def test_pipes_are_bounded_then_bytes_come_into_memory(tmp_path: Path) -> None:
    before = descriptors()
    async with sent(tmp_path) as (_, receive):
        held: list[Held] = [await held_of(receive, 10) for _ in range(PIPES_MAX)]
        in_memory = await receive.receive_held(10)
        at = PIPES_MAX * 10
        assert in_memory == DATA[at : at + 10]
        del held[3]  # nobody wrote it: the pipe is closed, and another one may be opened
        await held_of(receive, 10)
        with target(tmp_path) as file:
            for number, each in enumerate(held):
                file.pwrite_held(each, number * 10, 10)
            assert file.pread(0, 1000) == DATA[:30] + DATA[40:at]
        for _ in range(3 * PIPES_MAX):  # written ones go round
            open_now = descriptors()
            again = await held_of(receive, 10)
            with scratch(tmp_path) as file:
                file.pwrite_held(again, 0, 10)
            assert descriptors() == open_now
    del held, each, again
    assert descriptors() == before


@contextmanager
def scratch(tmp_path: Path) -> Iterator[LocalFile]:
    path = tmp_path / "scratch"
    path.unlink(missing_ok=True)
    file = LocalDisk().open(str(path), "x")
    try:
        yield file
    finally:
        file.close()


@pytest.mark.parametrize("call", ["os.pipe", "fcntl.fcntl"])
async def test_without_pipes_or_large_ones_bytes_come_all_the_same(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sent(tmp_path) as (_, receive):

        def refused(*_: object) -> tuple[int, int]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr(call, refused)
        got = await receive.receive_held(1000)
        assert (got == DATA[:1000]) if call == "os.pipe" else len(got) == 1000


async def test_pipes_leave_half_of_the_descriptors_to_files(tmp_path: Path) -> None:
    async with sent(tmp_path) as (_, receive):
        held = [await held_of(receive, 10)]
        before, following = descriptors(), os.pipe()
        for each in following:
            os.close(each)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * max(following), limits[1]))
        try:
            assert await receive.receive_held(10) == DATA[10:20], "no pipe, so into memory"
            assert descriptors() == before
            with target(tmp_path) as file:
                file.pwrite_held(held.pop(), 0, 10)
                again = await held_of(receive, 10)  # the one that there is goes round
                file.pwrite_held(again, 10, 10)
                assert file.pread(0, 100) == DATA[:10] + DATA[20:30]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_what_is_held_outlives_its_stream(tmp_path: Path) -> None:
    before = descriptors()
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    _, send = client.halves()
    receive, _ = server.halves()
    await send.send_all(DATA)
    first, second = await held_of(receive, 1000), await held_of(receive, 1000)
    server.abort()
    with pytest.raises(trio.ClosedResourceError):
        await receive.receive_held(1)
    with target(tmp_path) as file:
        file.pwrite_held(first, 0, 1000)
        assert file.pread(0, 2000) == DATA[:1000]
    del second
    await network_contract.end(listener, client, server)
    assert descriptors() == before


async def test_waiting_for_bytes_ends_with_the_half_and_with_the_peer(tmp_path: Path) -> None:
    before = descriptors()
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    receive, _ = server.halves()
    near, _ = client.halves()

    async def wait_on(half: object, error: type[Exception]) -> None:
        with pytest.raises(error):
            await half.receive_held(1000)  # type: ignore[attr-defined]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_on, receive, trio.ClosedResourceError)
        nursery.start_soon(wait_on, near, trio.BrokenResourceError)
        await trio.testing.wait_all_tasks_blocked()
        server.abort()
    await network_contract.end(listener, client, server)
    assert descriptors() == before


async def test_only_bytes_of_this_system_are_written(tmp_path: Path) -> None:
    with target(tmp_path) as file, pytest.raises(TypeError, match="SimHeld"):
        file.pwrite_held(SimHeld(b"x"), 0, 1)
