"""The real RocketMQ as a peer: its name server, brokers, client and decoder.

Everything runs on 127.0.0.1 with small heaps and small files.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import attrs
from interop_processes import (
    PEER_S,
    Process,
    Processes,
    free_ports,
    port_answers,
    wait_for,
)
from interop_remoting import (
    GET_BROKER_CLUSTER_INFO,
    GET_BROKER_HA_STATUS,
    UPDATE_BROKER_CONFIG,
    call,
)
from interop_versions import BENCHED, JAVA, Peer

JAVA_OPTIONS = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dtls.server.mode=disabled",
    "-Dcom.rocketmq.remoting.client.connect.timeout=1000",
)
"""TLS would cost each broker two RSA keys at its start. The last one is also how often a broker
tries to reach its name server (see Broker.register).
"""
SEGMENT_BYTES = 1 << 20
CONSUME_QUEUE_BYTES = 2_000  # 100 units of 20 bytes


def java_command(
    jars: Path, home: Path, options: tuple[str, ...] = JAVA_OPTIONS, classes: Path | None = None
) -> list[str | Path]:
    """The command up to the main class, or the program's source. Logs go to the folder `home`.

    Args:
        classes: a folder of compiled classes.
    """
    class_path = [JAVA / "classpath", jars / "*", *([] if classes is None else [classes])]
    return [
        "java",
        *options,
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        "-cp",
        ":".join(map(str, class_path)),
    ]


def write_properties(path: Path, properties: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


@attrs.define
class NameServer:
    port: int
    process: Process

    @classmethod
    def start(cls, processes: Processes, jars: Path, folder: Path, port: int = 0) -> NameServer:
        """Args: port: where an earlier one listened; 0: anywhere."""
        port = port or free_ports()
        conf = folder / "conf"
        write_properties(conf, {"listenPort": port, "kvConfigPath": folder / "kv.json"})
        command = [
            *java_command(jars, folder),
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            "-c",
            conf,
        ]
        process = processes.start("name server", command, folder)
        wait_for(
            lambda: port_answers("127.0.0.1", port),
            f"the name server on port {port}",
            timeout_s=PEER_S,
            alive=[process],
        )
        return cls(port, process)

    def knows(self, broker: Broker) -> bool:
        return bool(self.addresses(broker.name))

    def addresses(self, name: str) -> dict[str, str]:
        """Of the brokers of that name, by id; the master's is "0"."""
        answer = call(self.port, GET_BROKER_CLUSTER_INFO)
        table = {} if answer is None else answer["brokerAddrTable"]
        found: dict[str, str] = table.get(name, {"brokerAddrs": {}})["brokerAddrs"]
        return found


@attrs.define
class Broker:
    """A broker, and the same one again after a crash: ports and store folder stay.

    Attributes:
        name: brokerName, equal for a master and its slaves.
        settings: further lines of its configuration file.
        java_options: of its virtual machine.
        peer: its version.
    """

    name: str
    folder: Path
    jars: Path
    namesrv_port: int
    processes: Processes
    settings: dict[str, object]
    java_options: tuple[str, ...] = JAVA_OPTIONS
    peer: Peer = BENCHED
    listen_port: int = attrs.field(factory=lambda: free_ports(-2, 1))
    process: Process | None = None

    @classmethod
    def of(
        cls,
        peer: Peer,
        name: str,
        folder: Path,
        namesrv_port: int,
        processes: Processes,
        **settings: object,
    ) -> Self:
        """A broker of that version."""
        jars, options = peer.jars(), (*JAVA_OPTIONS, *peer.java_options)
        return cls(name, folder, jars, namesrv_port, processes, settings, options, peer=peer)

    @property
    def ha_port(self) -> int:
        return self.listen_port + 1

    @property
    def home(self) -> Path:
        return self.folder

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def commitlog(self) -> Path:
        return self.store / "commitlog"

    def start(self) -> Process:
        """Returns when the broker answers on its port."""
        self.begin()
        return self.wait_until_it_answers()

    def begin(self) -> None:
        """Several start sooner together."""
        conf = self.folder / "conf"
        write_properties(conf, self._properties())
        command = [
            *java_command(self.jars, self.home, self.java_options),
            self.peer.main,
            "-c",
            conf,
        ]
        self.process = self.processes.start(f"broker {self.folder.name}", command, self.folder)

    def wait_until_it_answers(self) -> Process:
        assert self.process is not None
        wait_for(
            lambda: port_answers("127.0.0.1", self.listen_port),
            f"{self.folder.name} on port {self.listen_port}",
            timeout_s=PEER_S,
            alive=[self.process],
        )
        return self.process

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def register(self, known: Callable[[], bool]) -> None:
        """Have the broker register at its name server until `known`.

        A broker's first registration often comes before its connection to the name server, and is
        skipped; the next one comes after 10 s. When an administrator changes this setting it
        registers at once.
        """
        assert self.process is not None

        def nudge() -> bool:
            call(self.listen_port, UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")
            return known()

        what = f"{self.folder.name} registered"
        wait_for(nudge, what, timeout_s=PEER_S, alive=[self.process], poll_s=0.5)

    def ha_status(self) -> dict[str, Any]:
        """RocketMQ's HARuntimeInfo; empty while it does not answer."""
        return call(self.listen_port, GET_BROKER_HA_STATUS) or {}

    def acknowledged_bytes(self) -> int:
        """On a master: the furthest offset a slave has reported; -1 if none is connected."""
        connections = self.ha_status().get("haConnectionInfo", [])
        return max((connection["slaveAckOffset"] for connection in connections), default=-1)

    def end_bytes(self) -> int:
        """The end of its commit log as it says itself; -1 while it does not answer.

        Not by GET_BROKER_RUNTIME_INFO: a 5.3.3 broker fails to answer that in its first second.
        """
        status = self.ha_status()
        if status.get("master", True):
            return int(status.get("masterCommitLogMaxOffset", -1))
        return int(status["haClientRuntimeInfo"]["maxOffset"])

    def _properties(self) -> dict[str, object]:
        return {
            "brokerClusterName": "interop",
            "brokerName": self.name,
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "namesrvAddr": f"127.0.0.1:{self.namesrv_port}",
            "listenPort": self.listen_port,
            "haListenPort": self.ha_port,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.commitlog,
            "mappedFileSizeCommitLog": SEGMENT_BYTES,
            "mappedFileSizeConsumeQueue": CONSUME_QUEUE_BYTES,
            "maxHashSlotNum": 1_000,
            "maxIndexNum": 4_000,
            "timerWheelEnable": "false",
            **self.settings,
        }


@attrs.define
class Driver:
    """RocketMQ's own producer, consumer and decoder: one process, one command at a time."""

    process: Process

    @classmethod
    def start(
        cls,
        processes: Processes,
        jars: Path,
        folder: Path,
        namesrv_port: int,
        more: tuple[int, ...] = (),
        *,
        program: Path = JAVA / "Driver.java",
        java_options: tuple[str, ...] = JAVA_OPTIONS,
    ) -> Driver:
        """Returns when it takes commands. `program` talks as Driver.java does.

        Args:
            more: ports of further name servers.
        """
        names = ";".join(f"127.0.0.1:{port}" for port in (namesrv_port, *more))
        command = [*java_command(jars, folder, java_options), program, names]
        pipe = subprocess.PIPE
        driver = cls(processes.start("driver", command, folder, stdin=pipe, stdout=pipe))
        list(driver.answers())
        return driver

    def run(self, *words: object) -> list[dict[str, Any]]:
        """One command and all its answers (Driver.java says what there is)."""
        self.begin(*words)
        return list(self.answers())

    def begin(self, *words: object) -> None:
        """Start a command; `answers` has to be read to its end before the next one.

        A word that is a list is written with commas.
        """
        stdin = self.process.popen.stdin
        assert stdin is not None
        texts = [",".join(map(str, w)) if isinstance(w, list) else str(w) for w in words]
        stdin.write((" ".join(texts) + "\n").encode())
        stdin.flush()

    def answers(self) -> Iterator[dict[str, Any]]:
        """Each answer as it comes. Raises PeerFailed if the command or the process fails."""
        stdout = self.process.popen.stdout
        assert stdout is not None
        for line in stdout:
            if not line.startswith(b"{"):
                continue
            answer: dict[str, Any] = json.loads(line)
            if "failed" in answer:
                raise self.process.failed(f"said {answer['failed']}")
            if "done" in answer:
                return
            yield answer
        raise self.process.failed("ended")
