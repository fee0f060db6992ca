"""Controller answers brokers and operators, decides as long as it leads, and watches who lives.

Messages: Request (from the port), ConnectionEnded, LeadershipChanged (from the state machine), and
its own. It sends Append to quorum_ack_checker and ProveLeader to state_maintainer, and calls
brokers through a RemotingClient.

Requests that may change something are decided one at a time: the event of one is committed and
applied before the next is looked at, as an event is applied without looking again at what it was
decided on. An event is appended only in the term in which it was decided. Every other answer of
the leader is sent once a majority has confirmed, after the request came, that it leads: a leader
that was deposed without knowing it tells nobody of an old master.

Source: apache/rocketmq, controller/.../ControllerManager.java, impl/DLedgerController.java and
processor/ControllerRequestProcessor.java, 5.3.3; autoswitch-ha.md 7.

Differs from upstream:
- Reads are confirmed by a majority (upstream: isProcessReadEvent, which is false by default).
- A controller that has just started takes the master of a set for alive until it was heard of, for
  as long as replicas live that announce nothing. Upstream's takes it for dead.
- What 1009 changes counts until the next start, and what would not act is refused.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from actors.config.bounds import Mismatch, endpoint_of
from actors.controller.core.broker_sets import Alive, BrokerSet, BrokerSets, Decision
from actors.controller.core.liveness import DEFAULT_TIMEOUT_S, Liveness, Living, ReplicaKey
from actors.controller.decided_events import event_of
from actors.controller.machine import ControllerView
from actors.controller.questions import READERS, Question, election
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.replication.append_messages import Append, Committed
from actors.dledger.session_messages import LeaderProven, ProveLeader
from actors.env.protocols import Address
from actors.errors import NotStored
from actors.events import controller as events
from actors.namesrv.core import settings
from actors.remoting import client
from actors.remoting.requests import BUSY, Answer, Channel, Processor, Processors, Refused, Request
from actors.runtime import Actor, ActorRef, MailboxSpec
from wire.broker import controller as said
from wire.broker import controller_events as changes
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import encode_body
from wire.broker.routes import encode_properties
from wire.dledger.files import decode_properties_file
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.frame import REMOTING_SYSTEM_BUSY, REMOTING_SYSTEM_ERROR
from wire.remoting.header import write_fields

WAITING_MAX: Final = 1024
"""The most requests that may wait for their turn; others are answered as busy. Upstream: the
capacity of EventScheduler's queue.
"""
MAILBOX_BYTES: Final = 8 << 20
"""The most bytes of bodies that may wait."""
APPEND_S: Final = 3600.0
"""How many seconds an event may take to be committed. It ends earlier with the leadership; nothing
is decided meanwhile, as its outcome is not known.
"""
SCAN_S: Final = 5.0
"""The seconds between two looks at all broker sets, for one that wants an election. Upstream:
scanInactiveMasterInterval.
"""
PROOF_S: Final = 5.0
"""How many seconds a majority may take to confirm that this controller leads."""
SETTLE_S: Final = 0.5
"""The pause before an entry is appended again by which the outcome of another one is learnt."""
EXPIRY_LAG_S: Final = 0.01
"""How many seconds after the end of the announced time a silent replica is looked for."""
LATE_S: Final = 0.25
"""A look that comes so many seconds too late finds heartbeats unread, and is put off by as much."""
PUT_OFF_MAX: Final = 8
"""How many times in a row: a loop that is always late has to find who is dead, too."""
NOT_LEADER: Final = "The controller is not in leader state"
UNCLEAN: Final = "enableElectUncleanMaster"
NOTIFY: Final = "notifyBrokerRoleChanged"


@attrs.frozen
class ConnectionEnded:
    """A connection on which heartbeats came has ended."""

    connection: int


@attrs.frozen
class LeadershipChanged:
    """This controller leads, or leads no more; the view says which."""


@attrs.frozen
class _Look:
    """Timer: replicas may have been silent for too long.

    Attributes:
        due_s: when it was due.
    """

    due_s: float


@attrs.frozen
class _StartedLongAgo:
    """Timer: whoever lives has been heard of by now.

    Attributes:
        due_s: when it was due.
    """

    due_s: float


@attrs.frozen
class _Scan:
    """Timer: look at all broker sets."""


@attrs.frozen
class _Appended:
    """The outcome of the append of an event."""

    outcome: Committed | Exception


@attrs.frozen
class _Proven:
    """The outcome of the question whether this controller leads."""

    outcome: LeaderProven | Exception


@attrs.frozen
class _Settled:
    """The outcome of the append of the entry behind an event whose outcome is not known."""

    term: int
    outcome: Committed | Exception


@attrs.frozen
class _SettleDue:
    """Timer: append that entry again, if this controller still leads in that term."""

    term: int


Message: TypeAlias = Request | ConnectionEnded | LeadershipChanged
_Inbox: TypeAlias = (
    Message | _Look | _Scan | _StartedLongAgo | _Appended | _Proven | _Settled | _SettleDue
)


@attrs.frozen
class _Asked:
    """A question in its turn.

    Attributes:
        request: None: the controller itself wants an election.
    """

    question: Question
    request: Request | None = None


@attrs.frozen
class _Decided:
    """A decision, made in a term, and what it is about, until it is committed or confirmed."""

    asked: _Asked
    decision: Decision
    term: int | None


def _size_of(message: object) -> int:
    return len(message.body) if isinstance(message, Request) else 0


@attrs.define(kw_only=True)
class Controller(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        group: the DLedger group's name on the wire.
        member: this controller's own id in it.
        addresses: where each controller listens, by its id.
        view: the broker sets as this controller has applied them.
        role_status: which controller leads.
    """

    mailbox = MailboxSpec(
        capacity_bytes=MAILBOX_BYTES,
        size_of=_size_of,
        conflate={
            ConnectionEnded: lambda message: message.connection,
            LeadershipChanged: lambda message: None,
        },
    )
    group: str
    member: str
    addresses: Mapping[str, str]
    view: ControllerView
    role_status: LeaderStatus
    checker: ActorRef[Append]
    maintainer: ActorRef[ProveLeader]
    client: ActorRef[client.Call]
    _processors: Processors = attrs.field(init=False)
    _term: int | None = attrs.field(default=None, init=False)
    _unsettled: int | None = attrs.field(default=None, init=False)  # term of an unknown outcome
    _waiting: deque[_Asked] = attrs.field(factory=deque, init=False)
    _deciding: _Decided | None = attrs.field(default=None, init=False)  # being committed
    _unproven: list[_Decided] = attrs.field(factory=list, init=False)
    _proving: list[_Decided] = attrs.field(factory=list, init=False)
    _due: set[str] = attrs.field(factory=set, init=False)  # sets that may want an election
    _all_heard_s: float = attrs.field(default=0.0, init=False)
    _heard: set[ReplicaKey] = attrs.field(factory=set, init=False)  # up to `_all_heard_s`
    _look_s: float = attrs.field(default=math.inf, init=False)
    _put_off: int = attrs.field(default=0, init=False)
    _electing: set[str] = attrs.field(factory=set, init=False)  # sets whose election waits

    async def on_start(self) -> None:
        code = RequestCode
        table: dict[int, Processor] = {
            code.BROKER_HEARTBEAT: self._heartbeat,
            code.CONTROLLER_GET_METADATA_INFO: self._metadata,
            code.GET_CONTROLLER_CONFIG: self._get_config,
            code.UPDATE_CONTROLLER_CONFIG: self._update_config,
        }
        table |= {each: partial(self._in_turn, read) for each, read in READERS.items()}
        self._processors = Processors(table)
        self.view.living = Liveness()
        self._all_heard_s = self.ctx.now_s() + DEFAULT_TIMEOUT_S
        at_s = self._all_heard_s
        self.ctx.timers.start_by("started", at_s, _StartedLongAgo(at_s))
        self.ctx.timers.start("scan", SCAN_S, _Scan())
        self.view.listener = self._wake
        self._lead()

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        for message in messages:
            match message:
                case Request():
                    self._processors.serve(message)
                case ConnectionEnded():
                    gone = self.view.living.closed(message.connection)
                    self._silent(gone, "connection ended")
                case LeadershipChanged():
                    self._lead()
                case _Look():
                    self._look(message.due_s)
                case _StartedLongAgo():
                    self._started(message.due_s)
                case _Scan():
                    self._due.update(each.name for each in self._sets)
                    self.ctx.timers.start("scan", SCAN_S, _Scan())
                case _Appended():
                    self._appended(message.outcome)
                case _Settled():
                    self._settled(message)
                case _SettleDue():
                    if message.term == self._term:
                        self._unsettle()
                case _Proven():
                    self._proven(message.outcome)
                case _:
                    assert_never(message)
        self._want_elections()
        self._decide()
        self._prove()

    # ---- leadership ----

    @property
    def _sets(self) -> BrokerSets:
        return self.view.machine.sets

    @property
    def _leads(self) -> bool:
        return self._term is not None and self._term != self._unsettled

    def _wake(self) -> None:
        self.ctx.self_ref.post(LeadershipChanged())

    def _lead(self) -> None:
        """Take note of whether this controller leads, and in which term."""
        term = self.view.machine.term
        if term == self._term:
            return
        self._term = term
        self._unsettled = None  # who leads anew, in the same term, too, has applied all before
        self._give_up_waiting()
        if term is not None:
            names = [each.name for each in self._sets]
            self._due.update(names)
            self.ctx.emit(events.ControllerLeads(term=term, broker_sets=len(names)))

    def _give_up_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._electing.clear()
        for asked in waiting:
            _not_leader(asked)

    # ---- who lives ----

    def _heartbeat(self, request: Request) -> Answer:
        found = request.fields(said.ControllerHeartbeat)
        if found.broker_id is None:
            invalid = ResponseCode.CONTROLLER_INVALID_REQUEST
            return Answer(code=invalid, remark="Heart beat with empty brokerId")
        known = self._sets.get(found.broker_name)
        if known is not None and found.broker_id in known.replicas:
            self._lives(found, request.channel)
        return Answer(remark="Heart beat success")

    def _lives(self, found: said.ControllerHeartbeat, channel: Channel) -> None:
        """Take note of a sign of life of a replica that the controllers know."""
        assert found.broker_id is not None
        key = ReplicaKey(found.cluster_name, found.broker_name, found.broker_id)
        living = self.view.living
        was_alive = key.broker_id in living.of(key.cluster, key.broker)
        if living.heartbeat(found, channel.connection, self.ctx.now_s()):
            channel.on_end(self._ended)
            if not was_alive:
                channel.prove()
                self._heard_of(key, found.broker_addr)
            self._look_by(living.next_of(key))

    def _asks(self, question: Question, channel: Channel) -> None:
        """Take a replica's request for its first sign of life: it may come before a heartbeat."""
        found, broker_id = self._sets.get(question.broker), question.asker
        if found is None or broker_id is None or broker_id not in found.replicas:
            return
        if broker_id in self.view.living.of(found.cluster, found.name):
            return
        beat = said.ControllerHeartbeat(
            broker_addr=found.replicas[broker_id].address,
            broker_id=broker_id,
            broker_name=found.name,
            cluster_name=found.cluster,
        )
        self._lives(beat, channel)

    def _ended(self, channel: Channel) -> None:
        self.ctx.self_ref.post(ConnectionEnded(channel.connection))

    def _heard_of(self, key: ReplicaKey, address: str) -> None:
        if self.ctx.now_s() < self._all_heard_s:
            self._heard.add(key)
        self._due.add(key.broker)
        self.ctx.emit(
            events.ReplicaHeard(
                cluster=key.cluster,
                broker=key.broker,
                broker_id=key.broker_id,
                address=address,
            )
        )

    def _silent(self, gone: Iterable[ReplicaKey], reason: str) -> None:
        for key in gone:
            self._due.add(key.broker)
            self.ctx.emit(
                events.ReplicaSilent(
                    cluster=key.cluster,
                    broker=key.broker,
                    broker_id=key.broker_id,
                    reason=reason,
                )
            )

    def _look_by(self, until_s: float) -> None:
        at_s = until_s + EXPIRY_LAG_S
        if at_s < self._look_s:
            self._look_s = at_s
            self.ctx.timers.start_by("look", at_s, _Look(at_s))

    def _started(self, due_s: float) -> None:
        """Take nobody for alive any more who was never heard of."""
        if self._is_late(due_s):
            at_s = self._all_heard_s = self.ctx.now_s() + LATE_S
            self.ctx.timers.start_by("started", at_s, _StartedLongAgo(at_s))
            return
        self._heard.clear()
        self._due.update(each.name for each in self._sets)

    def _is_late(self, due_s: float) -> bool:
        """Whether a look has to be put off, as heartbeats may be unread; a few times in a row."""
        is_late = self.ctx.now_s() - due_s > LATE_S and self._put_off < PUT_OFF_MAX
        self._put_off = self._put_off + 1 if is_late else 0
        return is_late

    def _look(self, due_s: float) -> None:
        self._look_s = math.inf
        if self._is_late(due_s):
            self._look_by(self.ctx.now_s() + LATE_S)
            return
        self._silent(self.view.living.expire(due_s), "silent for too long")
        next_s = self.view.living.next_expiry_s
        if next_s is not None:
            self._look_by(next_s)

    def _alive(self, found: BrokerSet | None) -> Alive:
        if found is None:
            return {}
        living = self.view.living.of(found.cluster, found.name)
        master, until_s = found.master_id, self._all_heard_s
        if master is None or master in living or self.ctx.now_s() >= until_s:
            return living
        if ReplicaKey(found.cluster, found.name, master) not in self._heard:
            living[master] = Living(connection=0, until_s=until_s)
        return living

    # ---- requests ----

    def _in_turn(self, read: Callable[[Request], Question], request: Request) -> Answer | None:
        if not self._leads:
            return Answer(code=ResponseCode.CONTROLLER_NOT_LEADER, remark=NOT_LEADER)
        if len(self._waiting) - len(self._electing) >= WAITING_MAX:
            return Answer(code=REMOTING_SYSTEM_BUSY, remark=BUSY)
        try:
            question = read(request)
        except RemoteProtocolError as error:
            raise Refused(REMOTING_SYSTEM_ERROR, str(error)) from None
        if question.asker is not None:
            self._asks(question, request.channel)
        self._waiting.append(_Asked(question, request))
        request.body = b""
        return None

    def _metadata(self, request: Request) -> Answer:
        leader = self.role_status.leader
        found = said.ControllerMetadata(
            controller_leader_address=self.addresses.get(leader),
            controller_leader_id=leader or None,
            group=self.group,
            is_leader=leader == self.member,
            peers="".join(f"{name}:{address};" for name, address in self.addresses.items()),
        )
        return Answer(ext_fields=write_fields(found))

    # ---- settings ----

    @property
    def _settings(self) -> dict[str, bool]:
        return {UNCLEAN: self._sets.unclean, NOTIFY: self.view.notifies}

    @property
    def _fixed(self) -> dict[str, str]:
        return {
            "configBlackList": "configBlackList;configStorePath",
            "controllerDLegerGroup": self.group,
            "controllerDLegerPeers": ";".join(
                f"{name}-{address}" for name, address in self.addresses.items()
            ),
            "controllerDLegerSelfId": self.member,
            "controllerType": "DLedger",
            "isProcessReadEvent": "true",
        }

    def _get_config(self, request: Request) -> Answer:
        return Answer(body=encode_properties({**self._fixed, **settings.shown(self._settings)}))

    def _update_config(self, request: Request) -> Answer:
        try:
            asked = decode_properties_file(request.body)
        except RemoteProtocolError as error:
            raise Refused(REMOTING_SYSTEM_ERROR, str(error)) from None
        found = settings.changed(self._settings, asked, fixed=self._fixed)
        if isinstance(found, settings.Refusal):
            return Answer(code=found.code, remark=found.remark)
        self.view.unclean = self._sets.unclean = found[UNCLEAN]
        self.view.notifies = found[NOTIFY]
        self._due.update(each.name for each in self._sets)
        return Answer()

    # ---- decisions ----

    def _want_elections(self) -> None:
        due, self._due = self._due, set()
        for name in sorted(due - self._electing) if self._leads else ():
            found = self._sets.get(name)
            wanted = None if found is None else self._sets.wanting(name, self._alive(found))
            if wanted is not None:
                self._electing.add(name)
                self._waiting.append(_Asked(election(wanted)))

    def _decide(self) -> None:
        """Decide what waits, up to the first decision that has to be committed."""
        while self._waiting and self._deciding is None:
            asked = self._waiting.popleft()
            if asked.request is None:
                self._electing.discard(asked.question.broker)
            found = _Decided(asked, asked.question.decide(self._sets, self._alive), self._term)
            event = found.decision.event
            if event is None:
                if asked.request is not None:
                    self._unproven.append(found)
                continue
            try:
                body = changes.encode_event(event)
            except LocalProtocolError as error:
                _fail(asked, Refused(REMOTING_SYSTEM_ERROR, str(error)))
                continue
            self._deciding = found
            self._append(body, _Appended)

    def _append(
        self, body: bytes, on_reply: Callable[[Committed | Exception], _Appended | _Settled]
    ) -> None:
        deadline_s, term = self.ctx.now_s() + APPEND_S, self._term
        self.ctx.ask_later(
            self.checker,
            Committed,
            lambda reply_to: Append(
                bodies=(body,), deadline_s=deadline_s, reply_to=reply_to, term=term
            ),
            timeout_s=2 * APPEND_S,
            on_reply=on_reply,
        )

    def _appended(self, outcome: Committed | Exception) -> None:
        assert self._deciding is not None
        found, self._deciding = self._deciding, None
        asked, question, event = found.asked, found.asked.question, found.decision.event
        assert event is not None
        if isinstance(outcome, NotStored):
            self.ctx.timers.start("scan", SETTLE_S, _Scan())
            _not_leader(asked, f"{NOT_LEADER}, or cannot write: {outcome}")
            return
        if isinstance(outcome, Exception):
            if found.term == self._term:
                self._unsettle()
            self.ctx.emit(
                events.DecisionLost(
                    broker=question.broker, request=question.code.name, reason=str(outcome)
                )
            )
            _not_leader(asked, "The controller does not know what came of this request")
            return
        (problem,) = outcome.results
        if problem is not None:
            _fail(asked, Refused(REMOTING_SYSTEM_ERROR, str(problem)))
            return
        self._due.add(question.broker)
        told = event_of(self._sets.get(question.broker), event, question.asked_by)
        if told is not None:
            self.ctx.emit(told)
        _answer(found)
        if (
            isinstance(event, changes.ElectMaster)
            and event.new_master_elected
            and self.view.notifies
        ):
            self._notify(question.broker)

    def _unsettle(self) -> None:
        """Stop deciding until it is known what came of the last event.

        An entry without an event is appended behind it: once that is committed and applied, what
        stood before it in the log is applied as well, or never will be.
        """
        self._give_up_waiting()
        self._unsettled = self._term
        if self._term is not None:
            self._append(b"", partial(_Settled, self._term))

    def _settled(self, message: _Settled) -> None:
        if message.term != self._term:
            return
        if isinstance(message.outcome, Exception):
            self.ctx.timers.start("settle", SETTLE_S, _SettleDue(message.term))
        else:
            self._unsettled = None
            self._due.update(each.name for each in self._sets)

    def _prove(self) -> None:
        """Ask whether this controller leads, for all answers that wait for that."""
        if self._proving or not self._unproven:
            return
        self._proving, self._unproven = self._unproven, []
        self.ctx.ask_later(
            self.maintainer,
            LeaderProven,
            lambda reply_to: ProveLeader(reply_to=reply_to),
            timeout_s=PROOF_S,
            on_reply=_Proven,
        )

    def _proven(self, outcome: LeaderProven | Exception) -> None:
        decided, self._proving = self._proving, []
        leads = isinstance(outcome, LeaderProven) and outcome.term == self._term
        for found in decided:
            if leads and found.term == self._term:
                _answer(found)
            else:
                _not_leader(found.asked)

    def _notify(self, name: str) -> None:
        """Tell the living replicas of a set who is master. Whom it does not reach will ask."""
        found = self._sets.get(name)
        if found is None:
            return
        fields = write_fields(
            said.RoleChange(
                master_address=found.master_address,
                master_broker_id=found.master_id,
                master_epoch=found.master_epoch,
                sync_state_set_epoch=found.in_sync_epoch,
            )
        )
        body = encode_body(found.sync_state_set)
        for broker_id in sorted(self.view.living.of(found.cluster, name)):
            address = _address(found.address(broker_id))
            if address is not None:
                self.client.post(
                    client.Call(
                        address=address,
                        code=RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
                        ext_fields=fields,
                        body=body,
                    )
                )


def _address(text: str | None) -> Address | None:
    """Where a replica says that it is; None: that is no address."""
    try:
        return Address(*endpoint_of(text))
    except Mismatch:
        return None


def _answer(found: _Decided) -> None:
    request, decision = found.asked.request, found.decision
    if request is None:
        return
    fields, body = decision.fields, decision.body
    request.send(
        Answer(
            code=decision.code,
            ext_fields=None if fields is None else write_fields(fields),
            remark=decision.remark,
            body=b"" if body is None else encode_body(body),
        )
    )


def _not_leader(asked: _Asked, remark: str = NOT_LEADER) -> None:
    _fail(asked, Refused(ResponseCode.CONTROLLER_NOT_LEADER, remark))


def _fail(asked: _Asked, error: Refused) -> None:
    if asked.request is not None:
        asked.request.fail(error)
