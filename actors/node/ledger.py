"""A DLedger group on a running node: the calls of the node, as messages to the member's actors.

Positions of the log are indexes of entries. A record is an entry's body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome, NodeIdentity
from actors.config import DLedgerGroup
from actors.control.member_session import LOST, lost_text
from actors.control.members import MemberLinks
from actors.controller.machine import ControllerView
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.replication.append_messages import (
    Append,
    Committed,
    GetReadIndex,
    ReadIndex,
)
from actors.dledger.session_messages import LeaderProven, ProveLeader
from actors.errors import Closed, NotMaster, NotStored, TriologError
from actors.group_status import OPEN, GroupStatus
from actors.log_types import (
    BEHIND_FAILED,
    Chain,
    GoodRange,
    GroupState,
    Message,
    NewRecord,
    Offsets,
    Receipt,
    StoredBatch,
)
from actors.node.append import AppendReply
from actors.node.broker_sets import with_broker_sets
from actors.node.ledger_member import LedgerMember
from actors.node.ledger_peers import LedgerPeers
from actors.node.ledger_repair import LedgerRepair, entry_range
from actors.node.part import asked
from actors.node.status import ledger_status
from actors.node.transfer import transfer_leader
from actors.readable import counted
from actors.runtime import ActorError, Registry
from actors.storage.commitlog.pull_service import Pulled, Read, WatchOffsets
from actors.storage.ledger.store_messages import GetRoom
from actors.trees.ledger_setup import LedgerPaths
from wire.api import frames
from wire.dledger.entry import has_body


class LedgerReply(AppendReply[Committed]):
    """The reply to an append: quorum_ack_checker answers once a quorum has the entries.

    Attributes:
        durability: the group's durability.
    """

    __slots__ = ("durability",)
    durability: str

    def receipt(self, answer: Committed) -> Receipt:
        return Receipt(
            first=answer.first_index,
            last=answer.last_index,
            next=answer.last_index + 1,
            count=self.count,
            copies=answer.copies,
            durability=self.durability,
            results=answer.results,
        )


@attrs.define(eq=False)
class _Question:
    """One question to the leader, with its answer or failure once it has ended."""

    outcome: int | Exception | None = None


@attrs.define(eq=False)
class SharedQuestions:
    """Lets the fresh reads of a follower share questions to its leader, as etcd's read loop does.

    One question is under way at a time. A read joins the next one, because the leader has to
    confirm its leadership after the read has begun.
    """

    _turn: trio.Lock = attrs.field(factory=trio.Lock)
    _next: _Question = attrs.field(factory=_Question)

    async def ask(self, leader_index: Callable[[], Awaitable[int]]) -> int:
        """Return the result of `leader_index`, which one of the sharing reads calls.

        Raises: one of LOST.
        """
        joined = self._next
        async with self._turn:
            if joined.outcome is None:
                self._next = _Question()
                try:
                    joined.outcome = await leader_index()
                except LOST as error:
                    joined.outcome = error
        if isinstance(joined.outcome, Exception):
            raise joined.outcome
        return joined.outcome


@attrs.define(eq=False, kw_only=True)
class LedgerPart(LedgerMember):
    """One node's part in a DLedger group; implements `Part`.

    Attributes:
        controller_view: what this node's controller knows; None: it is none.
    """

    controller_view: ControllerView | None = None
    _stopping: bool = False
    _questions: SharedQuestions = attrs.field(factory=SharedQuestions)

    @staticmethod
    def of(
        links: MemberLinks,
        group: DLedgerGroup,
        identity: NodeIdentity,
        role_status: LeaderStatus,
        registry: Registry,
        view: ControllerView | None = None,
    ) -> LedgerPart:
        node = identity.node
        paths = LedgerPaths(f"/{node}/{group.name}")
        return LedgerPart(
            links=links,
            group=group,
            identity=identity,
            role_status=role_status,
            checker=registry.ref(paths.quorum_ack_checker),
            maintainer=registry.ref(paths.state_maintainer),
            reader=registry.ref(paths.entry_reader),
            store=registry.ref(paths.store),
            peers=LedgerPeers.of(group, node, registry),
            controller_view=view,
        )

    # ---- appending ----

    async def submit(
        self,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """Implements `NodeHandle.submit`."""
        bodies = self._bodies(records)
        if chain is not None and chain.broken:
            raise NotStored(BEHIND_FAILED)  # at once: each of many would wait in vain
        if not self.role_status.is_open or self._stopping:
            await self._wait_leading()
        reply = self._reply(len(bodies), on_done)
        await reply.handed_over(self._send_append(bodies, reply, chain))

    async def append(self, records: tuple[NewRecord, ...]) -> Receipt:
        """Implements `NodeHandle.append`."""
        bodies = self._bodies(records)
        if not self.role_status.is_open or self._stopping:
            await self._wait_leading()
        reply = self._reply(len(bodies), None)
        return await reply.carried_by(self._send_append(bodies, reply))

    def end_appends(self) -> None:
        """Implements `Part`."""
        self._stopping = True

    def _reply(self, count: int, on_done: Callable[[AppendOutcome], None] | None) -> LedgerReply:
        reply = LedgerReply(self.counts, self.checker, count, self.node, on_done)
        reply.durability = self.group.durability
        return reply

    def _bodies(self, records: tuple[NewRecord, ...]) -> tuple[bytes, ...]:
        if self.group.controller is not None:
            raise RequestRefused(
                frames.ERROR_BAD_REQUEST,
                f"{self.group.name} is the log of the controllers: it takes no records",
            )
        bodies = tuple(map(self._body, records))
        if not self._takes_empty and not all(bodies):
            raise RequestRefused(
                frames.ERROR_BAD_REQUEST,
                f"{self.group.name} takes no empty records: readers would take them for the"
                " entries that open terms",
            )
        return bodies

    @property
    def _takes_empty(self) -> bool:
        return self.group.opens_term_with != "empty"

    def _body(self, record: NewRecord) -> bytes:
        if isinstance(record, bytes):
            return record
        if record == Message(None, record.body):
            return record.body
        raise RequestRefused(
            frames.ERROR_BAD_REQUEST,
            f"{self.group.name} is a dledger group: it carries plain bytes",
        )

    async def _wait_leading(self) -> None:
        """Return once this member takes appends, within the time that an append may wait.

        Raises: NotMaster: another member leads, or none; Closed. Nothing was written.
        """
        name, role_status = self.group.name, self.role_status
        with trio.move_on_after(self.group.append_timeout_s):
            while not role_status.is_open and not self._stopping:
                if role_status.leader not in ("", self.node):
                    text = f"{self.node} does not lead {name}: {role_status.leader} does"
                    raise NotMaster(text, hint=role_status.leader)
                await role_status.wait_changed()
        if self._stopping:
            raise Closed(f"{self.node} is stopping")
        if not role_status.is_open:
            raise NotMaster(f"{name} has no leader that {self.node} knows")

    async def _send_append(
        self, bodies: tuple[bytes, ...], reply: LedgerReply, chain: Chain | None = None
    ) -> None:
        self.counts.appended += len(bodies)
        deadline_s = trio.current_time() + self.group.append_timeout_s
        append = Append(bodies=bodies, deadline_s=deadline_s, reply_to=reply, chain=chain)
        await self.checker.tell(append)

    # ---- reading ----

    async def read(self, start: int, max_bytes: int, fresh: bool) -> StoredBatch:
        """Implements `NodeHandle.read`."""
        if fresh:
            await self._catch_up()
        skips_empty = not self._takes_empty
        pulled = await self._pulled(start, max_bytes)
        while skips_empty and pulled.data and not has_body(pulled.data):
            # Entries that opened terms, and nothing else up to the end of a file.
            pulled = await self._pulled(pulled.next, max_bytes)
        offsets = pulled.offsets
        return StoredBatch(
            start=pulled.start,
            data=pulled.data,
            entries=True,
            skips_empty=skips_empty,
            next=pulled.next,
            acknowledged=offsets.acknowledged,
            end=offsets.written,
            lag_bytes=max(0, offsets.acknowledged - offsets.written),
        )

    async def _catch_up(self) -> None:
        """Wait until this member shows all that any member has acknowledged before this call.

        Raises: RequestRefused: no leader tells what that is, or it did not come in time.
            Overloaded: too many reads wait for it already.
        """
        with trio.move_on_after(self.group.append_timeout_s):
            while not self.role_status.is_open and self.role_status.leader in ("", self.node):
                await self.role_status.wait_changed()
        leader = self.role_status.leader
        if leader == self.node:
            index = await self._read_index()
        elif leader in self.group.java_nodes or not leader:
            text = (
                f"{leader} is a Java node: it cannot be asked" if leader else "no leader is known"
            )
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        else:
            index = await self._ask_leader(leader)
        wait_s = self.group.append_timeout_s
        with trio.move_on_after(wait_s) as waiting:
            await self.wait_acknowledged(index)
        if waiting.cancelled_caught:
            text = f"{self.node} has not got within {wait_s:g} s what {leader} had committed"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)

    async def _read_index(self) -> int:
        """Return this leader's read index: the committed index, confirmed by heartbeats.

        Raises: RequestRefused: it does not lead, or could not confirm in time that it does.
        """
        try:
            asked_index = await self.checker.ask(
                ReadIndex,
                lambda reply: GetReadIndex(reply_to=reply),
                timeout_s=self.group.append_timeout_s,
            )
            proven = await self.maintainer.ask(
                LeaderProven,
                lambda reply: ProveLeader(reply_to=reply),
                timeout_s=self.group.append_timeout_s,
            )
        except (ActorError, NotMaster) as error:
            text = f"{self.node} cannot say whether it leads {self.group.name}: {error}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error
        if proven.term != asked_index.term:  # it may lead again: others answered meanwhile
            text = f"{self.node} does not lead {self.group.name} any more"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        return asked_index.index

    async def _ask_leader(self, leader: str) -> int:
        """Return the last index that the leader has committed, by its answer.

        Raises: RequestRefused.
        """
        try:
            with trio.fail_after(self.links.answer_timeout_s):
                following = await self._questions.ask(
                    partial(self.links.committed, leader, self.group.name)
                )
        except LOST as error:
            # It answers for itself, and may have stopped leading since.
            answers = isinstance(error, TriologError)
            what = "could not say what is committed" if answers else "does not answer"
            text = f"{leader} {what}: {lost_text(error)}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error
        return following - 1

    async def _pulled(self, start: int, max_bytes: int) -> Pulled:
        return await asked(
            self.node,
            self.reader,
            lambda reply: Read(start=start, max_bytes=max_bytes, reply_to=reply),
            Pulled,
        )

    async def _watch(self, *, known: Offsets | None = None, above: int = -1) -> Offsets:
        return await asked(
            self.node,
            self.reader,
            lambda reply: WatchOffsets(known=known, above=above, reply_to=reply),
            Offsets,
        )

    # ---- looking ----

    async def status(self) -> GroupStatus:
        """Return the group's entry of `NodeHandle.status`."""
        offsets, role_status = await self.wait_offsets(None), self.role_status
        known = await self.peers.known(role_status.role)
        non_members = role_status.non_members.lately(trio.current_time())
        counts = attrs.asdict(self.counts)
        found = ledger_status(
            self.group, offsets, role_status, known, counts, non_members, self.repairing
        )
        view = self.controller_view
        return found if view is None else with_broker_sets(found, view)

    async def unsent(self) -> str:
        """Describe, for people, what of this leader's log is not committed; "" on a follower.

        Implements `Part`.
        """
        if not (self.role_status.is_open and self.reader.alive):
            return ""
        offsets = await self.wait_offsets(None)
        left = offsets.written - offsets.acknowledged
        return (
            f"a majority lacks {counted(left, 'entry', 'entries')} of {self.group.name}"
            if left > 0
            else ""
        )

    async def group_state(self) -> GroupState:
        """Implements `NodeHandle.group_state`, in indexes of entries; promotions are terms here."""
        offsets, role = await self.wait_offsets(None), self.role_status.role
        return GroupState(
            cluster=self.identity.cluster,
            node=self.node,
            boot=self.identity.boot,
            group=self.group.name,
            role="candidate" if role is None else role.role.name.lower(),
            state=OPEN if self.is_open else "",
            reason="",
            opened=self.is_open,
            number=0 if role is None else role.term,
            master=self.leader,
            history=(),
            min=max(0, offsets.min),
            written=offsets.written,
            synced=offsets.synced,
            acknowledged=offsets.acknowledged,
            high_water=offsets.acknowledged,
            unanswered=self.counts.unanswered,
            no_room=await asked(
                self.node, self.store, lambda reply: GetRoom(reply_to=reply, looks=True), str
            ),
        )

    # ---- mending, and handing over ----

    async def log_range(self, start: int) -> GoodRange:
        """Implements `NodeHandle.log_range`."""
        return await entry_range(self, start)

    async def repair_from(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Implements `Part`."""
        return await LedgerRepair(self, names).run()

    async def transfer_leader(self, node: str | None) -> dict[str, Any]:
        """Implements `NodeHandle.transfer_leader`."""
        return await transfer_leader(self, node)
