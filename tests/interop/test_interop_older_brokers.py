"""Brokers from before RocketMQ 5, to which ours is the slave, and the master: one case of each.

The judges share no code with the project: logs and consume queues are compared byte by byte.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_checks import sizes, wait_for_equal_queues
from interop_logs import LogFiles, common_difference, first_difference
from interop_nodes import GROUP, Node
from interop_older_brokers import OlderBroker
from interop_processes import PEER_S, TEST_S, Processes, free_ports, wait_for
from interop_rocketmq import Broker, Driver, NameServer
from interop_versions import Peer, beside
from test_interop_java_slave import MASTER_ADDRESS, master_with, messages
from test_interop_python_slave import slave_of, start

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

BODIES = sizes(40, 120_000)
"""More than two files of them."""
MORE = sizes(40, 20_000)


def wait_until_equal(java: Broker, ours: Node, least_bytes: int, *, queues: bool = True) -> int:
    """Wait until both logs end at one place above `least_bytes`, and all in them is the same.

    Returns: where they end.
    """
    assert java.process is not None
    assert ours.process is not None

    def same() -> int | None:
        end = java.end_bytes()
        good = end > least_bytes and first_difference(java.commitlog, ours.commitlog) is None
        return end if good else None

    alive = [java.process, ours.process]
    end = wait_for(same, "equal logs", timeout_s=PEER_S, alive=alive, poll_s=0.3)
    assert common_difference(java.commitlog, ours.commitlog) is None
    if queues:
        start = LogFiles.read(java.commitlog).min_bytes
        wait_for_equal_queues(java.store, ours.store, start, end)
    return end


@pytest.mark.checklist(25, 40, 41)
@beside("older brokers")
def test_ours_follows(
    peer: Peer, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    topic = f"{tmp_path.name}-topic"
    folder, port = tmp_path / "master", name_server.port
    master = OlderBroker.of(peer, tmp_path.name, folder, port, processes)
    slave = slave_of(master, tmp_path, processes)
    start(master, name_server)
    slave.start()
    slave.wait_until_it_follows()  # with nothing: later it would be sent the last file only
    driver.run("send", topic, 0, BODIES)
    end = wait_until_equal(master, slave, 0)
    assert len(LogFiles.read(slave.commitlog).files) > 2

    master.kill()
    start(master, name_server)
    driver.run("send", topic, len(BODIES), MORE)
    # A killed 3.2.6 was seen to give a queue offset again that an older record has. Of such two its
    # queue has the newer one, ours the older one.
    wait_until_equal(master, slave, end, queues=peer.name != "3.2.6")
    assert slave.stop() == 0


@pytest.mark.checklist(3, 5, 40, 41)
@beside("older brokers")
def test_ours_leads(
    peer: Peer, name_server: NameServer, tmp_path: Path, processes: Processes
) -> None:
    ha_port = free_ports(hosts=[MASTER_ADDRESS])
    master = master_with(tmp_path, processes, peer, copies=1, port=ha_port)
    master.start()
    master.append(messages(0, BODIES))
    slave = OlderBroker.of(
        peer,
        GROUP,
        tmp_path / "slave",
        name_server.port,
        processes,
        brokerId=1,
        brokerRole="SLAVE",
        haMasterAddress=f"{MASTER_ADDRESS}:{ha_port}",
    )
    slave.start()
    end = wait_until_equal(slave, master, 0)

    slave.kill()
    master.append(messages(len(BODIES), MORE))
    slave.start()
    wait_until_equal(slave, master, end)
    assert master.stop() == 0
