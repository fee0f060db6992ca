"""Whole nodes that register with name servers of ours, over a simulated network."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial

import attrs
import pytest
import trio
from metadata_kit import BROKER_PORT, NODES, PATHS, FakeMaster, MetadataCluster, until
from name_server_kit import (
    MORE,
    NAME_SERVERS,
    addresses,
    ask,
    register_java,
    start_name_server,
    start_name_servers,
    until_route,
)
from registering import encode_registration

from actors.broker.core import registration
from actors.broker.core.registration import PERIOD_S, RETRY_MAX_S
from actors.broker.registrar import Presence, Standing
from actors.events.runtime import ActorStarted
from actors.log_types import Promotion
from actors.metadata.core.changes import put_topic
from actors.metadata.core.tables import Tables
from actors.runtime import ActorError
from actors.runtime.requests import RestartChild, Restarted
from actors.sim.world import World, open_world
from wire.broker.codes import RequestCode
from wire.broker.routes import decode_route
from wire.broker.topics import TopicConfig, TopicTable
from wire.remoting.header import VERSION

N0, N1, N2 = (f"{NODES[name]}:{BROKER_PORT}" for name in ("n0", "n1", "n2"))
WHOLE = {0: N0, 1: N1, 2: N2}


def topic(name: str) -> partial[Tables]:
    return partial(put_topic, config=TopicConfig(topic_name=name))


async def cluster(world: World) -> MetadataCluster:
    await start_name_servers(world)
    nodes = MetadataCluster(world, more=MORE)
    await nodes.start()
    await nodes.change(topic("a"))
    return nodes


async def test_every_name_server_knows_all_members_and_each_new_topic(
    autojump_clock: object,
) -> None:
    async with open_world(1) as world:
        nodes = await cluster(world)
        for server in NAME_SERVERS:
            await until_route(world, server, "a", WHOLE, within_s=5.0)
        await nodes.change(topic("b"))
        for server in NAME_SERVERS:
            await until_route(world, server, "b", WHOLE, within_s=0.5)
        good, bad = nodes.registrations["n1"].texts()
        assert good == ("registered at 127.0.0.11:9876, 127.0.0.12:9876",)
        assert not bad


async def test_an_ipv6_address_is_registered_in_brackets(autojump_clock: object) -> None:
    async with open_world(14) as world:
        await start_name_servers(world)
        nodes = MetadataCluster(world, more=MORE + 'advertised = { n0 = "2001:db8::1" }\n')
        await nodes.start("n0")
        await nodes.change(topic("a"))
        await until_route(world, "ns0", "a", {0: f"[2001:db8::1]:{BROKER_PORT}"}, within_s=5.0)
        await nodes.systems["n0"].stop()
        assert await addresses(world, "ns0", "a") == {}


@pytest.mark.parametrize("is_here", [True, False])
async def test_slaves_and_clients_are_told_an_address_each(
    autojump_clock: object, is_here: bool
) -> None:
    """The broker's port is open at the clients' address, too, if that is this machine's."""
    more = 'advertised = { n0 = "192.0.2.1" }\nadvertised_ha = { n0 = "192.0.2.2" }\n'
    async with open_world(17) as world:
        await start_name_servers(world)
        nodes = MetadataCluster(world, more=MORE + more, also={"n0": ["192.0.2.1"] * is_here})
        await nodes.start("n0")
        await nodes.change(topic("a"))
        broker = f"192.0.2.1:{BROKER_PORT}"
        await until_route(world, "ns0", "a", {0: broker}, within_s=5.0)
        fields = {
            "brokerName": "orders",
            "brokerAddr": "192.0.2.3:10911",
            "brokerId": "7",
            "clusterName": "kit",
            "haServerAddr": "192.0.2.3:10912",
        }
        body = encode_registration(TopicTable(), version=VERSION)
        frame = await ask(world, "ns0", RequestCode.REGISTER_BROKER, fields, body)
        assert frame.header.ext_fields is not None
        assert frame.header.ext_fields["haServerAddr"] == "192.0.2.2:10912"
        assert frame.header.ext_fields["masterAddr"] == broker
        network = world.network.open("client")
        for port in (BROKER_PORT, BROKER_PORT - 2):
            await network.connect(NODES["n0"], port)
            with nullcontext() if is_here else pytest.raises(OSError, match="No route"):
                await network.connect("192.0.2.1", port)


async def test_a_node_that_stops_in_order_leaves_at_once(autojump_clock: object) -> None:
    async with open_world(2) as world:
        nodes = await cluster(world)
        await until_route(world, "ns0", "a", WHOLE, within_s=5.0)
        await nodes.systems["n1"].stop()
        assert await addresses(world, "ns0", "a") == {0: N0, 2: N2}


async def test_a_name_server_that_restarts_has_all_again_within_a_period(
    autojump_clock: object,
) -> None:
    async with open_world(3) as world:
        await cluster(world)
        await until_route(world, "ns0", "a", WHOLE, within_s=5.0)
        await world.kill_node("ns0")
        await trio.sleep(5.0)
        await start_name_server(world, "ns0")
        await until_route(world, "ns0", "a", WHOLE, within_s=PERIOD_S + RETRY_MAX_S)
        assert await addresses(world, "ns1", "a") == WHOLE, "the other one never lacked any"


async def test_a_name_server_that_is_not_there_is_told_of_once(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """But not at a start, when a node's own name server comes behind its groups."""
    async with open_world(9) as world:
        await start_name_servers(world)
        await world.kill_node("ns0")
        nodes = MetadataCluster(world, more=MORE)
        await nodes.start("n0")
        await trio.sleep(1.0)
        assert not caplog.messages
        await trio.sleep(300.0)
        (line,) = caplog.messages
        assert line.startswith("n0/orders: not registered at name server 127.0.0.11:9876: ")
        caplog.clear()
        await start_name_server(world, "ns0")
        await nodes.change(topic("a"))
        await until_route(world, "ns0", "a", {0: N0}, within_s=2 * RETRY_MAX_S)


async def test_a_name_server_behind_a_cut_link_keeps_no_other_from_what_is_new(
    autojump_clock: object,
) -> None:
    async with open_world(4) as world:
        nodes = await cluster(world)
        await until_route(world, "ns0", "a", WHOLE, within_s=5.0)
        await until_route(world, "ns1", "a", WHOLE, within_s=5.0)
        for name in NODES:
            world.network.cut_both(name, "ns0")
        await nodes.change(topic("b"))
        await until_route(world, "ns1", "b", WHOLE, within_s=1.0)
        where = f"{NAME_SERVERS['ns0']}:9876"
        await until(
            lambda: not nodes.registrations["n0"].standings[where].is_registered, within_s=30.0
        )
        _, bad = nodes.registrations["n0"].texts()
        assert bad[0].startswith(f"not registered at name server {where}: ")
        await trio.sleep(200.0)
        assert await addresses(world, "ns0", "a") == {}, "who is silent for so long is no broker"
        world.network.heal_all()
        await until_route(world, "ns0", "b", WHOLE, within_s=60.0)
        assert nodes.registrations["n0"].standings[where] == Standing(is_registered=True)


async def test_lost_and_broken_connections_end_in_the_whole_route(autojump_clock: object) -> None:
    async with open_world(5) as world:
        nodes = await cluster(world)
        rng = world.rng("links")
        for number in range(30):
            name, server = rng.choice([*NODES]), rng.choice([*NAME_SERVERS])
            match rng.randrange(3):
                case 0:
                    world.network.clog(name, server, rng.uniform(0.1, 8.0))
                case 1:
                    world.network.reset(name, server)
                case _:
                    world.network.cut(server, name)
            await nodes.change(topic(f"t{number}"))
            await trio.sleep(rng.uniform(0.0, 10.0))
            world.network.heal(server, name)
        for server in NAME_SERVERS:
            for number in range(30):
                await until_route(world, server, f"t{number}", WHOLE, within_s=120.0)


async def test_who_becomes_master_has_the_new_id_and_not_the_old(autojump_clock: object) -> None:
    async with open_world(6) as world:
        nodes = await cluster(world)
        await until_route(world, "ns0", "a", WHOLE, within_s=5.0)
        await nodes.until_equal()
        await trio.sleep(2.0)
        for name in NODES:
            await world.kill_node(name)
        nodes.master = "n1"
        await nodes.start()
        await until_route(world, "ns0", "a", {0: N1, 1: N0, 2: N2}, within_s=10.0)


async def test_a_restart_of_the_groups_tree_takes_nobody_out_of_a_route(
    autojump_clock: object,
) -> None:
    """A change of the role restarts it, too."""
    async with open_world(10) as world:
        nodes = await cluster(world)
        await until_route(world, "ns0", "a", WHOLE, within_s=5.0)
        root = nodes.systems["n0"].ref("/n0", RestartChild)
        restart = partial(RestartChild, name="orders")
        answer = await root.ask(Restarted, lambda to: restart(reply_to=to), timeout_s=5.0)
        assert isinstance(answer, Restarted)
        for _ in range(100):
            assert await addresses(world, "ns0", "a") == WHOLE
            await trio.sleep(0.05)


async def test_no_crash_of_a_brokers_part_ends_what_replicates(autojump_clock: object) -> None:
    def crash(tables: Tables, now_ms: int) -> Tables:
        raise ValueError("of the test")

    async with open_world(12) as world:
        nodes = await cluster(world)
        for _ in range(40):
            with suppress(ActorError):
                await nodes.note(crash)
            await trio.sleep(2.0)
        store = PATHS["n0"].store
        started = [
            each for each in world.events
            if isinstance(each.event, ActorStarted) and each.path == store
        ]  # fmt: skip
        assert len(started) == 1
        await trio.sleep(60.0)
        await nodes.change(topic("b"))
        await until_route(world, "ns0", "b", WHOLE, within_s=PERIOD_S)


async def test_another_role_is_one_registration_under_another_id(autojump_clock: object) -> None:
    async with open_world(11) as world:
        nodes = await cluster(world)
        await until_route(world, "ns0", "a", WHOLE, within_s=5.0)
        setup = nodes.setups["n1"]
        member = attrs.evolve(setup.member, broker_id=7)
        setup.registrations.announce(Presence(member=member, followers=None))
        await until_route(world, "ns0", "a", {0: N0, 7: N1, 2: N2}, within_s=0.5)
        await nodes.systems["n1"].stop()
        assert await addresses(world, "ns0", "a") == {0: N0, 2: N2}


async def test_a_slave_follows_the_java_master_that_a_name_server_names(
    autojump_clock: object,
) -> None:
    """The cluster file says n0; a broker that registers as master is at n2's address."""
    async with open_world(7) as world:
        await start_name_servers(world)
        master = FakeMaster()
        nodes = MetadataCluster(world, java=True, more=MORE)
        await master.start(world)
        await nodes.start("n1")
        await register_java(world, "ns0", broker=N2, ha="127.0.0.3:10912")
        await until(lambda: nodes.registrations["n1"].master == N2, within_s=2 * PERIOD_S)
        asked = len(master.asked)
        await trio.sleep(30.0)
        assert len(master.asked) == asked, "the old master is asked for nothing more"


async def test_a_master_that_cannot_be_read_is_told_of_once(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(13) as world:
        await start_name_servers(world)
        nodes = MetadataCluster(world, java=True, more=MORE)
        await nodes.start("n1")
        await register_java(world, "ns0", broker="[fe80::1%eth0]:10911", ha="127.0.0.1:10912")
        await trio.sleep(5 * PERIOD_S)
        (line,) = [each for each in caplog.messages if "master named by" in each]
        assert "such as 192.0.2.1:9876 or [2001:db8::1]:9876, found '[fe80::1%eth0]:10911'" in line
        await register_java(world, "ns0", broker=N0, ha="127.0.0.1:10912")
        await until(lambda: nodes.registrations["n1"].master == N0, within_s=2 * PERIOD_S)


async def test_a_name_server_that_names_no_master_any_more_keeps_nobody_from_a_new_one(
    autojump_clock: object,
) -> None:
    async with open_world(13) as world:
        await start_name_servers(world)
        nodes = MetadataCluster(world, java=True, more=MORE)
        await nodes.start("n1")
        await register_java(world, "ns0", broker=N0, ha="127.0.0.1:10912")
        await until(lambda: nodes.registrations["n1"].master == N0, within_s=2 * PERIOD_S)
        await world.kill_node("ns0")
        await start_name_server(world, "ns0")
        await trio.sleep(2 * PERIOD_S)
        assert nodes.registrations["n1"].master == N0, "there is no other"
        await register_java(world, "ns1", broker=N2, ha="127.0.0.3:10912")
        await until(lambda: nodes.registrations["n1"].master == N2, within_s=2 * PERIOD_S)


async def test_a_name_servers_name_is_resolved_at_each_attempt(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(15) as world:
        await start_name_servers(world)
        outside = {name: f"192.0.2.{number}" for number, name in enumerate(NODES, 1)}
        more = "".join(f'advertised.{name} = "{each}"\n' for name, each in outside.items())
        more += 'namesrv_addr = ["rocketmq-namesrv:9876"]\n'
        nodes = MetadataCluster(world, more=more)
        await nodes.start("n0")
        await trio.sleep(60.0)
        (line,) = caplog.messages
        reason = "host name rocketmq-namesrv cannot be resolved (Name or service not known)"
        where = "not registered at name server rocketmq-namesrv:9876"
        assert line.startswith(f"n0/orders: {where}: ")
        assert line.endswith(f"{reason}; tried again")
        _, (bad,) = nodes.registrations["n0"].texts()
        assert bad.startswith(f"{where}: ")
        assert bad.endswith(reason)
        registered = (("registered at rocketmq-namesrv:9876",), ())
        for server, address in NAME_SERVERS.items():
            world.network.names["rocketmq-namesrv"] = address
            await nodes.change(topic("a"))
            route = {0: f"{outside['n0']}:{BROKER_PORT}"}
            await until_route(world, server, "a", route, within_s=PERIOD_S + RETRY_MAX_S)
            await until(lambda: nodes.registrations["n0"].texts() == registered, within_s=5.0)
            await world.kill_node(server)


async def test_a_java_master_with_a_host_name_is_found_where_the_name_says(
    autojump_clock: object,
) -> None:
    """By the cluster file, and by a name server: its ports for metadata and for its log."""
    async with open_world(16) as world:
        await start_name_servers(world)
        world.network.names |= dict.fromkeys(("broker-a", "broker-b"), NODES["n0"])
        nodes = MetadataCluster(world, java=True, more=MORE, n0="broker-a")
        master = FakeMaster()
        await master.start(world)
        ha = await world.network.open("n0").listen(NODES["n0"], 10912)
        await nodes.start("n1")
        with trio.fail_after(10.0):
            await ha.accept()
            await until(lambda: bool(master.asked))
        broker = f"broker-b:{BROKER_PORT}"
        await register_java(world, "ns0", broker=broker, ha="broker-b:10912")
        await until(lambda: nodes.registrations["n1"].master == broker, within_s=2 * PERIOD_S)
        asked = len(master.asked)
        with trio.fail_after(10.0):
            await ha.accept()
            await until(lambda: len(master.asked) > asked)


async def test_each_member_has_one_id_as_a_slave_whoever_is_master(autojump_clock: object) -> None:
    """And a promoted master registers under a later state, so that its predecessor is ignored."""
    async with open_world(8) as world:
        await start_name_servers(world)
        nodes = MetadataCluster(world, more=MORE)
        await nodes.start()
        ids = {}
        for name, setup in nodes.setups.items():
            for master in NODES:
                member = setup.led_by(Promotion(2, master), None).member
                ids[master, name] = member.broker_id
                assert member.number == 2
                assert str(member.broker) == f"{NODES[name]}:{BROKER_PORT}"
        assert ids == {
            ("n0", "n0"): 0, ("n0", "n1"): 1, ("n0", "n2"): 2,
            ("n1", "n0"): 3, ("n1", "n1"): 0, ("n1", "n2"): 2,
            ("n2", "n0"): 3, ("n2", "n1"): 1, ("n2", "n2"): 0,
        }  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_what_an_operator_has_wiped_at_a_name_server_stays_so(
    autojump_clock: object, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a lone topic, of one part, and of several, which are compared; as with upstream's."""
    monkeypatch.setattr(registration, "PART_TOPICS", 2)
    names = [f"t{number}" for number in range(count)]

    async def perms(world: World) -> set[int]:
        found = set()
        for name in names:
            frame = await ask(world, "ns0", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
            found |= {each.perm for each in decode_route(frame.body).queue_datas}
        return found

    async with open_world(15) as world:
        await start_name_servers(world)
        nodes = MetadataCluster(world, more=MORE)
        await nodes.start("n0")
        for name in names:
            await nodes.change(topic(name))
        await trio.sleep(2 * PERIOD_S)
        wiped = await ask(
            world, "ns0", RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "orders"}
        )
        assert wiped.header.code == 0
        for _ in range(6):
            assert await perms(world) == {4}
            await trio.sleep(PERIOD_S)
        await world.kill_node("ns0")
        await start_name_server(world, "ns0")
        for name in names:
            await until_route(world, "ns0", name, {0: N0}, within_s=PERIOD_S + RETRY_MAX_S)
        assert await perms(world) == {6}
