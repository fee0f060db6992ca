"""A name server behind a port: requests, lost connections, files, restarts, hostile peers."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
import trio.testing
from late_disk import LateDisk
from namesrv_lan import FOLDER, lan, status_of

from actors.errors import ConfigError
from actors.events import namesrv as events
from actors.events.runtime import ActorCrashed
from actors.namesrv.core.name_server import Asked, Effects, NameServer
from actors.namesrv.core.tables import Steps
from actors.namesrv.routes import BEHIND_MAX, NameServerStatus
from actors.remoting.requests import UNANSWERED_MAX
from wire.broker.codes import RequestCode, ResponseCode
from wire.dledger.files import decode_properties_file
from wire.remoting.frame import encode_frame
from wire.remoting.header import FLAG_ONEWAY, Header, SerializeType

T = TypeVar("T")
KV = {"namespace": "n", "key": "k"}


@pytest.mark.checklist(1, of="broker")
async def test_a_broker_registers_and_a_client_finds_it(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net, net.serving() as system:
        broker, client = await net.call("a"), await net.call("client")
        assert await client.addresses("x") == {}
        answer = await broker.register("x", "y")
        assert answer.header.code == 0
        assert not answer.header.ext_fields
        assert await client.addresses("x") == {"a": {0: "a:0"}}
        assert await status_of(system) == NameServerStatus(brokers=1, topics=2)
    assert net.statuses[0] == NameServerStatus(brokers=1, topics=2)
    (registered,) = net.events(events.BrokerRegistered)
    assert (registered.broker, registered.address, registered.topics) == ("a", "a:0", 2)
    assert not net.events(ActorCrashed)


@pytest.mark.checklist(7, of="broker")
@pytest.mark.parametrize("how", ["hang up", "power off"])
async def test_a_lost_connection_removes_its_broker(
    autojump_clock: trio.abc.Clock, how: str
) -> None:
    async with lan() as net, net.serving():
        broker, client = await net.call("a"), await net.call("client")
        slave = await net.call("b")
        await broker.register("x", "y")
        await slave.register("x", "y", broker_id=1)
        if how == "hang up":
            broker.hang_up()
            await trio.sleep(0.1)
        else:  # the machine says nothing; only time tells
            net.network.power_off("a")
            for _ in range(5):
                assert (await client.addresses("x"))["a"][0] == "a:0"
                await trio.sleep(25)
                await slave.register("x", "y", broker_id=1)
            await trio.sleep(5)
        assert await client.addresses("x") == {"a": {1: "a:1"}}
    left = net.events(events.BrokerLeft)[0]
    assert left.broker_id == 0
    assert left.reason in ("connection ended", "expired")


async def test_a_broker_that_is_silent_loses_its_connection_too(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as net, net.serving():
        broker, client = await net.call("a"), await net.call("client")
        await broker.register("x", "y")
        for _ in range(4):
            await trio.sleep(30)
            await broker.ask(RequestCode.GET_BROKER_CLUSTER_INFO)  # it talks, and says no 103
            assert await client.addresses("x") == {"a": {0: "a:0"}}
        await trio.sleep(6)
        assert await broker.client.ended()
        assert await client.addresses("x") == {}


@pytest.mark.checklist(8, 77, of="broker")
@pytest.mark.parametrize("step_s", [0, 3600, -3600])
async def test_a_broker_that_registers_again_lives_on(
    autojump_clock: trio.abc.Clock, step_s: int
) -> None:
    """Whatever the wall clock does."""
    async with lan() as net, net.serving():
        broker, client = await net.call("a"), await net.call("client")
        for _ in range(20):
            await broker.register("x", "y")
            net.wall_ms += 1000 * step_s
            await trio.sleep(30)
            assert await client.addresses("x") == {"a": {0: "a:0"}}
    assert len(net.events(events.BrokerRegistered)) == 1


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_large_registration_is_read_beside_the_loop(
    autojump_clock: trio.abc.Clock, compressed: bool
) -> None:
    """While it is read, others register each 30 s, and are not heard for longer than 120 s."""

    async def slowly(work: Callable[[], T]) -> T:
        await trio.sleep(100)
        return work()

    async with lan() as net:
        net.run_beside = slowly
        async with net.serving():
            broker, large = await net.call("a"), await net.call("b")
            await broker.register("x", "y")
            names = ["p", "q"] if compressed else [f"topic-{number}" for number in range(2000)]
            for _ in range(2):
                with trio.move_on_after(1):
                    await large.register(*names, broker="b", compressed=compressed)
            for _ in range(6):
                with trio.move_on_after(30) as waits:
                    await broker.register("x", "y")
                assert waits.cancelled_caught
            await trio.sleep(30)
            client = await net.call("client")
            assert await client.addresses("x") == {"a": {0: "a:0"}}
            assert await client.addresses(names[-1]) == {"b": {0: "b:0"}}
            assert not net.events(events.BrokerLeft)


async def test_nobody_is_silent_while_the_name_server_stands_still(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A machine that was asleep looks at who is silent before it reads what has come."""
    async with lan() as net, net.serving():
        broker = await net.call("a")
        await broker.register("x", "y")
        await trio.sleep(21)
        assert await broker.addresses("x") == {"a": {0: "a:0"}}
        autojump_clock.jump(110)
        await broker.register("x", "y")
        await trio.sleep(20)
        assert await broker.addresses("x") == {"a": {0: "a:0"}}
        assert not net.events(events.BrokerLeft)


@pytest.mark.parametrize("body", [b"{" * (1 << 17), b"no zlib"])
async def test_a_large_registration_that_is_none_is_refused(
    autojump_clock: trio.abc.Clock, body: bytes
) -> None:
    async with lan() as net, net.serving():
        broker = await net.call("a")
        fields = {"brokerName": "a", "brokerAddr": "a:0", "clusterName": "C", "brokerId": "0",
                  "haServerAddr": "h", "compressed": str(body == b"no zlib").lower()}  # fmt: skip
        refused = await broker.ask(RequestCode.REGISTER_BROKER, body=body, **fields)
        assert refused.header.code == 1
        assert refused.header.remark
        refused = await broker.ask(RequestCode.REGISTER_BROKER, body=body, bodyCrc32=1, **fields)
        assert refused.header.remark == "crc32 not match"
    assert not net.events(ActorCrashed)


async def test_a_connection_that_ended_before_its_registration_was_read_leaves_nothing(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as net, net.serving() as system:
        broker = await net.call("a")
        header = Header(code=RequestCode.REGISTER_BROKER, version=479, ext_fields={
            "brokerName": "a", "brokerAddr": "a:0", "clusterName": "C", "haServerAddr": "h",
            "brokerId": "0",
        })  # fmt: skip
        await broker.client.put(*[encode_frame(header, b"")] * 50)
        broker.hang_up()
        await trio.sleep(1)
        assert await status_of(system) == NameServerStatus(brokers=0, topics=0)


@pytest.mark.checklist(11, of="broker")
async def test_the_kv_table_survives_a_restart(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net:
        async with net.serving():
            operator = await net.call("client")
            assert (await operator.ask(RequestCode.PUT_KV_CONFIG, value="v", **KV)).header.code == 0
            await (await net.call("a")).register("x", "y")
        net.disk.power_loss()
        async with net.serving():
            operator = await net.call("client")
            found = await operator.ask(RequestCode.GET_KV_CONFIG, **KV)
            assert found.header.ext_fields == {"value": "v"}
            assert await operator.addresses("x") == {}
    assert net.disk.durable(f"{FOLDER}/kvConfig.json") == b'{"configTable":{"n":{"k":"v"}}}'
    assert [each.kv_count for each in net.events(events.NameServerStarted)] == [0, 1]


async def test_routes_are_told_while_a_change_is_saved(autojump_clock: trio.abc.Clock) -> None:
    """What is about the files waits for it, in order and up to a bound."""
    async with lan() as net:
        disk = net.disk = LateDisk("kvConfig")
        async with net.serving():
            broker = await net.call("a")
            operators = [await net.call("client") for _ in range(BEHIND_MAX // UNANSWERED_MAX + 1)]
            disk.late_s = 10.0
            requests = [
                Header(code=code, opaque=opaque, ext_fields={**KV, "value": f"{opaque}"})
                for opaque, code in enumerate([
                    RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG,
                    RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG,
                    *[RequestCode.GET_KV_CONFIG] * BEHIND_MAX,
                ])
            ]  # fmt: skip
            begun_s = trio.current_time()
            steps = [
                requests[at : at + UNANSWERED_MAX] for at in range(0, len(requests), UNANSWERED_MAX)
            ]
            for operator, step in zip(operators, steps, strict=True):
                await operator.client.put(*map(encode_frame, step))
                await trio.sleep(0.01)  # so that the first ones come first
            await trio.sleep(1)
            await broker.register("x", "y")
            assert await broker.addresses("x") == {"a": {0: "a:0"}}
            assert trio.current_time() - begun_s < 2
            found = [
                (await operator.client.next_frame()).header
                for operator, step in zip(operators, steps, strict=True)
                for _ in step
            ]
            assert trio.current_time() - begun_s >= 20
    codes = {each.opaque: each.code for each in found}
    assert [codes.pop(opaque) for opaque in range(4)] == [0, 0, 0, 0]
    assert {each.opaque: each.ext_fields for each in found}[1] == {"value": "0"}
    assert Counter(codes.values()) == {22: BEHIND_MAX - 3, 2: 3}


async def test_nothing_is_made_for_who_does_not_read(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of all topics for each of its requests would keep others waiting."""
    served: list[int] = []
    serve = NameServer.serve

    def counted(self: NameServer, asked: Asked, now_s: float) -> Steps[Effects]:
        served.append(asked.header.code)
        return serve(self, asked, now_s)

    monkeypatch.setattr(NameServer, "serve", counted)
    code, count = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, UNANSWERED_MAX
    async with lan() as net, net.serving():
        broker, deaf, other = [await net.call(host) for host in ("a", "client", "client")]
        await broker.register(*(f"{number:0120}" for number in range(9_000)))
        await deaf.client.put(*(encode_frame(Header(code=code, opaque=at)) for at in range(count)))
        await trio.sleep(1)
        found = [(await deaf.client.next_frame()).header.code for _ in range(count)]
        made = served.count(code)
        assert 4 <= made < 12
        assert sorted(found) == [0] * made + [ResponseCode.SYSTEM_BUSY] * (count - made)
        assert (await deaf.ask(code)).header.code == 0, "it has read all"
        assert (await other.ask(code)).header.code == 0


async def test_a_full_disk_keeps_the_old_value_and_says_so(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net:
        async with net.serving():
            operator = await net.call("client")
            await operator.ask(RequestCode.PUT_KV_CONFIG, value="old", **KV)
            net.disk.faults.fail("write", errno.ENOSPC)
            refused = await operator.ask(RequestCode.PUT_KV_CONFIG, value="new", **KV)
            assert refused.header.code == 1
            assert "no room" in (refused.header.remark or "")
            found = await operator.ask(RequestCode.GET_KV_CONFIG, **KV)
            assert found.header.ext_fields == {"value": "old"}
        assert net.disk.durable(f"{FOLDER}/kvConfig.json") == b'{"configTable":{"n":{"k":"old"}}}'
        async with net.serving():
            operator = await net.call("client")
            done = await operator.ask(RequestCode.PUT_KV_CONFIG, value="newer", **KV)
            assert done.header.code == 0
    (not_saved,) = net.events(events.NameServerNotSaved)
    assert not_saved.file == "kvConfig.json"


@pytest.mark.parametrize(
    ("name", "data"),
    [("kvConfig.json", b"{"), ("kvConfig.json", b'{"configTable":[]}'),
     ("namesrv.properties", b"orderMessageEnable=yes")],
)  # fmt: skip
async def test_a_file_that_is_none_refuses_the_start(
    autojump_clock: trio.abc.Clock, name: str, data: bytes
) -> None:
    async with lan() as net:
        net.disk.mkdir(FOLDER)
        file = net.disk.open(f"{FOLDER}/{name}", "x")
        file.pwrite(data, 0)
        file.close()
        with pytest.RaisesGroup(
            pytest.RaisesExc(ConfigError, match=FOLDER), flatten_subgroups=True
        ):
            async with net.serving():
                pass


async def test_two_name_servers_do_not_share_a_folder(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net, net.serving():
        with pytest.RaisesGroup(
            pytest.RaisesExc(ConfigError, match="another name server"), flatten_subgroups=True
        ):
            async with net.serving():
                pass


async def test_a_file_of_a_stock_name_server_is_taken_over(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net:
        net.disk.mkdir(FOLDER)
        file = net.disk.open(f"{FOLDER}/kvConfig.json", "x")
        file.pwrite(b'{\n\t"configTable":{"n":{\n\t\t"k":"java"\n\t}}\n}', 0)
        file.close()
        async with net.serving():
            found = await (await net.call("client")).ask(RequestCode.GET_KV_CONFIG, **KV)
            assert found.header.ext_fields == {"value": "java"}


@pytest.mark.parametrize("empty", [b"", bytes(100)])
@pytest.mark.parametrize("backup", [None, b"", b'{"configTable":{"n":{"k":"java"}}}'])
async def test_an_empty_file_of_a_stock_name_server_is_read_from_its_backup(
    autojump_clock: trio.abc.Clock,
    caplog: pytest.LogCaptureFixture,
    empty: bytes,
    backup: bytes | None,
) -> None:
    path = f"{FOLDER}/kvConfig.json"
    async with lan() as net:
        net.disk.mkdir(FOLDER)
        for name, data in ((path, empty), (f"{path}.bak", backup)):
            if data is not None:
                file = net.disk.open(name, "x")
                file.pwrite(data, 0)
                file.close()
        async with net.serving():
            operator = await net.call("client")
            found = await operator.ask(RequestCode.GET_KV_CONFIG, **KV)
            assert found.header.code == (0 if backup else ResponseCode.QUERY_NOT_FOUND)
            await operator.ask(RequestCode.PUT_KV_CONFIG, value="new", **KV)
        async with net.serving():
            found = await (await net.call("client")).ask(RequestCode.GET_KV_CONFIG, **KV)
            assert found.header.ext_fields == {"value": "new"}
    end = "its backup is used" if backup else "it counts as missing"
    (line,) = caplog.messages
    assert line.startswith(f"{path}: is empty")
    assert line.endswith(end)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "a mark of UTF-8"])
async def test_settings_of_a_stock_name_server_are_kept_and_named(
    mark: bytes, autojump_clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    stock = mark + b"rocketmqHome=/opt\n#Sat\nlistenPort=9876\nnoSuch\\ \\u00fc=\\ud800 x\n"
    path = f"{FOLDER}/namesrv.properties"
    async with lan() as net:
        net.disk.mkdir(FOLDER)
        file = net.disk.open(path, "x")
        file.pwrite(stock, 0)
        file.sync()
        file.close()
        async with net.serving():
            assert net.disk.durable(path) == stock
            operator = await net.call("client")
            done = await operator.ask(
                RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true"
            )
            assert done.header.code == 0
        kept = decode_properties_file(net.disk.durable(path))
        assert kept == {
            **decode_properties_file(stock), "enableAllTopicList": "true",
            "orderMessageEnable": "true", "returnOrderTopicConfigToBroker": "true",
        }  # fmt: skip
    (line,) = (each.getMessage() for each in caplog.records if each.name == "triolog.namesrv")
    assert line == f"{path}: does not act here: noSuch ü, rocketmqHome"


@pytest.mark.checklist(76, of="broker")
async def test_a_binary_header_is_answered_with_one(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net, net.serving():
        client = await net.call("client")
        await client.register("x", "y")
        answer = await client.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, encoding=SerializeType.ROCKETMQ, topic="x"
        )
        assert answer.header.code == 0
        assert answer.header.serialize_type is SerializeType.ROCKETMQ
        refused = await client.ask(9999, encoding=SerializeType.ROCKETMQ)
        assert refused.header.code == 3


@pytest.mark.checklist(12, 71, of="broker")
async def test_what_is_not_served_is_answered_at_once(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net, net.serving():
        client, before_s = await net.call("client"), trio.current_time()
        answer = await client.ask(9999)
        assert (answer.header.code, answer.header.remark) == (3, " request type 9999 not supported")
        assert trio.current_time() - before_s < 1


async def test_a_one_way_request_is_carried_out_and_not_answered(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as net, net.serving():
        client = await net.call("client")
        fields = {**KV, "value": "v"}
        header = Header(code=RequestCode.PUT_KV_CONFIG, flag=FLAG_ONEWAY, ext_fields=fields)
        await client.client.put(encode_frame(header, b""))
        found = await client.ask(RequestCode.GET_KV_CONFIG, **KV)
        assert found.header.ext_fields == {"value": "v"}


@pytest.mark.checklist(73, of="broker")
@pytest.mark.parametrize(
    "junk",
    [b"\xff" * 4 + b"x" * 20, b"\x7f" + b"\xff" * 7, b"GET / HTTP/1.1\r\n\r\n",
     b"\0\0\0\x10\0\0\0\x20" + b"x" * 12, b"\0\0\0\x08\x07\0\0\x02{}xx"],
)  # fmt: skip
async def test_junk_ends_its_connection_alone(autojump_clock: trio.abc.Clock, junk: bytes) -> None:
    async with lan() as net, net.serving():
        broker, stranger = await net.call("a"), await net.call("client")
        await broker.register("x", "y")
        await stranger.client.put(junk)
        assert await stranger.client.ended()
        assert (await broker.addresses("x")) == {"a": {0: "a:0"}}
    assert not net.events(ActorCrashed)


@pytest.mark.checklist(75, of="broker")
async def test_who_does_not_read_is_cut_off(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net, net.serving():
        broker, deaf = await net.call("a"), await net.call("client")
        await broker.register(*(f"topic-{number}" for number in range(2000)))
        header = Header(code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        await deaf.client.put(*[encode_frame(header, b"")] * 200)
        for _ in range(4):
            assert await broker.addresses("topic-7") == {"a": {0: "a:0"}}
            await trio.sleep(20)
            await broker.register("topic-7")
        assert await deaf.client.ended()
        assert await broker.addresses("topic-7") == {"a": {0: "a:0"}}


@pytest.mark.checklist(13, of="broker")
async def test_two_name_servers_know_nothing_of_each_other(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net, net.serving("ns1"):
        async with net.serving("ns0"):
            for server in ("ns0", "ns1"):
                await (await net.call("a", server)).register("x", "y")
            assert await (await net.call("client", "ns0")).addresses("x") == {"a": {0: "a:0"}}
        assert await (await net.call("client", "ns1")).addresses("x") == {"a": {0: "a:0"}}


async def test_where_it_cannot_listen_it_says_so(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as net:
        listener = await net.network.open("ns0").listen("127.0.0.1", 9876)
        with pytest.RaisesGroup(
            pytest.RaisesExc(ConfigError, match=r"--listen: .*127\.0\.0\.1:9876"),
            flatten_subgroups=True,
        ):
            async with net.serving():
                pass
        await listener.aclose()
