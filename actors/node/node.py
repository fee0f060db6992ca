"""One running node: its logs, its status, its tree. `open_node` opens it, the API serves it.

Every call becomes a message to an actor of the node; `Node` keeps nothing but counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome, EventSubscription, NodeIdentity
from actors.config import ClusterConfig, stated
from actors.config.model import DRAIN_STANDS_S, NAME_SERVER
from actors.errors import UnknownName
from actors.events.sink import EventSink
from actors.log import Log
from actors.log_types import Chain, Claim, Found, GoodRange, GroupState, NewRecord, Offsets, Receipt
from actors.namesrv import routes
from actors.namesrv.tree import ROUTES
from actors.node.kind import NodeGroups
from actors.node.part import Part
from actors.node.status import tree_json
from actors.runtime import ActorDown, AskTimeout, Registry
from actors.runtime.system import System
from wire.api import frames

STATUS_TIMEOUT_S: Final = 5.0
# How often a stop looks whether the slaves have caught up: nobody waits for it but the stop.
DRAIN_LOOK_S: Final = 0.02


class Node:
    """A running node. Made by `open_node` and `serve`; implements `actors.api.handle.NodeHandle`.

    Attributes:
        config: the cluster's configuration.
        identity: cluster, node, boot number, groups.
        api_path: the Unix socket that it serves its API on.
        groups: what the node does for its groups, by mode.
        drains_for: what its ordered stop waits for at the moment, for people; "" for nothing.
    """

    def __init__(
        self,
        config: ClusterConfig,
        identity: NodeIdentity,
        api_path: str,
        sink: EventSink,
        groups: Mapping[str, NodeGroups],
    ) -> None:
        self.config = config
        self.identity = identity
        self.api_path = api_path
        self._sink = sink
        self.groups = groups
        self._parts: dict[str, Part] = {}
        self._settings = {group.name: stated(group) for group in config.groups_of(identity.node)}
        self._system: System | None = None
        self._stopping = False
        self.drains_for = ""
        self._stop_requested = trio.Event()
        self._drain_scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Node {self.identity.node} of {self.identity.cluster}>"

    @property
    def name(self) -> str:
        """The node's name in the cluster file."""
        return self.identity.node

    @property
    def system(self) -> System:
        """The system of its actors, which must not be used before `attach_system`."""
        assert self._system is not None
        return self._system

    def log(self, group: str) -> Log:
        """Return the log of a group of which this node is a member.

        Raises: UnknownName: it is no member of such a group.
        """
        if group not in self._parts:
            raise UnknownName(self.name, "group", group, self._parts)
        return Log(self, group)

    def part(self, group: str) -> Part:
        """Return this node's part in a group. Raises: RequestRefused: it is no member of it."""
        part = self._parts.get(group)
        if part is None:
            text = f"{self.name} is no member of group {group!r}"
            raise RequestRefused(frames.ERROR_UNKNOWN_GROUP, text)
        return part

    def is_open(self, group: str) -> bool:
        """Return whether this node takes appends of the group at this moment."""
        return self.part(group).is_open

    # ---- appending ----

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """Implements `NodeHandle.submit`."""
        await self.part(group).submit(records, on_done, chain)

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """See `Log.append`."""
        return await self.part(group).append(records)

    # ---- reading ----

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found:
        """Implements `NodeHandle.read`."""
        return await self.part(group).read(start, max_bytes, fresh)

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """Implements `NodeHandle.wait_acknowledged`."""
        return await self.part(group).wait_acknowledged(above)

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """Implements `NodeHandle.wait_offsets`."""
        return await self.part(group).wait_offsets(known)

    # ---- looking ----

    async def status(self) -> dict[str, Any]:
        """Return roles, offsets, peers and lags of each group, ready for JSON."""
        return {
            "cluster": self.identity.cluster,
            "node": self.name,
            "boot": self.identity.boot,
            "state": "stopping" if self._stopping else "running",
            "waits_for": self.drains_for,
            "events_dropped": self._sink.dropped,
            "settings": self._settings,
            "groups": {name: (await part.status()).plain() for name, part in self._parts.items()},
            **await self._name_server_status(),
        }

    async def _name_server_status(self) -> dict[str, Any]:
        """Return the status of the node's name server; {} if it has none.

        If it does not run, the status has only its address.
        """
        port = self.config.name_servers.get(self.name)
        if port is None:
            return {}
        ref = self.system.ref(f"/{self.name}/{NAME_SERVER}/{ROUTES}", routes.Look)
        address = f"{self.config.nodes[self.name]}:{port}"
        try:
            found = await ref.ask(routes.NameServerStatus, routes.Look, timeout_s=STATUS_TIMEOUT_S)
        except (ActorDown, AskTimeout):
            return {NAME_SERVER: {"address": address}}
        counts = {"brokers": found.brokers, "topics": found.topics}
        return {NAME_SERVER: {"address": address, **counts}}

    async def tree(self) -> dict[str, Any]:
        """Return the supervision tree as it is now, ready for JSON."""
        await trio.lowlevel.checkpoint()
        return tree_json(self.system.tree())

    def subscribe_events(self) -> EventSubscription:
        """Subscribe to the events from now on; the caller closes the subscription."""
        try:
            return self._sink.subscribe()
        except RuntimeError as error:
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, str(error)) from error

    # ---- who takes appends, and mending: see `NodeHandle` for each ----

    async def promote(self, group: str, node: str | None, force: bool) -> dict[str, Any]:
        return await self.part(group).promote(node, force)

    async def resync(self, group: str) -> dict[str, Any]:
        return await self.part(group).resync()

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        return await self.part(group).transfer_leader(node)

    async def group_state(self, group: str) -> GroupState:
        return await self.part(group).group_state()

    async def wait_group_state(self, group: str, known: GroupState | None) -> GroupState:
        return await self.part(group).wait_group_state(known)

    async def fence(self, group: str, claim: Claim, on: bool) -> GroupState:
        return await self.part(group).fence(claim, on)

    async def record(
        self, group: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        return await self.part(group).record(number, master, token, force)

    async def log_range(self, group: str, start: int) -> GoodRange:
        return await self.part(group).log_range(start)

    async def repair(self, group: str, source: str | None) -> dict[str, Any]:
        return await self.part(group).repair(source)

    # ---- stopping ----

    def request_stop(self) -> None:
        """Begin the ordered stop and return at once. This may be called several times."""
        self._stop_requested.set()

    async def wait_stop_requested(self) -> None:
        """Wait until a client, or `request_stop`, has asked for the stop."""
        await self._stop_requested.wait()

    def hurry(self) -> None:
        """Stop without waiting for peers or appends."""
        self._stop_requested.set()
        self.end_appends()
        self._drain_scope.cancel()
        if self._system is not None:
            self._system.hurry()

    def end_appends(self) -> None:
        """Refuse further appends as Closed.

        From now on peers have `drain_timeout_s` to get what they lack. It is harmless if appends
        have ended before.
        """
        if not self._stopping:
            self._drain_scope.deadline = trio.current_time() + self.config.drain_timeout_s
        self._stopping = True
        for part in self._parts.values():
            part.end_appends()

    async def drain(self) -> None:
        """End appends, then wait for the connected peers of all groups.

        A peer is waited for until it has what it lacks, or has taken none of it for DRAIN_STANDS_S.
        """
        self.end_appends()
        stands: dict[str, tuple[str, float]] = {}  # group -> what it waits for, and since when
        with self._drain_scope:
            while True:
                now_s, before, stands = trio.current_time(), stands, {}
                for group, part in self._parts.items():
                    if waits := await part.unsent():
                        was, since_s = before.get(group, ("", now_s))
                        stands[group] = waits, since_s if was == waits else now_s
                if not any(now_s < since_s + DRAIN_STANDS_S for _, since_s in stands.values()):
                    break
                self.drains_for = ", ".join(waits for waits, _ in stands.values())
                await trio.sleep(DRAIN_LOOK_S)
        self.drains_for = ""

    # ---- for `actors.service` ----

    def attach_groups(self, registry: Registry) -> None:
        """Make the parts in the groups; called before the tree, and so the API, starts."""
        for groups in self.groups.values():
            self._parts |= groups.parts(registry)

    def attach_system(self, system: System) -> None:
        """Keep the system of actors; called once the tree runs."""
        self._system = system
