"""A replica and its controllers: ids, roles, what is asked again, and the lease of a master."""

from __future__ import annotations

import random

import attrs
import pytest

from actors.broker.core import replica
from actors.broker.core.replica import (
    RETRY_MAX_S,
    TIMEOUT_S,
    Ask,
    Effects,
    LogState,
    Replica,
    ReplicaSettings,
    Step,
    WrongIdentity,
)
from actors.controller.core.broker_sets import BrokerSets, Decision
from actors.controller.core.liveness import Living
from wire.broker import controller as said
from wire.broker.codes import RequestCode as Code
from wire.broker.codes import ResponseCode
from wire.broker.controller_events import AlterSyncStateSet
from wire.broker.dialect import encode_body
from wire.files.broker_identity import BrokerIdentity
from wire.remoting.frame import Frame
from wire.remoting.header import Header, write_fields

CONTROLLERS = ("10.0.0.1:9878", "10.0.0.2:9878", "10.0.0.3:9878")


def settings(number: int = 1, *, is_learner: bool = False) -> ReplicaSettings:
    return ReplicaSettings(
        cluster="C",
        broker="set1",
        address=f"10.0.1.{number}:10911",
        controllers=CONTROLLERS,
        is_learner=is_learner,
    )


def frame(decision: Decision) -> Frame:
    fields, body = decision.fields, decision.body
    header = Header(
        code=decision.code,
        remark=decision.remark,
        ext_fields=None if fields is None else write_fields(fields),
    )
    return Frame(header=header, body=b"" if body is None else encode_body(body), loose=False)


@attrs.define
class Controllers:
    """What the controllers decide, with the real rules; `leader` answers, others say 2007."""

    sets: BrokerSets = attrs.field(factory=BrokerSets)
    leader: str = CONTROLLERS[0]
    alive: dict[int, Living] = attrs.field(factory=dict)

    def answer(self, ask: Ask) -> Frame:
        if ask.code is Code.CONTROLLER_GET_METADATA_INFO:
            leads = ask.to == self.leader
            found = said.ControllerMetadata(controller_leader_address=self.leader, is_leader=leads)
            return frame(Decision(fields=found))
        if ask.to != self.leader:
            return frame(Decision(code=ResponseCode.CONTROLLER_NOT_LEADER, remark="no leader"))
        decision = self._decide(ask)
        if decision.event is not None:
            self.sets.apply(decision.event)
        return frame(decision)

    def _decide(self, ask: Ask) -> Decision:
        sets, fields = self.sets, ask.fields
        match ask.code, fields:
            case Code.CONTROLLER_GET_NEXT_BROKER_ID, said.BrokerSet():
                return sets.next_id(fields)
            case Code.CONTROLLER_APPLY_BROKER_ID, said.ApplyBrokerId():
                return sets.apply_id(fields)
            case Code.CONTROLLER_REGISTER_BROKER, said.RegisterToController():
                return sets.register(fields, self.alive)
            case Code.CONTROLLER_ELECT_MASTER, said.ElectMaster():
                return sets.elect(fields, self.alive)
            case Code.CONTROLLER_GET_REPLICA_INFO, said.BrokerSet():
                return sets.replica_info(fields)
            case Code.CONTROLLER_GET_SYNC_STATE_DATA, None:
                names = said.decode_names(ask.body)
                return sets.sync_state_data(names, lambda found: self.alive if found else {})
        raise AssertionError(ask)

    def live(self, *ids: int) -> None:
        self.alive = {each: Living(connection=each, until_s=1e9) for each in ids}


@attrs.define
class Host:
    """A replica on a machine: its files, its clock, and the answers that it gets."""

    controllers: Controllers
    number: int = 1
    now_s: float = 100.0
    given: BrokerIdentity | None = None
    temporary: BrokerIdentity | None = None
    is_learner: bool = False
    doubts: int | None = None
    replica: Replica = attrs.field(init=False)
    ask: Ask | None = attrs.field(default=None, init=False)
    seen: list[Effects] = attrs.field(factory=list, init=False)
    starts: int = attrs.field(default=0, init=False)

    def start(self) -> Host:
        """Start it, with what its files say."""
        self.starts += 1
        stamp = 1000 * self.number + self.starts
        own = settings(self.number, is_learner=self.is_learner)
        self.replica = Replica(own, stamp, self.given or self.temporary, self.doubts)
        self.ask = None
        self.take(self.replica.start(self.now_s))
        return self

    def take(self, effects: Effects, *, crash_before: int = 99) -> None:
        """Do what is asked for, in order.

        Args:
            crash_before: of the steps write, drop and the rest: not that one, and none behind it.
        """
        self.seen.append(effects)
        if effects.write is not None and crash_before > 0:
            if effects.write.check_code is None:
                self.given = effects.write
                if crash_before > 1:
                    self.temporary = None
            else:
                self.temporary = effects.write
            if crash_before > 2:
                self.take(self.replica.written(self.now_s))
        if effects.drop_temporary and crash_before > 1:
            self.temporary = None
        if effects.ask is not None:
            self.ask = effects.ask

    def step(self) -> bool:
        """Have the open request answered, or send the next one. Returns: False if none is due."""
        if self.ask is not None:
            ask, self.ask = self.ask, None
            self.take(self.replica.answered(ask.number, self.controllers.answer(ask), self.now_s))
            return True
        due_s = self.seen[-1].wake_s
        if due_s is None:
            return False
        self.now_s = max(self.now_s, due_s)
        self.take(self.replica.tick(self.now_s))
        return True

    def until(self, step: Step, most: int = 60) -> None:
        for _ in range(most):
            if self.replica.step is step and self.ask is None:
                return
            assert self.step()
        raise AssertionError(self.replica)


@pytest.mark.checklist(42, of="autoswitch")
def test_a_blank_replica_gets_an_id_and_the_first_is_master() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    one = Host(controllers).start()
    one.until(Step.POLL)
    assert one.given == BrokerIdentity(cluster="C", broker="set1", broker_id=1)
    assert one.temporary is None
    assert one.replica.is_master
    role = one.replica.role
    assert role is not None
    assert (role.epoch, role.master, role.in_sync, role.in_sync_epoch) == (1, 1, (1,), 1)
    two = Host(controllers, 2).start()
    two.until(Step.POLL)
    assert two.replica.broker_id == 2
    assert two.replica.role == attrs.evolve(role, in_sync=(1,))
    assert not two.replica.is_master


def test_a_restart_keeps_the_id_and_registers_the_address() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.until(Step.POLL)
    moved = attrs.evolve(settings(), address="10.0.9.9:1")
    again = Replica(moved, 7, one.given)
    effects = again.start(0.0)
    found = again.answered(1, controllers.answer(effects.ask), 0.0) if effects.ask else Effects()
    assert found.ask is not None
    assert found.ask.code is Code.CONTROLLER_REGISTER_BROKER
    controllers.answer(found.ask)
    kept = controllers.sets.get("set1")
    assert kept is not None
    assert kept.address(1) == "10.0.9.9:1"


@pytest.mark.checklist(42, of="autoswitch")
@pytest.mark.parametrize("seed", range(60))
def test_crashes_and_lost_answers_burn_no_id_and_give_none_twice(seed: int) -> None:
    """Three blank replicas come up while requests and answers are lost, and they crash between any
    two of their steps.
    """
    rng = random.Random(seed)
    controllers = Controllers()
    controllers.live(1, 2, 3)
    hosts = [Host(controllers, number).start() for number in (1, 2, 3)]
    for _ in range(400):
        host = rng.choice(hosts)
        ask, chance = host.ask, rng.random()
        if ask is None or chance < 0.5:
            host.step()
        elif chance < 0.65:  # the request, or its answer, is lost
            if rng.random() < 0.5:
                controllers.answer(ask)
            host.ask = None
            host.take(host.replica.failed(ask.number, "no answer", host.now_s))
        elif chance < 0.8:
            controllers.leader = rng.choice(CONTROLLERS)
        else:
            host.ask = None
            effects = host.replica.answered(ask.number, controllers.answer(ask), host.now_s)
            host.take(effects, crash_before=rng.randrange(4))
            host.start()
    for host in hosts:
        host.until(Step.POLL)
    ids = [host.replica.broker_id for host in hosts]
    kept = controllers.sets.get("set1")
    assert kept is not None
    assert sorted(each for each in ids if each is not None) == [1, 2, 3] == sorted(kept.replicas)
    assert len({host.replica.role for host in hosts}) == 1


@pytest.mark.checklist(22, of="autoswitch")
def test_a_greater_epoch_alone_changes_the_role() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    one = Host(controllers).start()
    one.until(Step.POLL)
    Host(controllers, 2).start().until(Step.POLL)
    told = said.RoleChange(master_address="b", master_broker_id=2, master_epoch=1)
    assert one.replica.told(told, said.SyncStateSet()).role is None
    told = said.RoleChange(master_address="b", master_broker_id=2, master_epoch=2)
    effects = one.replica.told(told, said.SyncStateSet(sync_state_set=(2,), sync_state_set_epoch=9))
    assert effects.role is not None
    assert (effects.role.master, effects.role.epoch, effects.role.in_sync) == (2, 2, (2,))
    assert not one.replica.is_master
    older = said.RoleChange(master_address="a", master_broker_id=1, master_epoch=1)
    assert one.replica.told(older, said.SyncStateSet()).role is None


def test_the_same_master_with_another_set_is_no_change_of_the_role() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    one = Host(controllers).start()
    one.until(Step.POLL)
    Host(controllers, 2).start().until(Step.POLL)
    wanted = said.SyncStateSet(sync_state_set=(1, 2), sync_state_set_epoch=1)
    alter = said.AlterSyncStateSet(broker_name="set1", master_broker_id=1, master_epoch=1)
    event = controllers.sets.alter(alter, wanted, controllers.alive).event
    assert event is not None
    controllers.sets.apply(event)
    one.seen.clear()
    one.seen.append(Effects(wake_s=one.now_s + 10))
    one.step()
    one.step()
    (found,) = [each.in_sync for each in one.seen if each.in_sync is not None]
    assert (found.in_sync, found.in_sync_epoch, found.epoch) == ((1, 2), 2, 1)
    assert all(each.role is None for each in one.seen)


def test_a_set_without_a_master_is_asked_for_an_election_until_there_is_one() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    one, two = Host(controllers).start(), Host(controllers, 2)
    one.until(Step.POLL)
    two.start().until(Step.POLL)
    controllers.live(2)
    cleared = controllers.sets.elect(said.ElectMaster(broker_name="set1"), controllers.alive)
    assert cleared.event is not None
    controllers.sets.apply(cleared.event)
    for _ in range(6):
        two.step()
    assert two.replica.step is Step.ELECT
    assert "no replica of the sync state set lives" in two.replica.reason
    controllers.live(1, 2)
    two.until(Step.POLL)
    assert two.replica.role is not None
    assert (two.replica.role.master, two.replica.role.epoch) == (1, 3)
    assert two.replica.reason == ""


def test_a_learner_waits_for_a_master_and_asks_for_no_election() -> None:
    controllers = Controllers()
    learner = Host(controllers, is_learner=True).start()
    controllers.live(1)
    for _ in range(20):
        learner.step()
    assert learner.given is not None
    assert controllers.sets.get("set1").master_epoch == 0  # type: ignore[union-attr]
    assert (learner.replica.step, learner.replica.role) == (Step.POLL, None)
    assert learner.replica.reason == replica.NO_MASTER
    master = Host(controllers, number=2).start()
    controllers.live(1, 2)
    for _ in range(20):
        master.step()
        learner.step()
    assert master.replica.is_master
    assert learner.replica.role is not None
    assert (learner.replica.role.master, learner.replica.reason) == (2, "")


def test_whom_the_controllers_have_forgotten_says_so_and_takes_no_other_id() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.until(Step.POLL)
    clean = said.CleanBrokerData(broker_name="set1", is_clean_living_broker=True)
    event = controllers.sets.clean(clean, controllers.alive).event
    assert event is not None
    controllers.sets.apply(event)
    leased_s = one.replica.lease_until_s
    for _ in range(8):
        one.step()
    assert one.replica.step is Step.REGISTER
    assert "do not know replica 1 of set1" in one.replica.reason
    assert "remove its file brokerIdentity" in one.replica.reason
    assert one.replica.lease_until_s == leased_s
    assert one.given is not None
    one.given = None
    one.start().until(Step.POLL)
    assert one.replica.is_master


def test_the_lease_begins_when_the_answered_request_was_sent() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.until(Step.POLL)
    due_s = one.seen[-1].wake_s
    assert due_s is not None
    assert due_s - one.now_s == pytest.approx(replica.TIMEOUT_S * replica.POLL_PART)
    one.now_s = due_s
    one.take(one.replica.tick(due_s))
    assert one.ask is not None
    before = one.replica.lease_until_s
    one.now_s += 2.5
    one.step()
    assert one.replica.lease_until_s == pytest.approx(due_s + replica.TIMEOUT_S * 0.99)
    assert one.replica.lease_until_s > before
    lost = one.replica.lease_until_s
    one.now_s = one.seen[-1].wake_s or 0.0
    one.take(one.replica.tick(one.now_s))
    for _ in range(5):
        ask, one.ask = one.ask, None
        assert ask is not None
        one.take(one.replica.failed(ask.number, "no answer", one.now_s))
        one.now_s = one.seen[-1].wake_s or 0.0
        one.take(one.replica.tick(one.now_s))
    assert one.replica.lease_until_s == lost
    assert one.replica.reason.endswith("no answer")


def test_an_answer_of_an_older_epoch_renews_no_lease_and_is_said() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    one = Host(controllers).start()
    one.until(Step.POLL)
    newer = said.RoleChange(master_address="a", master_broker_id=1, master_epoch=5)
    assert one.replica.told(newer, said.SyncStateSet()).role is not None
    before = one.replica.lease_until_s
    one.now_s += 60
    one.take(one.replica.tick(one.now_s))
    one.step()
    assert one.replica.lease_until_s == before
    assert one.replica.reason == "the controllers tell of epoch 1, older than 5"


def test_a_new_master_asks_for_its_lease_at_once() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    Host(controllers).start().until(Step.POLL)
    two = Host(controllers, 2).start()
    two.until(Step.POLL)
    two.now_s += 0.001
    mine = said.RoleChange(master_address="b", master_broker_id=2, master_epoch=2)
    assert two.replica.told(mine, said.SyncStateSet()).role is not None
    assert two.replica.look(two.now_s).ask is not None  # its last request was just now
    late = Host(controllers, 2)
    late.given = two.given
    late.start().until(Step.POLL)
    late.now_s += 5
    late.take(late.replica.tick(late.now_s))  # under way as it becomes master
    assert late.replica.told(mine, said.SyncStateSet()).role is not None
    late.take(late.replica.look(late.now_s))
    late.step()  # an answer of what was so before
    assert late.seen[-1].wake_s == late.now_s


def test_a_leader_without_an_address_is_no_leader() -> None:
    one = Host(Controllers(leader="localhost")).start()
    one.step()
    assert "no address" in one.replica.reason
    assert one.ask is None


def test_retries_back_off_while_a_leader_is_found_and_does_not_serve() -> None:
    one = Host(Controllers()).start()
    pauses = []
    for _ in range(6):
        one.step()  # who leads
        assert one.ask is not None
        refused = frame(Decision(code=ResponseCode.CONTROLLER_NOT_LEADER, remark="a full disk"))
        effects = one.replica.answered(one.ask.number, refused, one.now_s)
        assert effects.wake_s is not None
        pauses.append(round(effects.wake_s - one.now_s, 3))
        one.now_s = effects.wake_s
        one.take(one.replica.tick(one.now_s))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


def test_who_is_forgotten_while_it_asks_for_an_election_registers_again() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.until(Step.POLL)
    controllers.sets = BrokerSets()
    effects = one.replica._go(Step.ELECT, one.now_s)
    assert effects.ask is not None
    one.take(one.replica.answered(effects.ask.number, controllers.answer(effects.ask), one.now_s))
    assert one.replica.step is Step.REGISTER
    for _ in range(4):
        one.step()
    assert "do not know replica 1" in one.replica.reason


def test_other_controllers_are_asked_in_turn_and_pauses_grow() -> None:
    one = Host(Controllers()).start()
    asked, pauses = [], []
    for _ in range(8):
        ask, one.ask = one.ask, None
        assert ask is not None
        asked.append(ask.to)
        effects = one.replica.failed(ask.number, "refused", one.now_s)
        assert effects.wake_s is not None
        pauses.append(round(effects.wake_s - one.now_s, 3))
        one.now_s = effects.wake_s
        one.take(one.replica.tick(one.now_s))
    assert asked[:4] == [*CONTROLLERS, CONTROLLERS[0]]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_an_answer_that_is_late_or_junk_changes_nothing() -> None:
    controllers = Controllers()
    one = Host(controllers).start()
    assert one.ask is not None
    assert one.replica.answered(77, frame(Decision()), one.now_s).ask is None
    one.step()
    assert one.ask is not None
    assert one.ask.code is Code.CONTROLLER_GET_NEXT_BROKER_ID
    junk = Frame(header=Header(ext_fields={"nextBrokerId": "x"}), body=b"", loose=False)
    effects = one.replica.answered(one.ask.number, junk, one.now_s)
    assert effects.wake_s is not None
    assert "cannot be understood" in one.replica.reason


def test_a_heartbeat_says_what_the_log_has() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    log = LogState(epoch=3, max_offset=500, confirm_offset=400)
    assert one.replica.heartbeat(log) is None
    one.until(Step.POLL)
    beat = one.replica.heartbeat(log)
    assert beat is not None
    assert (beat.broker_id, beat.epoch, beat.max_offset, beat.confirm_offset) == (1, 3, 500, 400)
    assert beat.heartbeat_timeout_mills == 10_000


LOG = LogState(epoch=1, max_offset=500, confirm_offset=400)


def doubtful(controllers: Controllers, number: int) -> Host:
    """Return a replica of a set that starts again, with a log that may lack bytes of epoch 1."""
    before = Host(controllers, number).start()
    before.until(Step.POLL)
    assert before.given is not None
    return Host(controllers, number, given=before.given, doubts=1).start()


def speaks(host: Host) -> None:
    """Go on until the replica says that it lives."""
    for _ in range(60):
        if host.replica.heartbeat(LOG) is not None:
            return
        host.step()
    raise AssertionError(host.replica)


def test_a_master_whose_log_is_in_doubt_is_silent_until_it_is_deposed() -> None:
    """Others may hold more of its epoch, and it must not begin that epoch again."""
    controllers = Controllers()
    controllers.live(1, 2)
    one = doubtful(controllers, 1)
    for _ in range(60):
        one.step()
        assert one.replica.heartbeat(LOG) is None
        assert one.replica.role is None
    assert one.replica.reason == replica.SILENT
    controllers.alive.clear()  # as it is silent
    speaks(one)
    controllers.live(1)
    one.until(Step.POLL)
    assert one.replica.is_master
    assert one.replica.role is not None
    assert one.replica.role.epoch > 1


def test_one_of_the_set_whose_log_is_in_doubt_is_silent_until_it_is_dropped_or_nobody_does() -> (
    None
):
    """It follows its master meanwhile, who drops it from the set if it lacks anything."""
    for drops in (True, False):
        controllers = Controllers()
        controllers.live(1, 2)
        Host(controllers).start().until(Step.POLL)
        two = doubtful(controllers, 2)
        alone = Host(controllers, 2, given=two.given, doubts=1).start()
        began_s = alone.now_s
        speaks(alone)
        assert alone.now_s - began_s < RETRY_MAX_S  # it is not in the set
        grow = AlterSyncStateSet(broker_name="set1", new_sync_state_set=(1, 2))
        controllers.sets.apply(grow)
        two = Host(controllers, 2, given=two.given, doubts=1).start()
        began_s = two.now_s
        for _ in range(6):
            two.step()
            assert two.replica.heartbeat(LOG) is None
        assert two.replica.role is not None
        assert two.replica.role.master == 1
        if drops:
            drop = AlterSyncStateSet(broker_name="set1", new_sync_state_set=(1,))
            controllers.sets.apply(drop)
        speaks(two)
        waited_s = two.now_s - began_s
        assert waited_s < TIMEOUT_S if drops else TIMEOUT_S <= waited_s < TIMEOUT_S + RETRY_MAX_S


def test_a_store_of_another_set_is_refused() -> None:
    other = BrokerIdentity(cluster="C", broker="set2", broker_id=4)
    with pytest.raises(WrongIdentity, match="belongs to replica 4 of broker set set2 of cluster C"):
        Replica(settings(), 1, other)


def test_an_identity_that_cannot_be_written_is_tried_again() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.step()
    ask = one.ask
    assert ask is not None
    effects = one.replica.answered(ask.number, controllers.answer(ask), one.now_s)
    assert effects.write is not None
    one.ask = None
    one.seen.append(one.replica.not_written("the disk is full", one.now_s))
    assert one.replica.reason == "the disk is full"
    one.until(Step.POLL)
    assert one.replica.broker_id == 1


def test_a_master_asks_who_is_registered_and_a_slave_does_not() -> None:
    controllers = Controllers()
    controllers.live(1, 2)
    one, two = Host(controllers).start(), Host(controllers, 2)
    one.until(Step.POLL)
    assert (one.replica.registered, one.replica.living) == ({1: "10.0.1.1:10911"}, {1})
    two.start().until(Step.POLL)
    assert (two.replica.registered, two.replica.living) == ({}, frozenset())
    controllers.live(1)
    assert one.step()  # the poll is sent
    one.until(Step.POLL)
    assert one.replica.registered == {1: "10.0.1.1:10911", 2: "10.0.1.2:10911"}
    assert one.replica.living == {1}
    told = said.RoleChange(master_address="b", master_broker_id=2, master_epoch=2)
    assert one.replica.told(told, said.SyncStateSet()).role is not None
    assert (one.replica.registered, one.replica.living) == ({}, frozenset())


def test_who_is_wanted_soon_is_looked_for_soon_and_not_more_often() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.until(Step.POLL)
    one.take(one.replica.look(one.now_s))
    assert one.ask is None
    assert one.seen[-1].wake_s == one.now_s + replica.LOOK_APART_S
    assert one.step()
    assert one.replica.step is Step.POLL
    one.take(one.replica.look(one.now_s))  # the poll's answer may be of what was so before
    one.step()
    assert one.replica.step is Step.ROSTER
    one.step()
    assert one.seen[-1].wake_s == one.now_s + replica.LOOK_APART_S
    one.step()
    one.until(Step.POLL)
    late_s = one.now_s + 2
    one.take(one.replica.look(late_s))
    assert one.ask is not None
    assert one.ask.code is Code.CONTROLLER_GET_REPLICA_INFO


def test_a_controller_that_does_not_say_who_is_registered_is_named_and_asked_less_often() -> None:
    controllers = Controllers()
    controllers.live(1)
    one = Host(controllers).start()
    one.until(Step.POLL)
    pauses = []
    for _ in range(40):
        before_s = one.now_s
        if one.ask is None or one.ask.code is not Code.CONTROLLER_GET_SYNC_STATE_DATA:
            one.step()
            continue
        ask, one.ask = one.ask, None
        junk = Frame(header=Header(code=0), body=b"?", loose=False)
        one.take(one.replica.answered(ask.number, junk, one.now_s))
        assert "cannot be understood" in one.replica.reason
        pauses.append((one.seen[-1].wake_s or 0.0) - before_s)
        assert one.replica.registered == {1: "10.0.1.1:10911"}
    assert pauses[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert pauses[-1] == pytest.approx(replica.RETRY_MAX_S)
    assert one.replica.lease_until_s > one.now_s + 5  # the polls are answered
