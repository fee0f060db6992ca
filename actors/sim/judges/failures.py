"""The invariant that nothing fails without a fault, and which failures a fault excuses.

A disk error may end a node. Damage may keep a node from starting, or end it when its group starts
anew. But a failure is excused only on the node whose disk was made to fail or was damaged, only
until that node is started again (damage may be read before it is repaired, and reported later), and
only if the error names it. A disk that other programs have filled ends no node: whatever needs room
waits for it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

import attrs

from actors.events import ha, runtime, store
from actors.sim.disk.faults import NO_ROOM
from actors.sim.history import FaultInjected, Observation
from actors.sim.world import SimEvent
from actors.storage.files import room

API_CLIENT: Final = "/api/connections/"
"""The path of an API client's actor. A client that does not read its last answer is cut off after a
while, by design."""

DISK_WORDS: Final = (os.strerror(errno.EIO), os.strerror(errno.ENOSPC), "[Errno 5]")
"""The texts of a failure that a disk fault causes."""
CRASH_WORD: Final = "Crash()"
"""The text of an actor's failure that a script causes."""
DAMAGE_WORD: Final = "CorruptLog"
"""The text of a refused start that has found damage."""
DAMAGE_WORDS: Final = (DAMAGE_WORD, "expected entry", "is not what was written")
"""The texts of a failure that damage causes."""


def speaks_of_disk(text: str) -> bool:
    """Whether an error's text names a disk error."""
    return any(word in text for word in DISK_WORDS)


@attrs.define
class Excuses:
    """Tracks, from the history, for which nodes failures were caused on purpose."""

    _disk: dict[str, None] = attrs.field(factory=dict, init=False)
    _crashed: dict[str, None] = attrs.field(factory=dict, init=False)
    _damaged: dict[str, None] = attrs.field(factory=dict, init=False)
    _mended: dict[str, None] = attrs.field(factory=dict, init=False)  # and not started since

    def learn(self, seen: FaultInjected) -> None:
        """Take a fault."""
        node = seen.where.partition(" ")[0]
        match seen.kind:
            case "crashed":
                self._crashed[node] = None
            case "felt" if seen.where.partition(" ")[2] not in NO_ROOM:
                self._disk[node] = None
            case "start":
                self._disk.pop(node, None)
                self._mended.pop(node, None)
            case "damaged":
                self._damaged[node] = None
            case "repaired" | "wiped" if node in self._damaged:
                del self._damaged[node]
                self._mended[node] = None

    def cover(self, node: str, error: str) -> bool:
        """Whether the node may fail with this error now."""
        if node in self._crashed and CRASH_WORD in error:
            return True
        if node in self._disk and speaks_of_disk(error):
            return True
        return (node in self._damaged or node in self._mended) and any(
            word in error for word in DAMAGE_WORDS
        )

    def disk_failed(self, node: str) -> bool:
        """Whether a disk error or damage may have struck this boot of the node."""
        return node in self._disk or node in self._damaged or node in self._mended


@attrs.define
class NothingFails:
    """No actor crashes, gives up or is killed. A fault from outside crashes no actor, with one
    exception: a disk error may end the node that has it, and the actors that waited for an answer
    of one that it ended.
    """

    _excuses: Excuses = attrs.field(factory=Excuses, init=False)
    _excused: dict[tuple[str, int], set[str]] = attrs.field(factory=dict, init=False)  # by boot

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, FaultInjected):
            self._excuses.learn(seen)
        if not isinstance(seen, SimEvent):
            return
        who = f"{seen.path} of {seen.node}#{seen.boot}"
        disk_failed = self._excuses.disk_failed(seen.node)
        match seen.event:
            case runtime.ActorCrashed(error=error) if not self._is_excused(seen, error):
                yield f"{who} crashed: {error}"
            case runtime.RestartIntensityExceeded(child=child) if not disk_failed:
                yield f"{who} gave up on {child}"
            case runtime.StopTimedOut(paths=paths):
                yield f"{seen.node}#{seen.boot} did not stop in time: {', '.join(paths)}"
            case runtime.ChildKilled(shutdown_s=shutdown_s) if API_CLIENT not in seen.path:
                yield f"{who} was killed after {shutdown_s:g} s"
            case store.RawAppendRefused(reason=reason) if not (
                speaks_of_disk(reason) or reason.startswith(room.NO_ROOM)
            ):
                yield f"{who} refused received bytes: {reason}"
            case ha.SlaveDiverged(mismatches=mismatches):
                yield f"{who} diverged after {mismatches}"

    def _is_excused(self, seen: SimEvent, error: str) -> bool:
        """Whether an actor may crash with this error."""
        excused = self._excused.setdefault((seen.node, seen.boot), set())
        asked = error.removeprefix("ActorDown: ").removesuffix(" is not running")
        if not self._excuses.cover(seen.node, error) and asked not in excused:
            return False
        excused.add(seen.path)
        return True
