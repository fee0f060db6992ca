"""The real network: TCP and Unix sockets on Trio. The only module with sockets.

Differs from `trio.SocketStream` where the HA connection needs it: the two halves of a stream have
one owner each and end on their own, a connection can be reset (SO_LINGER 0), and files are sent by
`os.sendfile`.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket as stdlib_socket
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import trio

from actors.env.file_kinds import open_folder
from actors.env.local_disk import LocalFile
from actors.env.pipes import PipedBytes, PipePool
from actors.env.protocols import Address, File, Held, HostUnknown
from actors.owners import only_theirs

SEND_FILE_CHUNK_BYTES = 1 << 20
"""The most bytes that one `sendfile` moves between two checkpoints, in some 200 us, if the socket
takes that much. Each call costs a turn of the loop, which is more than sending few bytes costs.
"""
ACCEPT_PAUSE_S = 0.1
"""The pause in seconds after accept failed for lack of descriptors or memory, as in Trio's own
listeners."""
LISTEN_BACKLOG = 4096
"""The backlog that is asked of the system, which limits it to net.core.somaxconn."""

UNIX_PATH_BYTES_MAX = 107
"""The longest path of a socket: struct sockaddr_un holds 108 bytes with the final zero."""

_LOG = logging.getLogger("triolog.env.tcp")
_PEER_CREDENTIALS = struct.Struct("iII")  # struct ucred: process, user, group
_ACCEPT_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_FATAL = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})
_FILE_ERRORS = frozenset({errno.EIO, errno.EINVAL, errno.EOVERFLOW, errno.ENOMEM, errno.EBADF})
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, 0 seconds


class ForeignServer(PermissionError):
    """A socket file is served by a user who may not."""


def _named(error: OSError, where: str) -> OSError:
    """Return the same error, of the same subclass of OSError, with the address in its text."""
    code = error.errno
    if isinstance(error, HostUnknown):
        return error
    if isinstance(error, ForeignServer):
        return ForeignServer(code, f"{where}: {error.strerror}")
    if code is None:  # a path that is too long
        return OSError(errno.EINVAL, f"{error}: {where}")
    # Trio's words repeat the address as a tuple.
    text = os.strerror(code) if code in errno.errorcode else error.strerror or str(error)
    return OSError(code, f"{text}: {where}")


def _address(raw: object) -> Address:
    assert isinstance(raw, tuple), raw  # IPv4: host, port; IPv6: two more
    return Address(str(raw[0]), int(raw[1]))


@attrs.define(eq=False)
class TcpStream:
    """A connected stream; implements `Stream`."""

    local: Address
    remote: Address
    _socket: trio.socket.SocketType
    _halves_open: int = attrs.field(init=False, default=2)
    pipes: PipePool = attrs.field(init=False, factory=PipePool)

    def halves(self) -> tuple[TcpReceiveHalf, TcpSendHalf]:
        return TcpReceiveHalf(self), TcpSendHalf(self)

    def trio_stream(self) -> trio.abc.Stream:
        return trio.SocketStream(self._socket)

    def abort(self) -> None:
        if self.closed:
            return
        with contextlib.suppress(OSError):
            self._socket.setsockopt(
                stdlib_socket.SOL_SOCKET, stdlib_socket.SO_LINGER, _RESET_ON_CLOSE
            )
        self._close()

    def _close(self) -> None:
        self._socket.close()
        self.pipes.close()

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._socket

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def end_receiving(self) -> None:
        self.end_half(stdlib_socket.SHUT_RD)

    def end_half(self, direction: int) -> None:
        """Shut one direction down, which wakes a task that waits in it; the second call closes."""
        self._halves_open -= 1
        if self._halves_open == 0:
            self._close()
        elif not self.closed:
            with contextlib.suppress(OSError):  # ENOTCONN: the peer has reset it already
                self._socket.shutdown(direction)


@attrs.define(eq=False)
class TcpSendHalf:
    """The sending half of a `TcpStream`; implements `SendHalf`."""

    _stream: TcpStream
    _closed: bool = attrs.field(init=False, default=False)
    _sending: bool = attrs.field(init=False, default=False)
    _unusable: bool = attrs.field(init=False, default=False)

    def send_now(self, data: bytes) -> int:
        self._begin()
        try:
            sent = os.write(self._stream.socket.fileno(), data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise self._broken(error) from error
        finally:
            self._sending = False
        self._unusable = False
        return sent

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._begin()
        try:
            with memoryview(data) as view, view.cast("B") as rest:
                sent = 0
                while sent < len(rest):
                    with rest[sent:] as part:
                        sent += await self._stream.socket.send(part)
                if not len(rest):
                    await trio.lowlevel.checkpoint()
        except OSError as error:
            raise self._broken(error) from error
        finally:
            self._sending = False
        self._unusable = False

    async def send_file(self, file: File, offset: int, size: int) -> None:
        if not isinstance(file, LocalFile):
            raise TypeError(f"a socket sends local files, not {type(file).__name__}")
        self._begin()
        try:
            await self._send_file(file, offset, size)
        except OSError as error:
            if error.errno in _FILE_ERRORS and not self._stream.closed:
                raise
            raise self._broken(error) from error
        finally:
            self._sending = False
        self._unusable = False

    async def _send_file(self, file: LocalFile, offset: int, size: int) -> None:
        end = offset + size
        while True:
            await trio.lowlevel.checkpoint()
            if offset >= end:
                return
            count = min(end - offset, SEND_FILE_CHUNK_BYTES)
            try:
                sent = os.sendfile(self._stream.socket.fileno(), file.fileno(), offset, count)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._stream.socket)
                continue
            if sent == 0:
                raise OSError(errno.EIO, f"the file ends before offset {end}", file.path)
            offset += sent

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._stream.end_half(stdlib_socket.SHUT_WR)
        await trio.lowlevel.checkpoint()

    def _begin(self) -> None:
        if self._closed or self._stream.closed:
            raise trio.ClosedResourceError("this half is closed")
        if self._sending:
            raise trio.BusyResourceError("another task is sending")
        if self._unusable:
            raise trio.BrokenResourceError("an earlier send failed or was cancelled")
        self._sending = True
        self._unusable = True  # until this one has succeeded, so that no way out is forgotten

    def _broken(self, error: OSError) -> Exception:
        if self._closed or self._stream.closed:
            return trio.ClosedResourceError("this half was closed")
        return trio.BrokenResourceError(f"{self._stream.remote}: {error}")


@attrs.define(eq=False)
class TcpListener:
    """Listens at a TCP port or a Unix socket; implements `Listener`."""

    address: Address
    _socket: trio.socket.SocketType
    _socket_file: tuple[int, int] | None = None  # device and inode of a Unix socket's file

    async def accept(self) -> TcpStream:
        while True:  # ends: each turn waits for a connection or for ACCEPT_PAUSE_S
            if self._socket.fileno() < 0:
                raise trio.ClosedResourceError("the listener is closed")
            try:
                connection, remote = await self._socket.accept()
            except OSError as error:
                if error.errno in _ACCEPT_FATAL:
                    raise
                if error.errno in _ACCEPT_SHORTAGE:
                    _LOG.warning("%s: cannot accept for now: %s", self.address, error)
                    await trio.sleep(ACCEPT_PAUSE_S)
                continue  # ECONNABORTED and its like: that connection is gone, the next is not
            try:
                return _stream(connection, remote, self.address.host)
            except OSError:  # reset before it was looked at
                connection.close()

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            if self._socket_file is not None:
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(self.address.host)
                    if (status.st_dev, status.st_ino) == self._socket_file:
                        os.unlink(self.address.host)
            self._socket.close()
        await trio.lowlevel.checkpoint()


def _stream(connection: trio.socket.SocketType, remote: object, path: str) -> TcpStream:
    """Wrap a connected socket. Raises: OSError if it has been reset meanwhile."""
    if connection.family != stdlib_socket.AF_UNIX:
        connection.setsockopt(stdlib_socket.IPPROTO_TCP, stdlib_socket.TCP_NODELAY, 1)
        return TcpStream(_address(connection.getsockname()), _address(remote), connection)
    return TcpStream(Address(path, 0), Address(path, 0), connection)


class TcpNetwork:
    """This machine's TCP network: implements `protocols.Network`, and holds no state."""

    async def listen(self, host: str, port: int) -> TcpListener:
        where = str(Address(host, port))
        try:
            family, own = (await _resolve(host, port))[0]
            with _socket(family) as (listening, keep):
                listening.setsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_REUSEADDR, 1)
                await listening.bind(own)
                listening.listen(LISTEN_BACKLOG)
                keep()
        except OSError as error:
            raise _named(error, where) from error
        return TcpListener(_address(listening.getsockname()), listening)

    async def connect(self, host: str, port: int, *, local_host: str | None = None) -> TcpStream:
        where = str(Address(host, port))
        try:
            candidates = await _resolve(host, port, local_host)
        except OSError as error:
            raise _named(error, where) from error
        if len(candidates) == 1:
            return await _connect(candidates[0], local_host, where)
        return await _connect_to_any(candidates, local_host, where)

    async def listen_unix(self, path: str) -> TcpListener:
        with _short(path) as name:
            await _remove_stale(path, name)
            try:
                with _socket(stdlib_socket.AF_UNIX) as (listening, keep):
                    os.fchmod(listening.fileno(), 0o600)  # Linux gives the file the socket's mode
                    await listening.bind(name)
                    status = os.stat(path)
                    listening.listen(LISTEN_BACKLOG)
                    keep()
            except OSError as error:
                raise _named(error, path) from error
        return TcpListener(Address(path, 0), listening, (status.st_dev, status.st_ino))

    async def connect_unix(self, path: str) -> TcpStream:
        try:
            with _short(path) as name, _socket(stdlib_socket.AF_UNIX) as (connection, keep):
                await connection.connect(name)
                connection.getpeername()  # Trio takes the EAGAIN of a full backlog for success
                _check_server(connection, path)
                keep()
        except OSError as error:
            raise _named(error, path) from error
        return _stream(connection, "", path)


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """Yield a name of a socket file that the system takes, for any length of path.

    A path that is too long is reached by a descriptor of its folder. So the file is in its own
    folder in any case, where no other user can make one.
    """
    if len(os.fsencode(path)) <= UNIX_PATH_BYTES_MAX:
        yield path
        return
    folder = open_folder(os.path.dirname(path))
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def _check_server(connection: trio.socket.SocketType, path: str) -> None:
    """Check that the server at a socket file is this user or root.

    For root it may also be another user, if that one alone can have made the file.

    Raises: ForeignServer.
    """
    found = connection.getsockopt(
        stdlib_socket.SOL_SOCKET, stdlib_socket.SO_PEERCRED, _PEER_CREDENTIALS.size
    )
    assert isinstance(found, bytes)
    _, server, _ = _PEER_CREDENTIALS.unpack(found)
    own = os.geteuid()
    if server in (0, own) or (own == 0 and only_theirs(os.path.dirname(path), server)):
        return
    raise ForeignServer(
        errno.EACCES, f"user {server} serves it, not user {own} or root: nothing was sent"
    )


_Target = tuple[stdlib_socket.AddressFamily, object]
NEXT_ADDRESS_S = 0.25
"""The seconds until the next address of a name is tried beside one that does not answer. RFC 8305.
"""


LOOKUPS_MAX = 32
"""The most names that are looked up at a time. A lookup that is cancelled goes on in its thread,
for some ten seconds if no DNS server answers, and must take no thread from others.
"""
_LOOKUPS: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("triolog.lookups")


def _lookup_limiter() -> trio.CapacityLimiter:
    try:
        return _LOOKUPS.get()
    except LookupError:
        limiter = trio.CapacityLimiter(LOOKUPS_MAX)
        _LOOKUPS.set(limiter)
        return limiter


async def _resolve(host: str, port: int, local_host: str | None = None) -> list[_Target]:
    """Return the families and addresses of `host`, at least one. Numeric ones take no thread.

    Args:
        local_host: the own address to connect from: of a name only addresses of its family are
            returned. None: of any family.

    Raises: HostUnknown: the name cannot be resolved.
    """
    any_family, stream = stdlib_socket.AF_UNSPEC, stdlib_socket.SOCK_STREAM
    own = any_family if local_host is None else _family(local_host)
    look = partial(stdlib_socket.getaddrinfo, host, port)
    try:
        found = look(any_family, stream, flags=stdlib_socket.AI_NUMERICHOST)
    except (stdlib_socket.gaierror, UnicodeError):
        try:
            found = await trio.to_thread.run_sync(
                look, own, stream, abandon_on_cancel=True, limiter=_lookup_limiter()
            )
        except (stdlib_socket.gaierror, UnicodeError) as error:
            code = getattr(error, "errno", None) or stdlib_socket.EAI_NONAME
            raise HostUnknown(host, getattr(error, "strerror", None) or str(error), code) from error
    return [(family, address) for family, _, _, _, address in found]


def _family(address: str) -> stdlib_socket.AddressFamily:
    return stdlib_socket.AF_INET6 if ":" in address else stdlib_socket.AF_INET


@contextlib.contextmanager
def _socket(
    family: stdlib_socket.AddressFamily,
) -> Iterator[tuple[trio.socket.SocketType, Callable[[], object]]]:
    """Yield a new socket, and a function to keep it; else it is closed at the end of the block."""
    with contextlib.ExitStack() as stack:
        made = trio.socket.socket(family, stdlib_socket.SOCK_STREAM)
        stack.callback(made.close)
        yield made, stack.pop_all


async def _connect(candidate: _Target, local_host: str | None, where: str) -> TcpStream:
    family, target = candidate
    try:
        with _socket(family) as (connection, keep):
            if local_host is not None and family == _family(local_host):
                connection.setsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_REUSEADDR, 1)
                await connection.bind((local_host, 0))
            await connection.connect(target)
            if connection.getsockname() == connection.getpeername():
                # Nobody listens, and the system chose the target's port for this end as well.
                raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            stream = _stream(connection, target, "")
            keep()
            return stream
    except OSError as error:
        raise _named(error, where) from error


async def _connect_to_any(
    candidates: Sequence[_Target], local_host: str | None, where: str
) -> TcpStream:
    """Connect to the first address that answers, in their order, each begun NEXT_ADDRESS_S after
    the one before, or once that has failed.

    Raises: OSError: of the last address, as all have failed.
    """
    found: list[TcpStream] = []
    errors: dict[int, OSError] = {}

    async def attempt(number: int, failed: trio.Event, scope: trio.CancelScope) -> None:
        try:
            found.append(await _connect(candidates[number], local_host, where))
        except OSError as error:
            errors[number] = error
            failed.set()
        else:
            opened.callback(found[-1].abort)
            scope.cancel()

    with contextlib.ExitStack() as opened:
        async with trio.open_nursery() as nursery:
            for number in range(len(candidates)):
                failed = trio.Event()
                nursery.start_soon(attempt, number, failed, nursery.cancel_scope)
                with trio.move_on_after(NEXT_ADDRESS_S):
                    await failed.wait()
        if not found:
            raise errors[len(candidates) - 1]
        opened.pop_all()
    for stream in found[1:]:
        stream.abort()
    return found[0]


async def _remove_stale(path: str, name: str) -> None:
    """Unlink a socket file on which no process answers.

    Args:
        name: the name that `_short` gives to the same file.

    Raises: OSError: with EADDRINUSE if a process answers, or the file is no socket.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EADDRINUSE, f"not a socket, so not replaced: {path}")
    with trio.socket.socket(stdlib_socket.AF_UNIX, stdlib_socket.SOCK_STREAM) as probe:
        try:
            await probe.connect(name)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except FileNotFoundError:
            return
    raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {path}")


HOLD_FROM_BYTES = 64 << 10
"""The bytes from which a pipe is used: below, its two further calls take as long as the copy that
they save."""
RECEIVE_MAX_BYTES = 256 << 10
"""How many bytes are received at once into memory, when all pipes are in use."""
DRAINED_BYTES = 4096
"""A read of fewer bytes than this, and than were asked for, left nothing behind: the next one
waits.
"""


@attrs.define(eq=False)
class TcpReceiveHalf:
    """The receiving half of a `TcpStream`; implements `ReceiveHalf`."""

    _stream: TcpStream
    _closed: bool = attrs.field(init=False, default=False)
    _drained: bool = attrs.field(init=False, default=False)  # the last read took all there was

    hold_from_bytes = HOLD_FROM_BYTES

    async def receive_some(self, max_bytes: int) -> bytes:
        assert max_bytes > 0, max_bytes
        with self._receiving():
            data = await self._wait_and_read(max_bytes) if self._drained else None
            if data is None:
                data = await self._stream.socket.recv(max_bytes)
        self._drained = len(data) < min(max_bytes, DRAINED_BYTES)
        return data

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        assert max_bytes > 0, max_bytes
        with self._receiving():
            self._drained = False
            held = self._stream.pipes.take()
            if held is None:
                return await self._stream.socket.recv(min(max_bytes, RECEIVE_MAX_BYTES))
            is_filled = False
            try:
                await trio.lowlevel.checkpoint()
                while not self._fill(held, max_bytes):
                    await trio.lowlevel.wait_readable(self._stream.socket)
                is_filled = True
            finally:
                if not is_filled:
                    held.discard()  # at once: an error that is kept keeps this frame
        return held if len(held) else b""

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        assert max_bytes > 0, max_bytes
        with self._receiving():
            pipe = self._stream.pipes.take() if held else None
            if pipe is None:
                data = self._read_now(min(max_bytes, RECEIVE_MAX_BYTES))
                self._drained = data is None
                return data
            try:
                self._drained = not self._fill(pipe, max_bytes)
            except OSError:
                pipe.discard()
                raise
        if self._drained:
            pipe.give_back()
            return None
        return pipe if len(pipe) else b""

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._stream.end_receiving()
        await trio.lowlevel.checkpoint()

    @contextlib.contextmanager
    def _receiving(self) -> Iterator[None]:
        if self._closed or self._stream.closed:
            raise trio.ClosedResourceError("this half is closed")
        try:
            yield
        except OSError as error:
            raise trio.BrokenResourceError(f"{self._stream.remote}: {error}") from error
        if self._closed:  # by another task, which woke this one with an end of stream
            raise trio.ClosedResourceError("this half was closed")

    async def _wait_and_read(self, max_bytes: int) -> bytes | None:
        """Wait, then read, which is a third of the work of `recv`, which tries first.

        Returns: None if there was nothing to read.
        """
        await trio.lowlevel.wait_readable(self._stream.socket)
        return self._read_now(max_bytes)

    def _read_now(self, max_bytes: int) -> bytes | None:
        try:
            return os.read(self._stream.socket.fileno(), max_bytes)
        except BlockingIOError:
            return None

    def _fill(self, held: PipedBytes, max_bytes: int) -> bool:
        """Take what is there now. Returns: False if there was nothing; True at the stream's end."""
        if self._stream.closed:
            raise trio.ClosedResourceError("this half was closed")
        size = 0
        while size < max_bytes:
            try:
                count = held.fill(self._stream.socket.fileno(), max_bytes - size)
            except BlockingIOError:
                return size > 0
            if count == 0:
                return True
            size += count
        return True
