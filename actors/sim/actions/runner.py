"""Carries scripts out on machines, keeps the nodes running, and knows which failures it has caused.
What belongs to one mode is in a subclass: `classic.runner`, `dledger.runner`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio

from actors.errors import NoRoomToStart
from actors.runtime.errors import describe
from actors.sim.actions.action import Action
from actors.sim.actions.script import Fault, Script
from actors.sim.history import FaultInjected, History, MachineDid
from actors.sim.judges.failures import DAMAGE_WORD, Excuses
from actors.sim.machines import SimMachines
from actors.sim.world import EndedWhileStarting, NodeState, SimEvent

STARTS_MAX: Final = 40
"""How many starts in a row may fail before that is a defect: a node that is killed while it starts,
or finds its disk damaged, is started again."""
START_AGAIN_S: Final = 0.5
"""The pause after a start that a disk fault ended."""
LOOK_S: Final = 0.1


Seen: TypeAlias = SimEvent | MachineDid


async def came(event: trio.Event, within_s: float) -> bool:
    """Wait for an event at most `within_s` seconds. Returns: whether it is set."""
    with trio.move_on_after(within_s):
        await event.wait()
    return event.is_set()


class Atlas(Protocol):
    """Damages what may be damaged, and knows what it has damaged."""

    def flip_bit(self, node: str, rng: random.Random) -> str | None:
        """Flip a bit that a checksum covers. Returns: where, for people; None: nothing may be
        damaged.
        """

    def revert_page(self, node: str, rng: random.Random) -> str | None:
        """Give a page the content from before its last sync. Returns: where; None: nothing may be
        damaged.
        """

    def repair(self, node: str) -> list[str]:
        """Put the bytes of a node back. Returns: where, one text each."""

    def newest_good(self, node: str) -> bytes:
        """Return the bytes that a node's newest damage has replaced."""


@attrs.define(eq=False, kw_only=True)
class Runner:
    """Carries scripts out on machines.

    Attributes:
        cluster: the machines.
        history: gets a note of everything that took effect.
        actions: the actions by their names.
        atlas: damages bytes, and knows what was damaged.
        log_part: a part of the path of every log file.
        counts: how often each action took effect.
    """

    cluster: SimMachines[Any]
    history: History
    actions: Mapping[str, Action[Any]]
    atlas: Atlas = attrs.field(init=False)
    log_part: str = attrs.field(init=False)
    counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _excuses: Excuses = attrs.field(factory=Excuses, init=False)
    _starting: dict[str, None] = attrs.field(factory=dict, init=False)
    _stopping: dict[str, None] = attrs.field(factory=dict, init=False)
    _acting: int = attrs.field(default=0, init=False)
    _watches: list[Callable[[Seen], None]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        for node in self.cluster.world.nodes:
            node.disk.faults.on_effect = partial(self._feel, node.name)
        self.cluster.world.on_event.append(self.saw)

    async def run(self, script: Script) -> None:
        """Carry a script out; return when every fault has begun and was undone."""
        begin_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for fault in script:
                await trio.sleep_until(begin_s + fault.at_s)
                if not self.actions[fault.kind].alone:
                    self._acting += 1
                    nursery.start_soon(self._act, fault)
                    continue
                while self._acting:  # noqa: ASYNC110 - virtual time costs nothing
                    await trio.sleep(LOOK_S)
                await self.actions[fault.kind].act(self, fault)

    async def mend(self) -> None:
        """Undo all faults, and have every node run."""
        self.cluster.heal()
        self.mended("heal", "all")
        for name in self.cluster.names:
            self.cluster.resume(name)
            self.cluster.disk(name).faults.clear()
        for name in self.cluster.names:
            self.repair(name)
            await self.up(name)

    # ---- for actions ----

    def rng(self, fault: Fault) -> random.Random:
        """Return the random stream for one line of a script, whatever the other lines are."""
        return self.cluster.world.rng(f"act:{fault}")

    def began(self, fault: Fault) -> None:
        """Note that a fault has taken effect."""
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        self.note(fault.kind, fault.text)

    def mended(self, kind: str, where: str) -> None:
        """Note that a fault was undone, or that something that it took is back."""
        self.note(kind, where)

    def damaged(self, name: str, where: str) -> None:
        """Note that the atlas has changed bytes of a log."""
        self.note("damaged", f"{name} {where}", good=self.atlas.newest_good(name))

    def note(self, kind: str, where: str, *, good: bytes = b"") -> None:
        self.cluster.world.fingerprint.note(f"{kind} {where}")
        seen = FaultInjected(at_s=trio.current_time(), kind=kind, where=where, good=good)
        self._excuses.learn(seen)
        self.history.add(seen)

    @contextmanager
    def watching(self, wanted: Callable[[Seen], bool]) -> Iterator[trio.Event]:
        """Within the block, yield an event that is set at the first observation for which `wanted`
        is true.
        """
        come = trio.Event()

        def watch(seen: Seen) -> None:
            if wanted(seen):
                come.set()

        self._watches.append(watch)
        try:
            yield come
        finally:
            self._watches.remove(watch)

    async def strike(self, fault: Fault, name: str, how: str = "kill") -> None:
        """End a node that is on, by a kill or, if `how` is "power", a power loss; start it `for_s`
        later.
        """
        if self.is_on(name):
            self.began(fault)
            await self.end(name, how)
            await trio.sleep(fault.for_s)
            await self.up(name)

    async def end(self, name: str, how: str) -> None:
        """End a node by a power loss if `how` is "power", else by a kill."""
        await (self.cluster.power_loss if how == "power" else self.cluster.kill)(name)

    def has_died(self, name: str) -> bool:
        """Whether a node has ended by itself, which was not noticed yet."""
        return self.cluster.world.node(name).failure is not None

    def is_on(self, name: str) -> bool:
        return self.cluster.runs(name)

    def is_ready(self, name: str) -> bool:
        """Whether a node is running, not paused, and not being started, stopped or killed."""
        if self.cluster.world.node(name).state is not NodeState.RUNNING:
            return False
        if name in self._starting or name in self._stopping:
            return False
        return self.cluster.running(name) is not None

    async def stop(self, name: str) -> None:
        """Stop a node that is ready, in order.

        It is not paused meanwhile: when it went on, the time that its parts have for stopping would
        be over.
        """
        self._stopping[name] = None
        try:
            await self.cluster.stop(name)
        finally:
            del self._stopping[name]

    async def up(self, name: str) -> None:
        """Have a node run, even if other tasks want the same."""
        if name in self._starting:
            return
        self._starting[name] = None
        try:
            for _ in range(STARTS_MAX):
                if self.cluster.runs(name):
                    return
                self.notice_failure(name)
                if not await self._start(name):
                    return
            raise AssertionError(f"{name} was ended {STARTS_MAX} times while it started")
        finally:
            del self._starting[name]

    def notice_failure(self, name: str) -> None:
        """Report a node that has died by itself as a violation, unless its disk was made to
        fail.
        """
        node = self.cluster.world.node(name)
        failure = node.take_failure()
        if failure is None:
            return
        text = describe(failure)
        if self._excuses.cover(name, text):
            self.note("died", f"{name} of its disk")
        else:
            self.history.violated("NothingFails", f"{name} died: {text}")

    def repair(self, name: str) -> None:
        """Put the damaged bytes back, as the operator does from another node's copy."""
        for text in self.atlas.repair(name):
            self.note("repaired", f"{name} {text}")

    # ---- inside ----

    def saw(self, seen: Seen) -> None:
        """Take each event of a node, for `watching`."""
        for watch in self._watches:
            watch(seen)

    async def _act(self, fault: Fault) -> None:
        try:
            await self.actions[fault.kind].act(self, fault)
        finally:
            self._acting -= 1

    async def _start(self, name: str) -> bool:
        """Start a node once. Returns: False if another try would be useless."""
        self.note("start", name)
        try:
            await self.cluster.start(name)
        except EndedWhileStarting:
            await trio.lowlevel.checkpoint()
        # a new folder needs room, and a start that has none cannot wait for it
        except NoRoomToStart:
            self.note("start failed", name)
            await trio.sleep(START_AGAIN_S)
        except Exception as error:  # noqa: BLE001 - any error that a node's start may raise
            if not self._excuses.cover(name, describe(error)):
                return self._cannot_start(name, error)
            damaged = DAMAGE_WORD in describe(error)
            self.note("refused to start" if damaged else "start failed", name)
            await trio.sleep(START_AGAIN_S)
            if damaged:
                self._tend(name)
        return True

    def _cannot_start(self, name: str, error: Exception) -> bool:
        self.history.violated("NodesStart", f"{name} cannot start: {describe(error)}")
        return False

    def _tend(self, name: str) -> None:
        """Mend a node that rightly refuses to start, as OPERATING.md says."""
        self.repair(name)

    def _feel(self, name: str, what: str) -> None:
        """Note that a disk fault took effect."""
        self.note("felt", f"{name} {what}")
