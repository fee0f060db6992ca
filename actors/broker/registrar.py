"""Registrar registers one group's member with every name server, each independently of the others.

Upstream: apache/rocketmq, broker/.../out/BrokerOuterAPI.java, BrokerController.java, 5.3.3;
broker.md 2.2 and 2.3, classic-ha.md 1.4 and T15 to T17.

Messages: only its own. It reads the topics to register from a `MetadataView`, and the member from a
`RegistrationView`, to which `Announcer` writes it each time that the group's tree has started. Then
the registrar registers again. Where name servers name the master, it sends SetMaster to ha_client
and to metadata_sync.

It is outside the group's tree and has its own client, as a name server removes a broker whose
connection ends: so a change of the role is one registration with another id (broker.md 2.2, no. 1),
and a group whose tree restarts stays in the routes. It unregisters when its node is stopped in
order. If that request does not arrive, the end of its connection has the same effect.

Differs: a slave follows a master as soon as a name server names it. Upstream's slave of 5.x never
follows one that its file names, and uses a new one only once the old connection has ended (T15,
T16). The master that one name server names counts until the same name server names another one or
fails, so that a slave does not move back and forth between two that disagree.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

import attrs
import msgspec
import trio

from actors.broker.changed_settings import PERMISSION_ALL, ChangedSettings
from actors.broker.core.registration import SAID_AFTER, Registration, Told
from actors.config.bounds import Mismatch, endpoint_of
from actors.env.protocols import Address
from actors.events import broker as events
from actors.ha import client_messages
from actors.ha.core.role_effects import RoleState
from actors.ha.role_status import RoleStatus
from actors.metadata import slave_sync
from actors.metadata.core.tables import as_master
from actors.metadata.view import MetadataView
from actors.remoting import client
from actors.remoting.requests import CallFailed
from actors.runtime import Actor, ActorError, ActorRef, MailboxSpec, StopReason
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.java_json import encode
from wire.broker.registration import (
    MASTER_ID,
    BrokerAddress,
    MasterOfGroup,
    RegisterBroker,
    encode_registration,
    registration_crc,
)
from wire.broker.topics import TopicTable
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Frame
from wire.remoting.header import read_fields, write_fields

LEAVE_S: Final = 1.0
"""The most seconds that a stop waits for name servers to answer that this broker leaves."""
_EMPTY: Final = TopicTable()
_FENCED: Final = (RoleState.CONNECTING, RoleState.ASKING, RoleState.FENCED)
"""In these states a replica has not taken its role."""
_LOGGER = logging.getLogger("triolog.broker")


@attrs.frozen(kw_only=True)
class Member:
    """The broker that registers.

    Attributes:
        cluster, group: upstream's brokerClusterName and brokerName.
        broker_id: upstream's brokerId, which is 0 for a master.
        number: the number of the promotion that made the master, or 0 if the cluster file did.
        broker, ha: the addresses at which others reach its two ports.
    """

    cluster: str
    group: str
    broker_id: int
    number: int
    broker: Address
    ha: Address


@attrs.frozen(kw_only=True)
class Standing:
    """Whether a member is registered with one name server.

    Attributes:
        reason: why it is not, for people; "" if it is, or before the first answer.
    """

    is_registered: bool
    reason: str = ""


@attrs.frozen(kw_only=True)
class Followers:
    """The actors of a slave that follow the master which name servers name."""

    ha_client: ActorRef[client_messages.SetMaster]
    metadata_sync: ActorRef[slave_sync.SetMaster]


@attrs.frozen(kw_only=True)
class Presence:
    """One run of a group's tree.

    Attributes:
        member: the broker to register.
        followers: the actors that follow the named master, or None if name servers do not decide
            which node is master.
    """

    member: Member
    followers: Followers | None


@attrs.define(eq=False)
class RegistrationView:
    """What the registrar publishes, and what it reads from Announcer.

    Attributes:
        standings: the state of the registration by name server, as host and port. It is empty
            while no member registers.
        master: the address of the master that a name server named, or "".
        presence: the member to register, from Announcer; None if the group's tree never ran.
        settings: what operators have changed while the node ran, for people.
        number: the number of the presence, which rises with each one.
    """

    standings: Mapping[str, Standing] = attrs.field(factory=dict)
    master: str = ""
    presence: Presence | None = None
    settings: tuple[str, ...] = ()
    number: int = 0
    _announced: trio.Event = attrs.field(init=False, factory=trio.Event)

    def announce(self, presence: Presence) -> None:
        """Publish which member registers from now on."""
        self.presence = presence
        self.number += 1
        announced, self._announced = self._announced, trio.Event()
        announced.set()

    def deposed(self, broker_id: int, number: int) -> None:
        """Register a master at once as the slave that it will be, by the present role's number."""
        found = self.presence
        if found is not None and found.member.broker_id == MASTER_ID:
            member = attrs.evolve(found.member, broker_id=broker_id, number=number)
            self.announce(Presence(member=member, followers=None))

    async def wait_announced(self, number: int) -> None:
        """Wait until there is a presence after `number`."""
        while self.number == number:
            await self._announced.wait()

    def texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is registered, and what is not as it should be, for people."""
        held = [server for server, each in self.standings.items() if each.is_registered]
        good = [f"registered at {', '.join(held)}"] if held else []
        good += [f"master {self.master} by a name server"] if self.master else []
        good += self.settings
        bad = [
            f"not registered at name server {server}: {each.reason or 'no answer yet'}"
            for server, each in self.standings.items()
            if not each.is_registered
        ]
        return tuple(good), tuple(bad)


@attrs.frozen
class _Look:
    """Timer: send what is due, to one name server or to all."""

    server: Address | None = None


@attrs.frozen
class _Announced:
    """The group's tree has started."""


@attrs.frozen
class _Heard:
    """The answer of one name server to a request of `asked`, or the error without an answer."""

    server: Address
    asked: Registration
    outcome: Frame | Exception


_Inbox: TypeAlias = _Look | _Announced | _Heard


@attrs.define(kw_only=True)
class Announcer(Actor[None]):
    """Announces to the registrar that the group's tree has started, so that its ports are open.

    Attributes:
        role_status: of a replica that registers once it has taken its role; None for others.
    """

    presence: Presence
    published: RegistrationView
    role_status: RoleStatus | None = None

    async def on_start(self) -> None:
        if self.role_status is None:
            self.published.announce(self.presence)
        else:
            self.ctx.spawn(partial(self._announce_once_taken, self.role_status))

    async def _announce_once_taken(self, status: RoleStatus) -> None:
        view = status.view
        while view.state in _FENCED:
            view = await status.wait_changed(view)
        self.published.announce(self.presence)


@attrs.define(kw_only=True)
class Registrar(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        owner: node and group, for people.
    """

    mailbox = MailboxSpec(capacity=64)
    owner: str
    servers: tuple[Address, ...]
    client: ActorRef[client.Call]
    view: MetadataView
    published: RegistrationView
    changed: ChangedSettings
    _known: tuple[TopicTable, Any, TopicTable] | None = attrs.field(init=False, default=None)
    _presence: Presence | None = attrs.field(init=False, default=None)
    _by_server: dict[Address, Registration] = attrs.field(init=False, factory=dict)
    _found: tuple[str, str] = attrs.field(init=False, default=("", ""))  # broker and HA address
    _found_at: Address | None = attrs.field(init=False, default=None)
    _unreadable: dict[Address, str] = attrs.field(init=False, factory=dict)  # that it was said

    async def on_start(self) -> None:
        self._appear()
        self.ctx.spawn(self._watch)
        self.ctx.spawn(self._watch_tables)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case _Look(server=server):
                for each in self._by_server if server is None else (server,):
                    self._look(each)
            case _Announced():
                self._appear()
            case _Heard(server=server, asked=asked):
                if asked is self._by_server[server]:  # else the tree has started anew since
                    await self._heard(server, message.outcome)
                    self._look(server)
            case _:
                assert_never(message)

    def _appear(self) -> None:
        """Register the member of the present run of the group's tree, with a full registration."""
        self._presence = self.published.presence
        self._found, self._found_at = ("", ""), None
        self.published.master = ""
        if self._presence is not None:
            self._by_server = {server: Registration() for server in self.servers}
        self._publish()
        for server in self._by_server:
            self._look(server)

    @property
    def _member(self) -> Member:
        assert self._presence is not None  # nobody is told anything before
        return self._presence.member

    @property
    def _address(self) -> BrokerAddress:
        member = self._member
        return BrokerAddress(
            broker_addr=str(member.broker),
            broker_id=member.broker_id,
            broker_name=member.group,
            cluster_name=member.cluster,
        )

    async def on_stop(self, reason: StopReason) -> None:
        """Unregister from all name servers, unless the registrar failed and registers again."""
        self.published.standings = {}
        if self._presence is None or reason not in (StopReason.SHUTDOWN, StopReason.NORMAL):
            return
        with trio.move_on_after(LEAVE_S):
            async with trio.open_nursery() as nursery:
                for server in self.servers:
                    nursery.start_soon(self._leave, server)

    async def _leave(self, server: Address) -> None:
        call = partial(
            client.Call,
            address=server,
            code=RequestCode.UNREGISTER_BROKER,
            ext_fields=write_fields(self._address),
            timeout_s=LEAVE_S,
        )
        with suppress(ActorError, CallFailed):  # the end of the connection says the same
            await self.client.ask(
                Frame, lambda reply_to: call(reply_to=reply_to), timeout_s=LEAVE_S
            )

    async def _watch(self) -> None:
        number = self.published.number
        while True:
            await self.published.wait_announced(number)
            number = self.published.number
            await self.ctx.self_ref.tell(_Announced())

    async def _watch_tables(self) -> None:
        number = self.view.number
        while True:
            await self.view.wait_changed(number)
            number = self.view.number
            presence = self.published.presence
            if presence is not None and presence.member.broker_id == MASTER_ID:
                await self.ctx.self_ref.tell(_Look())

    def _table(self) -> TopicTable:
        """Return the topics to register, which are none of a slave (T6)."""
        if self._member.broker_id != MASTER_ID:
            return _EMPTY
        topics, changed = as_master(self.view.tables).topics, self.changed
        known = topics.data_version, changed.permission_ms, self._member.number
        if self._known is None or self._known[0] is not topics or self._known[1] != known:
            self._known = topics, known, self._with_permission(topics)
        return self._known[2]

    def _with_permission(self, topics: TopicTable) -> TopicTable:
        """Return the topics with brokerPermission applied to their permissions.

        Once brokerPermission has changed they have another version, as name servers ignore changes
        under a version that they know.
        """
        changed, version = self.changed, topics.data_version
        version = msgspec.structs.replace(
            version,
            state_version=self._member.number,
            timestamp=max(version.timestamp, changed.permission_ms),
        )
        rows = topics.topic_config_table
        if changed.permission != PERMISSION_ALL:
            rows = {
                name: msgspec.structs.replace(row, perm=row.perm & changed.permission)
                for name, row in rows.items()
            }
        return msgspec.structs.replace(
            topics, topic_config_table=rows, data_version=version, more=None
        )

    def _look(self, server: Address) -> None:
        registration, now_s = self._by_server[server], self.ctx.now_s()
        told = registration.next(self._table(), now_s)
        if told is not None:
            self._tell(server, told)
        elif (due_s := registration.due_s) is not None:
            self.ctx.timers.start_at(server, due_s, _Look(server))

    def _tell(self, server: Address, told: Told) -> None:
        if told.compares:
            code, body = RequestCode.QUERY_DATA_VERSION, encode(told.table.data_version)
            self._call(server, code, write_fields(self._address), body, told.timeout_s)
            return
        body = encode_registration(told.table)
        fields = RegisterBroker(
            body_crc32=registration_crc(body),
            broker_addr=str(self._member.broker),
            broker_id=self._member.broker_id,
            broker_name=self._member.group,
            cluster_name=self._member.cluster,
            enable_acting_master=False,
            ha_server_addr=str(self._member.ha),
        )
        code = RequestCode.REGISTER_BROKER
        self._call(server, code, write_fields(fields), body, told.timeout_s)

    def _call(
        self,
        server: Address,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes,
        timeout_s: float,
    ) -> None:
        self.ctx.ask_later(
            self.client,
            Frame,
            lambda reply_to: client.Call(
                address=server,
                code=code,
                ext_fields=fields,
                body=body,
                timeout_s=timeout_s,
                reply_to=reply_to,
            ),
            timeout_s=2 * timeout_s,
            on_reply=partial(_Heard, server, self._by_server[server]),
        )

    async def _heard(self, server: Address, outcome: Frame | Exception) -> None:
        registration, now_s = self._by_server[server], self.ctx.now_s()
        was_registered = registration.is_registered
        if isinstance(outcome, Frame) and outcome.header.code == ResponseCode.SUCCESS:
            registration.answered(now_s, changed=_has_changed(outcome))
            await self._follow(server, outcome)
        else:
            registration.failed(_why(outcome), now_s)
        if registration.is_registered and not was_registered:
            self.ctx.emit(
                events.RegisteredAt(
                    name_server=str(server),
                    broker=str(self._member.broker),
                    broker_id=self._member.broker_id,
                    topics=len(self._table().topic_config_table),
                )
            )
        elif not registration.is_registered and registration.failures == SAID_AFTER:
            reason = registration.reason
            self.ctx.emit(events.NotRegisteredAt(name_server=str(server), reason=reason))
            text = "%s: not registered at name server %s: %s; tried again"
            _LOGGER.warning(text, self.owner, server, reason)
        self._publish()

    async def _follow(self, server: Address, answer: Frame) -> None:
        """Follow the master that a name server's answer names."""
        followers = self._presence.followers if self._presence is not None else None
        if followers is None:
            return
        try:
            said = read_fields(answer.header, MasterOfGroup)
            broker, ha = _address(said.master_addr), _address(said.ha_server_addr)
        except RemoteProtocolError as error:
            if str(error) != self._unreadable.get(server):
                self._unreadable[server] = str(error)
                _LOGGER.warning("%s: master named by name server %s: %s", self.owner, server, error)
            return
        found = str(broker), str(ha)
        if broker is None or ha is None:
            if server == self._found_at:
                self._found_at = None  # another one may know of a new master
            return
        if found == self._found:
            return
        last = self._by_server.get(self._found_at) if self._found_at is not None else None
        if last is not None and server != self._found_at and last.is_registered:
            return
        self._found, self._found_at = found, server
        self.published.master = found[0]
        self.ctx.emit(events.MasterFound(name_server=str(server), broker=found[0], ha=found[1]))
        await followers.ha_client.tell(client_messages.SetMaster(address=ha))
        await followers.metadata_sync.tell(slave_sync.SetMaster(address=broker))

    def _publish(self) -> None:
        self.published.standings = {
            str(server): Standing(is_registered=each.is_registered, reason=each.reason)
            for server, each in self._by_server.items()
        }


def _has_changed(answer: Frame) -> bool:
    """Return whether an answer has `changed`: the name server has another version of the topics.

    The answer to a registration never has it.
    """
    return (answer.header.ext_fields or {}).get("changed", "false") != "false"


def _why(outcome: Frame | Exception) -> str:
    if isinstance(outcome, Exception):
        return str(outcome)
    return f"code {outcome.header.code}: {outcome.header.remark}"


def _address(text: str | None) -> Address | None:
    """Return the address in a text, or None if there is no text.

    Raises:
        RemoteProtocolError: the text is no host with a port.
    """
    if not text:
        return None
    try:
        return Address(*endpoint_of(text))
    except Mismatch as error:
        raise RemoteProtocolError(str(error)) from None
