"""What the trees of a replica hand to its actors: of the cluster file, and of the role."""

from __future__ import annotations

import random
from typing import Any

import attrs
from replica_set import TEXT, replica_set

from actors.broker.core.replica import LogState, Replica
from actors.config import loads
from actors.config.bounds import RECONNECT_FIRST_S
from actors.env import Env
from actors.env.local_disk import LocalDisk
from actors.env.protocols import Address
from actors.env.tcp import TcpNetwork
from actors.log_types import ToldRole
from actors.node.autoswitch import AutoSwitchPart
from actors.runtime import LazySpec, Registry, SupervisorSpec
from actors.service import build_tree, new_node
from actors.storage.derived.small_files import read_checkpoint
from actors.storage.layout import StoreLayout
from actors.trees.autoswitch import ELECTED_FIRST_S
from wire.broker.controller import LEAST_PRIORITY
from wire.files.broker_identity import BrokerIdentity


def child(spec: SupervisorSpec, *names: str) -> Any:
    """What starts the actor that has this path below a supervisor."""
    found: Any = spec
    for name in names:
        (start,) = [each.start for each in found.children if each.name == name]
        found = start.build() if isinstance(start, LazySpec) else start
    return found


def tree(node: str, more: str = "") -> tuple[SupervisorSpec, AutoSwitchPart]:
    """The tree of a node that does not run, and its part."""
    config = loads(TEXT + more, "/set.toml")
    env = Env(
        network=TcpNetwork(),
        disk=LocalDisk(),
        rng=random.Random(1),
        wall_clock_ms=lambda: 0,
        events=lambda *event: None,
    )
    found, sink = new_node(config, node, env, None)
    registry = Registry(rng=random.Random(1), event_sink=lambda *event: None)
    found.attach_groups(registry)
    spec = build_tree(found, sink, env, registry)
    part = found.part("orders")
    assert isinstance(part, AutoSwitchPart)
    return spec, part


def test_a_heartbeat_has_the_priority_of_the_file() -> None:
    found = {}
    for node in ("n0", "n1"):
        spec, _ = tree(node, "election_priority = { n1 = 7 }\n")
        settings = child(spec, "replicas", "orders", "replicas_manager")().settings
        given = BrokerIdentity(cluster="C", broker="orders", broker_id=1)
        log = LogState(epoch=-1, max_offset=0, confirm_offset=0)
        beat = Replica(settings, 0, given).heartbeat(log)
        assert beat is not None
        found[node] = beat.election_priority
    assert found == {"n0": LEAST_PRIORITY, "n1": 7}


def test_a_slave_knows_in_which_epoch_its_master_was_named() -> None:
    spec, part = tree("n0")
    part.owned.told = ToldRole(epoch=4, master=2, address="10.0.0.3:10911", in_sync=(2,))
    part.owned.broker_id, part.owned.master = 1, "n1"
    part.owned.log_at = Address("10.0.0.3", 10912)
    part.epochs.store = attrs.make_class("Store", [])()
    settings = child(spec, "orders", "ha_client")()._settings
    assert settings.epochs.told_epoch == 4
    assert settings.reconnect_first_s == ELECTED_FIRST_S < RECONNECT_FIRST_S


async def test_what_readers_were_shown_is_kept_by_an_ordered_stop(autojump_clock: object) -> None:
    async with replica_set() as found:
        receipt = await found.nodes["n0"].log("orders").append([b"one"])
        await found.until("n1", lambda status: status.acknowledged == receipt.next)
        for node in ("n0", "n1"):
            await found.world.stop_node(node)
            layout = StoreLayout(f"/data/{node}/groups/orders")
            kept = read_checkpoint(found.world.node(node).disk, layout.checkpoint)
            assert kept.confirm_offset == receipt.next


async def test_a_master_names_the_nodes_in_sync(autojump_clock: object) -> None:
    """And says the id where it knows no name, as mqadmin does."""
    async with replica_set() as found:
        status = await found.until("n0", lambda status: status.leads)
        assert "in sync: n0, n1" in status.remarks
        part = found.nodes["n0"].part("orders")
        assert isinstance(part, AutoSwitchPart)
        assert part.owned.told is not None
        part.owned.told = attrs.evolve(part.owned.told, in_sync=(1, 2, 9))
        assert "in sync: n0, n1, id 9" in (await found.status("n0")).remarks
        part.replica.registered = {}
        assert "in sync: n0, id 2, id 9" in (await found.status("n0")).remarks, "not heard of yet"
