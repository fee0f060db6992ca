"""The protocols of the outside world. Real: `tcp`, `local_disk`, `real`; simulated: `actors.sim`.

Rules for every implementation: async methods are checkpoints and may be cancelled at any of them;
a stream whose send was cancelled or failed is unusable afterwards. Disk methods other than
`Syncer.sync` are synchronous and never yield: the store writes inline. Failures are `OSError` with
the errno a real system gives. Using a half, stream or listener that was closed on this side raises
`trio.ClosedResourceError`; a connection that broke raises `trio.BrokenResourceError`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import attrs
import trio

T = TypeVar("T")


@attrs.frozen
class Address:
    """A host's IP address, or its name where it is connected to, and a port; for Unix sockets
    `host` is the path and `port` 0.
    """

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as text, with IPv6 in brackets, as upstream's NetworkUtil does."""
        if not self.port:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HostUnknown(OSError):
    """A host's name cannot be resolved, at least not now.

    Args:
        reason: the resolver's text.
        code: the resolver's number, below 0.
    """

    def __init__(self, host: str, reason: str, code: int) -> None:
        super().__init__(code, f"host name {host} cannot be resolved ({reason})")

    def __str__(self) -> str:
        """Return the text for people, without the number."""
        return str(self.strerror)


class Held(Protocol):
    """Received bytes that the system keeps, so that they never enter this program's memory.

    `File.pwrite_held` writes them to a file. They have one owner at a time; bytes that are not
    written are dropped with the last reference.
    """

    def __len__(self) -> int:
        """Return how many bytes are still to be written."""


class File(Protocol):
    """One open file. Positions and sizes in bytes. Closing twice is harmless."""

    @property
    def path(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    def pread(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`; fewer only at the end of the file."""

    def data_from(self, offset: int) -> tuple[int, int]:
        """Find the next range from `offset` on that may hold bytes other than zeros.

        All bytes from `offset` to the range are zeros, for instance in room that was prepared and
        never written. A system that does not know returns `offset` and the file's end.

        Returns: where the range begins and ends; twice an offset not below the file's end if
            nothing follows.
        """

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`.

        Raises: OSError, after a short write, too. How much of it was written is undefined.
        """

    def pwrite_held(self, held: Held, offset: int, size: int) -> None:
        """Write the first `size` bytes of `held` at `offset`; it keeps the rest.

        Raises: OSError: how much of it was written is undefined, and `held` is empty.
        """

    def resize(self, size_bytes: int) -> None:
        """Cut the file, or extend it with zeros as a sparse file."""

    def prepare(self, offset: int, size: int) -> None:
        """Allocate blocks for the range, so that ENOSPC is raised here and not by a write.

        The content stays the same. A file that ends before the range's end grows to it, with zeros.
        """

    def sync(self) -> None:
        """Run fdatasync, blocking; for start, stop and small files. The data path uses `Syncer`."""

    def close(self) -> None: ...


class FileLock(Protocol):
    """An exclusive lock, held until it is released or the process ends."""

    def release(self) -> None: ...


def process_text(pid: int) -> str:
    """Describe, for people, a process that holds a lock.

    Args:
        pid: the number of the process; 0 or less if the kernel does not tell it.
    """
    if pid > 0:
        return f"process {pid}"
    return "a process that cannot be seen from here, of another container or machine"


class LockedByOther(OSError):
    """Another process holds the lock.

    Attributes:
        pid: the number of that process; 0 if it is not known, see `process_text`.
    """

    pid: int = 0


class LockedByUs(OSError):
    """This process already holds the lock."""


SYNC_PATHS_MAX = 64
"""How many paths are given to one call of a syncer, far below the usual limit of 1,024 open files.
"""


class Syncer(Protocol):
    """Runs fdatasync beside the event loop, one call at a time."""

    async def sync(self, paths: Sequence[str]) -> None:
        """Sync files, so that all bytes written to them before the call are on the disk.

        A path may be that of a folder, whose names are synced then. All paths are open at once, so
        a caller with many gives at most `SYNC_PATHS_MAX` at a time. A file may be removed once the
        call has begun, not before.

        It cannot be cancelled half way: a cancelled caller still waits for the end of the sync.

        Raises: OSError: the sync failed, which is final. trio.BusyResourceError: another call runs.
        """

    def forget(self, paths: Sequence[str]) -> None:
        """Close files that were deleted or renamed, because an open file keeps its blocks.

        A file that is being synced is closed when that sync has ended. Unknown paths are ignored.
        """

    def close(self) -> None:
        """Release the worker and the files that it keeps open. No call may be running."""


LOST_AND_FOUND: Final = "lost+found"
"""The folder that file systems have in their roots, with mode 700; no file of a node has this name.
"""
FileKind: TypeAlias = Literal["file", "folder", "named pipe", "socket", "device"]


@attrs.frozen
class FileStat:
    size_bytes: int
    modified_ms: int
    kind: FileKind = "file"


class Disk(Protocol):
    """Files by absolute path, as strings."""

    def open(self, path: str, mode: str) -> File:
        """Open a file, without ever waiting for another process.

        A created file's name is durable only after `sync_dir` of its folder.

        Args:
            mode: "r" to read only, "w" to read and write an existing file, "x" to create a new one.

        Raises: OSError; one reason is that the path is no file.
        """

    def exists(self, path: str) -> bool: ...
    def has_name(self, path: str) -> bool:
        """Return whether the path exists, as `exists` does, or is a link that leads nowhere."""

    def stat(self, path: str) -> FileStat: ...
    def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted, without LOST_AND_FOUND; [] without a folder."""

    def names(self, path: str) -> Iterator[str]:
        """Yield the same names in any order, for a folder that may have tens of thousands.

        They are read little by little, so names that come or go meanwhile may be missing or not.
        """

    def mkdir(self, path: str, *, sync: bool = True) -> None:
        """Make the folder and its parents; harmless if it exists.

        The new entries are synced. If `sync` is false, the caller has to sync the folders that hold
        them.
        """

    def rename(self, source: str, target: str) -> None:
        """Rename a file atomically, replacing `target`. This is durable only after `sync_dir`."""

    def exchange(self, one: str, other: str) -> None:
        """Exchange the names of two files in one step, which needs no room.

        This is durable only after `sync_dir`.

        Raises: OSError: with EINVAL, ENOSYS or EOPNOTSUPP if the file system cannot do this.
        """

    def unlink(self, path: str) -> None: ...
    def rmtree(self, path: str) -> None:
        """Remove a folder with all in it.

        A folder that is a link or a mount stays, empty, because an operator chose its place. So
        does one in which only LOST_AND_FOUND remains.
        """

    def sync_dir(self, path: str) -> None: ...
    def usage(self, path: str) -> float:
        """Return the used share of the file system that holds `path`, 0.0 to 1.0."""

    def free_bytes(self, path: str) -> int:
        """Return how many further bytes this user may have of the file system of `path`."""

    def free_files(self, path: str) -> int | None:
        """Return how many further files the file system takes; None if it has no such bound."""

    def lock(self, path: str) -> FileLock:
        """Take an exclusive POSIX record lock on byte 0, as Java's FileChannel.lock; make the file.

        Raises: LockedByOther. LockedByUs, by a table of the process, as such a lock does not
            exclude its own process.
        """

    def syncer(self) -> Syncer:
        """Return a new syncer, which the caller closes."""


class SendHalf(Protocol):
    """The sending half of a stream, for one task at a time."""

    def send_now(self, data: bytes) -> int:
        """Send what there is room for now, without waiting; `send_all` sends the rest.

        Returns: how many bytes were sent, perhaps 0.

        Raises: the errors of `send_all`.
        """

    async def send_all(self, data: bytes | bytearray | memoryview) -> None: ...
    async def send_file(self, file: File, offset: int, size: int) -> None:
        """Send `size` bytes of `file` from `offset`, in chunks with a checkpoint between them.

        The bytes must not change any more, because bytes that are overwritten later can still reach
        the peer in their new form.

        Raises: OSError: the file ends early, among other reasons.
        """

    async def aclose(self) -> None:
        """Close this half: the peer reads the end of the stream.

        The socket closes with the second half.
        """


class ReceiveHalf(Protocol):
    """The receiving half of a stream, for one task at a time."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Receive at least one byte; b"" at the end of the stream."""

    @property
    def hold_from_bytes(self) -> int:
        """The number of bytes from which on holding them is cheaper than receiving them."""

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        """Receive as `receive_some` does, but leave the bytes in the system while it has room.

        They can be written even after the stream is closed, to files of the same system only.
        """

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        """Receive as `receive_some` or `receive_held` does; return None instead of waiting."""

    async def aclose(self) -> None: ...


class Stream(Protocol):
    """A connected TCP or Unix stream with TCP_NODELAY."""

    @property
    def local(self) -> Address: ...
    @property
    def remote(self) -> Address: ...
    def halves(self) -> tuple[ReceiveHalf, SendHalf]:
        """Return the two halves, each for one owner."""

    def trio_stream(self) -> trio.abc.Stream:
        """Return the connection with Trio's interface, for libraries, in place of `halves`."""

    def abort(self) -> None:
        """Close both halves at once, without waiting, so that the peer's reads and writes break.

        Pending operations on this side raise. It is harmless if the stream is closed.
        """


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """The address where it listens, with the port that the system chose for port 0."""

    async def accept(self) -> Stream:
        """Return the next connection. It ignores one that failed before it was accepted."""

    async def aclose(self) -> None: ...


class Network(Protocol):
    """TCP and Unix sockets. Errors: OSError; broken streams raise trio.BrokenResourceError."""

    async def listen(self, host: str, port: int) -> Listener:
        """Listen at an address, with SO_REUSEADDR.

        Raises: OSError: with EADDRINUSE or EADDRNOTAVAIL and the address in its text.
        """

    async def connect(self, host: str, port: int, *, local_host: str | None = None) -> Stream:
        """Connect to a host. A name is resolved at each call.

        Args:
            local_host: the own address to connect from, by which the peer distinguishes nodes of
                one machine; only a name's addresses of its family are tried. An IP address of the
                other family is connected to from any own address. None: any.

        Raises: HostUnknown: the name cannot be resolved.
        """

    async def listen_unix(self, path: str) -> Listener:
        """Listen at a socket file of mode 0600; replace a stale one."""

    async def connect_unix(self, path: str) -> Stream: ...


class SecretStore(Protocol):
    """The source of secrets, and where they are kept."""

    def fresh(self, size: int) -> bytes:
        """Return `size` random bytes, which cannot be guessed."""

    def read(self, path: str) -> bytes | None:
        """Return the secret in this file; None if there is none that this process may read.

        Raises: ConfigError: others may read the file, it belongs to another user, or it holds no
            secret.
        """

    def make(self, path: str) -> None:
        """Make a file with a fresh secret, for this user alone, if none exists. Raises: OSError."""


class NoSecretStore:
    """The secret store of a world without secrets, such as the simulator's."""

    def fresh(self, size: int) -> bytes:
        raise AssertionError("this world has no source of secrets")

    def read(self, path: str) -> bytes | None:
        return None

    def make(self, path: str) -> None:
        raise AssertionError("this world keeps no secrets")


class RunBeside(Protocol):
    """Runs plain work that takes long, and waits for no other part of the program."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Run `work`, and return or raise what it does.

        When this ends, even by a cancellation, `work` has ended. It may run in a thread, so nothing
        that it uses may be used meanwhile. A thread pays off if `work` releases Python's lock, as a
        read and a CRC-32 of many bytes do.
        """


async def run_here(work: Callable[[], T], /) -> T:
    """Run `work` on the loop; implements `RunBeside` in simulation, without threads."""
    await trio.lowlevel.checkpoint()
    return work()


EventSink = Callable[[str, int, Any], None]
"""`events(path, incarnation, event)` takes one event, synchronously, and never raises."""


@attrs.frozen(kw_only=True)
class Env:
    """One node's world. Time itself is `trio.current_time()` everywhere.

    Attributes:
        rng: the only source of randomness, but for what must not be guessed.
        wall_clock_ms: milliseconds since 1970 as this node believes them, for store timestamps and
            events.
        events: where emitted events go.
        run_beside: keeps long reads off the loop.
        tell_hook: awaited before each tell; only simulation has one, to make tells yield.
        process: the number of the process that the node is in; 0: none, in simulation.
        secret_store: the source of what must not be guessed, and where it is kept.
    """

    network: Network
    disk: Disk
    rng: random.Random
    wall_clock_ms: Callable[[], int]
    events: EventSink
    run_beside: RunBeside = run_here
    tell_hook: Callable[[], Awaitable[None]] | None = None
    process: int = 0
    secret_store: SecretStore = attrs.field(factory=NoSecretStore)
