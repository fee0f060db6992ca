"""One properties file and one store for a broker and for ours: each goes on where the other ended,
and a broker's slave with such a file follows ours. The judges share no code with the project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from interop_checks import sizes
from interop_logs import LogFiles, common_difference
from interop_nodes import JAVA_ADDRESS, ROOT, Node
from interop_older_brokers import OlderBroker
from interop_processes import PEER_S, TEST_S, Process, Processes, wait_for
from interop_rocketmq import Broker, Driver, NameServer
from interop_versions import Peer, beside
from test_interop_java_slave import MASTER_ADDRESS, messages
from test_interop_older_brokers import wait_until_equal
from test_interop_python_slave import start

from actors.api.socket_file import api_socket_path
from actors.client import connect
from actors.log import Log

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

BODIES = sizes(40, 20_000)


class FromProperties(Node):
    """The broker's master, as ours, from the same file and in the same store."""

    @property
    def store(self) -> Path:
        return self.cluster.parent / "store"

    def start(self) -> Process:
        command: list[str | Path] = [sys.executable, "-m", "actors.cluster", "--plain"]
        command += ["--broker-conf", self.cluster]
        folder = self.cluster.parent / "output"
        self.process = self.processes.start(f"node {self.name}", command, folder, cwd=ROOT)
        return self.process

    @asynccontextmanager
    async def open_log(self) -> AsyncIterator[Log]:
        folder = self.store / "triolog" / f"{self.name}-0"
        async with connect(api_socket_path(str(folder))) as client:
            yield client.log(self.name)


def topics_of(broker: Broker) -> dict[str, Any]:
    """What the store's `config/` says, whoever has written it."""
    text = (broker.store / "config/topics.json").read_text()
    found: dict[str, Any] = json.loads(text)["topicConfigTable"]
    return found


@pytest.mark.checklist(39, 56)
@beside("older brokers", "4.9.7")
def test_one_file_and_one_store(
    peer: Peer, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    topic, port = f"{tmp_path.name}-topic", name_server.port
    broker = OlderBroker.of(peer, tmp_path.name, tmp_path / "master", port, processes)
    start(broker, name_server)
    driver.run("send", topic, 0, BODIES)
    assert broker.process is not None
    broker.process.stop()
    end = broker.end_bytes()
    topics = topics_of(broker)
    assert topic in topics

    ours = FromProperties(tmp_path.name, broker.folder / "conf.ours", processes)
    # The broker did that: all that it could be given.
    written_down = (broker.folder / "conf").read_text()
    assert written_down.count("\n") > 50
    ours.cluster.write_text(f"{written_down}\ntriolog.slaves={JAVA_ADDRESS}\n")
    ours.start()
    ours.append(messages(0, BODIES))
    slave = OlderBroker.of(
        peer,
        tmp_path.name,
        tmp_path / "slave",
        port,
        processes,
        brokerId=1,
        brokerRole="SLAVE",
        haMasterAddress=f"{MASTER_ADDRESS}:{broker.ha_port}",
    )
    slave.start()
    end = wait_until_equal(slave, ours, end)
    assert topics_of(broker) == topics
    assert ours.stop() == 0

    start(broker, name_server)
    driver.run("send", topic, len(BODIES), BODIES)
    assert LogFiles.read(broker.commitlog).end_bytes > end
    assert common_difference(broker.commitlog, slave.commitlog) is None


@pytest.mark.checklist(39, 56)
@beside("rocketmq")
def test_a_store_of_a_broker_of_5_x_in_turns(
    peer: Peer, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    """By the file that the broker wrote down. A slave of 5.x, to which haMasterAddress means
    nothing, finds ours by the name server that this file names.
    """
    topic = f"{tmp_path.name}-topic"
    broker = Broker.of(peer, tmp_path.name, tmp_path / "master", name_server.port, processes)
    start(broker, name_server)
    driver.run("send", topic, 0, BODIES)
    assert broker.process is not None
    broker.process.stop()
    topics, first = topics_of(broker), LogFiles.read(broker.commitlog).end_bytes
    assert topic in topics
    conf = broker.folder / "conf"
    assert "totalReplicas=1" in conf.read_text(), "it wrote down what nobody gave it"

    ours = FromProperties(tmp_path.name, broker.folder / "conf.ours", processes)
    ours.cluster.write_text(f"{conf.read_text()}\ntriolog.slaves={JAVA_ADDRESS}\n")
    ours.start()
    ours.append(messages(0, BODIES))
    as_slave: dict[str, object] = {"brokerId": 1, "brokerRole": "SLAVE"}
    port, folder = name_server.port, tmp_path / "slave"
    slave = Broker.of(peer, tmp_path.name, folder, port, processes, **as_slave)
    slave.start()
    slave.register(lambda: "1" in name_server.addresses(tmp_path.name))
    end = LogFiles.read(broker.commitlog).end_bytes
    assert end > first
    assert slave.process is not None
    wait_for(
        lambda: slave.end_bytes() == end,
        "a slave that has everything",
        timeout_s=PEER_S,
        alive=[slave.process],
    )
    assert common_difference(broker.commitlog, slave.commitlog) is None
    slave.kill()
    assert ours.stop() == 0
    assert topics_of(broker) == topics

    start(broker, name_server)
    assert broker.end_bytes() == end
    driver.run("send", topic, len(BODIES), BODIES)
    assert broker.end_bytes() > end
