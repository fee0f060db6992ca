"""Simulated runs judged twice: by the simulator's own checkers, and by audits of what is left.

    python tests/pipeline/audit_seeds.py --seeds 20 --first 0 [--keep FOLDER]

plays the seeds, of each mode in turn, faults included, and runs of our own code broken on
purpose; then one pass of the pipeline judges all of them. It prints a row for each run. Exit code 1
if they disagree: an audit of severity error objects to a run that no checker objects to, or the
audit that belongs to a checker's objection says nothing.

What is lawful in a simulation and looks the same as harm: appends that a forced promotion gave up.
They are in the clients' record, as in a feed's; the events say that it was forced.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest

sys.path += [str(Path(__file__).parents[1] / room) for room in ("sim", "dledger")]

from broken_actors import LEDGER_MUTATIONS
from broken_code import MUTATIONS
from seeds_kit import Played, play

from actors.pipeline import steps
from actors.pipeline.audits import audit, data_receipts, data_replicas, judging
from actors.pipeline.locations import Location
from actors.pipeline.session import Profile, open_session
from actors.pipeline.verdicts import Verdicts
from actors.sim.commands.script_file import load_plan
from actors.sim.plan import Plan
from actors.sim.running import PLANS

SCRIPTS = Path(__file__).parents[1] / "scripts" / "mutations"
MODES = ("classic", "dledger", "autoswitch")
BROKEN = (
    ("classic", "torn_record_kept", None, "replicas_equal"),
    ("classic", "acknowledge_before_the_slaves", None, "acknowledged_on_enough_nodes"),
    ("dledger", "minority_commits", "0", "committed_on_a_majority"),
)
"""Mode, mutation, seed (None: the script that is kept of it), and the audit that has to object."""
TAG = re.compile(r"r\d{3}-")
NAMED = {each.__name__: each for each in (*LEDGER_MUTATIONS, *MUTATIONS)}
FINDINGS_MAX = 100_000


@attrs.frozen(kw_only=True)
class Case:
    """One run: what it is called, and the audit that has to object ("": none may)."""

    name: str
    plan: Plan
    mutation: str = ""
    audit: str = ""


def cases(first: int, seeds: int) -> list[Case]:
    """The drawn runs, and the broken ones."""
    found = []
    for number in range(first, first + seeds):
        mode = MODES[number % len(MODES)]
        found.append(Case(name=f"{mode} {number}", plan=PLANS[mode].draw(str(number))))
    for mode, name, seed, expected in BROKEN:
        if seed is None:
            plan, _ = load_plan((SCRIPTS / f"{name}.toml").read_text(encoding="utf-8"))
        else:
            plan = PLANS[mode].draw(seed)
        found.append(Case(name=f"{mode} {name}", plan=plan, mutation=name, audit=expected))
    return found


def play_all(
    wanted: Sequence[Case], data: Path, tell: Callable[[str], None]
) -> list[tuple[Case, Played]]:
    """Play the runs into one data directory."""
    played = []
    for number, case in enumerate(wanted):
        one = play(case.plan, f"r{number:03}-", data, NAMED.get(case.mutation))
        played.append((case, one))
        tell(f"{case.name}: {one.event_count:,} events; checkers: {one.checkers or 'none'}")
    return played


def judge_all(data: Path, out: Path, tell: Callable[[str], None]) -> Verdicts:
    """All findings of all audits; each is a witness."""
    spark = open_session(Profile.LOCAL)
    try:
        places = Location(str(data)), Location(str(out))
        steps.run_bronze(spark, *places, lambda line: None)
        steps.run_silver(spark, places[1], lambda line: None)
        with pytest.MonkeyPatch.context() as patch:
            for module in (audit, data_receipts, data_replicas):
                patch.setattr(module, "WITNESSES_MAX", FINDINGS_MAX)
            return judging.run(
                spark, places[1], places[0], lambda each: tell(f"{each.name}: {each.verdict}")
            )
    finally:
        spark.stop()


def objections(verdicts: Verdicts) -> dict[str, set[str]]:
    """By a run's tag, which audits of severity error object to it."""
    found: dict[str, set[str]] = {}
    for verdict in verdicts.failures:
        assert verdict.findings == len(verdict.witnesses), verdict.name
        for witness in verdict.witnesses:
            for tag in TAG.findall(json.dumps(witness)):
                found.setdefault(tag, set()).add(verdict.name)
    return found


def agrees(case: Case, played: Played, objected: set[str]) -> bool:
    """See the module."""
    if case.audit:
        return bool(played.checkers) and case.audit in objected
    return not played.checkers and not objected


def row(case: Case, played: Played, objected: set[str]) -> str:
    """Of the table."""
    faults = sum(n for name, n in played.outcome.counts.items() if name.startswith("fault "))
    cells = [
        case.name,
        case.plan.nodes,
        faults,
        f"{played.event_count:,}",
        f"{played.acknowledged:,}",
        played.given_up,
        len(played.emptied),
        ", ".join(played.checkers) or "nobody",
        ", ".join(sorted(objected)) or "none",
        "yes" if agrees(case, played, objected) else "NO",
    ]
    return f"| {' | '.join(map(str, cells))} |"


COLUMNS = (
    *("Run", "Nodes", "Faults", "Events", "Acknowledged", "Given up", "Emptied"),
    *("Checkers", "Audits", "Agree"),
)


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument("--first", type=int, default=0, help="the first one (0)")
    parser.add_argument("--keep", type=Path, help="leave the data directory and the tables here")
    asked = parser.parse_args(words)
    logging.getLogger("triolog").addHandler(logging.NullHandler())
    logging.getLogger("triolog").propagate = False

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        played = play_all(cases(asked.first, asked.seeds), folder / "data", tell)
        verdicts = judge_all(folder / "data", folder / "out", tell)
    found = objections(verdicts)
    print(f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", sep="\n")
    for case, one in played:
        print(row(case, one, found.get(one.tag, set())))
    for verdict in verdicts.audits:
        print(f"{verdict.name}: {verdict.checked.rows:,} rows, {verdict.seconds:.1f} s")
    return 0 if all(agrees(case, one, found.get(one.tag, set())) for case, one in played) else 1


if __name__ == "__main__":
    sys.exit(main())
