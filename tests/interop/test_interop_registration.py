"""Masters and slaves of ours and of Java find each other by a name server, and mqadmin finds ours.

Judged by the files, which have to be equal, and by what RocketMQ's own tool prints.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from interop_checks import wait_for_equal_stores
from interop_logs import LogFiles
from interop_name_server import Admin, OurNameServer, broker_of
from interop_nodes import GROUP, JAVA_ADDRESS, Node, message, write_cluster
from interop_processes import PEER_S, TEST_S, Processes, free_ports, wait_for
from interop_rocketmq import NameServer
from interop_versions import Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

OUR_ADDRESS = "127.0.0.2"
OTHER_ADDRESS = "127.0.0.4"
LINE = re.compile(r"^(\w+)\s*[:=]\s*(.*)$", re.MULTILINE)


def name_server_of(whose: str, peer: Peer, processes: Processes, folder: Path) -> NameServer:
    if whose == "ours":
        return OurNameServer.begin(processes, folder)
    return NameServer.start(processes, peer.jars(), folder)


def cluster(folder: Path, nodes: dict[str, str], name_server: NameServer, **group: object) -> Path:
    """A cluster file that names the name server."""
    path = write_cluster(folder, nodes, group)
    path.write_text(f'namesrv_addr = ["127.0.0.1:{name_server.port}"]\n' + path.read_text())
    return path


@beside("rocketmq", "5.3.3", whose=["ours", "java"])
def test_a_java_slave_finds_our_master(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    name_server = name_server_of(whose, peer, processes, tmp_path / "ns")
    ha_port, port = free_ports(hosts=[OUR_ADDRESS]), free_ports(-2, hosts=[OUR_ADDRESS])
    path = cluster(
        tmp_path,
        {"n0": OUR_ADDRESS, "n1": JAVA_ADDRESS},
        name_server,
        master='"n0"',
        slaves='[{ node = "n1", kind = "java" }]',
        copies=1,
        port=ha_port,
        broker_port=port,
        store_version=f'"{peer.version}"',
    )
    master = Node("n0", path, processes)
    master.start()
    master.append([message("t", number, 500) for number in range(100)])
    wait_for(
        lambda: name_server.addresses(GROUP).get("0") == f"{OUR_ADDRESS}:{port}",
        "our master in the name server",
        timeout_s=PEER_S,
    )
    slave = broker_of(
        peer, tmp_path / "b", name_server.port, processes, GROUP, brokerId=1, brokerRole="SLAVE"
    )
    slave.start()
    slave.register(lambda: "1" in name_server.addresses(GROUP))
    wait_for(
        lambda: slave.end_bytes() == LogFiles.read(master.commitlog).end_bytes > 0,
        "a slave that has all",
        timeout_s=PEER_S,
    )
    wait_for_equal_stores(master.store, slave.store)
    assert master.stop() == 0
    wait_for(lambda: "0" not in name_server.addresses(GROUP), "our master gone", timeout_s=5.0)


@beside("rocketmq", "5.3.3", whose=["ours", "java"])
def test_our_slave_finds_a_java_master(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    """The cluster file names an address where nobody is."""
    name_server = name_server_of(whose, peer, processes, tmp_path / "ns")
    master = broker_of(peer, tmp_path / "b", name_server.port, processes, GROUP)
    master.start()
    master.register(lambda: name_server.knows(master))
    path = cluster(
        tmp_path,
        {"j": OTHER_ADDRESS, "n1": OUR_ADDRESS},
        name_server,
        master='{ node = "j", kind = "java" }',
        slaves='["n1"]',
        port=free_ports(hosts=[OTHER_ADDRESS]),
        broker_port=free_ports(-2, hosts=[OUR_ADDRESS]),
        store_version=f'"{peer.version}"',
    )
    slave = Node("n1", path, processes)
    slave.start()
    slave.wait_until_it_follows()
    topics = slave.store / "config" / "topics.json"
    wait_for(
        lambda: topics.exists() and "TBW102" in topics.read_text(), "its topics", timeout_s=PEER_S
    )
    assert set(name_server.addresses(GROUP)) == {"0", "1"}


@pytest.mark.checklist(66, 70, 71, of="broker")
@beside("rocketmq", "5.3.3", version=["5.3.3", "4.9.7"])
def test_mqadmin_at_our_cluster(
    peer: Peer, version: str, tmp_path: Path, processes: Processes
) -> None:
    ours = OurNameServer.begin(processes, tmp_path / "ns")
    ha_port = free_ports(hosts=[OUR_ADDRESS])
    port = free_ports(-2, hosts=[OUR_ADDRESS, OTHER_ADDRESS])
    path = cluster(
        tmp_path,
        {"n0": OUR_ADDRESS, "n1": OTHER_ADDRESS},
        ours,
        master='"n0"',
        slaves='["n1"]',
        port=ha_port,
        broker_port=port,
    )
    master, slave = Node("n0", path, processes), Node("n1", path, processes)
    master.start()
    slave.start()
    receipt = master.append([message("t", number, 500) for number in range(100)])
    wait_for(lambda: len(ours.addresses(GROUP)) == 2, "both brokers", timeout_s=PEER_S)
    address, other = f"{OUR_ADDRESS}:{port}", f"{OTHER_ADDRESS}:{port}"
    admin = Admin.start(Peer(version), processes, tmp_path / "admin", ours)
    run = admin.run

    rows = [line.split() for line in run("clusterList").splitlines()]
    assert [row[:5] for row in rows if row and row[0] == "interop"] == [
        ["interop", GROUP, "0", address, "V5_3_3"],
        ["interop", GROUP, "1", other, "V5_3_3"],
    ]
    for _ in range(2):
        made = run("updateTopic", "-t", "Made", "-c", "interop", "-r", "3", "-w", "3")
        assert f"create topic to {address} success" in made
    assert "Made" in run("topicList").split()
    route = run("topicRoute", "-t", "Made")
    assert address in route
    assert re.search(r'"readQueueNums":\s*3', route)

    status = dict(LINE.findall(run("brokerStatus", "-b", address)))
    assert status["commitLogMaxOffset"].strip() == str(receipt.next)
    assert status["msgPutTotalTodayNow"].strip() == "100"
    for at, role, number in ((address, "SYNC_MASTER", "0"), (other, "SLAVE", "1")):
        shown = dict(LINE.findall(run("getBrokerConfig", "-b", at)))
        assert shown["listenPort"] == str(port)
        assert (shown["brokerRole"], shown["brokerId"]) == (role, number)
    if version != "4.9.7":  # it has no such command
        ha = run("haStatus", "-b", address)
        assert f"#MasterCommitLogMaxOffset\t{receipt.next}" in ha
        assert "#SlaveNum\t1" in ha
        assert OTHER_ADDRESS in ha
    assert "success" in run("updateSubGroup", "-g", "Gx", "-c", "interop", "-r", "3")
    groups = master.store / "config" / "subscriptionGroup.json"
    assert '"Gx"' in groups.read_text()
    refuse_what_we_have_not(admin, address, other)
    assert run("deleteSubGroup", "-g", "Gx", "-c", "interop").count("success") >= 1
    assert '"Gx"' not in groups.read_text()
    assert run("deleteTopic", "-t", "Made", "-c", "interop").count("success") == 2
    assert "Made" not in run("topicList").split()
    queues = [node.store / "consumequeue" / "t" for node in (master, slave)]
    assert all(folder.exists() for folder in queues)
    assert run("deleteTopic", "-t", "t", "-c", "interop").count("success") == 2
    assert not queues[0].exists(), "they are gone when that is answered"
    wait_for(lambda: not queues[1].exists(), "the slave's queues to go", timeout_s=PEER_S)
    assert master.stop() == 0
    assert slave.stop() == 0


def refuse_what_we_have_not(admin: Admin, address: str, other: str) -> None:
    """Each is answered, so that a tool does not wait for its time-out."""
    assert admin.refused("brokerConsumeStats", "-b", address) == 3
    assert admin.refused("updateTopic", "-t", "Made", "-b", other) == 16
    update = ("updateBrokerConfig", "-b", address, "-k")
    assert admin.refused(*update, "haTransferBatchSize", "-v", "4096") == 29
    assert "success" in admin.run(*update, "fileReservedTime", "-v", "48")
