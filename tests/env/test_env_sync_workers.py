"""The two ways to sync beside the loop, and which is taken. See test_env_disk_syncer for files."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from actors.env import sync_workers
from actors.env.sync_workers import REQUESTS_MAX, KernelSync, SyncWorker, ThreadSync, sync_worker

pytestmark = pytest.mark.real_io

SETUP, DESTROY, _, GET_EVENTS = sync_workers._CALLS[os.uname().machine]


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """No contexts of earlier tests' workers."""
    found: list[Any] = []
    monkeypatch.setattr(sync_workers, "_idle", found)
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the kernel's calls that set a context up, or give it back."""
    call, made = KernelSync._call, list[int]()

    def seen(self: KernelSync, number: int, *words: object) -> int:
        if number in (SETUP, DESTROY):
            made.append(number)
        return call(self, number, *words)

    monkeypatch.setattr(KernelSync, "_call", seen)
    return made


def opened(folder: Path, count: int) -> list[int]:
    return [os.open(folder / str(n), os.O_RDWR | os.O_CREAT) for n in range(count)]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """What the kernel seems to answer instead of 0, by the number of the answer, from 1."""
    reported: dict[int, int] = {}
    call, count = KernelSync._call, 0

    def changed(self: KernelSync, number: int, *words: object) -> int:
        nonlocal count
        result = call(self, number, *words)
        if number == GET_EVENTS:
            for each in range(result):
                count += 1
                self._answers[each].result = reported.get(count, 0)
        return result

    monkeypatch.setattr(KernelSync, "_call", changed)
    return reported


@pytest.mark.parametrize("kind", [KernelSync, ThreadSync])
async def test_a_worker_syncs_any_number_of_files(tmp_path: Path, kind: Any) -> None:
    files = opened(tmp_path, 2 * REQUESTS_MAX + 3)
    worker: SyncWorker = kind()
    for count in (0, 1, 2, REQUESTS_MAX, len(files), 1):
        await worker.sync(files[:count])
    worker.close()
    for file in files:
        os.close(file)


async def test_the_kernel_is_asked_for_the_files_that_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(tmp_path, 3)
    worker = KernelSync()
    asked: list[tuple[int, int]] = []
    call = KernelSync._call

    def seen(self: KernelSync, number: int, *words: object) -> int:
        if number == self._submit:
            asked.extend((each.file, each.opcode) for each in self._requests[: words[1]])  # type: ignore[misc]
        return call(self, number, *words)

    monkeypatch.setattr(KernelSync, "_call", seen)
    await worker.sync([files[2], files[0]])
    assert asked == [(files[2], sync_workers._FDSYNC), (files[0], sync_workers._FDSYNC)]
    worker.close()
    for file in files:
        os.close(file)


async def test_one_file_that_fails_fails_the_sync_after_all_were_tried(
    tmp_path: Path, answers: dict[int, int]
) -> None:
    files = opened(tmp_path, REQUESTS_MAX + 2)
    worker = KernelSync()
    answers[3] = -errno.EIO  # the probe's was the first
    with pytest.raises(OSError, match="Input/output error") as found:
        await worker.sync(files)
    assert found.value.errno == errno.EIO
    await worker.sync(files)  # nothing of the failed one is left
    worker.close()
    for file in files:
        os.close(file)


async def test_a_signal_that_came_late_is_not_taken_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the sync before, whose answers were taken already: whoever waited in the kernel then would
    hold up the loop, and a signal would look like a failed sync.
    """
    files = opened(tmp_path, 2)
    worker = KernelSync()
    call, least = KernelSync._call, set[object]()

    def seen(self: KernelSync, number: int, *words: object) -> int:
        if number == GET_EVENTS:
            least.add(words[1])
        return call(self, number, *words)

    monkeypatch.setattr(KernelSync, "_call", seen)
    os.eventfd_write(worker._done, 1)
    await worker.sync(files)
    assert least == {0}
    worker.close()
    for file in files:
        os.close(file)


async def test_what_cannot_be_synced_is_an_error() -> None:
    worker = KernelSync()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await worker.sync([10_000])
    worker.close()
    worker.close()


async def test_a_sync_of_the_kernel_cannot_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(tmp_path, 1)
    worker = KernelSync()
    wait, gate, ended = trio.lowlevel.wait_readable, trio.Event(), False

    async def held(done: int) -> None:
        await gate.wait()
        await wait(done)

    monkeypatch.setattr("trio.lowlevel.wait_readable", held)

    async def sync() -> None:
        nonlocal ended
        await worker.sync(files)
        ended = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
        assert not ended
        gate.set()
    assert ended
    worker.close()
    os.close(files[0])


def test_the_kernel_is_taken_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = sync_worker()
    assert isinstance(worker, KernelSync)
    worker.close()


@pytest.mark.parametrize("why", ["another machine", "refused"])
def test_a_thread_stands_in(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "another machine":
        monkeypatch.setattr(sync_workers, "_CALLS", {})
    else:
        no_such_call = dict.fromkeys(sync_workers._CALLS, (100_000, 0, 0, 0))
        monkeypatch.setattr(sync_workers, "_CALLS", no_such_call)
    before = len(os.listdir("/proc/self/fd"))
    worker = sync_worker()
    assert isinstance(worker, ThreadSync)
    worker.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_kernel_that_takes_no_syncs_is_found_out(answers: dict[int, int]) -> None:
    answers[1] = -errno.EINVAL
    before = len(os.listdir("/proc/self/fd"))
    worker = sync_worker()
    assert isinstance(worker, ThreadSync)
    worker.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_answers_that_may_still_come_are_no_later_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(tmp_path, 3)
    worker = KernelSync()
    submit, call = worker._submit, KernelSync._call
    asked: list[int] = []

    def takes_one(self: KernelSync, number: int, *words: Any) -> int:
        if number != submit:
            return call(self, number, *words)
        asked.append(words[1])
        if len(asked) > 1:
            raise OSError(errno.ENOMEM, "no memory")
        return call(self, number, words[0], 1, words[2])

    monkeypatch.setattr(KernelSync, "_call", takes_one)
    with pytest.raises(OSError, match="no memory"):
        await worker.sync(files)
    assert asked == [3, 2]
    with pytest.raises(OSError, match="may still come"):
        await worker.sync(files[:1])
    worker.close()
    for file in files:
        os.close(file)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EINVAL])
@pytest.mark.parametrize("taken", [0, 1])
async def test_what_the_kernel_takes_no_request_for_is_synced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, taken: int
) -> None:
    files = opened(tmp_path, 3)
    worker = KernelSync()
    submit, call, fdatasync = worker._submit, KernelSync._call, os.fdatasync
    refusals, synced = [code], list[int]()

    def refuses(self: KernelSync, number: int, *words: Any) -> int:
        if number != submit or not refusals:
            return call(self, number, *words)
        if taken and words[1] == len(files):
            return call(self, number, words[0], taken, words[2])
        raise OSError(refusals.pop(), "not now")

    def seen(file: int) -> None:
        synced.append(file)
        fdatasync(file)

    monkeypatch.setattr(KernelSync, "_call", refuses)
    monkeypatch.setattr(os, "fdatasync", seen)
    await worker.sync(files)
    assert synced == files[taken:]
    await worker.sync(files)  # nothing of it is left, and the kernel is asked again
    assert synced == files[taken:]
    refusals.append(code)
    monkeypatch.setattr(os, "fdatasync", failing_sync)
    with pytest.raises(OSError, match="Input/output error"):
        await worker.sync(files)
    worker.close()
    for file in files:
        os.close(file)


def failing_sync(file: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_a_32_bit_program_has_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_workers.sys, "maxsize", (1 << 31) - 1)
    worker = sync_worker()
    assert isinstance(worker, ThreadSync)
    worker.close()


async def test_a_closed_worker_leaves_its_context_to_the_next(
    tmp_path: Path, idle: list[Any], calls: list[int]
) -> None:
    files = opened(tmp_path, 3)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        one, other = KernelSync(), KernelSync()
        await one.sync(files)
        await other.sync(files[1:])
        await one.sync(files[:1])
        one.close()
        other.close()
        one.close()
        assert len(os.listdir("/proc/self/fd")) == before
    assert calls == [SETUP, SETUP]
    assert len(idle) == 2
    for file in files:
        os.close(file)


async def test_the_kernel_is_asked_to_fsync_folders(tmp_path: Path) -> None:
    files, folder = opened(tmp_path, 2), os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    worker = KernelSync()
    await worker.sync(files, [folder])
    asked = {request.file: request.opcode for request in worker._requests if request.file}
    assert asked == {**dict.fromkeys(files, sync_workers._FDSYNC), folder: sync_workers._FSYNC}
    worker.close()
    for fd in (*files, folder):
        os.close(fd)


def test_a_context_with_answers_to_come_is_nobody_else_s(
    tmp_path: Path, idle: list[Any], calls: list[int]
) -> None:
    files = opened(tmp_path, 1)
    worker = KernelSync()
    worker._begin([(files[0], sync_workers._FDSYNC)])
    worker.close()  # waits for it
    assert (calls, idle) == ([SETUP, DESTROY], [])
    os.close(files[0])


def test_contexts_that_are_kept_are_bounded(
    idle: list[Any], calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_workers, "IDLE_MAX", 2)
    workers = [KernelSync() for _ in range(4)]
    for worker in workers:
        worker.close()
    assert calls == [SETUP] * 4 + [DESTROY] * 2
    assert len(idle) == 2


FORK = """
import os, sys
from actors.env import sync_workers
sync_workers.KernelSync().close()
assert len(sync_workers._idle) == 1
child = os.fork()
if not child:
    assert not sync_workers._idle
    sync_workers.KernelSync().close()
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_has_none_of_its_parent() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", FORK], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")
