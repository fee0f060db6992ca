"""This node's part in a group whose log is a commit log, whoever says which node is master.

A base of the parts of such modes: appends, reads and looks, as messages to the group's actors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome, NodeIdentity
from actors.broker.registrar import RegistrationView
from actors.config import ClusterConfig, CommitLogGroup
from actors.control.members import MemberLinks
from actors.errors import Closed, NotEnoughReplicas, NotMaster, NotStored
from actors.group_status import Scrub
from actors.ha import connection_state
from actors.ha.core.role_effects import PASSING, Role, RoleState, RoleView
from actors.ha.core.states import HAConnectionState
from actors.ha.role_status import RoleStatus
from actors.log_types import (
    BEHIND_FAILED,
    Chain,
    GroupState,
    NewRecord,
    Offsets,
    Receipt,
    StoredBatch,
)
from actors.node.append import AppendReply
from actors.node.part import STATE_LOOK_S, STATUS_TIMEOUT_S, GroupCounts, Part, asked
from actors.runtime import ActorError, ActorRef, ReplyTo
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.commitlog.pull_service import Pulled
from actors.storage.commitlog.store_messages import LogRange
from actors.storage.dispatch.derived_scrubber import GetMended, MendedSoFar, mended_text
from actors.storage.dispatch.dispatcher_messages import Rederive
from actors.storage.files.room import NO_ROOM
from actors.storage.scrub import mending
from actors.storage.scrub.scrubber_messages import GetScrubbed, Look, Scrubbed
from wire.api import frames

R = TypeVar("R")

STATE_TIMEOUT_S: Final = 5.0
NOT_LOOKED: Final = Offsets(min=0, written=0, synced=0, acknowledged=0, master=None)


class CommitLogReply(AppendReply[store_messages.Appended]):
    """The reply to an append to a commit log: the store answers once the copies are there."""

    __slots__ = ()

    def receipt(self, answer: store_messages.Appended) -> Receipt:
        return Receipt(
            first=answer.first_bytes,
            last=answer.last_bytes,
            next=answer.next_bytes,
            count=self.count,
            copies=answer.copies,
            durability=answer.durability,
        )


@attrs.define(eq=False, kw_only=True)
class CommitLogPart(Part):
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
    file_group: CommitLogGroup
    role_status: RoleStatus
    registrations: RegistrationView
    store: ActorRef[store_messages.Message]
    pull: ActorRef[pull_service.Message]
    state: ActorRef[connection_state.Message]
    scrubber: ActorRef[mending.Message | GetScrubbed | Look]
    dispatcher: ActorRef[Rederive]
    derived_scrubber: ActorRef[GetMended]
    counts: GroupCounts = attrs.Factory(GroupCounts)
    repairing: str = ""
    _led: dict[str, CommitLogGroup] = attrs.Factory(dict)  # by master: at most its members
    _in_vain: RoleView | None = None  # the view during which an append waited as long as it may
    _looked: Offsets = NOT_LOOKED
    _stopping: bool = False

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

    @property
    def group(self) -> CommitLogGroup:
        """The group with its present master; every append and read looks at it."""
        master = self.role_status.view.master
        led = self._led.get(master)
        if led is None:
            led = self._led[master] = self.file_group.led_by(master)
        return led

    # ---- appending ----

    async def submit(
        self,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """Implements `NodeHandle.submit`."""
        if chain is not None and chain.broken:
            raise NotStored(BEHIND_FAILED)  # at once: each of many would wait in vain
        if not self.role_status.is_open or self._stopping or not self.store.alive:
            await self._wait_appendable()
        reply = CommitLogReply(self.counts, self.store, len(records), self.node, on_done)
        await reply.handed_over(self._send_append(records, reply, chain))

    async def append(self, records: tuple[NewRecord, ...]) -> Receipt:
        """Implements `NodeHandle.append`."""
        if not self.role_status.is_open or self._stopping or not self.store.alive:
            await self._wait_appendable()
        reply = CommitLogReply(self.counts, self.store, len(records), self.node)
        return await reply.carried_by(self._send_append(records, reply))

    def end_appends(self) -> None:
        """Implements `Part`."""
        self._stopping = True

    async def _wait_appendable(self) -> None:
        """Wait until appends are taken; called only if something may be in their way."""
        if self._stopping:
            raise Closed(f"{self.node} is stopping")
        await self.wait_open()
        if self._stopping:
            raise Closed(f"{self.node} is stopping")

    async def wait_open(self) -> None:
        """Return once appends are taken here, within the time that an append may wait.

        After one append has waited in vain, the next ones fail at once until something changes,
        because the appends of a connection come one after the other, and their waits would add up.

        Raises: NotMaster, NotEnoughReplicas, Closed. Nothing was written.
        """
        name, role_status = self.name, self.role_status
        found = role_status.view
        if role_status.is_open and not self.store.alive:
            raise Closed(f"{self.node} has no log of {name} open")
        with trio.move_on_after(self.file_group.slave_timeout_s):
            while not role_status.is_open:
                view = role_status.view
                if view.role is Role.SLAVE:
                    raise NotMaster(f"{self.node} is a slave of {name}", hint=view.master)
                if view.state is RoleState.FENCED and view.fence not in PASSING:
                    raise NotEnoughReplicas(f"{self.node} is fenced in {name}: {view.reason}")
                if view == self._in_vain:
                    break
                await role_status.wait_changed(view)
            else:
                return
        if role_status.view == found:
            self._in_vain = found
        reason = role_status.view.reason or "has not opened it yet"
        text = f"{self.node} takes no appends of {name}: {reason}"
        if role_status.view.fence in PASSING and role_status.view.fence is not None:
            raise NotMaster(text)  # the client looks for the next master
        raise NotEnoughReplicas(text)

    async def _send_append(
        self, records: tuple[NewRecord, ...], reply: CommitLogReply, chain: Chain | None = None
    ) -> None:
        self.counts.appended += len(records)
        deadline_s = trio.current_time() + self.group.slave_timeout_s
        append = store_messages.Append(
            records=records, deadline_s=deadline_s, reply_to=reply, chain=chain
        )
        await self.store.tell(append)

    # ---- reading ----

    async def read(self, start: int, max_bytes: int, fresh: bool) -> StoredBatch:
        """Implements `NodeHandle.read`."""
        read = self._read_fresh if fresh else self._read
        try:
            pulled = await read(start, max_bytes)
        except pull_service.NotARecord as error:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, str(error)) from error
        except pull_service.Unreadable as error:  # another member may have it whole
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, f"{self.node}: {error}") from error
        offsets = pulled.offsets
        held = self._held_bytes(offsets)
        return StoredBatch(
            start=pulled.start,
            data=pulled.data,
            entries=False,
            skips_empty=False,
            next=pulled.next,
            acknowledged=offsets.acknowledged,
            end=offsets.written,
            lag_bytes=max(0, offsets.acknowledged - held),
        )

    async def _read(self, start: int, max_bytes: int) -> Pulled:
        """Read from `start`; ask the scrubber where no record seems to begin there.

        The reader has sent the scrubber its doubt about `start`. The question follows it, so the
        answer says whether a record began there that is damaged now.

        Raises: NotARecord; Unreadable; Closed.
        """

        def request(reply: ReplyTo[Pulled]) -> pull_service.Read:
            return pull_service.Read(start=start, max_bytes=max_bytes, reply_to=reply)

        try:
            return await self._pulled(request, Pulled)
        except pull_service.NotARecord:
            await asked(
                self.node, self.scrubber, lambda reply: GetScrubbed(reply_to=reply), Scrubbed
            )
            return await self._pulled(request, Pulled)

    @abstractmethod
    async def _read_fresh(self, start: int, max_bytes: int) -> Pulled:
        """Read so that the result includes all that was acknowledged before, by any master.

        Raises: RequestRefused: it is not known what was acknowledged, or it has not come here in
            time. Overloaded; NotARecord; Unreadable; Closed.
        """

    def _held_bytes(self, offsets: Offsets) -> int:
        return offsets.synced if self.group.durability == "synced" else offsets.written

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

    # ---- what it is in the group ----

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
                if same_role(
                    self.role_status.view, view
                ):  # else the range may be older than the part
                    return self.state_with(held, offsets)
            await trio.sleep(STATE_LOOK_S)

    def state_with(self, held: LogRange, offsets: Offsets) -> GroupState:
        """Return what this node is in the group, with a log of this range."""
        identity, view = self.identity, self.role_status.view
        return GroupState(
            cluster=identity.cluster,
            node=identity.node,
            boot=identity.boot,
            group=self.name,
            role=view.role.value,
            state=view.state.value,
            **{name: getattr(view, name) for name in (*OF_THE_PART, "high_water", "claimed")},
            min=held.min_bytes,
            written=held.written_bytes,
            synced=held.synced_bytes,
            acknowledged=offsets.acknowledged,
            unanswered=self.counts.unanswered,
            no_room=held.no_room_soon,
        )

    # ---- looking ----

    async def _seen(self) -> tuple[connection_state.HaStatus | None, Offsets, dict[str, Any]]:
        """Return what `commit_log_status` needs of every mode: replication, offsets, the rest."""
        ha, offsets = await self._looked_at()
        held = None if ha is None else await self._held()
        rest = {
            "stands_still": "" if held is None else held.stands_still,
            "mended": "" if ha is None else await self._mended(),
            "no_room": None if held is None else held.no_room,
            "scrub": None if ha is None else await self._scrub(),
            "registrations": self.registrations,
            "repairing": self.repairing,
        }
        return ha, offsets, rest

    async def _scrub(self) -> Scrub | None:
        """Return what the scrubber has found; None while it is being restarted."""
        try:
            found = await self.scrubber.ask(
                Scrubbed, lambda reply: GetScrubbed(reply_to=reply), timeout_s=STATUS_TIMEOUT_S
            )
        except ActorError:
            return None
        return Scrub(**found.plain(trio.current_time()))

    async def _mended(self) -> str:
        try:
            found = await self.derived_scrubber.ask(
                MendedSoFar, lambda reply: GetMended(reply_to=reply), timeout_s=STATUS_TIMEOUT_S
            )
        except ActorError:
            return ""  # it is being restarted
        return mended_text(found)

    async def _held(self) -> LogRange | None:
        """Return the log's range after all appends that the store has received; None if that
        fails.
        """
        try:
            return await self.store.ask(
                store_messages.LogRange,
                lambda reply: store_messages.GetRange(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
        except ActorError:
            return None

    async def _looked_at(self) -> tuple[connection_state.HaStatus | None, Offsets]:
        """Return the state of the replication and the offsets, as the group's actors report them.

        Wait for a tree that is being restarted. If the tree waits for room on the disk, the state
        is None, and the offsets are those that were known last.
        """
        deadline_s = trio.current_time() + STATUS_TIMEOUT_S
        while True:
            try:
                ha, self._looked = await self._ha_status(), await self.wait_offsets(None)
            except (ActorError, Closed) as error:
                if self.waits_for_room:
                    return None, self._looked
                if self._stopping or trio.current_time() >= deadline_s:
                    raise Closed(f"{self.node}: {self.name} does not answer: {error}") from error
            else:
                return ha, self._looked
            await trio.sleep(STATE_LOOK_S)

    async def _ha_status(self) -> connection_state.HaStatus:
        return await self.state.ask(
            connection_state.HaStatus,
            lambda reply: connection_state.GetStatus(reply_to=reply),
            timeout_s=STATUS_TIMEOUT_S,
        )

    async def unsent(self) -> str:
        """Return, for people, the connected slaves that lack a part of this master's log.

        It is "" on a slave. Implements `Part`.
        """
        if not (self.is_master and self.state.alive and self.pull.alive):
            return ""
        held = await self._held()
        try:
            ha = await self._ha_status()
        except ActorError:
            held = None
        if held is None:
            return ""  # it fails: there is nobody to wait for
        lags = {
            slave.node: held.written_bytes - (slave.ack_bytes or 0)
            for slave in ha.slaves
            if slave.state is HAConnectionState.TRANSFER
        }
        return ", ".join(
            f"{node} lacks {lag} bytes of {self.name}" for node, lag in lags.items() if lag > 0
        )


OF_THE_PART: Final = (
    *("reason", "opened", "number", "master", "history", "forgot", "damage", "forced"),
)
"""The fields beside role and state that `RoleView` and `GroupState` have under the same name."""


def same_role(view: RoleView, other: RoleView) -> bool:
    """Return whether both views are of the same role; high-water marks and claims may differ."""
    return attrs.evolve(view, high_water=0, claimed=0) == attrs.evolve(
        other, high_water=0, claimed=0
    )
