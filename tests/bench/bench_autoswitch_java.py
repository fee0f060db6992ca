"""The outage of a pair of RocketMQ brokers whose controller, also Java's, elects another master.

Beside bench_autoswitch_faults.py: the master gets SIGKILL, and `answered_s` is the time until the
other broker takes a message, from a client that knows both and asks again every 5 ms. Each broker
of the sync state set has it on its disk, as ours have.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import attrs
from bench_kit import Figures, workplace
from interop_controllers import SET, JavaController
from interop_name_server import OurNameServer, broker_of
from interop_processes import PEER_S, Processes, wait_for
from interop_remoting import call
from interop_rocketmq import Broker
from interop_versions import BENCHED

from wire.broker.codes import RequestCode

SEND_MESSAGE: Final = 10
TOPIC: Final = "outage"
LOOK_S: Final = 0.005
WARM_MESSAGES: Final = 20
BODY: Final = b"x" * 100
SETTINGS: Final[dict[str, object]] = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "brokerRole": "SYNC_MASTER",
    "flushDiskType": "SYNC_FLUSH",
    "registerNameServerPeriod": 10_000,
}


@attrs.define
class JavaSet:
    """Two brokers, by the port at which controllers know each, and their controller."""

    controller: JavaController
    brokers: dict[int, Broker]

    @classmethod
    def make(cls, processes: Processes, folder: Path) -> JavaSet:
        """Returns when they are started."""
        controller = JavaController.start(BENCHED, folder / "controller", processes)
        name_server = OurNameServer.begin(processes, folder / "name-server")
        brokers: dict[int, Broker] = {}
        for name in ("a", "b"):
            broker = broker_of(
                BENCHED,
                folder / name,
                name_server.port,
                processes,
                SET,
                controllerAddr=controller.addresses["n0"],
                **SETTINGS,
            )
            brokers[broker.listen_port] = broker
            broker.start()
        return cls(controller, brokers)

    def master(self) -> Broker | None:
        """The master that takes messages, once both are in the sync state set."""
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        said = call(self.controller.member.port, code, json.dumps([SET]).encode())
        found: dict[str, Any] = ((said or {}).get("replicasInfoTable") or {}).get(SET) or {}
        if len(found.get("inSyncReplicas") or ()) < len(self.brokers):
            return None
        master = self.brokers[int(str(found["masterAddress"]).rpartition(":")[2])]
        return master if sent(master) else None

    def outage_s(self) -> float:
        """Kill the master. Returns: seconds until the other broker takes a message."""
        master = wait_for(self.master, "both brokers in sync", timeout_s=PEER_S)
        (other,) = (each for each in self.brokers.values() if each is not master)
        for _ in range(WARM_MESSAGES):
            sent(master)
        assert master.process is not None
        master.process.popen.kill()
        killed_s = time.monotonic()
        wait_for(lambda: sent(other), "another master", timeout_s=PEER_S, poll_s=LOOK_S)
        found = time.monotonic() - killed_s
        master.kill()
        master.begin()
        return found


def sent(broker: Broker) -> bool:
    """Whether the broker has taken a message."""
    fields = {
        "producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)), "flag": "0", "properties": "",
        "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return call(broker.listen_port, SEND_MESSAGE, BODY, fields=fields) is not None


def measure_java(parent: Path, kills: int) -> None:
    """Print the figures."""
    figures = Figures(f"a pair of RocketMQ {BENCHED.version} and their controller", ("answered_s",))
    with workplace(parent) as (folder, processes):
        brokers = JavaSet.make(processes, folder)
        for _ in range(kills):
            figures.add("killed", answered_s=brokers.outage_s())
    figures.show()
