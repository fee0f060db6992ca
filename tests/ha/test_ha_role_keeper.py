"""The role keeper carries out what the rules ask for, in order: remembered first, shown last."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from group_states import slave
from ha_kit import cluster, until

from actors.epochs import Epoch
from actors.ha import group_transfer, role_messages
from actors.ha.core.role_effects import RoleState
from actors.ha.role_keeper import RoleKeeper
from actors.ha.role_messages import Done, Verified
from actors.ha.role_parts import first_view, fresh_reads, role_rules
from actors.ha.role_status import RoleStatus
from actors.log_types import GroupRecord, Promotion
from actors.runtime import (
    Actor,
    ActorRef,
    AutoShutdown,
    ChildSpec,
    Registry,
    Restart,
    SupervisorSpec,
    open_system,
)
from actors.runtime import requests as runtime_requests
from actors.storage.commitlog import store_messages
from actors.storage.files.room import NoRoom, OpeningWaits

RANGE = store_messages.LogRange(
    min_bytes=0, written_bytes=100, synced_bytes=100, segment_bytes=4096, folder="/x"
)


@attrs.define
class Neighbour(Actor[Any]):
    """Any of those that the keeper tells."""

    name: str
    log: list[tuple[str, Any]]

    async def handle(self, message: Any) -> None:
        self.log.append((self.name, message))


@attrs.define
class Authority:
    """Notes who is to be asked, with the number of the question."""

    log: list[tuple[str, Any]]

    async def ask(self, member: str, number: int) -> None:
        await trio.lowlevel.checkpoint()
        self.log.append((f"asked {member}", number))


@attrs.define
class Kit:
    """A keeper, and all that it did, in order."""

    role_status: RoleStatus
    log: list[tuple[str, Any]] = attrs.Factory(list)
    records: list[GroupRecord] = attrs.Factory(list)
    failing: bool = False
    full: bool = False
    keeper: ActorRef[Any] = attrs.field(init=False)

    def remember(self, record: GroupRecord) -> None:
        if self.failing:
            raise OSError("the disk is gone")
        if self.full:
            raise NoRoom(errno.ENOSPC, "No space left on device")
        self.log.append(("remembered", record))

    async def note(self, record: GroupRecord) -> None:
        await trio.lowlevel.checkpoint()
        self.remember(record)
        self.log[-1] = ("noted", record)

    def names(self) -> list[str]:
        return [f"{name} {type(what).__name__}" for name, what in self.log]

    async def started(self, promotion: Promotion | None = None, incarnation: int = 1) -> None:
        promotion = promotion or Promotion(0, "n0")
        await self.keeper.tell(store_messages.StoreStarted(incarnation, promotion, RANGE, 0, True))

    async def member(self, name: str, asked: int = 0, **changes: Any) -> None:
        state = slave(name, **{"state": "connecting", "history": (), **changes})
        reported = role_messages.MemberReported(member=name, state=state, asked=asked)
        await self.keeper.tell(reported)

    async def record(self, number: int, master: str) -> Done:
        return await self.keeper.ask(
            Done,
            lambda reply: role_messages.Record(
                number=number, master=master, token=77, force=False, reply_to=reply
            ),
            timeout_s=60.0,
        )


@asynccontextmanager
async def keeping(node: str = "n0", record: GroupRecord | None = None) -> AsyncIterator[Kit]:
    config = cluster()
    group, known = config.groups["orders"], record or GroupRecord()
    kit = Kit(RoleStatus(first_view(group, node, known)))

    def neighbour(name: str) -> ChildSpec:
        return ChildSpec(name=name, start=lambda: Neighbour(name, kit.log))

    def build(registry: Registry) -> SupervisorSpec:
        kit.keeper = registry.ref(f"/{node}/keeper")

        def keeper() -> RoleKeeper:
            return RoleKeeper(
                group="orders",
                rules=role_rules(group, node, known, random.Random(1)),
                role_status=kit.role_status,
                remember=kit.remember,
                note=kit.note,
                root=registry.ref(f"/{node}/root"),
                store_ref=registry.ref(f"/{node}/store"),
                transfer_ref=registry.ref(f"/{node}/transfer"),
                authority=Authority(kit.log),
                fresh=fresh_reads(group, node),
            )

        names = ("root", "store", "transfer")
        neighbours = tuple(neighbour(name) for name in names)
        child = ChildSpec(name="keeper", start=keeper, restart=Restart.TEMPORARY, significant=True)
        return SupervisorSpec(
            children=(*neighbours, child), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT
        )

    def emit(path: str, incarnation: int, event: object) -> None:
        if path.endswith("/keeper") and "Actor" not in type(event).__name__:
            kit.log.append(("emitted", event))

    async with open_system(node, build, events=emit):
        yield kit


async def settle() -> None:
    await trio.sleep(0.1)


async def test_an_epoch_is_remembered_before_the_gate_opens_and_it_is_shown(
    autojump_clock: object,
) -> None:
    async with keeping() as kit:
        await kit.started()
        await settle()
        assert sorted(kit.names()) == ["asked n1 int", "asked n2 int", "store SetGate"]
        assert not kit.role_status.is_open
        assert kit.role_status.view.state is RoleState.ASKING
        kit.log.clear()
        await kit.member("n1")
        await kit.member("n2")
        await settle()
        names = [name for name in kit.names() if name != "store SetGate"]
        assert names == ["remembered GroupRecord", "emitted GroupOpened", "transfer Opened"]
        (gate,) = [what for name, what in kit.log if name == "store" and what.closed is None]
        assert gate.incarnation == 1
        assert kit.names().index("remembered GroupRecord") < kit.log.index(("store", gate))
        assert kit.role_status.is_open


async def test_a_master_that_hears_one_member_opens_after_its_grace(autojump_clock: object) -> None:
    async with keeping() as kit:
        await kit.started()
        await kit.member("n2")
        await trio.sleep(1.9)
        assert not kit.role_status.is_open
        await trio.sleep(0.2)
        assert kit.role_status.is_open


async def test_a_record_that_cannot_be_written_ends_the_keeper_before_anybody_hears(
    autojump_clock: object,
) -> None:
    with pytest.raises(ExceptionGroup) as failed:
        async with keeping() as kit:
            kit.failing = True
            await kit.started()
            await kit.member("n1")
            await kit.member("n2")
            await trio.sleep(5.0)
    assert failed.group_contains(OSError, match="the disk is gone")
    assert "emitted GroupOpened" not in kit.names()
    assert all(what.closed is not None for name, what in kit.log if name == "store")


async def test_a_promotion_is_answered_when_the_tree_acts_by_it(autojump_clock: object) -> None:
    async with keeping() as kit:
        await kit.started()
        await kit.member("n1")
        await kit.member("n2")
        await settle()
        kit.log.clear()
        answers: list[Done] = []

        async def record() -> None:
            answers.append(await kit.record(1, "n1"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(record)
            await trio.sleep(5.0)
            assert kit.names()[0] == "remembered GroupRecord"
            assert (
                "transfer",
                group_transfer.GiveUp(reason="promotion 1 made n1 master of orders"),
            ) in kit.log
            assert ("root", runtime_requests.RestartChild(name="orders")) in kit.log
            assert answers == []
            assert not kit.role_status.is_open
            await kit.started(Promotion(0, "n0"), incarnation=2)
            await settle()
            assert answers == [], "that tree was built before"
            await kit.started(Promotion(1, "n1"), incarnation=3)
        assert answers == [Done()]
        assert kit.role_status.view.number == 1


async def test_a_tree_that_waits_for_room_is_reported_and_not_waited_for(
    autojump_clock: object,
) -> None:
    """The others hear of a promotion then; a resync is not over before the log is open."""
    why = "no room: the disk is 100% full"
    async with keeping("n2") as kit:
        await kit.started()
        answers: list[Done] = []

        async def ask(make: Any) -> None:
            answers.append(await kit.keeper.ask(Done, make, timeout_s=60.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                ask, lambda reply: role_messages.Resync(number=0, cut_bytes=40, reply_to=reply)
            )
            await settle()
            assert answers == []
            kit.keeper.offer(OpeningWaits(why))
        assert answers == [Done(refused=why)]
        assert kit.role_status.view.reason == why
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                ask,
                lambda reply: role_messages.Record(
                    number=1, master="n1", token=77, force=False, reply_to=reply
                ),
            )
            await settle()
            assert len(answers) == 1, "its tree is made anew, and may find room"
            assert kit.role_status.view.reason != why
            kit.keeper.offer(OpeningWaits(why))
        assert answers[1:] == [Done()]
        assert kit.role_status.view.reason == why
        kit.keeper.offer(OpeningWaits(""))
        await settle()
        assert kit.role_status.view.reason != why
        kit.keeper.offer(OpeningWaits(why))
        await kit.started(Promotion(1, "n1"), incarnation=2)
        await settle()
        assert (kit.role_status.view.reason, kit.role_status.view.number) == ("", 1)


async def test_a_promotion_that_is_overtaken_is_refused(autojump_clock: object) -> None:
    async with keeping() as kit:
        await kit.started()
        async with trio.open_nursery() as nursery:
            answers: list[Done] = []

            async def record() -> None:
                answers.append(await kit.record(1, "n1"))

            nursery.start_soon(record)
            await settle()
            await kit.member("n2", number=2, master="n2")
            await settle()
        assert answers == [Done(refused="promotion 2 made n2 master meanwhile")]
        assert (await kit.record(1, "n1")).refused == "promotion 2 made n2 master already"


async def test_a_slave_s_question_is_asked_of_its_master_and_answered(
    autojump_clock: object,
) -> None:
    history = (Epoch(0, 7, "n0", 0),)
    async with keeping("n1", GroupRecord(history=history)) as kit:
        await kit.started()
        verdicts: list[Verified] = []

        async def verify(session: int) -> None:
            verdicts.append(
                await kit.keeper.ask(
                    Verified,
                    lambda reply: role_messages.Verify(
                        session=session, end_bytes=100, synced_bytes=100, reply_to=reply
                    ),
                    timeout_s=30.0,
                )
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(verify, 1)
            await settle()
            nursery.start_soon(verify, 2)
            await until(lambda: bool(verdicts))
            assert verdicts == [Verified(fits=False, detail="a newer connection asks")]
            asked = [what for name, what in kit.log if name == "asked n0"]
            assert asked == [1, 2]
            more = {"role": "master", "opened": True, "history": history, "written": 200}
            await kit.member("n0", asked=2, **more)
        assert verdicts[1] == Verified(fits=True)
        assert kit.role_status.view.state is RoleState.FOLLOWING
        await kit.keeper.tell(role_messages.MasterLeft(session=2))
        await settle()
        assert kit.role_status.view.state is RoleState.CONNECTING


async def test_a_mark_is_remembered_as_it_grows(autojump_clock: object) -> None:
    async with keeping("n1") as kit:
        await kit.started()
        for offset in (50, 40, 60):
            await kit.keeper.tell(role_messages.HighWater(offset_bytes=offset))
            await settle()
        marks = [what.high_water_bytes for name, what in kit.log if name == "noted"]
        assert marks == [50, 60], "beside the loop"


async def test_a_promotion_waits_for_room_and_who_asks_meanwhile_is_refused(
    autojump_clock: object,
) -> None:
    """Nothing is sent, shown or acted on before it is remembered."""
    async with keeping() as kit:
        await kit.started()
        await kit.member("n1")
        await kit.member("n2")
        await settle()
        assert kit.role_status.is_open
        kit.full = True
        before = len(kit.log)
        async with trio.open_nursery() as nursery:
            answers = list[Done]()

            async def record() -> None:
                answers.append(await kit.record(1, "n1"))

            nursery.start_soon(record)
            await settle()
            assert kit.names()[before:] == ["emitted RecordUnsaved"]
            assert kit.role_status.view.number == 0
            assert kit.role_status.view.reason.startswith("no room: ")
            refused = await kit.record(2, "n2")
            assert refused.refused.startswith("no room: ")
            await kit.started(Promotion(1, "n1"), incarnation=2)  # held, and not forgotten
            await trio.sleep(5)
            assert kit.names()[before:] == ["emitted RecordUnsaved"]
            assert not answers
            kit.full = False
        assert answers == [Done()]
        await settle()
        after = kit.names()[before:]
        assert after[:3] == [
            "emitted RecordUnsaved",
            "remembered GroupRecord",
            "emitted RecordUnsaved",
        ]
        assert {"store SetGate", "root RestartChild"} <= set(after)
        assert (kit.role_status.view.number, kit.role_status.view.reason) == (1, "")


async def test_a_high_water_mark_without_room_holds_nothing_up(autojump_clock: object) -> None:
    async with keeping() as kit:
        await kit.started()
        await kit.member("n1")
        await kit.member("n2")
        await settle()
        kit.full = True
        await kit.keeper.tell(role_messages.HighWater(offset_bytes=50))
        await settle()
        assert kit.role_status.is_open
        assert kit.role_status.view.reason.startswith("no room: ")
        await kit.keeper.tell(role_messages.HighWater(offset_bytes=70))
        await trio.sleep(3)
        assert kit.names().count("emitted RecordUnsaved") == 1
        kit.full = False
        await trio.sleep(3)
        name, record = kit.log[-2]
        assert (name, record.high_water_bytes) == ("remembered", 70)
        assert kit.names()[-1] == "emitted RecordUnsaved"
        assert kit.role_status.view.reason == ""
