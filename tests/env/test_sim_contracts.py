"""The same contracts on simulated network and disk."""

from __future__ import annotations

import random

import disk_contract
import network_cases
import network_contract
import pytest
import trio

from actors.sim.disk import SimDisk
from actors.sim.disk.fence import FencedDisk
from actors.sim.network import NetworkOptions, SimNetwork

OPTIONS = {
    "default": NetworkOptions(),
    "late": NetworkOptions(late_send_file=True),
    "narrow": NetworkOptions(window_bytes=1000, fragment_share=0.5),
    "clogged": NetworkOptions(clog_share=0.2, bandwidth_bytes_per_s=20e6),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("case", network_cases.CASES, ids=lambda case: case.__name__)
async def test_simulated_network_keeps_the_contract(
    case: network_contract.Case, options: NetworkOptions, autojump_clock: trio.abc.Clock
) -> None:
    net = SimNetwork(random.Random(case.__name__), options)
    net.add_host("n0", "10.0.0.1", "10.0.0.2")
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data")
    async with trio.open_nursery() as nursery:
        await nursery.start(net.run)
        process = net.open("n0")
        await case(
            network_contract.Kit(
                network=process,
                disk=disk,
                host="10.0.0.1",
                other_host="10.0.0.2",
                folder="/data",
            )
        )
        await trio.sleep(1)
        assert process.ends == {}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("case", disk_contract.CASES, ids=lambda case: case.__name__)
def test_simulated_disk_keeps_the_contract(case: disk_contract.Case) -> None:
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data")
    case(disk_contract.Kit(disk=disk, folder="/data"))


@pytest.mark.parametrize("case", disk_contract.CASES, ids=lambda case: case.__name__)
def test_a_process_sees_its_disk_through_the_fence(case: disk_contract.Case) -> None:
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data")
    fenced = FencedDisk(disk)
    case(disk_contract.Kit(disk=fenced, folder="/data"))
    fenced.fence()
    with pytest.raises(OSError, match="this process was killed"):
        fenced.mkdir("/data/zombie")
    assert not disk.exists("/data/zombie")
