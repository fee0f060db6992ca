"""What `python -m actors.sim run|replay|sweep|shrink` does: simulated clusters by seed.

    run --seed 7                 one run: what happened, and its fingerprint
    replay --seed 7              the same, and every step is printed
    sweep --seeds 200 --first 0  many seeds, and the sum of what happened
    shrink --seed 7              reduces a failing run to a few lines, printed as a script

`--script FILE` instead of `--seed` takes a run as `shrink` has printed it (`script_file`).

Exit code 0: nothing is wrong; 1: a checker found something, or the sweep was too tame; 2: bad use.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

from actors.client.lines import open_missing_streams
from actors.config.command_line import OutputFailed, Parser, complain, with_output
from actors.errors import ConfigError
from actors.own_process import INTERRUPTED
from actors.sim import history
from actors.sim.classic.plan import ClassicPlan
from actors.sim.commands.script_file import dump_plan, load_plan
from actors.sim.commands.shrink import TRIES_MAX, shrink
from actors.sim.commands.sweep import counts_text, failure_text, sweep, versions
from actors.sim.plan import Outcome, Plan
from actors.sim.running import PLANS, run_plan, run_seed
from actors.sim.scheduler import UnsupportedTrio, check_trio

EXIT_USAGE = 2
DIGITS_MAX = 18
PROGRESS_SEEDS = 25
"""After how many seeds a sweep without a terminal prints its progress."""


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code."""
    open_missing_streams()
    return with_output(partial(_run_argv, sys.argv[1:] if arguments is None else arguments))


def _run_argv(argv: Sequence[str]) -> int:
    try:
        args = _parser().parse_args(argv)
    except ConfigError as error:
        complain(f"triolog: {error}")
        return EXIT_USAGE
    # Nodes that die on purpose have nothing to show on a terminal.
    logging.getLogger("triolog").addHandler(logging.NullHandler())
    logging.getLogger("triolog").propagate = False
    try:
        check_trio()
    except UnsupportedTrio as error:
        complain(f"triolog: {error}")
        return EXIT_USAGE
    try:
        with _ending_at_once():
            return int(args.command(args))
    except ConfigError as error:
        complain(f"triolog: {error}")
        return EXIT_USAGE
    except OSError as error:  # a simulation has no files; only printing can fail
        raise OutputFailed(error) from error


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """End the process at once on Ctrl-C. There is nothing to stop in order, and an exception would
    be taken for one of the simulated actor that happens to run.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    with suppress(OSError, RuntimeError):  # it may be writing just now
        sys.stdout.flush()
    if sys.stderr.isatty():
        complain("")  # below what is shown of the progress
    complain("triolog: interrupted")
    os._exit(INTERRUPTED)


def _parser() -> Parser:
    what = "Clusters of real nodes on a simulated network and disk, from seeds."
    parser = Parser.of("sim", what)
    commands = parser.add_subparsers(required=True, metavar="run|replay|sweep|shrink")
    for name, what, command in (
        ("run", "one run, and its fingerprint", _run),
        ("replay", "one run, step by step", _replay),
        ("shrink", "a failing run, cut to a few lines", _shrink),
    ):
        one = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
        which = one.add_mutually_exclusive_group(required=True)
        which.add_argument("--seed", help="any text; sweeps use numbers")
        which.add_argument("--script", metavar="FILE", help="a run that shrink has printed")
        one.set_defaults(command=command)
        if command is _shrink:
            one.add_argument(
                "--tries", type=_count, default=TRIES_MAX, help=f"runs at most ({TRIES_MAX})"
            )
    many = commands.add_parser(
        "sweep", help="many seeds", description="many seeds", allow_abbrev=False
    )
    many.add_argument("--seeds", type=_count, default=200, help="how many (200)")
    many.add_argument("--first", type=_whole, default=0, help="the first one (0)")
    many.set_defaults(command=_sweep)
    for each in commands.choices.values():
        each.add_argument(
            "--verbose", action="store_true", help="which marks in the code were passed, too"
        )
        each.add_argument(
            "--mode", choices=tuple(PLANS), default=ClassicPlan.mode, help="what is simulated"
        )
    return parser


def _whole(text: str) -> int:
    """Parse a whole number, 0 or more."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}")
    return int(text)


def _count(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, found {text}")
    return number


def _plan(args: argparse.Namespace) -> Plan:
    """Return the plan that the arguments ask for. Raises: ConfigError: the script file is
    not one.
    """
    if args.script is None:
        return PLANS[args.mode].draw(args.seed)
    try:
        return load_plan(Path(args.script).read_text(encoding="utf-8"))[0]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{args.script}: {error}") from error


def _run(args: argparse.Namespace) -> int:
    return _report(run_plan(_plan(args)), args)


def _shrink(args: argparse.Namespace) -> int:
    plan = _plan(args)
    outcome = run_plan(plan)
    if not outcome.violations:
        print(f"seed {plan.seed} does not fail: there is nothing to shrink")
        return 1
    first = outcome.violations[0]
    small = shrink(
        plan,
        lambda each: first.checker in {found.checker for found in run_plan(each).violations},
        tries_max=args.tries,
        note=lambda text: print(text, file=sys.stderr, flush=True),
        until_s=first.at_s,
    )
    comment = f"{first}\nFound with seed {plan.seed}; {versions()}"
    print(dump_plan(small, expect=first.checker, comment=comment), end="")
    return 0


def _replay(args: argparse.Namespace) -> int:
    plan = _plan(args)
    print("\n".join(plan.describe()))
    failures: list[OSError] = []

    def show(seen: history.Observation) -> None:
        """Print an observation. It is called inside the nodes, so it must not raise."""
        try:
            if not failures:
                print(history.line(seen))
        except OSError as error:
            failures.append(error)

    outcome = run_plan(plan, show)
    for failure in failures:
        raise failure
    return _report(outcome, args)


def _report(outcome: Outcome, args: argparse.Namespace) -> int:
    print(f"seed {outcome.plan.seed}: {outcome.virtual_s:.1f} virtual seconds")
    print(counts_text(outcome.counts, marks=args.verbose))
    print(f"steps {outcome.steps}, events {outcome.digest}")
    print(f"fingerprint {outcome.fingerprint}")
    if outcome.violations:
        print(failure_text(outcome))
        return 1
    return 0


def _sweep(args: argparse.Namespace) -> int:
    begin_s = _now_s()
    done = failed = 0

    def on_run(outcome: Outcome) -> None:
        nonlocal done, failed
        done, failed = done + 1, failed + bool(outcome.violations)
        if outcome.violations:
            print(failure_text(outcome), flush=True)
        _show_progress(done, args.seeds, failed, _now_s() - begin_s)

    seeds = range(args.first, args.first + args.seeds)
    run = partial(run_seed, mode=args.mode)
    result = sweep(map(str, seeds), on_run, run, PLANS[args.mode].expected)
    real_s = _now_s() - begin_s
    print(f"{result.seeds} seeds from {args.first} on, {len(result.failed)} failed; {versions()}")
    print(counts_text(result.counts, marks=args.verbose))
    print(
        f"{result.virtual_s:,.0f} virtual seconds in {real_s:.1f}:"
        f" {result.seeds / max(real_s, 0.001):.2f} seeds/s"
    )
    for name in result.zeros:
        print(f"never happened: {name}")
    return 0 if result.good else 1


def _show_progress(done: int, seeds: int, failed: int, real_s: float) -> None:
    """Print the progress: on a terminal one line that each run replaces, else a line after every 25
    runs.
    """
    text = f"{done} of {seeds} seeds, {failed} failed, {done / max(real_s, 0.001):.2f} seeds/s"
    if sys.stderr.isatty():
        print(f"\r{text} ", end="" if done < seeds else "\n", file=sys.stderr, flush=True)
    elif done % PROGRESS_SEEDS == 0:
        print(text, file=sys.stderr, flush=True)


def _now_s() -> float:
    """Return the seconds of the machine's own clock, only for figures that are printed."""
    return os.times().elapsed
