"""Real brokers, clients and mqadmin at a name server of ours, alone and beside Java's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from interop_name_server import Admin, OurNameServer, broker_of, running
from interop_processes import PEER_S, TEST_S, PeerFailed, Processes, wait_for
from interop_rocketmq import Broker, Driver, NameServer
from interop_versions import NEWEST, Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

SIZES = [10, 2_000, 30_000]
ALONE_S = 60.0
"""Clients and brokers notice within half a minute that a name server has gone."""


@pytest.fixture
def ours(tmp_path: Path, processes: Processes) -> OurNameServer:
    return OurNameServer.begin(processes, tmp_path / "ns")


def driver_at(processes: Processes, folder: Path, *name_servers: NameServer) -> Driver:
    """A client that knows all of these."""
    first, *others = (each.port for each in name_servers)
    more = tuple(others)
    return Driver.start(processes, NEWEST.jars(), folder, first, more)


def send_and_read(driver: Driver, topic: str) -> None:
    """A new topic: made by the first send, found by the name server, read from its beginning."""
    sent = driver.run("send", topic, 0, SIZES)
    assert [each["status"] for each in sent if "status" in each] == ["SEND_OK"] * len(SIZES)
    found = wait_for(lambda: read(driver, topic), f"{topic} read", timeout_s=ALONE_S, poll_s=1.0)
    assert sorted(each["properties"]["number"] for each in found) == ["0", "1", "2"]


def read(driver: Driver, topic: str) -> list[dict[str, Any]]:
    """Nothing where it asks a name server that is gone: it asks another one the next time."""
    try:
        return driver.run("consume", topic, len(SIZES), 30)
    except PeerFailed:
        assert driver.process.running
        return []


def leaves(name_server: NameServer, broker: Broker) -> None:
    wait_for(
        lambda: not name_server.knows(broker), "the broker gone", timeout_s=5.0, poll_s=0.05
    )  # upstream: when its connection ends


@pytest.mark.checklist(1, 7, of="broker")
@beside("rocketmq", how=["kill", "stop"])
def test_a_broker_comes_goes_and_comes_back(
    peer: Peer, how: str, ours: OurNameServer, tmp_path: Path, processes: Processes
) -> None:
    broker = running(broker_of(peer, tmp_path / "b", ours.port, processes), ours)
    driver = driver_at(processes, tmp_path / "driver", ours)
    send_and_read(driver, "first")
    assert broker.process is not None
    if how == "kill":
        broker.kill()
    else:
        broker.process.stop()
    leaves(ours, broker)
    running(broker, ours)
    send_and_read(driver, "second")
    assert ours.process.stop() == 0


@pytest.mark.checklist(1, of="broker")
@beside("older brokers")
def test_an_older_broker_registers(
    peer: Peer, ours: OurNameServer, tmp_path: Path, processes: Processes
) -> None:
    broker = running(broker_of(peer, tmp_path / "b", ours.port, processes), ours)
    send_and_read(driver_at(processes, tmp_path / "driver", ours), "first")
    broker.kill()
    leaves(ours, broker)


@pytest.mark.checklist(4, of="broker")
@beside("rocketmq", "5.3.3")
def test_a_slave_finds_its_master(
    peer: Peer, ours: OurNameServer, tmp_path: Path, processes: Processes
) -> None:
    master = running(broker_of(peer, tmp_path / "m", ours.port, processes), ours)
    slave = broker_of(peer, tmp_path / "s", ours.port, processes, brokerId=1, brokerRole="SLAVE")
    running(slave)
    assert slave.process is not None
    assert master.process is not None
    wait_for(
        lambda: set(ours.addresses("broker-a")) == {"0", "1"} and master.acknowledged_bytes() >= 0,
        "the slave connected",
        timeout_s=PEER_S,
        alive=[master.process, slave.process],
        poll_s=0.3,
    )
    master.kill()
    wait_for(lambda: set(ours.addresses("broker-a")) == {"1"}, "the slave alone", timeout_s=5.0)


@pytest.mark.checklist(13, of="broker")
@beside("rocketmq", stopped=[0, 1])
def test_two_name_servers_and_either_stopped(
    peer: Peer, stopped: int, ours: OurNameServer, tmp_path: Path, processes: Processes
) -> None:
    """One of ours and one of Java's: which of them is left has to do."""
    java = NameServer.start(processes, peer.jars(), tmp_path / "java")
    both = (ours, java)
    addresses = ";".join(f"127.0.0.1:{each.port}" for each in both)
    broker = broker_of(peer, tmp_path / "b", ours.port, processes, namesrvAddr=addresses)
    running(broker, *both)
    driver = driver_at(processes, tmp_path / "driver", *both)
    send_and_read(driver, "first")
    both[stopped].process.stop()
    send_and_read(driver, "second")
    send_and_read(driver_at(processes, tmp_path / "later", *both), "third")


@pytest.mark.checklist(1, 11, of="broker")
@beside("rocketmq", "5.3.3")
def test_a_name_server_that_was_killed_comes_back(
    peer: Peer, ours: OurNameServer, tmp_path: Path, processes: Processes
) -> None:
    broker = running(broker_of(peer, tmp_path / "b", ours.port, processes), ours)
    driver = driver_at(processes, tmp_path / "driver", ours)
    send_and_read(driver, "first")
    admin = Admin.start(peer, processes, tmp_path / "admin", ours)
    admin.run("updateKvConfig", "-s", "ns1", "-k", "kk", "-v", "vv")
    ours.process.kill()
    again = ours.again()
    assert broker.process is not None
    wait_for(
        lambda: again.knows(broker), "the broker again", timeout_s=ALONE_S, alive=[broker.process]
    )
    send_and_read(driver, "second")
    assert '"vv"' in (ours.folder / "data" / "kvConfig.json").read_text()


PERM = re.compile(r'"perm":\s*(\d+)')
CONFIG_LINE = re.compile(r"^(\w+) *= *(.*)$", re.MULTILINE)


@pytest.mark.checklist(66, of="broker")
@beside("rocketmq", "5.3.3", version=["5.3.3", "4.9.7"])
def test_mqadmin_at_our_name_server(
    peer: Peer, version: str, ours: OurNameServer, tmp_path: Path, processes: Processes
) -> None:
    """Commands of 6.1 that ask a name server, with what they print."""
    # deleteTopic of 5.3.3 fails without a timer wheel
    broker = broker_of(peer, tmp_path / "b", ours.port, processes, timerWheelEnable="true")
    running(broker, ours)
    address = f"127.0.0.1:{broker.listen_port}"
    run = Admin.start(Peer(version), processes, tmp_path / "admin", ours).run

    if version != "4.9.7":  # it stumbles over each broker of version 5 (broker.md 6.2)
        rows = [line.split() for line in run("clusterList").splitlines()]
        assert [row[:4] for row in rows if row and row[0] == "interop"] == [
            ["interop", "broker-a", "0", address]
        ]
    assert "success" in run("updateTopic", "-t", "Made", "-c", "interop", "-r", "3", "-w", "3")
    topics = run("topicList").split()
    assert {"Made", "TBW102", "broker-a", "interop"} <= set(topics)
    route = run("topicRoute", "-t", "Made")
    assert address in route
    assert re.search(r'"readQueueNums":\s*3', route)
    assert set(PERM.findall(route)) == {"6"}
    assert run("topicClusterList", "-t", "Made").split() == ["interop"]
    assert "interop" in run("topicList", "-c")
    assert run("topicStatus", "-t", "Made").count("broker-a") == 3

    count = len(topics)
    assert f"OK, {count}" in run("wipeWritePerm", "-b", "broker-a")
    assert set(PERM.findall(run("topicRoute", "-t", "Made"))) == {"4"}
    assert f"OK, {count}" in run("addWritePerm", "-b", "broker-a")
    assert set(PERM.findall(run("topicRoute", "-t", "Made"))) == {"6"}

    run("updateKvConfig", "-s", "ns1", "-k", "kk", "-v", "vv")
    assert '"kk":"vv"' in (ours.folder / "data" / "kvConfig.json").read_text()
    run("deleteKvConfig", "-s", "ns1", "-k", "kk")
    assert '"kk"' not in (ours.folder / "data" / "kvConfig.json").read_text()
    run("updateOrderConf", "-m", "put", "-t", "Made", "-v", "broker-a:3")
    assert "broker-a:3" in run("updateOrderConf", "-m", "get", "-t", "Made")
    shown = dict(CONFIG_LINE.findall(run("getNamesrvConfig")))
    assert shown["listenPort"] == str(ours.port)
    assert shown["orderMessageEnable"] == "false"
    run("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert dict(CONFIG_LINE.findall(run("getNamesrvConfig")))["orderMessageEnable"] == "true"
    assert "broker-a:3" in run("topicRoute", "-t", "Made")

    assert run("deleteTopic", "-t", "Made", "-c", "interop").count("success") == 2
    assert "Made" not in run("topicList").split()
