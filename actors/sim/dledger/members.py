"""DLedger groups in a simulated world: every node runs the real tree of each of its groups.

The caller is outside the machines, as in `cluster`: an answer that a dying process still gives is
not heard, and the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from actors.api.handle import NodeIdentity
from actors.config import ClusterConfig, DLedgerGroup
from actors.control.members import MemberLinks
from actors.env.protocols import Env
from actors.errors import Closed, NodeStopped, NotMaster
from actors.log_types import Batch, Offsets
from actors.node.ledger import LedgerPart
from actors.node.status import tree_json
from actors.records import decoded
from actors.runtime import ChildSpec, Registry, SupervisorSpec, System, open_system
from actors.sim.dledger.machine import Did, MachineOptions, SimRegisters
from actors.sim.history import MachineDid
from actors.sim.machines import SimMachines, sim_config
from actors.sim.world import World
from actors.storage.files.room import room_to_start
from actors.storage.ledger import store_messages
from actors.storage.node.identity import NodeDirectory, open_directory
from actors.trees.dledger import group_tree
from actors.trees.ledger_setup import LedgerSetup, member_notes

DATA_FILE_BYTES: Final = 16 << 10
INDEX_FILE_BYTES: Final = 4 << 10
"""Files so small that a short run fills several of both kinds."""
FIRST_PORT: Final = 20_911
FRESH_BYTES: Final = 1 << 20
APPLIED_LOOK_S: Final = 0.001


def ledger_config(nodes: int, groups: dict[str, dict[str, Any]]) -> ClusterConfig:
    """Make the configuration of a cluster of DLedger groups.

    Args:
        nodes: how many nodes it has.
        groups: the groups' settings by name, as in `[groups.NAME]`; all nodes are members of each.
    """
    names = tuple(f"n{number}" for number in range(nodes))
    small = {"data_file_bytes": DATA_FILE_BYTES, "index_file_bytes": INDEX_FILE_BYTES}
    return sim_config(
        nodes,
        (
            DLedgerGroup(
                name=name, members=names, **{**small, "port": FIRST_PORT + number, **settings}
            )
            for number, (name, settings) in enumerate(groups.items())
        ),
    )


@attrs.define(eq=False)
class SimMember:
    """The process on one node: the trees of its groups, and what a node has in front of each.

    Attributes:
        setups: the setup of each group.
        parts: the part of each group, which takes appends and reads.
        machines: the state machine of each group that has one.
    """

    name: str
    system: System
    setups: dict[str, LedgerSetup]
    parts: dict[str, LedgerPart]
    machines: dict[str, SimRegisters] = attrs.field(factory=dict)

    async def status(self) -> dict[str, Any]:
        """Return the member's status in the form of a node's."""
        return {
            "groups": {name: (await part.status()).plain() for name, part in self.parts.items()}
        }

    async def tree(self) -> dict[str, Any]:
        """Return the present supervision tree, ready for JSON."""
        await trio.lowlevel.checkpoint()
        return tree_json(self.system.tree())

    async def offsets(self, group: str) -> Offsets:
        """Return the member's indexes in a group, and the leader as far as it knows."""
        return await self.parts[group].wait_offsets(None)

    async def fresh_read(self, group: str, start: int, max_bytes: int) -> Batch:
        """Read from a leader, which proves that it leads. Raises: NotMaster: it does not."""
        role_status = self.setups[group].role_status
        if not role_status.is_open:
            raise NotMaster(f"{self.name} does not lead {group}", hint=role_status.leader or None)
        return decoded(await self.parts[group].read(start, max_bytes, True))

    async def fresh_value(self, group: str, key: str) -> int | None:
        """Return a value from a leader's state machine, once the leader has proved that it leads,
        and the machine has applied all that was committed by then.

        Raises: NotMaster: the member does not lead.
        """
        machine = self.machines[group]
        last = machine.state.last
        start, acknowledged = last + 1, last + 2
        while start < acknowledged:
            batch = await self.fresh_read(group, start, FRESH_BYTES)
            if not batch.records:
                break
            last, start = batch.records[-1].position, batch.next
            acknowledged = batch.acknowledged
        while machine.state.last < last:  # noqa: ASYNC110 - nothing signals that it has applied more
            await trio.sleep(APPLIED_LOOK_S)
        return machine.state.read(key)

    async def drop_below(self, group: str, index: int) -> None:
        """Delete the log up to an entry, as a state machine with a snapshot of it does."""
        path = self.setups[group].paths.store
        await self.system.ref(path).tell(store_messages.DropBelow(index=index))


class SimGroups(SimMachines[SimMember]):
    """The members of all groups of a configuration.

    Args:
        machine: the options of the state machine of every member, in every group; None: they have
            none. The other arguments are those of `SimMachines`.

    Attributes:
        machines: by node and group, the newest state machine, which outlives its member so that it
            can be judged.
        on_machine: called with everything that a state machine does.
        on_end: called with each node that is about to be killed, or to lose its power.
    """

    def __init__(
        self,
        world: World,
        config: ClusterConfig,
        *,
        skews_ms: Mapping[str, int] | None = None,
        machine: MachineOptions | None = None,
    ) -> None:
        super().__init__(world, config, skews_ms=skews_ms)
        self.machines: dict[tuple[str, str], SimRegisters] = {}
        self.on_machine: list[Callable[[MachineDid], None]] = []
        self.on_end: Callable[[str], None] = lambda name: None
        self._machine = machine

    @property
    def with_machines(self) -> bool:
        """Whether the groups have state machines."""
        return self._machine is not None

    async def kill(self, name: str) -> None:
        self.on_end(name)
        await super().kill(name)

    async def power_loss(self, name: str) -> None:
        self.on_end(name)
        await super().power_loss(name)

    def leads(self, name: str, group: str) -> bool:
        """Whether a running member takes appends as leader."""
        member = self.running(name)
        return member is not None and member.setups[group].role_status.is_open

    def leader(self, group: str) -> str | None:
        """Return a running member that believes that it leads; None if none does."""
        members = self.config.groups[group].members
        return next((name for name in members if self.leads(name, group)), None)

    def system(self, node: SimMember) -> System:
        return node.system

    def main(self, name: str) -> Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]:
        async def main(env: Env, task_status: trio.TaskStatus[Any]) -> None:
            setups: dict[str, LedgerSetup] = {}
            parts: dict[str, LedgerPart] = {}
            machines: dict[str, SimRegisters] = {}
            directory = self._directory(env, name)
            notes = member_notes(self.config, name, directory)

            def build(registry: Registry) -> SupervisorSpec:
                links = MemberLinks(name, registry.ref, self.config.answer_timeout_s)
                groups = self.config.ledger_groups_of(name)
                identity = NodeIdentity(
                    cluster=self.config.name,
                    node=name,
                    boot=directory.boot,
                    groups=tuple(group.name for group in groups),
                )
                for group in groups:
                    setup = setups[group.name] = LedgerSetup(
                        config=self.config,
                        node=name,
                        group=group,
                        env=env,
                        registry=registry,
                        member_note=notes[group.name],
                        machine=self._maker(name, group.name, machines),
                    )
                    parts[group.name] = LedgerPart.of(
                        links, group, identity, setup.role_status, registry
                    )
                return SupervisorSpec(
                    intensity=0,
                    children=tuple(
                        ChildSpec(name=each, start=group_tree(setup))
                        for each, setup in setups.items()
                    ),
                )

            opened = open_system(
                name,
                build,
                rng=env.rng,
                events=env.events,
                tell_hook=env.tell_hook,
                log_crashes=False,
            )
            try:
                async with opened as system:
                    self.began(name, SimMember(name, system, setups, parts, machines))
                    task_status.started(system)
                    await system.wait_ended()
            finally:
                directory.close()
                self.ended(name)

        return main

    def _directory(self, env: Env, name: str) -> NodeDirectory:
        """Open the folder with what a node knows of itself, apart from its groups.

        Raises: NoRoomToStart.
        """
        config, groups = self.config, self.config.ledger_groups_of(name)
        path = config.node_dir(name)
        with room_to_start(env.disk, path):
            return open_directory(
                env.disk,
                path,
                cluster=config.name,
                node=name,
                groups=[group.name for group in groups],
                settings={},
                ledgers=groups,
            )

    def _maker(
        self, name: str, group: str, machines: dict[str, SimRegisters]
    ) -> Callable[[], SimRegisters] | None:
        options, boot = self._machine, self.world.node(name).boots
        if options is None:
            return None

        def did(what: Did, indexes: tuple[int, ...], machine: SimRegisters) -> None:
            seen = MachineDid(
                at_s=trio.current_time(),
                node=name,
                boot=boot,
                group=group,
                what=what,
                indexes=indexes,
                last=machine.state.last,
                chain=machine.state.chain,
            )
            for watch in self.on_machine:
                watch(seen)

        def make() -> SimRegisters:
            machine = SimRegisters(options, did)
            self.machines[name, group] = machines[group] = machine
            return machine

        return make


async def committed_everywhere(groups: SimGroups, group: DLedgerGroup, least: int) -> str:
    """Check whether all members run, follow the same leader, and hold and show the same, up to
    `least` at least.

    Returns: what is missing, for people; "" if nothing is.
    """
    found: dict[str, Offsets] = {}
    for name in group.members:
        try:
            found[name] = await groups.heard(name, lambda member: member.offsets(group.name))
        except (Closed, NodeStopped) as error:
            return f"{name}: {error}"
    states = "; ".join(
        f"{name}: written {each.written}, synced {each.synced}, committed {each.acknowledged},"
        f" leader {each.master}"
        for name, each in found.items()
    )
    ends = [(each.written, each.acknowledged, each.master) for each in found.values()]
    if ends != ends[:1] * len(ends):
        return states
    written, committed, leader = ends[0]
    whole = written == committed and committed > least and leader is not None
    synced = group.durability == "written" or all(
        each.synced == each.written for each in found.values()
    )
    if not (whole and synced):
        return states
    at = {
        name: one.state.last for (name, each), one in groups.machines.items() if each == group.name
    }
    equal = not at or (len(set(at.values())) == 1 and min(at.values()) >= least)
    return "" if equal else f"state machines are at {at}"
