"""Runs many seeds one after the other, and sums what happened in them.

A sweep in which something never happened proves nothing about it. So a sweep fails if a count of
`expected` is zero and the sweep is large enough for it: of a sensible size, or for rare things a
long one.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import attrs

from actors.own_process import usage_of
from actors.sim.classic.plan import ClassicPlan
from actors.sim.plan import Expected, Outcome, Plan
from actors.sim.running import run_seed
from actors.sim.scheduler import TRIO_VERSION
from actors.version import VERSION

SENSIBLE_SEEDS: Final = 30
"""A sweep of fewer seeds may well miss something that most runs have."""
NAME_WIDTH: Final = 44
MARK: Final = "mark "
"""How the name of a mark's count begins. A mark is a moment that rules of ours exist for; see
`marks`."""
CHECKOUT: Final = Path(__file__).resolve().parents[3]
"""The folder that holds the packages; in a checkout, the checkout's own."""
THOROUGH_SEEDS: Final = 200
"""A sweep of so many seeds sees everything that happens in one run of twenty, except one sweep in
28,000."""


@attrs.frozen(kw_only=True)
class SweepResult:
    """What a sweep found.

    Attributes:
        seeds: how many seeds were run.
        failed: the runs with violations.
        counts: the sums of all runs' counts, with every name of `expected`.
        virtual_s: the sum of all runs' virtual times.
        expected: what has to have happened.
    """

    seeds: int
    failed: tuple[Outcome, ...]
    counts: dict[str, int]
    virtual_s: float
    expected: Expected

    @property
    def zeros(self) -> tuple[str, ...]:
        """What never happened although a sweep of this size has to see it."""
        expected = self.expected.always if self.seeds >= SENSIBLE_SEEDS else ()
        marks = self.expected.thorough if self.seeds >= THOROUGH_SEEDS else ()
        return tuple(name for name in (*expected, *marks) if not self.counts[name])

    @property
    def good(self) -> bool:
        return not self.failed and not self.zeros


def sweep(
    seeds: Iterable[str],
    on_run: Callable[[Outcome], None] = lambda outcome: None,
    run: Callable[[str], Outcome] = run_seed,
    expected: Expected = ClassicPlan.expected,
) -> SweepResult:
    """Run all seeds, also those after one that fails.

    Args:
        seeds: the seeds; any text is one.
        on_run: called with each run as it ends.
        run: runs one seed.
        expected: what has to have happened.

    Raises: what a run raises, with a note of its seed: a bug of the simulation.
    """
    counts = dict.fromkeys((*expected.always, *expected.thorough), 0)
    failed: list[Outcome] = []
    virtual_s, number = 0.0, 0
    for seed in seeds:
        try:
            outcome = run(seed)
        except Exception as error:  # a bug of the simulation itself
            error.add_note(f"seed {seed} broke off")
            raise
        number += 1
        virtual_s += outcome.virtual_s
        for name, count in outcome.counts.items():
            counts[name] = counts.get(name, 0) + count
        if outcome.violations:
            failed.append(outcome)
        on_run(outcome)
    return SweepResult(
        seeds=number, failed=tuple(failed), counts=counts, virtual_s=virtual_s, expected=expected
    )


def failure_text(outcome: Outcome) -> str:
    """Return everything that is needed to repeat a failure."""
    return "\n".join(
        [
            f"seed {outcome.plan.seed} failed:",
            *(f"  {violation}" for violation in outcome.violations),
            *(f"  {text}" for text in outcome.plan.describe()),
            f"  {versions()}",
            f"  events {outcome.digest}, fingerprint {outcome.fingerprint}",
            f"  {replay_command(outcome.plan)}",
        ]
    )


def replay_command(plan: Plan) -> str:
    """Return the command that repeats a run. `make` has one only in the folder of a checkout."""
    if Path.cwd() == CHECKOUT and (CHECKOUT / "Makefile").exists():
        return f"make replay SEED={plan.seed} MODE={plan.mode}"
    return f"{usage_of('sim')} replay --mode {plan.mode} --seed {shlex.quote(str(plan.seed))}"


def counts_text(counts: dict[str, int], *, marks: bool = False) -> str:
    """Return one line for each thing that happened, faults last.

    Args:
        marks: whether to list each mark, which only the code explains, and not only how many
            occurred.
    """
    marked = [name for name in counts if name.startswith(MARK)]
    names = sorted(
        (name for name in counts if marks or not name.startswith(MARK)),
        key=lambda name: (name.startswith("fault "), name.startswith(MARK), name),
    )
    lines = [f"  {name:{NAME_WIDTH}} {counts[name]:>10,}" for name in names]
    if marked and not marks:
        passed = sum(counts[name] > 0 for name in marked)
        lines.append(f"  {passed} of {len(marked)} marks passed (--verbose names them)")
    return "\n".join(lines)


def versions() -> str:
    """Return the versions on which a seed's history depends."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"triolog {VERSION} ({commit()}), trio {TRIO_VERSION}, Python {python}"


def commit() -> str:
    """Return the commit that this code is from, with "+" if files were changed; "no commit" if it
    is unknown.
    """
    if not (CHECKOUT / ".git").exists():  # installed, perhaps inside of somebody's repository
        return "no commit"
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return done.stdout.strip()
