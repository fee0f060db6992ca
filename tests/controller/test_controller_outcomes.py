"""A controller whose log, or whose majority, does not answer as it should."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from controller_kit import CLUSTER, NAME, apply

from actors.controller import controller
from actors.controller.controller import Controller
from actors.controller.machine import ControllerView
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.replication.append_messages import Append, Committed
from actors.dledger.session_messages import LeaderProven, ProveLeader
from actors.env.protocols import Address
from actors.errors import LeadershipLost, NotMaster, Overloaded
from actors.events import controller as events
from actors.remoting.client import Call
from actors.remoting.requests import Answer, Refused, Request
from actors.runtime import Actor, ChildSpec, Registry, Strategy, SupervisorSpec, open_system
from actors.state_machine import LogEntry
from wire.broker import controller as said
from wire.broker.codes import RequestCode
from wire.broker.controller_events import AlterSyncStateSet, encode_event
from wire.remoting.frame import Frame
from wire.remoting.header import Header, write_fields

TERM = 3


@attrs.define
class Connection:
    """What a request knows of its connection; notes the answers."""

    answers: dict[int, Any] = attrs.field(factory=dict)
    connection: int = 1
    address: Address = attrs.field(factory=lambda: Address("127.0.0.1", 1))
    tolerated: int = 0

    def take_answer(self, request: Request, answer: object) -> None:
        self.answers[request.header.opaque] = answer

    def refused(self, header: Header, reason: str) -> bool:
        return False

    def on_end(self, callback: Callable[[Any], None]) -> None:
        pass

    def prove(self) -> None:
        pass


@attrs.define
class Stub(Actor[Any]):
    """Keeps its messages for the test."""

    messages: list[Any]

    async def handle(self, message: Any) -> None:
        self.messages.append(message)


@attrs.define
class Alone:
    """A controller beside stubs of its log and of its majority."""

    view: ControllerView
    connection: Connection = attrs.field(factory=Connection)
    appends: list[Append] = attrs.field(factory=list)
    proofs: list[ProveLeader] = attrs.field(factory=list)
    calls: list[Call] = attrs.field(factory=list)
    events: list[Any] = attrs.field(factory=list)
    post: Callable[[Request], bool] = attrs.field(init=False)
    _opaque: int = 0

    async def ask(self, code: RequestCode, fields: Any) -> int:
        """Send a request; the number under which its answer comes."""
        self._opaque += 1
        header = Header(code=code, ext_fields=write_fields(fields), opaque=self._opaque)
        frame = Frame(header=header, body=b"", loose=False)
        assert self.post(Request(self.connection, frame, 0))  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        return self._opaque

    async def take_id(self, broker_id: int) -> int:
        return await self.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, apply(broker_id))

    async def next_id(self) -> int:
        asked = said.BrokerSet(broker_name=NAME, cluster_name=CLUSTER)
        return await self.ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, asked)

    async def commit(self, append: Append) -> None:
        entries = [LogEntry(7, TERM, body) for body in append.bodies if body]
        results = tuple(self.view.machine.apply(entries)) or (None,)
        append.reply_to.send(
            Committed(first_index=7, last_index=7, positions=(0,), copies=1, results=results)
        )
        await trio.testing.wait_all_tasks_blocked()

    async def fail(self, append: Append, error: Exception) -> None:
        append.reply_to.fail(error)
        await trio.testing.wait_all_tasks_blocked()

    def code_of(self, number: int) -> int | None:
        """The code of an answer; None: there is none yet."""
        answer = self.connection.answers.get(number)
        if isinstance(answer, Refused):
            return answer.code
        assert answer is None or isinstance(answer, Answer)
        return None if answer is None else answer.code


@asynccontextmanager
async def alone() -> AsyncIterator[Alone]:
    found = Alone(ControllerView())
    found.view.make()

    def build(registry: Registry) -> SupervisorSpec:
        start = partial(
            Controller,
            group="g",
            member="c0",
            addresses={"c0": "127.0.0.1:9878"},
            view=found.view,
            role_status=LeaderStatus(),
            checker=registry.ref("/t/checker"),
            maintainer=registry.ref("/t/maintainer"),
            client=registry.ref("/t/client"),
        )
        found.post = registry.ref("/t/controller").post
        return SupervisorSpec(
            strategy=Strategy.ONE_FOR_ONE,
            children=(
                ChildSpec(name="checker", start=partial(Stub, found.appends)),
                ChildSpec(name="maintainer", start=partial(Stub, found.proofs)),
                ChildSpec(name="client", start=partial(Stub, found.calls)),
                ChildSpec(name="controller", start=start),
            ),
        )

    def sink(path: str, incarnation: int, event: object) -> None:
        found.events.append(event)

    async with open_system("t", build, rng=random.Random(1), events=sink):
        found.view.machine.leader_started(TERM)
        await trio.testing.wait_all_tasks_blocked()
        yield found


async def test_one_decision_is_committed_before_the_next_is_made(autojump_clock: object) -> None:
    async with alone() as group:
        first, second = await group.take_id(1), await group.take_id(1)
        (append,) = group.appends
        assert append.term == TERM
        assert group.code_of(first) is None
        await group.commit(append)
        assert group.code_of(first) == 0
        assert len(group.appends) == 1  # the second finds the id given with the same check code
        assert group.code_of(second) is None
        (proof,) = group.proofs
        proof.reply_to.send(LeaderProven(term=TERM))
        await trio.testing.wait_all_tasks_blocked()
        assert group.code_of(second) == 0


async def test_after_an_unknown_outcome_nothing_is_decided_until_it_is_known(
    autojump_clock: object,
) -> None:
    async with alone() as group:
        first, waiting = await group.take_id(1), await group.take_id(2)
        (append,) = group.appends
        await group.fail(append, LeadershipLost("the actor was restarted"))
        assert [group.code_of(each) for each in (first, waiting)] == [2007, 2007]
        (lost,) = [each for each in group.events if isinstance(each, events.DecisionLost)]
        assert (lost.broker, lost.request) == (NAME, "CONTROLLER_APPLY_BROKER_ID")
        assert group.code_of(await group.take_id(2)) == 2007
        behind = group.appends[1]
        assert (behind.bodies, behind.term) == ((b"",), TERM)
        await group.fail(behind, LeadershipLost("again"))
        assert group.code_of(await group.take_id(2)) == 2007
        await trio.sleep(2 * controller.SETTLE_S)
        group.view.machine.apply([LogEntry(5, TERM, append.bodies[0])])  # it was committed
        await group.commit(group.appends[2])
        again = await group.take_id(2)
        await group.commit(group.appends[3])
        assert group.code_of(again) == 0
        found = group.view.machine.sets.get(NAME)
        assert found is not None
        assert sorted(found.replicas) == [1, 2]


async def test_who_leads_anew_in_the_same_term_knows_what_came_of_it(
    autojump_clock: object,
) -> None:
    """A session of the same term is renewed after a crash of an actor beside."""
    async with alone() as group:
        await group.take_id(1)
        await group.fail(group.appends[0], LeadershipLost("the actor was restarted"))
        group.view.machine.leader_stopped(TERM)
        await trio.testing.wait_all_tasks_blocked()
        await group.fail(group.appends[1], NotMaster("it leads no more"))
        group.view.machine.leader_started(TERM)
        await trio.testing.wait_all_tasks_blocked()
        again = await group.take_id(1)
        await group.commit(group.appends[2])
        assert group.code_of(again) == 0


async def test_an_append_that_was_refused_is_no_unknown_outcome(autojump_clock: object) -> None:
    async with alone() as group:
        refused = await group.take_id(1)
        await group.fail(group.appends[0], NotMaster("it hands over"))
        assert group.code_of(refused) == 2007
        again = await group.take_id(1)
        await group.commit(group.appends[1])
        assert group.code_of(again) == 0


async def test_an_election_that_was_refused_is_tried_again(autojump_clock: object) -> None:
    """autoswitch-ha.md T35: nobody else asks for it, as slaves are told the old master."""
    async with alone() as group:
        for broker_id in (1, 2):
            await group.take_id(broker_id)
            await group.commit(group.appends[-1])
        await group.ask(
            RequestCode.CONTROLLER_ELECT_MASTER, said.ElectMaster(broker_id=1, broker_name=NAME)
        )
        await group.commit(group.appends[-1])
        both = events_of_set(1, 2)
        group.view.machine.apply([LogEntry(9, TERM, both)])
        beat = said.ControllerHeartbeat(
            broker_addr="b", broker_id=2, broker_name=NAME, cluster_name=CLUSTER,
            heartbeat_timeout_mills=3_600_000,
        )  # fmt: skip
        await group.ask(RequestCode.BROKER_HEARTBEAT, beat)
        count = len(group.appends)
        await trio.sleep(11)  # nobody hears of replica 1
        assert len(group.appends) == count + 1
        await group.fail(group.appends[-1], Overloaded("the disk is slow"))
        await trio.sleep(2 * controller.SETTLE_S)
        assert len(group.appends) == count + 2
        await group.commit(group.appends[-1])
        found = group.view.machine.sets.get(NAME)
        assert found is not None
        assert found.master_id == 2
        await trio.sleep(60)
        assert len(group.appends) == count + 2


def events_of_set(*members: int) -> bytes:
    return encode_event(AlterSyncStateSet(broker_name=NAME, new_sync_state_set=members))


async def test_elections_that_wait_keep_no_request_out(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "WAITING_MAX", 1)
    async with alone() as group:
        for name in ("a", "b"):
            await group.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, apply(1, name=name))
            await group.commit(group.appends[-1])
            asked = said.ElectMaster(broker_id=1, broker_name=name)
            await group.ask(RequestCode.CONTROLLER_ELECT_MASTER, asked)
            await group.commit(group.appends[-1])
            await group.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, apply(2, name=name))
            await group.commit(group.appends[-1])
            beat = said.ControllerHeartbeat(
                broker_addr="b", broker_id=2, broker_name=name, cluster_name=CLUSTER,
                heartbeat_timeout_mills=3_600_000,
            )  # fmt: skip
            await group.ask(RequestCode.BROKER_HEARTBEAT, beat)
        await trio.sleep(30)  # both masters are silent; one election is open, one waits
        assert group.code_of(await group.take_id(1)) is None


@pytest.mark.parametrize("outcome", [LeaderProven(term=TERM + 1), NotMaster("no")])
async def test_what_no_majority_confirms_is_not_answered(
    autojump_clock: object, outcome: LeaderProven | Exception
) -> None:
    async with alone() as group:
        asked = await group.next_id()
        (proof,) = group.proofs
        later = await group.next_id()
        if isinstance(outcome, Exception):
            proof.reply_to.fail(outcome)
        else:
            proof.reply_to.send(outcome)
        await trio.testing.wait_all_tasks_blocked()
        assert group.code_of(asked) == 2007
        assert group.code_of(later) is None  # it came later, and is confirmed anew
        assert len(group.proofs) == 2


async def test_the_end_of_its_leadership_ends_what_waits(autojump_clock: object) -> None:
    async with alone() as group:
        first, waiting = await group.take_id(1), await group.take_id(1)
        group.view.machine.leader_stopped(TERM)
        await trio.testing.wait_all_tasks_blocked()
        assert group.code_of(waiting) == 2007
        assert group.code_of(first) is None
        group.view.machine.leader_started(TERM + 2)
        await trio.testing.wait_all_tasks_blocked()
        again = await group.take_id(1)
        assert len(group.appends) == 1
        await group.fail(group.appends[0], LeadershipLost("deposed"))
        assert group.code_of(first) == 2007
        (_, append) = group.appends  # none behind the lost one: that is settled by the new term
        assert append.term == TERM + 2
        assert append.bodies[0]
        await group.commit(append)
        assert group.code_of(again) == 0


async def test_there_is_a_bound_for_what_waits(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "WAITING_MAX", 2)
    async with alone() as group:
        asked = [await group.take_id(number) for number in (1, 2, 3, 4)]
        assert [group.code_of(each) for each in asked] == [None, None, None, 2]


async def test_who_stood_still_reads_its_heartbeats_before_it_takes_anybody_for_dead(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with alone() as group:
        await group.take_id(1)
        await group.commit(group.appends[-1])
        beat = said.ControllerHeartbeat(
            broker_addr="b", broker_id=1, broker_name=NAME, cluster_name=CLUSTER,
            heartbeat_timeout_mills=1000,
        )  # fmt: skip
        await group.ask(RequestCode.BROKER_HEARTBEAT, beat)
        autojump_clock.jump(20.0)
        await trio.sleep(controller.LATE_S / 2)
        await group.ask(RequestCode.BROKER_HEARTBEAT, beat)
        await trio.sleep(0.9)
        assert not silent(group)
        await trio.sleep(0.2)
        assert len(silent(group)) == 1


async def test_who_is_always_late_finds_the_dead_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with alone() as group:
        await group.take_id(1)
        await group.commit(group.appends[-1])
        beat = said.ControllerHeartbeat(
            broker_addr="b", broker_id=1, broker_name=NAME, cluster_name=CLUSTER,
            heartbeat_timeout_mills=1000,
        )  # fmt: skip
        await group.ask(RequestCode.BROKER_HEARTBEAT, beat)
        looks = 0
        while not silent(group) and looks < 4 * controller.PUT_OFF_MAX:
            autojump_clock.jump(5.0)
            await trio.testing.wait_all_tasks_blocked()
            looks += 1
        assert controller.PUT_OFF_MAX < looks < 4 * controller.PUT_OFF_MAX


def silent(group: Alone) -> list[Any]:
    return [each for each in group.events if isinstance(each, events.ReplicaSilent)]


async def test_a_heartbeat_without_an_id_is_refused(autojump_clock: object) -> None:
    async with alone() as group:
        beat = said.ControllerHeartbeat(broker_addr="b", broker_name=NAME, cluster_name=CLUSTER)
        assert group.code_of(await group.ask(RequestCode.BROKER_HEARTBEAT, beat)) == 2005


async def test_nobody_is_told_at_what_is_no_address(autojump_clock: object) -> None:
    async with alone() as group:
        await group.take_id(1)
        await group.commit(group.appends[-1])
        moved = said.RegisterToController(
            broker_address="nowhere", broker_id=1, broker_name=NAME, cluster_name=CLUSTER
        )
        await group.ask(RequestCode.CONTROLLER_REGISTER_BROKER, moved)
        await group.commit(group.appends[-1])
        asked = said.ElectMaster(broker_id=1, broker_name=NAME)
        elected = await group.ask(RequestCode.CONTROLLER_ELECT_MASTER, asked)
        await group.commit(group.appends[-1])
        assert group.code_of(elected) == 0
        assert group.calls == []
