"""A name server of ours for real brokers and clients, and RocketMQ's own admin tool at it."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

import attrs
from interop_older_brokers import LOGBACK, OlderBroker
from interop_processes import PEER_S, Processes, free_ports, port_answers, wait_for
from interop_rocketmq import Broker, Driver, NameServer
from interop_versions import JAVA, Peer

ROOT = Path(__file__).parents[2]


@attrs.define
class OurNameServer(NameServer):
    """`triolog namesrv`."""

    folder: Path
    processes: Processes

    @classmethod
    def begin(cls, processes: Processes, folder: Path, port: int = 0) -> OurNameServer:
        """Returns when it answers. Args: port: where an earlier one listened; 0: anywhere."""
        port = port or free_ports()
        command = [sys.executable, "-m", "actors.namesrv", "--listen", f"127.0.0.1:{port}"]
        command += ["--data", str(folder / "data")]
        process = processes.start("name server of ours", command, folder, cwd=ROOT)
        wait_for(
            lambda: port_answers("127.0.0.1", port),
            f"our name server on port {port}",
            timeout_s=PEER_S,
            alive=[process],
        )
        return cls(port, process, folder, processes)

    def again(self) -> OurNameServer:
        """The next run on the same port and folder, after the end of this one."""
        return self.begin(self.processes, self.folder, self.port)


def broker_of(
    peer: Peer,
    folder: Path,
    port: int,
    processes: Processes,
    name: str = "broker-a",
    **settings: object,
) -> Broker:
    """A broker of that version, which also uses its own port for all that clients ask."""
    kind = OlderBroker if peer.family == "older brokers" else Broker
    return kind.of(peer, name, folder, port, processes, **settings)


def running(broker: Broker, *name_servers: NameServer) -> Broker:
    """The broker, started and registered with all of these."""
    broker.start()
    broker.register(lambda: all(each.knows(broker) for each in name_servers))
    return broker


@attrs.frozen
class Admin:
    """mqadmin, one command after the other."""

    driver: Driver

    @classmethod
    def start(
        cls, peer: Peer, processes: Processes, folder: Path, *name_servers: NameServer
    ) -> Admin:
        conf = folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "logback_tools.xml").write_text(LOGBACK)
        first, *more = (each.port for each in name_servers)
        program = JAVA / "Admin.java"
        return cls(
            Driver.start(processes, peer.jars(), folder, first, tuple(more), program=program)
        )

    def run(self, *words: str) -> str:
        """What a command prints; it may not be an exception."""
        shown = self.shown(*words)
        assert "Exception" not in shown, shown
        return shown

    def refused(self, *words: str) -> int:
        """The code with which a broker refuses the command."""
        shown = self.shown(*words)
        found = re.search(r"CODE: (\d+)", shown)
        assert found, shown
        return int(found[1])

    def shown(self, *words: str) -> str:
        """What a command prints. An exit code that is not 0 would end it, and with it the test."""
        (answer,) = self.driver.run(*words)
        return base64.b64decode(answer["shown"]).decode()
