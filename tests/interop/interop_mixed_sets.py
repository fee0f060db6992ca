"""A Java broker and a replica of ours in one sync state set, under controllers of either kind."""

from __future__ import annotations

from pathlib import Path

import attrs
from interop_checks import wait_for_equal_stores
from interop_controllers import Electing, SetState, wait_state
from interop_name_server import Admin, OurNameServer, broker_of
from interop_nodes import GROUP, Node, message, status_of, write_cluster
from interop_processes import PEER_S, Processes, free_ports, wait_for
from interop_rocketmq import Broker, Driver
from interop_versions import Peer

OUR_ADDRESS = "127.0.0.5"
EPOCHS = "epochFileCheckpoint"
TOPIC = "mixed"
"""Not the set's name: a Java broker has a topic of that name, with one queue."""
BODY_BYTES = 100
COUNT = 50
"""Messages of a batch."""


@attrs.define
class MixedSet:
    """See the module's text; neither replica runs at first.

    Attributes:
        sent: how many messages were acknowledged.
    """

    controllers: Electing
    name_server: OurNameServer
    admin: Admin
    driver: Driver
    java: Broker
    ours: Node
    ports: tuple[int, int]
    sent: int = 0

    @classmethod
    def make(
        cls, peer: Peer, folder: Path, processes: Processes, controllers: Electing
    ) -> MixedSet:
        name_server = OurNameServer.begin(processes, folder / "ns")
        java = broker_of(
            peer,
            folder / "java",
            name_server.port,
            processes,
            GROUP,
            enableControllerMode="true",
            controllerAddr=";".join(controllers.addresses.values()),
            allAckInSyncStateSet="true",
            registerNameServerPeriod=10_000,
        )
        ha_port = free_ports(hosts=[OUR_ADDRESS])
        broker_port = free_ports(-2, hosts=[OUR_ADDRESS])
        path = write_cluster(
            folder / "ours",
            {"n0": OUR_ADDRESS},
            {
                "mode": '"autoswitch"',
                "members": '["n0"]',
                "controllers": list(controllers.addresses.values()),
                "port": ha_port,
                "broker_port": broker_port,
                "store_version": f'"{peer.version}"',
                "slave_timeout_s": 60.0,
            },
        )
        path.write_text(f'namesrv_addr = ["127.0.0.1:{name_server.port}"]\n' + path.read_text())
        admin = Admin.start(peer, processes, folder / "admin", name_server)
        driver = Driver.start(processes, peer.jars(), folder / "client", name_server.port)
        controllers.leader(admin)
        ours = Node("n0", path, processes)
        return cls(controllers, name_server, admin, driver, java, ours, (broker_port, ha_port))

    @property
    def controller(self) -> str:
        """The address of the one that leads."""
        return self.controllers.addresses[self.controllers.leader(self.admin)]

    @property
    def our_broker(self) -> str:
        return f"{OUR_ADDRESS}:{self.ports[0]}"

    def wait(self, master: int, *in_sync: int) -> SetState:
        return wait_state(self.admin, self.controllers, master, in_sync, GROUP)

    def send(self) -> None:
        """To Java's, which is master, by a producer of Java's: until each was acknowledged."""
        for sent in self.driver.run("send", TOPIC, self.sent, [BODY_BYTES] * COUNT):
            assert "error" in sent or sent["status"] == "SEND_OK", sent
        self.sent += COUNT

    def append(self) -> None:
        """To ours, which is elected: acknowledged once the whole set has it."""
        folder = self.ours.cluster.parent / "data" / "n0"
        wait_for(
            lambda: status_of(folder, GROUP).get("state") == "open", "a master", timeout_s=PEER_S
        )
        numbers = range(self.sent, self.sent + COUNT)
        self.ours.append([message(TOPIC, number, BODY_BYTES) for number in numbers])
        self.sent += COUNT

    def wait_equal(self) -> None:
        """Until logs and queues are equal, byte by byte, and so are the epochs."""
        wait_for_equal_stores(self.java.store, self.ours.store)
        files = [side.store / EPOCHS for side in (self.java, self.ours)]
        wait_for(
            lambda: len({file.read_bytes() for file in files}) == 1,
            "equal epochs",
            timeout_s=PEER_S,
        )

    def consumed(self) -> set[int]:
        """The numbers of what a consumer of Java's reads at Java's, which is master."""
        read = self.driver.run("consume", TOPIC, self.sent, 30)
        return {int(each["properties"]["number"]) for each in read if "properties" in each}
