"""A pair of RocketMQ brokers beside ours: what tests/interop starts, with room to be fast."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from bench_kit import HERE, SEGMENT_BYTES, standing_still
from interop_processes import Processes, wait_for
from interop_remoting import GET_BROKER_RUNTIME_INFO, UPDATE_BROKER_CONFIG, call
from interop_rocketmq import Broker, Driver, NameServer
from interop_versions import BENCHED, what_is_missing

BROKER_OPTIONS = (
    "-server",
    "-Xms2g",
    "-Xmx2g",
    "-XX:+UseG1GC",
    "-XX:MaxDirectMemorySize=2g",
    "-Dcom.rocketmq.remoting.client.connect.timeout=1000",
)
CLIENT_OPTIONS = ("-server", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC")
SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
"""RocketMQ's own defaults; the interoperability tests take small files."""
TOPIC = "load"
CONNECT_TIMEOUT_S = 60.0
COPY_TIMEOUT_S = 600.0
LOOK_S = 0.005
NUDGE_S = 0.5

VERSION = BENCHED.version

__all__ = ["VERSION", "JavaPair", "what_is_missing"]


@attrs.define
class JavaPair:
    """A master, its slave, their name server and a producer."""

    master: Broker
    slave: Broker
    name_server: NameServer
    folder: Path
    processes: Processes

    @classmethod
    def make(cls, processes: Processes, folder: Path, name: str, **settings: object) -> JavaPair:
        """Not started. `settings` are of both brokers."""
        jars = BENCHED.jars()
        name_server = NameServer.start(processes, jars, folder / "name-server")
        port = name_server.port

        def broker(role: str, **own: object) -> Broker:
            own = {**SETTINGS, **settings, **own}
            return Broker(name, folder / role, jars, port, processes, own, BROKER_OPTIONS)

        slave = broker("slave", brokerId=1, brokerRole="SLAVE", flushDiskType="ASYNC_FLUSH")
        return cls(broker("master"), slave, name_server, folder, processes)

    def start_master(self) -> None:
        self.master.start()
        self.master.register(lambda: self.name_server.knows(self.master))

    def start_slave(self) -> None:
        """Returns when the slave has told the master where it is."""
        process = self.slave.start()
        self.slave.register(lambda: self.master.acknowledged_bytes() >= 0)
        wait_for(
            lambda: self.master.acknowledged_bytes() >= 0,
            "the Java slave connected",
            timeout_s=CONNECT_TIMEOUT_S,
            alive=[process],
        )

    def load(self, folder: Path) -> Driver:
        return Driver.start(
            self.processes,
            self.master.jars,
            folder,
            self.name_server.port,
            program=HERE / "Load.java",
            java_options=CLIENT_OPTIONS,
        )

    def stop(self) -> None:
        for broker in (self.slave, self.master):
            if broker.process is not None:
                broker.kill()
        self.name_server.process.kill()


def catch_up(pair: JavaPair, source: Path, end: int) -> tuple[float, float]:
    """Start the slave with no more than the log's first record.

    Returns: seconds from its first report until it has everything below `end`, and until that can
    be consumed there.
    """
    first_bytes = int.from_bytes((source / f"{0:020}").open("rb").read(4), "big")
    seed(source, pair.slave, first_bytes)
    master = pair.master.process
    assert master is not None
    with standing_still(master, end):
        process = pair.slave.start()
    until_s = time.monotonic() + CONNECT_TIMEOUT_S
    nudge_s = began_s = 0.0
    while not began_s:
        assert time.monotonic() < until_s, process.failed("did not connect")
        if pair.master.acknowledged_bytes() >= 0:
            began_s = time.monotonic()
        elif time.monotonic() > nudge_s:  # see Broker.register
            call(pair.slave.listen_port, UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")
            nudge_s = time.monotonic() + NUDGE_S
        time.sleep(LOOK_S)

    def seconds_until(reached: Callable[[], bool]) -> float:
        wait_for(reached, "all of it", timeout_s=COPY_TIMEOUT_S, alive=[process], poll_s=LOOK_S)
        return time.monotonic() - began_s

    copied_s = seconds_until(lambda: pair.master.acknowledged_bytes() >= end)
    consumable_s = seconds_until(lambda: behind_bytes(pair.slave) == 0)
    pair.slave.kill()
    return copied_s, consumable_s


def behind_bytes(broker: Broker) -> int | None:
    """Log bytes that the broker has not dispatched yet; None while it does not answer."""
    answer: dict[str, Any] | None = call(broker.listen_port, GET_BROKER_RUNTIME_INFO)
    return None if not answer else int(answer["table"]["dispatchBehindBytes"])


def set_batch(broker: Broker, size_bytes: int) -> None:
    """The frame size of a running master."""
    line = f"haTransferBatchSize={size_bytes}\n".encode()
    assert call(broker.listen_port, UPDATE_BROKER_CONFIG, line) is not None


def seed(source: Path, target: Broker, first_bytes: int) -> None:
    """Give a slave that has not run the beginning of a log, so that it does not start behind it."""
    shutil.rmtree(target.folder, ignore_errors=True)
    target.commitlog.mkdir(parents=True)
    name = f"{0:020}"
    with (source / name).open("rb") as log, (target.commitlog / name).open("wb") as own:
        own.write(log.read(first_bytes))
        own.truncate(SEGMENT_BYTES)
