"""`triolog follow` copies a stock broker, and a stock broker goes on with the copy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import attrs
import pytest
from interop_checks import sizes, wait_for_equal_index, wait_for_equal_queues
from interop_logs import LogFiles, common_difference
from interop_nodes import ROOT
from interop_processes import PEER_S, TEST_S, Process, Processes, wait_for
from interop_rocketmq import (
    CONSUME_QUEUE_BYTES,
    SEGMENT_BYTES,
    Broker,
    Driver,
    NameServer,
)
from interop_versions import NEWEST, Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

TOPICS, MESSAGES = 12, 60
SLAVE_TIMEOUT_MS = 5_000


@pytest.fixture
def master(tmp_path: Path, peer: Peer, name_server: NameServer, processes: Processes) -> Broker:
    """Not started yet; every test has a broker name of its own, as one driver serves them all."""
    return Broker.of(peer, tmp_path.name, tmp_path / "master", name_server.port, processes)


def start(broker: Broker, name_server: NameServer) -> None:
    broker.start()
    here = f"127.0.0.1:{broker.listen_port}"
    broker.register(lambda: name_server.addresses(broker.name).get("0") == here)


@attrs.define
class Copy:
    """The command, and its folder."""

    master: Broker
    folder: Path
    processes: Processes

    @property
    def commitlog(self) -> Path:
        return self.folder / "commitlog"

    def start(self, *more: str) -> Process:
        folder = self.folder.with_name("follow")
        return self.processes.start("follow", self.command(*more), folder, cwd=ROOT)

    def command(self, *more: str, into: Path | None = None) -> list[str]:
        """Args: into: another folder than its own."""
        words = [sys.executable, "-m", "actors.follow", f"127.0.0.1:{self.master.ha_port}"]
        words += ["--into", str(into or self.folder), "--store-version", self.master.peer.version]
        words += ["--metadata", f"127.0.0.1:{self.master.listen_port}"]
        words += ["--segment-bytes", str(SEGMENT_BYTES)]
        words += ["--consume-queue-bytes", str(CONSUME_QUEUE_BYTES)]
        return [*words, "--index-slots", "1000", "--index-units", "4000", *more]

    def end_bytes(self) -> int:
        """Where its log ends, as its files say."""
        return LogFiles.read(self.commitlog).end_bytes if self.commitlog.exists() else 0

    def wait_for_report(self, process: Process, end_bytes: int) -> None:
        wait_for(
            lambda: self.master.acknowledged_bytes() >= end_bytes,
            f"a report of {end_bytes}",
            timeout_s=PEER_S,
            alive=[process],
        )


@beside("rocketmq", NEWEST.version)
def test_a_broker_on_the_copy_serves_every_message(
    master: Broker, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    copy = Copy(master, tmp_path / "copy", processes)
    topics = [f"{master.name}-{number}" for number in range(TOPICS)]
    start(master, name_server)
    # Connected before there is anything: later it would be sent the last file only.
    copy.wait_for_report(running := copy.start(), 0)
    for number, topic in enumerate(topics):
        driver.begin("send", topic, 0, sizes(MESSAGES, 6_000))
        answers = driver.answers()
        for _ in range(MESSAGES // 2):
            next(answers)
        if number % 3 == 1:
            copy.wait_for_report(running, 1)  # it follows, and has something to go on with
            running.kill()
            running = copy.start()
        for _ in answers:
            pass
    sent = master.end_bytes()
    copy.wait_for_report(running, sent)
    assert running.stop() == 0
    once = copy.start("--once")
    assert once.popen.wait(PEER_S) == 0
    assert master.process is not None
    master.process.stop()
    assert common_difference(master.commitlog, copy.commitlog) is None
    assert copy.end_bytes() >= sent > 2 * SEGMENT_BYTES

    config = json.loads((copy.folder / "config" / "topics.json").read_text())
    assert set(topics) <= set(config["topicConfigTable"])
    heir = Broker.of(
        master.peer,
        master.name,
        tmp_path / "heir",
        name_server.port,
        processes,
        storePathRootDir=copy.folder,
        storePathCommitLog=copy.commitlog,
    )
    start(heir, name_server)
    theirs = driver.run("dump", master.commitlog)
    for topic in topics:
        offsets = [record["physicalOffset"] for record in theirs if record["topic"] == topic]
        assert len(offsets) == MESSAGES
        read = driver.run("consume", topic, MESSAGES, 60)
        assert sorted(message["physicalOffset"] for message in read) == offsets


@beside("rocketmq", NEWEST.version)
def test_queues_and_index_are_the_masters(
    master: Broker, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    copy = Copy(master, tmp_path / "copy", processes)
    start(master, name_server)
    copy.wait_for_report(running := copy.start(), 0)
    driver.run("send", f"{master.name}-topic", 0, sizes(60, 60_000))
    driver.run("varied", f"{master.name}-varied")
    end = master.end_bytes()
    copy.wait_for_report(running, end)
    wait_for_equal_queues(master.store, copy.folder, 0, end)
    wait_for_equal_index(master.store, copy.folder)


@beside("rocketmq", NEWEST.version)
def test_a_sync_master_counts_a_copy_unless_it_is_passive(
    master: Broker, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    topic = f"{master.name}-topic"
    copy = Copy(master, tmp_path / "copy", processes)
    master.settings.update(brokerRole="SYNC_MASTER", totalReplicas=2, inSyncReplicas=2)
    master.settings.update(slaveTimeout=SLAVE_TIMEOUT_MS)
    start(master, name_server)
    passive = copy.start("--passive")
    copy.wait_for_report(passive, 0)
    said = master.acknowledged_bytes()
    answers = driver.run("once", topic, 0, "100,2000")
    assert [answer["status"] for answer in answers] == ["FLUSH_SLAVE_TIMEOUT"] * 2
    wait_for(
        lambda: copy.end_bytes() >= master.end_bytes(),
        "the copy",
        timeout_s=PEER_S,
        alive=[passive],
    )
    assert master.acknowledged_bytes() == said
    assert passive.stop() == 0

    copy.wait_for_report(copy.start(), master.end_bytes())
    answers = driver.run("once", topic, 2, sizes(50, 60_000))
    assert {answer["status"] for answer in answers} == {"SEND_OK"}
