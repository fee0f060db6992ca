"""Java brokers in controller mode under controllers of ours: elections, kills, and mqadmin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop_controllers import SET, SIZES, Controllers, state_of, wait_state
from interop_name_server import Admin, OurNameServer, broker_of
from interop_processes import TEST_S, Processes
from interop_rocketmq import Broker, Driver
from interop_versions import Peer, beside

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
