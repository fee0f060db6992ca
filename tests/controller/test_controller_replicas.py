"""Replicas before controllers of ours: ids, roles, a master that dies, a change that fails."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from controllers_world import NODES, PORT, Controllers, controllers
from frame_client import FrameClient

from actors.broker.core.replica import LogState, ReplicaSettings
from actors.broker.replicas_manager import (
    ChangeRole,
    ReplicasManager,
    ReplicaView,
    RoleTaken,
    RoleTold,
    SyncStateSetTold,
)
from actors.env import Env
from actors.env.protocols import Stream
from actors.errors import ConfigError, StorageError
from actors.events import controller, replica
from actors.remoting.client import RemotingClient
from actors.runtime import Actor, ChildSpec, Registry, Strategy, SupervisorSpec, open_system
from wire.broker import controller as said
from wire.broker.codes import RequestCode
from wire.files.broker_identity import FILE_NAME, TEMP_NAME, decode_identity
from wire.remoting.header import read_fields

STORE = "/store"
BROKER_PORT = 10911


@attrs.define
class Owner(Actor[Any]):
    """Takes every role, or fails as often as it is told to."""

    node: ReplicaNode

    async def handle(self, message: Any) -> None:
        self.node.roles.append(message)
        if not isinstance(message, ChangeRole):
            return
        await self.node.hold.wait()
        if self.node.failures:
            message.reply_to.fail(self.node.failures.pop())
        else:
            message.reply_to.send(RoleTaken(message.role.epoch))


@attrs.define
class ReplicaNode:
    """A machine that runs a replica's manager, and nothing else of a broker."""

    group: Controllers
    name: str
    host: str
    view: ReplicaView = attrs.field(factory=ReplicaView)
    roles: list[Any] = attrs.field(factory=list)
    failures: list[Exception] = attrs.field(factory=list)
    hold: trio.Event = attrs.field(factory=trio.Event)
    events: list[Any] = attrs.field(factory=list)
    broker: str = "set1"

    async def start(self) -> None:
        self.view = ReplicaView()
        self.hold.set()
        await self.group.world.start_node(self.name, self._main)

    async def _main(self, env: Env, task_status: trio.TaskStatus[None]) -> None:
        path = f"/{self.name}"

        def build(registry: Registry) -> SupervisorSpec:
            manager = partial(
                ReplicasManager,
                settings=ReplicaSettings(
                    cluster="C",
                    broker=self.broker,
                    address=f"{self.host}:{BROKER_PORT}",
                    controllers=tuple(f"{host}:{PORT}" for host in self._controllers()),
                ),
                disk=env.disk,
                folder=STORE,
                source=self.name,
                wall_clock_ms=env.wall_clock_ms,
                log=lambda: LogState(epoch=-1, max_offset=0, confirm_offset=0),
                view=self.view,
                client=registry.ref(f"{path}/client"),
                owner=registry.ref(f"{path}/owner"),
            )
            return SupervisorSpec(
                strategy=Strategy.REST_FOR_ONE,
                children=(
                    ChildSpec(
                        name="client",
                        start=partial(RemotingClient, network=env.network, local_host=self.host),
                    ),
                    ChildSpec(name="owner", start=partial(Owner, self)),
                    ChildSpec(name="manager", start=manager),
                ),
            )

        def sink(path: str, incarnation: int, event: object) -> None:
            self.events.append(event)

        env.disk.mkdir(STORE)
        listener = await env.network.listen(self.host, BROKER_PORT)
        async with (
            open_system(self.name, build, rng=random.Random(5), events=sink) as system,
            trio.open_nursery() as nursery,
        ):
            manager = system.ref(f"{path}/manager")
            task_status.started()
            while True:
                nursery.start_soon(_pass_on, await listener.accept(), manager.post)

    def _controllers(self) -> list[str]:
        return [NODES[name] for name in self.group.config.nodes]

    def seen(self, kind: type) -> list[Any]:
        return [each for each in self.events if isinstance(each, kind)]

    async def until(self, is_so: Callable[[ReplicaView], bool]) -> None:
        while not is_so(self.view):  # noqa: ASYNC110
            await trio.sleep(0.01)

    async def until_master(self, master: int) -> None:
        await self.until(lambda view: view.role is not None and view.role.master == master)

    def read(self, name: str) -> bytes | None:
        disk = self.group.world.node(self.name).disk
        path = f"{STORE}/{name}"
        if not disk.exists(path):
            return None
        file = disk.open(path, "r")
        try:
            return bytes(file.pread(0, 4096))
        finally:
            file.close()


async def _pass_on(stream: Stream, post: Callable[[RoleTold], bool]) -> None:
    """The broker's port, as far as a controller uses it."""
    client = FrameClient.of(stream)
    while (frame := await client.frame_or_end()) is not None:
        told = read_fields(frame.header, said.RoleChange)
        post(RoleTold(told, said.decode_sync_state_set(frame.body)))


@asynccontextmanager
async def replicas(*, count: int = 1, of: int = 2) -> AsyncIterator[tuple[Controllers, Any]]:
    async with controllers(count=count) as group:
        await group.leader()
        nodes = []
        for number in range(1, of + 1):
            host = f"10.0.2.{number}"
            group.world.add_node(f"b{number}", host)
            nodes.append(ReplicaNode(group, f"b{number}", host))
        yield group, nodes


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
        assert [each.role for each in one.seen(replica.ReplicaRoleTaken)] == ["master", "slave"]
        assert len(one.seen(replica.ReplicaIdentified)) == 1


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
        while len(one.seen(replica.RoleNotTaken)) < 2:  # noqa: ASYNC110
            await trio.sleep(0.01)
        assert one.view.role is None
        await one.until_master(1)
        reasons = [each.reason for each in one.seen(replica.RoleNotTaken)]
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
            assert len(each.seen(replica.ReplicaRoleTaken)) == 1


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
        assert one.seen(replica.ControllersFailed)
