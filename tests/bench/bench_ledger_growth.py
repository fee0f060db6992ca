"""How a DLedger group grows: with the size of its entries, with its members, with its log.

    python tests/bench/bench_ledger_growth.py                    # some two minutes
    python tests/bench/bench_ledger_growth.py --java --rounds 3  # sizes also of DLedger 0.3.1.2
    python tests/bench/bench_ledger_growth.py --parts log --entries 10000000 --record 1KB

`sizes` and `members`: appends of one entry, so many outstanding; of our groups by tasks inside the
leader's process, of Java's by one connection of one client. MB_per_s is of bodies.

`log`: one producer fills the group of three. A row for each tenth of the entries says how fast that
was; the last row is 128 tasks on the full log. Then a follower is stopped in order and started,
killed and started, and so is the leader: ready_s until the member listens, append_s until the group
has committed one more entry; `anon` is what the process has allocated.

The members are on one machine: five of them share the cores that three had.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_kit import (
    Figures,
    arguments,
    bytes_of,
    list_of,
    settle,
    show_versions,
    workplace,
)
from bench_ledger_groups import VERSION, Group, JavaGroup, OurGroup
from interop_processes import Processes

PARTS = ("sizes", "members", "log")
COLUMNS = ("k_per_s", "MB_per_s", "p50_ms", "p99_ms", "leader_us", "follower_us")
TENTHS = 10
FILL_S = 2.0
FULL_TASKS = 128


def hosts(prefix: str, first: int, count: int) -> list[str]:
    return [f"{prefix}.{first + member}" for member in range(count)]


@contextmanager
def group_of(
    given: argparse.Namespace, count: int, durability: str, java: bool = False
) -> Iterator[Group]:
    """A started group of so many members, gone after the block."""
    with workplace(given.folder) as (folder, processes):
        made = _java if java else _ours
        group = made(processes, folder / "group", hosts(given.host, 1, count), durability)
        group.start_all()
        yield group


def _ours(processes: Processes, folder: Path, at: list[str], durability: str) -> Group:
    return OurGroup.make(processes, folder, at, durability=durability)


def _java(processes: Processes, folder: Path, at: list[str], _durability: str) -> Group:
    return JavaGroup.make(processes, folder, at, enableBatchPush="true")


def load(group: Group, tasks: int, seconds: float, size: int) -> dict[str, float]:
    """One measurement, a row of COLUMNS."""
    settle()
    if isinstance(group, OurGroup):
        run = group.inside("tasks", count=tasks, batch=1, seconds=seconds, size=size)
    else:
        run = group.load(tasks, seconds, size)
    return run | {"MB_per_s": run["k_per_s"] * size / 1e3}


def sizes(given: argparse.Namespace, how: str) -> None:
    for tasks in given.tasks:
        figures = Figures(f"ledger, three members, {how}, {tasks} outstanding", COLUMNS)
        for java in (False, True) if given.java else (False,):
            with group_of(given, 3, how, java) as group:
                load(group, tasks, given.seconds, given.sizes[0])  # Java gets faster with time
                for _ in range(given.rounds):
                    for size in given.sizes:
                        row = f"{'Java' if java else 'ours'}, {size:,} B"
                        figures.add(row, **load(group, tasks, given.seconds, size))
        figures.show()


def members(given: argparse.Namespace, how: str) -> None:
    for tasks in given.tasks:
        figures = Figures(f"ledger, 256 B, {how}, {tasks} outstanding", COLUMNS)
        for count in given.members:
            with group_of(given, count, how) as group:
                for _ in range(given.rounds):
                    figures.add(f"{count} members", **load(group, tasks, given.seconds, 256))
        figures.show()


def fill(group: OurGroup, entries: int, size: int, figures: Figures) -> None:
    """Until the leader has so many; a row for each tenth of them."""
    leader = group.leader()
    for tenth in range(TENTHS):
        until, began_s = entries * (tenth + 1) // TENTHS, time.monotonic()
        before = end = group.end(leader)
        while end + 1 < until:
            group.nodes[leader].ask("producer", seconds=FILL_S, size=size, outstanding=None)
            end = group.end(leader)
        if end == before:
            continue  # the tenth before was larger than two
        rate = (end - before) / (time.monotonic() - began_s)
        row = f"up to {end + 1:,} entries"
        figures.add(row, k_per_s=rate / 1e3, MB_per_s=rate * size / 1e6)
    group.wait_even()


def restart(group: OurGroup, name: str, *, in_order: bool) -> dict[str, float]:
    """Stop a member or kill it, and start it again."""
    node = group.nodes[name]
    del group.running[name]
    if in_order:
        node.stop()
    else:
        node.kill()
    settle()
    began_s = time.monotonic()
    group.start(name)
    ready_s = time.monotonic() - began_s
    assert group.first_append()
    append_s = time.monotonic() - began_s
    group.wait_even()
    return {"ready_s": ready_s, "append_s": append_s, **group.nodes[name].memory_mb()}


def log(given: argparse.Namespace, how: str) -> None:
    size = given.record
    with group_of(given, 3, how) as group:
        assert isinstance(group, OurGroup)
        figures = Figures(f"ledger, {given.entries:,} entries of {size:,} B, {how}", COLUMNS)
        fill(group, given.entries, size, figures)
        figures.add(f"{FULL_TASKS} tasks then", **load(group, FULL_TASKS, given.seconds, size))
        figures.show()
        columns = ("ready_s", "append_s", "anon_MB", "pss_MB", "rss_MB")
        starts = Figures(f"ledger, start-up with {given.entries:,} entries, {how}", columns)
        for leads in (False, True):
            for in_order in (True, False):
                leader = group.leader()
                name = leader if leads else next(n for n in group.running if n != leader)
                ended = "stopped" if in_order else "killed"
                row = f"{'leader' if leads else 'follower'}, {ended}"
                starts.add(row, **restart(group, name, in_order=in_order))
        starts.show()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", type=list_of(str), default=[*PARTS], help=", ".join(PARTS))
    parser.add_argument("--durability", type=list_of(str), default=["synced"])
    parser.add_argument("--tasks", type=list_of(int), default=[128])
    parser.add_argument("--sizes", type=list_of(bytes_of), default=[256, 1000, 16_000])
    parser.add_argument("--members", type=list_of(int), default=[3, 5])
    parser.add_argument("--entries", type=int, default=500_000, help="of the log")
    parser.add_argument("--record", type=bytes_of, default=256, help="bytes of each of them")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--java", action="store_true", help=f"with DLedger {VERSION} nodes")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    show_versions()
    parts = {"sizes": sizes, "members": members, "log": log}
    for how in given.durability:
        for part in given.parts:
            parts[part](given, how)


if __name__ == "__main__":
    main()
