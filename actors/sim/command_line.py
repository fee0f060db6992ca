"""What `python -m actors.sim run|replay|sweep` does: simulated clusters by seed.

    run --seed 7                 one run: what it was, what happened, its fingerprint
    replay --seed 7              the same, every step printed
    sweep --seeds 200 --first 0  many seeds; what happened in all of them

Exit code 0: nothing is wrong; 1: a checker found something, or the sweep was too tame; 2: bad use.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from actors.sim import history
from actors.sim.scheduler import UnsupportedTrio, check_trio
from actors.sim.simulation import Outcome, draw_plan, run_seed
from actors.sim.sweep import counts_text, failure_text, sweep, versions

MODES = ("classic",)


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code."""
    args = _parser().parse_args(arguments)
    # Nodes that die on purpose have nothing to tell a terminal.
    logging.getLogger("triolog").addHandler(logging.NullHandler())
    logging.getLogger("triolog").propagate = False
    try:
        check_trio()
    except UnsupportedTrio as error:
        print(error, file=sys.stderr)
        return 2
    try:
        return int(args.command(args))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m actors.sim",
        description="Clusters of real nodes on a simulated network and disk, from seeds.",
    )
    commands = parser.add_subparsers(required=True, metavar="run|replay|sweep")
    for name, what, command in (
        ("run", "one run, and its fingerprint", _run),
        ("replay", "one run, step by step", _replay),
    ):
        one = commands.add_parser(name, help=what, description=what)
        one.add_argument("--seed", required=True, help="any text; sweeps use numbers")
        one.set_defaults(command=command)
    many = commands.add_parser("sweep", help="many seeds", description="many seeds")
    many.add_argument("--seeds", type=_count, default=200, help="how many (200)")
    many.add_argument("--first", type=int, default=0, help="the first one (0)")
    many.set_defaults(command=_sweep)
    for each in commands.choices.values():
        each.add_argument("--mode", choices=MODES, default="classic", help="what is simulated")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, found {text}")
    return number


def _run(args: argparse.Namespace) -> int:
    return _report(run_seed(args.seed))


def _replay(args: argparse.Namespace) -> int:
    print("\n".join(draw_plan(args.seed).describe()))
    return _report(run_seed(args.seed, lambda seen: print(history.line(seen))))


def _report(outcome: Outcome) -> int:
    print(f"seed {outcome.plan.seed}: {outcome.virtual_s:.1f} virtual seconds")
    print(counts_text(outcome.counts))
    print(f"steps {outcome.steps}, events {outcome.digest}")
    print(f"fingerprint {outcome.fingerprint}")
    if outcome.violations:
        print(failure_text(outcome))
        return 1
    return 0


def _sweep(args: argparse.Namespace) -> int:
    begin_s = _now_s()

    def on_run(outcome: Outcome) -> None:
        if outcome.violations:
            print(failure_text(outcome), flush=True)
        elif sys.stderr.isatty():
            print(f"\r{outcome.plan.seed} good ", end="", file=sys.stderr, flush=True)

    seeds = range(args.first, args.first + args.seeds)
    result = sweep(map(str, seeds), on_run)
    real_s = _now_s() - begin_s
    print(f"{result.seeds} seeds from {args.first} on, {len(result.failed)} failed; {versions()}")
    print(counts_text(result.counts))
    print(
        f"{result.virtual_s:,.0f} virtual seconds in {real_s:.1f}:"
        f" {result.seeds / max(real_s, 0.001):.2f} seeds/s"
    )
    for name in result.zeros:
        print(f"never happened: {name}")
    return 0 if result.good else 1


def _now_s() -> float:
    """Seconds of the machine's own clock; only for the figure at the end."""
    return os.times().elapsed
