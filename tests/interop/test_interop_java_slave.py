"""A Java slave of 5.x follows a Python master; `test_interop_older_brokers` has others.

The judges share no code with the project: the files are compared byte by byte, and RocketMQ's own
decoder reads what has arrived in the Java slave's store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from interop_checks import sizes, wait_for_equal_index, wait_for_equal_stores
from interop_logs import LogFiles
from interop_nodes import GROUP, JAVA_ADDRESS, Feed, Node, message, write_cluster
from interop_processes import PEER_S, TEST_S, Processes, free_ports, wait_for
from interop_remoting import MasterOfSlave
from interop_rocketmq import Broker, Driver
from interop_versions import NEWEST, Peer, beside

from actors.errors import OutcomeUnknown
from actors.log_types import Message

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

SLAVE_TIMEOUT_S = 10.0
"""Waited for in full where no slave is there; and a Java slave has megabytes within it, also beside
other work.
"""

MASTER_ADDRESS = "127.0.0.2"
TOPIC = "interop-topic"


@pytest.fixture
def ha_port() -> int:
    return free_ports(hosts=[MASTER_ADDRESS])


@pytest.fixture
def surroundings(ha_port: int) -> Iterator[MasterOfSlave]:
    """The name server and the broker ports of the Python master, answered by this test."""
    around = MasterOfSlave(f"{MASTER_ADDRESS}:{ha_port}", free_ports(), free_ports(-2))
    around.open()
    yield around
    around.close()


@pytest.fixture
def slave(tmp_path: Path, peer: Peer, surroundings: MasterOfSlave, processes: Processes) -> Broker:
    port, folder = surroundings.namesrv_port, tmp_path / "slave"
    return Broker.of(peer, GROUP, folder, port, processes, brokerId=1, brokerRole="SLAVE")


def start(slave: Broker, surroundings: MasterOfSlave) -> None:
    known = len(surroundings.registrations)
    slave.start()
    slave.register(lambda: len(surroundings.registrations) > known)


def master_with(folder: Path, processes: Processes, peer: Peer, **group: object) -> Node:
    nodes = {"n0": MASTER_ADDRESS, "n1": JAVA_ADDRESS}
    slaves = '[{ node = "n1", kind = "java" }]'
    group["store_version"] = f'"{peer.version}"'
    path = write_cluster(folder, nodes, {"master": '"n0"', "slaves": slaves, **group})
    return Node("n0", path, processes)


def messages(first: int, body_sizes: Sequence[int]) -> list[Message]:
    return [message(TOPIC, number, size) for number, size in enumerate(body_sizes, first)]


def in_batches(first: int, body_sizes: Sequence[int]) -> list[list[Message]]:
    """Batches of four."""
    whole = messages(first, body_sizes)
    return [whole[i : i + 4] for i in range(0, len(whole), 4)]


def wait_until_equal(master: Node, slave: Broker) -> None:
    assert master.process is not None
    assert slave.process is not None
    wait_for(
        lambda: slave.end_bytes() == LogFiles.read(master.commitlog).end_bytes > 0,
        "a slave that has everything",
        timeout_s=PEER_S,
        alive=[master.process, slave.process],
    )
    wait_for_equal_stores(master.store, slave.store)


def check_record(record: dict[str, Any], sent: Message) -> None:
    """A record of RocketMQ's decoder is the message that was appended."""
    assert record["topic"] == sent.topic
    assert record["bodyBytes"] == len(sent.body)
    assert record["bodySha256"] == hashlib.sha256(sent.body).hexdigest()
    assert record["queueId"] == sent.queue_id
    expected = {**dict(sent.properties), "TAGS": sent.tags, "KEYS": " ".join(sent.keys)}
    assert {key: record["properties"].get(key) for key in expected} == expected


@pytest.mark.checklist(3, 5, 40, 41)
@beside("rocketmq")
def test_from_empty_through_a_crash_of_either_side(
    slave: Broker,
    surroundings: MasterOfSlave,
    driver: Driver,
    ha_port: int,
    tmp_path: Path,
    processes: Processes,
) -> None:
    master = master_with(tmp_path, processes, slave.peer, copies=1, port=ha_port)
    master.start()
    sent = messages(0, sizes(60, 120_000))
    master.append(sent)
    assert len(LogFiles.read(master.commitlog).files) > 3
    start(slave, surroundings)
    wait_until_equal(master, slave)
    wait_for_equal_index(master.store, slave.store)
    assert LogFiles.read(slave.commitlog).min_bytes == 0

    with Feed(master, in_batches(60, sizes(600, 20_000))) as first:
        first.wait_for(20)
        slave.kill()
        start(slave, surroundings)
        first.wait()
    assert not first.failures
    with Feed(master, in_batches(660, sizes(600, 20_000))) as second:
        second.wait_for(20)
        master.kill()
        master.start()
        second.wait()
    assert second.failures
    wait_until_equal(master, slave)

    batches = [sent, *first.batches, *second.batches]
    expected = {dict(one.properties)["number"]: one for batch in batches for one in batch}
    records = [r for r in driver.run("dump", slave.commitlog) if r["topic"] == TOPIC]
    for record in records:
        check_record(record, expected[record["properties"]["number"]])
    assert {record["properties"]["number"] for record in records} == set(expected)
    stored_at = {record["physicalOffset"] for record in records}
    assert {receipt.first for receipt in first.receipts + second.receipts} <= stored_at
    assert master.stop() == 0
    wait_for_equal_stores(master.store, slave.store)


@pytest.mark.checklist(26, 27)
@beside("rocketmq", NEWEST.version)
def test_a_written_copy_is_acknowledged_by_a_java_slave(
    slave: Broker,
    surroundings: MasterOfSlave,
    ha_port: int,
    tmp_path: Path,
    processes: Processes,
) -> None:
    group = {"copies": 2, "durability": '"written"', "slave_timeout_s": SLAVE_TIMEOUT_S}
    master = master_with(tmp_path, processes, slave.peer, port=ha_port, **group)
    master.start()
    with pytest.raises(OutcomeUnknown) as alone:
        master.append(messages(0, [100]))
    assert alone.value.status == "FLUSH_SLAVE_TIMEOUT"

    start(slave, surroundings)
    wait_until_equal(master, slave)
    receipt = master.append(messages(1, sizes(100, 40_000)))
    assert (receipt.count, receipt.copies, receipt.durability) == (100, 2, "written")
    assert slave.end_bytes() >= receipt.next

    slave.kill()
    with pytest.raises(OutcomeUnknown) as again:
        master.append(messages(101, [100]))
    assert again.value.status == "FLUSH_SLAVE_TIMEOUT"
    start(slave, surroundings)
    wait_until_equal(master, slave)
    assert master.append(messages(102, [100])).copies == 2
    assert master.stop() == 0
