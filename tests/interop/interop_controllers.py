"""Controllers of ours and of Java for a broker set, and what mqadmin says of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

import attrs
from interop_name_server import Admin
from interop_nodes import Node
from interop_processes import PEER_S, Process, Processes, free_ports, port_answers, wait_for
from interop_rocketmq import JAVA_OPTIONS, java_command, write_properties
from interop_versions import BENCHED, Peer

from actors.config.controllers import DEFAULTS
from actors.config.dledger import CONTROLLERS

HOSTS = {"c0": "127.0.0.1", "c1": "127.0.0.2", "c2": "127.0.0.3"}
"""On one machine Java's members connect from the first of these, which has to be a member's."""
SET = "set1"
SIZES = [100] * 50
HESSIAN = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)
"""What jRaft writes its entries by reads fields of these."""
LINE = re.compile(r"^#(\w+):?\s+(.*)$", re.MULTILINE)
REPLICA = re.compile(r"^(\w+):\s.*brokerId=(\d+)", re.MULTILINE)


@attrs.frozen
class SetState:
    """What mqadmin says of a broker set; nothing of one that nobody has registered in yet."""

    master: int | None
    epoch: int
    in_sync: tuple[int, ...]


class Electing(Protocol):
    """Controllers, whoever made them."""

    @property
    def addresses(self) -> dict[str, str]:
        """Where brokers and operators reach each."""

    def leader(self, admin: Admin) -> str:
        """The one that leads now, asked at any that runs."""


@attrs.define
class Controllers:
    """Three controllers of one group, each a process: ours, or some of them Java's on DLedger."""

    nodes: dict[str, Node | JavaMember]
    port: int

    @classmethod
    def start(
        cls, folder: Path, processes: Processes, *, java: Collection[str] = (), peer: Peer = BENCHED
    ) -> Controllers:
        """Returns at once.

        Args:
            java: which of them are Java's, of `peer`'s version. Only they start, if there are any.
        """
        port = free_ports(hosts=list(HOSTS.values()))
        members = [
            f'{{ node = "{name}", kind = "java" }}' if name in java else f'"{name}"'
            for name in HOSTS
        ]
        lines = ["version = 1", 'name = "interop"', 'data_dir = "data"', "[nodes]"]
        lines += [f'{name} = "{host}"' for name, host in HOSTS.items()]
        lines += ["[controllers]", f"nodes = [{', '.join(members)}]", f"port = {port}"]
        lines += ["heartbeat_interval_s = 0.5"]
        if java:  # whose leaders are heard every 2 s, and whose followers wait for 6 s
            lines += ["heartbeat_leaks = 6"]
        folder.mkdir(parents=True)
        path = folder / "cluster.toml"
        path.write_text("\n".join(lines) + "\n")
        peers = ";".join(f"{name}-{host}:{port}" for name, host in HOSTS.items())
        nodes: dict[str, Node | JavaMember] = {}
        for name, host in HOSTS.items():
            if name in java:
                settings = {"bindAddress": host, **on_dledger(CONTROLLERS, name, peers)}
                nodes[name] = JavaMember(peer, folder / name, processes, host, port, settings)
            else:
                nodes[name] = Node(name, path, processes)
            if not java or name in java:
                nodes[name].start()
        return cls(nodes, port)

    @property
    def addresses(self) -> dict[str, str]:
        return {name: f"{host}:{self.port}" for name, host in HOSTS.items()}

    def answers(self, name: str) -> bool:
        return port_answers(HOSTS[name], self.port)

    def leader(self, admin: Admin) -> str:
        """The one that leads now, asked at any that runs."""
        found: list[str] = []

        def asked() -> bool:
            for name in filter(self.answers, HOSTS):
                shown = admin.run("getControllerMetaData", "-a", self.addresses[name])
                leader = dict(LINE.findall(shown)).get("ControllerLeaderId", "").strip()
                if leader in HOSTS and self.answers(leader):
                    found[:] = [leader]
                    return True
            return False

        wait_for(asked, "a controller that leads", timeout_s=PEER_S, poll_s=0.5)
        return found[0]


def on_dledger(group: str, name: str, peers: str) -> dict[str, object]:
    """What a controller of Java's is told of the DLedger group that it is of."""
    return {
        "controllerDLegerGroup": group,
        "controllerDLegerPeers": peers,
        "controllerDLegerSelfId": name,
        "mappedFileSize": DEFAULTS["data_file_bytes"],
    }


@attrs.define
class JavaMember:
    """A controller of Java's, and the same one again after a crash.

    Attributes:
        host, port: where it answers.
        settings: further lines of its configuration file.
    """

    peer: Peer
    folder: Path
    processes: Processes
    host: str
    port: int
    settings: Mapping[str, object]
    process: Process | None = None

    def start(self) -> Process:
        """Returns at once."""
        store = {"controllerStorePath": self.folder / "store"}
        write_properties(self.folder / "conf", {**store, **self.settings})
        options = (*JAVA_OPTIONS, "-Xms32m", "-Xmx128m", *self.peer.java_options, *HESSIAN)
        command = [*java_command(self.peer.jars(), self.folder, options)]
        command += ["org.apache.rocketmq.controller.ControllerStartup", "-c", self.folder / "conf"]
        self.process = self.processes.start("controller of Java", command, self.folder)
        return self.process

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()


@attrs.define
class JavaController:
    """One of Java's, a group of its own."""

    member: JavaMember

    @classmethod
    def start(
        cls, peer: Peer, folder: Path, processes: Processes, *, jraft: bool = False
    ) -> JavaController:
        """Returns when it answers. Args: jraft: on jRaft, which has a port of its own."""
        host, port = "127.0.0.1", free_ports(1)
        rpc, raft = f"{host}:{port}", f"{host}:{port + 1}"
        settings: dict[str, object] = on_dledger("interop", "n0", f"n0-{rpc}")
        if jraft:
            settings = {
                "controllerType": "jRaft",
                "jRaftGroupId": "interop",
                "jRaftServerId": raft,
                "jRaftInitConf": raft,
                "jRaftControllerRPCAddr": rpc,
            }
        member = JavaMember(peer, folder, processes, host, port, settings)
        process = member.start()
        wait_for(
            lambda: port_answers(host, port),
            f"a controller on port {port}",
            timeout_s=PEER_S,
            alive=[process],
        )
        return cls(member)

    @property
    def addresses(self) -> dict[str, str]:
        return {"n0": f"{self.member.host}:{self.member.port}"}

    def leader(self, admin: Admin) -> str:
        def leads() -> bool:
            shown = admin.run("getControllerMetaData", "-a", self.addresses["n0"])
            return bool(dict(LINE.findall(shown)).get("ControllerLeaderId", "").strip())

        wait_for(leads, "a controller that leads", timeout_s=PEER_S, poll_s=0.5)
        return "n0"


def state_of(admin: Admin, address: str, name: str = SET) -> SetState:
    shown = admin.run("getSyncStateSet", "-a", address, "-b", name)
    said = dict(LINE.findall(shown))
    master = said.get("MasterBrokerId", "").strip()
    return SetState(
        master=int(master) if master.lstrip("-").isdigit() else None,
        epoch=int(said.get("MasterEpoch", 0)),
        in_sync=tuple(
            sorted(int(key) for what, key in REPLICA.findall(shown) if what == "InSyncReplica")
        ),
    )


def wait_state(
    admin: Admin,
    controllers: Electing,
    master: int,
    in_sync: tuple[int, ...],
    name: str = SET,
) -> SetState:
    address = controllers.addresses[controllers.leader(admin)]
    found: list[SetState] = []

    def is_so() -> bool:
        found[:] = [state_of(admin, address, name)]
        return (found[0].master, found[0].in_sync) == (master, in_sync)

    wait_for(is_so, f"master {master} of {in_sync}", timeout_s=PEER_S, poll_s=0.5)
    return found[0]
