"""A master's lease: it takes appends from the moment that a controller has answered."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from replica_set import ReplicaSet, replica_set

from actors.broker.replicas_manager import RoleTold
from actors.errors import NotEnoughReplicas
from actors.events import ha, roles
from actors.ha.autoswitch.role_owner import NO_LEASE
from actors.node.autoswitch import AutoSwitchPart
from wire.broker import controller as said


def part_of(found: ReplicaSet, node: str) -> AutoSwitchPart:
    part = found.nodes[node].part("orders")
    assert isinstance(part, AutoSwitchPart)
    return part


def told(found: ReplicaSet, kind: type, node: str) -> list[Any]:
    return [
        event
        for path, event in found.events
        if isinstance(event, kind) and path.startswith(f"/{node}/")
    ]


async def leased(part: AutoSwitchPart) -> None:
    while not part.has_lease:  # noqa: ASYNC110
        await trio.sleep(0.001)


async def test_a_master_whose_lease_is_back_takes_appends_at_once(autojump_clock: object) -> None:
    async with replica_set() as found:
        log, part = found.nodes["n0"].log("orders"), part_of(found, "n0")
        await trio.sleep(5)  # a poll has told the set: no other news comes with the lease
        await found.world.kill_node("c0")
        await trio.sleep(15)
        assert not part.has_lease
        with pytest.raises(NotEnoughReplicas, match="no controller has answered in time"):
            await log.append([b"refused"])
        status = await found.status("n0")
        assert (status.leads, status.is_open) == (True, False)
        assert status.troubles[0].startswith("NO LEASE: it acknowledges nothing until")
        await found.start("c0")
        await leased(part)
        await trio.sleep(0.001)  # to the store
        await log.append([b"taken"])
        status = await found.status("n0")
        assert (status.is_open, status.troubles) == (True, ())
        assert told(found, ha.LeaseChanged, "n0") == [
            ha.LeaseChanged(epoch=1, holds=holds) for holds in (True, False, True)
        ]


async def test_a_role_is_told_as_it_is_given_and_as_it_is_followed(
    autojump_clock: object,
) -> None:
    async with replica_set() as found:
        await found.nodes["n0"].promote("orders", "n1", force=False)
        await found.until("n0", lambda status: status.state == "following")
        assert told(found, ha.RoleGiven, "n0") == [
            ha.RoleGiven(role="master", epoch=1, master="n0"),
            ha.RoleGiven(role="slave", epoch=2, master="n1"),
        ]
        (follows,) = told(found, roles.SlaveVerified, "n0")
        assert (follows.master, follows.number, follows.end_bytes) == ("n1", 2, 0)


async def test_a_new_master_is_open_once_a_controller_has_answered(autojump_clock: object) -> None:
    async with replica_set() as found:
        part = part_of(found, "n1")
        await found.world.kill_node("c0")
        await trio.sleep(1)  # what was on its way is gone
        mine = said.RoleChange(master_address="10.0.0.3:10911", master_broker_id=2, master_epoch=2)
        part.manager.post(RoleTold(mine, said.SyncStateSet((1, 2), 2)))
        status = await found.until("n1", lambda status: status.reason == NO_LEASE)
        assert (status.state, status.leads, status.is_open) == ("asking", True, False)
        assert part.epochs.last_epoch == 2  # the role is taken
        with pytest.raises(NotEnoughReplicas, match=NO_LEASE):
            await found.nodes["n1"].log("orders").append([b"refused"])


async def test_an_append_waits_for_the_first_lease(autojump_clock: object) -> None:
    async with replica_set() as found:
        await found.nodes["n0"].promote("orders", "n1", force=False)
        receipt = await found.nodes["n1"].log("orders").append([b"taken"])
        await found.nodes["n1"].promote("orders", "n0", force=False)
        again = await found.nodes["n0"].log("orders").append([b"taken"])
        assert again.first == receipt.next
