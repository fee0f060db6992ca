"""This node's role in a classic group, and the calls that change it; a base of `ClassicPart`.

A promotion is carried out by whichever member is asked for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.handle import NodeIdentity
from actors.broker.registrar import RegistrationView
from actors.config import ClassicGroup, ClusterConfig
from actors.control.member_session import LOST, lost_text
from actors.control.members import GroupMembers, MemberLinks
from actors.control.promotion import Coordinator
from actors.epochs import Kind, compare
from actors.errors import Closed
from actors.ha import connection_state, role_messages
from actors.ha.core.promotion import Wish
from actors.ha.core.role_effects import Role, RoleView
from actors.ha.role_parts import TOKEN_MAX
from actors.ha.role_status import RoleStatus
from actors.log_types import Claim, GroupState, Offsets
from actors.node.part import STATE_LOOK_S, GroupCounts, Part, asked
from actors.runtime import ActorRef, ReplyTo
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.commitlog.store_messages import LogRange
from actors.storage.dispatch.derived_scrubber import GetMended
from actors.storage.dispatch.dispatcher_messages import Rederive
from actors.storage.files.room import NO_ROOM
from actors.storage.scrub import mending
from actors.storage.scrub.scrubber_messages import GetScrubbed, Look
from wire.api import frames

R = TypeVar("R")

STATE_TIMEOUT_S: Final = 5.0
NOT_LOOKED = Offsets(min=0, written=0, synced=0, acknowledged=0, master=None)
NO_RANGE = LogRange(min_bytes=0, written_bytes=0, synced_bytes=0, segment_bytes=0, folder="")


@attrs.define(eq=False, kw_only=True)
class ClassicMember(Part):
    """See the module's text.

    Attributes:
        file_group: the group as the cluster file has it.
        role_status: what this node is in the group.
        registrations: the state of its registrations at name servers.
        repairing: see `Part`.
    """

    config: ClusterConfig
    identity: NodeIdentity
    links: MemberLinks
    rng: random.Random
    file_group: ClassicGroup
    role_status: RoleStatus
    registrations: RegistrationView
    store: ActorRef[store_messages.Message]
    pull: ActorRef[pull_service.Message]
    state: ActorRef[connection_state.Message]
    keeper: ActorRef[role_messages.Message]
    scrubber: ActorRef[mending.Message | GetScrubbed | Look]
    dispatcher: ActorRef[Rederive]
    derived_scrubber: ActorRef[GetMended]
    counts: GroupCounts = attrs.Factory(GroupCounts)
    repairing: str = ""

    how_it_is_led: ClassVar[str] = "`promote` changes its master"

    @property
    def node(self) -> str:
        """This node's name."""
        return self.identity.node

    @property
    def is_open(self) -> bool:
        """Implements `Part`."""
        return self.role_status.is_open

    @property
    def name(self) -> str:
        return self.file_group.name

    @property
    def is_master(self) -> bool:
        """Whether this node is the group's master, open or not."""
        return self.role_status.view.role is Role.MASTER

    @property
    def master(self) -> str:
        """The master by which this node acts."""
        return self.role_status.view.master

    @property
    def leader(self) -> str:
        """Implements `Part`."""
        return self.role_status.view.master

    # ---- its part, and what changes it ----

    async def group_state(self) -> GroupState:
        """Implements `NodeHandle.group_state`."""
        deadline_s = trio.current_time() + STATE_TIMEOUT_S
        while True:
            view = self.role_status.view
            try:
                offsets = await self.wait_offsets(None)
                held = await asked(
                    self.node,
                    self.store,
                    lambda reply: store_messages.GetRange(reply_to=reply, looks=True),
                    store_messages.LogRange,
                )
            except Closed:
                if trio.current_time() >= deadline_s:
                    raise
            else:
                if _same(self.role_status.view, view):  # else the range may be older than the part
                    return self._state(held, offsets)
            await trio.sleep(STATE_LOOK_S)

    async def wait_group_state(self, known: GroupState | None) -> GroupState:
        """Implements `NodeHandle.wait_group_state`."""
        role_status = self.role_status
        while known is not None and _is_as_known(role_status.view, known):
            await role_status.wait_changed(role_status.view)
        return await self.group_state()

    async def fence(self, claim: Claim, on: bool) -> GroupState:
        """Implements `NodeHandle.fence`."""
        await self._change(lambda reply: role_messages.Fence(claim=claim, on=on, reply_to=reply))
        return await self.group_state()

    async def record(self, number: int, master: str, token: int, force: bool) -> GroupState:
        """Implements `NodeHandle.record`."""
        await self._change(
            lambda reply: role_messages.Record(
                number=number, master=master, token=token, force=force, reply_to=reply
            ),
        )
        try:
            return await self.group_state()
        except Closed:
            if not self.waits_for_room:
                raise
            return self._state(NO_RANGE, NOT_LOOKED)

    async def resync(self) -> dict[str, Any]:
        """Implements `NodeHandle.resync`."""
        group, node = self.name, self.node
        if self.is_master:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, f"{node} is the master of {group}")
        said = await self._ask_master()
        own = await self.group_state()
        found = compare(own.history, own.written, said.history, said.written)
        result = {"group": group, "node": node, "master": said.node, "end_bytes": own.written}
        if found.kind is Kind.FITS:
            return {**result, "cut_bytes": None}
        if found.kind is Kind.AHEAD:
            text = f"{node} goes on where {said.node} ends, in the same epoch: ask again"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        cut_bytes = found.consistent_bytes if found.consistent_bytes > own.min else 0
        await self._change(
            lambda reply: role_messages.Resync(
                number=said.number, cut_bytes=cut_bytes, reply_to=reply
            ),
        )
        return {**result, "cut_bytes": cut_bytes}

    async def promote(self, node: str | None, force: bool) -> dict[str, Any]:
        """Implements `NodeHandle.promote`."""
        found = self.file_group
        java = found.java_nodes
        wish = Wish(
            group=self.name,
            members=tuple(each for each in found.members if each not in java),
            java=java,
            file_master=found.master,
            counting=found.counting_nodes,
            copies=found.sure_copies,
            synced=found.durability == "synced",
            node=node,
            force=force,
        )
        members = GroupMembers(own=self, links=self.links, group=self.name)
        who, token = self.node, self.rng.randint(1, TOKEN_MAX)
        return await Coordinator(wish, members, self.config.drain_timeout_s, who, token).run()

    async def _ask_master(self) -> GroupState:
        """Return the master's present state, by its own answer.

        Raises: RequestRefused: it does not answer, is not open, or is a Java broker.
        """
        group, master = self.file_group, self.master
        if master in group.java_nodes:
            text = f"{master} is a Java broker: it does not tell what its log holds"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        try:
            said = await self.links.group_state(master, group.name)
        except LOST as error:
            text = f"{master} does not answer: {lost_text(error)}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error
        if not said.opened or said.number != self.role_status.view.number:
            text = (
                f"{master} has not opened {group.name} by promotion {self.role_status.view.number}"
            )
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        return said

    async def _change(self, make: Callable[[ReplyTo[role_messages.Done]], Any]) -> None:
        done = await asked(self.node, self.keeper, make, role_messages.Done)
        if done.refused:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, f"{self.node}: {done.refused}")

    def _state(self, held: LogRange, offsets: Offsets) -> GroupState:
        identity, view = self.identity, self.role_status.view
        return GroupState(
            cluster=identity.cluster,
            node=identity.node,
            boot=identity.boot,
            group=self.name,
            role=view.role.value,
            state=view.state.value,
            **{name: getattr(view, name) for name in (*_OF_THE_PART, "high_water", "claimed")},
            min=held.min_bytes,
            written=held.written_bytes,
            synced=held.synced_bytes,
            acknowledged=offsets.acknowledged,
            unanswered=self.counts.unanswered,
            no_room=held.no_room_soon,
        )

    # ---- offsets ----

    async def _watch(self, *, known: Offsets | None = None, above: int = -1) -> Offsets:
        return await self._pulled(
            lambda reply: pull_service.WatchOffsets(known=known, above=above, reply_to=reply),
            Offsets,
        )

    async def _pulled(self, make: Callable[[ReplyTo[R]], pull_service.Message], kind: type[R]) -> R:
        """Ask the pull service. Raises: Closed; it names the reason if the tree waits for room."""
        try:
            return await asked(self.node, self.pull, make, kind)
        except Closed as error:
            if not self.waits_for_room:
                raise
            raise Closed(
                f"{self.node}: {self.name} opens: {self.role_status.view.reason}"
            ) from error

    @property
    def waits_for_room(self) -> bool:
        """Whether the group waits for room on the disk; its tree may not run then."""
        return self.role_status.view.reason.startswith(NO_ROOM)


_OF_THE_PART: Final = (
    *("reason", "opened", "number", "master", "history", "forgot", "damage", "forced"),
)
"""The fields beside role and state that `RoleView` and `GroupState` have under the same name."""


def _same(view: RoleView, other: RoleView) -> bool:
    """Return whether both views are of the same role; high-water marks and claims may differ."""
    return attrs.evolve(view, high_water=0, claimed=0) == attrs.evolve(
        other, high_water=0, claimed=0
    )


def _is_as_known(view: RoleView, known: GroupState) -> bool:
    own = attrgetter(*_OF_THE_PART)
    return (view.role.value, view.state.value, *own(view)) == (known.role, known.state, *own(known))
