"""One group on a running node: where its actors are, and what the node did for it."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.config import ClassicGroup
from actors.errors import Closed, NotEnoughReplicas, NotMaster
from actors.ha import connection_state, role_messages
from actors.ha.core.role_effects import Fence, Role, RoleState
from actors.ha.role_board import RoleBoard
from actors.runtime import ActorRef, Registry
from actors.storage import pull_service, store
from actors.trees.classic import GroupPaths

# Closed for a moment only: the master asks its members, or another one is about to take over.
PASSING: Final = (Fence.HANDING_OVER, Fence.SUPERSEDED, None)


@attrs.define
class GroupCounts:
    """What this node did for one group since its start, in records."""

    appended: int = 0
    acknowledged: int = 0
    outcome_unknown: int = 0
    refused: int = 0

    @property
    def unanswered(self) -> int:
        return self.appended - self.acknowledged - self.outcome_unknown - self.refused


@attrs.frozen
class GroupPart:
    """See the module's text.

    Attributes:
        file_group: as the cluster file has it.
        board: what this node is in the group.
    """

    file_group: ClassicGroup
    node: str
    board: RoleBoard
    store: ActorRef[store.Message]
    pull: ActorRef[pull_service.Message]
    connection_state: ActorRef[connection_state.Message]
    keeper: ActorRef[role_messages.Message]
    counts: GroupCounts = attrs.Factory(GroupCounts)
    _led: dict[str, ClassicGroup] = attrs.Factory(dict)  # by master: at most its members

    @staticmethod
    def of(group: ClassicGroup, node: str, board: RoleBoard, registry: Registry) -> GroupPart:
        paths = GroupPaths(f"/{node}/{group.name}")
        return GroupPart(
            group,
            node,
            board,
            registry.ref(paths.store),
            registry.ref(paths.pull_service),
            registry.ref(paths.connection_state),
            registry.ref(paths.role),
        )

    @property
    def is_master(self) -> bool:
        """Whether this node is the group's master, open or not."""
        return self.board.view.role is Role.MASTER

    @property
    def master(self) -> str:
        """The group's master, as far as this node acts."""
        return self.board.view.master

    @property
    def group(self) -> ClassicGroup:
        """The group as led by its present master; every append and read looks at it."""
        master = self.board.view.master
        led = self._led.get(master)
        if led is None:
            led = self._led[master] = self.file_group.led_by(master)
        return led

    async def wait_open(self) -> None:
        """Return once appends are taken here, within the time that an append may wait.

        Raises: NotMaster, NotEnoughReplicas, Closed. Nothing was written.
        """
        name, board = self.file_group.name, self.board
        if board.is_open and not self.store.alive:
            raise Closed(f"{self.node} has no log of {name} open")
        with trio.move_on_after(self.file_group.slave_timeout_s):
            while not board.is_open:
                view = board.view
                if view.role is Role.SLAVE:
                    raise NotMaster(f"{self.node} is a slave of {name}", hint=view.master)
                if view.state is RoleState.FENCED and view.fence not in PASSING:
                    raise NotEnoughReplicas(f"{self.node} is fenced in {name}: {view.reason}")
                await board.wait_changed(view)
            return
        reason = board.view.reason or "has not opened it yet"
        raise NotEnoughReplicas(f"{self.node} takes no appends of {name}: {reason}")
