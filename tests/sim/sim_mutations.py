"""Our own code, broken on purpose, one rule at a time: which checker notices, and at which seed.

    python tests/sim/sim_mutations.py [--mode dledger | autoswitch] [--seeds 200] [--first 0]
        [--at 7,9] [--shrink] [NAME ...]

prints a table mutation -> checker -> seed -> the guarantee of the group that it was caught in; exit
code 1 if one is caught at none of the seeds. A mutation is a function that patches; a seed at which
the unbroken code does not pass either catches nothing. `--shrink` cuts
each failing run down and keeps it as tests/scripts/mutations/NAME.toml (mutations/dledger), which a
test then runs with the mutation and without. What no drawn run can be relied on to show has such a
script too, and "script" for a seed.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
import trio
from autoswitch_plans import HARD
from broken_autoswitch import AUTOSWITCH_MUTATIONS
from broken_code import MUTATIONS, Mutation

sys.path += [str(Path(__file__).parents[1] / "dledger"), str(Path(__file__).parents[1])]

from broken_actors import LEDGER_MUTATIONS

from actors.config.kinds import guarantee_of
from actors.sim.classic.plan import ClassicPlan
from actors.sim.commands.script_file import dump_plan, load_plan
from actors.sim.commands.shrink import shrink
from actors.sim.commands.sweep import versions
from actors.sim.history import History, Violation
from actors.sim.plan import Outcome, Plan
from actors.sim.running import PLANS, run_plan, simulate
from actors.sim.scheduler import virtual_clock
from actors.sim.world import NodeFailed

SCRIPTS = Path(__file__).parents[1] / "scripts" / "mutations"
SHRINK_TRIES = 8
LETTERS = "abcdefgh"
"""The seeds of the plans for auto-switch groups, of which drawn seeds are tried behind them."""
RUNS_MAX = 40
"""Of a script: another history may need another schedule to show the same break."""
OUR_MISTAKES = ("TypeError", "AttributeError", "NameError")
"""No mutation is meant to be found by one of these."""
FOLDERS = {
    "classic": SCRIPTS,
    "dledger": SCRIPTS / "dledger",
    "autoswitch": SCRIPTS / "autoswitch",
}
OF_MODE = {
    "classic": MUTATIONS,
    "dledger": LEDGER_MUTATIONS,
    "autoswitch": AUTOSWITCH_MUTATIONS,
}
SCRIPTED = {path.stem for path in FOLDERS["dledger"].glob("*.toml")}
"""Of DLedger's."""
BY_SCRIPT = {
    "classic": {
        "no_page_seal",
        "bad_sectors_end_cleaning",
        "room_again_is_not_reported",
    },
    "dledger": SCRIPTED,
    "autoswitch": set(),
}
"""What is looked for in its script alone."""


@attrs.frozen
class Found:
    """What noticed a mutation, at which seed (-1: its script's). `checker` is "" if nothing did."""

    mutation: Mutation
    checker: str
    seed: int
    text: str = ""
    at_s: float = 0.0
    mode: str = ClassicPlan.mode
    plan: Plan | None = None

    @property
    def group(self) -> str:
        """The row of the guarantees' table that the run belongs to."""
        plan = self.plan or PLANS[self.mode].draw(str(self.seed))
        return guarantee_of(next(iter(plan.config.groups.values()))).mode


def run_broken(mutation: Mutation, plan: Plan) -> Outcome:
    """Run a plan with the broken code.

    Raises: AssertionError: the mutation itself fails, as it was written for other code than this.
    """
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        outcome = run_plan(plan)
    for violation in outcome.violations:
        assert not any(name in violation.text for name in OUR_MISTAKES), violation.text
    return outcome


def objects(checker: str, mutation: Mutation, plan: Plan) -> bool:
    """Whether this checker says something about the broken code. The run ends when it does."""
    return bool(objections(mutation, plan, checker))


def objections(mutation: Mutation, plan: Plan, checker: str = "") -> list[Violation]:
    """Return what this checker, or any, says first about the broken code; the run ends then."""
    said: list[Violation] = []
    real = History.violated

    async def run() -> None:
        with trio.CancelScope() as scope:

            def violated(history: History, name: str, text: str, at_s: float | None = None) -> None:
                real(history, name, text, at_s)
                if checker in ("", name):
                    said.append(Violation(checker=name, at_s=at_s or 0.0, text=text))
                    scope.cancel()

            patch.setattr(History, "violated", violated)
            await simulate(plan)

    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        try:
            trio.run(run, clock=virtual_clock())
        except* NodeFailed:
            if not said:  # else nobody has had the time to ask the nodes what they died of
                raise
    return said


def hunt(mutation: Mutation, seeds: Iterable[int], mode: str = ClassicPlan.mode) -> Found:
    """Run the broken code until somebody objects."""
    last = -1
    for seed in seeds:
        last = seed
        plan = PLANS[mode].draw(str(seed))
        violations = run_broken(mutation, plan).violations
        if violations and not run_plan(plan).violations:
            first = violations[0]
            return Found(mutation, first.checker, seed, first.text, first.at_s, mode)
    return Found(mutation, "", last, mode=mode)


def hunt_in_script(mutation: Mutation, mode: str) -> Found:
    """Run its script until the checker that it names objects."""
    path = FOLDERS[mode] / f"{mutation.__name__}.toml"
    plan, checker = load_plan(path.read_text(encoding="utf-8"))
    for number in range(RUNS_MAX):
        each = attrs.evolve(plan, seed=plan.seed + "+" * number)
        violations = run_broken(mutation, each).violations
        caught = checker in {violation.checker for violation in violations}
        if caught and not run_plan(each).violations:
            return Found(mutation, checker, -1, mode=mode, plan=each)
    return Found(mutation, "", -1, mode=mode, plan=plan)


@functools.cache
def passes(name: str, letter: str) -> bool:
    """Whether the unbroken code passes in a plan for auto-switch groups."""
    return not run_plan(HARD[name](letter)).violations


def hunt_in_plans(mutation: Mutation) -> Found:
    """Run the broken code in the plans that tests of auto-switch groups have."""
    for letter in LETTERS:
        for name, make in HARD.items():
            plan = make(letter)
            said = objections(mutation, plan)
            if said and passes(name, letter):
                assert not any(each in said[0].text for each in OUR_MISTAKES), said[0].text
                return Found(mutation, said[0].checker, -1, mode=plan.mode, plan=plan)
    return Found(mutation, "", -1, mode="autoswitch")


def keep_script(found: Found) -> None:
    """Shrink the run, and write it where the test looks."""

    def fails(plan: Plan) -> bool:
        violations = run_broken(found.mutation, plan).violations
        return found.checker in {violation.checker for violation in violations}

    plan = PLANS[found.mode].draw(str(found.seed))
    small = shrink(plan, fails, tries_max=SHRINK_TRIES, until_s=found.at_s)
    what = (found.mutation.__doc__ or "").split("\n\n")[0]
    comment = f"{what}\n{found.checker}: {found.text}\nFound with seed {found.seed}; {versions()}"
    text = dump_plan(small, expect=found.checker, comment=comment)
    folder = FOLDERS[found.mode]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{found.mutation.__name__}.toml").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Hunt all, or those that are named. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=OF_MODE, default=ClassicPlan.mode)
    parser.add_argument("--seeds", type=int, default=200, help="how many at most (200)")
    parser.add_argument("--first", type=int, default=0, help="the first one (0)")
    parser.add_argument("--at", help="these seeds only, with commas between")
    parser.add_argument("--shrink", action="store_true", help="keep the runs as scripts")
    parser.add_argument("names", nargs="*", help="only these")
    args = parser.parse_args(arguments)
    logging.getLogger("triolog").addHandler(logging.NullHandler())
    logging.getLogger("triolog").propagate = False
    seeds: Iterable[int] = range(args.first, args.first + args.seeds)
    if args.at:
        seeds = [int(word) for word in args.at.split(",")]
    missed = 0
    print("| Mutation | Caught by | Seed | In a group | Seconds |\n|---|---|---|---|---|")
    for mutation in OF_MODE[args.mode]:
        if args.names and mutation.__name__ not in args.names:
            continue
        begin_s = os.times().elapsed
        if mutation.__name__ in BY_SCRIPT[args.mode]:
            found = hunt_in_script(mutation, args.mode)
        else:
            has_plans = args.mode == "autoswitch" and not args.at
            found = hunt_in_plans(mutation) if has_plans else Found(mutation, "", -1)
            found = found if found.checker else hunt(mutation, seeds, args.mode)
        seconds = os.times().elapsed - begin_s
        missed += not found.checker
        what = found.checker or "nobody"
        seed = str(found.seed) if found.seed >= 0 else "script"
        if found.plan is not None and found.checker and args.mode == "autoswitch":
            seed = found.plan.seed
        row = f"{mutation.__name__} | {what} | {seed} | {found.group}"
        print(f"| {row} | {seconds:.1f} |", flush=True)
        if args.shrink and found.checker:
            keep_script(found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
