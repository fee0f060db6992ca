"""Workers beside the event loop: the kernel itself or a thread carries out syncs (fdatasync,
fsync), a thread long reads (`run_in_thread`).

`KernelSync` asks for it by io_submit (Linux AIO, since 4.18), which answers through an eventfd that
Trio watches. The thread does the same for a third of the speed: it needs Python's lock between any
two calls, and gets it when the loop next waits (measured: 150 us of processor time against 50, and
twice as long, on a busy machine). So it is only used where the kernel refuses, as in some
containers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import attrs
import trio

T = TypeVar("T")

REQUESTS_MAX: Final = 64
"""How many files one call of the kernel takes."""

REFUSALS: Final = (errno.EAGAIN, errno.EINVAL)
"""The errors of io_submit when it takes no request now, or none for this file system. They tell
nothing about the file, so `fdatasync` is called instead."""

IDLE_MAX: Final = 32
"""How many contexts of closed workers are kept for new ones, such as those of the stores of a node
that starts again.
"""

_FSYNC: Final = 2  # IOCB_CMD_FSYNC of linux/aio_abi.h
_FDSYNC: Final = 3  # IOCB_CMD_FDSYNC
_ANSWER_BY_EVENTFD: Final = 1  # IOCB_FLAG_RESFD
_CALLS: Final = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
"""By processor, the numbers of io_setup, io_destroy, io_submit and io_getevents, which the C
library does not wrap."""


_idle: list[ctypes.c_ulong] = []
"""Contexts of closed workers, for new ones. The kernel takes some 40 ms to take one back, because
it waits until no processor uses it, and this holds up the loop: a node that stopped, or changed its
role, would pay that for the syncer of each store. When the process ends, the kernel takes all back
at once. They belong to this process, as a module's variables do, and not to its children.
"""
os.register_at_fork(after_in_child=_idle.clear)


class SyncWorker(Protocol):
    """Carries out one call at a time."""

    async def sync(self, files: Sequence[int], folders: Sequence[int] = ()) -> None:
        """Sync all bytes written to these descriptors before, and all names in these folders.

        Folders need fsync, as fdatasync guarantees no change that leaves a folder's size the same.
        It is shielded against cancellation.

        Raises: OSError, once all files have been tried.
        """

    def close(self) -> None:
        """Release everything; wait for a sync that is still running."""


class _Request(ctypes.Structure):
    """The `struct iocb` of linux/aio_abi.h, little-endian."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("file", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("answer_to", ctypes.c_uint32),
    )


class _Answer(ctypes.Structure):
    """The `struct io_event` of linux/aio_abi.h. `result` is 0 or minus the error's number."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class KernelSync:
    """A `SyncWorker` by the kernel's own workers. Raises: OSError: it has none that sync."""

    def __init__(self) -> None:
        calls = _CALLS.get(os.uname().machine)
        if calls is None or sys.maxsize < 1 << 32:  # a 32-bit program's calls have other numbers
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        setup, self._destroy, self._submit, self._get = calls
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._context, is_new = _context()
        if is_new:
            self._call(setup, REQUESTS_MAX, ctypes.byref(self._context))
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._requests = (_Request * REQUESTS_MAX)()
        self._pointers = (ctypes.c_void_p * REQUESTS_MAX)()
        self._answers = (_Answer * REQUESTS_MAX)()
        self._asked = 0  # of which no answer was taken
        self._unsure = False
        for number, request in enumerate(self._requests):
            request.flags = _ANSWER_BY_EVENTFD
            request.answer_to = self._done
            self._pointers[number] = ctypes.addressof(request)
        if is_new:
            try:
                self._probe()
            except OSError:
                self._unsure = True
                self.close()
                raise

    async def sync(self, files: Sequence[int], folders: Sequence[int] = ()) -> None:
        if self._unsure:
            raise OSError(errno.EIO, "answers of a sync that failed may still come")
        failed = 0
        wanted = [(file, _FDSYNC) for file in files] + [(folder, _FSYNC) for folder in folders]
        refused: list[tuple[int, int]] = []
        for first in range(0, len(wanted), REQUESTS_MAX):
            asked = wanted[first : first + REQUESTS_MAX]
            left = self._begin(asked)
            refused += asked[left:]
            while left:
                await _wait(self._done)
                os.eventfd_read(self._done)
                # At least 0, for that never waits: an answer may be taken before its signal comes,
                # and what it signals then is found by the next sync.
                found = self._take(0, left)
                left -= found
                failed = min([failed, *(self._answers[each].result for each in range(found))])
        if refused:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_sync_all, refused)
        if failed:
            raise OSError(-failed, os.strerror(-failed))

    def close(self) -> None:
        if self._done < 0:
            return
        if self._asked or self._unsure or len(_idle) >= IDLE_MAX:
            self._call(self._destroy, self._context)  # waits for what runs
        else:
            _idle.append(self._context)
        os.close(self._done)
        self._done = -1

    def _begin(self, files: Sequence[tuple[int, int]]) -> int:
        """Ask the kernel to sync these files. Returns: how many it took, for lack of room."""
        for request, (file, opcode) in zip(self._requests, files, strict=False):
            request.file = file
            request.opcode = opcode
        begun = 0
        while begun < len(files):  # ends: a call that takes nothing is an error
            pointers = ctypes.byref(self._pointers, begun * ctypes.sizeof(ctypes.c_void_p))
            try:
                more = self._call(self._submit, self._context, len(files) - begun, pointers)
            except OSError as error:
                if error.errno in REFUSALS:
                    break
                self._unsure = begun > 0  # the next sync would take their answers for its own
                raise
            begun += more
            self._asked += more
        return begun

    def _take(self, least: int, most: int) -> int:
        """Wait for the kernel's answers, into `_answers`. Returns: how many came."""
        found = self._call(self._get, self._context, least, most, self._answers, None)
        self._asked -= found
        return found

    def _call(self, number: int, *words: object) -> int:
        result: int = self._syscall(number, *words)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def _probe(self) -> None:
        """Try a sync that costs nothing; kernels before 4.18, and imitations, refuse it."""
        file = os.memfd_create("probe", os.MFD_CLOEXEC)
        try:
            if not self._begin([(file, _FDSYNC)]):
                raise OSError(errno.EINVAL, "this kernel does not sync by itself")
            self._take(1, 1)
            os.eventfd_read(self._done)
        finally:
            os.close(file)
        if self._answers[0].result:
            raise OSError(-self._answers[0].result, "this kernel does not sync by itself")


async def _wait(done: int) -> None:
    """Wait for a sync's eventfd, even when cancelled, because a sync cannot be called off.

    A cancel scope for each sync would cost as much as all other work for it here.
    """
    try:
        await trio.lowlevel.wait_readable(done)
    except trio.Cancelled:  # the caller's next checkpoint raises it again
        with trio.CancelScope(shield=True):
            await trio.lowlevel.wait_readable(done)


def _sync_all(files: Sequence[tuple[int, int]]) -> None:
    """Sync all files, even after a failure. Raises: OSError: of the first that failed."""
    failed: OSError | None = None
    for file, opcode in files:
        try:
            (os.fdatasync if opcode == _FDSYNC else os.fsync)(file)
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _context() -> tuple[ctypes.c_ulong, bool]:
    """Return a kept context and False, or a new one and True, which has to be set up."""
    try:
        return _idle.pop(), False
    except IndexError:
        return ctypes.c_ulong(0), True


@attrs.define(eq=False)
class ThreadSync:
    """A `SyncWorker` by a thread.

    It is woken through one eventfd and answers through another, which Trio watches. That takes half
    the time of `trio.to_thread`.
    """

    _wake: int = attrs.field(init=False)
    _done: int = attrs.field(init=False)
    _job: tuple[Sequence[int], Sequence[int]] | None = attrs.field(init=False, default=None)
    """The files and folders to sync next; None ends the thread."""
    _error: BaseException | None = attrs.field(init=False, default=None)
    _busy: bool = attrs.field(init=False, default=False)
    _thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._work, name="triolog-syncer", daemon=True)
        self._thread.start()

    async def sync(self, files: Sequence[int], folders: Sequence[int] = ()) -> None:
        self._job = tuple(files), tuple(folders)
        self._busy = True
        os.eventfd_write(self._wake, 1)
        await _wait(self._done)
        os.eventfd_read(self._done)
        self._busy = False
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        if self._busy:  # its caller was torn out by KeyboardInterrupt
            os.set_blocking(self._done, True)
            os.eventfd_read(self._done)
        self._job = None
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        os.close(self._done)

    def _work(self) -> None:
        while True:
            os.eventfd_read(self._wake)
            job = self._job
            if job is None:
                return
            self._error = RuntimeError("the sync thread ended in the middle of a sync")
            try:
                _sync_all([*((fd, _FDSYNC) for fd in job[0]), *((fd, _FSYNC) for fd in job[1])])
                self._error = None
            except OSError as error:
                self._error = error
            finally:
                os.eventfd_write(self._done, 1)


def sync_worker() -> SyncWorker:
    """Return the best kind of worker that this system has."""
    try:
        return KernelSync()
    except OSError:
        return ThreadSync()


async def run_in_thread(work: Callable[[], T], /) -> T:
    """Implement `RunBeside` by a thread of Trio, which costs some 100 us, so for longer work."""
    return await trio.to_thread.run_sync(work)
