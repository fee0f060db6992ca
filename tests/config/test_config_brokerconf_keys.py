"""Every key of a broker's properties does here what its row says, and a wrong value is refused.

`SAMPLES` has a case for each key that `KEYS` has; `wire/spec/classic-ha.md` 6 has no key more.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from brokerconf_kit import MASTER, SLAVE, conf_of, flat, problems_of

from actors.config import ClassicGroup
from actors.config.brokerconf import KeyUse
from actors.config.brokerconf.keys import KEYS, NO_DEFAULT, OLD_NAMES
from actors.config.brokerconf.values import Integer, Only

SPEC = Path(__file__).parents[2] / "wire/spec/classic-ha.md"
SYNC = {"brokerRole": "SYNC_MASTER", "triolog.slaves": "127.0.0.9"}
FIVE = {**SYNC, "inSyncReplicas": "2"}
ALONE = {"haMasterAddress": "127.0.0.1:10912", "brokerRole": "SLAVE", "brokerId": "1"}

# Key, what else the file has, its value, what a cluster file has differently then (None: no more).
SAMPLES: list[tuple[str, dict[str, str], str, dict[str, Any]]] = [
    ("brokerClusterName", {}, "other", {"name": "other"}),
    (
        "brokerName",
        {},
        "b",
        {"nodes.b-0": "127.0.0.1", "groups.b.master": "b-0", "groups.b.broker_port": 10911},
    ),
    ("brokerId", ALONE, "7", {"slaves": ["broker-a-7"], "nodes.broker-a-7": "127.0.0.2"}),
    ("brokerRole", {"triolog.slaves": "127.0.0.9"}, "SYNC_MASTER", {"copies": 2}),
    ("brokerIP1", {}, "127.0.0.4", {"nodes.broker-a-0": "127.0.0.4"}),
    (
        "brokerIP2",
        {"brokerIP1": "127.0.0.4"},
        "127.0.0.5",
        {
            "nodes.broker-a-0": "127.0.0.5",
            "advertised.broker-a-0": "127.0.0.4",
            "advertised_ha.broker-a-0": "127.0.0.5",
        },
    ),
    (
        "namesrvAddr",
        {"brokerIP1": "192.0.2.9"},
        "localhost:9876;192.0.2.1:9876;",
        {"namesrv_addr": ["127.0.0.1:9876", "192.0.2.1:9876"]},
    ),
    ("listenPort", {}, "20911", {"port": 20912, "broker_port": 20911}),
    ("listenPort", ALONE, "20911", {"broker_port": 20911, "master_broker_port": 10911}),
    (
        "triolog.masterPort",
        {**ALONE, "listenPort": "20911"},
        "30911",
        {"master_broker_port": 30911},
    ),
    ("triolog.peers", {}, "192.0.2.7", {"broker_peers": ["192.0.2.7"]}),
    ("haListenPort", {"listenPort": "20911"}, "30000", {"port": 30000}),
    (
        "haMasterAddress",
        ALONE,
        "127.0.0.7:20912",
        {
            "port": 20912,
            "broker_port": 20911,
            "nodes.broker-a-0": "127.0.0.7",
            "nodes.broker-a-1": "127.0.0.1",
        },
    ),
    (
        "triolog.slaves",
        {},
        "127.0.0.8;127.0.0.9",
        {
            "slaves": [
                {"node": "broker-a-slave1", "kind": "java"},
                {"node": "broker-a-slave2", "kind": "java"},
            ],
            "nodes.broker-a-slave1": "127.0.0.8",
            "nodes.broker-a-slave2": "127.0.0.9",
        },
    ),
    ("triolog.apiPort", {}, "10999", {"api_port": 10999}),
    ("haSlaveFallbehindMax", {}, "5000", {"ha_max_gap_not_in_sync_bytes": 5000}),
    (
        "haSlaveFallbehindMax",
        SYNC,
        "3000000000",
        {
            "copies": None,
            "ack_policy": "4.x",
            "ha_slave_fallbehind_max_bytes": 3_000_000_000,
            "ha_max_gap_not_in_sync_bytes": 3_000_000_000,
        },
    ),
    ("haSlaveFallbehindMax", FIVE, "5000", {"ha_max_gap_not_in_sync_bytes": 5000}),
    (
        "haMaxGapNotInSync",
        {"haSlaveFallbehindMax": "7"},
        "5000",
        {"ha_max_gap_not_in_sync_bytes": 5000},
    ),
    ("syncFlushTimeout", {"flushDiskType": "SYNC_FLUSH"}, "7000", {"slave_timeout_s": 7.0}),
    ("slaveTimeout", SYNC, "1500", {"slave_timeout_s": 1.5}),
    ("putMessageTimeout", {**SYNC, "slaveTimeout": "9000"}, "6000", {"slave_timeout_s": 6.0}),
    (
        "totalReplicas",
        SYNC,
        "2",
        {"copies": None, "ack_policy": "5.x", "in_sync_replicas": 2},
    ),
    (
        "inSyncReplicas",
        SYNC,
        "2",
        {"copies": None, "ack_policy": "5.x", "in_sync_replicas": 2},
    ),
    (
        "minInSyncReplicas",
        {**FIVE, "enableSlaveActingMaster": "true", "enableAutoInSyncReplicas": "true"},
        "2",
        {"min_in_sync_replicas": 2},
    ),
    (
        "enableAutoInSyncReplicas",
        {**FIVE, "enableSlaveActingMaster": "true"},
        "true",
        {"enable_auto_in_sync_replicas": True},
    ),
    (
        "allAckInSyncStateSet",
        SYNC,
        "true",
        {"copies": None, "ack_policy": "5.x", "all_ack_in_sync_state_set": True},
    ),
    ("enableSlaveActingMaster", FIVE, "true", {"enable_slave_acting_master": True}),
    ("flushDiskType", {}, "SYNC_FLUSH", {"durability": "synced"}),
    ("duplicationEnable", {}, "true", {}),
    ("haSendHeartbeatInterval", {}, "1500", {"ha_send_heartbeat_interval_s": 1.5}),
    ("haHousekeepingInterval", {}, "30000", {"ha_housekeeping_interval_s": 30.0}),
    ("haTransferBatchSize", {}, "65536", {"frame_bytes": 65536}),
    (
        "haFlowControlEnable",
        {},
        "true",
        {"max_ha_transfer_bytes_per_s": 104_857_600},
    ),
    (
        "maxHaTransferByteInSecond",
        {"haFlowControlEnable": "true"},
        "5000",
        {"max_ha_transfer_bytes_per_s": 5000},
    ),
    ("haMaxTimeSlaveNotCatchup", {}, "15000", {}),
    ("syncFromLastFile", {}, "false", {}),
    ("asyncLearner", {}, "false", {}),
    ("syncMasterFlushOffsetWhenStartup", {}, "false", {}),
    ("slaveReadEnable", {}, "true", {}),
    ("storePathRootDir", {}, "/other", {"data_dir": "/other/triolog"}),
    ("storePathCommitLog", {}, "/fast/log", {}),
    ("mappedFileSizeCommitLog", {}, "67108864", {"segment_bytes": 67_108_864}),
    ("mappedFileSizeConsumeQueue", {}, "5999999", {"consume_queue_bytes": 6_000_000}),
    ("maxHashSlotNum", {}, "1000", {"index_slots_count": 1000}),
    ("maxIndexNum", {}, "4000", {"index_units_count": 4000}),
    ("cleanResourceInterval", {}, "5000", {"clean_resource_interval_s": 5.0}),
    ("maxMessageSize", {}, "65536", {"max_message_bytes": 65536}),
    ("messageDelayLevel", {}, "1s 10m", {"message_delay_level": "1s 10m"}),
    ("flushIntervalCommitLog", {}, "250", {"flush_interval_s": 0.25}),
    ("flushCommitLogLeastPages", {}, "4", {"flush_least_pages": 4}),
    ("flushCommitLogThoroughInterval", {}, "8000", {"flush_thorough_interval_s": 8.0}),
    ("transientStorePoolEnable", {}, "true", {}),
    ("checkCRCOnRecover", {}, "False", {"check_crc_on_recover": False}),
    ("fileReservedTime", {}, "48", {"file_reserved_time_h": 48}),
    ("deleteWhen", {}, "04;16", {"delete_when_hours": [4, 16]}),
    ("diskMaxUsedSpaceRatio", {}, "70", {"disk_max_used_ratio": 0.7}),
    ("diskMaxUsedSpaceRatio", {}, "88", {"disk_max_used_ratio": 0.85}),
    ("accessMessageInMemoryMaxRatio", {}, "30", {}),
    ("enableDLegerCommitLog", {}, "false", {}),
    ("enableControllerMode", {}, "false", {}),
    ("triolog.storeVersion", {}, "5.3.3", {"store_version": "5.3.3"}),
]
NOT_ACTED_ON = {"transientStorePoolEnable", "accessMessageInMemoryMaxRatio", "duplicationEnable"}
NOT_YET = {"slaveReadEnable"}


@pytest.mark.checklist(56)
@pytest.mark.parametrize(
    ("key", "beside", "value", "expected"),
    SAMPLES,
    ids=[f"{key}-{number}" for number, (key, *_) in enumerate(SAMPLES)],
)
def test_each_key_acts(
    key: str, beside: dict[str, str], value: str, expected: dict[str, Any]
) -> None:
    base = {**MASTER, **beside}
    before, conf = flat(conf_of(base)), conf_of({**base, key: value})
    after = flat(conf)
    changed = {
        name: after.get(name) for name in before | after if before.get(name) != after.get(name)
    }
    assert {name: change for name, change in changed.items() if name in expected} == expected
    if key != "brokerName":  # with which every name changes
        others = set(changed) - set(expected)
        assert others <= {"nodes.broker-a-1"}, "nothing else, but for a node's own name"
    (use,) = [use for use in conf.uses if use.key == key]
    assert use == KeyUse(file="0.properties", key=key, value=value, does=use.does)
    assert use.does
    about = [note for note in conf.notes if f"key {key}: " in note]
    assert [note for note in about if "not acted on" in note] == about * (key in NOT_ACTED_ON)
    assert any("not done yet" in note for note in about) == (key in NOT_YET)


def test_no_key_is_without_a_sample() -> None:
    assert {key for key, *_ in SAMPLES} == set(KEYS)


def test_only_three_keys_are_not_acted_on() -> None:
    assert {name for name, key in KEYS.items() if not key.acts} == NOT_ACTED_ON
    assert {name for name, key in KEYS.items() if key.later} == NOT_YET


def spec_rows() -> dict[str, tuple[str, str]]:
    """Every key of the specification's table with its defaults of 4.9.8 and 5.3.3."""
    text = SPEC.read_text().partition("\n## 6. Configuration\n")[2].partition("\n## 7.")[0]
    found: dict[str, tuple[str, str]] = {}
    for row in re.findall(r"^\| ([a-z][^|]*)\| ([^|]*)\| ([^|]*)\|", text, re.M):
        names = re.split(r" / |, ", row[0].strip())
        old, new = ([one.strip() for one in cell.split(" / ")] for cell in row[1:])
        for number, name in enumerate(names):
            found[name] = (old[min(number, len(old) - 1)], new[min(number, len(new) - 1)])
    return found


def test_every_key_of_the_specification_is_known() -> None:
    rows = spec_rows()
    assert len(rows) > 40
    ours = {name for name in KEYS if name.startswith("triolog.")}
    beside = {"storePathRootDir", "storePathCommitLog"}  # 4 has these
    beside |= {"maxHashSlotNum", "maxIndexNum", "cleanResourceInterval"}  # so that stores open
    refused = {"enableDLegerCommitLog", "enableControllerMode"}  # other modes
    assert set(KEYS) == set(rows) | ours | beside | refused
    for name, (old, new) in rows.items():
        new = {"same": old, "–": NO_DEFAULT, "removed": NO_DEFAULT}.get(new, new)
        for said, ours_is in ((old, KEYS[name].old), (new, KEYS[name].new)):
            if re.fullmatch(r"[\w.]+", said):
                assert ours_is == said, name


def test_what_has_one_key_here_has_its_default() -> None:
    """But for larger frames, and for pages that wait for a sync, of which ours has none."""
    ours = {"frame_bytes", "flush_least_pages", "durability", "store_version"}
    made = ClassicGroup(name="a", master="n")
    for key in KEYS.values():
        if key.sets and key.new != NO_DEFAULT and key.sets not in ours:
            value = key.convert(key.kind.read(key.new))
            found = getattr(made, key.sets)
            assert found == (tuple(value) if isinstance(value, list) else value), key.name


WRONG = {
    Integer: ("", "12 ", "0x10", "1e3", "9223372036854775808", "99999999999999999999"),
}
WORDS_THAT_NONE_TAKES = {
    "brokerClusterName": ("", "a b", "x" * 65),
    "brokerName": ("", "a.b"),
    "brokerRole": ("", "async_master", "MASTER"),
    "brokerIP1": ("", "0.0.0.0", "broker.example.com", "1.2.3"),
    "brokerIP2": ("", "::"),
    "namesrvAddr": ("", "127.0.0.1", "a..example.com:9876", "127.0.0.1:0", "127.0.0.1:65536"),
    "haMasterAddress": ("127.0.0.1", "127.0.0.1:0", "a..example.com:10912", ":10912"),
    "triolog.peers": ("", "192.0.2.0/24"),
    "triolog.slaves": ("", "127.0.0.8;127.0.0.8", "x"),
    "flushDiskType": ("", "SYNC", "sync_flush"),
    "storePathRootDir": ("", "/a,/b", "${user.home}/store"),
    "storePathCommitLog": ("", "/a;/b"),
    "deleteWhen": ("", "24", "04;04", "4.5", "-1"),
    "messageDelayLevel": ("", "1", "1s  2s", "1s,2s", "-1s", "1 s", "1w", " ".join(["1s"] * 65)),
    "triolog.storeVersion": ("", "5.3", "five"),
}


@pytest.mark.checklist(57)
@pytest.mark.parametrize("name", KEYS)
def test_a_wrong_value_is_one_line(name: str) -> None:
    key = KEYS[name]
    kind = key.kind.kind if isinstance(key.kind, Only) else key.kind
    wrong = list(WORDS_THAT_NONE_TAKES.get(name, ()))
    if isinstance(kind, Integer):
        wrong += [*WRONG[Integer], str(kind.low - 1)]
        wrong += [str(kind.high + 1)] if kind.high < 1 << 62 else []
        wrong += [str(kind.low + 1)] if kind.step > 1 else []
    elif not wrong:
        wrong = ["", "yes", "true ", "1", "\\ false"]
    for value in wrong:
        (line,) = problems_of({"# a comment": "", **MASTER, "x": "1", name: value})
        number = 8 if name not in MASTER else 2 + list(MASTER).index(name)
        assert line.startswith(f"0.properties:{number}: key {name}: expected "), line
        assert ", found " in line
        assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enableDLegerCommitLog", "true"),
        ("enableControllerMode", "true"),
        ("asyncLearner", "true"),
        ("syncFromLastFile", "true"),
        ("syncMasterFlushOffsetWhenStartup", "true"),
        ("haMaxTimeSlaveNotCatchup", "15001"),
    ],
)
def test_what_only_another_mode_does_is_refused(name: str, value: str) -> None:
    (line,) = problems_of({**MASTER, name: value})
    assert line.startswith(f"0.properties:6: key {name}: expected ")
    assert f'found "{value}"' in line


@pytest.mark.parametrize("name", KEYS)
def test_the_ends_of_each_range_are_taken(name: str) -> None:
    """So that no value passes the table and fails behind it."""
    kind = KEYS[name].kind
    if not isinstance(kind, Integer) or name in ("brokerId", "minInSyncReplicas"):
        return
    beside = {
        "inSyncReplicas": {**SYNC, "triolog.slaves": ";".join(f"127.0.1.{n}" for n in range(63))},
        "haSendHeartbeatInterval": {"haHousekeepingInterval": "86400000"},
        "haHousekeepingInterval": {"haSendHeartbeatInterval": "1"},
        "mappedFileSizeCommitLog": {"maxMessageSize": "1"},
    }.get(name, {})
    for value in (kind.low, kind.high - kind.high % kind.step):
        if name == "haSendHeartbeatInterval" and value == kind.high:
            value -= 1
        if name == "haHousekeepingInterval" and value == kind.low:
            value += 1
        conf_of({**MASTER, **beside, name: str(value)})


def test_older_spellings() -> None:
    for old, name in OLD_NAMES.items():
        assert flat(conf_of({**MASTER, old: "8192"})) == flat(conf_of({**MASTER, name: "8192"}))
    (line,) = problems_of({**MASTER, "mapedFileSizeCommitLog": "1000"})
    assert line.startswith("0.properties:6: key mapedFileSizeCommitLog: expected an integer")


def test_a_slaves_file_decides_nothing_for_its_master() -> None:
    conf = conf_of({**MASTER, "fileReservedTime": "48"}, {**SLAVE, "fileReservedTime": "12"})
    assert flat(conf)["file_reserved_time_h"] == 48
    assert (
        "1.properties:6: key fileReservedTime: the group has what 0.properties says, 48"
        in conf.notes
    )
