"""How a replica of an auto-switch group changes its role, and what it does until that is done."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from replica_set import ReplicaSet, replica_set

from actors.errors import NotStored, OutcomeUnknown
from actors.events import ha, runtime, store
from actors.group_status import GroupStatus
from actors.ha.autoswitch.epoch_keeper import EpochKeeper
from actors.log_types import Receipt
from actors.sim.network import NetworkOptions

SLOW = NetworkOptions(bandwidth_bytes_per_s=20_000.0)


def is_open(status: GroupStatus) -> bool:
    return status.state == "open"


def steps(found: ReplicaSet, node: str) -> Iterator[str]:
    """What a node's actors did, of what a change of the role consists of."""
    for path, event in found.events:
        if not path.startswith(f"/{node}/orders"):
            continue
        name = path.rpartition("/")[2]
        match event:
            case runtime.ActorStopped() if name in ("ha_client", "dispatcher", "store"):
                yield f"{name} stops"
            case store.RecoveryFinished():
                yield "the log's end is found"
            case ha.EpochBegun(epoch=epoch):
                yield f"epoch {epoch} begins"
            case store.DispatchStarted(from_bytes=at, end_bytes=end):
                yield "all is dispatched" if at == end else "dispatches"
            case runtime.ActorStarted() if name in ("group_transfer", "accept_socket"):
                yield f"{name} starts"


async def append(found: ReplicaSet, node: str, body: bytes) -> Receipt:
    """Append it once the node has its lease."""
    with trio.fail_after(60):
        while True:
            try:
                return await found.nodes[node].log("orders").append([body])
            except NotStored:
                await trio.sleep(0.05)


@pytest.mark.checklist(23, of="autoswitch")
async def test_the_order_of_becoming_master(autojump_clock: object) -> None:
    async with replica_set() as found:
        receipt = await found.nodes["n0"].log("orders").append([b"one"])
        await found.until("n1", lambda status: status.acknowledged == receipt.next)
        await trio.sleep(2)  # until the dispatcher has flushed
        found.events.clear()
        await found.elect(2)
        await found.until("n1", is_open)
        assert list(steps(found, "n1")) == [
            "ha_client stops",
            "dispatcher stops",
            "store stops",
            "the log's end is found",
            "epoch 2 begins",
            "all is dispatched",
            "group_transfer starts",
            "accept_socket starts",
        ]
        settings = await found.settings("n1")
        assert (settings["brokerRole"], settings["brokerId"]) == ("SYNC_MASTER", "0")


@pytest.mark.checklist(24, of="autoswitch")
async def test_queue_offsets_go_on_behind_what_nobody_has_confirmed(
    autojump_clock: object,
) -> None:
    async with replica_set() as found:
        log = found.nodes["n0"].log("orders")
        for body in (b"one", b"two"):
            receipt = await log.append([body])
        await found.until("n1", lambda status: status.acknowledged == receipt.next)
        # n1 gets another one, which n0 does not hear of.
        found.world.network.cut("n1", "n0")
        unheard: list[Any] = []

        async def append_unheard() -> None:
            with pytest.raises((OutcomeUnknown, NotStored)):
                await log.append([b"three"])
            unheard.append(None)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_unheard)
            await found.until("n1", lambda status: status.written > receipt.next)
            await found.world.kill_node("n0")
        assert unheard
        await found.until("n1", is_open)
        await append(found, "n1", b"four")
        batch = await found.nodes["n1"].log("orders").read(0)
        assert [(each.body, each.queue_offset) for each in batch.records] == [
            (b"one", 0),
            (b"two", 1),
            (b"three", 2),
            (b"four", 3),
        ]


@pytest.mark.checklist(25, of="autoswitch")
async def test_until_its_epoch_begins_a_master_takes_no_append(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begins = EpochKeeper.on_start, trio.Event()

    async def begin_slowly(epochs: EpochKeeper) -> None:
        begins.set()
        await trio.sleep(5)
        await begin(epochs)

    async with replica_set() as found:
        receipt = await found.nodes["n0"].log("orders").append([b"one"])
        log = found.nodes["n1"].log("orders")
        await found.until("n1", lambda status: status.acknowledged == receipt.next)
        monkeypatch.setattr(EpochKeeper, "on_start", begin_slowly)
        await found.world.kill_node("n0")
        await begins.wait()
        with pytest.raises(NotStored, match="has not opened it yet"):
            await log.append([b"two"])
        await found.until("n1", is_open)
        assert [each.body for each in (await log.read(0)).records] == [b"one"]


@pytest.mark.checklist(26, of="autoswitch")
async def test_appends_that_wait_end_as_their_master_is_deposed(autojump_clock: object) -> None:
    async with replica_set() as found:
        log = found.nodes["n0"].log("orders")
        found.world.network.cut("n1", "n0")  # n1 acknowledges nothing any more
        ended_s: list[float] = []

        async def append_unheard() -> None:
            with pytest.raises(OutcomeUnknown, match="n1 is master of orders in epoch 2"):
                await log.append([b"one"])
            ended_s.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_unheard)
            await found.until("n1", lambda status: status.written > 0)
            await found.elect(2)
        found.world.network.heal_all()
        await found.until("n0", lambda status: status.state == "following")
        assert ended_s


@pytest.mark.checklist(27, of="autoswitch")
async def test_a_change_that_fails_leaves_the_replica_closed_and_is_tried_again(
    autojump_clock: object,
) -> None:
    async with replica_set() as found:
        disk = found.world.node("n1").disk
        disk.faults.fail("write", errno.ENOSPC, path_part="epochFile", times=1 << 30, name="full")
        await found.world.kill_node("n0")
        closed = await found.until("n1", lambda status: "no room" in status.reason)
        assert "epochFileCheckpoint" in closed.reason
        with pytest.raises(NotStored):
            await found.nodes["n1"].log("orders").append([b"one"])
        await trio.sleep(20)
        assert not is_open(await found.status("n1"))
        disk.faults.disarm("full")
        await found.until("n1", is_open)
        await append(found, "n1", b"one")


@pytest.mark.checklist(17, of="autoswitch")
@pytest.mark.parametrize("serves", [True, False])
async def test_half_a_record_at_the_end_goes_before_a_replica_serves_or_follows(
    autojump_clock: object, serves: bool
) -> None:
    """The connection ends in the middle of a record of 20,000 bytes, of which a frame has 4,096."""
    async with replica_set(more="frame_bytes = 4096\n", network=SLOW) as found:
        log = found.nodes["n0"].log("orders")
        first = await log.append([b"one"])
        await found.until("n1", lambda status: status.acknowledged == first.next)

        async def append_unheard() -> None:
            with pytest.raises((OutcomeUnknown, NotStored)):
                await log.append([bytes(20_000)])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_unheard)
            half = await found.until("n1", lambda status: status.written > first.next)
            assert half.written < first.next + 20_000
            await found.world.kill_node("n0")
            await found.world.kill_node("n1")
        if serves:
            await found.start("n1")
            await found.until("n1", is_open)
            second = await append(found, "n1", b"two")
            assert second.first == first.next
        await found.start("n0")
        if not serves:
            await found.start("n1")
        ends = {"n0": -1, "n1": -2}
        for node in ends:
            await found.until(node, lambda status: status.details["in_sync"] == [1, 2])
        with trio.fail_after(60):  # one of them may have been in the set before it follows
            while len(set(ends.values())) > 1:
                await trio.sleep(0.05)
                ends = {node: (await found.status(node)).written for node in ends}
