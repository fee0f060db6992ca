"""DLedger groups of three processes: ours, real DLedger 0.3.1.2 nodes, and other Raft libraries.

    python tests/bench/bench_ledger.py                           # ours alone, some three minutes
    python tests/bench/bench_ledger.py --java --rounds 3
    python tests/bench/bench_ledger.py --java --parts kill --heartbeat 2.0,0.5
    python tests/bench/bench_ledger.py --java --memory --rivals --parts appends   # beside all

Appends of one entry of 256 B, so many outstanding. Inside the leader's process: `ours`, tasks that
each wait for their answer; `ours, pipelined`, one task with an appender that has room for so many;
`Java, inside`, one thread and the futures of handleAppend. From another process: `ours, client`,
the same tasks and appender over our API socket; `ours, wire` and `Java`: one connection of one
client, which is the same program for both (APPEND, code 50001). `producer`: one task whose appender
has the room that it has by default.

`synced`: our members sync before they vouch; `written`: they do not. Java never does: it syncs
every 10 ms behind its answers, the same in both tables. `batch`: enableBatchPush; `memory`:
DLedger's memory store, only in the appends that are `written`, begun again for each table, for it
never frees anything. `bare` is roundtrip.c: two TCP round trips and one sync, in C.

Rivals, only in the appends: PySyncObj and hashicorp/raft with callers inside the leader's process,
as `ours`; etcd with its own client over one connection, as `ours, wire`. A line says of each what
it syncs. PySyncObj is in the extra `bench`; the other two are built here, which takes Go 1.26 and,
the first time, some minutes. Who is missing is left out. All of the fourth line above takes some
25 minutes.

leader_us, follower_us and client_us are processor time for one append, all threads, of the process
that leads, of one that follows and of a client of its own. A client is the limit where that times
k_per_s comes near to a core, 1000; callers inside are part of the leader. A table says what idle
groups cost: Java's, etcd's and PySyncObj's tuned one stand still (SIGSTOP) while another has its
turn, the others take some 2 % of a core each, ours below 1. Each is loaded for a second before the
rounds of each table, Java for 5 s at first. A group whose members do not come to one log within a
minute is left out from there on, with a line.

Catch-up: a follower whose store was deleted, entries of 256 B, MB/s of entries as stored, from the
first entry that it vouches for to the last one: synced, if ours are, in Java's memory or page cache
always; `missing` ones did not come within a minute. Logs below 300 MiB: a peer that is further
behind gets 20 MiB a second of it, ours and Java's alike. Kill: from kill -9 of the leader to the
end of the next append of a client that asks the others in turn, with the same timers for all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import bench_ledger_goals as goals
from bench_kit import Figures, arguments, bytes_of, list_of, show_versions, workplace
from bench_ledger_appends import (
    ENTRY_BYTES,
    PRODUCER,
    Appends,
    Shape,
    bare_cost,
    shape_of,
    turn_of,
)
from bench_ledger_groups import VERSION, Group, JavaGroup, OurGroup
from bench_ledger_rivals import LIBRARIES, RIVALS, RivalGroup, built, chosen, what_is_missing
from interop_processes import Processes

from wire.dledger.entry import ENTRY_HEAD_BYTES

SHAPES: tuple[Shape, ...] = (1, 16, 128, 1024, PRODUCER)
PARTS = ("appends", "catchup", "kill")
FILL_OUTSTANDING = 1024
FILL_S = 2.0
HEARTBEAT_S = 0.5
"""In the groups whose leaders are killed; three of silence, as by default, begin a campaign."""
JAVA_GROUPS: dict[str, dict[str, object]] = {
    "Java": {"enableBatchPush": "false"},
    "Java, batch": {"enableBatchPush": "true"},
}
MEMORY_GROUPS = {f"{name}, memory": {**s, "storeType": "MEMORY"} for name, s in JAVA_GROUPS.items()}
Location = tuple[Path, Processes]


def hosts(prefix: str, number: int) -> list[str]:
    """Of the group of that number: groups run at the same time."""
    return [f"{prefix}.{number * 3 + member + 1}" for member in range(3)]


def groups(
    given: argparse.Namespace,
    place: Location,
    part: str,
    durability: str,
    heartbeat_s: float = goals.DEFAULT_HEARTBEAT_S,
) -> dict[str, Group]:
    """Those that take part, started, each with a leader."""
    beside = part == "appends"
    folder, processes = place
    found: dict[str, Group] = {}
    rivals = chosen(given.rivals, durability) if beside else {}
    programs = built(folder) if any(rival.go for rival in rivals.values()) else folder

    def start(name: str, kind: Callable[..., Group], *what: object, **settings: object) -> None:
        """At once, so that the ports that the next group finds free are not this one's."""
        home = folder / name.replace(", ", "-")
        found[name] = kind(processes, home, hosts(given.host, len(found)), *what, **settings)
        found[name].start_all()
        found[name].rest()

    start("ours", OurGroup.make, durability=durability, heartbeat_interval_s=heartbeat_s)
    memory = given.memory and beside and durability == "written"
    java = (JAVA_GROUPS if given.java else {}) | (MEMORY_GROUPS if memory else {})
    for name, settings in java.items():
        beat = {"heartBeatTimeIntervalMs": round(heartbeat_s * 1000)}
        start(name, JavaGroup.make, **settings, **beat)
    for name, rival in rivals.items():
        start(name, RivalGroup.make, rival, programs, durability)
    return found


def appends(given: argparse.Namespace, found: dict[str, Group], how: str, folder: Path) -> None:
    tables = Appends(found, how, bare_cost(folder, how))
    tables.begin()
    for shape in given.shapes:
        tables.table(shape, given.rounds, given.seconds)


def catch_ups(found: dict[str, Group], how: str, size_bytes: int, rounds: int) -> None:
    figures = Figures(f"ledger catch-up from empty, {how}", ("MB_per_s", "seconds", "missing"))
    stored_bytes = ENTRY_HEAD_BYTES + ENTRY_BYTES
    for group in found.values():
        with turn_of(group):
            while group.wait_even() * stored_bytes < size_bytes:
                group.load(FILL_OUTSTANDING, FILL_S, ENTRY_BYTES)
    for _ in range(rounds):
        for name, group in list(found.items()):
            with turn_of(group):
                run = group.catch_up()
            rate = run["entries"] * stored_bytes / run["seconds"] / 1e6
            figures.add(name, MB_per_s=rate, **run)
            if run["missing"]:
                group.stop()
                del found[name]
    figures.show(goals.of_catch_up())


def kills(found: dict[str, Group], how: str, rounds: int, heartbeat_s: float) -> None:
    what = f"{how}, heartbeats every {heartbeat_s:g} s"
    figures = Figures(f"ledger, kill -9 of the leader to the next append, {what}", ("seconds",))
    for _ in range(rounds):
        for name, group in found.items():
            with turn_of(group):
                figures.add(name, seconds=group.fail_over())
    figures.show(goals.of_kills(heartbeat_s))


def libraries(text: str) -> list[str]:
    """For argparse. Those that this machine cannot have are left out, with a line."""
    found = []
    for library in text.split(","):
        if library not in LIBRARIES:
            raise argparse.ArgumentTypeError(f"{library!r}: expected some of {','.join(LIBRARIES)}")
        missing = what_is_missing(library)
        if missing is None:
            found.append(library)
        else:
            print(f"{library} left out: {missing}", flush=True)
    return found


def show_notes(libraries: list[str]) -> None:
    """What each of their rows is."""
    for row, rival in RIVALS.items():
        if rival.library in libraries:
            print(f"{row}: {rival.note}")
            print("JSON " + json.dumps({"row": row, "note": rival.note}), flush=True)


def parser() -> argparse.ArgumentParser:
    found = arguments(__doc__)
    found.add_argument("--parts", type=list_of(str), default=[*PARTS], help=", ".join(PARTS))
    found.add_argument("--shapes", type=list_of(shape_of), default=[*SHAPES])
    found.add_argument("--durability", type=list_of(str), default=["synced", "written"])
    found.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    found.add_argument("--bytes", type=bytes_of, default=64_000_000, help="of the catch-up")
    found.add_argument(
        "--heartbeat",
        type=list_of(float),
        default=[HEARTBEAT_S],
        help=f"seconds between those of the leaders to be killed; {goals.DEFAULT_HEARTBEAT_S} is "
        "everybody's default",
    )
    found.add_argument("--java", action="store_true", help=f"with DLedger {VERSION} nodes")
    found.add_argument(
        "--memory",
        action="store_true",
        help=f"with DLedger {VERSION} nodes that keep all in memory",
    )
    all_of_them = ",".join(LIBRARIES)
    found.add_argument(
        "--rivals",
        nargs="?",
        const=all_of_them,
        default=[],
        type=libraries,
        help=f"with other Raft libraries: {all_of_them}",
    )
    return found


def measure(given: argparse.Namespace, part: str, how: str) -> None:
    """In groups of its own, with logs as long as it makes them."""
    for heartbeat_s in given.heartbeat if part == "kill" else [goals.DEFAULT_HEARTBEAT_S]:
        with workplace(given.folder) as place:
            found = groups(given, place, part, how, heartbeat_s)
            match part:
                case "appends":
                    appends(given, found, how, place[0])
                case "catchup":
                    catch_ups(found, how, given.bytes, given.rounds)
                case "kill":
                    kills(found, how, given.rounds, heartbeat_s)


def main() -> None:
    reader = parser()
    given = reader.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        reader.error(f"unknown parts: {', '.join(sorted(unknown))}")
    show_versions()
    show_notes(given.rivals)
    for how in given.durability:
        for part in given.parts:
            measure(given, part, how)


if __name__ == "__main__":
    main()
