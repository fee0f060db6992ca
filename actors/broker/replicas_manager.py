"""ReplicasManager is a replica of a broker set before its controllers: it registers, sends
heartbeats, follows who is master, and has the role changed.

Source: apache/rocketmq, broker/.../controller/ReplicasManager.java, 5.3.3; autoswitch-ha.md 1.3 and
5. What it asks and when is in `core.replica`.

Messages: RoleTold (from the broker's port, code 1008), LookNow, AlterSyncStateSet from a master's
group_transfer, ElectMaster from an operator, and its own. It calls controllers through a
RemotingClient, and sends ChangeRole to whoever owns the role of the group. There is one
change of the role at a time, in the order of epochs; a newer one that is told meanwhile follows at
once. Until a change has succeeded it is tried again, and the replica is fenced: it neither takes
appends nor registers with name servers.

Differs: a failed change of the role is tried again; upstream leaves it so (autoswitch-ha.md T7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from actors.broker import replica_wishes as wishes
from actors.broker.core.replica import (
    CALL_S,
    HEARTBEAT_S,
    Ask,
    Effects,
    LogState,
    Replica,
    ReplicaSettings,
    Step,
    WrongIdentity,
)
from actors.config.bounds import endpoint_of
from actors.env.protocols import Address, Disk
from actors.errors import ConfigError, OutcomeUnknown
from actors.events import broker as events
from actors.ha.autoswitch.messages import (
    AlterSyncStateSet,
    ChangeRole,
    LeaseBegan,
    LookNow,
    RoleTaken,
    SetRefused,
    SyncStateSetTold,
)
from actors.ha.core.sync_state_set import Refusal
from actors.log_types import ToldRole
from actors.remoting import client
from actors.runtime import Actor, ActorRef, MailboxSpec
from actors.storage.files.replacing import replace_file, settle_spares, spare_path
from actors.storage.files.whole_files import read_bytes
from wire.broker import controller as said
from wire.broker.codes import RequestCode
from wire.broker.dialect import Fields, encode_body
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.broker_identity import (
    FILE_BYTES_MAX,
    FILE_NAME,
    TEMP_NAME,
    BrokerIdentity,
    decode_identity,
    encode_identity,
)
from wire.remoting.frame import Frame
from wire.remoting.header import write_fields

CHANGE_S: Final = 600.0
"""The seconds that a change of the role may take. It waits for a log to be cut and read."""
_OF_THE_LIVING: Final = (
    RequestCode.CONTROLLER_REGISTER_BROKER,
    RequestCode.CONTROLLER_ELECT_MASTER,
    RequestCode.CONTROLLER_GET_REPLICA_INFO,
)
"""A heartbeat is sent before these: only who lives is elected, and the lease that an answer renews
ends before the announced time of that heartbeat.
"""
CHANGE_RETRY_S: Final = 0.5
"""The pause before a failed change of the role is tried again."""
NO_LEADER: Final = "no controller that leads is found yet"


@attrs.frozen
class RoleTold:
    """A controller says by itself who is master."""

    change: said.RoleChange
    in_sync: said.SyncStateSet


@attrs.frozen
class _Tick:
    """Timer: the next request is due."""


@attrs.frozen
class _Beat:
    """Timer: a heartbeat is due."""


@attrs.frozen
class _ChangeDue:
    """Timer: try the change of the role again."""


@attrs.frozen
class _Answered:
    number: int
    outcome: Frame | Exception


@attrs.frozen
class _SetAnswered:
    asked: AlterSyncStateSet
    outcome: Frame | Exception


@attrs.frozen
class _ReplicasAnswered:
    asked: wishes.GetReplicas
    controller: str
    outcome: Frame | Exception


@attrs.frozen
class _Voted:
    asked: wishes.ElectMaster
    controller: str
    outcome: Frame | Exception


@attrs.frozen
class _Changed:
    role: ToldRole
    outcome: RoleTaken | Exception


@attrs.define(eq=False)
class ReplicaView:
    """What a replica's manager publishes.

    Attributes:
        broker_id: the own id; None before it is given.
        step: what it does with the controllers.
        reason: why nothing goes on, for people; "" if all is well.
        role: the role that has been taken; None while the replica is fenced.
        lease_until_s: Trio time up to which a master may acknowledge.
        registered: on a master, where brokers and clients reach each replica of the set, by its
            id, as the controllers said last: nobody else is a replica.
        living: those of them that live, as the controllers believe.
        is_sure: whether it has spoken as one that lives, after a start that made its log doubtful.
    """

    broker_id: int | None = None
    step: Step = Step.FIND
    reason: str = ""
    role: ToldRole | None = None
    lease_until_s: float = float("-inf")
    registered: Mapping[int, str] = attrs.field(factory=dict)
    living: frozenset[int] = frozenset()
    is_sure: bool = False


Message: TypeAlias = (
    RoleTold | LookNow | AlterSyncStateSet | wishes.GetReplicas | wishes.ElectMaster
)
_Timer: TypeAlias = _Tick | _Beat | _ChangeDue
_Inbox: TypeAlias = (
    Message | _Timer | _Answered | _SetAnswered | _ReplicasAnswered | _Voted | _Changed
)


@attrs.define(kw_only=True)
class ReplicasManager(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        folder: of the store, where the identity is kept.
        source: names the broker set, for people.
        log: gives the state of the log.
        doubts: gives the last epoch of a log that may lack bytes that it had; see `core.replica`.
        client: makes the calls.
        owner: changes the role.
    """

    mailbox = MailboxSpec(conflate={LookNow: lambda message: None})
    settings: ReplicaSettings
    disk: Disk
    folder: str
    source: str
    wall_clock_ms: Callable[[], int]
    log: Callable[[], LogState]
    doubts: Callable[[], int | None]
    view: ReplicaView
    client: ActorRef[client.Call]
    owner: ActorRef[ChangeRole | SyncStateSetTold | LeaseBegan]
    _replica: Replica = attrs.field(init=False)
    _changing: ToldRole | None = attrs.field(default=None, init=False)
    _wanted: ToldRole | None = attrs.field(default=None, init=False)  # newer than the one taken
    _altering: bool = attrs.field(default=False, init=False)

    async def on_start(self) -> None:
        identity = self._read()
        try:
            doubts = None if self.view.is_sure else self.doubts()
            self._replica = Replica(self.settings, self.wall_clock_ms(), identity, doubts)
        except WrongIdentity as error:
            raise ConfigError(f"{self.source}: {self.folder}: {error}") from error
        self._carry_out(self._replica.start(self.ctx.now_s()))
        self._beat()

    async def handle(self, message: _Inbox) -> None:
        now_s, replica = self.ctx.now_s(), self._replica
        match message:
            case RoleTold():
                effects = replica.told(message.change, message.in_sync)
                self._carry_out(effects)
                if effects.role is not None and replica.is_master:
                    self._carry_out(replica.look(now_s))
            case LookNow():
                self._carry_out(replica.look(now_s))
            case AlterSyncStateSet():
                self._alter(message)
            case wishes.GetReplicas():
                self._get_replicas(message)
            case wishes.ElectMaster():
                self._elect(message)
            case _Tick():
                self._carry_out(replica.tick(now_s))
            case _Beat():
                self._beat()
            case _ChangeDue():
                self._change()
            case _Answered(number=number, outcome=Frame() as frame):
                self._carry_out(replica.answered(number, frame, now_s))
            case _Answered(number=number, outcome=error):
                self._carry_out(replica.failed(number, str(error), now_s))
            case _SetAnswered():
                self._set_answered(message)
            case _ReplicasAnswered():
                self._replicas_answered(message)
            case _Voted():
                self._voted(message)
            case _Changed():
                self._changed(message)
            case _:
                assert_never(message)

    # ---- controllers ----

    def _carry_out(self, effects: Effects) -> None:
        reason = self.view.reason
        if effects.drop_temporary:
            self._remove_temporary()
        if effects.write is not None:
            effects = self._write(effects.write)
        if effects.role is not None:
            self._wanted = effects.role
            self._change()
        if effects.in_sync is not None and self._wanted is None:
            self.owner.post(SyncStateSetTold(effects.in_sync))
        if effects.ask is not None:
            self._call(effects.ask)
        if effects.wake_s is not None:
            self.ctx.timers.start_by("tick", effects.wake_s, _Tick())
        view, replica = self.view, self._replica
        view.broker_id, view.step = replica.broker_id, replica.step
        lease_begins = view.lease_until_s <= self.ctx.now_s() < replica.lease_until_s
        view.reason, view.lease_until_s = replica.reason, replica.lease_until_s
        if lease_begins:
            self.owner.post(LeaseBegan())
        view.registered, view.living = replica.registered, replica.living
        view.is_sure = replica.doubts is None
        if view.reason != reason and view.reason:
            self.ctx.emit(events.ControllersFailed(step=view.step.value, reason=view.reason))

    def _call(self, ask: Ask) -> None:
        if ask.code in _OF_THE_LIVING:
            self._beat()
        self._send(ask.to, ask.code, ask.fields, ask.body, partial(_Answered, ask.number))

    def _send(
        self,
        to: str,
        code: RequestCode,
        fields: Fields | None,
        body: bytes,
        on_reply: Callable[[Frame | Exception], _Inbox],
    ) -> None:
        self.ctx.ask_later(
            self.client,
            Frame,
            lambda reply_to: client.Call(
                address=Address(*endpoint_of(to)),
                code=code,
                ext_fields=None if fields is None else write_fields(fields),
                body=body,
                timeout_s=CALL_S,
                reply_to=reply_to,
            ),
            timeout_s=2 * CALL_S,
            on_reply=on_reply,
        )

    def _beat(self) -> None:
        self.ctx.timers.start("beat", HEARTBEAT_S, _Beat())
        heartbeat = self._replica.heartbeat(self.log())
        if heartbeat is None:
            return
        fields = write_fields(heartbeat)
        for controller in self.settings.controllers:
            self.client.post(
                client.Call(
                    address=Address(*endpoint_of(controller)),
                    code=RequestCode.BROKER_HEARTBEAT,
                    ext_fields=fields,
                )
            )

    # ---- wishes ----

    def _alter(self, asked: AlterSyncStateSet) -> None:
        """Ask for a sync state set, unless a newer role was told."""
        replica, epoch = self._replica, asked.epoch
        role, broker_id = replica.role, replica.broker_id
        if role is None or broker_id is None or not replica.is_master or role.epoch != epoch:
            why = f"replica {broker_id} is not master in epoch {epoch}"
            asked.reply_to.send(SetRefused(Refusal.STALE, why))
        elif self._altering or not replica.leader:
            what = "the last set is being asked for" if self._altering else NO_LEADER
            asked.reply_to.fail(wishes.WishUnanswered(what))
        else:
            self._altering = True
            now_ms, broker = self.wall_clock_ms(), self.settings.broker
            fields, body = wishes.set_request(broker, broker_id, asked, now_ms)
            code = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
            self._send(replica.leader, code, fields, body, partial(_SetAnswered, asked))

    def _set_answered(self, message: _SetAnswered) -> None:
        self._altering = False
        reply_to = message.asked.reply_to
        try:
            reply_to.send(wishes.read_set(message.outcome))
        except wishes.WishUnanswered as error:
            reply_to.fail(error)
            self._carry_out(self._replica.look(self.ctx.now_s()))  # who leads the controllers now

    def _get_replicas(self, asked: wishes.GetReplicas) -> None:
        leader, reason = self._replica.leader, self._replica.reason
        if not leader:
            asked.reply_to.fail(wishes.WishUnanswered(reason or NO_LEADER))
            return
        body = encode_body([self.settings.broker])
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        self._send(leader, code, None, body, partial(_ReplicasAnswered, asked, leader))

    def _replicas_answered(self, message: _ReplicasAnswered) -> None:
        reply_to, broker = message.asked.reply_to, self.settings.broker
        try:
            found = wishes.read_replicas(message.outcome, asked=message.controller, broker=broker)
        except wishes.WishUnanswered as error:
            reply_to.fail(error)
            self._carry_out(self._replica.look(self.ctx.now_s()))  # who leads the controllers now
        else:
            reply_to.send(found)

    def _elect(self, asked: wishes.ElectMaster) -> None:
        leader, own = self._replica.leader, self.settings
        if not leader:
            asked.reply_to.fail(wishes.NotElected(NO_LEADER))
            return
        now_ms = self.wall_clock_ms()
        fields = wishes.election_request(own.cluster, own.broker, asked.broker_id, now_ms)
        code = RequestCode.CONTROLLER_ELECT_MASTER
        self._send(leader, code, fields, b"", partial(_Voted, asked, leader))

    def _voted(self, message: _Voted) -> None:
        asked = message.asked
        try:
            found = wishes.read_election(
                message.outcome,
                asked=message.controller,
                broker=self.settings.broker,
                wanted=asked.broker_id,
            )
        except (wishes.NotElected, OutcomeUnknown) as error:
            asked.reply_to.fail(error)
        else:
            asked.reply_to.send(found)
        self._carry_out(self._replica.look(self.ctx.now_s()))

    # ---- the identity ----

    def _read(self) -> BrokerIdentity | None:
        """Return what the files say. Raises: ConfigError: one of them cannot be read."""
        path = self.folder
        try:
            settle_spares(self.disk, self.folder)
            for name in (FILE_NAME, TEMP_NAME):
                path = f"{self.folder}/{name}"
                if self.disk.exists(path) and (data := read_bytes(self.disk, path, FILE_BYTES_MAX)):
                    return decode_identity(data)
        except (OSError, RemoteProtocolError) as error:
            raise ConfigError(
                f"{self.source}: {path}: {error}; which replica this store belongs to cannot be"
                " told without it"
            ) from error
        return None

    def _write(self, identity: BrokerIdentity) -> Effects:
        """Write an identity. Returns: what follows."""
        name = FILE_NAME if identity.check_code is None else TEMP_NAME
        try:
            replace_file(self.disk, f"{self.folder}/{name}", encode_identity(identity))
        except (OSError, LocalProtocolError) as error:
            return self._replica.not_written(f"{self.folder}/{name}: {error}", self.ctx.now_s())
        if identity.check_code is None:
            self._remove_temporary()
            self.ctx.emit(
                events.ReplicaIdentified(broker=identity.broker, broker_id=identity.broker_id)
            )
        return self._replica.written(self.ctx.now_s())

    def _remove_temporary(self) -> None:
        """Remove the temporary file. One that stays does no harm: the other one is read first."""
        path = f"{self.folder}/{TEMP_NAME}"
        for each in (path, spare_path(path)):
            try:
                self.disk.unlink(each)
            except OSError:
                continue

    # ---- the role ----

    def _change(self) -> None:
        """Have the newest role taken, unless a change is under way."""
        wanted, broker_id = self._wanted, self._replica.broker_id
        if wanted is None or broker_id is None or self._changing is not None:
            return
        self._changing, self.view.role = wanted, None
        self.ctx.ask_later(
            self.owner,
            RoleTaken,
            lambda reply_to: ChangeRole(wanted, broker_id, reply_to),
            timeout_s=CHANGE_S,
            on_reply=partial(_Changed, wanted),
        )

    def _changed(self, message: _Changed) -> None:
        role, outcome, self._changing = message.role, message.outcome, None
        if isinstance(outcome, Exception):
            self.ctx.emit(events.RoleNotTaken(epoch=role.epoch, reason=str(outcome)))
            if self._wanted != role:
                self._change()
            else:
                self.ctx.timers.start("change", CHANGE_RETRY_S, _ChangeDue())
            return
        if self._wanted == role:
            self._wanted, self.view.role = None, role
            own = self._replica.broker_id == role.master
            self.ctx.emit(
                events.ReplicaRoleTaken(
                    role="master" if own else "slave", epoch=role.epoch, master_id=role.master
                )
            )
            newest = self._replica.role
            if newest is not None and newest != role:
                self.owner.post(SyncStateSetTold(newest))
        else:
            self._change()
