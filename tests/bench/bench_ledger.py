"""DLedger groups of three processes: ours, real DLedger 0.3.1.2 nodes, and other Raft libraries.

    python tests/bench/bench_ledger.py                           # ours alone, some two minutes
    python tests/bench/bench_ledger.py --java --rounds 3
    python tests/bench/bench_ledger.py --java --memory --rivals --parts appends   # beside all

Appends of one entry of 256 B, so many outstanding. `ours`: tasks inside the leader's process; for
`producer` one task that sends entry by entry through an appender, for `pipelined 128` through one
that has room for so many. `ours, wire` and `Java`: one connection of one client, which is the same
program for both (APPEND, code 50001).

`synced`: our members sync before they vouch; `written`: they do not. Java never does: it syncs
every 10 ms behind its answers, the same in both tables. `batch`: enableBatchPush; `memory`:
DLedger's memory store, only in the appends.

Rivals, only in the appends: PySyncObj and hashicorp/raft with callers inside the leader's process,
as `ours`; etcd with its own client over one connection, as `ours, wire`. A line says of each what
it syncs. PySyncObj is in the extra `bench`; the other two are built here, which takes Go 1.26 and,
the first time, some minutes. Who is missing is left out. All of the third line above: 25 minutes.

leader_us and follower_us are processor time for one append, all threads, of the process that leads
and of one that follows; with `ours` the callers are part of the leader. Java groups stand still
(SIGSTOP) while another group has its turn. A group whose members do not come to one log within a
minute is left out from there on, with a line.

Catch-up: a follower whose store was deleted, entries of 256 B, MB/s of entries as stored, from its
first entry to the last one; `missing` ones did not come within a minute. Logs below 300 MiB: a peer
that is further behind gets 20 MiB a second of it, ours and Java's alike. Kill: from kill -9 of the
leader to the end of the next append of a client that asks the others in turn, with the same timers
for all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_kit import Figures, arguments, bytes_of, list_of, settle, show_versions, workplace
from bench_ledger_groups import VERSION, Group, JavaGroup, OurGroup
from bench_ledger_rivals import LIBRARIES, RIVALS, RivalGroup, built, chosen, what_is_missing
from interop_processes import PeerFailed, Processes

from wire.dledger_entry import ENTRY_HEAD_BYTES

ENTRY_BYTES = 256
SHAPES = ("1", "16", "128", "1024", "pipelined 128", "pipelined 1024", "producer")
PARTS = ("appends", "catchup", "kill")
COLUMNS = ("k_per_s", "p50_ms", "p99_ms", "leader_us", "follower_us", "refused")
FILL_OUTSTANDING = 1024
FILL_S = 2.0
HEARTBEAT_S = 0.5
"""In the groups whose leaders are killed; three of silence, as by default, begin a campaign."""
JAVA_GROUPS: dict[str, dict[str, object]] = {
    "Java": {"enableBatchPush": "false"},
    "Java, batch": {"enableBatchPush": "true"},
}
MEMORY_GROUPS = {f"{name}, memory": {**s, "storeType": "MEMORY"} for name, s in JAVA_GROUPS.items()}
Place = tuple[Path, Processes]
Run = Callable[[str], dict[str, float]]


def hosts(prefix: str, number: int) -> list[str]:
    """Of the group of that number: groups run at the same time."""
    return [f"{prefix}.{number * 3 + member + 1}" for member in range(3)]


def groups(given: argparse.Namespace, place: Place, part: str, durability: str) -> dict[str, Group]:
    """Those that take part, started, each with a leader."""
    heartbeat_s = HEARTBEAT_S if part == "kill" else 2.0
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
    java = (JAVA_GROUPS if given.java else {}) | (MEMORY_GROUPS if given.memory and beside else {})
    for name, settings in java.items():
        beat = {"heartBeatTimeIntervalMs": round(heartbeat_s * 1000)}
        start(name, JavaGroup.make, **settings, **beat)
    for name, rival in rivals.items():
        start(name, RivalGroup.make, rival, programs, durability)
    return found


@contextlib.contextmanager
def turn_of(group: Group) -> Iterator[None]:
    group.wake()
    settle()
    yield
    group.rest()


def runs_of(found: dict[str, Group], seconds: float) -> dict[str, Run]:
    def inside(shape: str) -> dict[str, float]:
        ours = found["ours"]
        assert isinstance(ours, OurGroup)
        if not shape.isdigit():
            outstanding = [int(word) for word in shape.split()[1:]] or [None]
            return ours.inside(
                "producer", seconds=seconds, size=ENTRY_BYTES, outstanding=outstanding[0]
            )
        return ours.inside("tasks", count=int(shape), batch=1, seconds=seconds, size=ENTRY_BYTES)

    def wire(group: Group) -> Run:
        return lambda shape: group.load(int(shape), seconds, ENTRY_BYTES)

    runs = {"ours": inside, "ours, wire": wire(found["ours"])}
    return runs | {name: wire(group) for name, group in found.items() if name != "ours"}


def appends(found: dict[str, Group], how: str, shapes: list[str], rounds: int, s: float) -> None:
    runs = runs_of(found, s)
    for group in found.values():
        if isinstance(group, JavaGroup):
            with turn_of(group):
                group.load(16, 5.0, ENTRY_BYTES)  # Java gets faster with time
    for shape in shapes:
        what = f"{shape} outstanding" if shape.isdigit() else f"one {shape} task"
        figures = Figures(f"ledger appends, {how}, {what}", COLUMNS)
        for _ in range(rounds):
            for name, run in list(runs.items()):
                if not shape.isdigit() and name != "ours":
                    continue
                try:
                    with turn_of(found.get(name, found["ours"])):
                        figures.add(name, **run(shape))
                except PeerFailed as failed:
                    if name not in found or name == "ours":
                        raise
                    show_lost(name, failed)
                    found.pop(name).stop()
                    del runs[name]
        ours = ("ours", "ours, wire")
        figures.show([(a, b, "k_per_s", "at least 1") for a in ours for b in found if b != "ours"])


def show_lost(name: str, why: PeerFailed) -> None:
    """Followers of a Java group without a file can stay behind for good: the others go on."""
    told = str(why).splitlines()[0]
    print(f"{name} left out from here on: {told}")
    print("JSON " + json.dumps({"row": name, "left out": told}), flush=True)


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
    figures.show([("ours", name, "MB_per_s", "at least 1") for name in JAVA_GROUPS])


def kills(found: dict[str, Group], how: str, rounds: int) -> None:
    figures = Figures(f"ledger, kill -9 of the leader to the next append, {how}", ("seconds",))
    for _ in range(rounds):
        for name, group in found.items():
            with turn_of(group):
                figures.add(name, seconds=group.fail_over())
    figures.show([("ours", name, "seconds", "at most 1") for name in JAVA_GROUPS])


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


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", type=list_of(str), default=[*PARTS], help=", ".join(PARTS))
    parser.add_argument("--shapes", type=list_of(str), default=[*SHAPES])
    parser.add_argument("--durability", type=list_of(str), default=["synced", "written"])
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--bytes", type=bytes_of, default=64_000_000, help="of the catch-up")
    parser.add_argument("--java", action="store_true", help=f"with DLedger {VERSION} nodes")
    parser.add_argument(
        "--memory",
        action="store_true",
        help=f"with DLedger {VERSION} nodes that keep all in memory",
    )
    all_of_them = ",".join(LIBRARIES)
    parser.add_argument(
        "--rivals",
        nargs="?",
        const=all_of_them,
        default=[],
        type=libraries,
        help=f"with other Raft libraries: {all_of_them}",
    )
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    show_versions()
    show_notes(given.rivals)
    for how in given.durability:
        for part in given.parts:  # in groups of its own, with logs as long as it makes them
            with workplace(given.folder) as place:
                found = groups(given, place, part, how)
                match part:
                    case "appends":
                        appends(found, how, given.shapes, given.rounds, given.seconds)
                    case "catchup":
                        catch_ups(found, how, given.bytes, given.rounds)
                    case "kill":
                        kills(found, how, given.rounds)


if __name__ == "__main__":
    main()
