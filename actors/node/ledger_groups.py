"""The DLedger groups of a node: their parts and trees, and the watches over their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from actors.config import DLedgerGroup
from actors.control import durability_watch
from actors.control.member_link import WatchedGroup
from actors.controller.machine import ControllerView
from actors.dledger.leader_status import LeaderStatus
from actors.env import Env
from actors.node.kind import NodeContext, NodeKind
from actors.node.ledger import LedgerPart
from actors.runtime import ChildSpec, Registry
from actors.state_machine import Machines
from actors.trees.ledger_setup import LedgerSetup, member_notes
from actors.trees.node import GroupTrees


class LedgerGroups:
    """See the module's text; a `kind.NodeGroups`.

    Attributes:
        role_statuses: what this node is in each group.
    """

    def __init__(self, context: NodeContext, groups: tuple[DLedgerGroup, ...]) -> None:
        self._context = context
        self._groups = groups
        self.role_statuses = {group.name: LeaderStatus() for group in groups}
        self._views = {
            group.name: ControllerView(
                unclean=group.controller.elect_unclean_master,
                notifies=group.controller.notify_role_changed,
            )
            for group in groups
            if group.controller is not None
        }

    def parts(self, registry: Registry) -> Mapping[str, LedgerPart]:
        """Implements `NodeGroups`."""
        context = self._context
        return {
            group.name: LedgerPart.of(
                context.links(registry),
                group,
                context.identity,
                self.role_statuses[group.name],
                registry,
                self._views.get(group.name),
            )
            for group in self._groups
        }

    def trees(self, env: Env, registry: Registry, machines: Machines) -> GroupTrees:
        """Implements `NodeGroups`.

        A fifth of a node's imports is for these trees alone, so they are imported here, by nodes
        that have such a group.
        """
        from actors.trees.dledger import ledger_trees

        context = self._context
        notes = (
            {}
            if context.directory is None
            else member_notes(context.config, context.node, context.directory)
        )
        made: Machines = {**machines, **{name: view.make for name, view in self._views.items()}}
        setups = [
            LedgerSetup(
                config=context.config,
                node=context.node,
                group=group,
                env=env,
                registry=registry,
                role_status=self.role_statuses[group.name],
                machine=made.get(group.name),
                controller_view=self._views.get(group.name),
                member_note=notes.get(group.name),
            )
            for group in self._groups
        ]
        return ledger_trees(setups)

    def watched(self, member: str) -> tuple[WatchedGroup, ...]:
        """Return no groups, as DLedger's members learn of each other by their own protocol."""
        return ()

    def watches(self) -> tuple[ChildSpec, ...]:
        """Return a watch over the durability of each other member that can be asked."""
        context = self._context
        return tuple(
            durability_watch.watch_child(
                node=context.node,
                group=group.name,
                member=member,
                answer_timeout_s=context.config.answer_timeout_s,
                role_status=self.role_statuses[group.name],
            )
            for group in self._groups
            for member in group.members
            if durability_watch.is_watched(group) and member != context.node
            if member not in group.java_nodes
        )


def _memory(groups: tuple[DLedgerGroup, ...], node: str) -> Iterator[tuple[str, int]]:
    """Yield bounds on the memory of the connections between members, and of clients'."""
    from actors.controller import session
    from actors.dledger.machine import state_machine_caller
    from actors.dledger.rpc.server import CONNECTIONS_MAX
    from actors.remoting import budget, calling
    from actors.storage.ledger import recent

    for group in groups:
        what = f"{group.name}: committed entries, if a program runs a state machine"
        yield what, state_machine_caller.MAILBOX_BYTES
        peers = len(group.members) - 1
        connections = peers if group.compat else 2 * peers
        if connections:
            yield f"{group.name}: appended last, for a leader's peers", recent.HELD_BYTES_MAX
            what = f"{group.name}: {connections} connections to peers, waiting and unsent"
            yield what, connections * (calling.PENDING_BYTES + calling.UNSENT_BYTES_MAX)
    controllers = {group.port for group in groups if group.controller is not None}
    for port in dict.fromkeys(group.port for group in groups):
        most = session.CONNECTIONS_MAX if port in controllers else CONNECTIONS_MAX
        what = f"port {port}, {most} connections that all send and read the most"
        yield what, budget.memory_bytes(most)


DLEDGER: Final = NodeKind(groups=LedgerGroups, takes_machines=True, memory=_memory)
