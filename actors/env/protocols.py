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
        return f"{self.host}:{self.port}" if self.port else self.host


class HostUnknown(OSError):
    """A host's name cannot be resolved, now at least.

    Args:
        reason: the resolver's words.
        code: its number, below 0.
    """

    def __init__(self, host: str, reason: str, code: int) -> None:
        super().__init__(code, f"host name {host} cannot be resolved ({reason})")

    def __str__(self) -> str:
        """One line for people, without the number."""
        return str(self.strerror)


class Held(Protocol):
    """Received bytes that the system keeps: `File.pwrite_held` puts them into a file, and they have
    never been in this program's memory.

    One owner at a time; who has none any more, and was not written, is gone with its last
    reference.
    """

    def __len__(self) -> int:
        """How many bytes are still to be written."""


class File(Protocol):
    """One open file. Positions and sizes in bytes. Closing twice is harmless."""

    @property
    def path(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    def pread(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at `offset`; shorter only at the end of the file."""

    def data_from(self, offset: int) -> tuple[int, int]:
        """Where, from `offset` on, the next stretch begins that may hold anything but zeros, and
        where it ends: all before it are zeros.

        `offset` and the file's end, unless the system knows better, as of room that was prepared
        and never written. Twice the same place, not before the file's end, if nothing follows.
        """

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`.

        A short write raises OSError; what was written of it is undefined.
        """

    def pwrite_held(self, held: Held, offset: int, size: int) -> None:
        """Write the first `size` bytes of `held` at `offset`; it holds the rest from then on.

        On OSError what was written of it is undefined, and `held` is empty.
        """

    def resize(self, size_bytes: int) -> None:
        """Cut or extend with zeros (sparse)."""

    def prepare(self, offset: int, size: int) -> None:
        """Have blocks allocated for the range; raises ENOSPC before a write would.

        Content is unchanged; a file that is shorter than the range grows to its end, with zeros.
        """

    def sync(self) -> None:
        """fdatasync, blocking. For start, stop and small files: the data path uses `Syncer`."""

    def close(self) -> None: ...


class FileLock(Protocol):
    """An exclusive lock held until released or the process ends."""

    def release(self) -> None: ...


def process_text(pid: int) -> str:
    """A process that holds a lock, for people. Args: pid: 0 or less if the kernel names none."""
    if pid > 0:
        return f"process {pid}"
    return "a process that cannot be seen from here, of another container or machine"


class LockedByOther(OSError):
    """Another process holds the lock.

    Attributes:
        pid: its number; 0: it is not known, see `process_text`.
    """

    pid: int = 0


class LockedByUs(OSError):
    """This process already holds the lock."""


SYNC_PATHS_MAX = 64
"""Paths that are given to one call of a syncer: far below the usual limit of 1,024 open files."""


class Syncer(Protocol):
    """Runs fdatasync beside the event loop, one call at a time."""

    async def sync(self, paths: Sequence[str]) -> None:
        """Return when all bytes written to these files before the call are on the disk.

        A path may be a folder's, of which the names are then. All are open at once, so whoever has
        many gives some at a time (`SYNC_PATHS_MAX`).

        Not cancellable half way: a cancelled caller still waits until the running sync has ended.
        A file may be removed once the call has begun, not before. Raises: OSError, which is final;
        trio.BusyResourceError while another call runs.
        """

    def forget(self, paths: Sequence[str]) -> None:
        """Close files that were deleted or renamed, because an open file keeps its blocks.

        One that is being synced is closed when that sync has ended. Harmless for others.
        """

    def close(self) -> None:
        """Release its worker and the files it keeps open. Nothing may be in flight."""


LOST_AND_FOUND: Final = "lost+found"
"""The file system's own folder in its root, with mode 700: nothing of ours has this name."""
FileKind: TypeAlias = Literal["file", "folder", "named pipe", "socket", "device"]


@attrs.frozen
class FileStat:
    size_bytes: int
    modified_ms: int
    kind: FileKind = "file"


class Disk(Protocol):
    """Files by absolute path, as strings."""

    def open(self, path: str, mode: str) -> File:
        """`mode`: "r" read only, "w" read and write an existing file, "x" create a new one.

        A created file's name is durable only after `sync_dir` of its folder. Never waits for
        anybody. Raises: OSError: it is no file, among other reasons.
        """

    def exists(self, path: str) -> bool: ...
    def has_name(self, path: str) -> bool:
        """As `exists`, and true also of a link that leads nowhere."""

    def stat(self, path: str) -> FileStat: ...
    def listdir(self, path: str) -> list[str]:
        """Names in the folder, sorted, without LOST_AND_FOUND. Empty if there is no such folder."""

    def names(self, path: str) -> Iterator[str]:
        """The same in no order, read little by little: of a folder that may have tens of thousands.

        Of names that come or go meanwhile nothing is said.
        """

    def mkdir(self, path: str, *, sync: bool = True) -> None:
        """Make the folder and its parents; harmless if it exists.

        The entries are synced, unless `sync` is false: then the folders that hold them are to be.
        """

    def rename(self, source: str, target: str) -> None:
        """Atomically, replacing `target`. Durable only after `sync_dir`."""

    def exchange(self, one: str, other: str) -> None:
        """Two files change names in one step. Durable only after `sync_dir`; takes no room.

        Raises: OSError of EINVAL, ENOSYS or EOPNOTSUPP: this file system cannot.
        """

    def unlink(self, path: str) -> None: ...
    def rmtree(self, path: str) -> None:
        """Remove a folder with all in it.

        One that is a link or a mount stays, empty: who put it there meant its place. So does one in
        which LOST_AND_FOUND is left.
        """

    def sync_dir(self, path: str) -> None: ...
    def usage(self, path: str) -> float:
        """Used share of the file system that holds `path`, 0.0 to 1.0."""

    def free_files(self, path: str) -> int | None:
        """How many files it still takes, whatever they hold; None: it has no such bound."""

    def lock(self, path: str) -> FileLock:
        """Exclusive POSIX record lock on byte 0 (as Java's FileChannel.lock); makes the file.

        Raises: LockedByOther; LockedByUs (POSIX locks do not see their own process, so a table is
            kept per process).
        """

    def syncer(self) -> Syncer:
        """A new syncer; the caller closes it."""


class SendHalf(Protocol):
    """The sending half of a stream. One task at a time."""

    def send_now(self, data: bytes) -> int:
        """Send what there is room for now, perhaps nothing, and say how many bytes; never waits.

        The rest goes by `send_all`. Raises: as that.
        """

    async def send_all(self, data: bytes | bytearray | memoryview) -> None: ...
    async def send_file(self, file: File, offset: int, size: int) -> None:
        """Send `size` bytes of `file` from `offset`.

        In chunks of at most 256 KiB with a checkpoint between. The bytes may not change any more:
        what is overwritten later can still reach the peer in its new form. Raises OSError if the
        file ends early.
        """

    async def aclose(self) -> None:
        """Close this half: the peer reads the end of the stream.

        The socket closes with the second half.
        """


class ReceiveHalf(Protocol):
    """The receiving half of a stream. One task at a time."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Receive at least one byte; b"" at the end of the stream."""

    @property
    def hold_from_bytes(self) -> int:
        """From how many bytes on it is cheaper to hold them than to receive them."""

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        """As `receive_some`, but the bytes stay in the system as long as it has room for them.

        They can be written when the stream is closed, and to files of the same system only.
        """

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        """As `receive_some` or `receive_held`, but None instead of waiting."""

    async def aclose(self) -> None: ...


class Stream(Protocol):
    """A connected TCP or Unix stream with TCP_NODELAY."""

    @property
    def local(self) -> Address: ...
    @property
    def remote(self) -> Address: ...
    def halves(self) -> tuple[ReceiveHalf, SendHalf]:
        """The two halves, each for one owner."""

    def trio_stream(self) -> trio.abc.Stream:
        """The same connection with Trio's interface, for libraries. Not together with `halves`."""

    def abort(self) -> None:
        """Close both halves at once, without waiting: the peer's reads and writes break.

        Pending operations on this side raise. Harmless when closed.
        """


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """The address where it listens, with the port that the system chose for port 0."""

    async def accept(self) -> Stream:
        """The next connection. Never raises for a connection that failed before it was accepted."""

    async def aclose(self) -> None: ...


class Network(Protocol):
    """TCP and Unix sockets. Errors: OSError; broken streams raise trio.BrokenResourceError."""

    async def listen(self, host: str, port: int) -> Listener:
        """SO_REUSEADDR is on. OSError EADDRINUSE or EADDRNOTAVAIL names the address."""

    async def connect(self, host: str, port: int, *, local_host: str | None = None) -> Stream:
        """Connect to a host; a name is resolved at each call.

        Args:
            local_host: the own address to come from, so that the peer can distinguish nodes of one
                machine; only addresses of its family are tried.

        Raises: HostUnknown.
        """

    async def listen_unix(self, path: str) -> Listener:
        """Replaces a stale socket file. The file's mode is 0600."""

    async def connect_unix(self, path: str) -> Stream: ...


class SecretStore(Protocol):
    """The source of secrets, and where they are kept."""

    def fresh(self, size: int) -> bytes:
        """That many random bytes, which cannot be guessed."""

    def read(self, path: str) -> bytes | None:
        """The secret in this file; None: there is none that this process may read.

        Raises: ConfigError: others may read the file, or it is another user's, or no secret.
        """

    def make(self, path: str) -> None:
        """Put a fresh secret there for this user alone, unless there is a file. Raises: OSError."""


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
        """Run `work`, and return or raise what it does. It has ended then, even if this is
        cancelled.

        It may run in a thread, so nothing that it uses may be used meanwhile. That pays where it
        gives Python's lock back, as a read and a CRC-32 of many bytes do.
        """


async def run_here(work: Callable[[], T], /) -> T:
    """`RunBeside` where there is nothing beside the loop, as in simulation."""
    await trio.lowlevel.checkpoint()
    return work()


EventSink = Callable[[str, int, Any], None]
"""`events(path, incarnation, event)`: takes one event, synchronously, never raising."""


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
