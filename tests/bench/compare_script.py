"""One script of faults for every kind of group, and who carries it out.

Lines are those of `actors.sim.actions.script`, but nodes are said by what they are at that moment:
`leader` is who acknowledged last, a classic group's master or a DLedger group's leader; `follower`
is the first of the others. `extra`, of a fault of the leader: so many seconds later the operator
of a classic group promotes the furthest slave. A DLedger group elects, and needs no operator.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import attrs
import trio
from bench_kit import GROUP
from compare_load import Acked, Load

from actors.errors import TriologError
from actors.group_status import group_statuses
from actors.log import Log
from actors.runtime import ActorError
from actors.sim.actions.script import Fault, Script, parse_fault

SCRIPT: Final = """\
at 5 kill leader for 12 extra 2
at 25 kill follower for 4
at 35 pause follower for 4
at 45 pause leader for 15 extra 2
at 70 cut leader follower for 8
"""
REST_S: Final = 8.0
"""From the end of the last fault to the end of the load."""
JITTER_S: Final = 1.0
"""Faults come up to so much later, by the seed: not always at the same moment of a heartbeat."""
TEND_S: Final = 0.5
AGAIN_S: Final = 0.2
CALL_S: Final = 30.0
OUTAGE_MAX_S: Final = 60.0
REJOIN_S: Final = 60.0
KILL_PAUSE_S: Final = (0.5, 1.5)
LOOK_S: Final = 0.05
Step = Callable[..., Awaitable[None]]
"""Takes the nodes."""
FAILED = (TriologError, ActorError, OSError)


class Api(Protocol):
    """What an operator asks of a node."""

    async def status(self) -> dict[str, Any]: ...
    async def promote(self, group: str, node: str | None, *, force: bool) -> dict[str, Any]: ...
    async def resync(self, group: str) -> dict[str, Any]: ...


@attrs.define(eq=False)
class Stage(ABC):
    """A running group of three nodes, and what can be done to them.

    Attributes:
        elects: whether its members elect their leader.
    """

    names: tuple[str, ...]
    elects: bool

    @abstractmethod
    def log(self, name: str) -> Log:
        """Raises: NotStored while the node is out of reach."""

    @abstractmethod
    async def ask(self, name: str, call: Callable[[Api], Awaitable[Any]]) -> Any:
        """What the node answers. Raises: one of FAILED."""

    @abstractmethod
    async def kill(self, name: str) -> None: ...
    @abstractmethod
    async def start(self, *names: str) -> None:
        """Return when they can be asked."""

    @abstractmethod
    async def pause(self, name: str) -> None: ...
    @abstractmethod
    async def resume(self, name: str) -> None: ...
    @abstractmethod
    async def cut(self, one: str, other: str) -> None: ...
    @abstractmethod
    async def heal(self, one: str, other: str) -> None: ...
    @abstractmethod
    def again_bytes(self) -> int:
        """How much all members were sent again."""

    async def restart_all(self) -> None:
        """Kill every node, then start them."""
        for name in self.names:
            await self.kill(name)
        await self.start(*self.names)

    async def promote(self, but: str) -> None:
        """The operator makes the furthest of the others master, and tries until that is done."""
        while True:
            for name in self.names:
                if name != but and await self._try(
                    name, lambda api: api.promote(GROUP, None, force=False)
                ):
                    return
            await trio.sleep(AGAIN_S)

    async def tend(self) -> None:
        """The operator of a classic group who has what was refused as diverged follow again."""
        while not self.elects:
            for name in self.names:
                status = await self._try(name, lambda api: api.status())
                if status is not None and group_statuses(status)[GROUP].diverged:
                    await self._try(name, lambda api: api.resync(GROUP))
            await trio.sleep(TEND_S)

    async def _try(self, name: str, call: Callable[[Api], Awaitable[Any]]) -> Any:
        """What it answers; None if it does not, or refuses."""
        with trio.move_on_after(CALL_S):
            try:
                return await self.ask(name, call)
            except FAILED:
                return None
        return None


@attrs.frozen
class Hit:
    """A fault that took effect."""

    fault: Fault
    at_s: float


def read_script(text: str, seed: str) -> Script:
    """The lines, each up to JITTER_S later as the seed says. Raises: ValueError."""
    rng = random.Random(f"{seed}:moments")
    return tuple(
        attrs.evolve(fault, at_s=fault.at_s + rng.uniform(0.0, JITTER_S))
        for fault in map(parse_fault, text.splitlines())
    )


def title(fault: Fault) -> str:
    """Of a table's row."""
    then = f", promote {fault.extra:g} s later" if fault.extra else ""
    return f"{fault.kind} {' - '.join(fault.nodes)}{then}"


async def play(stage: Stage, load: Load, script: Script) -> list[Hit]:
    """Carry all out under a running load; return when each is mended, REST_S have passed, and the
    last outage is over, unless that takes OUTAGE_MAX_S.

    One after the other: a fault that takes long to mend delays the next ones.
    """
    begin_s, hits = trio.current_time(), list[Hit]()
    for fault in script:
        await trio.sleep_until(begin_s + fault.at_s)
        await _carry_out(stage, load, fault, hits)
    await trio.sleep(REST_S)
    await load.wait_acknowledged(trio.current_time(), OUTAGE_MAX_S)
    return hits


async def _carry_out(stage: Stage, load: Load, fault: Fault, hits: list[Hit]) -> None:
    leader = load.leader
    who = {"leader": leader, "follower": next(name for name in stage.names if name != leader)}
    nodes = [who[word] for word in fault.nodes]
    steps: dict[str, tuple[Step, Step]] = {
        "kill": (stage.kill, stage.start),
        "pause": (stage.pause, stage.resume),
        "cut": (stage.cut, stage.heal),
    }
    do, undo = steps[fault.kind]
    hit = Hit(fault, trio.current_time())
    hits.append(hit)
    await do(*nodes)
    with trio.move_on_at(hit.at_s + fault.for_s):
        if fault.extra and not stage.elects:
            await trio.sleep_until(hit.at_s + fault.extra)
            await stage.promote(but=nodes[0])
        await trio.sleep_forever()
    await undo(*nodes)


async def kill_leaders(stage: Stage, load: Load, times: int, seed: str) -> list[Hit]:
    """Under a running load kill the leader so many times, and start it again once another one
    acknowledges; the next dies when it has rejoined.

    Raises: NotRejoined.
    """
    rng, hits = random.Random(f"{seed}:kills"), list[Hit]()
    for number in range(times):
        await trio.sleep(rng.uniform(*KILL_PAUSE_S))
        leader = load.leader
        line = f"at {number} kill leader"
        hits.append(Hit(parse_fault(line), trio.current_time()))
        await stage.kill(leader)
        await load.wait_acknowledged(hits[-1].at_s, OUTAGE_MAX_S)
        await stage.start(leader)
        await _rejoined(stage, load, leader)
    return hits


class NotRejoined(Exception):
    """A killed member did not come back into its group."""


async def _rejoined(stage: Stage, load: Load, name: str) -> None:
    """Return when it holds, and shows, what the leader had acknowledged when this was called.

    Raises: NotRejoined.
    """
    target = load.acked[-1].position
    with trio.move_on_after(REJOIN_S):
        while True:
            try:
                offsets = await stage.log(name).offsets()
                if min(offsets.written, offsets.acknowledged) > target:
                    return
            except FAILED:
                pass
            await trio.sleep(LOOK_S)
    raise NotRejoined(f"{name} was not back within {REJOIN_S:g} s")


def outages(acked: Sequence[Acked], hits: Sequence[Hit]) -> list[float | None]:
    """Of each fault, seconds until an append was acknowledged that was asked for after it; None:
    none was.
    """
    found: list[float | None] = []
    for hit in hits:
        ended = [each.ended_s for each in acked if each.asked_s >= hit.at_s]
        found.append(min(ended) - hit.at_s if ended else None)
    return found
