"""A group of two RocketMQ brokers on DLedger and a member of ours that never leads.

A broker listens for its group on all addresses of the machine, so each has a port of its own; ours
finds them through proxies, at one port as its cluster file has it.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from interop_ledger import JAVAS, OURS
from interop_ledger_files import LedgerFiles
from interop_ledger_wire import ADDRESSES, GROUP
from interop_links import Link
from interop_nodes import ROOT
from interop_processes import PEER_S, Process, Processes, free_ports, port_answers, wait_for
from interop_remoting import UPDATE_BROKER_CONFIG, call
from interop_rocketmq import JAVA_OPTIONS, SEGMENT_BYTES, Broker, NameServer
from interop_versions import UNMAPPING

MASTER = "0"


@attrs.define
class BrokerGroup:
    """See the module's text.

    Attributes:
        name: of the broker, under which all of them register.
        ports: where each broker listens for its group.
    """

    name: str
    folder: Path
    jars: Path
    name_server: NameServer
    processes: Processes
    ours: Process | None = None
    port: int = attrs.field(factory=lambda: free_ports(hosts=list(ADDRESSES.values())))
    ports: dict[str, int] = attrs.field(factory=lambda: {name: free_ports() for name in JAVAS})
    brokers: dict[str, Broker] = attrs.field(factory=dict)
    _links: list[Link] = attrs.field(factory=list)

    def __enter__(self) -> BrokerGroup:
        for name, port in self.ports.items():
            self._links.append(Link.open(ADDRESSES[name], self.port, ("127.0.0.1", port)))
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.close()

    def start(self) -> None:
        """Returns when all three answer."""
        for name in JAVAS:
            self.brokers[name] = self._broker(name, self._peers(OURS, *JAVAS))
            self.brokers[name].begin()
        self.ours = self._start_ours()
        for broker in self.brokers.values():
            broker.wait_until_it_answers()
        wait_for(
            lambda: port_answers(ADDRESSES[OURS], self.port),
            "ours at its port",
            timeout_s=PEER_S,
            alive=[self.ours],
        )

    def _peers(self, *names: str) -> str:
        ports = {OURS: self.port, **self.ports}
        return ";".join(f"{name}-127.0.0.1:{ports[name]}" for name in names)

    def _broker(self, name: str, peers: str) -> Broker:
        settings: dict[str, object] = {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": GROUP,
            "dLegerSelfId": name,
            "dLegerPeers": peers,
        }
        folder, port = self.folder / name, self.name_server.port
        options = (*JAVA_OPTIONS, *UNMAPPING)  # as its DLedger needs them
        return Broker(self.name, folder, self.jars, port, self.processes, settings, options)

    def _start_ours(self) -> Process:
        members = ", ".join(f'{{ node = "{name}", kind = "java" }}' for name in JAVAS)
        lines = ["version = 1", 'name = "interop"', 'data_dir = "data"', "[nodes]"]
        lines += [f'{name} = "{host}"' for name, host in ADDRESSES.items()]
        lines += [f"[groups.{GROUP}]", 'mode = "dledger"', f"port = {self.port}"]
        lines += [f'members = [{{ node = "{OURS}", candidate = false }}, {members}]']
        lines += [f"data_file_bytes = {SEGMENT_BYTES}"]  # the index's files are upstream's size
        cluster = self.folder / "cluster.toml"
        cluster.write_text("\n".join(lines) + "\n")
        command: list[str | Path] = [sys.executable, "-m", "actors.cluster", cluster]
        command += ["--node", OURS, "--plain"]
        return self.processes.start("n0, ours", command, self.folder / "n0-output", cwd=ROOT)

    # ---- brokers ----

    def master(self) -> str:
        """The broker that is registered as master, and runs."""

        def found() -> str | None:
            address = self.name_server.addresses(self.name).get(MASTER)
            for name, broker in self.brokers.items():
                if address == f"127.0.0.1:{broker.listen_port}":
                    return name
                call(broker.listen_port, UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")
            return None

        alive = [broker.process for broker in self.brokers.values() if broker.process is not None]
        return wait_for(found, "a master", timeout_s=PEER_S, alive=alive, poll_s=0.5)

    def kill(self, name: str) -> None:
        self.brokers.pop(name).kill()

    def inherit(self, name: str) -> None:
        """Start broker `name` anew and alone, with our store for its own and nothing derived.

        What it knows of topics stays; that is no part of the log. A 5.3.3 broker derives only what
        follows its log's confirmed end, unless it is asked to look how far its queues reach.
        """
        heir = self._broker(name, self._peers(name))
        for each in heir.store.iterdir():
            if each.name != "config":
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        shutil.move(self._our_folder, heir.store / f"dledger-{name}")
        heir.settings["recheckReputOffsetFromCq"] = "true"
        self.brokers[name] = heir
        heir.start()

    # ---- the judge ----

    @property
    def _our_folder(self) -> Path:
        return self.folder / "data" / OURS / "groups" / GROUP

    def log(self, name: str) -> LedgerFiles:
        folder = self._our_folder if name == OURS else self._store(name) / f"dledger-{name}"
        return LedgerFiles.read(folder)

    def _store(self, name: str) -> Path:
        return self.folder / name / "store"

    def wait_until_equal(self, topic: str, count: int) -> LedgerFiles:
        """Until all that run have the same log with at least so many messages of the topic."""

        def same() -> LedgerFiles | None:
            first, *others = [self.log(name) for name in (OURS, *self.brokers)]
            enough = len(bodies_of(first, topic)) >= count and first.indexed == len(first.bodies)
            return first if enough and all(each == first for each in others) else None

        return wait_for(same, "equal logs", timeout_s=PEER_S)

    def our_events(self) -> Iterator[dict[str, Any]]:
        """All that ours has decided; it has to be stopped."""
        for path in sorted((self.folder / "data" / OURS / "events").rglob("*.gz")):
            with gzip.open(path, "rt") as lines:
                yield from map(json.loads, lines)


def bodies_of(log: LedgerFiles, topic: str) -> list[bytes]:
    """The messages of a topic."""
    return [body for body in log.bodies if topic.encode() in body]
