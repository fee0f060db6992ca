"""Topics, offsets and groups go from a Java master to a Python slave, and from there, as a Python
master, to a Java slave; a Java broker started on the Python node's files has them, too.

Judged by what brokers answer, read by a reader that shares no code with the project.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from interop_links import Link
from interop_nodes import GROUP, JAVA_ADDRESS, Node, write_cluster
from interop_older_brokers import OlderBroker
from interop_processes import PEER_S, TEST_S, Process, Processes, free_ports, wait_for
from interop_remoting import MasterOfSlave, call
from interop_rocketmq import Broker, NameServer
from interop_versions import NEWEST, Peer, beside, numbers

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

OUR_ADDRESS = "127.0.0.2"
PROXY_ADDRESS = "127.0.0.3"
TOPIC_CONFIG, CONSUMER_OFFSET, DELAY_OFFSET, GROUP_CONFIG, REQUEST_MODE = 21, 43, 45, 201, 402
UPDATE_TOPIC, DELETE_TOPIC, UPDATE_GROUP, UPDATE_OFFSET, SET_MODE = 17, 215, 200, 15, 401
TABLES = {
    TOPIC_CONFIG: "topicConfigTable",
    CONSUMER_OFFSET: "offsetTable",
    DELAY_OFFSET: "offsetTable",
    GROUP_CONFIG: "subscriptionGroupTable",
    REQUEST_MODE: "messageRequestModeMap",
}
"""The rows in the answer to each code."""
SYNC_S = 60.0 + PEER_S
"""A 5.x slave asks a minute after its start."""


def rows(port: int, code: int, host: str = "127.0.0.1") -> Any:
    """What a broker answers; None while it does not."""
    answer = call(port - 2 if code == TOPIC_CONFIG else port, code, host=host)
    return None if answer is None else answer[TABLES[code]]


def kinds_of(peer: Peer) -> list[int]:
    return [code for code in TABLES if code != REQUEST_MODE or numbers(peer.version) >= (5,)]


def tables(peer: Peer, port: int, host: str = "127.0.0.1") -> dict[int, Any]:
    return {code: rows(port, code, host) for code in kinds_of(peer)}


def fill(master: Broker) -> None:
    """Topics, one of which goes again, a group, its offsets, and for 5.x how it reads."""
    port = master.listen_port
    assert master.process is not None
    alive = [master.process]

    def told(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> None:
        wait_for(
            lambda: call(port, code, body, fields=fields) is not None,
            f"{code} answered",
            timeout_s=PEER_S,
            alive=alive,
            poll_s=0.5,
        )

    for topic, perm in (("Ta", "6"), ("Tb", "4"), ("Tgone", "6")):
        told(UPDATE_TOPIC, {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "2",
            "perm": perm, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "true",
            "attributes": "",
        })  # fmt: skip
    told(UPDATE_GROUP, body=json.dumps({"groupName": "Gx", "retryMaxTimes": 3}).encode())
    for queue, offset in (("0", "7"), ("1", "9")):
        told(UPDATE_OFFSET, {
            "consumerGroup": "Gx", "topic": "Ta", "queueId": queue, "commitOffset": offset,
        })  # fmt: skip
    if numbers(master.peer.version) >= (5,):
        mode = {"topic": "Ta", "consumerGroup": "Gx", "mode": "POP", "popShareQueueNum": 2}
        told(SET_MODE, body=json.dumps(mode).encode())
    told(DELETE_TOPIC, {"topic": "Tgone"})


def check_filled(found: dict[int, Any]) -> None:
    topics = found[TOPIC_CONFIG]
    assert topics["Tb"]["perm"] == 4
    assert topics["Ta"]["readQueueNums"] == 3
    assert "Tgone" not in topics
    assert found[GROUP_CONFIG]["Gx"]["retryMaxTimes"] == 3
    assert found[CONSUMER_OFFSET]["Ta@Gx"] == {"0": 7, "1": 9}


@contextmanager
def reached(java: Broker, port: int) -> Iterator[int]:
    """The broker at an address of its own, where it has that listenPort: it binds its own port at
    every address, and so no node on this machine could have the same. Yields: its HA port there.
    """
    ha_port = free_ports(hosts=[PROXY_ADDRESS])
    targets = {port: 0, port - 2: -2, ha_port: 1}
    links = [
        Link.open(PROXY_ADDRESS, at, (JAVA_ADDRESS, java.listen_port + offset))
        for at, offset in targets.items()
    ]
    try:
        yield ha_port
    finally:
        for link in links:
            link.close()


def slave_node(peer: Peer, port: int, ha_port: int, folder: Path, processes: Processes) -> Node:
    nodes = {"n0": PROXY_ADDRESS, "n1": OUR_ADDRESS}
    group = {
        "master": '{ node = "n0", kind = "java" }',
        "slaves": '["n1"]',
        "port": ha_port,
        "broker_port": port,
        "store_version": f'"{peer.version}"',
    }
    return Node("n1", write_cluster(folder, nodes, group), processes)


def broker_of(peer: Peer, folder: Path, port: int, processes: Processes, **settings: Any) -> Broker:
    kind: type[Broker] = OlderBroker
    if numbers(peer.version) >= (5,):
        kind = Broker
        settings["timerWheelEnable"] = "true"  # without, 5.x fails to delete a topic
    return kind.of(peer, GROUP, folder, port, processes, **settings)


@pytest.fixture
def surroundings() -> Iterator[MasterOfSlave]:
    """The name server of a Python master that answers for its metadata itself."""
    ha_port, port = free_ports(hosts=[OUR_ADDRESS]), free_ports(-2, hosts=[OUR_ADDRESS])
    around = MasterOfSlave(f"{OUR_ADDRESS}:{ha_port}", free_ports(), port, f"{OUR_ADDRESS}:{port}")
    around.open()
    yield around
    around.close()


def wait_for_tables(
    peer: Peer,
    wanted: Callable[[], dict[int, Any]],
    found: Callable[[], dict[int, Any]],
    alive: list[Process | None],
) -> None:
    """Until these are the rows of every kind, and nothing is missing."""

    def same() -> bool:
        now = found()
        return now == wanted() and None not in now.values()

    running = [process for process in alive if process is not None]
    wait_for(same, "equal metadata", timeout_s=SYNC_S, alive=running, poll_s=0.5)


def through_both(
    peer: Peer, name_server: NameServer, around: MasterOfSlave, folder: Path, processes: Processes
) -> None:
    """From Java to Python, and from there to Java by its files, and as its master."""
    java = broker_of(peer, folder / "master", name_server.port, processes)
    java.start()
    fill(java)
    port = free_ports(-2, hosts=[OUR_ADDRESS, PROXY_ADDRESS])
    with reached(java, port) as ha_port:
        ours = slave_node(peer, port, ha_port, folder / "slave", processes)
        ours.start()
        check_filled(tables(peer, java.listen_port))
        wait_for_tables(
            peer,
            lambda: tables(peer, java.listen_port),
            lambda: tables(peer, port, OUR_ADDRESS),
            [java.process, ours.process],
        )
        wanted = tables(peer, port, OUR_ADDRESS)
        assert ours.stop() == 0
    java.kill()

    reader = broker_of(peer, folder / "reader", name_server.port, processes)
    shutil.copytree(ours.store / "config", reader.store / "config")
    reader.start()
    wait_for_tables(
        peer, lambda: wanted, lambda: tables(peer, reader.listen_port), [reader.process]
    )
    reader.kill()

    nodes = {"n0": OUR_ADDRESS, "n1": JAVA_ADDRESS}
    group = {
        "master": '"n0"', "slaves": '[{ node = "n1", kind = "java" }]', "copies": 1,
        "port": int(around.ha_address.rpartition(":")[2]), "broker_port": around.listen_port,
        "store_version": f'"{peer.version}"',
    }  # fmt: skip
    leader = Node("n0", write_cluster(folder / "ours", nodes, group), processes)
    begun = leader.start()
    wait_for(
        lambda: rows(around.listen_port, TOPIC_CONFIG, OUR_ADDRESS) is not None,
        "our master's port",
        timeout_s=PEER_S,
        alive=[begun],
    )
    assert leader.stop() == 0
    shutil.copytree(ours.store / "config", leader.store / "config", dirs_exist_ok=True)
    leader.start()
    slave = broker_of(
        peer, folder / "java-slave", around.namesrv_port, processes, brokerId=1, brokerRole="SLAVE"
    )
    slave.start()
    slave.register(lambda: bool(around.registrations))
    wait_for_tables(
        peer,
        lambda: wanted,
        lambda: tables(peer, slave.listen_port),
        [leader.process, slave.process],
    )
    slave.kill()
    assert leader.stop() == 0


@pytest.mark.checklist(49, 51, 55)
@beside("rocketmq", NEWEST.version)
def test_metadata_goes_from_java_to_python_to_java(
    peer: Peer,
    name_server: NameServer,
    surroundings: MasterOfSlave,
    tmp_path: Path,
    processes: Processes,
) -> None:
    through_both(peer, name_server, surroundings, tmp_path, processes)


@pytest.mark.checklist(49, 51, 55)
@beside("older brokers", "4.9.7")
def test_metadata_goes_through_an_older_broker(
    peer: Peer,
    name_server: NameServer,
    surroundings: MasterOfSlave,
    tmp_path: Path,
    processes: Processes,
) -> None:
    through_both(peer, name_server, surroundings, tmp_path, processes)
