"""Three controllers of ours for Java brokers, and what mqadmin says of a broker set."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
from interop_name_server import Admin
from interop_nodes import Node
from interop_processes import PEER_S, Processes, free_ports, port_answers, wait_for

HOSTS = {"c0": "127.0.0.2", "c1": "127.0.0.3", "c2": "127.0.0.4"}
SET = "set1"
SIZES = [100] * 50
LINE = re.compile(r"^#(\w+):?\s+(.*)$", re.MULTILINE)
REPLICA = re.compile(r"^(\w+):\s.*brokerId=(\d+)", re.MULTILINE)


@attrs.frozen
class SetState:
    """What mqadmin says of a broker set."""

    master: int | None
    epoch: int
    in_sync: tuple[int, ...]


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


def state_of(admin: Admin, address: str) -> SetState:
    shown = admin.run("getSyncStateSet", "-a", address, "-b", SET)
    said = dict(LINE.findall(shown))
    master = said["MasterBrokerId"].strip()
    return SetState(
        master=int(master) if master.lstrip("-").isdigit() else None,
        epoch=int(said["MasterEpoch"]),
        in_sync=tuple(
            sorted(int(key) for what, key in REPLICA.findall(shown) if what == "InSyncReplica")
        ),
    )


def wait_state(
    admin: Admin, controllers: Controllers, master: int, in_sync: tuple[int, ...]
) -> SetState:
    address = controllers.addresses[controllers.leader(admin)]
    found: list[SetState] = []

    def is_so() -> bool:
        found[:] = [state_of(admin, address)]
        return (found[0].master, found[0].in_sync) == (master, in_sync)

    wait_for(is_so, f"master {master} of {in_sync}", timeout_s=PEER_S, poll_s=0.5)
    return found[0]
