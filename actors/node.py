"""One running node: its logs, its status, its tree. `open_node` gives it, the API serves it.

Every call becomes a message to an actor of the node; `Node` keeps nothing but counters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome, EventSubscription, NodeIdentity
from actors.api.member_session import LOST, ask_acknowledged
from actors.api.server import master_door
from actors.config import ClusterConfig
from actors.env import Network
from actors.errors import Closed
from actors.events.sink import EventSink
from actors.ha import connection_state
from actors.ha.core.states import HAConnectionState
from actors.ha.role_parts import RoleParts
from actors.log import Log
from actors.log_types import Batch, NewRecord, Offsets, Receipt
from actors.node_append import AppendReply
from actors.node_part import GroupPart
from actors.node_roles import STATE_LOOK_S, NodeRoles
from actors.node_status import group_status, tree_json
from actors.runtime import ActorError, Registry
from actors.runtime.system import System
from actors.storage import pull_service, store
from actors.storage.pull_service import Pulled
from actors.storage.records import to_records
from wire import api

R = TypeVar("R")

STATUS_TIMEOUT_S: Final = 5.0
# How often a stop looks whether the slaves have caught up: nobody waits for it but the stop.
DRAIN_LOOK_S: Final = 0.02


class Node(NodeRoles):
    """A running node. Made by `open_node` and `serve`; implements `actors.api.handle.NodeHandle`.

    Attributes:
        config: the cluster's configuration.
        identity: cluster, node, boot number, groups.
        api_path: the Unix socket that it serves its API on.
        roles: what each group's role keeper is made of.
    """

    def __init__(
        self,
        config: ClusterConfig,
        identity: NodeIdentity,
        api_path: str,
        sink: EventSink,
        network: Network,
        rng: random.Random,
        roles: Mapping[str, RoleParts],
    ) -> None:
        super().__init__(config, network, rng)
        self.identity = identity
        self.api_path = api_path
        self._sink = sink
        self.roles = roles
        self._system: System | None = None
        self._stopping = False
        self._stop_requested = trio.Event()
        self._drain_scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Node {self.identity.node} of {self.identity.cluster}>"

    @property
    def name(self) -> str:
        """The node's name in the cluster file."""
        return self.identity.node

    def log(self, group: str) -> Log:
        """The log of a group that this node is a member of.

        Raises: KeyError if it is not.
        """
        if group not in self._parts:
            raise KeyError(f"{self.name} is no member of group {group!r}")
        return Log(self, group)

    # ---- appending ----

    async def submit(
        self, group: str, records: tuple[NewRecord, ...], on_done: Callable[[AppendOutcome], None]
    ) -> None:
        """See `NodeHandle.submit`."""
        part = self._part(group)
        if not part.board.is_open or self._stopping or not part.store.alive:
            await self._wait_appendable(part)
        reply = AppendReply(part, len(records), self.name, on_done)
        await self._tell_append(part, records, reply)

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """See `Log.append`."""
        part = self._part(group)
        if not part.board.is_open or self._stopping or not part.store.alive:
            await self._wait_appendable(part)
        reply = AppendReply(part, len(records), self.name)
        try:
            await self._tell_append(part, records, reply)
            outcome = await reply.wait()
        finally:
            if not reply.answered:
                reply.abandon()
                part.counts.outcome_unknown += len(records)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _wait_appendable(self, part: GroupPart) -> None:
        """The rare case: something is in the way of an append, or may be."""
        if self._stopping or part.board.is_open:
            raise Closed(f"{self.name} is stopping")
        await part.wait_open()
        if self._stopping:
            raise Closed(f"{self.name} is stopping")

    async def _tell_append(
        self, part: GroupPart, records: tuple[NewRecord, ...], reply: AppendReply
    ) -> None:
        part.counts.appended += len(records)
        deadline_s = trio.current_time() + part.group.slave_timeout_s
        await part.store.tell(store.Append(records=records, deadline_s=deadline_s, reply_to=reply))

    # ---- reading ----

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
        """See `NodeHandle.read`."""
        part = self._part(group)
        if fresh and not part.is_master:
            await self._catch_up(part)
        try:
            pulled = await self._asked(
                part.pull,
                lambda reply: pull_service.Read(start=start, max_bytes=max_bytes, reply_to=reply),
                Pulled,
            )
        except pull_service.NotARecord as error:
            raise RequestRefused(api.ERROR_BAD_REQUEST, str(error)) from error
        offsets = pulled.offsets
        held = offsets.synced if part.group.durability == "synced" else offsets.written
        return Batch(
            records=to_records(pulled.data, pulled.start),
            next=pulled.next,
            acknowledged=offsets.acknowledged,
            end=offsets.written,
            lag_bytes=max(0, offsets.acknowledged - held),
        )

    async def _catch_up(self, part: GroupPart) -> None:
        """Wait until this slave shows what the master has acknowledged at this moment."""
        group = part.group
        if group.master not in self.config.python_nodes:
            raise RequestRefused(
                api.ERROR_NOT_AVAILABLE, f"{group.master} is a Java broker: it cannot be asked"
            )
        door = master_door(self.config, group.master, self.config.nodes[self.name])
        try:
            acknowledged = await ask_acknowledged(
                self._network, door, node=self.name, master=group.master, group=group.name
            )
        except LOST as error:
            raise RequestRefused(
                api.ERROR_NOT_AVAILABLE, f"{group.master} does not answer: {error}"
            ) from error
        await self.wait_acknowledged(group.name, acknowledged - 1)

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """See `NodeHandle.wait_acknowledged`."""
        return await self._asked(
            self._part(group).pull,
            lambda reply: pull_service.WatchOffsets(above=above, reply_to=reply),
            Offsets,
        )

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """See `NodeHandle.wait_offsets`."""
        return await self._asked(
            self._part(group).pull,
            lambda reply: pull_service.WatchOffsets(known=known, reply_to=reply),
            Offsets,
        )

    # ---- looking ----

    async def status(self) -> dict[str, Any]:
        """Roles, offsets, slaves and lags per group, ready for JSON."""
        groups = {}
        for name, part in self._parts.items():
            ha, offsets = await self._looked_at(name, part)
            groups[name] = group_status(
                part.group, ha, offsets, part.board.view, attrs.asdict(part.counts)
            )
        return {
            "cluster": self.identity.cluster,
            "node": self.name,
            "boot": self.identity.boot,
            "state": "stopping" if self._stopping else "running",
            "events_dropped": self._sink.dropped,
            "groups": groups,
        }

    async def _looked_at(
        self, name: str, part: GroupPart
    ) -> tuple[connection_state.HaStatus, Offsets]:
        """What a group's tree says of itself; one that is being restarted is waited for."""
        deadline_s = trio.current_time() + STATUS_TIMEOUT_S
        while True:
            try:
                ha = await part.connection_state.ask(
                    connection_state.HaStatus,
                    lambda reply: connection_state.GetStatus(reply_to=reply),
                    timeout_s=STATUS_TIMEOUT_S,
                )
                return ha, await self.wait_offsets(name, None)
            except (ActorError, Closed) as error:
                if self._stopping or trio.current_time() >= deadline_s:
                    raise Closed(f"{self.name}: {name} does not answer: {error}") from error
            await trio.sleep(STATE_LOOK_S)

    async def tree(self) -> dict[str, Any]:
        """The supervision tree as it is now, ready for JSON."""
        await trio.lowlevel.checkpoint()
        assert self._system is not None
        return tree_json(self._system.tree())

    def subscribe_events(self) -> EventSubscription:
        """The events from now on; the caller closes it."""
        try:
            return self._sink.subscribe()
        except RuntimeError as error:
            raise RequestRefused(api.ERROR_NOT_AVAILABLE, str(error)) from error

    # ---- stopping ----

    def request_stop(self) -> None:
        """Begin the ordered stop; returns at once, any number of times."""
        self._stop_requested.set()

    async def wait_stop_requested(self) -> None:
        """Return when a client, or `request_stop`, has asked for the stop."""
        await self._stop_requested.wait()

    def hurry(self) -> None:
        """Stop without waiting for anybody."""
        self._stop_requested.set()
        self._stopping = True
        self._drain_scope.cancel()
        if self._system is not None:
            self._system.hurry()

    async def drain(self) -> None:
        """End appends, then wait until every connected slave has what it lacks."""
        self._stopping = True
        self._drain_scope.deadline = trio.current_time() + self.config.drain_timeout_s
        with self._drain_scope:
            for part in self._parts.values():
                while part.is_master and not await self._all_sent(part):  # noqa: ASYNC110
                    await trio.sleep(DRAIN_LOOK_S)

    async def _all_sent(self, part: GroupPart) -> bool:
        if not (part.connection_state.alive and part.pull.alive):
            return True
        try:
            # The store's answer comes behind all appends that it was given.
            held = await part.store.ask(
                store.LogRange,
                lambda reply: store.GetRange(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
            ha = await part.connection_state.ask(
                connection_state.HaStatus,
                lambda reply: connection_state.GetStatus(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
        except ActorError:
            return True  # it fails: there is nobody to wait for
        return all(
            slave.ack_bytes is not None and slave.ack_bytes >= held.written_bytes
            for slave in ha.slaves
            if slave.state is HAConnectionState.TRANSFER
        )

    # ---- for `actors.service` ----

    def attach_groups(self, registry: Registry) -> None:
        """The tree is about to start, and with it the API, which may ask at once."""
        for group in self.config.groups_of(self.name):
            board = self.roles[group.name].board
            self._parts[group.name] = GroupPart.of(group, self.name, board, registry)

    def attach_system(self, system: System) -> None:
        """The tree runs."""
        self._system = system
