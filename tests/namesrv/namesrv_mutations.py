"""Our name server, broken on purpose, one rule at a time: which judge notices, and at which seed.

    python tests/namesrv/namesrv_mutations.py [--seeds 50] [NAME ...]

prints a table mutation -> judge -> seed; exit code 1 if one is caught at none of the seeds. The
unbroken code passes at each of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from broken_namesrv import MUTATIONS, Break
from namesrv_world import run_seed


def judges_at(seed: int, mutation: Break | None) -> list[str]:
    """Which judges object, the first one first; one that the world itself breaks at is "raised"."""
    with pytest.MonkeyPatch.context() as patch:
        if mutation is not None:
            mutation(patch)
        try:
            world = run_seed(seed)
        except ExceptionGroup:  # its tables do not fit each other any more
            return ["raised"]
    return list(dict.fromkeys(each.partition(":")[0] for each in world.truth.objections))


def hunt(mutation: Break, seeds: Iterable[int]) -> tuple[str, int]:
    """The judge and the seed; "" and -1: nobody objects."""
    for seed in seeds:
        judges = judges_at(seed, mutation)
        if judges and not judges_at(seed, None):
            return judges[0], seed
    return "", -1


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=50)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    missed = 0
    print("| Mutation | Caught by | Seed |\n|---|---|---|")
    for mutation in MUTATIONS:
        if not options.names or mutation.__name__ in options.names:
            judge, seed = hunt(mutation, range(options.seeds))
            missed += seed < 0
            print(f"| {mutation.__name__} | {judge or 'nobody'} | {seed} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
