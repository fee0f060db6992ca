"""RoleOwner changes a replica's role: it alone restarts the group's tree, and opens its gate.

Source: apache/rocketmq, broker/.../controller/ReplicasManager.java, changeToMaster and
changeToSlave, and store/ha/autoswitch/AutoSwitchHAService.java (5.3.3); autoswitch-ha.md 5.2, 5.3.

It outlives the group's tree. The order of a change: appends end, the tree stops; it starts as the
new role's, its store first, which cuts what a master does not have; its history opens, in which a
master's epoch begins; a master's group_transfer starts, which counts the copies of appends, and
whoever asked hears of it; then, with a lease, the gate opens. Until then, and if any of it fails,
the replica takes no appends.

Messages: ChangeRole, SyncStateSetTold and LeaseBegan from the replicas manager; StoreStarted from
the store, EpochsOpened from epochs, Started from group_transfer, CutLog from ha_client, CopyState
and OpeningWaits from their actors. It sends the node's root RestartChild, the store SetGate, and
group_transfer GiveUp, Opened and SetTold. It asks a master that the cluster file does not name for
the address of its log, and waits for no answer in between.

Differs from upstream: a role is a new tree; upstream changes services under way, one by one, and
leaves those changed that came before a failure (autoswitch-ha.md T7).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from actors.config.bounds import Mismatch, endpoint_of
from actors.env.protocols import Address
from actors.errors import TriologError
from actors.events import ha as events
from actors.ha import group_transfer
from actors.ha.autoswitch.epoch_keeper import EpochsOpened
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.ha.autoswitch.messages import (
    ChangeRole,
    LeaseBegan,
    RoleTaken,
    SyncStateSetTold,
)
from actors.ha.core.role_effects import Fence, Role, RoleState, RoleView
from actors.ha.role_status import RoleStatus
from actors.log_types import ToldRole
from actors.remoting import client
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason, requests
from actors.storage.commitlog import store_messages
from actors.storage.files.room import OpeningWaits
from actors.storage.scrub.scrubber_messages import CopyState
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.controller import BrokerHaInfo
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Frame
from wire.remoting.header import read_fields, write_fields

NO_ROLE: Final = "no controller has told a role yet"
NO_LEASE: Final = "no controller has said yet that it is master"
NOT_IN_SET: Final = "the controllers tell no sync state set with this replica in it"


class RoleNotTaken(TriologError):
    """The answer to ChangeRole: why the role could not be taken, for people."""


@attrs.frozen(kw_only=True)
class CutLog:
    """The log has to end here before it may follow its master."""

    end_bytes: int


@attrs.frozen
class _Located:
    """The answer of a master that the cluster file does not name."""

    told: ToldRole
    outcome: Frame | Exception


Message: TypeAlias = (
    ChangeRole
    | SyncStateSetTold
    | LeaseBegan
    | store_messages.StoreStarted
    | EpochsOpened
    | group_transfer.Started
    | CutLog
    | CopyState
    | OpeningWaits
)
_Inbox: TypeAlias = Message | _Located


@attrs.define(eq=False)
class OwnedRole:
    """The role by which the group's next tree is built; the role owner alone changes it.

    Attributes:
        told: what the controllers said; None before they said anything.
        broker_id: the own id; None before one is given.
        master: the master's node, or its address if no cluster file names it; "": nobody.
        log_at: where a slave connects for its log; None on a master, or if that is unknown.
        build: numbers the trees.
    """

    told: ToldRole | None = None
    broker_id: int | None = None
    master: str = ""
    log_at: Address | None = None
    build: int = 0
    _cut_bytes: int | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the role; 0 before the first."""
        return 0 if self.told is None else self.told.epoch

    @property
    def leads(self) -> bool:
        """Whether this replica is to be master."""
        return self.told is not None and self.told.master == self.broker_id

    def set_is(self, members: frozenset[int], set_epoch: int) -> None:
        """Keep the sync state set that the controllers have, for whoever starts by this role."""
        if self.told is not None and set_epoch > self.told.in_sync_epoch:
            in_sync = tuple(sorted(members))
            self.told = attrs.evolve(self.told, in_sync=in_sync, in_sync_epoch=set_epoch)

    def cut_at(self, end_bytes: int) -> None:
        """Have the next tree cut the log."""
        self._cut_bytes = end_bytes

    def take_cut(self) -> int | None:
        """Return where the log is to be cut, once: a later tree must not cut what came since."""
        found, self._cut_bytes = self._cut_bytes, None
        return found


@attrs.define(kw_only=True)
class RoleOwner(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        group: the group's name, and its child's in the node's root.
        node: this node.
        owned: the role by which trees are built.
        role_status: where the role is published.
        node_at: gives the node of the cluster file that brokers reach at "HOST:PORT", and where it
            serves its log; None: the file names none.
        client: asks other brokers where they do.
        epochs: the log's history.
        leased: whether a master may acknowledge now.
        deposed: is told the own id and the epoch once this replica is master no longer, before its
            tree ends: no client is to be sent here.
    """

    mailbox = MailboxSpec(conflate={OpeningWaits: lambda message: None})
    group: str
    node: str
    owned: OwnedRole
    role_status: RoleStatus
    node_at: Callable[[str], tuple[str, Address] | None]
    client: ActorRef[client.Call]
    epochs: EpochsView
    leased: Callable[[], bool]
    deposed: Callable[[int, int], None]
    root: ActorRef[requests.Message]
    store_ref: ActorRef[store_messages.Message]
    transfer_ref: ActorRef[group_transfer.Message]
    _reply: ReplyTo[RoleTaken] | None = attrs.field(default=None, init=False)
    _store: int | None = attrs.field(default=None, init=False)  # incarnation, of this build
    _gate: int | None = attrs.field(default=None, init=False)  # the store's, once it may open
    _state: RoleState = attrs.field(default=RoleState.CONNECTING, init=False)
    _reason: str = attrs.field(default=NO_ROLE, init=False)
    _opening: str = attrs.field(default="", init=False)  # why the tree waits for room
    _damage: str = attrs.field(default="", init=False)

    async def on_start(self) -> None:
        self._publish()

    async def on_stop(self, reason: StopReason) -> None:
        self._fail("the node stops")

    async def handle(self, message: _Inbox) -> None:
        match message:
            case ChangeRole():
                await self._change(message)
            case _Located():
                await self._located(message)
            case SyncStateSetTold():
                told, members = message.role, frozenset(message.role.in_sync)
                if told.epoch == self.owned.epoch:
                    set_epoch = told.in_sync_epoch
                    self.owned.set_is(members, set_epoch)
                if told.epoch == self.owned.epoch and self.owned.leads:
                    await self.transfer_ref.tell(
                        group_transfer.SetTold(members=members, set_epoch=set_epoch)
                    )
            case LeaseBegan():
                await self._open()
            case store_messages.StoreStarted():
                if message.promotion.number == self.owned.build:
                    self._store, self._opening = message.incarnation, ""
            case EpochsOpened():
                if message.build == self.owned.build and self._store is not None:
                    self._opened(message)
            case group_transfer.Started():
                fenced = self._state is RoleState.FENCED
                if message.build == self.owned.build and self._store is not None and not fenced:
                    self._close(RoleState.ASKING, NO_LEASE)
                    self._gate = self._store
                    await self._open()
                    self._taken()
            case CutLog():
                await self._cut(message)
            case CopyState():
                self._damage = message.damage
            case OpeningWaits():
                self._opening = message.reason
            case _:
                assert_never(message)
        self._publish()

    # ---- a change ----

    async def _change(self, message: ChangeRole) -> None:
        self._fail("another role came")
        owned, told = self.owned, message.role
        self._reply = message.reply_to
        has_led = owned.leads
        owned.told, owned.broker_id = told, message.broker_id
        if has_led and not owned.leads:
            self.deposed(message.broker_id, told.epoch)
        found = self.node_at(told.address)
        self.ctx.emit(
            events.RoleGiven(
                role=(Role.MASTER if owned.leads else Role.SLAVE).value,
                epoch=told.epoch,
                master=told.address if found is None else found[0],
            )
        )
        if owned.leads:
            owned.master, owned.log_at = self.node, None
            if message.broker_id not in told.in_sync:
                self._close(RoleState.ASKING, NOT_IN_SET)
                await self._end_appends()
                self._fail(NOT_IN_SET)
                return
            await self._build()
            return
        owned.master, owned.log_at = told.address, None
        if found is not None:
            owned.master, owned.log_at = found
            await self._build()
            return
        self._close(RoleState.CONNECTING, f"asks {told.address} where it serves its log")
        await self._end_appends()
        try:
            address = Address(*endpoint_of(told.address))
        except Mismatch:
            self._fail(f"the controllers name a master at {told.address!r}, which is no address")
            return
        self.ctx.ask_later(
            self.client,
            Frame,
            lambda reply_to: client.Call(
                address=address,
                code=RequestCode.EXCHANGE_BROKER_HA_INFO,
                ext_fields=write_fields(BrokerHaInfo()),
                reply_to=reply_to,
            ),
            timeout_s=2 * client.CALL_TIMEOUT_S,
            on_reply=partial(_Located, told),
        )

    async def _located(self, message: _Located) -> None:
        owned = self.owned
        if message.told != owned.told or self._reply is None or owned.leads:
            return
        try:
            owned.log_at = _log_address(message.outcome)
        except RemoteProtocolError as error:
            self._close(RoleState.CONNECTING, f"{message.told.address}: {error}")
            self._fail(self._reason)
            return
        await self._build()

    async def _build(self) -> None:
        """Have the group's tree stop, and start by the role."""
        owned = self.owned
        owned.build += 1
        leads = owned.leads
        self._store, self._opening = None, ""
        self._close(RoleState.ASKING if leads else RoleState.CONNECTING, "")
        await self._end_appends()
        await self.root.tell(requests.RestartChild(name=self.group))

    async def _end_appends(self) -> None:
        """Fail the appends that wait for copies. The gate closes as the tree ends."""
        self._publish()
        who = self.owned.master
        why = f"{who} is master of {self.group} in epoch {self.owned.epoch}"
        await self.transfer_ref.tell(group_transfer.GiveUp(reason=why))

    def _opened(self, message: EpochsOpened) -> None:
        """Go on as the tree's store and history are open: again, if they have crashed. A master
        goes on once its group_transfer has started.
        """
        owned = self.owned
        if not owned.leads:
            self._close(RoleState.FOLLOWING, "" if owned.told is not None else NO_ROLE)
            self._taken()
        elif message.problem:
            self._close(RoleState.FENCED, message.problem)
            self._fail(message.problem)

    def _taken(self) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.send(RoleTaken(self.owned.epoch))

    async def _open(self) -> None:
        """Take appends, if somebody is there who answers them, and may. It is repeated after a
        lapse of the lease.
        """
        if self._gate is None or not self.leased():
            return
        await self.store_ref.tell(store_messages.SetGate(incarnation=self._gate, closed=None))
        self._state, self._reason = RoleState.OPEN, ""
        self._publish()  # before group_transfer looks
        await self.transfer_ref.tell(group_transfer.Opened())

    async def _cut(self, message: CutLog) -> None:
        """Cut the log, as the handshake with its master has shown, and follow again."""
        owned = self.owned
        if owned.leads or owned.told is None:
            return
        written_bytes = self.epochs.end_bytes
        self.ctx.emit(
            events.LogCutAsked(
                epoch=owned.epoch, written_bytes=written_bytes, end_bytes=message.end_bytes
            )
        )
        owned.cut_at(message.end_bytes)
        await self._build()

    def _close(self, state: RoleState, reason: str) -> None:
        self._state, self._reason, self._gate = state, reason, None

    def _fail(self, reason: str) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.fail(RoleNotTaken(reason))

    def _publish(self) -> None:
        owned, state = self.owned, self._state
        is_open = state is RoleState.OPEN
        fence = Fence.NO_HISTORY if state is RoleState.FENCED else None
        view = RoleView(
            role=Role.MASTER if owned.leads else Role.SLAVE,
            state=RoleState.DAMAGED if self._damage and not owned.leads else state,
            fence=fence,
            reason=self._opening or self._reason,
            opened=is_open,
            number=owned.epoch,
            master=owned.master,
            history=self.epochs.history,
            high_water=0,
            damage=self._damage,
        )
        self.role_status.publish(view, is_open=is_open)


def _log_address(outcome: Frame | Exception) -> Address:
    """Return where a broker serves its log. Raises: RemoteProtocolError: it did not say."""
    if isinstance(outcome, Exception):
        raise RemoteProtocolError(f"it does not answer: {outcome}")
    code = outcome.header.code
    if code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"it refuses to say: {code}, {outcome.header.remark or ''}")
    found = read_fields(outcome.header, BrokerHaInfo).master_ha_address or ""
    try:
        return Address(*endpoint_of(found))
    except Mismatch as error:
        raise RemoteProtocolError(f"it serves its log at {found[:100]!r}") from error
