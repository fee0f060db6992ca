"""A mirror group on a running node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import attrs
import trio
from mirror_actors import (
    Append,
    Appended,
    Copier,
    LineStore,
    Listener,
    Message,
    Read,
    Watch,
)
from mirror_config import CONFIG, MirrorGroup
from mirror_store import Layout

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome
from actors.control.member_link import WatchedGroup
from actors.env import Env
from actors.errors import Closed, NotMaster
from actors.group_status import GroupStatus, Peer
from actors.log_types import Batch, Chain, GoodRange, NewRecord, Offsets, Receipt, Record
from actors.node.append import AppendReply
from actors.node.kind import NodeContext, NodeKind
from actors.node.part import GroupCounts, Part, asked
from actors.runtime import ActorRef, ChildSpec, Registry, Strategy, SupervisorSpec
from actors.state_machine import Machines
from actors.storage.log.commit_log import segment_path
from actors.trees.node import GroupTrees, group_child
from wire.api import frames


class _Reply(AppendReply[Appended]):
    __slots__ = ()

    def receipt(self, answer: Appended) -> Receipt:
        return Receipt(
            first=answer.first,
            last=answer.last,
            next=answer.next,
            count=self.count,
            copies=2,
            durability="synced",
        )


@attrs.define(eq=False, kw_only=True)
class MirrorPart(Part):
    """See `Part`."""

    node: str
    file_group: MirrorGroup
    store: ActorRef[Message]
    counts: GroupCounts = attrs.Factory(GroupCounts)
    repairing: str = ""
    _stopping: bool = False

    how_it_is_led: ClassVar[str] = "its first member takes appends"

    @property
    def is_open(self) -> bool:
        return self.leader == self.node and self.store.alive and not self._stopping

    @property
    def leader(self) -> str:
        return self.file_group.writer

    async def submit(
        self,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        bodies = self._bodies(records)
        reply = _Reply(self.counts, self.store, len(records), self.node, on_done)
        await reply.handed_over(self._tell(bodies, reply))

    async def append(self, records: tuple[NewRecord, ...]) -> Receipt:
        bodies = self._bodies(records)
        reply = _Reply(self.counts, self.store, len(records), self.node)
        return await reply.carried_by(self._tell(bodies, reply))

    async def _tell(self, bodies: tuple[bytes, ...], reply: _Reply) -> None:
        self.counts.appended += len(bodies)
        deadline_s = trio.current_time() + self.file_group.append_timeout_s
        await self.store.tell(Append(bodies=bodies, deadline_s=deadline_s, reply_to=reply))

    def _bodies(self, records: tuple[NewRecord, ...]) -> tuple[bytes, ...]:
        if self._stopping:
            raise Closed(f"{self.node} is stopping")
        if self.leader != self.node:
            raise NotMaster(f"{self.node} is a copy", hint=self.leader)
        bodies = tuple(each for each in records if isinstance(each, bytes) and b"\n" not in each)
        if len(bodies) < len(records):
            raise RequestRefused(frames.ERROR_BAD_REQUEST, "a mirror group takes lines alone")
        return bodies

    async def read(self, start: int, max_bytes: int, fresh: bool) -> Batch:
        if fresh and self.leader != self.node:
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, f"{self.leader} is asked instead")
        data = await asked(
            self.node,
            self.store,
            lambda reply: Read(start=start, max_bytes=max_bytes, reply_to=reply),
            bytes,
        )
        offsets = await self.wait_offsets(None)
        records, at = [], start
        for line in data.splitlines(keepends=True):
            records.append(_record(at, line))
            at += len(line)
        return Batch(
            records=tuple(records),
            next=at,
            acknowledged=offsets.acknowledged,
            end=offsets.written,
            lag_bytes=max(0, offsets.acknowledged - offsets.written),
        )

    async def _watch(self, *, known: Offsets | None = None, above: int = -1) -> Offsets:
        return await asked(
            self.node,
            self.store,
            lambda reply: Watch(known=known, above=above, reply_to=reply),
            Offsets,
        )

    async def status(self) -> GroupStatus:
        offsets = await self.wait_offsets(None)
        return mirror_status(self.file_group, self.node, offsets, self.counts)

    async def unsent(self) -> str:
        if not self.is_open:
            return ""
        offsets = await self.wait_offsets(None)
        left = offsets.written - offsets.acknowledged
        return f"the copy lacks {left} bytes" if left > 0 else ""

    def end_appends(self) -> None:
        self._stopping = True

    async def log_range(self, start: int) -> GoodRange:
        raise self._refused()

    async def repair_from(self, names: tuple[str, ...]) -> dict[str, Any]:
        raise self._refused()


def mirror_status(
    group: MirrorGroup, node: str, offsets: Offsets, counts: GroupCounts
) -> GroupStatus:
    """What a node says of the group."""
    return GroupStatus(
        mode=group.mode,
        terms=CONFIG.terms,
        role=group.role_of(node).name,
        leads=node == group.writer,
        leader=group.writer,
        epoch=0,
        is_open=node == group.writer,
        first=offsets.min,
        written=offsets.written,
        synced=offsets.synced,
        acknowledged=offsets.acknowledged,
        copies=group.sure_copies,
        durability=group.durability,
        peers=_peers(group, node, offsets),
        counts=attrs.asdict(counts),
    )


def _peers(group: MirrorGroup, node: str, offsets: Offsets) -> tuple[Peer, ...]:
    """The writer's: the copy has what is acknowledged."""
    if node != group.writer:
        return ()
    lag = offsets.written - offsets.acknowledged
    return tuple(
        Peer(node=each, state="mirrors", end=offsets.acknowledged, lag=lag, has_copy=True)
        for each in group.members
        if each != node
    )


def _record(at: int, line: bytes) -> Record:
    return Record(
        position=at,
        next_position=at + len(line),
        topic="",
        queue_id=0,
        queue_offset=0,
        body=line[:-1],
        tags="",
        keys=(),
        properties=(),
        store_timestamp_ms=0,
        born_timestamp_ms=0,
    )


class MirrorGroups:
    """All mirror groups of a node; a `kind.NodeGroups`."""

    def __init__(self, context: NodeContext, groups: tuple[MirrorGroup, ...]) -> None:
        self._context = context
        self._groups = groups

    def parts(self, registry: Registry) -> Mapping[str, MirrorPart]:
        node = self._context.node
        return {
            group.name: MirrorPart(
                node=node, file_group=group, store=registry.ref(f"/{node}/{group.name}/store")
            )
            for group in self._groups
        }

    def trees(self, env: Env, registry: Registry, machines: Machines) -> GroupTrees:
        return GroupTrees(
            groups=tuple(
                group_child(group.name, self._tree(env, registry, group)) for group in self._groups
            )
        )

    def watched(self, member: str) -> tuple[WatchedGroup, ...]:
        return ()

    def watches(self) -> tuple[ChildSpec, ...]:
        return ()

    def _tree(self, env: Env, registry: Registry, group: MirrorGroup) -> SupervisorSpec:
        config, node = self._context.config, self._context.node
        own = config.nodes[node]
        (other,) = (config.nodes[each] for each in group.members if each != node)
        layout = Layout(config.group_dir(node, group.name))
        ref: ActorRef[Message] = registry.ref(f"/{node}/{group.name}/store")
        stores: list[LineStore] = []

        def store() -> LineStore:
            made = LineStore(
                disk=env.disk, path=segment_path(layout.commit_log, 0), writer=group.writer
            )
            stores[:] = [made]
            return made

        def connection() -> Listener | Copier:
            if node == group.writer:
                return Listener(env, own, group.port, other, stores[0], ref)
            return Copier(env, other, own, group.port, stores[0], ref)

        return SupervisorSpec(
            strategy=Strategy.REST_FOR_ONE,
            children=(
                ChildSpec(name="store", start=store),
                ChildSpec(name="connection", start=connection),
            ),
        )


NODE: Final = NodeKind(groups=MirrorGroups, takes_machines=False)
