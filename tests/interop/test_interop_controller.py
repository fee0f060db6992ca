"""Java brokers in controller mode under controllers of ours: elections, kills, and mqadmin."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from interop_controllers import HOSTS, SET, SIZES, Controllers, state_of, wait_state
from interop_name_server import Admin, OurNameServer, broker_of
from interop_processes import PEER_S, TEST_S, Processes, wait_for
from interop_remoting import CALL_TIMEOUT_S, call_on
from interop_rocketmq import Broker, Driver
from interop_versions import Peer, beside

from wire.broker.codes import RequestCode as Code

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]


def bodies(driver: Driver, topic: str, count: int) -> Iterator[int]:
    """The numbers of the messages that a consumer reads, without the order of the queues."""
    for read in driver.run("consume", topic, count, 30):
        if "properties" in read:
            yield int(read["properties"]["number"])


@pytest.mark.checklist(41, 44, 45, 46, of="autoswitch")
@beside("rocketmq", "5.5.0")  # 5.3.3 is beside ours there in test_interop_mixed_sets.py
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


@attrs.define
class Replicas:
    """What two brokers of a set say to the controller that leads, on one connection: as long as it
    is open they live.
    """

    sock: socket.socket
    named: dict[str, object]

    @classmethod
    def at(cls, controllers: Controllers, leader: str, name: str) -> Replicas:
        place = (HOSTS[leader], controllers.port)
        sock = socket.create_connection(place, timeout=CALL_TIMEOUT_S)
        return cls(sock, {"clusterName": "interop", "brokerName": name})

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def ask(self, code: Code, body: object = None, **fields: object) -> dict[str, Any]:
        """What the controller answers. It has to lead, and to agree."""
        text = {key: str(value) for key, value in (self.named | fields).items()}
        encoded = b"" if body is None else json.dumps(body).encode()
        answer = call_on(self.sock, code, encoded, text)
        assert answer is not None, f"it refused {code!r} {text}"
        return answer

    def decide(self) -> None:
        """Have all decided that a set needs: ids, a master, and that both are in sync."""
        for key in (1, 2):
            address = f"127.0.0.9:{key}"
            check = f"{address};1"
            self.ask(Code.CONTROLLER_APPLY_BROKER_ID, appliedBrokerId=key, registerCheckCode=check)
            self.ask(Code.CONTROLLER_REGISTER_BROKER, brokerId=key, brokerAddress=address)
            self.ask(
                Code.BROKER_HEARTBEAT,
                brokerId=key,
                brokerAddr=address,
                epoch=0,
                maxOffset=0,
                confirmOffset=0,
                heartbeatTimeoutMills=600_000,
                electionPriority=key,
            )
        self.ask(Code.CONTROLLER_ELECT_MASTER, brokerId=1, designateElect="false")
        both = {"syncStateSet": [1, 2], "syncStateSetEpoch": 1}
        self.ask(Code.CONTROLLER_ALTER_SYNC_STATE_SET, both, masterBrokerId=1, masterEpoch=1)

    def check(self) -> None:
        """It is as `decide` had it decided, but that their master may have been missed since."""
        name = self.named["brokerName"]
        said = self.ask(Code.CONTROLLER_GET_SYNC_STATE_DATA, [name])["replicasInfoTable"][name]
        assert (said["masterBrokerId"], said["masterEpoch"]) == (1, 1)
        assert said["syncStateSetEpoch"] == 2
        assert {each["brokerId"] for each in said["inSyncReplicas"]} == {1, 2}


@pytest.mark.checklist(44, of="autoswitch")
@beside("rocketmq", "5.5.0")
def test_our_controller_in_a_group_of_java_s(
    peer: Peer, tmp_path: Path, processes: Processes
) -> None:
    """Ours follows one of Java's, leads one of Java's, and is led past, each time as the only one
    that can: whoever leads has decisions that the member which just came back has not.
    """
    controllers = Controllers.start(tmp_path / "c", processes, java=("c1", "c2"), peer=peer)
    name_server = OurNameServer.begin(processes, tmp_path / "ns")
    admin = Admin.start(peer, processes, tmp_path / "admin", name_server)
    ours, nodes = "c0", controllers.nodes

    first = controllers.leader(admin)
    (other,) = {"c1", "c2"} - {first}

    def start_ours() -> None:
        nodes[ours].start()
        wait_for(lambda: controllers.answers(ours), "our member at its port", timeout_s=PEER_S)

    start_ours()
    nodes[other].kill()
    with Replicas.at(controllers, first, "set0") as replicas:
        replicas.decide()  # by our acknowledgements
        nodes[first].kill()

    nodes[other].start()
    assert controllers.leader(admin) == ours
    with Replicas.at(controllers, ours, "set0") as replicas:
        replicas.check()
    with Replicas.at(controllers, ours, "set1") as replicas:
        replicas.decide()  # by Java's
        nodes[ours].kill()

    nodes[first].start()
    assert controllers.leader(admin) == other
    for name in ("set0", "set1"):
        with Replicas.at(controllers, other, name) as replicas:
            replicas.check()
    start_ours()
    nodes[first].kill()
    with Replicas.at(controllers, other, "set2") as replicas:
        replicas.decide()
