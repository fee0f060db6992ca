"""Java brokers in controller mode under controllers of ours: elections, kills, and mqadmin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from interop_name_server import Admin, OurNameServer, broker_of
from interop_nodes import Node
from interop_processes import PEER_S, TEST_S, Processes, free_ports, port_answers, wait_for
from interop_rocketmq import Broker, Driver
from interop_versions import Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

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


def bodies(driver: Driver, topic: str, count: int) -> Iterator[int]:
    """The numbers of the messages that a consumer reads, without the order of the queues."""
    for read in driver.run("consume", topic, count, 30):
        if "properties" in read:
            yield int(read["properties"]["number"])


@pytest.mark.checklist(41, 44, 45, 46, of="autoswitch")
@beside("rocketmq")
def test_java_brokers_under_our_controllers(
    peer: Peer, tmp_path: Path, processes: Processes
) -> None:
    """The master is killed, then the controller that leads, then the next master; what a producer
    was told is stored stays stored, and mqadmin sees and changes the set.
    """
    controllers = Controllers.start(tmp_path / "c", processes)
    name_server = OurNameServer.begin(processes, tmp_path / "ns")
    named = ";".join(controllers.addresses.values())

    def broker(name: str) -> Broker:
        return broker_of(
            peer,
            tmp_path / name,
            name_server.port,
            processes,
            SET,
            enableControllerMode="true",
            controllerAddr=named,
            allAckInSyncStateSet="true",
            registerNameServerPeriod=10_000,
        )

    admin = Admin.start(peer, processes, tmp_path / "admin", name_server)
    controllers.leader(admin)
    a, b = broker("a"), broker("b")
    a.start()
    wait_state(admin, controllers, 1, (1,))
    b.start()
    first = wait_state(admin, controllers, 1, (1, 2))
    driver = Driver.start(processes, peer.jars(), tmp_path / "client", name_server.port)
    topic = "under-ours"
    driver.run("send", topic, 0, SIZES)

    a.kill()
    second = wait_state(admin, controllers, 2, (2,))
    assert second.epoch == first.epoch + 1
    driver.run("send", topic, len(SIZES), SIZES)
    a.start()
    wait_state(admin, controllers, 2, (1, 2))

    leader = controllers.leader(admin)
    controllers.nodes[leader].kill()
    assert controllers.leader(admin) != leader
    assert wait_state(admin, controllers, 2, (1, 2)).epoch == second.epoch
    b.kill()
    third = wait_state(admin, controllers, 1, (1,))
    assert third.epoch == second.epoch + 1
    driver.run("send", topic, 2 * len(SIZES), SIZES)
    controllers.nodes[leader].start()

    address = controllers.addresses[controllers.leader(admin)]
    admin.run("cleanBrokerMetadata", "-a", address, "-bn", SET, "-c", "interop", "-b", "2")
    assert state_of(admin, address).in_sync == (1,)
    shown = admin.run("getSyncStateSet", "-a", address, "-b", SET)
    assert "brokerId=2" not in shown
    assert "notifyBrokerRoleChanged" in admin.run("getControllerConfig", "-a", address)
    admin.run(
        "updateControllerConfig", "-a", address, "-k", "notifyBrokerRoleChanged", "-v", "false"
    )
    wanted = set(range(3 * len(SIZES)))
    assert wanted <= set(bodies(driver, topic, len(wanted)))
