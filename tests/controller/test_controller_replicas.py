"""Replicas before controllers of ours: ids, roles, a master that dies, a change that fails."""

from __future__ import annotations

from contextlib import closing

import pytest
import trio
from controllers_world import NODES, PORT
from replicas_world import STORE, replicas

from actors.errors import ConfigError, StorageError
from actors.events import broker, controller
from actors.ha.autoswitch.messages import ChangeRole, SyncStateSetTold
from wire.broker import controller as said
from wire.broker.codes import RequestCode
from wire.files.broker_identity import FILE_NAME, TEMP_NAME, decode_identity


@pytest.mark.checklist(41, 42, of="autoswitch")
async def test_a_slave_is_master_soon_after_its_master_was_killed(autojump_clock: object) -> None:
    async with replicas(count=3) as (group, (one, two)):
        await one.start()
        await one.until_master(1)
        await two.start()
        await two.until_master(1)
        assert (one.view.broker_id, two.view.broker_id) == (1, 2)
        given = one.read(FILE_NAME)
        assert given is not None
        assert decode_identity(given).broker_id == 1
        assert one.read(TEMP_NAME) is None
        master = await group.connect(1, await group.leader())
        assert (await master.alter(1, 2, epoch=1, master_epoch=1)).header.code == 0
        began_s = trio.current_time()
        await group.world.kill_node("b1")
        await two.until_master(2)
        assert trio.current_time() - began_s < 0.5
        role = two.view.role
        assert role is not None
        assert (role.epoch, role.in_sync) == (2, (2,))
        await one.start()
        await one.until_master(2)
        assert one.view.broker_id == 1
        assert [each.role for each in one.seen(broker.ReplicaRoleTaken)] == ["master", "slave"]
        assert len(one.seen(broker.ReplicaIdentified)) == 1


async def test_a_replica_goes_on_with_the_next_controller(autojump_clock: object) -> None:
    async with replicas(count=3) as (group, (one, two)):
        for each in (one, two):
            await each.start()
            await each.until(lambda view: view.role is not None)
        first = await group.leader()
        await group.kill(first)
        await group.leader()
        await trio.sleep(30)
        assert one.view.reason == two.view.reason == ""
        assert len(group.seen(controller.MasterElected)) == 1  # nobody was taken for dead
        assert one.view.lease_until_s > trio.current_time()


async def test_a_change_that_fails_is_tried_again_and_fences_meanwhile(
    autojump_clock: object,
) -> None:
    async with replicas(of=1) as (_, (one,)):
        one.failures += [StorageError("the log cannot be cut"), StorageError("still not")]
        await one.start()
        while len(one.seen(broker.RoleNotTaken)) < 2:  # noqa: ASYNC110
            await trio.sleep(0.01)
        assert one.view.role is None
        await one.until_master(1)
        reasons = [each.reason for each in one.seen(broker.RoleNotTaken)]
        assert reasons == ["still not", "the log cannot be cut"]
        assert [each.role.epoch for each in one.roles if isinstance(each, ChangeRole)] == [1, 1, 1]


async def test_a_newer_role_follows_the_one_under_way(autojump_clock: object) -> None:
    async with replicas() as (group, (one, two)):
        await one.start()
        await one.until_master(1)
        await two.start()
        await two.until_master(1)
        master = await group.connect(1, "c0")
        assert (await master.alter(1, 2, epoch=1, master_epoch=1)).header.code == 0
        one.hold, one.roles[:] = trio.Event(), []
        for broker_id in (2, 1, 2):
            asker = await group.connect(broker_id, "c0")
            elected = await asker.ask(
                RequestCode.CONTROLLER_ELECT_MASTER,
                said.ElectMaster(
                    broker_id=broker_id, broker_name="set1", cluster_name="C", designate_elect=True
                ),
            )
            assert elected.header.code == 0
            _, info, in_sync = await asker.info()
            assert in_sync is not None
            assert info.master_epoch is not None
            epoch = in_sync.sync_state_set_epoch
            altered = await asker.alter(1, 2, epoch=epoch, master_epoch=info.master_epoch)
            assert altered.header.code == 0
        await trio.sleep(5)
        assert one.view.role is None
        one.hold.set()
        await one.until_master(2)
        epochs = [each.role.epoch for each in one.roles if isinstance(each, ChangeRole)]
        assert epochs == [2, 4]


async def test_a_set_that_changed_is_told_without_a_change_of_the_role(
    autojump_clock: object,
) -> None:
    async with replicas() as (group, (one, two)):
        for each in (one, two):
            await each.start()
            await each.until(lambda view: view.role is not None)
        master = await group.connect(1, "c0")
        assert (await master.alter(1, 2, epoch=1, master_epoch=1)).header.code == 0
        await trio.sleep(5)
        for each in (one, two):
            told = [found.role for found in each.roles if isinstance(found, SyncStateSetTold)]
            assert [found.in_sync for found in told] == [(1, 2)]
            assert len(each.seen(broker.ReplicaRoleTaken)) == 1


async def test_a_store_of_another_set_is_a_mistake_that_is_named(autojump_clock: object) -> None:
    async with replicas(of=1) as (group, (one,)):
        await one.start()
        await one.until_master(1)
        await group.world.stop_node("b1")
        one.broker = "another"
        with pytest.RaisesGroup(
            ConfigError, flatten_subgroups=True, allow_unwrapped=True
        ) as caught:
            await one.start()
        assert "belongs to replica 1 of broker set set1" in str(caught.value.exceptions)


async def test_controllers_that_do_not_answer_are_named(autojump_clock: object) -> None:
    async with replicas(of=1) as (group, (one,)):
        await group.kill("c0")
        await one.start()
        await one.until(lambda view: bool(view.reason))
        assert f"{NODES['c0']}:{PORT}" in one.view.reason
        await group.start("c0")
        await one.until_master(1)
        assert one.view.reason == ""
        assert one.seen(broker.ControllersFailed)


async def test_an_identity_that_cannot_be_read_is_a_mistake_that_is_named(
    autojump_clock: object,
) -> None:
    async with replicas(of=1) as (group, (one,)):
        disk = group.world.node("b1").disk
        disk.mkdir(STORE)
        with closing(disk.open(f"{STORE}/{FILE_NAME}", "x")) as file:
            file.pwrite(b"C#set1", 0)
        with pytest.RaisesGroup(ConfigError, flatten_subgroups=True) as caught:
            await one.start()
        what = f"{STORE}/{FILE_NAME}: a broker's identity is CLUSTER#NAME#ID"
        assert what in str(caught.value.exceptions).replace("\\'", "'")
