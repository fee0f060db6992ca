"""Controllers of ours and of Java for a broker set, and what mqadmin says of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

import attrs
from interop_name_server import Admin
from interop_nodes import Node
from interop_processes import PEER_S, Process, Processes, free_ports, port_answers, wait_for
from interop_rocketmq import JAVA_OPTIONS, java_command, write_properties
from interop_versions import Peer

HOSTS = {"c0": "127.0.0.2", "c1": "127.0.0.3", "c2": "127.0.0.4"}
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
    """Three controllers of ours, each a process."""

    nodes: dict[str, Node]
    port: int

    @classmethod
    def start(cls, folder: Path, processes: Processes) -> Controllers:
        port = free_ports(hosts=list(HOSTS.values()))
        names = ", ".join(f'"{name}"' for name in HOSTS)
        lines = ["version = 1", 'name = "interop"', 'data_dir = "data"', "[nodes]"]
        lines += [f'{name} = "{host}"' for name, host in HOSTS.items()]
        lines += ["[controllers]", f"nodes = [{names}]", f"port = {port}"]
        lines += ["heartbeat_interval_s = 0.5"]
        folder.mkdir(parents=True)
        path = folder / "cluster.toml"
        path.write_text("\n".join(lines) + "\n")
        nodes = {name: Node(name, path, processes) for name in HOSTS}
        for node in nodes.values():
            node.start()
        return cls(nodes, port)

    @property
    def addresses(self) -> dict[str, str]:
        return {name: f"{host}:{self.port}" for name, host in HOSTS.items()}

    def _answers(self, name: str) -> bool:
        return port_answers(HOSTS[name], self.port)

    def leader(self, admin: Admin) -> str:
        """The one that leads now, asked at any that runs."""
        found: list[str] = []

        def asked() -> bool:
            for name in filter(self._answers, HOSTS):
                shown = admin.run("getControllerMetaData", "-a", self.addresses[name])
                leader = dict(LINE.findall(shown)).get("ControllerLeaderId", "")
                if leader in HOSTS and self._answers(leader):
                    found[:] = [leader]
                    return True
            return False

        wait_for(asked, "a controller that leads", timeout_s=PEER_S, poll_s=0.5)
        return found[0]


@attrs.define
class JavaController:
    """One of Java's, a group of its own."""

    port: int
    process: Process

    @classmethod
    def start(
        cls, peer: Peer, folder: Path, processes: Processes, *, jraft: bool = False
    ) -> JavaController:
        """Returns when it answers. Args: jraft: on jRaft, which has a port of its own."""
        port = free_ports(1)
        rpc, raft = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
        settings: dict[str, object] = {"controllerStorePath": folder / "store"}
        if jraft:
            settings |= {
                "controllerType": "jRaft",
                "jRaftGroupId": "interop",
                "jRaftServerId": raft,
                "jRaftInitConf": raft,
                "jRaftControllerRPCAddr": rpc,
            }
        else:
            settings |= {
                "controllerDLegerGroup": "interop",
                "controllerDLegerPeers": f"n0-{rpc}",
                "controllerDLegerSelfId": "n0",
                "mappedFileSize": 1 << 24,
            }
        write_properties(folder / "conf", settings)
        options = (*JAVA_OPTIONS, "-Xms32m", "-Xmx128m", *peer.java_options, *HESSIAN)
        command = [*java_command(peer.jars(), folder, options)]
        command += ["org.apache.rocketmq.controller.ControllerStartup", "-c", folder / "conf"]
        process = processes.start("controller of Java", command, folder)
        wait_for(
            lambda: port_answers("127.0.0.1", port),
            f"a controller on port {port}",
            timeout_s=PEER_S,
            alive=[process],
        )
        return cls(port, process)

    @property
    def addresses(self) -> dict[str, str]:
        return {"n0": f"127.0.0.1:{self.port}"}

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
