"""What a replica of a broker set asks its controllers, when, and what it makes of the answers.

Source: apache/rocketmq, broker/.../controller/ReplicasManager.java, 5.3.3; autoswitch-ha.md 1.3,
5.1, 7.5.

One request is under way at a time, in the steps of this table; a heartbeat has no answer and goes
to every controller besides.

| Step     | Request              | After a good answer                          | After a bad one |
|----------|----------------------|----------------------------------------------|-----------------|
| FIND     | 1005, each in turn   | to the leader that it names: the step before | the next one    |
| NEXT_ID  | 1012                 | the temporary file is written, then APPLY    | FIND            |
| APPLY    | 1013                 | the identity is written, then REGISTER       | 2014: NEXT_ID   |
| REGISTER | 1003                 | a master: as POLL; none: ELECT               | FIND            |
| ELECT    | 1002                 | as POLL                                      | 2012: again     |
| POLL     | 1004, each POLL_PART | a greater epoch: the role; no master: ELECT; | 2008: REGISTER  |
|          | of the time          | the own mastership: ROSTER                   |                 |
| ROSTER   | 1006                 | who is registered is known, then POLL        | FIND            |

Only an epoch greater than the own one changes the role, whoever tells of it: an answer, or a
controller by itself (1008).

Differs from upstream:
- An id is applied for again with the same check code until the controllers answer. Upstream drops
  it at the first time-out, and the id is lost.
- A bad answer is followed by another try after RETRY_FIRST_S to RETRY_MAX_S; upstream's every 5 s.
- A master asks who is registered, and who of them lives. Upstream believes every id that a
  handshake names (autoswitch-ha.md T49).
- A replica that the controllers have forgotten says so, and asks on; it does not take another id
  by itself, as its log may hold what others lack.
- A learner asks for no election, as who asks first is the first master (autoswitch-ha.md T11).
- With `durability = "written"` a stop that was no ordered one may have been a power loss, which
  takes what others have, and were told. Such a replica does not say that it lives, and asks for an
  election, in a controller's name, until it is deposed as master of the epoch of its log: no epoch
  has two different contents. As one member of several of the sync state set it is silent for the
  announced time besides, in which the master drops it or another member is elected.
- A master knows how long it may acknowledge: `lease_until_s` (autoswitch-ha.md T13). An answer
  renews it that names this replica as master of its epoch. Controllers that see the master's
  connection end elect another at once, whatever the lease: what needs the whole sync state set
  is safe then, a smaller acknowledgement is not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from actors.config.bounds import Mismatch, endpoint_of
from actors.log_types import ToldRole
from wire.broker import controller as said
from wire.broker.codes import RequestCode as Code
from wire.broker.codes import ResponseCode
from wire.broker.dialect import Fields, encode_body
from wire.errors import RemoteProtocolError
from wire.files.broker_identity import BrokerIdentity
from wire.remoting.frame import Frame
from wire.remoting.header import read_fields

HEARTBEAT_S: Final = 1.0
"""The seconds between two heartbeats. Upstream: brokerHeartbeatInterval."""
TIMEOUT_S: Final = 10.0
"""The announced time: silence of so many seconds means that the replica is dead. Upstream:
controllerHeartBeatTimeoutMills.
"""
POLL_PART: Final = 1 / 3
"""The part of the announced time after which a replica polls again."""
POLL_MAX_S: Final = 5.0
"""The longest pause between two polls, in seconds. Upstream: syncBrokerMetadataPeriod."""
DRIFT: Final = 0.01
"""By how much the clocks of a controller and of a replica may run apart: one part in a hundred."""
CALL_S: Final = 3.0
"""The seconds that an answer may take. Upstream: a constant, 3000 ms."""
LOOK_APART_S: Final = 0.2
"""The least seconds between a request and one that somebody wants to be sent at once."""
RETRY_FIRST_S: Final = 0.1
"""The pause after the first bad answer, in seconds."""
SILENT: Final = (
    "its log may lack what it had, as it was not stopped in order: it waits until the controllers"
    " take it for dead"
)
NO_MASTER: Final = "no replica is master, and this one is a learner, which is never elected"
RETRY_MAX_S: Final = 2.0
"""The longest pause after bad answers. The pauses double from RETRY_FIRST_S on."""


_TellsOfMaster: TypeAlias = (
    said.RegisteredToController | said.ElectedMaster | said.ReplicaInfo | said.RoleChange
)
_MASTER_LIVES: Final = (Code.CONTROLLER_ELECT_MASTER, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
"""This answer is as good as a success, because it tells who the master is."""


class Step(enum.Enum):
    """What is asked next; see the module's text."""

    FIND = "looks for the controller that leads"
    NEXT_ID = "asks for an id"
    APPLY = "applies for its id"
    REGISTER = "registers"
    ELECT = "asks for an election"
    POLL = "follows the controllers"
    ROSTER = "asks who is registered"


@attrs.frozen(kw_only=True)
class ReplicaSettings:
    """The settings of one replica.

    Attributes:
        cluster, broker: upstream's brokerClusterName and brokerName.
        address: where brokers and clients reach it, "HOST:PORT".
        controllers: where the controllers are; at least one.
        timeout_s: the announced time.
        priority: the lowest is elected of those that are equal otherwise.
        is_learner: it is never elected, and so asks for no election.
    """

    cluster: str
    broker: str
    address: str
    controllers: tuple[str, ...]
    timeout_s: float = TIMEOUT_S
    priority: int = said.LEAST_PRIORITY
    is_learner: bool = False


@attrs.frozen(kw_only=True)
class LogState:
    """What a heartbeat says of the log.

    Attributes:
        epoch: the last one; -1: there is none.
        max_offset, confirm_offset: in bytes.
    """

    epoch: int
    max_offset: int
    confirm_offset: int


@attrs.frozen(kw_only=True)
class Ask:
    """Send a request.

    Attributes:
        number: comes back with the answer.
        to: which controller.
    """

    number: int
    to: str
    code: Code
    fields: Fields | None
    body: bytes = b""


@attrs.frozen(kw_only=True)
class Effects:
    """What is to be done, in this order.

    Attributes:
        write: keep this identity: with a check code in the temporary file, without one in the other
            and the temporary one removed. `Replica.written` follows.
        drop_temporary: remove the temporary file.
        role: change the role.
        in_sync: the same master has another sync state set; as a ToldRole of the same epoch.
        ask: send a request; `Replica.answered` or `Replica.failed` follows.
        wake_s: call `Replica.tick` then; None: not needed.
    """

    write: BrokerIdentity | None = None
    drop_temporary: bool = False
    role: ToldRole | None = None
    in_sync: ToldRole | None = None
    ask: Ask | None = None
    wake_s: float | None = None


class WrongIdentity(Exception):
    """A file of the store says that it belongs to another broker set; the text says which."""


@attrs.define
class Replica:
    """See the module's text. Times are of a clock that cannot be set.

    Args:
        stamp: makes its check codes unlike those of other runs: the time in ms since 1970.
        identity: what the files say; one with a check code if the temporary file alone is there.
        doubts: the last epoch of a log that may lack bytes that it had; None: it lacks none. It is
            None, too, once the replica may say that it lives.

    Attributes:
        step: what is asked next, or was asked.
        role: the newest that was told; None before the first.
        reason: why nothing goes on, for people; "" if all is well.
        lease_until_s: a master may acknowledge up to then.
        leader: the controller that led when it was looked for last; "" before that.
        registered: on a master, where brokers and clients reach each replica of the set, by its
            id; as the controllers said last.
        living: those of them that live.

    Raises:
        WrongIdentity: the identity is of another set.
    """

    settings: ReplicaSettings
    stamp: int
    identity: BrokerIdentity | None = None
    doubts: int | None = None
    step: Step = attrs.field(default=Step.FIND, init=False)
    role: ToldRole | None = attrs.field(default=None, init=False)
    reason: str = attrs.field(default="", init=False)
    lease_until_s: float = attrs.field(default=float("-inf"), init=False)
    leader: str = attrs.field(default="", init=False)
    registered: Mapping[int, str] = attrs.field(factory=dict, init=False)
    living: frozenset[int] = attrs.field(default=frozenset(), init=False)
    _next: Step = attrs.field(init=False)  # once the leader is found
    _place: int = attrs.field(default=0, init=False)  # of the controller that is asked in FIND
    _asked: Ask | None = attrs.field(default=None, init=False)
    _asked_s: float = attrs.field(default=0.0, init=False)
    _due_s: float | None = attrs.field(default=None, init=False)  # of the next request
    _failures: int = attrs.field(default=0, init=False)
    _writing: BrokerIdentity | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)
    _looks: bool = attrs.field(default=False, init=False)  # again, once the answer is there
    _leased: int = attrs.field(default=0, init=False)  # the newest epoch that has had a lease
    _silent_until_s: float = attrs.field(default=0.0, init=False)  # as one of the set

    def __attrs_post_init__(self) -> None:
        found, own = self.identity, self.settings
        if found is not None and (found.cluster, found.broker) != (own.cluster, own.broker):
            raise WrongIdentity(
                f"the store belongs to replica {found.broker_id} of broker set {found.broker} of"
                f" cluster {found.cluster}, not to {own.broker} of {own.cluster}"
            )
        self._next = self._step_by_identity()

    def _step_by_identity(self) -> Step:
        if self.identity is None:
            return Step.NEXT_ID
        if self.identity.check_code is not None:
            return Step.APPLY
        return Step.REGISTER if self.doubts is None else Step.POLL

    @property
    def broker_id(self) -> int | None:
        """The own id, once it is given."""
        found = self.identity
        return None if found is None or found.check_code is not None else found.broker_id

    @property
    def is_master(self) -> bool:
        """Whether the newest role is the own mastership."""
        return self.role is not None and self.role.master == self.broker_id

    def heartbeat(self, log: LogState) -> said.ControllerHeartbeat | None:
        """Return what every controller is told each HEARTBEAT_S; None without an id, or while it
        must not be elected.
        """
        if self.broker_id is None or self.doubts is not None:
            return None
        return said.ControllerHeartbeat(
            broker_addr=self.settings.address,
            broker_id=self.broker_id,
            broker_name=self.settings.broker,
            cluster_name=self.settings.cluster,
            confirm_offset=log.confirm_offset,
            election_priority=self.settings.priority,
            epoch=log.epoch,
            heartbeat_timeout_mills=int(self.settings.timeout_s * 1000),
            max_offset=log.max_offset,
        )

    # ---- what happens ----

    def start(self, now_s: float) -> Effects:
        """Begin with the first request."""
        self._silent_until_s = now_s + self.settings.timeout_s
        return self._ask(now_s)

    def tick(self, now_s: float) -> Effects:
        """Send the next request if it is due."""
        if self._due_s is None or now_s < self._due_s or self._asked or self._writing:
            return Effects(wake_s=self._due_s)
        return self._ask(now_s)

    def look(self, now_s: float) -> Effects:
        """Send the next request at once, or LOOK_APART_S after the last one unless this replica has
        just become master; another one if one is under way, whose answer may be of what was so
        before.
        """
        if self._asked is not None or self._writing is not None:
            self._looks = True
            return Effects(wake_s=self._due_s)
        at_s = self._asked_s + self._apart_s
        self._due_s = at_s if self._due_s is None else min(self._due_s, at_s)
        return self.tick(now_s)

    @property
    def _apart_s(self) -> float:
        """The least pause before a request that somebody wants. A new master acknowledges nothing
        before an answer has named it.
        """
        role = self.role
        is_new = role is not None and self.is_master and self._leased != role.epoch
        return 0.0 if is_new else LOOK_APART_S

    def written(self, now_s: float) -> Effects:
        """Go on after `Effects.write`: it is on the disk."""
        assert self._writing is not None
        self.identity, self._writing = self._writing, None
        return self._go(self._step_by_identity(), now_s)

    def not_written(self, reason: str, now_s: float) -> Effects:
        """Note that the identity could not be written; it is tried again."""
        self._writing = None
        return self._again(Step.FIND, reason, now_s)

    def told(self, change: said.RoleChange, in_sync: said.SyncStateSet) -> Effects:
        """Take what a controller tells by itself (1008)."""
        return self._take_role(Effects(wake_s=self._due_s), change, in_sync)

    def failed(self, number: int, reason: str, now_s: float) -> Effects:
        """Note that a request has no answer."""
        if self._asked is None or number != self._asked.number:
            return Effects(wake_s=self._due_s)
        to, self._asked = self._asked.to, None
        return self._again(Step.FIND, f"{to}: {reason}", now_s)

    def answered(self, number: int, frame: Frame, now_s: float) -> Effects:
        """Take the answer to a request, whatever its code."""
        if self._asked is None or number != self._asked.number:
            return Effects(wake_s=self._due_s)
        asked, self._asked = self._asked, None
        code, remark = frame.header.code, frame.header.remark or ""
        if code == ResponseCode.CONTROLLER_NOT_LEADER:
            return self._again(Step.FIND, f"{asked.to}: {remark}", now_s)
        try:
            return self._took(asked, frame, now_s)
        except RemoteProtocolError as error:
            return self._again(Step.FIND, f"{asked.to}: cannot be understood: {error}", now_s)

    # ---- answers ----

    def _took(self, asked: Ask, frame: Frame, now_s: float) -> Effects:
        code = frame.header.code
        if self.doubts is not None and asked.code is Code.CONTROLLER_ELECT_MASTER:
            return self._again(Step.POLL, SILENT, now_s)
        if code == ResponseCode.SUCCESS or (asked.code, code) == _MASTER_LIVES:
            return self._took_good(asked, frame, now_s)
        match asked.code, code:
            case Code.CONTROLLER_APPLY_BROKER_ID, ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                self.identity = None
                return attrs.evolve(self._go(Step.NEXT_ID, now_s), drop_temporary=True)
            case (
                Code.CONTROLLER_REGISTER_BROKER,
                ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            ):
                forgotten = (
                    f"the controllers do not know replica {self.broker_id} of"
                    f" {self.settings.broker}: it was cleaned from them, or they are others;"
                    " stop it and remove its file brokerIdentity to have it apply for a new id"
                )
                return self._again(Step.REGISTER, forgotten, now_s)
            case (
                Code.CONTROLLER_ELECT_MASTER,
                ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            ):
                return self._again(Step.REGISTER, "the controllers have forgotten the set", now_s)
            case Code.CONTROLLER_ELECT_MASTER, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED:
                nobody = "no replica of the sync state set lives: one of them has to come back"
                return self._again(Step.ELECT, nobody, now_s)
            case (
                Code.CONTROLLER_GET_REPLICA_INFO,
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            ):
                self.doubts = None
                return self._go(Step.REGISTER, now_s)
        remark = frame.header.remark or ""
        refused = f"{asked.to} refuses {asked.code.name}: {code}, {remark}"
        return self._again(Step.FIND, refused, now_s)

    def _took_good(self, asked: Ask, frame: Frame, now_s: float) -> Effects:
        header, body = frame.header, frame.body
        match asked.code:
            case Code.CONTROLLER_GET_METADATA_INFO:
                return self._found(asked, read_fields(header, said.ControllerMetadata), now_s)
            case Code.CONTROLLER_GET_NEXT_BROKER_ID:
                offered = read_fields(header, said.NextBrokerId).next_broker_id
                return self._write(offered, f"{self.settings.address};{self.stamp}")
            case Code.CONTROLLER_APPLY_BROKER_ID:
                assert self.identity is not None
                return self._write(self.identity.broker_id, None)
            case Code.CONTROLLER_REGISTER_BROKER:
                registered = read_fields(header, said.RegisteredToController)
                in_sync = said.decode_sync_state_set(body) if body else said.SyncStateSet()
                return self._has_master(registered, in_sync, now_s)
            case Code.CONTROLLER_ELECT_MASTER:
                elected = read_fields(header, said.ElectedMaster)
                members = said.decode_elect_master(body).sync_state_set if body else ()
                in_sync = said.SyncStateSet(
                    sync_state_set=members, sync_state_set_epoch=elected.sync_state_set_epoch or 0
                )
                return self._has_master(elected, in_sync, now_s)
            case Code.CONTROLLER_GET_SYNC_STATE_DATA:
                return self._has_roster(said.decode_replicas_info(body), now_s)
            case _:
                info = read_fields(header, said.ReplicaInfo)
                in_sync = said.decode_sync_state_set(body) if body else said.SyncStateSet()
                if self.doubts is not None:
                    return self._doubtful(self.doubts, info, in_sync, now_s)
                return self._has_master(info, in_sync, now_s)

    def _doubtful(
        self, doubts: int, found: said.ReplicaInfo, in_sync: said.SyncStateSet, now_s: float
    ) -> Effects:
        """Say that this replica lives, if no election of another one is due; or ask again."""
        own, members = self.broker_id, in_sync.sync_state_set
        leads = found.master_broker_id == own and (found.master_epoch or 0) <= doubts
        is_one = own in members and len(members) > 1 and now_s < self._silent_until_s
        if not leads and not is_one:
            self.doubts = None
            return self._go(Step.REGISTER, now_s)
        taken = Effects() if leads else self._take_role(Effects(), found, in_sync)
        again = self._again(Step.ELECT if leads else Step.POLL, SILENT, now_s)
        return attrs.evolve(taken, wake_s=again.wake_s)

    def _found(self, asked: Ask, found: said.ControllerMetadata, now_s: float) -> Effects:
        leader = found.controller_leader_address
        if not leader:
            return self._again(Step.FIND, f"{asked.to} knows no controller that leads", now_s)
        try:
            endpoint_of(leader)
        except Mismatch:
            what = f"{asked.to} names a leader at {leader[:100]!r}, which is no address"
            return self._again(Step.FIND, what, now_s)
        self.leader, self.step = leader, self._next
        return self._ask(now_s)

    def _has_master(
        self, found: _TellsOfMaster, in_sync: said.SyncStateSet, now_s: float
    ) -> Effects:
        """Take the role that an answer tells of; ask for an election if it tells of no master."""
        if found.master_broker_id is None and self.settings.is_learner:
            later = self._poll_later(now_s)
            self.reason = NO_MASTER
            return later
        if found.master_broker_id is None:
            return self._go(Step.ELECT, now_s)
        taken = self._take_role(Effects(), found, in_sync)
        role = self.role
        told = found.master_broker_id, found.master_epoch
        if role is not None and self.is_master and told == (role.master, role.epoch):
            lease_s = self.settings.timeout_s * (1 - DRIFT)
            self.lease_until_s = max(self.lease_until_s, self._asked_s + lease_s)
            self._leased = role.epoch
            self.step, self._next = Step.ROSTER, Step.POLL
            return attrs.evolve(taken, ask=self._ask(now_s).ask)
        later = self._poll_later(now_s)
        if role is None or (found.master_epoch or 0) < role.epoch:
            own = -1 if role is None else role.epoch
            self.reason = f"the controllers tell of epoch {found.master_epoch}, older than {own}"
        return attrs.evolve(taken, wake_s=later.wake_s)

    def _has_roster(self, found: said.BrokerReplicasInfo, now_s: float) -> Effects:
        """Note who is registered."""
        if self.is_master:
            info = found.replicas_info_table.get(self.settings.broker, said.ReplicasInfo())
            replicas = {
                each.broker_id: each
                for each in (*info.in_sync_replicas, *info.not_in_sync_replicas)
                if each.broker_id is not None
            }
            self.registered = {key: each.broker_address or "" for key, each in replicas.items()}
            self.living = frozenset(key for key, each in replicas.items() if each.alive)
        return self._poll_later(now_s)

    def _take_role(
        self, effects: Effects, found: _TellsOfMaster, in_sync: said.SyncStateSet
    ) -> Effects:
        """Take a role of a greater epoch, or another sync state set of the same one."""
        master, epoch = found.master_broker_id, found.master_epoch
        if master is None or epoch is None or self.broker_id is None:
            return effects
        if self.doubts is not None and master == self.broker_id:
            return effects
        told = ToldRole(
            epoch=epoch,
            master=master,
            address=found.master_address or "",
            in_sync=in_sync.sync_state_set,
            in_sync_epoch=in_sync.sync_state_set_epoch,
        )
        known = self.role
        if known is None or epoch > known.epoch:
            self.role = told
            if not self.is_master:
                self.registered, self.living = {}, frozenset()
            return attrs.evolve(effects, role=told)
        is_newer = told.in_sync_epoch > known.in_sync_epoch and epoch == known.epoch
        if is_newer and master == known.master and told.in_sync:
            self.role = told
            return attrs.evolve(effects, in_sync=told)
        return effects

    # ---- requests ----

    def _write(self, broker_id: int, check_code: str | None) -> Effects:
        self._due_s = None
        self._writing = BrokerIdentity(
            cluster=self.settings.cluster,
            broker=self.settings.broker,
            broker_id=broker_id,
            check_code=check_code,
        )
        return Effects(write=self._writing)

    def _go(self, step: Step, now_s: float) -> Effects:
        """Send the next step's request to the leader, at once."""
        self._failures, self.reason = 0, ""
        self.step = self._next = step
        return self._ask(now_s)

    def _poll_later(self, now_s: float) -> Effects:
        self._failures, self.reason = 0, ""
        self.step = self._next = Step.POLL
        pause_s = min(self.settings.timeout_s * POLL_PART, POLL_MAX_S)
        self._due_s = now_s + (self._apart_s if self._looks else pause_s)
        self._looks = False
        return Effects(wake_s=self._due_s)

    def _again(self, step: Step, reason: str, now_s: float) -> Effects:
        """Send the request of a step after a pause."""
        pause_s = min(RETRY_FIRST_S * 2 ** min(self._failures, 10), RETRY_MAX_S)
        self._failures += 1
        self.reason, self.step = reason, step
        if step is Step.FIND:
            self._place += 1
        else:
            self._next = step
        self._due_s = now_s + pause_s
        return Effects(wake_s=self._due_s)

    def _ask(self, now_s: float) -> Effects:
        controllers = self.settings.controllers
        to = self.leader
        if self.step is Step.FIND or not to:
            self.step, to = Step.FIND, controllers[self._place % len(controllers)]
        code, fields = _REQUESTS[self.step](self)
        body = encode_body([self.settings.broker]) if self.step is Step.ROSTER else b""
        self._number += 1
        self._asked_s, self._due_s = now_s, None
        self._asked = Ask(number=self._number, to=to, code=code, fields=fields, body=body)
        return Effects(ask=self._asked)

    def _of_set(self) -> said.BrokerSet:
        own = self.settings
        return said.BrokerSet(broker_name=own.broker, cluster_name=own.cluster)

    def _application(self) -> said.ApplyBrokerId:
        own, found = self.settings, self.identity
        assert found is not None
        assert found.check_code is not None
        return said.ApplyBrokerId(
            applied_broker_id=found.broker_id,
            broker_name=own.broker,
            cluster_name=own.cluster,
            register_check_code=found.check_code,
        )

    def _registration(self) -> said.RegisterToController:
        own, broker_id = self.settings, self.broker_id
        assert broker_id is not None
        return said.RegisterToController(
            broker_address=own.address,
            broker_id=broker_id,
            broker_name=own.broker,
            cluster_name=own.cluster,
        )

    def _election(self) -> said.ElectMaster:
        own, broker_id = self.settings, self.broker_id
        assert broker_id is not None
        if self.doubts is not None:
            broker_id = said.CONTROLLER_ITSELF
        return said.ElectMaster(
            broker_id=broker_id, broker_name=own.broker, cluster_name=own.cluster
        )


_REQUESTS: Final[Mapping[Step, Callable[[Replica], tuple[Code, Fields | None]]]] = {
    Step.FIND: lambda replica: (Code.CONTROLLER_GET_METADATA_INFO, None),
    Step.NEXT_ID: lambda replica: (Code.CONTROLLER_GET_NEXT_BROKER_ID, replica._of_set()),
    Step.APPLY: lambda replica: (Code.CONTROLLER_APPLY_BROKER_ID, replica._application()),
    Step.REGISTER: lambda replica: (Code.CONTROLLER_REGISTER_BROKER, replica._registration()),
    Step.ELECT: lambda replica: (Code.CONTROLLER_ELECT_MASTER, replica._election()),
    Step.POLL: lambda replica: (Code.CONTROLLER_GET_REPLICA_INFO, replica._of_set()),
    Step.ROSTER: lambda replica: (Code.CONTROLLER_GET_SYNC_STATE_DATA, None),
}
