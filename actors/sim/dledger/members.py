"""DLedger groups in a simulated world: on every node runs the real tree of each of its groups.

Who calls sits outside the machines, as in `cluster`: what a dying process still answers is not
heard, and the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import attrs
import trio

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.env.protocols import Env
from actors.errors import Closed, NodeStopped, NotMaster, TriologError
from actors.log_types import Batch, Offsets
from actors.node.ledger import LedgerPart
from actors.node.status import tree_json
from actors.runtime import ChildSpec, Registry, SupervisorSpec, System, open_system
from actors.sim.machines import DATA_DIR, SimMachines
from actors.storage.dledger import store
from actors.trees.dledger import LedgerPlace, group_tree

R = TypeVar("R")

DATA_FILE_BYTES: Final = 16 << 10
INDEX_FILE_BYTES: Final = 4 << 10
"""Files so small that a short run rolls both kinds over."""
FIRST_PORT: Final = 20_911


def ledger_config(nodes: int, groups: dict[str, dict[str, Any]]) -> ClusterConfig:
    """A cluster of DLedger groups.

    Args:
        nodes: how many.
        groups: by name, their settings as in `[groups.NAME]`; all nodes are members of each.
    """
    names = tuple(f"n{number}" for number in range(nodes))
    small = {"data_file_bytes": DATA_FILE_BYTES, "index_file_bytes": INDEX_FILE_BYTES}
    config = ClusterConfig(
        name="sim",
        data_dir=DATA_DIR,
        nodes={name: f"10.0.0.{number + 1}" for number, name in enumerate(names)},
        groups={
            name: DLedgerGroup(
                name=name, members=names, **{**small, "port": FIRST_PORT + number, **settings}
            )
            for number, (name, settings) in enumerate(groups.items())
        },
        api_port=None,
    )
    validate(config)
    return config


@attrs.define(eq=False)
class SimMember:
    """What runs on one node: its groups' trees, and what a node has in front of each.

    Attributes:
        places: by group.
        parts: by group; they take appends and reads.
    """

    name: str
    system: System
    places: dict[str, LedgerPlace]
    parts: dict[str, LedgerPart]

    async def status(self) -> dict[str, Any]:
        """As a node's."""
        return {"groups": {name: await part.status() for name, part in self.parts.items()}}

    async def tree(self) -> dict[str, Any]:
        """The supervision tree as it is now, ready for JSON."""
        await trio.lowlevel.checkpoint()
        return tree_json(self.system.tree())

    async def offsets(self, group: str) -> Offsets:
        """Indexes: how far the member is, and who leads as far as it knows."""
        return await self.parts[group].wait_offsets(None)

    async def fresh_read(self, group: str, start: int, max_bytes: int) -> Batch:
        """Of a leader, which proves that it is one. Raises: NotMaster."""
        board = self.places[group].board
        if not board.is_open:
            raise NotMaster(f"{self.name} does not lead {group}", hint=board.leader or None)
        return await self.parts[group].read(start, max_bytes, True)

    async def drop_below(self, group: str, index: int) -> None:
        """Let the log go up to an entry, as a state machine with a snapshot of it does."""
        path = self.places[group].paths.store
        await self.system.ref(path).tell(store.DropBelow(index=index))


class SimGroups(SimMachines[SimMember]):
    """The members of all groups of a configuration."""

    def leads(self, name: str, group: str) -> bool:
        """Whether a running member takes appends as leader."""
        member = self.running(name)
        return member is not None and member.places[group].board.is_open

    def leader(self, group: str) -> str | None:
        """Some running member that believes to lead; None: none does."""
        members = self.config.groups[group].members
        return next((name for name in members if self.leads(name, group)), None)

    async def heard(self, name: str, call: Callable[[SimMember], Awaitable[R]]) -> R:
        """What a node answers, if it lives to be heard.

        Raises: what `call` raises; Closed: it is off; NodeStopped: it died before it answered.
        """
        process = self.process(name)
        try:
            answer = await call(process.node)
        except TriologError as error:
            raise process.death() or error from error
        death = process.death()
        if death is not None:
            raise death
        return answer

    def main(self, name: str) -> Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]:
        async def main(env: Env, task_status: trio.TaskStatus[Any]) -> None:
            places: dict[str, LedgerPlace] = {}
            parts: dict[str, LedgerPart] = {}

            def build(registry: Registry) -> SupervisorSpec:
                for group in self.config.ledger_groups_of(name):
                    place = places[group.name] = LedgerPlace(
                        config=self.config, node=name, group=group, env=env, registry=registry
                    )
                    parts[group.name] = LedgerPart.of(
                        self.config, env.network, group, name, place.board, registry
                    )
                return SupervisorSpec(
                    intensity=0,
                    children=tuple(
                        ChildSpec(name=each, start=group_tree(place))
                        for each, place in places.items()
                    ),
                )

            opened = open_system(
                name, build, rng=env.rng, events=env.events, tell_hook=env.tell_hook
            )
            try:
                async with opened as system:
                    self.began(name, SimMember(name, system, places, parts))
                    task_status.started(system)
                    await system.wait_ended()
            finally:
                self.ended(name)

        return main


async def committed_everywhere(groups: SimGroups, group: DLedgerGroup, least: int) -> str:
    """Whether all members run, follow one of them, hold and show the same, up to `least` at least.

    Returns: what is missing; "" if nothing is.
    """
    found: dict[str, Offsets] = {}
    for name in group.members:
        try:
            found[name] = await groups.heard(name, lambda member: member.offsets(group.name))
        except (Closed, NodeStopped) as error:
            return f"{name}: {error}"
    told = "; ".join(
        f"{name}: written {each.written}, synced {each.synced}, committed {each.acknowledged},"
        f" leader {each.master}"
        for name, each in found.items()
    )
    ends = [(each.written, each.acknowledged, each.master) for each in found.values()]
    if ends != ends[:1] * len(ends):
        return told
    written, committed, leader = ends[0]
    whole = written == committed and committed > least and leader is not None
    synced = group.durability == "written" or all(
        each.synced == each.written for each in found.values()
    )
    return "" if whole and synced else told
