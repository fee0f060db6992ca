"""Classic HA and DLedger, three nodes each, under one load and one script of faults: one table.

    python tests/bench/compare.py                             # all three tables, some 20 minutes
    python tests/bench/compare.py --parts sim --seeds 50      # in simulation only
    python tests/bench/compare.py --parts processes --rounds 3
    python tests/bench/compare.py --parts kills --kills 20    # DLedger leaders, killed one by one

Clients append records of 256 B, one each, so many under way; all groups are synced: a classic
group answers when two of its three nodes have a record on their disks, as DLedger's majority does.
`fast`: a DLedger group whose leader is missed after 0.45 s instead of 6 s.

The script is SCRIPT of `compare_script.py`, or `--script FILE`; its moments are moved a little by
the seed. A classic group whose master is gone waits for its operator, who types `promote` so many
seconds later as the row says; what was refused as diverged he lets follow again.

Rows, each the median of all runs and, behind it, the worst:
- appends/s, p50, p99: before the first fault; not in simulation, where time is virtual.
- outage: from a fault to the first acknowledgement of an append that was asked for after it. Who
  does not answer a client within 0.5 s is given up, and another node asked: no latency is longer,
  so p99 is cut there, and what took longer is in `outcome unknown`.
- log sent again: bytes that members received at positions up to which they had received some
  before. What was on its way to a process that was killed is in nobody's count. Bytes of the log,
  not of the wire, where DLedger's JSON adds a third to each body.
- acknowledged lost, reordered: at the end all nodes are killed and started again, and every
  member's whole log is read: each acknowledged record must stand at its place in each of them, and
  behind whatever had been acknowledged when it was asked for. In a log twice, or though it was
  never made, or refused: strange. Any of them makes the exit code 1.
- outcome unknown: the client does not know; the record may be there or not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import trio
from bench_kit import arguments, list_of, settle, show_versions, workplace
from compare_load import Load
from compare_processes import run_processes
from compare_run import CONTENDERS, Run, elects
from compare_script import SCRIPT, Hit, Stage, kill_leaders, play, read_script
from compare_sim import simulate

PARTS: Final = ("sim", "processes", "kills")
SEEDS: Final = 10
ROUNDS: Final = 1
KILLS: Final = 20
LEAST: Final = ("appends/s", "acknowledged")
"""Rows of which the least is the worst."""
Faults = Callable[[Stage, Load], Awaitable[list[Hit]]]
Figures = dict[str, float | None]
"""One run's, by row; None: it never came to that."""


def scripted(text: str, seed: str) -> Faults:
    """The script's faults, at the seed's moments."""
    script = read_script(text, seed)

    async def faults(stage: Stage, load: Load) -> list[Hit]:
        return await play(stage, load, script)

    return faults


def killing(times: int, seed: str) -> Faults:
    """One leader after the other."""

    async def faults(stage: Stage, load: Load) -> list[Hit]:
        return await kill_leaders(stage, load, times, seed)

    return faults


def cell(figures: Sequence[float | None], row: str) -> str:
    """Median and worst of several runs; of one, its figure."""
    if not figures:
        return "-"
    known = [math.inf if each is None else each for each in figures]
    worst = min(known) if row in LEAST else max(known)
    shown = [f"{each:.0f}" if each >= 100 else f"{each:.3g}" for each in (median(known), worst)]
    return shown[0] if len(known) == 1 else " / ".join(shown)


def table(head: str, found: dict[str, list[Figures]]) -> list[str]:
    """The lines of a table: rows as they first come, a column for each contender, then JSON."""
    rows = list(dict.fromkeys(row for runs in found.values() for run in runs for row in run))
    width = max(map(len, rows))
    lines = [head, " " * width + "".join(f"{name:>22}" for name in found)]
    for row in rows:
        cells = [cell([run[row] for run in runs if row in run], row) for runs in found.values()]
        lines.append(f"{row:{width}}" + "".join(f"{each:>22}" for each in cells))
    lines += [
        "JSON " + json.dumps({"table": head, "contender": name, "runs": runs})
        for name, runs in found.items()
    ]
    return lines


def kill_figures(run: Run) -> list[Figures]:
    """A run of nothing but kills: an outage for each; counts once."""
    outages: list[Figures] = [
        {"outage ms": None if each is None else each * 1e3} for each in run.outages
    ]
    rejoined: Figures = {"killed and rejoined": len(run.hits)}
    return [*outages, {**rejoined, **run.counts()}]


# ---- the three parts ----


def in_simulation(names: Sequence[str], seeds: Sequence[str], text: str) -> dict[str, list[Run]]:
    """The script in a world of each seed."""
    found: dict[str, list[Run]] = {name: [] for name in names}
    for seed in seeds:
        for name in names:
            found[name].append(simulate(name, seed, scripted(text, seed)))
            say(f"seed {seed}", name, found[name][-1])
    return found


def on_processes(
    names: Sequence[str], given: argparse.Namespace, faults: Callable[[str], Faults]
) -> dict[str, list[Run]]:
    """What `faults` gives for each round, on three processes each time."""
    found: dict[str, list[Run]] = {name: [] for name in names}
    for number in map(str, range(given.rounds)):
        for place, name in enumerate(names):
            with workplace(given.folder) as (folder, processes):
                settle()
                run = partial(
                    run_processes, name, folder / str(place), given.host, processes, faults(number)
                )
                found[name].append(trio.run(run))
            say(f"round {number}", name, found[name][-1])
    return found


def say(which: str, name: str, run: Run) -> None:
    shown = " ".join("-" if each is None else f"{each * 1e3:.0f}" for each in run.outages)
    print(f"    {which} | {name}: outages in ms {shown}; {run.audit}", file=sys.stderr, flush=True)


def show(head: str, found: dict[str, list[Run]], figures: Callable[[Run], list[Figures]]) -> bool:
    """Print the table. Returns whether nothing was lost, reordered or strange in any run."""
    each = {name: [one for run in runs for one in figures(run)] for name, runs in found.items()}
    print("\n" + "\n".join(table(head, each)), flush=True)
    return all(run.audit.good for runs in found.values() for run in runs)


def main() -> int:
    parser = arguments(__doc__)
    parser.set_defaults(rounds=ROUNDS)
    parser.add_argument("--parts", type=list_of(str), default=[*PARTS])
    parser.add_argument("--contenders", type=list_of(str), default=[*CONTENDERS])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="worlds to simulate")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--script", type=Path, help="other faults")
    parser.add_argument("--kills", type=int, default=KILLS, help="leaders to kill")
    given = parser.parse_args()
    text = SCRIPT if given.script is None else given.script.read_text()
    show_versions()
    good = True
    if "sim" in given.parts:
        seeds = [str(given.first + number) for number in range(given.seeds)]
        found = in_simulation(given.contenders, seeds, text)
        head = f"simulated, {given.seeds} seeds, virtual time: median / worst"
        good &= show(head, found, lambda run: [run.figures(timed=False)])
    if "processes" in given.parts:
        found = on_processes(given.contenders, given, partial(scripted, text))
        head = f"processes, {given.rounds} rounds: median / worst"
        good &= show(head, found, lambda run: [run.figures(timed=True)])
    if "kills" in given.parts:
        electing = [name for name in given.contenders if elects(name)]
        found = on_processes(electing, given, partial(killing, given.kills))
        head = f"processes, kill -9 of the leader {given.kills} times: median / worst"
        good &= show(head, found, kill_figures)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
