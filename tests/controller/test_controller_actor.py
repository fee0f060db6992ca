"""Controllers on nodes, asked over their ports: ids, elections, sets, who lives, and who leads."""

from __future__ import annotations

import pytest
import trio
from controller_kit import NAME, address
from controllers_world import BROKERS_HOST, Broker, Controllers, config, controllers
from frame_client import FrameClient

import actors
from actors.errors import ConfigError, TriologError
from actors.events import controller as events
from actors.group_status import group_statuses
from actors.remoting.requests import UNANSWERED_MAX, Processors, Refused, Request
from wire.broker import controller as said
from wire.broker.codes import RequestCode
from wire.dledger.codes import RequestCode as MemberCode
from wire.remoting.frame import encode_frame
from wire.remoting.header import Header, read_fields


async def two_replicas(group: Controllers, controller: str) -> tuple[Broker, Broker]:
    """A set of two: replica 1 is master of epoch 1, and replica 2 in its sync state set."""
    one, two = [await group.connect(each, controller) for each in (1, 2)]
    for broker in (one, two):
        await broker.beat()
        await broker.join()
    elected = await one.elect()
    assert elected.header.code == 0
    assert read_fields(elected.header, said.ElectedMaster).master_epoch == 1
    assert (await one.alter(1, 2, epoch=1, master_epoch=1)).header.code == 0
    return one, two


async def wait_master(broker: Broker, master: int | None) -> tuple[int, said.SyncStateSet]:
    """Wait until the set has this master; its epoch, and the sync state set."""
    while True:
        code, info, in_sync = await broker.info()
        if code == 0 and info.master_broker_id == master:
            assert info.master_epoch is not None
            assert in_sync is not None
            return info.master_epoch, in_sync
        await trio.sleep(0.01)


@pytest.mark.checklist(38, 41, of="autoswitch")
async def test_a_set_is_made_and_elects_at_the_end_of_a_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        one, two = await two_replicas(group, "c0")
        began_s = trio.current_time()
        one.hang_up()
        epoch, in_sync = await wait_master(two, 2)
        assert trio.current_time() - began_s < 0.3
        assert (epoch, in_sync.sync_state_set, in_sync.sync_state_set_epoch) == (2, (2,), 3)
        (first, second) = group.seen(events.MasterElected)
        assert (first.broker_id, first.epoch, first.asked_by) == (1, 1, "replica 1")
        assert (second.broker_id, second.epoch, second.asked_by) == (2, 2, "the controller")
        assert second.address == address(2)
        (silent,) = group.seen(events.ReplicaSilent)
        assert (silent.broker_id, silent.reason) == (1, "connection ended")
        assert [each.in_sync for each in group.seen(events.SyncStateSetChanged)] == [(1, 2)]


async def test_a_leader_that_is_stopped_in_order_deposes_nobody(autojump_clock: object) -> None:
    """Its port ends the connections of replicas that live."""
    async with controllers() as group:
        first = await group.leader()
        others = [name for name in group.nodes if name != first]
        for other in others:
            for broker_id in (1, 2):
                await two_beats(await group.connect(broker_id, other))
        await two_replicas(group, first)
        for other in others:
            for broker_id in (1, 2):
                await two_beats(await group.connect(broker_id, other))
        del group.nodes[first]
        await group.world.stop_node(first)
        broker = await group.connect(1, await group.leader())
        epoch, in_sync = await wait_master(broker, 1)
        assert (epoch, in_sync.sync_state_set) == (1, (1, 2))
        assert not group.seen(events.ReplicaSilent)


async def two_beats(broker: Broker) -> None:
    await broker.beat(heartbeat_timeout_mills=600_000)
    await trio.sleep(0.1)
    await broker.beat(heartbeat_timeout_mills=600_000)


async def test_an_election_ahead_of_a_heartbeat_is_no_death(autojump_clock: object) -> None:
    """autoswitch-ha.md T38."""
    async with controllers(count=1) as group:
        await group.leader()
        await trio.sleep(20)
        one = await group.connect(1, "c0")
        await one.join()
        assert (await one.elect()).header.code == 0
        await trio.sleep(1)
        assert (await wait_master(one, 1))[0] == 1
        assert len(group.seen(events.MasterElected)) == 1


async def test_heartbeats_of_strangers_are_not_kept(autojump_clock: object) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        one = await group.connect(1, "c0")
        await one.beat()
        await one.join()
        stranger = await group.connect(7, "c0")
        await stranger.beat()
        assert (await stranger.info())[0] == 0
        assert {each.broker_id for each in group.seen(events.ReplicaHeard)} == {1}


@pytest.mark.checklist(41, of="autoswitch")
async def test_silence_of_the_announced_time_is_a_death(autojump_clock: object) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        one, two = await two_replicas(group, "c0")
        await one.beat(heartbeat_timeout_mills=3000)
        began_s = trio.current_time()
        with trio.move_on_after(60):
            while True:
                await two.beat()
                code, info, _ = await two.info()
                assert code == 0
                if info.master_broker_id == 2:
                    break
                await trio.sleep(0.05)
        assert 3.0 <= trio.current_time() - began_s < 3.5
        assert group.seen(events.ReplicaSilent)[0].reason == "silent for too long"


@pytest.mark.checklist(41, 43, of="autoswitch")
async def test_living_replicas_are_told_of_an_election(autojump_clock: object) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        one, two = await two_replicas(group, "c0")
        host, port = BROKERS_HOST, 5002
        registered = await two.ask(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            said.RegisterToController(
                broker_address=f"{host}:{port}", broker_id=2, broker_name=NAME, cluster_name="C"
            ),
        )
        assert registered.header.code == 0
        listener = await group.brokers.network.listen(host, port)
        one.hang_up()
        frame = await FrameClient.of(await listener.accept()).next_frame()
        assert frame.header.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED
        assert frame.header.is_oneway
        told = read_fields(frame.header, said.RoleChange)
        assert (told.master_broker_id, told.master_epoch) == (2, 2)
        assert told.master_address == f"{host}:{port}"
        assert said.decode_sync_state_set(frame.body).sync_state_set == (2,)
        assert [each.address for each in group.seen(events.ReplicaMoved)] == [f"{host}:{port}"]


@pytest.mark.checklist(39, of="autoswitch")
async def test_a_set_without_anybody_of_its_members_has_no_master(autojump_clock: object) -> None:
    """autoswitch-ha.md T24 and autoswitch-ha.md T35: it is cleared once, and elects as soon as one
    of them is back.
    """
    async with controllers(count=1) as group:
        await group.leader()
        one, two = await two_replicas(group, "c0")
        three = await group.connect(3, "c0")
        await three.beat()
        await three.join()
        one.hang_up()
        epoch, _ = await wait_master(three, 2)
        two.hang_up()
        cleared, in_sync = await wait_master(three, None)
        assert (cleared, in_sync.sync_state_set) == (epoch + 1, (2,))
        failed = await three.elect()
        assert failed.header.code == 2012
        await trio.sleep(30)
        assert (await wait_master(three, None))[0] == epoch + 1
        assert [each.in_sync for each in group.seen(events.NoMaster)] == [(2,)]
        again = await group.connect(2, "c0")
        await again.beat()
        assert (await wait_master(again, 2))[0] == epoch + 2


@pytest.mark.checklist(44, of="autoswitch")
async def test_another_controller_goes_on_from_the_log(autojump_clock: object) -> None:
    async with controllers() as group:
        first = await group.leader()
        await two_replicas(group, first)
        others = [name for name in group.nodes if name != first]
        for other in others:
            broker = await group.connect(1, other)
            assert (await broker.info())[0] == 2007
            found = await broker.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
            metadata = read_fields(found.header, said.ControllerMetadata)
            assert (metadata.controller_leader_id, metadata.is_leader) == (first, False)
            assert metadata.peers == "c0:10.0.0.1:9878;c1:10.0.0.2:9878;c2:10.0.0.3:9878;"
            for broker_id in (1, 2):
                await (await group.connect(broker_id, other)).beat(heartbeat_timeout_mills=60_000)
        await group.kill(first)
        second = await group.leader()
        broker = await group.connect(1, second)
        epoch, in_sync = await wait_master(broker, 1)
        assert (epoch, in_sync.sync_state_set) == (1, (1, 2))
        assert (await broker.alter(1, epoch=2, master_epoch=1)).header.code == 0
        assert len(group.seen(events.MasterElected)) == 1
        await group.start(first)


async def test_a_controller_that_starts_does_not_take_the_master_for_dead(
    autojump_clock: object,
) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        await two_replicas(group, "c0")
        await group.kill("c0")
        await group.start("c0")
        began_s = trio.current_time()
        await group.leader()
        two = await group.connect(2, "c0")
        await two.beat()
        kept = await two.elect()
        assert kept.header.code == 2011
        assert read_fields(kept.header, said.ElectedMaster).master_broker_id == 1
        await wait_master(two, 1)
        while (await two.info())[1].master_broker_id != 2:
            await two.beat()
            await trio.sleep(0.1)
        assert 9.5 < trio.current_time() - began_s < 11


async def test_one_that_is_cut_off_answers_no_more(autojump_clock: object) -> None:
    """A read is confirmed by a majority, so that nobody hears of an old master."""
    async with controllers() as group:
        first = await group.leader()
        one, _ = await two_replicas(group, first)
        others = [name for name in group.nodes if name != first]
        for other in others:
            group.world.network.cut(first, other)
        code: int | None = None
        with trio.move_on_after(4):
            code, _, _ = await one.info()
        assert code in (None, 2007)
        again = await group.connect(1, first)
        while (await again.info())[0] != 2007:  # noqa: ASYNC110
            await trio.sleep(0.5)
        second = await leader_of(group, others)
        broker = await group.connect(2, second)
        assert (await wait_master(broker, 1))[0] == 1


async def leader_of(group: Controllers, names: list[str]) -> str:
    kept = group.nodes
    group.nodes = {name: kept[name] for name in names}
    try:
        return await group.leader()
    finally:
        group.nodes = kept


async def test_settings_are_shown_and_changed(autojump_clock: object) -> None:
    async with controllers(count=1, more="notify_role_changed = false") as group:
        await group.leader()
        broker = await group.connect(1, "c0")
        shown = (await broker.ask(RequestCode.GET_CONTROLLER_CONFIG)).body.decode()
        assert "enableElectUncleanMaster=false\n" in shown
        assert "notifyBrokerRoleChanged=false\n" in shown
        assert "controllerDLegerSelfId=c0\n" in shown
        asked = b"enableElectUncleanMaster=true\n"
        changed = await broker.ask(RequestCode.UPDATE_CONTROLLER_CONFIG, body=asked)
        assert changed.header.code == 0
        shown = (await broker.ask(RequestCode.GET_CONTROLLER_CONFIG)).body.decode()
        assert "enableElectUncleanMaster=true\n" in shown
        for text, code in (
            (b"configStorePath=/etc\n", 16),
            (b"enableElectUncleanMaster=perhaps\n", 29),
            (b"scanInactiveMasterInterval=1\n", 29),
        ):
            refused = await broker.ask(RequestCode.UPDATE_CONTROLLER_CONFIG, body=text)
            assert refused.header.code == code, text


async def test_a_replica_outside_of_the_set_may_be_elected_if_that_is_allowed(
    autojump_clock: object,
) -> None:
    async with controllers(count=1, more="elect_unclean_master = true") as group:
        await group.leader()
        one, two = await two_replicas(group, "c0")
        three = await group.connect(3, "c0")
        await three.beat()
        await three.join()
        one.hang_up()
        await wait_master(three, 2)
        two.hang_up()
        assert (await wait_master(three, 3))[1].sync_state_set == (3,)


@pytest.mark.parametrize(
    ("code", "fields", "body", "remark"),
    [
        (RequestCode.CONTROLLER_ELECT_MASTER, None, b"", "extFields"),
        (
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            said.AlterSyncStateSet(broker_name=NAME, master_broker_id=1, master_epoch=1),
            b"{",
            "SyncStateSet",
        ),
        (RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, b"{}", "tuple"),
        (RequestCode.UPDATE_CONTROLLER_CONFIG, None, b"\xff\xfe=\xff", ""),
    ],
)
async def test_junk_is_refused_and_nothing_else(
    autojump_clock: object, code: RequestCode, fields: object, body: bytes, remark: str
) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        broker = await group.connect(1, "c0")
        refused = await broker.ask(code, fields, body)
        assert refused.header.code != 0
        assert remark in (refused.header.remark or "")
        assert (await broker.join()).header.code == 0


async def test_strangers_do_not_reach_the_members(autojump_clock: object) -> None:
    async with controllers(count=1) as group:
        broker = await group.connect(1, await group.leader())
        refused = await broker.ask(MemberCode.APPEND, body=b"{}")
        assert refused.header.code == 3
        assert (await broker.join()).header.code == 0


async def test_the_controllers_log_takes_no_records(autojump_clock: object) -> None:
    async with controllers(count=1) as group:
        await group.leader()
        with pytest.raises(TriologError, match="takes no records"):
            await group.nodes["c0"].log("controllers").append([b"x"])


async def test_a_program_brings_no_machine_for_it() -> None:

    with pytest.raises(ConfigError, match="a state machine for 'controllers'"):
        async with actors.open_node(config(), "c0", machines={"controllers": lambda: None}):
            pass


async def test_status_shows_the_broker_sets(autojump_clock: object) -> None:
    async with controllers(count=3) as group:
        first = await group.leader()
        one, two = await two_replicas(group, first)
        status = group_statuses(await group.nodes[first].status())["controllers"]
        assert status.others == ("broker set set1: master 1, epoch 1; in sync 1, 2",)
        (found,) = status.details["broker_sets"]
        assert (found["master"], found["in_sync"], found["in_sync_epoch"]) == (1, [1, 2], 2)
        assert [each["alive"] for each in found["replicas"]] == [True, True]
        one.hang_up()
        await wait_master(two, 2)
        status = group_statuses(await group.nodes[first].status())["controllers"]
        line = "broker set set1: master 2, epoch 2; in sync 2; not in sync 1; silent 1"
        assert status.others == (line,)
        two.hang_up()
        await trio.sleep(1)
        status = group_statuses(await group.nodes[first].status())["controllers"]
        line = "broker set set1: master 2, silent, epoch 2; in sync 2; not in sync 1; silent 1, 2"
        assert status.others == (line,)
        for other in set(group.nodes) - {first}:
            follower = group_statuses(await group.nodes[other].status())["controllers"]
            assert follower.others == ()
            assert len(follower.details["broker_sets"]) == 1


async def test_a_connection_has_few_requests_in_the_controllers_line(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All brokers and operators share it, and wait until those before them are served."""
    waits: list[Request] = []
    code, count, each_asks = RequestCode.CONTROLLER_GET_METADATA_INFO, 20, 300
    async with controllers(count=1) as group:
        leader = await group.leader()
        with monkeypatch.context() as patched:
            patched.setattr(Processors, "serve", lambda _, request: waits.append(request))
            greedy = [await group.connect(each, leader) for each in range(1, count + 1)]
            for each in greedy:
                requests = (Header(code=code, opaque=opaque) for opaque in range(each_asks))
                await each.client.put(*map(encode_frame, requests))
            await trio.sleep(1)
        assert len(waits) == count * UNANSWERED_MAX
        for request in waits:
            request.fail(Refused(1, "asked too early"))
        for each in greedy:
            found = [(await each.client.next_frame()).header.code for _ in range(each_asks)]
            assert sorted(found) == [0] * (each_asks - UNANSWERED_MAX) + [1] * UNANSWERED_MAX
