"""Supervisors against a model of OTP's rules, and host cancellation at each of their awaits.

The model is `OTP` below. hypothesis draws trees of one supervisor, and scripts of crashes, ends and
failing starts; each script runs on virtual time, and what the children wrote must be what the model
says, line by line. The same script is then run again with the host cancelled when the supervisor
has just taken its k-th step: whatever it was awaiting, the stop must be complete and in order.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from runtime_probe import Boom, Crash, Finish, Log, settle

from actors.runtime import (
    Backoff,
    ChildSpec,
    Restart,
    Strategy,
    SupervisorSpec,
    open_system,
    requests,
)

NAMES = ("a", "b", "c", "d")
PERIOD_S = 1000.0  # longer than any script


@attrs.define
class OTP:
    """The rules of supervisor.erl for one supervisor, without time."""

    strategy: Strategy
    restart: dict[str, Restart]
    intensity: int
    alive: list[str] = attrs.field(factory=list)
    lives: dict[str, int] = attrs.field(factory=dict)
    failing: dict[str, int] = attrs.field(factory=dict)
    restarts: int = 0
    down: bool = False
    out: list[str] = attrs.field(factory=list)

    def begin(self) -> None:
        for name in self.restart:
            self.start(name)

    def start(self, name: str) -> bool:
        self.lives[name] = self.lives.get(name, 0) + 1
        fails = self.failing.get(name, 0) > 0
        self.out.append(f"{'!' if fails else '+'}{name}#{self.lives[name]}")
        if fails:
            self.failing[name] -= 1
        else:
            self.alive.append(name)
        return not fails

    def stop(self, names: list[str]) -> None:
        for name in reversed(names):
            if name in self.alive:
                self.alive.remove(name)
                self.out.append(f"-{name} shutdown")

    def exits(self, name: str, failed: bool) -> None:
        if name not in self.alive:
            return
        self.alive.remove(name)
        self.out.append(f"-{name} {'crashed' if failed else 'normal'}")
        restart = self.restart[name]
        if restart is Restart.PERMANENT or (restart is Restart.TRANSIENT and failed):
            self.begin_again(name)
        elif restart is Restart.TEMPORARY:
            del self.restart[name]

    def requested(self, name: str) -> None:
        """A restart on request: past the strategy, and counted only if the start fails."""
        if name not in self.restart:
            return
        self.stop([name])
        if not self.start(name):
            if self.restart[name] is Restart.TEMPORARY:
                del self.restart[name]
            else:
                self.begin_again(name)

    def begin_again(self, name: str) -> None:
        self.restarts += 1
        order = list(self.restart)
        if self.restarts > self.intensity:
            self.down = True
            return self.stop(order)
        affected = {
            Strategy.ONE_FOR_ONE: [name],
            Strategy.ONE_FOR_ALL: order,
            Strategy.REST_FOR_ONE: order[order.index(name) :],
        }[self.strategy]
        self.stop(affected)
        for each in affected:
            if self.restart[each] is Restart.TEMPORARY:
                del self.restart[each]
            elif not self.start(each):
                return self.begin_again(each)
        return None


@attrs.define
class Script:
    """A tree, and what is done to it. `expected` is the model's word for each action."""

    strategy: Strategy
    restart: tuple[Restart, ...]
    intensity: int
    actions: list[tuple[str, str]] = attrs.field(factory=list)
    expected: list[list[str]] = attrs.field(factory=list)


class Steps(trio.abc.Instrument):
    """Cancels `scope` when tasks of these names have taken `at` steps together."""

    def __init__(self, scope: trio.CancelScope, names: tuple[str, ...], at: int, log: Log) -> None:
        self.scope, self.names, self.at, self.log = scope, names, at, log
        self.count = 0
        self.logged_before = -1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name.startswith(self.names):
            self.count += 1
            if self.count == self.at:
                self.logged_before = len(self.log)
                self.scope.cancel()


def spec_of(
    script: Script, log: Log, failing: dict[str, list[Exception]], **probe: Any
) -> SupervisorSpec:
    return SupervisorSpec(
        strategy=script.strategy,
        intensity=script.intensity,
        period_s=PERIOD_S,
        takes_requests=True,
        children=tuple(
            log.child(name, restart=restart, probe={"failing": failing[name], **probe})
            for name, restart in zip(NAMES, script.restart, strict=False)
        ),
    )


async def play(script: Script, log: Log, check: bool, **probe: Any) -> None:
    """Run the script; with `check`, compare each action's lines with the model's."""
    failing: dict[str, list[Exception]] = {name: [] for name in NAMES}
    async with open_system("n0", spec_of(script, log, failing, **probe)) as system:
        fresh = log.new()
        assert not check or fresh == script.expected[0], "start"
        for (kind, name), expected in zip(script.actions, script.expected[1:], strict=True):
            if kind == "fail":
                failing[name].append(Boom())
            elif kind == "restart":
                await system.ref("/n0").tell(requests.RestartChild(name=name))
            else:
                await system.ref(f"/n0/{name}").tell(Crash() if kind == "crash" else Finish())
            await settle()
            if check:
                assert log.new() == expected, (kind, name)
            elif probe:
                await trio.sleep(5.0)


def assert_complete_and_in_order(
    log: Log,
    begin: int,
    *orders: tuple[str, ...],
    inner: tuple[str, ...] = (),
    asked: tuple[str, ...] = (),
) -> None:
    """Every life that began has ended once; after `begin` nothing starts, and all stop backwards.

    Args:
        inner: children of a supervisor that is at work until its own turn to stop comes.
        asked: children that were restarted on request: one may have been stopping for that.
    """
    running: dict[str, int] = {}
    for line in log:
        name = line[1:].partition(" ")[0].partition("#")[0]
        if line[0] == "+":
            running[name] = running.get(name, 0) + 1
            assert running[name] == 1, log
        elif line[0] == "-":
            running[name] -= 1
    assert not any(running.values()), log
    after = log[begin:]
    begun = [line[1:].partition("#")[0] for line in after if line[0] == "+"]
    outer = [name for name in begun if name not in inner]
    assert len(outer) <= 1, log  # one may have been in the middle of its start, and was killed
    assert all(f"-{name} killed" in after for name in outer), log
    stopped = [line[1:].partition(" ")[0] for line in after if line.endswith(" shutdown")]
    for order in orders:
        ours = [name for name in stopped if name in order]
        if ours[0:1] != sorted(ours, key=order.index, reverse=True)[0:1] and ours[0] in asked:
            ours = ours[1:]
        assert ours == sorted(ours, key=order.index, reverse=True), log


def run_cancelled(script: Script, at: int, **probe: Any) -> bool:
    """Run with the host cancelled at the supervisor's step number `at`. False if it took fewer."""
    log, scope = Log(), trio.CancelScope()
    steps = Steps(scope, ("/n0#",), at, log)

    async def main() -> None:
        with scope:
            await play(script, log, False, **probe)

    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[steps])
    except ExceptionGroup:
        assert script.intensity < 100, "it failed without a reason"
    if steps.logged_before < 0:
        return False
    asked = tuple(name for kind, name in script.actions if kind == "restart")
    assert_complete_and_in_order(log, steps.logged_before, NAMES, asked=asked)
    return True


class Supervision(RuleBasedStateMachine):
    """Draws a script step by step, and runs it when it is complete."""

    @initialize(
        strategy=st.sampled_from(Strategy),
        restart=st.lists(st.sampled_from(Restart), min_size=1, max_size=4),
        intensity=st.integers(0, 6),
        cancelled_at=st.integers(1, 60),
        slow=st.booleans(),
    )
    def begin(
        self,
        strategy: Strategy,
        restart: list[Restart],
        intensity: int,
        cancelled_at: int,
        slow: bool,
    ) -> None:
        self.script = Script(strategy, tuple(restart), intensity)
        self.model = OTP(strategy, dict(zip(NAMES, restart, strict=False)), intensity)
        self.cancelled_at = cancelled_at
        self.slow = slow
        self.model.begin()
        self.script.expected.append(self.take())

    def take(self) -> list[str]:
        out = self.model.out
        self.model.out = []
        return out

    def act(self, kind: str, name: str) -> None:
        if self.model.down:
            return
        self.script.actions.append((kind, name))
        if kind == "fail":
            self.model.failing[name] = self.model.failing.get(name, 0) + 1
        elif kind == "restart":
            self.model.requested(name)
        else:
            self.model.exits(name, kind == "crash")
        self.script.expected.append(self.take())

    @rule(at=st.integers(0, 3))
    def crash(self, at: int) -> None:
        self.act("crash", NAMES[at % len(self.script.restart)])

    @rule(at=st.integers(0, 3))
    def finish(self, at: int) -> None:
        self.act("finish", NAMES[at % len(self.script.restart)])

    @rule(at=st.integers(0, 3))
    def restart_on_request(self, at: int) -> None:
        self.act("restart", NAMES[at % len(self.script.restart)])

    @rule(at=st.integers(0, 3))
    def fail_the_next_start(self, at: int) -> None:
        self.act("fail", NAMES[at % len(self.script.restart)])

    def teardown(self) -> None:
        if not hasattr(self, "script"):
            return
        log = Log()
        clock = trio.testing.MockClock(autojump_threshold=0)
        if self.model.down:
            with pytest.raises(ExceptionGroup):
                trio.run(play, self.script, log, False, clock=clock)
            assert log == [line for lines in self.script.expected for line in lines]
        else:
            trio.run(play, self.script, log, True, clock=clock)
            self.model.stop(list(self.model.restart))
            assert log.new() == self.take()
        probe = {"stop_s": 0.5, "start_s": 0.5} if self.slow else {}
        run_cancelled(self.script, self.cancelled_at, **probe)


Supervision.TestCase.settings = settings(max_examples=150, stateful_step_count=8, deadline=None)
TestSupervision = Supervision.TestCase


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("probe", [{}, {"stop_s": 0.5, "start_s": 0.5}])
def test_host_cancellation_at_every_await_of_a_supervisor(strategy, probe):
    script = Script(strategy, (Restart.PERMANENT, Restart.TEMPORARY, Restart.PERMANENT), 100)
    for action in (
        ("crash", "a"),
        ("fail", "c"),
        ("crash", "c"),
        ("restart", "a"),
        ("fail", "c"),
        ("restart", "c"),
        ("crash", "b"),
        ("crash", "a"),
    ):
        script.actions.append(action)
    script.expected = [[] for _ in range(len(script.actions) + 1)]
    at = 1
    while run_cancelled(script, at, **probe):
        at += 1
    assert at > 15


@pytest.mark.parametrize("strategy", list(Strategy))
def test_host_cancellation_at_every_await_of_nested_supervisors(strategy):
    """Also while the parent restarts the whole inner supervisor, and during its back-off."""

    def run(at: int) -> bool:
        log, scope = Log(), trio.CancelScope()
        steps = Steps(scope, ("/n0#", "/n0/i#"), at, log)
        slow = {"start_s": 0.5, "stop_s": 0.5}
        inner = SupervisorSpec(
            strategy=strategy, intensity=1, children=(log.child("x", probe=slow), log.child("y"))
        )
        backoff = Backoff(first_s=0.5, max_s=1.0)
        spec = SupervisorSpec(
            strategy=strategy,
            intensity=100,
            children=(
                log.child("a", probe=slow),
                ChildSpec(name="i", start=inner, backoff=backoff),
                log.child("z"),
            ),
        )

        async def main() -> None:
            with scope:
                async with open_system("n0", spec) as system:
                    for path in ("i/x", "i/y", "a", "i/x", "z"):
                        await system.ref(f"/n0/{path}").tell(Crash())
                        await trio.sleep(5.0)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[steps])
        if steps.logged_before < 0:
            return False
        # z is not compared with x and y: the inner supervisor may be restarting them already.
        orders = ("a", "x", "y"), ("a", "z")
        assert_complete_and_in_order(log, steps.logged_before, *orders, inner=("x", "y"))
        return True

    at = 1
    while run(at):
        at += 1
    assert at > 30
