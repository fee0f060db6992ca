"""ConnectionState knows the group's replication connections, and ends those that were replaced.

Source: apache/rocketmq store/ha/DefaultHAService.getRuntimeInfo, HARuntimeInfo and
HAConnectionStateNotificationService (5.3.3); classic-ha.md 1.5, 5.4 and T12.

Messages: Refused from accept_socket, and ConnectionOpened from it, or in a dialect with a handshake
from read_socket; ReportAccepted and Ending from read_socket, Sent and Ending from write_socket,
Ended from the connection's supervisor, ClientChanged from ha_client, LogGrew from the store;
GetStatus from anybody. It has `connections` stop a connection that a newer one replaces, and
reports to the role keeper what a Java slave holds above the own end. Messages that only matter for
GetStatus are deferred, and do not wake it. A restart forgets all rows and ends all connections
(rest_for_one).
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, assert_never

import attrs

from actors.events import ha as events
from actors.ha.core.extent import LogExtent
from actors.ha.core.slave_table import SlaveStatus, SlaveTable
from actors.ha.core.states import HAConnectionState, Lost
from actors.ha.role_messages import ReportedAhead
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason, dynamic
from actors.storage.commitlog import store_messages
from actors.storage.log.growth import Subscribe, Unsubscribe

GONE = (Lost.PEER_CLOSED, Lost.BROKEN, Lost.STOPPED)
"""The ends of connections that nobody here has ended: a probe of the port is not refused."""
RATES_WITHIN_S = 0.1
"""By how much the count of bytes sent per second may be late, in seconds."""


@attrs.frozen(kw_only=True)
class ConnectionOpened:
    """A stream from a slave's address was accepted, or a handshake said that it is a slave's."""

    slave: str
    connection: int
    address: str


@attrs.frozen(kw_only=True)
class ReportAccepted:
    """A report was accepted; the first one identifies the slave."""

    connection: int
    offset_bytes: int


@attrs.frozen(kw_only=True)
class Sent:
    """How far the log was sent on this connection, and how many bytes, headers included."""

    connection: int
    next_bytes: int
    sent_bytes: int


@attrs.frozen(kw_only=True)
class Ending:
    """A connection is about to end. Of its two sockets, the first one's reason counts.

    Attributes:
        report_bytes: the report that was refused.
        stranger: the address of a connection of which it was never said whose it is; "": of others.
    """

    connection: int
    reason: Lost
    detail: str
    report_bytes: int | None = None
    stranger: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.reason.value}: {self.detail}".removesuffix(": ")


@attrs.frozen(kw_only=True)
class Ended:
    """The connection's supervisor has ended."""

    connection: int


@attrs.frozen(kw_only=True)
class Refused:
    """How many connections were closed at once since the listener started, by reason.

    Attributes:
        host: the last unknown address; "": none came.
    """

    unknown_count: int
    full_count: int
    host: str = ""


@attrs.frozen(kw_only=True)
class ClientChanged:
    """The slave's own side of its connection. Times are Trio's; None: not yet.

    Attributes:
        master: the master's host and port.
        state: READY (not connected), TRANSFER, SHUTDOWN.
        session: the number of the last attempt.
        diverged: whether the master's log does not continue this one.
        mismatches_count: how many offsets were refused since the start.
        reported_bytes: the last report of this connection.
        received_bytes: how many bytes were received on this connection.
        bytes_per_s: how many bytes were received in the last full second.
        next_attempt_s: when it will try again, while READY.
        last_error: why the previous connection or attempt ended.
        last_lost: the same as one of the known reasons; None: none has ended.
        damage: for people: what is damaged of the own copy, so that it does not follow; "": nothing
        first_bytes: where the first frame of this connection begins; None: none came yet.
        master_end_bytes: where the master's log ended when a frame showed it last, on this
            connection; None: none has.
        verified_bytes: where the whole records end whose CRCs were checked; None: none are.
        last_store_ms: the store timestamp of the last of them, by the master's clock, in ms; 0:
            there is none.
    """

    master: str
    state: HAConnectionState
    session: int
    diverged: bool
    mismatches_count: int
    reported_bytes: int | None
    received_bytes: int
    bytes_per_s: int
    last_read_s: float | None
    last_write_s: float | None
    next_attempt_s: float | None
    last_error: str
    last_lost: Lost | None = None
    damage: str = ""
    first_bytes: int | None = None
    master_end_bytes: int | None = None
    verified_bytes: int | None = None
    last_store_ms: int = 0


@attrs.frozen(kw_only=True)
class HaStatus:
    """The answer to GetStatus.

    Attributes:
        role: "master" or "slave".
        min_bytes, written_bytes, synced_bytes: the local log.
        slaves: on the master, every configured slave.
        in_sync_count: how many slaves are in sync, the master not counted. [inSyncSlaveNums]
        connections_count: how many connections are open, with those that have not reported.
        refused_count, full_count: how many connections were closed at once, because of an unknown
            address, or because there were too many.
        refused_host: the last unknown address; "": none came.
        refused_reason: why that one was turned away; "": for its address.
        client: on a slave, its own side; None until its client has started.
        asked_s: the Trio time of the answer, to turn the client's times into ages.
    """

    role: str
    min_bytes: int
    written_bytes: int
    synced_bytes: int
    slaves: tuple[SlaveStatus, ...]
    in_sync_count: int
    connections_count: int
    refused_count: int
    full_count: int
    client: ClientChanged | None
    asked_s: float
    refused_host: str = ""
    refused_reason: str = ""


@attrs.frozen(kw_only=True)
class GetStatus:
    """Ask for the present HaStatus."""

    reply_to: ReplyTo[HaStatus]


Message: TypeAlias = (
    ConnectionOpened
    | ReportAccepted
    | Sent
    | Ending
    | Ended
    | Refused
    | ClientChanged
    | store_messages.LogGrew
    | GetStatus
)


def _only(message: object) -> None:
    return None


def _connection(message: Any) -> int:
    connection: int = message.connection
    return connection


@attrs.define
class ConnectionState(Actor[Message]):
    """See the module's text.

    Attributes:
        connections: None on a slave, which has none.
        handshake: whether it is a handshake that says whose a connection is.
    """

    mailbox = MailboxSpec(
        conflate={
            store_messages.LogGrew: _only,
            Refused: _only,
            ClientChanged: _only,
            ReportAccepted: _connection,
            Sent: _connection,
            Ended: _connection,
        }
    )
    _table: SlaveTable
    _store: ActorRef[Subscribe[store_messages.LogGrew] | Unsubscribe]
    _connections: ActorRef[dynamic.Message] | None = None
    _keeper: ActorRef[ReportedAhead] | None = None
    _handshake: bool = False
    _extent: LogExtent = attrs.field(default=LogExtent(0, 0, 0))
    _refused: Refused = attrs.field(default=Refused(unknown_count=0, full_count=0))
    _client: ClientChanged | None = None
    _strangers_count: int = 0
    _stranger: Ending | None = None  # the last one

    async def on_start(self) -> None:
        await self._store.tell(Subscribe(subscriber=self.ctx.self_ref, within_s=math.inf))

    async def on_stop(self, reason: StopReason) -> None:
        await self._store.tell(Unsubscribe(subscriber=self.ctx.self_ref))

    async def handle(self, message: Message) -> None:
        now_s = self.ctx.now_s()
        match message:
            case ConnectionOpened():
                if self._handshake:
                    self._table.know(message.slave)
                self._table.opened(message.slave, message.connection, message.address, now_s)
            case ReportAccepted():
                await self._report_accepted(message, now_s)
            case Sent():
                self._table.sent(message.connection, message.next_bytes, message.sent_bytes, now_s)
            case Ending():
                await self._ending(message)
            case Ended():
                self._ended(message.connection)
            case Refused():
                self._refused = message
            case ClientChanged():
                self._client = message
            case store_messages.LogGrew():
                self._extent = LogExtent(
                    message.min_bytes, message.written_bytes, message.synced_bytes
                )
            case GetStatus():
                message.reply_to.send(self._status(now_s))
            case _:
                assert_never(message)

    async def _report_accepted(self, message: ReportAccepted, now_s: float) -> None:
        replaced = self._table.reported(message.connection, message.offset_bytes, now_s)
        if replaced is None:
            return
        slave = self._table.ending(replaced, Lost.REPLACED, f"by number {message.connection}")
        if self._connections is not None and slave is not None:
            name = connection_name("" if self._handshake else slave, replaced)
            await self._connections.tell(dynamic.StopChild(name=name, reply_to=None))

    async def _ending(self, message: Ending) -> None:
        if message.stranger:
            if message.reason in GONE:
                return
            count = self._strangers_count = self._strangers_count + 1
            self._stranger = message
            if count & (count - 1) == 0:
                self.ctx.emit(
                    events.HAConnectionRefused(
                        address=message.stranger, reason=message.text, count=count
                    )
                )
            return
        slave = self._table.ending(message.connection, message.reason, message.detail)
        offset = message.report_bytes
        if slave is None or offset is None or message.reason is not Lost.REPORT_AHEAD:
            return
        if self._keeper is not None and self._table.kind(slave) == "java":
            await self._keeper.tell(ReportedAhead(slave=slave, offset_bytes=offset))

    def _ended(self, connection: int) -> None:
        ended = self._table.closed(connection)
        if ended is not None:
            slave, reason = ended
            self.ctx.emit(
                events.HAConnectionClosed(slave=slave, connection=connection, reason=reason)
            )

    def _status(self, now_s: float) -> HaStatus:
        slaves, stranger = self._table.status(self._extent, now_s), self._stranger
        return HaStatus(
            role="slave" if self._connections is None else "master",
            min_bytes=self._extent.min_bytes,
            written_bytes=self._extent.written_bytes,
            synced_bytes=self._extent.synced_bytes,
            slaves=slaves,
            in_sync_count=sum(slave.in_sync for slave in slaves),
            connections_count=self._table.connection_count,
            refused_count=self._refused.unknown_count + self._strangers_count,
            full_count=self._refused.full_count,
            refused_host=self._refused.host if stranger is None else stranger.stranger,
            refused_reason="" if stranger is None else stranger.text,
            client=self._client,
            asked_s=now_s,
        )


def connection_name(slave: str, connection: int) -> str:
    """The name of a connection's actor below `connections`.

    Args:
        slave: "" where a handshake will say whose connection it is.
    """
    return f"{slave or 'connection'}-{connection}"
