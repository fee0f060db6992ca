"""A Python slave follows a real RocketMQ master, of 5.x; `test_interop_older_brokers` has others.

The judges share no code with the project: the files are compared byte by byte, RocketMQ's own
decoder reads what the slave has written, and its own consumer what the master has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from interop_checks import (
    sizes,
    wait_for_equal_index,
    wait_for_equal_queues,
    wait_for_equal_stores,
)
from interop_logs import LogFiles, common_difference, first_difference
from interop_nodes import JAVA_ADDRESS, Node, write_cluster
from interop_processes import PEER_S, TEST_S, Process, Processes, wait_for
from interop_rocketmq import SEGMENT_BYTES, Broker, Driver, NameServer
from interop_versions import NEWEST, Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

SLAVE_TIMEOUT_MS = 5_000
"""Waited for in full where no slave is there; and ours has one message within it, also beside other
work. Less than the driver waits for an answer.
"""


@pytest.fixture
def master(tmp_path: Path, peer: Peer, name_server: NameServer, processes: Processes) -> Broker:
    """Not started yet; every test has a broker name of its own, as one driver serves them all."""
    return Broker.of(peer, tmp_path.name, tmp_path / "master", name_server.port, processes)


def start(master: Broker, name_server: NameServer) -> None:
    master.start()
    master.register(lambda: name_server.knows(master))


def slave_of(master: Broker, folder: Path, processes: Processes) -> Node:
    nodes = {"n0": JAVA_ADDRESS, "n1": "127.0.0.2"}
    group = {
        "master": '{ node = "n0", kind = "java" }',
        "slaves": '["n1"]',
        "port": master.ha_port,
        "store_version": f'"{master.peer.version}"',
    }
    return Node("n1", write_cluster(folder, nodes, group), processes)


def accepted(answers: Sequence[dict[str, Any]]) -> set[str]:
    return {str(answer["number"]) for answer in answers if answer.get("status") == "SEND_OK"}


def starts(messages: Sequence[dict[str, Any]]) -> list[int]:
    """Where each begins in the log."""
    return [message["physicalOffset"] for message in messages]


def wait_for_slave(master: Broker, slave: Process | None, reached: Callable[[int], bool]) -> None:
    """Until what the slave reports to the master fits `reached`; -1 while it is not connected."""
    assert master.process is not None
    assert slave is not None
    wait_for(
        lambda: reached(master.acknowledged_bytes()),
        "a slave that is far enough",
        timeout_s=PEER_S,
        alive=[master.process, slave],
    )


def wait_until_equal(master: Broker, slave: Node) -> None:
    wait_for_slave(master, slave.process, lambda offset: offset == master.end_bytes() > 0)
    wait_for_equal_stores(master.store, slave.store)


@pytest.mark.checklist(25, 40, 41)
@beside("rocketmq")
def test_from_empty_through_a_crash_of_either_side(
    master: Broker,
    name_server: NameServer,
    driver: Driver,
    tmp_path: Path,
    processes: Processes,
) -> None:
    topic = f"{master.name}-topic"
    slave = slave_of(master, tmp_path, processes)
    start(master, name_server)
    # Connected before there is anything: later it would be sent the last file only.
    wait_for_slave(master, slave.start(), lambda offset: offset >= 0)
    answers = driver.run("send", topic, 0, sizes(60, 120_000))
    driver.run("varied", f"{topic}-varied")
    wait_until_equal(master, slave)
    wait_for_equal_index(master.store, slave.store)
    assert len(LogFiles.read(slave.commitlog).files) > 3

    driver.begin("send", topic, 60, sizes(400, 30_000))
    more = driver.answers()
    answers += [next(more) for _ in range(40)]
    master.kill()
    start(master, name_server)
    answers += [next(more) for _ in range(40)]
    slave.kill()
    answers += [next(more) for _ in range(40)]
    slave.start()
    answers += more
    wait_until_equal(master, slave)

    sent = accepted(answers)
    assert sent == {str(number) for number in range(460)}
    # The master writes more by itself, but nothing more of this topic.
    ours = [r for r in driver.run("dump", slave.commitlog) if r["topic"] == topic]
    theirs = [r for r in driver.run("dump", master.commitlog) if r["topic"] == topic]
    assert ours == theirs
    assert {record["properties"]["number"] for record in ours} == sent
    read = driver.run("consume", topic, len(ours), 30)
    assert sorted(starts(read)) == starts(ours)  # each once
    assert slave.stop() == 0
    assert common_difference(master.commitlog, slave.commitlog) is None


@pytest.mark.checklist(17, 41)
@beside("rocketmq", NEWEST.version)
def test_a_late_slave_begins_with_the_last_file(
    master: Broker, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    """Upstream's start rule, which a Java master applies to our slave too."""
    topic = f"{master.name}-topic"
    slave = slave_of(master, tmp_path, processes)
    start(master, name_server)
    driver.run("send", topic, 0, sizes(60, 120_000))
    last = LogFiles.read(master.commitlog).end_bytes // SEGMENT_BYTES * SEGMENT_BYTES
    assert last >= 3 * SEGMENT_BYTES
    wait_for_slave(master, slave.start(), lambda offset: offset > last)
    driver.run("send", topic, 60, sizes(60, 60_000))
    end = master.end_bytes()
    wait_for_slave(master, slave.process, lambda offset: offset == end)
    ours = LogFiles.read(slave.commitlog)
    assert (ours.min_bytes, ours.end_bytes) == (last, end)
    assert common_difference(master.commitlog, slave.commitlog) is None
    wait_for_equal_queues(master.store, slave.store, last, end)


@beside("rocketmq", NEWEST.version)
def test_a_sync_master_counts_our_slave(
    master: Broker, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    topic = f"{master.name}-topic"
    slave = slave_of(master, tmp_path, processes)
    master.settings.update(brokerRole="SYNC_MASTER", totalReplicas=2, inSyncReplicas=2)
    master.settings.update(slaveTimeout=SLAVE_TIMEOUT_MS)
    start(master, name_server)
    alone = driver.run("once", topic, 0, "100,2000")
    assert [answer["status"] for answer in alone] == ["FLUSH_SLAVE_TIMEOUT"] * 2

    wait_for_slave(master, slave.start(), lambda offset: offset == master.end_bytes() > 0)
    together = driver.run("once", topic, 2, sizes(100, 60_000))
    assert {answer["status"] for answer in together} == {"SEND_OK"}
    assert first_difference(master.commitlog, slave.commitlog) is None

    slave.kill()
    wait_for(lambda: master.acknowledged_bytes() < 0, "the slave gone", timeout_s=PEER_S)
    again = driver.run("once", topic, 102, "100")
    assert [answer["status"] for answer in again] == ["FLUSH_SLAVE_TIMEOUT"]
