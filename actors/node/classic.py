"""A classic group on a running node: the calls of the node, as messages to the group's actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome
from actors.config import ClassicGroup
from actors.errors import Closed, NotEnoughReplicas, NotMaster, NotStored
from actors.group_status import GroupStatus, Scrub
from actors.ha import connection_state, role_messages
from actors.ha.core.role_effects import PASSING, Role, RoleState, RoleView
from actors.ha.core.states import HAConnectionState
from actors.log_types import (
    BEHIND_FAILED,
    Chain,
    GoodRange,
    NewRecord,
    Offsets,
    Receipt,
    StoredBatch,
)
from actors.node.append import AppendReply
from actors.node.classic_member import NOT_LOOKED, ClassicMember
from actors.node.classic_repair import ClassicRepair, log_range
from actors.node.part import STATE_LOOK_S, STATUS_TIMEOUT_S, asked
from actors.node.status import classic_status
from actors.runtime import ActorError, ReplyTo
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.commitlog.pull_service import Pulled
from actors.storage.commitlog.store_messages import LogRange
from actors.storage.dispatch.derived_scrubber import GetMended, MendedSoFar, mended_text
from actors.storage.scrub.scrubber_messages import GetScrubbed, Scrubbed
from wire.api import frames


class ClassicReply(AppendReply[store_messages.Appended]):
    """The reply to an append of a classic group: the store answers once the copies are there."""

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
class ClassicPart(ClassicMember):
    """One node's part in a classic group; implements `Part`."""

    _led: dict[str, ClassicGroup] = attrs.Factory(dict)  # by master: at most its members
    _in_vain: RoleView | None = None  # the view during which an append waited as long as it may
    _looked: Offsets = NOT_LOOKED
    _stopping: bool = False

    @property
    def group(self) -> ClassicGroup:
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
        reply = ClassicReply(self.counts, self.store, len(records), self.node, on_done)
        await reply.handed_over(self._send_append(records, reply, chain))

    async def append(self, records: tuple[NewRecord, ...]) -> Receipt:
        """Implements `NodeHandle.append`."""
        if not self.role_status.is_open or self._stopping or not self.store.alive:
            await self._wait_appendable()
        reply = ClassicReply(self.counts, self.store, len(records), self.node)
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
        self, records: tuple[NewRecord, ...], reply: ClassicReply, chain: Chain | None = None
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

    async def _read_fresh(self, start: int, max_bytes: int) -> Pulled:
        """Read so that the result includes all that was acknowledged before, by any master.

        This node's role may change meanwhile, and its group's tree is built anew then. So the
        offset up to which it acknowledged as the master is kept here, and only a result that
        reaches at least this offset counts.

        Raises: RequestRefused: no node can tell what was acknowledged, or it has not come here in
            time. Overloaded; NotARecord; Unreadable; Closed.
        """
        wait_s = self.file_group.append_timeout_s
        deadline_s = trio.current_time() + wait_s
        if self.master not in self.config.python_nodes:
            text = f"{self.master} is a Java broker: it cannot be asked what is fresh"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        shown = await self._shown(deadline_s)
        found = await asked(
            self.node,
            self.keeper,
            lambda reply: role_messages.AskFresh(deadline_s=deadline_s, reply_to=reply),
            role_messages.Fresh,
        )
        if found.refused:
            text = f"{self.node} does not know what is fresh in {self.name}: {found.refused}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        fresh_bytes = max(shown, found.offset_bytes)
        with trio.move_on_at(deadline_s):
            while True:
                try:
                    await self.wait_acknowledged(fresh_bytes - 1)
                    pulled = await self._read(start, max_bytes)
                except Closed:  # its tree is just being built anew, by another promotion
                    await trio.sleep(STATE_LOOK_S)
                    continue
                offsets = pulled.offsets
                if min(offsets.acknowledged, self._held_bytes(offsets)) >= fresh_bytes:
                    return pulled
        text = (
            f"{self.node} has not got within {wait_s:g} s what was acknowledged in {self.name},"
            f" up to {fresh_bytes}"
        )
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)

    async def _shown(self, deadline_s: float) -> int:
        """Return the acknowledged end that readers see here. Raises: Closed: no actor answers."""
        while True:
            try:
                return (await self.wait_offsets(None)).acknowledged
            except Closed:
                if self._stopping or trio.current_time() >= deadline_s:
                    raise
            await trio.sleep(STATE_LOOK_S)

    def _held_bytes(self, offsets: Offsets) -> int:
        return offsets.synced if self.group.durability == "synced" else offsets.written

    # ---- looking ----

    async def status(self) -> GroupStatus:
        """Return the group's entry of `NodeHandle.status`."""
        ha, offsets = await self._looked_at()
        held = None if ha is None else await self._held()
        view, mended = self.role_status.view, "" if ha is None else await self._mended()
        return classic_status(
            self.group,
            ha,
            offsets,
            view,
            attrs.asdict(self.counts),
            stands_still="" if held is None else held.stands_still,
            mended=mended,
            no_room=None if held is None else held.no_room,
            scrub=None if ha is None else await self._scrub(),
            said=self.role_status.said(),
            registrations=self.registrations,
            repairing=self.repairing,
        )

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

    # ---- mending ----

    async def log_range(self, start: int) -> GoodRange:
        """Implements `NodeHandle.log_range`."""
        return await log_range(self, start)

    async def repair_from(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Implements `Part`."""
        return await ClassicRepair(self, await self.group_state(), names).run()
