"""One append after the other on a DLedger group of three: what each costs, counted and timed.

    python tests/bench/bench_ledger_one.py
    python tests/bench/bench_ledger_one.py --rounds 9 --seconds 2

Each node is a process; one caller inside the leader's waits for each answer. `processor_us` is the
processor time of leader and followers together for one append, all threads; `leader_us` and
`follower_us` are parts of it.

A second load is counted, by a profiler that makes it some twice as slow: Python frames that were
entered or resumed (`calls`), actors that were woken (`wakes`), and attrs objects that were made,
messages and effects most of them (`objects`); a follower is the mean of both. What comes with time
(heartbeats, alarms) counts more there than in the load that is timed.
"""

from __future__ import annotations

import argparse

from bench_kit import Figures, arguments, show_versions, workplace
from bench_ledger_appends import ENTRY_BYTES
from bench_ledger_groups import OurGroup


def timed(group: OurGroup, seconds: float) -> dict[str, float]:
    """The cost of one append."""
    found = group.inside("tasks", count=1, batch=1, seconds=seconds, size=ENTRY_BYTES)
    found["processor_us"] = found["leader_us"] + 2 * found["follower_us"]
    return found


def counted(group: OurGroup, seconds: float) -> dict[str, dict[str, float]]:
    """What one append does in the leader, and in a follower."""
    leader = group.leader()
    for node in group.nodes.values():
        node.ask("count")
    before = group.end(leader)
    load = {"count": 1, "batch": 1, "seconds": seconds, "size": ENTRY_BYTES}
    group.nodes[leader].ask("tasks", **load)
    appends = group.end(leader) - before
    counts = {name: node.ask("counted") for name, node in group.nodes.items()}
    own = counts.pop(leader)
    return {
        "leader": {what: count / appends for what, count in own.items()},
        "follower": {
            what: sum(each[what] for each in counts.values()) / len(counts) / appends
            for what in own
        },
    }


def measure(given: argparse.Namespace, durability: str) -> None:
    cost = Figures(
        f"one DLedger append, {durability}",
        ("processor_us", "leader_us", "follower_us", "p50_ms", "p99_ms"),
    )
    counts = Figures(f"one DLedger append, {durability}, counted", ("calls", "wakes", "objects"))
    with workplace(given.folder) as (folder, processes):
        hosts = [f"{given.host}.{number}" for number in (1, 2, 3)]
        group = OurGroup.make(processes, folder / durability, hosts, durability=durability)
        group.start_all()
        timed(group, given.seconds)
        for _ in range(given.rounds):
            cost.add("ours", **timed(group, given.seconds))
        for role, found in counted(group, given.seconds).items():
            counts.add(role, **found)
    cost.show()
    counts.show()


def main() -> None:
    reader = arguments(__doc__)
    reader.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    reader.add_argument("--durability", default="synced", choices=("synced", "written"))
    given = reader.parse_args()
    show_versions()
    measure(given, given.durability)


if __name__ == "__main__":
    main()
