"""Cuts a failing run down to a few lines that still fail in the same way.

First the script: lines are left out (`fewer.py`), as long as the same checker objects. Then what is
left is made simpler: fewer nodes, a shorter run, shorter faults, the default network and disk, no
yields, and tasks in order instead of a drawn order; the schedule's chance is confined to a stretch
of it if it is needed.

Runs with other parts are other histories, so each try is judged only by the checker that objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from actors.sim.actions.script import Fault
from actors.sim.disk import DiskOptions
from actors.sim.fewer import fewest
from actors.sim.network import NetworkOptions
from actors.sim.plan import Plan
from actors.sim.workload import WorkloadOptions

TRIES_MAX: Final = 300
"""Runs; one takes about a second."""
TAIL_S: Final = 2.0
"""A run goes on so long behind its last fault."""
WHOLE_S: Final = 1.0
PASSES: Final = 1 << 17
"""No run has more passes of the scheduler."""
PASSES_MIN: Final = 1 << 10
"""A shorter stretch is of no use to anybody."""

Fails = Callable[[Plan], bool]
"""Whether a plan still fails in the way that matters."""


class OutOfTries(Exception):
    """The bound is reached: what is there now is the result."""


@attrs.define
class Shrinker:
    """One search for the smallest plan that fails.

    Attributes:
        fails: runs a plan.
        best: the smallest plan so far that fails.
        tries: runs so far.
        note: called with a line before each step.
        until_s: when the first plan failed: what comes later goes first, in one try.
    """

    fails: Fails
    best: Plan
    tries_max: int = TRIES_MAX
    note: Callable[[str], None] = lambda text: None
    until_s: float | None = None
    tries: int = attrs.field(default=0, init=False)

    def run(self) -> Plan:
        """Shrink until nothing more can go, or the tries are used up. The first plan has to fail.

        Returns: the smallest plan that fails.
        """
        try:
            if self.until_s is not None:
                self._try(_until(self.best, self.until_s))
            before = None
            while before != self.best:
                before = self.best
                self._fewer_lines()
                for simpler in _simpler(self.best):
                    self._try(simpler(self.best))
        except OutOfTries:
            pass
        return self.best

    def _try(self, plan: Plan) -> bool:
        if plan == self.best:
            return False
        if self.tries >= self.tries_max:
            raise OutOfTries
        self.tries += 1
        if not self.fails(plan):
            return False
        self.best = plan
        self.note(f"{self.tries} tries: {len(plan.script)} lines, {plan.duration_s:.1f} s")
        return True

    def _fewer_lines(self) -> None:
        fewest(
            self.best.script,
            lambda script: self._try(attrs.evolve(self.best, script=script)),
        )


def _simpler(plan: Plan) -> Iterator[Callable[[Plan], Plan]]:
    """Ways to make a plan simpler, the one that cuts most first."""
    yield _end_early
    yield lambda now: attrs.evolve(now, policy="in order")
    yield lambda now: attrs.evolve(now, tell_yields=0.0)
    yield lambda now: attrs.evolve(now, skews_ms={})
    yield lambda now: attrs.evolve(now, network=NetworkOptions())
    yield lambda now: attrs.evolve(now, disk=DiskOptions())
    yield lambda now: attrs.evolve(now, load=WorkloadOptions())
    yield lambda now: attrs.evolve(now, load=attrs.evolve(now.load, readers=1))
    yield lambda now: attrs.evolve(now, load=attrs.evolve(now.load, appenders=1))
    yield lambda now: attrs.evolve(now, load=attrs.evolve(now.load, burst_share=0.0))
    yield lambda now: attrs.evolve(now, load=attrs.evolve(now.load, give_up_share=0.0))
    yield _fewer_nodes
    yield from _confined(plan.policy)
    for name in plan.settings:
        yield lambda now, name=name: attrs.evolve(  # type: ignore[misc]
            now, settings={key: value for key, value in now.settings.items() if key != name}
        )
    for number, fault in enumerate(plan.script):
        yield lambda now, number=number: _shorter(now, number)  # type: ignore[misc]
        if fault.others:
            yield lambda now, number=number: _alone(now, number)  # type: ignore[misc]
    yield _earlier


def _confined(policy: str) -> Iterator[Callable[[Plan], Plan]]:
    """Either half of the stretch in which the schedule is left to chance."""
    name, _, stretch = policy.partition("@")
    if name == "in order":
        return
    first, _, last = (stretch or f"1-{PASSES}").partition("-")
    low, high = int(first), int(last)
    middle = (low + high) // 2
    if high - low >= PASSES_MIN:
        for part in ((middle + 1, high), (low, middle)):
            text = f"{name}@{part[0]}-{part[1]}"
            yield lambda now, text=text: attrs.evolve(now, policy=text)  # type: ignore[misc]


def _until(plan: Plan, at_s: float) -> Plan:
    script = tuple(fault for fault in plan.script if fault.at_s <= at_s)
    duration_s = min(plan.duration_s, round(at_s + TAIL_S, 1))
    return attrs.evolve(plan, script=script, duration_s=duration_s)


def _end_early(plan: Plan) -> Plan:
    last_s = max((fault.at_s for fault in plan.script), default=0.0)
    return attrs.evolve(plan, duration_s=min(plan.duration_s, round(last_s + TAIL_S, 1)))


def _earlier(plan: Plan) -> Plan:
    """Begin with the first fault instead of waiting for it."""
    first_s = min((fault.at_s for fault in plan.script), default=0.0)
    shift_s = max(0.0, first_s - WHOLE_S)
    script = tuple(attrs.evolve(fault, at_s=fault.at_s - shift_s) for fault in plan.script)
    return attrs.evolve(plan, script=script, duration_s=max(plan.duration_s - shift_s, WHOLE_S))


def _fewer_nodes(plan: Plan) -> Plan:
    last = f"n{plan.nodes - 1}"
    used = any(last in fault.nodes for fault in plan.script)
    if used or not plan.can_shrink_to(plan.nodes - 1):
        return plan
    skews = {name: skew for name, skew in plan.skews_ms.items() if name != last}
    return attrs.evolve(plan, nodes=plan.nodes - 1, skews_ms=skews)


def _shorter(plan: Plan, number: int) -> Plan:
    if number >= len(plan.script) or plan.script[number].for_s <= WHOLE_S:
        return plan
    return _with(plan, number, attrs.evolve(plan.script[number], for_s=WHOLE_S))


def _alone(plan: Plan, number: int) -> Plan:
    """Hit only the first of several nodes; a pair stays one."""
    if number >= len(plan.script) or len(plan.script[number].others) < 2:
        return plan
    fault = plan.script[number]
    return _with(plan, number, attrs.evolve(fault, others=fault.others[:-1]))


def _with(plan: Plan, number: int, fault: Fault) -> Plan:
    script = (*plan.script[:number], fault, *plan.script[number + 1 :])
    return attrs.evolve(plan, script=script)


def shrink(
    plan: Plan,
    fails: Fails,
    *,
    tries_max: int = TRIES_MAX,
    note: Callable[[str], None] = lambda text: None,
    until_s: float | None = None,
) -> Plan:
    """The smallest plan found that fails as `plan` does. Arguments as in `Shrinker`."""
    return Shrinker(fails, plan, tries_max, note, until_s).run()
