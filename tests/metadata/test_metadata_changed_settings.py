"""What `mqadmin updateBrokerConfig` changes while a node runs, and what it is refused."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import trio
from metadata_kit import NODES, MetadataCluster, until
from name_server_kit import ask, start_name_servers
from operator_kit import Operator, operated
from test_metadata_introspection import config_of
from test_metadata_registrar import MORE, topic

from actors.broker.core import registration
from actors.sim.world import World, open_world
from actors.storage.layout import StoreLayout
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.routes import decode_route

UPDATE = RequestCode.UPDATE_BROKER_CONFIG
FILE = Path("kit.toml").resolve()
KEPT = StoreLayout("/data/n0/groups/orders").settings


async def restarted(world: World, nodes: MetadataCluster) -> None:
    """The master was killed and is back, and tools connect again."""
    await world.kill_node("n0")
    await nodes.start("n0")
    await trio.sleep(2.0)


async def refused(operator: Operator, body: bytes, code: int = 29) -> str:
    frame = await operator.ask(UPDATE, body)
    assert frame.header.code == code
    return frame.header.remark or ""


async def changed(operator: Operator, body: bytes) -> None:
    frame = await operator.ask(UPDATE, body)
    assert frame.header.code == 0, frame.header.remark


@pytest.mark.checklist(70, of="broker")
async def test_what_is_refused_says_which_key_to_change(autojump_clock: object) -> None:
    """And nothing of a request is taken that has one such key."""
    table = f"groups.orders in {FILE}"
    async with operated("n0") as (world, _nodes, operator):
        before = await config_of(operator, "n0")
        for body, line in (
            (b"haTransferBatchSize=1\n", f"change frame_bytes of {table}, and start again"),
            (b"listenPort=1\n", f"change broker_port of {table}, and start again"),
            (b"brokerId=1\n", f"change it in the file of {table}, and start again"),
            (b"sendMessageThreadPoolNums=1\n", "it means nothing here"),
            (b"fileReservedTime=0\n", "expected an integer from 1 to 87840 hours, found '0'"),
            (b"brokerPermission=5\n", "expected an integer from 2 to 6 (2 write, 4 read), a"),
        ):
            name = body.decode().partition("=")[0]
            remark = await refused(operator, body)
            assert remark.startswith(f"{name}: {line}"), remark
        assert await refused(operator, b"\n") == "nothing to change"
        many = b"".join(b"a%d=1\n" % number for number in range(9))
        assert (await refused(operator, many)).endswith("a7: it means nothing here; 1 more")
        remark = await refused(operator, b"a=1\n" * 20_000)
        assert remark == "expected at most 65536 bytes, found 80000"
        remark = await refused(operator, b"fileReservedTime=48\ninSyncReplicas=1\n")
        assert remark.startswith("inSyncReplicas: ")
        assert await config_of(operator, "n0") == before
        assert not world.node("n0").disk.has_name(KEPT)


async def test_a_change_is_kept_until_the_file_says_something_else(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = {"fileReservedTime": "48", "deleteWhen": "05;17", "diskMaxUsedSpaceRatio": "60"}
    async with operated("n0") as (world, nodes, operator):
        before = await config_of(operator, "n0")
        await changed(operator, "".join(f"{k}={v}\n" for k, v in wanted.items()).encode())
        assert await config_of(operator, "n0") == before | wanted
        group = nodes.setups["n0"].changed
        assert group is not None
        assert (group.group.file_reserved_time_h, group.group.delete_when_hours) == (48, (5, 17))
        assert group.group.disk_max_used_ratio == 0.6
        good, _ = nodes.registrations["n0"].texts()
        assert "fileReservedTime 48 by updateBrokerConfig (72 in the file)" in good

        await restarted(world, nodes)
        assert await config_of(operator, "n0") == before | wanted
        assert (
            "fileReservedTime 48 by updateBrokerConfig (72 in the file)"
            in (nodes.registrations["n0"].texts()[0])
        )

        nodes.more_of_group = "file_reserved_time_h = 24\n"
        await restarted(world, nodes)
        found = await config_of(operator, "n0")
        assert found == before | wanted | {"fileReservedTime": "24"}
        text = "key fileReservedTime: 24 counts, not 48 by updateBrokerConfig, as it said 72 then"
        assert any(text in line for line in caplog.messages)


async def test_what_name_servers_have_is_not_told_for_other_settings(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they do not give back what wipeWritePerm took, of a table in several parts either."""
    monkeypatch.setattr(registration, "PART_TOPICS", 2)
    async with open_world(1) as world:
        await start_name_servers(world)
        nodes, operator = MetadataCluster(world, more=MORE), Operator()
        world.add_node("operator", "127.0.0.9")
        await nodes.start("n0")
        await world.start_node("operator", operator.run)
        await nodes.change(topic("a"))
        await trio.sleep(60.0)
        wiped = {"brokerName": "orders"}
        await ask(world, "ns0", RequestCode.WIPE_WRITE_PERM_OF_BROKER, wiped)
        await changed(operator, b"fileReservedTime=48\n")
        await trio.sleep(60.0)
        assert await permissions(world, "ns0") == {4}
        assert (
            "fileReservedTime 48 by updateBrokerConfig (72 in the file)"
            in (nodes.registrations["n0"].texts()[0])
        )


async def test_a_disk_without_room_changes_nothing(autojump_clock: object) -> None:
    async with operated("n0") as (world, _nodes, operator):
        before = await config_of(operator, "n0")
        world.node("n0").disk.faults.use_up_inodes(60.0)
        remark = await refused(operator, b"fileReservedTime=48\n", ResponseCode.SYSTEM_ERROR)
        assert remark == "nothing is changed: No space left on device"
        assert await config_of(operator, "n0") == before
        await trio.sleep(90.0)
        await changed(operator, b"fileReservedTime=48\n")


CHANGED = {"value": "48", "instead_of": "72", "at_ms": 1}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is no JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "it is no JSON: these bytes are no text"),
        (b"[]", "it is no object"),
        (b"[" * 9999, "it has too many brackets in brackets"),
        ({"fileReservedTime": []}, "a value in it is of another kind than has to be there"),
        ({"fileReservedTime": CHANGED | {"value": 48}}, "a value in it is of another kind than"),
        ({"fileReservedTime": {}}, "it has no 'value'"),
        ({"fileReservedTime": CHANGED | {"value": "0"}}, "expected an integer from 1 to 87840 hou"),
        ({"fileReservedTime": CHANGED | {"at_ms": "x"}}, "fileReservedTime: at_ms is 'x'"),
        ({"listenPort": CHANGED}, "listenPort is none of the settings that can be changed"),
    ],
)
@pytest.mark.usefixtures("usual_recursion")
async def test_a_damaged_file_is_told_of_and_does_not_count(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, content: object, why: str
) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    async with operated("n0") as (world, nodes, operator):
        before = await config_of(operator, "n0")
        await changed(operator, b"fileReservedTime=48\n")
        with closing(world.node("n0").disk.open(KEPT, "w")) as file:
            file.resize(0)
            file.pwrite(data, 0)
        await restarted(world, nodes)
        assert await config_of(operator, "n0") == before
        (line,) = [each for each in caplog.messages if "is lost" in each]
        assert line.startswith(f"{KEPT}: what updateBrokerConfig changed is lost: {why}")


async def permissions(world: World, server: str) -> set[int]:
    frame = await ask(world, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "a"})
    return {queue.perm for queue in decode_route(frame.body).queue_datas}


async def test_a_brokers_permission_is_in_its_routes_at_once(autojump_clock: object) -> None:
    """As upstream's, it takes what it lacks from each topic's; so no name server can forget it."""
    async with open_world(1) as world:
        await start_name_servers(world)
        nodes, operator = MetadataCluster(world, more=MORE), Operator()
        world.add_node("operator", "127.0.0.9")
        await nodes.start(*NODES)
        await world.start_node("operator", operator.run)
        await nodes.change(topic("a"))

        async def until_seen(wanted: set[int], within_s: float) -> None:
            with trio.fail_after(within_s):
                for server in ("ns0", "ns1"):
                    while await permissions(world, server) != wanted:  # noqa: ASYNC110
                        await trio.sleep(0.1)

        await until(lambda: not nodes.registrations["n0"].texts()[1], within_s=5.0)
        await until_seen({6}, 5.0)
        for value in (4, 6, 4):
            await changed(operator, f"brokerPermission={value}\n".encode())
            await until_seen({value}, 2.0)
        for value in (6, 4):  # a version that they know would tell them nothing
            world.node("n0").skew_ms -= 60_000
            await changed(operator, f"brokerPermission={value}\n".encode())
            await until_seen({value}, 2.0)
        await restarted(world, nodes)
        await nodes.change(topic("b"))
        await until_seen({4}, 60.0)
        assert (await config_of(operator, "n0"))["brokerPermission"] == "4"
