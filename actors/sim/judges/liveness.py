"""Inspects the running nodes from time to time: nothing stands still without giving a reason, and
no queue grows without a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import trio

from actors.config import CommitLogGroup
from actors.errors import TriologError
from actors.events.runtime import ActorCrashed, ActorStopped
from actors.events.store import DiskUsageChanged
from actors.group_status import DAMAGED
from actors.runtime.errors import ActorError
from actors.sim.history import Invariant, NodeLooked, Observation
from actors.sim.judges.failures import NothingFails
from actors.sim.machines import SimMachines
from actors.sim.world import NodeState, SimEvent

LOOK_EVERY_S: Final = 2.0
LOOK_TIMEOUT_S: Final = 1.0
STALL_S: Final = 45.0
"""Within how long a slave that lags gets bytes or begins a new session. Housekeeping (20 s by
default) ends a silent connection, and a node may be paused for 12 s."""
MAILBOX_MAX: Final = 10_000 + 64
"""The size of the largest mailbox of a node, with its control lane."""
MAILBOX_BYTES_MAX: Final = 64 << 20
WAITING_MAX: Final = 5000
"""How many tasks may wait for room in one mailbox."""
ROOM_USED_MAX: Final = 0.5
"""A disk whose used share is below this has room, whatever the configuration says."""
ROOM_AGAIN_S: Final = 60.0
"""Within how long a log that found no room finds some, or is not in need of any. Logs check their
disk every 10 s, and a write that failed is tried again with pauses of up to 30 s."""


def of_any_node() -> tuple[Invariant, ...]:
    """Make the invariants of any node, whatever its mode and whatever is broken on purpose."""
    return NothingFails(), QueuesBounded(), RoomIsFoundAgain()


async def look_around(cluster: SimMachines[Any], add: Callable[[Observation], None]) -> None:
    """Ask every running node for its status and tree, again and again, until cancelled."""
    while True:
        await trio.sleep(LOOK_EVERY_S)
        for name in cluster.names:
            sim_node = cluster.world.node(name)
            if sim_node.state is not NodeState.RUNNING:
                continue
            boot = sim_node.boots
            with trio.move_on_after(LOOK_TIMEOUT_S):
                try:
                    node = cluster.node(name)
                    status, tree = await node.status(), await node.tree()
                except (TriologError, ActorError):
                    continue  # it is stopping, or was killed meanwhile
                now_s = trio.current_time()
                if sim_node.boots == boot and cluster.runs(name):
                    disk = sim_node.disk
                    filled = disk.faults.is_full or disk.faults.lacks_inodes
                    room = not filled and disk.usage("") < ROOM_USED_MAX
                    looked = NodeLooked(
                        at_s=now_s, node=name, boot=boot, status=status, tree=tree, has_room=room
                    )
                    add(looked)


@attrs.define
class _Slave:
    """The state of a slave when it last made progress."""

    boot: int
    written: int
    session: int
    since_s: float


@attrs.define(kw_only=True)
class NoSilentStall:
    """A slave that lags either goes on or tries again: each attempt is a new session, whose end has
    a reason.

    A slave that holds less than its master and does neither is a silent stall, unless it, or its
    master, reports that its copy is damaged: then it waits for a repair.
    """

    group: CommitLogGroup
    _slaves: dict[str, _Slave] = attrs.field(factory=dict, init=False)
    _master_written: int = attrs.field(default=0, init=False)
    _master_damaged: bool = attrs.field(default=False, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, NodeLooked):
            return
        status = seen.status["groups"].get(self.group.name)
        if status is None:
            return
        if status["leads"]:
            self._master_written = status["written"]
            self._master_damaged = DAMAGED in status["findings"]
        elif status["link"] is not None:
            yield from self._judge(seen, status, status["link"])

    def _judge(
        self, seen: NodeLooked, status: dict[str, Any], link: dict[str, Any]
    ) -> Iterator[str]:
        written, session = status["written"], link["details"]["session"]
        known = self._slaves.get(seen.node)
        moved = known is None or (known.boot, known.written, known.session) != (
            seen.boot,
            written,
            session,
        )
        damaged = DAMAGED in status["findings"] or self._master_damaged
        waits = damaged or written >= self._master_written
        if known is None or moved or waits:
            self._slaves[seen.node] = _Slave(seen.boot, written, session, seen.at_s)
            return
        stood_s = seen.at_s - known.since_s
        if stood_s > STALL_S:
            how = "is connected and" if link["is_up"] else "tries nothing and"
            yield f"{seen.node} {how} stands at {written} for {stood_s:.0f} s"


@attrs.define
class RoomIsFoundAgain:
    """A part of a running node that waits for room reports that it goes on, once there has been
    room.
    """

    _since_s: dict[tuple[str, str], float] = attrs.field(factory=dict, init=False)  # node, part
    _boots: dict[str, int] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, SimEvent | NodeLooked) and self._boots.get(seen.node) != seen.boot:
            self._boots[seen.node] = seen.boot
            self._forget(seen.node)  # a new start reports itself what it lacks
        match seen:
            case SimEvent(event=ActorStopped() | ActorCrashed(), node=node, path=path):
                self._since_s.pop((node, path), None)
            case SimEvent(event=DiskUsageChanged(is_full=True), node=node, at_s=at_s, path=path):
                self._since_s.setdefault((node, path), at_s)
            case SimEvent(event=DiskUsageChanged(), node=node, path=path):
                self._since_s.pop((node, path), None)
            case NodeLooked(has_room=False, node=node, at_s=at_s):
                self._since_s |= {key: at_s for key in self._since_s if key[0] == node}
            case NodeLooked(node=node, at_s=at_s):
                yield from self._judge(node, at_s)

    def _judge(self, node: str, now_s: float) -> Iterator[str]:
        for (name, path), since_s in tuple(self._since_s.items()):
            if name == node and now_s - since_s > ROOM_AGAIN_S:
                self._since_s[name, path] = now_s  # it is reported each time
                yield f"{path} has found no room for {now_s - since_s:.0f} s, and there was some"

    def _forget(self, node: str) -> None:
        self._since_s = {key: at_s for key, at_s in self._since_s.items() if key[0] != node}


@attrs.define
class QueuesBounded:
    """No mailbox holds more messages or bytes than the largest may, and few tasks wait for room in
    it.
    """

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, NodeLooked):
            yield from self._judge(seen.node, seen.tree)

    def _judge(self, node: str, tree: dict[str, Any]) -> Iterator[str]:
        box = tree["mailbox"]
        if box is not None:
            for key, most in (
                ("depth", MAILBOX_MAX),
                ("size_bytes", MAILBOX_BYTES_MAX),
                ("senders_waiting", WAITING_MAX),
            ):
                if box[key] > most:
                    yield f"{tree['path']} of {node}: {key} is {box[key]}, at most {most} may be"
        for child in tree["children"]:
            yield from self._judge(node, child)
