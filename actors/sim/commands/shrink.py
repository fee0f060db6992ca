"""Reduces a failing run to a few lines that still fail in the same way.

The script comes first: lines are left out (`fewer.py`) as long as the same checker objects. Then
the remaining plan is made simpler: fewer nodes, a shorter run, shorter faults, the default network
and disk, no yields, and tasks in order instead of a drawn order. If the failure needs a drawn
order, it is confined to a stretch of the run.

A changed plan gives another history, so each try is judged only by the checker that objected.
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
"""How many runs a search may take; one takes about a second."""
TAIL_S: Final = 2.0
"""How long a run goes on after its last fault."""
WHOLE_S: Final = 1.0
PASSES: Final = 1 << 17
"""An upper bound for the passes of the scheduler in a run."""
PASSES_MIN: Final = 1 << 10
"""The smallest stretch of passes that is divided further."""

Fails = Callable[[Plan], bool]
"""Tells whether a plan still fails in the same way."""


class OutOfTries(Exception):
    """The bound on runs is reached; the smallest plan so far is the result."""


@attrs.define
class Shrinker:
    """One search for the smallest plan that fails.

    Attributes:
        fails: runs a plan, and tells whether it fails in the same way.
        best: the smallest plan so far that fails.
        tries: how many runs were made.
        note: called with a line before each step.
        until_s: when the first plan failed; everything later is left out first, in one try. None:
            unknown.
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
    """Yield ways to make a plan simpler, those that remove most first."""
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
    """Yield ways to leave only half of the stretch to a drawn order."""
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
    """Hit one node fewer of several; a pair stays a pair."""
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
    """Return the smallest plan found that fails as `plan` does. The arguments are those of
    `Shrinker`.
    """
    return Shrinker(fails, plan, tries_max, note, until_s).run()
