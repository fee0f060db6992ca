"""Faults as data: a script is drawn from the seed, then carried out; a shorter script is a script
too, so that a failing one can be cut down by hand or by a tool.

A fault names what breaks, when, and for how long; it mends itself. Faults overlap: one that finds
nothing to break (the node is off already) does nothing and is not counted.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from actors.errors import TriologError
from actors.runtime.errors import describe
from actors.sim.cluster import SimCluster
from actors.sim.history import FaultInjected, History
from actors.sim.world import EndedWhileStarting, NodeState

STARTS_MAX: Final = 20
"""A node that is killed while it starts is started again; so often in a row is a defect."""


class FaultKind(enum.Enum):
    """What can happen; the value is its name in scripts and counts."""

    CUT = "cut"  # two nodes, both ways
    CUT_ONE_WAY = "cut_one_way"
    ISOLATE = "isolate"  # one node from all others
    RESET = "reset"  # the connections between two nodes break, once
    CLOG = "clog"  # one direction delays everything
    KILL = "kill"
    KILL_STARTING = "kill_starting"  # and again soon after the restart has begun
    STOP = "stop"  # in order, and started again
    POWER_LOSS = "power_loss"
    POWER_LOSS_ALL = "power_loss_all"
    PAUSE = "pause"
    SLOW_SYNC = "slow_sync"


PAIRS: Final = (FaultKind.CUT, FaultKind.CUT_ONE_WAY, FaultKind.RESET, FaultKind.CLOG)

RESTARTS: Final = (FaultKind.KILL, FaultKind.KILL_STARTING, FaultKind.STOP)

WEIGHTS: Final[Mapping[FaultKind, int]] = {
    FaultKind.CUT: 3,
    FaultKind.CUT_ONE_WAY: 3,
    FaultKind.ISOLATE: 3,
    FaultKind.RESET: 3,
    FaultKind.CLOG: 2,
    FaultKind.KILL: 4,
    FaultKind.KILL_STARTING: 2,
    FaultKind.STOP: 2,
    FaultKind.POWER_LOSS: 4,
    FaultKind.POWER_LOSS_ALL: 1,
    FaultKind.PAUSE: 3,
    FaultKind.SLOW_SYNC: 3,
}


@attrs.frozen(kw_only=True)
class Fault:
    """One line of a script.

    Attributes:
        at_s: virtual time since the script's begin.
        kind: what.
        node: to whom; for pairs, from whom.
        other: for pairs, the other one; else "".
        for_s: how long until it mends itself.
        extra_s: of SLOW_SYNC, how much longer each sync takes; of KILL_STARTING, how long after
            the start has begun.
    """

    at_s: float
    kind: FaultKind
    node: str
    other: str = ""
    for_s: float = 0.0
    extra_s: float = 0.0

    def __str__(self) -> str:
        pair = f" -> {self.other}" if self.other else ""
        extra = f" extra {self.extra_s:.3f} s" if self.extra_s else ""
        return f"{self.kind.value} {self.node}{pair} for {self.for_s:.2f} s{extra}"


Script = tuple[Fault, ...]


def draw_script(
    rng: random.Random,
    names: Sequence[str],
    *,
    duration_s: float,
    count: int,
    spare_power: Sequence[str] = (),
) -> Script:
    """Draw `count` faults, one of them a restart. The kinds themselves are drawn first, so that
    runs differ in character.

    Args:
        names: the nodes, at least two, the master first.
        duration_s: when the last may begin.
        spare_power: nodes that keep their power: the master of a `written` group promises nothing
            after a power loss.
    """
    assert len(names) > 1
    assert count > 0
    usable = list(FaultKind)
    if spare_power:
        usable.remove(FaultKind.POWER_LOSS_ALL)
    kinds = rng.sample(usable, k=rng.randint(3, len(usable)))
    weights = [WEIGHTS[kind] for kind in kinds]
    allowed = [name for name in names if name not in spare_power]
    script = []
    for kind in (rng.choice(RESTARTS), *rng.choices(kinds, weights, k=count - 1)):
        node = rng.choice(allowed if kind is FaultKind.POWER_LOSS else list(names))
        others = [name for name in names if name != node]
        script.append(
            Fault(
                at_s=rng.uniform(0.5, duration_s),
                kind=kind,
                node=node,
                other=rng.choice(others) if kind in PAIRS else "",
                for_s=rng.choice([rng.uniform(0.01, 1.0), rng.uniform(1.0, 12.0)]),
                extra_s=_extra_s(rng, kind),
            )
        )
    return tuple(sorted(script, key=lambda fault: fault.at_s))


def _extra_s(rng: random.Random, kind: FaultKind) -> float:
    if kind is FaultKind.SLOW_SYNC:
        return rng.uniform(0.05, 4.0)
    return rng.uniform(0.0, 0.05) if kind is FaultKind.KILL_STARTING else 0.0


@attrs.define(eq=False)
class FaultRunner:
    """Carries scripts out on one cluster.

    Attributes:
        cluster: whose nodes and links.
        history: is told of everything that took effect.
        counts: how often each kind took effect.
    """

    cluster: SimCluster
    history: History
    counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _starting: dict[str, None] = attrs.field(factory=dict, init=False)

    async def run(self, script: Script) -> None:
        """Return when every fault has begun and mended itself."""
        begin_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for fault in script:
                await trio.sleep_until(begin_s + fault.at_s)
                nursery.start_soon(self._carry_out, fault)

    async def mend(self) -> None:
        """Heal everything, and have every node run."""
        self.cluster.heal()
        self._note("heal", "all", counted=False)
        for name in self.cluster.names:
            self.cluster.resume(name)
            self.cluster.world.node(name).disk.faults.clear()
        for name in self.cluster.names:
            await self._up(name)

    def notice_failure(self, name: str) -> None:
        """A node that has died of itself breaks a rule, whatever was done to the others."""
        failure = self.cluster.world.node(name).take_failure()
        if failure is not None:
            text = f"{name} died: {describe(failure)}"
            self.history.violated("NothingFails", trio.current_time(), text)

    async def _carry_out(self, fault: Fault) -> None:
        act = _ACTS[fault.kind]
        await act(self, fault)

    def _note(self, kind: str, where: str, *, counted: bool = True) -> None:
        world = self.cluster.world
        world.fingerprint.note(f"{kind} {where}")
        if counted:
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self.history.add(FaultInjected(at_s=trio.current_time(), kind=kind, where=where))

    def _began(self, fault: Fault) -> None:
        self._note(fault.kind.value, str(fault).removeprefix(f"{fault.kind.value} "))

    # ---- network ----

    async def _cut(self, fault: Fault) -> None:
        self._began(fault)
        self.cluster.cut(fault.node, fault.other)
        await trio.sleep(fault.for_s)
        self.cluster.heal(fault.node, fault.other)
        self._note("heal", f"{fault.node} {fault.other}", counted=False)

    async def _cut_one_way(self, fault: Fault) -> None:
        self._began(fault)
        self.cluster.cut_one_way(fault.node, fault.other)
        await trio.sleep(fault.for_s)
        self.cluster.heal(fault.node, fault.other)
        self._note("heal", f"{fault.node} {fault.other}", counted=False)

    async def _isolate(self, fault: Fault) -> None:
        self._began(fault)
        self.cluster.cut(fault.node)
        await trio.sleep(fault.for_s)
        self.cluster.heal(fault.node)
        self._note("heal", fault.node, counted=False)

    async def _reset(self, fault: Fault) -> None:
        if self.cluster.reset(fault.node, fault.other):
            self._began(fault)
        await trio.lowlevel.checkpoint()

    async def _clog(self, fault: Fault) -> None:
        self._began(fault)
        self.cluster.world.network.clog(fault.node, fault.other, fault.for_s)
        await trio.lowlevel.checkpoint()

    # ---- processes and machines ----

    async def _kill(self, fault: Fault) -> None:
        if self._is_on(fault.node):
            self._began(fault)
            await self.cluster.kill(fault.node)
            await trio.sleep(fault.for_s)
            await self._up(fault.node)

    async def _kill_starting(self, fault: Fault) -> None:
        if not self._is_on(fault.node):
            return
        self._began(fault)
        await self.cluster.kill(fault.node)
        await trio.sleep(fault.for_s)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._up, fault.node)
            await trio.sleep(fault.extra_s)
            if self._is_on(fault.node):
                await self.cluster.kill(fault.node)
        await self._up(fault.node)

    async def _stop(self, fault: Fault) -> None:
        state = self.cluster.world.node(fault.node).state
        if state is not NodeState.RUNNING or fault.node in self._starting:
            return
        self._began(fault)
        await self.cluster.stop(fault.node)
        await trio.sleep(fault.for_s)
        await self._up(fault.node)

    async def _power_loss(self, fault: Fault) -> None:
        if self._is_on(fault.node):
            self._began(fault)
            await self.cluster.power_loss(fault.node)
            await trio.sleep(fault.for_s)
            await self._up(fault.node)

    async def _power_loss_all(self, fault: Fault) -> None:
        self._began(fault)
        for name in self.cluster.names:
            if self._is_on(name):
                await self.cluster.power_loss(name)
        await trio.sleep(fault.for_s)
        for name in self.cluster.names:
            await self._up(name)

    async def _pause(self, fault: Fault) -> None:
        if self.cluster.world.node(fault.node).state is NodeState.RUNNING:
            self._began(fault)
            self.cluster.pause(fault.node)
            await trio.sleep(fault.for_s)
            self.cluster.resume(fault.node)
            self._note("resume", fault.node, counted=False)

    async def _slow_sync(self, fault: Fault) -> None:
        self._began(fault)
        disk = self.cluster.world.node(fault.node).disk
        disk.faults.slow_syncs(fault.extra_s, fault.for_s)
        await trio.lowlevel.checkpoint()

    def _is_on(self, name: str) -> bool:
        return self.cluster.runs(name)

    async def _up(self, name: str) -> None:
        """Have the node run, whoever else wants the same."""
        if name in self._starting:
            return
        self._starting[name] = None
        try:
            for _ in range(STARTS_MAX):
                if self.cluster.runs(name):
                    return
                self.notice_failure(name)
                self._note("start", name, counted=False)
                try:
                    await self.cluster.start(name)
                except EndedWhileStarting:
                    await trio.lowlevel.checkpoint()
                except (TriologError, OSError) as error:
                    now_s = trio.current_time()
                    self.history.violated("NodesStart", now_s, f"{name} cannot start: {error!r}")
                    return
            raise AssertionError(f"{name} was ended {STARTS_MAX} times while it started")
        finally:
            del self._starting[name]


_ACTS: Final[Mapping[FaultKind, Callable[[FaultRunner, Fault], Awaitable[None]]]] = {
    FaultKind.CUT: FaultRunner._cut,
    FaultKind.CUT_ONE_WAY: FaultRunner._cut_one_way,
    FaultKind.ISOLATE: FaultRunner._isolate,
    FaultKind.RESET: FaultRunner._reset,
    FaultKind.CLOG: FaultRunner._clog,
    FaultKind.KILL: FaultRunner._kill,
    FaultKind.KILL_STARTING: FaultRunner._kill_starting,
    FaultKind.STOP: FaultRunner._stop,
    FaultKind.POWER_LOSS: FaultRunner._power_loss,
    FaultKind.POWER_LOSS_ALL: FaultRunner._power_loss_all,
    FaultKind.PAUSE: FaultRunner._pause,
    FaultKind.SLOW_SYNC: FaultRunner._slow_sync,
}
