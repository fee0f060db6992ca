"""What a replica asks its controllers for besides its role: sync state sets, and other masters."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from controllers_world import NODES, PORT
from replicas_world import ReplicaNode, replicas

from actors.broker.replica_wishes import (
    Elected,
    ElectMaster,
    GetReplicas,
    NotElected,
    WishUnanswered,
    election_request,
    read_election,
    read_replicas,
    read_set,
)
from actors.broker.replicas_manager import NO_LEADER
from actors.errors import OutcomeUnknown, TriologError
from actors.ha.autoswitch.messages import AlterSyncStateSet, LookNow, SetAdopted, SetRefused
from actors.ha.core.sync_state_set import Refusal
from wire.broker import controller as said
from wire.broker.codes import ResponseCode as Code
from wire.broker.dialect import encode_body
from wire.remoting.frame import Frame
from wire.remoting.header import Header, write_fields

WHERE = "10.0.0.1:9878"


async def alter(node: ReplicaNode, *members: int, epoch: int, set_epoch: int) -> Any:
    return await node.manager.ask(
        (SetAdopted, SetRefused),
        lambda reply_to: AlterSyncStateSet(
            epoch=epoch, members=frozenset(members), set_epoch=set_epoch, reply_to=reply_to
        ),
        timeout_s=10,
    )


async def known(node: ReplicaNode) -> said.ReplicasInfo:
    return await node.manager.ask(said.ReplicasInfo, GetReplicas, timeout_s=10)


async def elect(node: ReplicaNode, broker_id: int) -> Elected:
    return await node.manager.ask(
        Elected,
        lambda reply_to: ElectMaster(broker_id=broker_id, reply_to=reply_to),
        timeout_s=10,
    )


async def both(one: ReplicaNode, two: ReplicaNode) -> None:
    for each in (one, two):
        await each.start()
        await each.until_master(1)


@pytest.mark.checklist(37, of="autoswitch")
async def test_a_master_has_its_set_altered_or_hears_why_not(autojump_clock: object) -> None:
    async with replicas() as (group, (one, two)):
        await both(one, two)
        found = await alter(one, 1, epoch=1, set_epoch=1)
        assert (found.refusal, "2013" in found.reason) == (Refusal.SAME, True)
        found = await alter(one, 1, 2, epoch=1, set_epoch=9)
        assert (found.refusal, "2001" in found.reason) == (Refusal.STALE, True)
        found = await alter(one, 1, 77, epoch=1, set_epoch=1)
        assert (found.refusal, "2003" in found.reason) == (Refusal.REPLICA, True)
        assert await alter(one, 1, 2, epoch=1, set_epoch=1) == SetAdopted(frozenset({1, 2}), 2)
        for node, epoch in ((two, 1), (one, 2)):
            found = await alter(node, 1, epoch=epoch, set_epoch=2)
            assert found.refusal is Refusal.STALE
            assert f"is not master in epoch {epoch}" in found.reason
        await group.world.kill_node("b2")
        await trio.sleep(12)
        found = await alter(one, 1, epoch=1, set_epoch=2)
        assert found == SetAdopted(frozenset({1}), 3)
        found = await alter(one, 1, 2, epoch=1, set_epoch=3)
        assert (found.refusal, "2006" in found.reason) == (Refusal.REPLICA, True)


async def test_a_set_is_asked_for_one_at_a_time_and_may_stay_unanswered(
    autojump_clock: object,
) -> None:
    async with replicas() as (group, (one, two)):
        await both(one, two)
        await group.kill("c0")
        errors: list[str] = []

        async def fails() -> None:
            with pytest.raises(WishUnanswered) as caught:
                await alter(one, 1, 2, epoch=1, set_epoch=1)
            errors.append(str(caught.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            nursery.start_soon(fails)
        assert "the last set is being asked for" in errors
        assert any(f"{NODES['c0']}:{PORT}" in each for each in errors)
        await group.start("c0")
        await group.leader()
        await trio.sleep(5)  # both have sent heartbeats to it
        assert await alter(one, 1, 2, epoch=1, set_epoch=1) == SetAdopted(frozenset({1, 2}), 2)


async def test_another_controller_that_leads_is_found_once_one_does_not(
    autojump_clock: object,
) -> None:
    async with replicas(count=3) as (group, (one, two)):
        await both(one, two)
        first = await group.leader()
        await group.kill(first)
        await trio.sleep(0.1)
        with pytest.raises(WishUnanswered):
            await alter(one, 1, 2, epoch=1, set_epoch=1)
        await group.leader()
        await trio.sleep(2)  # heartbeats of both
        await one.until(lambda view: not view.reason)
        found = await alter(one, 1, 2, epoch=1, set_epoch=1)
        assert found == SetAdopted(frozenset({1, 2}), 2)


async def test_who_registers_is_known_at_once_to_a_master_that_looks(
    autojump_clock: object,
) -> None:
    async with replicas() as (_, (one, two)):
        await both(one, two)
        one.manager.post(LookNow())
        began_s = trio.current_time()
        await one.until(lambda view: 2 in view.registered)
        assert trio.current_time() - began_s < 1
        assert one.view.registered == {1: "10.0.2.1:10911", 2: "10.0.2.2:10911"}
        assert one.view.living == {1, 2}
        assert two.view.registered == {}


async def test_an_operator_has_a_member_of_the_set_elected(autojump_clock: object) -> None:
    async with replicas() as (group, (one, two)):
        await both(one, two)
        with pytest.raises(
            NotElected, match="replica 2 of set1 cannot be master: it does not live"
        ):
            await elect(one, 2)
        await alter(one, 1, 2, epoch=1, set_epoch=1)
        with pytest.raises(NotElected, match="replica 1 of set1 lives and is master already"):
            await elect(two, 1)
        found = await elect(one, 2)
        assert found == Elected(broker_id=2, address="10.0.2.2:10911", epoch=2)
        with trio.fail_after(2):
            await one.until_master(2)
            await two.until_master(2)
            await two.until(lambda view: view.registered.keys() == {1, 2})
        await group.kill("c0")
        with pytest.raises(OutcomeUnknown, match="it is not known what became of it") as caught:
            await elect(one, 1)
        assert "`status` says who is master of set1" in str(caught.value)


async def test_without_a_controller_that_leads_nobody_is_elected(autojump_clock: object) -> None:
    async with replicas(of=1) as (group, (one,)):
        await group.kill("c0")
        await one.start()
        with pytest.raises(NotElected, match=NO_LEADER):
            await elect(one, 1)
        await one.until(lambda view: bool(view.reason))
        with pytest.raises(WishUnanswered, match=f"{NODES['c0']}:{PORT}: "):
            await known(one)


async def test_an_operator_hears_who_is_in_the_set_and_lives(autojump_clock: object) -> None:
    async with replicas() as (group, (one, two)):
        await both(one, two)
        await alter(one, 1, 2, epoch=1, set_epoch=1)
        await group.world.kill_node("b2")
        await trio.sleep(1)
        found = await known(one)
        assert found.master_broker_id == 1
        assert [(each.broker_id, each.alive) for each in found.in_sync_replicas] == [
            (1, True),
            (2, False),
        ]


async def test_another_controller_that_leads_is_asked_once_one_does_not(
    autojump_clock: object,
) -> None:
    async with replicas(count=3) as (group, (one, two)):
        await both(one, two)
        await group.kill(await group.leader())
        with pytest.raises(WishUnanswered):
            await known(one)
        await group.leader()
        await one.until(lambda view: not view.reason)
        assert len((await known(one)).not_in_sync_replicas) == 1


def frame(code: int, fields: Any = None, body: bytes = b"", remark: str = "") -> Frame:
    ext_fields = None if fields is None else write_fields(fields)
    header = Header(code=code, remark=remark, ext_fields=ext_fields)
    return Frame(header=header, body=body, loose=False)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (OSError("gone"), "gone"),
        (frame(Code.CONTROLLER_NOT_LEADER, remark="no leader"), "2007, no leader"),
        (frame(1, remark="busy"), "1, busy"),
        (frame(0, body=b"{"), "cannot be understood"),
        (frame(0, body=encode_body(said.SyncStateSet())), "has no set"),
    ],
)
def test_what_does_not_tell_what_became_of_a_set(outcome: Frame | Exception, text: str) -> None:
    with pytest.raises(WishUnanswered, match=text):
        read_set(outcome)


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (Code.CONTROLLER_INVALID_MASTER, Refusal.STALE),
        (Code.CONTROLLER_FENCED_MASTER_EPOCH, Refusal.STALE),
    ],
)
def test_a_master_of_before_is_stale(code: int, refusal: Refusal) -> None:
    found = read_set(frame(code))
    assert isinstance(found, SetRefused)
    assert found.refusal is refusal


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (
            frame(Code.CONTROLLER_MASTER_NOT_AVAILABLE),
            "no replica of the sync state set of s lives",
        ),
        (frame(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED), "do not know the set s"),
        (frame(Code.CONTROLLER_NOT_LEADER), f"{WHERE} leads the controllers no longer"),
        (frame(1, remark="a\nb"), f"{WHERE} refuses: 1, a b"),
        (frame(0, said.ElectedMaster()), "names no master"),
    ],
)
def test_an_operator_hears_in_one_line_why_nobody_was_elected(outcome: Frame, text: str) -> None:
    read = partial(read_election, asked=WHERE, broker="s", wanted=2)
    with pytest.raises(NotElected, match=text) as caught:
        read(outcome)
    assert "\n" not in str(caught.value)
    assert issubclass(NotElected, TriologError)
    with pytest.raises(NotElected, match="cannot be understood"):
        read(Frame(header=Header(code=0, ext_fields={"masterEpoch": "x"}), body=b"", loose=False))


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (OSError("gone"), f"{WHERE}: gone"),
        (
            frame(Code.CONTROLLER_NOT_LEADER, remark="no\nleader"),
            f"{WHERE} refuses: 2007, no leader",
        ),
        (frame(0, body=b"{"), f"{WHERE}: the answer cannot be understood"),
    ],
)
def test_who_is_in_a_set_may_stay_unanswered(outcome: Frame | Exception, text: str) -> None:
    with pytest.raises(WishUnanswered, match=text):
        read_replicas(outcome, asked=WHERE, broker="s")


def test_a_set_that_controllers_do_not_know_is_empty() -> None:
    found = read_replicas(
        frame(0, body=encode_body(said.BrokerReplicasInfo())), asked=WHERE, broker="s"
    )
    assert found == said.ReplicasInfo()


def test_an_operator_names_whom_it_wants() -> None:
    found = election_request("C", "s", 2, 7)
    assert isinstance(found, said.ElectMaster)
    assert (found.broker_id, found.designate_elect) == (2, True)
