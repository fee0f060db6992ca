"""A Java broker and a replica of ours in one sync state set, under controllers of either kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs
from interop_checks import wait_for_equal_stores
from interop_controllers import (
    LINE,
    Controllers,
    Electing,
    JavaController,
    SetState,
    state_of,
    wait_state,
)
from interop_logs import LogFiles
from interop_name_server import Admin, OurNameServer, broker_of
from interop_nodes import GROUP, Node, message, status_of, write_cluster
from interop_processes import PEER_S, Processes, free_ports, wait_for
from interop_rocketmq import Broker, Driver
from interop_versions import Peer

OUR_ADDRESS = "127.0.0.5"
MASTER_STILL_EXIST = 2011
UNQUOTED = "fastjson2.JSONException: not support unquoted name"
EPOCHS = "epochFileCheckpoint"
TOPIC = "mixed"
"""Not the set's name: a Java broker has a topic of that name, with one queue."""
BODY_BYTES = 100
COUNT = 50
"""Messages of a batch."""
EPOCH = re.compile(r"EpochEntry\{epoch=(\d+), startOffset=(\d+), endOffset=(\d+)\}")
STATUS = re.compile(r"^(\w+)\s*:\s*(.*)$", re.MULTILINE)


@attrs.define
class MixedSet:
    """See the module's text.

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
        cls,
        peer: Peer,
        folder: Path,
        processes: Processes,
        whose: str,
        *,
        group: Mapping[str, object] | None = None,
        broker: Mapping[str, object] | None = None,
    ) -> MixedSet:
        """Neither replica runs yet.

        Args:
            whose: controllers: "java", "jraft", which is Java's on jRaft, "ours", or "mixed", one
                of ours and two of Java's in one group.
            group: further keys of our replica's group.
            broker: further lines of the Java broker's configuration file.
        """
        controllers: Electing
        if whose == "ours":
            controllers = Controllers.start(folder / "c", processes)
        elif whose == "mixed":
            controllers = Controllers.start(folder / "c", processes, java=("c1", "c2"), peer=peer)
            controllers.nodes["c0"].start()
        else:
            jraft = whose == "jraft"
            controllers = JavaController.start(peer, folder / "c", processes, jraft=jraft)
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
            **(broker or {}),
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
                **(group or {}),
            },
        )
        path.write_text(f'namesrv_addr = ["127.0.0.1:{name_server.port}"]\n' + path.read_text())
        admin = Admin.start(peer, processes, folder / "admin", name_server)
        driver = Driver.start(processes, peer.jars(), folder / "client", name_server.port)
        controllers.leader(admin)
        ours = Node("n0", path, processes)
        return cls(controllers, name_server, admin, driver, java, ours, (broker_port, ha_port))

    def take_over_in_turn(self) -> None:
        """Each is killed as master, and comes back; then one is elected by mqadmin."""
        self.java.start()
        self.wait(1, 1)
        self.ours.start()
        self.wait(1, 1, 2)
        self.send()
        self.wait_equal()

        self.java.kill()
        self.wait(2, 2)
        self.append()
        self.java.start()
        self.wait(2, 1, 2)
        self.append()
        self.wait_equal()

        self.ours.kill()
        self.wait(1, 1)
        self.send()
        self.ours.start()
        self.wait(1, 1, 2)
        self.send()
        self.wait_equal()
        self.look(leads=False)
        assert self.consumed() == set(range(self.sent))

        self.elect(2)
        self.append()
        self.wait(2, 1, 2)
        self.wait_equal()
        self.look(leads=True)

    @property
    def controller(self) -> str:
        """The address of the one that leads."""
        return self.controllers.addresses[self.controllers.leader(self.admin)]

    @property
    def our_broker(self) -> str:
        return f"{OUR_ADDRESS}:{self.ports[0]}"

    def wait(self, master: int, *in_sync: int) -> SetState:
        return wait_state(self.admin, self.controllers, master, in_sync, GROUP)

    def wait_both(self) -> int:
        """Until both are in sync. Returns: who is master."""
        found: list[int] = []

        def are_in_sync() -> bool:
            state = state_of(self.admin, self.controller, GROUP)
            found[:] = [] if state.master is None else [state.master]
            return bool(found) and state.in_sync == (1, 2)

        wait_for(are_in_sync, "both in sync", timeout_s=PEER_S, poll_s=0.5)
        return found[0]

    def write(self, master: int) -> None:
        """To the master; Java's is the first replica."""
        (self.send if master == 1 else self.append)()

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

    def ends(self) -> tuple[int, int]:
        """Where the logs of Java's and of ours end."""
        java, ours = (LogFiles.read(each.commitlog) for each in (self.java, self.ours))
        return java.end_bytes, ours.end_bytes

    def wait_equal(self) -> None:
        """Until logs and queues are equal, byte by byte, and so are the epochs."""
        wait_for_equal_stores(self.java.store, self.ours.store)
        files = [side.store / EPOCHS for side in (self.java, self.ours)]
        wait_for(
            lambda: len({file.read_bytes() for file in files}) == 1,
            "equal epochs",
            timeout_s=PEER_S,
        )

    def elect(self, broker_id: int) -> None:
        """As an operator does.

        mqadmin 5.5.0 elects, but cannot read what a controller of its own version answers then: its
        JSON has names without quotes, which fastjson2 writes and does not skip.
        """
        words = ("-a", self.controller, "-b", str(broker_id), "-bn", GROUP, "-c", "interop")
        shown = self.admin.shown("electMaster", *words)
        if UNQUOTED not in shown:
            master = dict(LINE.findall(shown))["BrokerMasterAddr"]
            assert master in (self.our_broker, f"127.0.0.1:{self.java.listen_port}")
        assert self.admin.refused("electMaster", *words) == MASTER_STILL_EXIST

    def look(self, *, leads: bool) -> None:
        """See what mqadmin shows of ours, which has all that the other one has.

        Args:
            leads: whether ours is master.
        """
        end = str(LogFiles.read(self.ours.commitlog).end_bytes)
        where = f"127.0.0.1:{self.name_server.port}"
        lines = (self.ours.store / EPOCHS).read_text().split()[2:]

        def are_equal() -> bool:
            """Both end where the log does, of which ours is told within a second."""
            shown = self.admin.run("getBrokerEpoch", "-n", where, "-b", GROUP)
            assert self.our_broker in shown
            found = EPOCH.findall(shown)
            assert [f"{epoch}-{start}" for epoch, start, _ in found] == 2 * lines, shown
            return found[: len(lines)] == found[len(lines) :] and found[-1][2] == end

        wait_for(are_equal, "epochs that end with the log", timeout_s=PEER_S)
        ha = self._shown("haStatus", LINE)
        if leads:
            assert (ha["MasterAddr"], ha["MasterCommitLogMaxOffset"]) == (self.our_broker, end)
            assert (ha["SlaveNum"], ha["InSyncSlaveNum"]) == ("1", "1")
        else:
            assert ha["MasterAddr"] == f"127.0.0.1:{self.java.ha_port}"
            assert ha["CommitLogMaxOffset"] == end
        assert self._shown("brokerStatus", STATUS)["commitLogMaxOffset"] == end

    def _shown(self, command: str, line: re.Pattern[str]) -> dict[str, str]:
        """What a command prints of ours as a broker."""
        return dict(line.findall(self.admin.run(command, "-b", self.our_broker)))

    def consumed(self) -> set[int]:
        """The numbers of what a consumer of Java's reads at Java's, which is master."""
        read = self.driver.run("consume", TOPIC, self.sent, 30)
        return {int(each["properties"]["number"]) for each in read if "properties" in each}
