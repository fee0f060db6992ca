"""Files of brokers, alone and together, as a cluster: who is who, and what does not fit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from brokerconf_kit import MASTER, SLAVE, conf_of, flat, problems_of

from actors.config import loads
from actors.config.brokerconf import in_properties, load_broker_conf, parse_broker_conf
from actors.config.brokerconf.keys import KEYS, NO_DEFAULT
from actors.config.kinds import guarantee_of
from actors.errors import ConfigError

SYNC = {**MASTER, "brokerRole": "SYNC_MASTER"}


@pytest.mark.checklist(56)
def test_the_sample_keys_alone_make_a_pair() -> None:
    """As upstream's 2m-2s-sync has them: no address, no port, no folder but that of each store."""
    names = {"brokerClusterName": "DefaultCluster", "brokerName": "broker-a"}
    both = {"deleteWhen": "04", "fileReservedTime": "48", "flushDiskType": "ASYNC_FLUSH"}
    master = {**names, "brokerId": "0", **both, "brokerRole": "SYNC_MASTER"}
    slave = {**names, "brokerId": "1", **both, "brokerRole": "SLAVE", "storePathRootDir": "/s"}
    conf = conf_of(master, slave)
    assert conf_of(slave, master).toml == conf.toml, "in any order"
    group = conf.config.classic_groups["broker-a"]
    assert (group.master, [each.node for each in group.slaves]) == ("broker-a-0", ["broker-a-1"])
    assert (group.copies, group.durability, group.port) == (2, "written", 10912)
    assert dict(conf.config.nodes) == {"broker-a-0": "127.0.0.1", "broker-a-1": "127.0.0.2"}
    assert conf.config.data_dir == os.path.expanduser("~/store/triolog")
    assert [store.root for store in conf.stores] == [os.path.expanduser("~/store"), "/s"]
    assert conf.config.named_by == (
        "--broker-conf", os.path.abspath("0.properties"),
        "--broker-conf", os.path.abspath("1.properties"),
    )  # fmt: skip


def test_an_asynchronous_master_waits_for_nobody() -> None:
    group = conf_of(MASTER, SLAVE).config.groups["broker-a"]
    assert group.sure_copies == 1
    assert guarantee_of(group).returns_when.startswith("the master has it")


def test_masters_and_slaves_of_two_groups() -> None:
    other = {"brokerName": "broker-b"}
    conf = conf_of(
        MASTER,
        SLAVE,
        {**MASTER, **other, "storePathRootDir": "/data/b"},
        {**SLAVE, **other, "storePathRootDir": "/data/b-s"},
    )
    assert list(conf.config.groups) == ["broker-a", "broker-b"]
    assert list(conf.config.nodes.values()) == [f"127.0.0.{n}" for n in (1, 2, 3, 4)]


def test_a_slave_alone_follows_the_master_that_it_names() -> None:
    conf = conf_of({**SLAVE, "haMasterAddress": "192.0.2.1:20912", "brokerIP1": "192.0.2.2"})
    group = conf.config.classic_groups["broker-a"]
    assert (group.master_node.kind, group.port) == ("java", 20912)
    assert conf.config.python_nodes == ("broker-a-1",)
    assert dict(conf.config.nodes) == {"broker-a-1": "192.0.2.2", "broker-a-0": "192.0.2.1"}
    assert conf.config.data_dir == "/data/a-s/triolog"


def test_a_slave_alone_has_its_own_listen_port_and_its_masters() -> None:
    named = {**SLAVE, "haMasterAddress": "192.0.2.1:20912", "brokerIP1": "192.0.2.2"}
    for more, own, masters in (
        ({}, 20911, None),
        ({"listenPort": "20911"}, 20911, None),
        ({"listenPort": "30911"}, 30911, 20911),
        ({"triolog.masterPort": "40911"}, 40911, None),
        ({"triolog.masterPort": "40911", "listenPort": "20911"}, 20911, 40911),
    ):
        conf = conf_of({**named, **more})
        group = conf.config.classic_groups["broker-a"]
        assert (group.broker_port, group.master_broker_port) == (own, masters)
        assert group.asked_port == masters or own
        assert group.led_by("broker-a-1").asked_port == own, "once it is the master"
        assert not [note for note in conf.notes if "Port" in note]
    second = {**named, "brokerId": "2", "storePathRootDir": "/s", "brokerIP1": "192.0.2.3"}
    api = {"triolog.apiPort": "999"}
    conf = conf_of({**named, **api, "listenPort": "1911"}, {**second, "listenPort": "2911"})
    text = "key listenPort: not used: all of the group answer at 1911, 0.properties's"
    assert [note.partition(": ")[2] for note in conf.notes if "listenPort" in note] == [text]


def test_a_master_alone_takes_the_slaves_that_it_names() -> None:
    conf = conf_of({**SYNC, "brokerIP1": "192.0.2.1", "triolog.slaves": "192.0.2.2"})
    group = conf.config.classic_groups["broker-a"]
    assert group.copies == 2
    assert conf.config.python_nodes == ("broker-a-0",)
    assert [(slave.node, slave.kind) for slave in group.slaves] == [("broker-a-slave1", "java")]


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_one_loopback_address_for_a_pair_becomes_two(address: str) -> None:
    conf = conf_of({**SYNC, "brokerIP1": address}, {**SLAVE, "brokerIP1": address})
    assert dict(conf.config.nodes) == {"broker-a-0": "127.0.0.1", "broker-a-1": "127.0.0.2"}
    (note,) = [note for note in conf.notes if "brokerIP1" in note]
    assert note == (
        "1.properties:6: key brokerIP1: 127.0.0.2 stands for it, as slaves are told apart by"
        " addresses"
    )


def test_a_slave_that_names_its_masters_address_beside_its_file() -> None:
    named = {**SLAVE, "haMasterAddress": "127.0.0.1:10912"}
    assert flat(conf_of(MASTER, named))["nodes.broker-a-0"] == "127.0.0.1"
    (line,) = problems_of(MASTER, {**SLAVE, "haMasterAddress": "127.0.0.1:1"})
    assert line == (
        "1.properties:6: key haMasterAddress: expected 127.0.0.1:10912, where 0.properties has it,"
        ' found "127.0.0.1:1"'
    )


def test_masters_and_name_servers_may_have_host_names() -> None:
    """The usual form in containers; what a name stands for is not known before it is used."""
    servers = {"namesrvAddr": "rocketmq-namesrv:9876; NS-1.mq:9877"}
    alone = {**SLAVE, **servers, "haMasterAddress": "broker_a.mq:20912", "brokerIP1": "192.0.2.2"}
    conf = conf_of(alone)
    assert conf.config.nodes["broker-a-0"] == "broker_a.mq"
    assert conf.config.namesrv_addr == ("rocketmq-namesrv:9876", "NS-1.mq:9877")
    assert conf.config.registers_with[1] == ("ns-1.mq", 9877)
    beside = {**SLAVE, "haMasterAddress": "broker_a.mq:10912"}
    assert flat(conf_of(MASTER, beside))["nodes.broker-a-0"] == "127.0.0.1"
    (line,) = problems_of(MASTER, {**SLAVE, "haMasterAddress": "broker_a.mq:1"})
    assert "expected 127.0.0.1:10912, where 0.properties has it" in line
    for wrong in ("192.0.2.300:10912", "[2001:db8::1]", "[2001:db8::1:10912", "[broker_a.mq]:1"):
        (line,) = problems_of({**alone, "haMasterAddress": wrong})
        assert "expected the host and port of a master, such as 192.0.2.10:10912" in line
    (line,) = problems_of({**MASTER, "brokerIP1": "broker_a.mq"})
    assert "expected an IP address of one host" in line


def test_all_of_a_group_answer_at_its_masters_port() -> None:
    conf = conf_of({**MASTER, "listenPort": "20911"}, {**SLAVE, "listenPort": "30911"})
    assert (flat(conf)["broker_port"], flat(conf)["port"]) == (20911, 20912)
    assert (
        "1.properties:6: key listenPort: not used: all of the group answer at 20911, 0.properties's"
        in conf.notes
    )


def test_clients_and_slaves_have_an_address_each() -> None:
    """brokerIP1 for clients, brokerIP2 for slaves; a name server, so that both are told."""
    servers = {"namesrvAddr": "192.0.2.9:9876"}
    found = flat(conf_of({**MASTER, **servers, "brokerIP1": "192.0.2.1", "brokerIP2": "10.0.0.1"}))
    assert found["nodes.broker-a-0"] == "10.0.0.1"
    assert found["advertised.broker-a-0"] == "192.0.2.1"
    assert found["advertised_ha.broker-a-0"] == "10.0.0.1"
    for one in ({"brokerIP1": "192.0.2.1"}, {"brokerIP2": "192.0.2.1"}):
        found = flat(conf_of({**MASTER, **servers, **one, "brokerIP1": "192.0.2.1"}))
        assert not any(key.startswith("advertised") for key in found)


def test_one_address_for_the_clients_of_a_whole_pair_is_the_masters() -> None:
    """Their listenPorts tell a stock pair apart; here all of a group have one."""
    both = {"brokerIP1": "192.0.2.1"}
    conf = conf_of(
        {**MASTER, **both, "brokerIP2": "127.0.0.1"}, {**SLAVE, **both, "brokerIP2": "127.0.0.2"}
    )
    assert dict(conf.config.advertised) == {"broker-a-0": "192.0.2.1"}
    assert (
        "1.properties:6: key brokerIP1: told to nobody, as broker-a-0 has it; this node is where"
        " brokerIP2 says"
    ) in conf.notes


@pytest.mark.parametrize(("key", "value"), [("brokerIP1", "127.0.0.1"), ("brokerIP2", "127.0.0.1")])
def test_the_address_that_does_not_fit_is_named(key: str, value: str) -> None:
    apart = {"brokerIP1": "192.0.2.1", "brokerIP2": "10.0.0.1", key: value}
    (line,) = problems_of({**MASTER, "namesrvAddr": "192.0.2.9:9876", **apart})
    number = 7 + [*apart].index(key)
    assert line.startswith(f"0.properties:{number}: key {key}: expected an address that 192.0.2.9")


def test_no_slave_is_waited_for_only_where_the_file_says_so() -> None:
    """RocketMQ 5's own default is 1 (T13): here it has to be said, and is answered with a line."""
    assert conf_of(SYNC, SLAVE).config.groups["broker-a"].sure_copies == 2
    assert conf_of({**SYNC, "totalReplicas": "2"}, SLAVE).config.groups["broker-a"].sure_copies == 2
    conf = conf_of({**SYNC, "inSyncReplicas": "1"}, SLAVE)
    assert conf.config.groups["broker-a"].sure_copies == 1
    assert (
        "0.properties:6: key inSyncReplicas: no append waits for a slave, as RocketMQ 5 does not by"
        " default"
    ) in conf.notes


@pytest.mark.checklist(56)
@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            [{**SLAVE, "brokerId": "0"}],
            '0.properties:3: key brokerId: expected a slave\'s id, from 1 on, found "0"',
        ),
        (
            [{"brokerRole": "SLAVE"}],
            "0.properties: key brokerId: expected a slave's id, from 1 on, found nothing, which is"
            " 0",
        ),
        (
            [{**MASTER, "brokerId": "1"}],
            '0.properties:3: key brokerId: expected 0, the id of masters (ASYNC_MASTER), found "1"',
        ),
        (
            [{"brokerName": "a", "brokerId": "1"}],
            "0.properties:2: key brokerId: expected 0, the id of masters (ASYNC_MASTER, as"
            ' brokerRole is not given), found "1"',
        ),
        (
            [{**SLAVE}],
            "0.properties: key haMasterAddress: expected the host and port of a master, such as"
            " 192.0.2.10:10912, or the master's file beside this one (--broker-conf), found"
            " nothing",
        ),
        (
            [SYNC],
            "0.properties:4: key brokerRole: expected ASYNC_MASTER, or a slave beside it: its file"
            ' too (--broker-conf), or triolog.slaves, found "SYNC_MASTER"',
        ),
        (
            [{**SYNC, "flushDiskType": "SYNC_FLUSH", "triolog.slaves": "127.0.0.9"}],
            "0.properties:6: key flushDiskType: expected ASYNC_FLUSH, or the slave's file too"
            " (--broker-conf): one that another machine runs reports what it has not synced, which"
            ' does not count, found "SYNC_FLUSH"',
        ),
        (
            [MASTER, {**SLAVE, "mappedFileSizeCommitLog": "67108864"}],
            "1.properties:6: key mappedFileSizeCommitLog: expected 1073741824, as 0.properties has"
            ' it: files are copied as they are, found "67108864"',
        ),
        (
            [MASTER, {**SLAVE, "brokerClusterName": "other"}],
            "1.properties:1: key brokerClusterName: expected DefaultCluster, as 0.properties has"
            ' it, found "other"',
        ),
        (
            [MASTER, {**SLAVE, "storePathRootDir": "/data/a"}],
            "1.properties:5: key storePathRootDir: expected another folder than that of"
            ' 0.properties, found "/data/a"',
        ),
        (
            [MASTER, {**SLAVE, "storePathCommitLog": "/data/a/commitlog"}],
            "1.properties:5: key storePathRootDir: expected another folder than that of"
            ' 0.properties, found "/data/a-s"',
        ),
        (
            [MASTER, {**MASTER, "storePathRootDir": "/b"}],
            "1.properties:2: key brokerName: expected another than that of 0.properties,"
            ' broker-a-0, found "broker-a"',
        ),
        (
            [MASTER, SLAVE, {**SLAVE, "storePathRootDir": "/b"}],
            "2.properties:3: key brokerId: expected another than that of 1.properties,"
            ' broker-a-1, found "1"',
        ),
        (
            [{**SYNC, "totalReplicas": "2", "inSyncReplicas": "3"}, SLAVE],
            '0.properties:7: key inSyncReplicas: expected at most totalReplicas, 2, found "3"',
        ),
        (
            [{**SYNC, "inSyncReplicas": "3"}, SLAVE],
            "0.properties:6: key inSyncReplicas: expected at most 2, the number of the group's"
            " nodes, found 3",
        ),
        (
            [{**MASTER, "haHousekeepingInterval": "4000"}],
            "0.properties: key haSendHeartbeatInterval: expected less than"
            " haHousekeepingInterval, 4, found 5, in seconds",
        ),
        (
            [{**SYNC, "inSyncReplicas": "2", "enableAutoInSyncReplicas": "true"}, SLAVE],
            "0.properties:7: key enableAutoInSyncReplicas: expected false unless"
            " enableSlaveActingMaster, found true",
        ),
        (
            [{**MASTER, "brokerIP1": "192.0.2.1"}, SLAVE],
            "1.properties: key brokerIP1: expected the address of broker-a-1, as others have"
            " addresses such as 192.0.2.1, found nothing",
        ),
        (
            [{**SYNC, "brokerIP1": "192.0.2.1"}, {**SLAVE, "brokerIP1": "192.0.2.1"}],
            "1.properties:6: key brokerIP1: expected another address than broker-a-0's: group"
            ' broker-a counts copies by address, found "192.0.2.1"',
        ),
        (
            [{**SYNC, "brokerIP1": "192.0.2.1"}, {**SLAVE, "brokerIP1": "192.0.2.2"}],
            "0.properties: key triolog.apiPort: expected a port at which nodes of ours on different"
            " machines ask each other, found nothing",
        ),
        (
            [{**MASTER, "triolog.apiPort": "1000"}, {**SLAVE, "triolog.apiPort": "1001"}],
            "1.properties:6: key triolog.apiPort: expected 1000, as 0.properties:6 has it, found"
            ' "1001"',
        ),
        (
            [{**MASTER, "listenPort": "10912", "haListenPort": "10910"}],
            "0.properties:6: key listenPort: expected neither 10910, the group's port, nor 10912,"
            " found 10912",
        ),
        (
            [{**MASTER, "triolog.apiPort": "10912"}],
            "0.properties:6: key triolog.apiPort: expected a port of its own, found 10912, the"
            " port of group broker-a",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(files: list[dict[str, str]], line: str) -> None:
    assert line in problems_of(*files)


def test_a_record_fits_into_a_file() -> None:
    """As a broker writes it down, which has its default whatever its files' size."""
    small = {**MASTER, "maxMessageSize": "4194304", "mappedFileSizeCommitLog": "1048576"}
    conf = conf_of(small)
    assert flat(conf)["max_message_bytes"] == 524_288
    assert "0.properties:6: key maxMessageSize: 524288, half of" in "\n".join(conf.notes)


@pytest.mark.parametrize("version", ["old", "new"])
def test_a_file_that_a_broker_wrote_down_says_what_the_defaults_are(version: str) -> None:
    """`mqadmin updateBrokerConfig` has a broker write down all settings that it has."""
    said = {name: getattr(key, version) for name, key in KEYS.items() if not key.of_node}
    defaults = {name: text for name, text in said.items() if text != NO_DEFAULT}
    assert len(defaults) >= 25
    slave = {
        **defaults,
        "listenPort": "10911",
        "namesrvAddr": "127.0.0.1:9876",
        **SLAVE,
        "brokerIP1": "127.0.0.2",
        **{f"other{n}": "1" for n in range(100)},
        "brokerID": "1",
    }
    conf = conf_of(MASTER, slave)
    assert [note for note in conf.notes if note.startswith("1.properties")] == [
        "1.properties: keys that mean nothing here: "
        + ", ".join(f"other{n}" for n in range(10))
        + ", brokerID (did you mean brokerId?) and 90 more, which `check` names",
    ]
    assert len(conf.unknown["1.properties"]) == 101
    conf_of({**defaults, **MASTER})


def test_the_hosts_name_has_to_be_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "broker.example.com")
    (line,) = problems_of({"storePathRootDir": "/s"})
    assert line == (
        "0.properties: key brokerName: expected a name of 1 to 64 letters, digits, _ and -, found"
        " the host's name, 'broker.example.com'"
    )
    monkeypatch.setattr("platform.node", lambda: "host1")
    assert list(conf_of({"storePathRootDir": "/s"}).config.nodes) == ["host1-0"]


def test_which_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"expected a FILE, or broker\.properties or conf/"):
        load_broker_conf([None])
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/broker.conf").write_text("brokerName=second\nstorePathRootDir=store")
    found = load_broker_conf([None]).config
    assert list(found.groups) == ["second"]
    assert found.data_dir == f"{tmp_path}/store/triolog", "as for a broker that is started here"
    (tmp_path / "broker.properties").write_text("brokerName=first")
    assert list(load_broker_conf([None]).config.groups) == ["first"]
    with pytest.raises(ConfigError, match=r"each file once, found broker\.properties again"):
        load_broker_conf([None, "broker.properties"])


@pytest.mark.parametrize(
    ("name", "why"),
    [("missing", "no such file"), (".", "is a directory"), ("a\0b", "no such file")],
)
def test_a_file_that_cannot_be_read(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"expected a broker's properties, found {why}"):
        load_broker_conf([name])


def test_a_file_of_megabytes_is_none(tmp_path: Path) -> None:
    file = tmp_path / "b.properties"
    file.write_bytes(b"#" * (1 << 21))
    with pytest.raises(ConfigError, match="at most 1048576 bytes, found more"):
        load_broker_conf([str(file)])


def test_mistakes_of_all_files_at_once() -> None:
    lines = problems_of({**MASTER, "brokerId": "1"}, {**SLAVE, "brokerId": "0"})
    assert [line.partition(":")[0] for line in lines] == ["0.properties", "1.properties"]


def test_what_a_node_says_of_keys_is_said_of_properties() -> None:
    assert in_properties('f: key groups.broker-a.port: expected "x"') == (
        'f: key haListenPort: expected "x"'
    )
    assert in_properties("f: key groups.a.segment_bytes: e") == (
        "f: key mappedFileSizeCommitLog: e"
    )
    assert in_properties("f: key nodes.a-0: e") == "f: key brokerIP1 or brokerIP2 of a-0: e"
    assert in_properties("f: key data_dir: e") == "f: key storePathRootDir: e"
    assert in_properties("f: key groups.a.receive_pending_bytes: e") == (
        "f: key receive_pending_bytes: e"
    )


def test_all_register_with_the_name_servers_of_all() -> None:
    one, other = {"namesrvAddr": "127.0.0.1:9876"}, {"namesrvAddr": "127.0.0.1:9876;127.0.0.1:9877"}
    conf = conf_of({**MASTER, **one}, {**SLAVE, **other, "brokerId": "3"})
    assert conf.config.namesrv_addr == ("127.0.0.1:9876", "127.0.0.1:9877")
    (line,) = problems_of({**MASTER, "namesrvAddr": "192.0.2.1:9876"})
    assert line == (
        "0.properties: key brokerIP1: expected an address that 192.0.2.1, a name server, and its"
        ' clients reach broker-a-0 at, found "127.0.0.1"'
    )


def test_slaves_register_under_the_ids_of_their_files() -> None:
    """Two slaves that are each started from their own file know nothing of each other."""
    servers = {"namesrvAddr": "127.0.0.1:9876"}
    alone = {**SLAVE, **servers, "brokerId": "2", "haMasterAddress": "127.0.0.9:10912"}
    conf = conf_of(alone)
    (group,) = conf.config.groups.values()
    assert conf.config.slave_ids_of(group)["broker-a-2"] == 2
    assert loads(conf.toml, "f.toml").broker_ids == {"broker-a-2": 2}
    assert not [note for note in conf.notes if "brokerId" in note]
    conf = conf_of({**MASTER, **servers}, {**SLAVE, "brokerId": "3"})
    (group,) = conf.config.groups.values()
    assert conf.config.slave_ids_of(group) == {"broker-a-3": 3, "broker-a-0": 4}


def test_equal_paths_on_two_machines_are_two_stores() -> None:
    port = {"triolog.apiPort": "10999", "storePathRootDir": "/data/store"}
    conf = conf_of(
        {**MASTER, **port, "brokerIP1": "192.0.2.1"}, {**SLAVE, **port, "brokerIP1": "192.0.2.2"}
    )
    assert [store.own for store in conf.stores] == [
        "/data/store/triolog/broker-a-0",
        "/data/store/triolog/broker-a-1",
    ]
    assert [conf.config.node_dir(store.node) for store in conf.stores] == [
        store.own for store in conf.stores
    ]
    same = {**port, "brokerIP1": "192.0.2.1"}
    (line,) = problems_of({**MASTER, **same}, {**SLAVE, **same})
    assert "key storePathRootDir: expected another folder" in line


def test_one_file_from_bytes() -> None:
    assert list(parse_broker_conf(b"brokerName=a", "f").config.nodes) == ["a-0"]
