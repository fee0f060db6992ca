"""What a replica of an auto-switch group answers at its broker's port, and shows of itself."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import attrs
import golden_autoswitch as golden
import pytest
import trio
from replica_set import NODES, OPERATOR, TEXT, replica_set

from actors.broker.registrar import Announcer, Member, Presence, RegistrationView
from actors.broker.replica_port import NOT_OPEN, ReplicaPort, TakenRole
from actors.broker.replicas_manager import RoleTold
from actors.config import loads
from actors.env import Env
from actors.env.protocols import Address
from actors.epochs import BEFORE_EPOCHS, Epoch
from actors.errors import NotStored
from actors.events.broker import ControllersFailed
from actors.ha.autoswitch.epoch_keeper import EpochKeeper
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.ha.autoswitch.messages import LookNow
from actors.ha.core.role_effects import RoleState
from actors.ha.role_status import RoleStatus
from actors.metadata.master_watch import MasterWatch
from actors.metadata.slave_sync import SlaveSync
from actors.node.autoswitch import AutoSwitchPart
from actors.node.autoswitch_groups import NO_ROLE
from actors.remoting.requests import Answer, Refused, Request
from actors.runtime import ChildSpec, Registry, SupervisorSpec, open_system
from actors.sim.world import open_world
from actors.trees.broker import broker_children
from actors.trees.group_setup import GroupSetup, ReplicaPaths
from wire.broker import controller as said
from wire.broker.codes import RequestCode as Code
from wire.broker.codes import ResponseCode
from wire.broker.dialect import encode_body
from wire.remoting.frame import Frame
from wire.remoting.header import Header, write_fields

ONE = said.RoleChange(master_address="b:1", master_broker_id=2, master_epoch=9)


# ---- answers ----


@attrs.define
class Channel:
    address: Address


@attrs.define
class Manager:
    """Takes what is offered to a replica's manager."""

    seen: list[Any] = attrs.field(factory=list)

    def offer(self, message: Any) -> bool:
        self.seen.append(message)
        return True


@attrs.define
class Store:
    history: tuple[Epoch, ...]


def port(
    *, is_master: bool = True, history: tuple[Epoch, ...] | None = (), manager: Any = None
) -> ReplicaPort:
    view = EpochsView(end_bytes=2901)
    view.store = None if history is None else Store(history)  # type: ignore[assignment]
    view.mark.raise_to(2234)
    registered = {1: "127.0.0.1:30920", 2: "10.0.5.5:10911", 3: "nowhere"}
    role = TakenRole(
        cluster="C",
        broker_id=2,
        epoch=3,
        controllers=("10.0.0.1:9878", "10.0.0.2:9878"),
        registered=lambda: registered,
        epochs=view,
        manager=manager or Manager(),
    )
    here = Address("127.0.0.1", 30930)
    return ReplicaPort(
        role=role,
        is_master=is_master,
        broker="set1",
        broker_at=here,
        ha_at=Address(here.host, 30931),
    )


def ask(
    asked: ReplicaPort, code: Code, fields: Any = None, body: bytes = b"", host: str = OPERATOR
) -> Answer:
    header = Header(code=code, ext_fields=None if fields is None else write_fields(fields))
    channel: Any = Channel(Address(host, 5))
    request = Request(channel, Frame(header=header, body=body, loose=False), 1)
    answer = asked.processors[code](request)
    assert answer is not None
    return answer


def answers_of(code: int) -> list[dict[str, Any]]:
    return [row for row in golden.frames() if row.get("answer_to") == code]


def test_the_history_is_told_as_java_tells_it() -> None:
    first, second, *_ = answers_of(Code.GET_BROKER_EPOCH_CACHE)
    history = (
        Epoch(number=1, token=0, master="", start_bytes=0),
        Epoch(number=2, token=0, master="", start_bytes=1338),
        Epoch(number=3, token=0, master="", start_bytes=2234),
    )
    for row, is_master in ((first, True), (second, False)):
        found = ask(port(is_master=is_master, history=history), Code.GET_BROKER_EPOCH_CACHE)
        assert json.loads(found.body) == json.loads(row["body"])


def test_what_is_older_than_epochs_is_none() -> None:
    history = (BEFORE_EPOCHS, Epoch(number=4, token=0, master="", start_bytes=100))
    found = json.loads(ask(port(history=history), Code.GET_BROKER_EPOCH_CACHE).body)
    assert [each["epoch"] for each in found["epochList"]] == [4]
    assert json.loads(ask(port(), Code.GET_BROKER_EPOCH_CACHE).body)["epochList"] == []


def test_there_is_no_history_before_the_log_is_open() -> None:
    found = ask(port(history=None), Code.GET_BROKER_EPOCH_CACHE)
    assert (found.code, found.remark) == (ResponseCode.SYSTEM_ERROR, NOT_OPEN)


def test_a_master_alone_says_where_it_serves_its_log() -> None:
    (row, *_) = [row for row in answers_of(Code.EXCHANGE_BROKER_HA_INFO) if row.get("header")]
    found = ask(port(), Code.EXCHANGE_BROKER_HA_INFO, said.BrokerHaInfo())
    assert found.ext_fields == row["header"]
    of_slave = said.BrokerHaInfo(master_ha_address="10.0.0.7:1")
    found = ask(port(is_master=False), Code.EXCHANGE_BROKER_HA_INFO, of_slave)
    assert found == Answer(ext_fields={})


def test_a_role_is_believed_from_a_controllers_address_only() -> None:
    manager = Manager()
    asked, in_sync = port(manager=manager), said.SyncStateSet((2,), 9)
    ask(asked, Code.NOTIFY_BROKER_ROLE_CHANGED, ONE, encode_body(in_sync))
    assert manager.seen == [LookNow()]
    ask(asked, Code.NOTIFY_BROKER_ROLE_CHANGED, ONE, encode_body(in_sync), host="10.0.0.2")
    ask(asked, Code.NOTIFY_BROKER_ROLE_CHANGED, ONE, host="10.0.0.1")
    assert manager.seen[1:] == [RoleTold(ONE, in_sync), RoleTold(ONE, said.SyncStateSet())]


def test_a_role_that_cannot_be_read_is_refused() -> None:
    header = Header(code=Code.NOTIFY_BROKER_ROLE_CHANGED, ext_fields={"masterEpoch": "x"})
    channel: Any = Channel(Address("10.0.0.1", 5))
    request = Request(channel, Frame(header=header, body=b"", loose=False), 1)
    with pytest.raises(Refused, match="masterEpoch"):
        port().processors[Code.NOTIFY_BROKER_ROLE_CHANGED](request)


def test_controllers_and_registered_replicas_may_connect() -> None:
    asked = port()
    assert asked.may_connect("10.0.0.1")
    assert asked.may_connect("10.0.5.5")
    assert not asked.may_connect("10.0.5.6")


# ---- whole nodes ----


async def test_replicas_show_their_roles_and_change_them_as_controllers_say(
    autojump_clock: object,
) -> None:
    async with replica_set() as found:
        await found.nodes["n0"].log("orders").append([b"one", b"two"])
        await trio.sleep(2)
        master, slave = await found.settings("n0"), await found.settings("n1")
        assert (master["brokerRole"], slave["brokerRole"]) == ("SYNC_MASTER", "SLAVE")
        assert (master["brokerId"], slave["brokerId"]) == ("0", "2")
        assert master["controllerAddr"] == slave["controllerAddr"] == f"{NODES['c0']}:9878"
        assert master["enableControllerMode"] == master["allAckInSyncStateSet"] == "true"
        assert master["asyncLearner"] == master["syncFromLastFile"] == "false"
        assert (master["inSyncReplicas"], master["minInSyncReplicas"]) == ("1", "1")
        assert master["storePathEpochFile"].endswith("/orders/epochFileCheckpoint")
        assert await found.routes() == {"0": f"{NODES['n0']}:10911", "2": f"{NODES['n1']}:10911"}
        ha = await found.said(Code.GET_BROKER_HA_STATUS, at="n0")
        assert (ha["master"], ha["inSyncSlaveNums"]) == (True, 1)
        assert ha["haConnectionInfo"][0]["slaveAckOffset"] == ha["masterCommitLogMaxOffset"] > 0
        ha = await found.said(Code.GET_BROKER_HA_STATUS, at="n1")
        assert ha["haClientRuntimeInfo"]["masterAddr"] == f"{NODES['n0']}:10912"

        found.tell(
            Code.NOTIFY_BROKER_ROLE_CHANGED,
            at="n0",
            body=encode_body(said.SyncStateSet((2,), 9)),
            **write_fields(ONE),
        )
        await trio.sleep(5)
        assert (await found.status("n0")).is_open, "nobody but a controller told it"

        await found.elect(2)
        await trio.sleep(2)  # less than to the next poll
        assert (await found.status("n1")).is_open
        history = await found.said(Code.GET_BROKER_EPOCH_CACHE, at="n1")
        assert [each["epoch"] for each in history["epochList"]] == [1, 2]
        assert history["brokerId"] == 0
        assert (await found.settings("n0"))["brokerId"] == "1"
        assert await found.routes() == {"0": f"{NODES['n1']}:10911", "1": f"{NODES['n0']}:10911"}
        info = await found.ask(Code.EXCHANGE_BROKER_HA_INFO, at="n1")
        assert info.header.ext_fields is not None
        assert info.header.ext_fields["masterHaAddress"] == f"{NODES['n1']}:10912"


async def test_a_replica_without_a_role_is_in_no_route(autojump_clock: object) -> None:
    async with replica_set() as found:
        await found.world.kill_node("n1")
        await found.until("n0", lambda status: status.details["in_sync"] == [1])
        await found.world.kill_node("n0")
        await found.start("n1")
        await trio.sleep(20)
        reasons = [
            event.reason for _, event in found.events if isinstance(event, ControllersFailed)
        ]
        assert "no replica of the sync state set lives" in reasons[-1]
        assert await found.routes() == {}
        await found.start("n0")
        await found.until("n0", lambda status: status.is_open)
        await trio.sleep(5)
        assert (await found.routes()).keys() == {"0", "2"}


async def test_a_new_master_takes_no_append_before_somebody_counts_its_copies(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that came before would be written, and its outcome unknown."""
    begin = EpochKeeper.on_start

    async def begin_slowly(epochs: EpochKeeper) -> None:
        await begin(epochs)
        await trio.sleep(0.1)  # whoever counts copies starts after it

    monkeypatch.setattr(EpochKeeper, "on_start", begin_slowly)
    async with replica_set() as found:
        await found.world.kill_node("n0")
        log, receipt = found.nodes["n1"].log("orders"), None
        while receipt is None:
            try:
                receipt = await log.append([b"one"])
            except NotStored:
                await trio.sleep(0.01)
        assert receipt.copies == 1


async def test_a_deposed_master_is_in_no_route_as_master(autojump_clock: object) -> None:
    async with replica_set() as found:
        await trio.sleep(2)
        assert (await found.routes())["0"] == f"{NODES['n0']}:10911"
        part = found.nodes["n0"].part("orders")
        assert isinstance(part, AutoSwitchPart)
        elsewhere = said.RoleChange(
            master_address="10.0.0.77:10911", master_broker_id=9, master_epoch=5
        )  # a broker that does not say where it serves its log
        part.manager.post(RoleTold(elsewhere, said.SyncStateSet((9,), 9)))
        await trio.sleep(1)
        assert (await found.status("n0")).state == "connecting"
        here = f"{NODES['n0']}:10911"
        assert await found.routes() == {"1": here, "2": f"{NODES['n1']}:10911"}


# ---- trees, and who registers when ----


def member(number: int) -> Presence:
    there = Address("10.0.0.2", 10911)
    return Presence(
        member=Member(cluster="C", group="g", broker_id=0, number=number, broker=there, ha=there),
        followers=None,
    )


@pytest.mark.checklist(29, of="autoswitch")
async def test_a_fenced_replica_is_announced_once_it_has_taken_its_role(
    autojump_clock: object,
) -> None:
    published, status = RegistrationView(), RoleStatus(NO_ROLE)
    announcer = partial(Announcer, presence=member(3), published=published, role_status=status)
    spec = SupervisorSpec(children=(ChildSpec(name="announcer", start=announcer),))
    async with open_system("s", spec, rng=random.Random(0)):
        for state in (RoleState.ASKING, RoleState.FENCED):
            status.publish(attrs.evolve(status.view, state=state), is_open=False)
            await trio.sleep(1)
            assert published.presence is None
        status.publish(attrs.evolve(status.view, state=RoleState.OPEN), is_open=True)
        await trio.sleep(1)
        assert published.presence == member(3)


@pytest.mark.parametrize("master", ["n0", "10.0.7.7:10911"])
async def test_a_slave_copies_the_metadata_of_whoever_is_master(
    autojump_clock: object, master: str
) -> None:
    config = loads(TEXT, "/set.toml")

    async def build(env: Env, task_status: trio.TaskStatus[GroupSetup[Any]]) -> None:
        group = config.groups["orders"]
        setup = GroupSetup.of(config, "n1", group, env, Registry(rng=env.rng))
        java = None if master == "n0" else Address("10.0.7.7", 10911)
        task_status.started(
            attrs.evolve(
                setup,
                group=group.led_by(master),
                master_broker=java,
                make_paths=ReplicaPaths,
                registering=attrs.evolve(setup.registering, slave_ids={"n1": 2}),
                taken=port(is_master=False).role,
                role_status=RoleStatus(NO_ROLE),
            )
        )

    async with open_world(1) as world:
        world.add_node("n1", NODES["n1"])
        setup = await world.start_node("n1", build)
        (broker,) = broker_children(setup)
        assert isinstance(broker.start, SupervisorSpec)
        starts: dict[str, Any] = {each.name: each.start for each in broker.start.children}
        copying = starts["metadata_sync"]
        if master == "n0":
            assert copying.func is MasterWatch
            assert copying.keywords["master"] == Address(NODES["n0"], 10911)
        else:
            assert copying.func is SlaveSync
            assert copying.keywords["master"] == Address("10.0.7.7", 10911)
        presence = starts["announcer"].keywords["presence"]
        assert presence.followers is None, "controllers say who is master, no name server does"
        assert (presence.member.broker_id, presence.member.number) == (2, 3)
