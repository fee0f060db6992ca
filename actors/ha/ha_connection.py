"""HAConnection is the supervisor of one slave connection's two sockets, as a specification.

Source: apache/rocketmq store/ha/DefaultHAConnection.java. Upstream's two services stop each other
by hand; here the first to end shuts the supervisor down, which stops the other and aborts the
stream.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.env.protocols import SendHalf, Stream
from actors.ha import connection_state, group_transfer
from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.transfer_progress import TransferProgress
from actors.ha.read_socket import Peer, ReadSocket
from actors.ha.settings import ConnectionSettings
from actors.ha.write_socket import WriteSocket
from actors.runtime import (
    AutoShutdown,
    ChildSpec,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.storage.log.log_reader import LogReader

SOCKET_SHUTDOWN_S = 1.0
"""How long a socket may take to stop: it has nothing to save, and the stream is aborted first."""


def ha_connection(
    settings: ConnectionSettings, stream: Stream, slave: str, connection: int
) -> ChildSpec:
    """The child of `connections` for one accepted stream.

    Args:
        slave: whose it is by its address; "": its handshake will say so.

    Resource handling: the stream belongs to the child from its start on; however it ends, the
    stream is aborted and group_transfer and connection_state are notified.
    """
    receive, send = stream.halves()
    name = connection_state.connection_name(slave, connection)
    mark, peer = SentMark(), Peer(slave)

    def write_socket() -> WriteSocket:
        return _write_socket(settings, send, connection, mark)

    def read_socket() -> ReadSocket:
        return ReadSocket(
            peer=peer,
            address=str(stream.remote),
            connection=connection,
            receive=receive,
            abort=stream.abort,
            dialect=settings.dialect,
            segment_bytes=settings.segment_bytes,
            housekeeping_s=settings.housekeeping_s,
            synced=settings.synced,
            mark=mark,
            store=settings.store,
            write_socket=settings.registry.ref(f"{settings.connections_path}/{name}/write_socket"),
            group_transfer=settings.group_transfer,
            connection_state=settings.connection_state,
        )

    def on_exit() -> None:
        stream.abort()
        if not peer.slave:
            return  # nobody was told of it
        # Both are conflated, so there is always room.
        gone = group_transfer.SlaveGone(slave=peer.slave, connection=connection)
        settings.group_transfer.offer(gone)
        settings.connection_state.offer(connection_state.Ended(connection=connection))

    return ChildSpec(
        name=name,
        restart=Restart.TEMPORARY,
        start=SupervisorSpec(
            strategy=Strategy.ONE_FOR_ONE,
            children=(_socket("write_socket", write_socket), _socket("read_socket", read_socket)),
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
            on_exit=on_exit,
        ),
    )


def _write_socket(
    settings: ConnectionSettings, send: SendHalf, connection: int, mark: SentMark
) -> WriteSocket:
    dialect = settings.dialect
    return WriteSocket(
        connection=connection,
        send=send,
        dialect=dialect,
        synced=settings.synced,
        poll_s=settings.poll_s,
        progress=TransferProgress(
            frame_bytes=min(settings.frame_bytes, dialect.frame_body_max_bytes),
            header_bytes=dialect.frame_header_bytes,
            segment_bytes=settings.segment_bytes,
            heartbeat_s=settings.heartbeat_s,
            mark=mark,
            stretch_end=dialect.stretch_end,
            upstream=dialect.upstream,
            limiter=RateLimiter(settings.rate_bytes_per_s),
        ),
        log=LogReader(settings.disk, settings.log_folder, settings.segment_bytes),
        scrubber=settings.scrubber,
        connection_state=settings.connection_state,
    )


def _socket(name: str, start: Callable[[], WriteSocket | ReadSocket]) -> ChildSpec:
    """The child for one socket. When one of the two ends, the other is stopped."""
    return ChildSpec(
        name=name,
        start=start,
        restart=Restart.TEMPORARY,
        significant=True,
        shutdown_s=SOCKET_SHUTDOWN_S,
    )
