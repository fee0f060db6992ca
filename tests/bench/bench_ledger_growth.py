"""How a DLedger group grows: with the size of its entries, with its members, with its log.

    python tests/bench/bench_ledger_growth.py                    # some two minutes
    python tests/bench/bench_ledger_growth.py --java --rounds 3  # sizes also of DLedger 0.3.1.2
    python tests/bench/bench_ledger_growth.py --parts log --entries 10000000 --record 1KB

`sizes` and `members`: appends of one entry, so many outstanding. MB_per_s is of bodies. Rows are
those of `bench_ledger.py`: callers inside the leader's process, or one connection of one client,
the same for ours and for Java's with batch push. The groups stand side by side and have their turns
in each round, after 5 s of load for every size. Ours sync, or not, as the title says; Java's sync
every 10 ms behind their answers.

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

import bench_ledger_goals as goals
from bench_kit import (
    Figures,
    arguments,
    bytes_of,
    list_of,
    settle,
    show_versions,
    workplace,
)
from bench_ledger_appends import FIRST_S, rows_of, turn_of
from bench_ledger_groups import VERSION, Group, JavaGroup, OurGroup

PARTS = ("sizes", "members", "log")
COLUMNS = ("k_per_s", "MB_per_s", "p50_ms", "p99_ms", "leader_us", "follower_us", "client_us")
OUR_WIRE = "ours, wire"
JAVA = "Java, batch"
SIZE_ROWS = ("ours", OUR_WIRE, "Java, inside, batch", JAVA)
TENTHS = 10
FILL_S = 2.0
FULL_TASKS = 128


def hosts(prefix: str, first: int, count: int) -> list[str]:
    return [f"{prefix}.{first + member}" for member in range(count)]


@contextmanager
def group_of(given: argparse.Namespace, count: int, durability: str) -> Iterator[OurGroup]:
    """A started group of ours with so many members, gone after the block."""
    with workplace(given.folder) as (folder, processes):
        at = hosts(given.host, 1, count)
        group = OurGroup.make(processes, folder / "group", at, durability=durability)
        group.start_all()
        yield group


@contextmanager
def groups(given: argparse.Namespace, durability: str) -> Iterator[dict[str, Group]]:
    """Started groups of three, ours and Java's, gone after the block."""
    with workplace(given.folder) as (folder, processes):
        at = hosts(given.host, 1, 3)
        found: dict[str, Group] = {
            "ours": OurGroup.make(processes, folder / "ours", at, durability=durability)
        }
        found["ours"].start_all()
        if given.java:  # once ours have their ports
            at = hosts(given.host, 4, 3)
            java = JavaGroup.make(processes, folder / "java", at, enableBatchPush="true")
            java.start_all()
            java.rest()
            found[JAVA] = java
        yield found


def with_bodies(run: dict[str, float], size: int) -> dict[str, float]:
    return run | {"MB_per_s": run["k_per_s"] * size / 1e3}


def load(group: OurGroup, tasks: int, seconds: float, size: int) -> dict[str, float]:
    """One measurement inside the leader, a row of COLUMNS."""
    settle()
    run = group.inside("tasks", count=tasks, batch=1, seconds=seconds, size=size)
    return with_bodies(run, size)


def sizes(given: argparse.Namespace, how: str) -> None:
    for tasks in given.tasks:
        with groups(given, how) as found:
            title = f"ledger, three members, ours {how}, {tasks} outstanding"
            figures = Figures(title, COLUMNS)
            for size in given.sizes:
                measure_size(found, figures, given, tasks, size)
            wire = [(f"{OUR_WIRE}, {size:,} B", f"{JAVA}, {size:,} B") for size in given.sizes]
            wanted = goals.WIRE if how == "written" else ""
            figures.show([(*pair, "k_per_s", wanted) for pair in wire])


def measure_size(
    found: dict[str, Group], figures: Figures, given: argparse.Namespace, tasks: int, size: int
) -> None:
    """Everyone's turn in each round, after a first one that does not count."""
    rows = {name: row for name, row in rows_of(found, size).items() if name in SIZE_ROWS}
    for row in rows.values():
        with turn_of(found[row.group]):
            row.run(tasks, FIRST_S)
    for _ in range(given.rounds):
        for name, row in rows.items():
            with turn_of(found[row.group]):
                run = row.run(tasks, given.seconds)
            figures.add(f"{name}, {size:,} B", **with_bodies(run, size))


def members(given: argparse.Namespace, how: str) -> None:
    for tasks in given.tasks:
        figures = Figures(f"ledger, 256 B, {how}, {tasks} outstanding", COLUMNS)
        for count in given.members:
            with group_of(given, count, how) as group:
                load(group, tasks, FIRST_S, 256)
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
