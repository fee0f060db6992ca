"""Many seeds one after the other, and what happened in them taken together.

A sweep in which something never happened proves nothing about it, so a zero in `EXPECTED` fails a
sweep of a sensible size.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import attrs

from actors.sim.faults import ACTIONS
from actors.sim.scheduler import TRIO_VERSION
from actors.sim.simulation import Outcome, run_seed
from actors.version import VERSION

SENSIBLE_SEEDS: Final = 30
"""With fewer seeds than this, something may well not happen."""

EXPECTED: Final = (
    *(f"fault {name}" for name in ACTIONS),
    "restarts",
    "recoveries after a crash",
    "tails cut",
    "refused reports",
    "refused connections",
    "disk errors",
    "refused starts",
    "slaves emptied",
    "logs resynced",
    "roll-overs",
    "catch-ups",
    "connections lost",
    "time-outs",
    "acknowledged records",
    "unknown records",
    "refused records",
    "read records",
)
"""What a sweep has to have seen; more may be counted."""


@attrs.frozen(kw_only=True)
class SweepResult:
    """What a sweep found.

    Attributes:
        seeds: how many were run.
        failed: the runs with violations.
        counts: the sum of all runs' counts, every name of EXPECTED included.
        virtual_s: the sum of their lengths.
    """

    seeds: int
    failed: tuple[Outcome, ...]
    counts: dict[str, int]
    virtual_s: float

    @property
    def zeros(self) -> tuple[str, ...]:
        """What never happened though it should have."""
        if self.seeds < SENSIBLE_SEEDS:
            return ()
        return tuple(name for name in EXPECTED if not self.counts[name])

    @property
    def good(self) -> bool:
        return not self.failed and not self.zeros


def sweep(
    seeds: Iterable[str],
    on_run: Callable[[Outcome], None] = lambda outcome: None,
    run: Callable[[str], Outcome] = run_seed,
) -> SweepResult:
    """Run all seeds, also behind one that fails.

    Args:
        seeds: any text is a seed.
        on_run: told of each run as it ends.
        run: runs one seed.
    """
    counts = dict.fromkeys(EXPECTED, 0)
    failed: list[Outcome] = []
    virtual_s, number = 0.0, 0
    for seed in seeds:
        outcome = run(seed)
        number += 1
        virtual_s += outcome.virtual_s
        for name, count in outcome.counts.items():
            counts[name] = counts.get(name, 0) + count
        if outcome.violations:
            failed.append(outcome)
        on_run(outcome)
    return SweepResult(seeds=number, failed=tuple(failed), counts=counts, virtual_s=virtual_s)


def failure_text(outcome: Outcome) -> str:
    """Everything that is needed to see a failure again."""
    return "\n".join(
        [
            f"seed {outcome.plan.seed} failed:",
            *(f"  {violation}" for violation in outcome.violations),
            *(f"  {text}" for text in outcome.plan.describe()),
            f"  {versions()}",
            f"  events {outcome.digest}, fingerprint {outcome.fingerprint}",
            f"  make replay SEED={outcome.plan.seed}",
        ]
    )


def counts_text(counts: dict[str, int]) -> str:
    """One line per thing that happened, faults last."""
    names = sorted(counts, key=lambda name: (name.startswith("fault "), name))
    return "\n".join(f"  {name:28} {counts[name]:>10,}" for name in names)


def versions() -> str:
    """What the history of a seed depends on besides the seed."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"triolog {VERSION} ({commit()}), trio {TRIO_VERSION}, Python {python}"


def commit() -> str:
    """The commit that this runs from, as far as it can be known; "+" if files were changed."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return done.stdout.strip()
