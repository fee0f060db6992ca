"""Trio's scheduling, seeded, recorded and steered. No other file uses Trio's private names.

Trio decides only the order within a batch of runnable tasks by chance: with
`_ALLOW_DETERMINISTIC_SCHEDULING` it sorts the batch by spawn order and shuffles it with
`_core._run._r`. So seeding `_r` fixes the schedule, and replacing it by an object with another
`shuffle` steers it: a policy may reorder the batch or leave tasks for a later pass, and a whole
node can be held still, as SIGSTOP would.

One thing is not controlled: the order in which one cancellation reaches several waiting tasks
follows memory addresses. It has no effect as long as abort functions only remove their own task
from a list, which holds for Trio's and must hold for ours.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
import struct
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVarTuple

import attrs
import trio
import trio.testing
from trio._core import _run

TRIO_SERIES = "0.35."
"""The series of Trio versions for whose run loop this file was written."""
TRIO_VERSION = trio.__version__
"""The installed version, on which a seed's history depends."""

Ts = TypeVarTuple("Ts")
Task = trio.lowlevel.Task

node_label: ContextVar[str] = ContextVar("node_label", default="")
"""The simulated node to which a task belongs; tasks inherit it from their parents. "" is the
host."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class UnsupportedTrio(RuntimeError):
    """The installed Trio is not of the series whose private names this file uses."""


def check_trio(version: str = TRIO_VERSION) -> None:
    """Check the version of Trio. Raises: UnsupportedTrio: it is of another series; the text names
    both.
    """
    if not version.startswith(TRIO_SERIES):
        raise UnsupportedTrio(
            f"actors.sim steers Trio's scheduler and knows trio {TRIO_SERIES}x; this is trio"
            f" {version}. Everything outside actors.sim works with it; for simulation install"
            f" trio=={TRIO_SERIES}*"
        )


def virtual_clock() -> trio.testing.MockClock:
    """Make a clock that stands still while a task can run, and jumps to the next deadline when none
    can.

    It does not read the real clock, as Trio's own mock clock does many times for nothing: the run
    loop, the instruments and all other code ask for the time several times in each step.
    """
    clock = trio.testing.MockClock(autojump_threshold=0)

    def autojump() -> None:
        """Jump the clock as Trio's autojump does, without collecting its other statistics."""
        deadline_s = _run.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
        jump_s = deadline_s - clock._virtual_base
        if 0 < jump_s < math.inf:
            clock.jump(jump_s)

    setattr(clock, "current_time", lambda: clock._virtual_base)  # noqa: B010 - a method
    setattr(clock, "_autojump", autojump)  # noqa: B010 - likewise
    return clock


def seed_schedule(seed: str) -> None:
    """Fix the order of everything that runs from here on in this process, until seeded again."""
    check_trio()
    setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010 - it is declared Final
    _run._r.seed(seed)


class Policy(Protocol):
    """Decides which of the runnable tasks run in this pass, and in which order."""

    def arrange(self, batch: list[Task], rng: random.Random) -> list[Task]:
        """Return the tasks of `batch` that run in this pass, in their order; the others wait for
        the next pass.

        `batch` is in spawn order. At least one task must be chosen if there is any, and none may be
        left out for ever: virtual time stands still while a task is runnable.
        """


class InOrder:
    """Runs all tasks in the order in which they were spawned, and leaves nothing to chance."""

    def arrange(self, batch: list[Task], rng: random.Random) -> list[Task]:
        return batch


@attrs.define
class Within:
    """Uses another policy in the passes `first` to `last`, and runs all other passes in order, to
    find out which part of a schedule matters.
    """

    inner: Policy
    first: int
    last: int
    _passes: int = attrs.field(init=False, default=0)

    def arrange(self, batch: list[Task], rng: random.Random) -> list[Task]:
        self._passes += 1
        inside = self.first <= self._passes <= self.last
        return self.inner.arrange(batch, rng) if inside else batch


class RandomOrder:
    """Runs all tasks in random order, as Trio does itself."""

    def arrange(self, batch: list[Task], rng: random.Random) -> list[Task]:
        if len(batch) > 1:
            rng.shuffle(batch)
        return batch


@attrs.define
class Starve:
    """Lets tasks whose name contains `name` wait while others can run, for at most `passes_max`
    passes.
    """

    name: str
    passes_max: int = 50
    _waited: int = attrs.field(init=False, default=0)

    def arrange(self, batch: list[Task], rng: random.Random) -> list[Task]:
        rng.shuffle(batch)
        others = [task for task in batch if self.name not in task.name]
        if len(others) == len(batch):
            return batch
        if not others or self._waited >= self.passes_max:
            self._waited = 0
            return batch
        self._waited += 1
        return others


@attrs.define
class Priorities:
    """Runs only the task of highest priority in each pass; a task's priority is drawn when it is
    first seen.

    With probability `demote_share` the task that runs falls behind all others, so that none waits
    for ever. This finds orderings that need one task to be late several times in a row (Burckhardt
    et al., "A Randomized Scheduler with Probabilistic Guarantees", ASPLOS 2010).
    """

    demote_share: float = 0.05
    _priority: dict[int, float] = attrs.field(init=False, factory=dict)  # by Task._counter
    _lowest: float = attrs.field(init=False, default=0.0)

    def arrange(self, batch: list[Task], rng: random.Random) -> list[Task]:
        if not batch:
            return batch
        for task in batch:
            self._priority.setdefault(task._counter, rng.random())
        top = max(batch, key=lambda task: self._priority[task._counter])
        if rng.random() < self.demote_share:
            self._lowest -= 1.0
            self._priority[top._counter] = self._lowest
        return [top]


class Fingerprint(trio.abc.Instrument):
    """A running hash of all steps: which task ran, by number and name, and at what virtual time.

    Two runs with equal fingerprints made the same scheduling decisions all along.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen = 0
        self._tasks: dict[Task, bytes] = {}
        self._now_s = -1.0
        self._now = b""

    def before_task_step(self, task: Task) -> None:
        identity = self._tasks.get(task)
        if identity is None:
            name = _ADDRESS.sub("", task.name)
            identity = self._tasks[task] = b"%d %s\0" % (self._seen, name.encode())
            self._seen += 1
        now_s = _run.GLOBAL_RUN_CONTEXT.runner.clock.current_time()
        if now_s != self._now_s:
            self._now_s, self._now = now_s, struct.pack("<d", now_s)
        self.steps += 1
        self._hash.update(identity + self._now)

    def task_exited(self, task: Task) -> None:
        self._tasks.pop(task, None)

    def note(self, text: str) -> None:
        """Add a fact to the hash: a fault that was injected, a digest of what a node has on
        disk.
        """
        self._hash.update(b"\1%s\0" % text.encode())

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class _Steering(random.Random):
    """Replaces `_run._r`: Trio's `shuffle(batch)` becomes the policy's decision."""

    def __init__(self, seed: str, policy: Policy) -> None:
        super().__init__(seed)
        self._policy = policy
        self._rng = random.Random(f"{seed}:order")
        self.held: dict[str, list[Task]] = {}
        self._batch: list[Task] = []  # Trio's list of the tasks that still run in this pass

    def hold(self, label: str) -> None:
        held = self.held.setdefault(label, [])
        held.extend(task for task in self._batch if task.context.get(node_label, "") == label)
        self._batch[:] = [task for task in self._batch if task not in held]

    def shuffle(self, x: Any) -> None:
        batch: list[Task] = x
        ready = self._set_aside(batch) if self.held else batch
        chosen = self._policy.arrange(list(ready), self._rng)
        if len(chosen) != len(ready):
            running = {id(task) for task in chosen}
            later = [task for task in ready if id(task) not in running]
            _run.GLOBAL_RUN_CONTEXT.runner.runq.extend(later)
        batch[:] = reversed(chosen)  # Trio takes them from the end
        self._batch = batch

    def _set_aside(self, batch: list[Task]) -> list[Task]:
        """Set the tasks of held nodes aside. Returns: the other tasks."""
        ready: list[Task] = []
        for task in batch:
            waiting = self.held.get(task.context.get(node_label, ""))
            (ready if waiting is None else waiting).append(task)
        return ready


@attrs.define(eq=False)
class VirtualAlarm:
    """Calls `ring` at a virtual time, in the way in which Trio cancels a scope.

    A scope for each wait of a task that waits for ever longer would cost several times as much,
    most of it for the cancellation. Set the alarm to `math.inf` before the run ends.
    """

    ring: Callable[[], object]
    _registered_deadline: float = attrs.field(init=False, default=math.inf)  # Trio compares it

    def set(self, at_s: float) -> None:
        """Ring once at `at_s`, and at no other time; never for inf; at once if the time has
        passed.
        """
        deadlines: Any = _run.GLOBAL_RUN_CONTEXT.runner.deadlines
        if self._registered_deadline != math.inf:
            deadlines.remove(self._registered_deadline, self)
        self._registered_deadline = at_s
        if at_s != math.inf:
            deadlines.add(at_s, self)

    def _cancel(self, cancel_reason: object) -> None:
        """Ring, because the time has come; Trio calls this."""
        self.set(math.inf)
        self.ring()


def yields_sometimes(rng: random.Random, share: float) -> Callable[[], Awaitable[None]] | None:
    """Return an awaitable that is a checkpoint in `share` of all cases; None if the share is 0."""
    if not share:
        return None

    async def maybe_yield() -> None:
        if rng.random() < share:
            await trio.lowlevel.checkpoint()

    return maybe_yield


async def settled() -> None:
    """Wait until what was started before is at rest, in whatever order it ran.

    Trio's own tasks and pytest-trio's fixtures begin before a `Schedule` can be entered.
    """
    await trio.testing.wait_all_tasks_blocked()


class Schedule:
    """Seeds, steers and records the schedule of the current Trio run: `with Schedule(seed): ...`.

    Args:
        seed: fixes every decision. Await `settled` before the block, or tasks that are still
            starting become part of the history.
        policy: how batches are ordered; None: at random.

    Attributes:
        fingerprint: the hash of all steps since the block was entered.
    """

    def __init__(self, seed: str, policy: Policy | None = None) -> None:
        check_trio()
        self.fingerprint = Fingerprint()
        self._steering = _Steering(seed, policy or RandomOrder())
        self._before: tuple[random.Random, bool] | None = None

    def __enter__(self) -> Schedule:
        if isinstance(_run._r, _Steering):
            raise RuntimeError("another Schedule is in force: one simulated world at a time")
        self._before = (_run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING)
        self._set(self._steering, True)
        trio.lowlevel.add_instrument(self.fingerprint)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._before is not None
        self._set(*self._before)  # first: where Trio itself broke off, the rest fails
        trio.lowlevel.remove_instrument(self.fingerprint)
        for label in list(self._steering.held):
            self.release(label)

    @staticmethod
    def _set(source: random.Random, deterministic: bool) -> None:
        _run._r = source
        setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", deterministic)  # noqa: B010

    def hold(self, label: str) -> None:
        """Let no task of this node take a step until `release`, as SIGSTOP does. Time goes on."""
        self._steering.hold(label)

    def release(self, label: str) -> None:
        """Let the node go on; whatever became due meanwhile is due at once. Harmless if it is not
        held.
        """
        _run.GLOBAL_RUN_CONTEXT.runner.runq.extend(self._steering.held.pop(label, []))

    def is_held(self, label: str) -> bool:
        return label in self._steering.held


def cancel_through_shields(scope: trio.CancelScope) -> None:
    """Remove every shield below `scope`, then cancel it, as the end of a killed process demands.

    Code that is unwinding may open new shields, so a caller repeats this until the tasks are gone.
    """
    status = scope._cancel_status
    todo = [] if status is None else [status]
    while todo:
        current = todo.pop()
        if current is not status:
            current._scope.shield = False
        todo.extend(current.children)
    scope.cancel()


@attrs.frozen(kw_only=True)
class Recording:
    """The result of `run`: the program's result, and the record of its schedule."""

    result: Any
    fingerprint: str
    steps: int
    virtual_s: float


def run(
    seed: str,
    async_fn: Callable[[*Ts], Awaitable[object]],
    *args: *Ts,
    policy: Policy | None = None,
) -> Recording:
    """Run a program in a run of its own on virtual time, with a seeded and recorded schedule."""

    async def program() -> Recording:
        await settled()
        with Schedule(seed, policy) as schedule:
            result = await async_fn(*args)
        return Recording(
            result=result,
            fingerprint=schedule.fingerprint.hexdigest(),
            steps=schedule.fingerprint.steps,
            virtual_s=trio.current_time(),
        )

    return trio.run(program, clock=virtual_clock())


def make_policy(name: str) -> Policy:
    """Make a policy: "random", "priorities", "in order", or "starve" and a part of a task's name.
    With "@FIRST-LAST" appended it holds only in those passes of the scheduler, and all others run
    in order.
    """
    name, _, stretch = name.partition("@")
    if stretch:
        first, _, last = stretch.partition("-")
        return Within(make_policy(name), int(first), int(last))
    if name == "in order":
        return InOrder()
    if name == "random":
        return RandomOrder()
    if name == "priorities":
        return Priorities()
    kind, _, starved = name.partition(" ")
    assert kind == "starve", name
    assert starved, name
    return Starve(starved)
