"""An auto-switch group beside a classic one: appends a second, and the outage at a killed master.

    python tests/bench/bench_autoswitch.py                       # some minutes
    python tests/bench/bench_autoswitch.py --parts kill --kills 20
    python tests/bench/bench_autoswitch.py --parts faults --kills 20 --stops 10

`appends`: two copies, bodies of 256 B, in shapes as in bench_appends.py, callers in the master's
process. The classic master answers with `copies = 2`, the auto-switch master once all of its sync
state set has the record, with `min_in_sync_replicas = 2`; its controller is a third process. While
one group has its turn the other one idles.

`kill`: three replicas, of which two have to hold a record. The master gets SIGKILL; `seconds` is
the time until a client's next append is answered, whoever is master then. In the classic group an
operator promotes another node in the moment of the kill, which no operator does.

`faults`: see bench_autoswitch_faults.py, and with `--java 5` bench_autoswitch_java.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import trio
from bench_appends import RECORD_BYTES, SHAPES
from bench_autoswitch_faults import measure_faults
from bench_autoswitch_java import measure_java
from bench_kit import (
    HA_PORT,
    SEGMENT_BYTES,
    Figures,
    Node,
    arguments,
    list_of,
    settle,
    show_versions,
    workplace,
)
from interop_nodes import GROUP, status_of, write_cluster
from interop_processes import Processes, wait_for

from actors.api.socket_file import api_socket_path
from actors.client import connect, connect_group
from actors.errors import NotStored, OutcomeUnknown

CONTROLLER = "c0"
WHOLE_S = 60.0
WARM_APPENDS = 50
AGAIN_S = 0.002
HEARTBEAT_TIMEOUT_S = 2.0
BROKER_PORT = HA_PORT - 1
KINDS = ("classic", "autoswitch")


@attrs.define
class Replicas:
    """A group of some replicas of ours, and its controller if it has one, each in a process."""

    kind: str
    cluster: Path
    processes: Processes
    names: tuple[str, ...]
    nodes: dict[str, Node] = attrs.field(factory=dict)

    @classmethod
    def make(
        cls, processes: Processes, folder: Path, host: str, kind: str, count: int, durability: str
    ) -> Replicas:
        names = tuple(f"n{number}" for number in range(count))
        own = {
            name: f"{host}.{KINDS.index(kind) * 8 + number + 1}"
            for number, name in enumerate(names)
        }
        group: dict[str, object] = {
            "mode": f'"{kind}"',
            "durability": f'"{durability}"',
            "port": HA_PORT,
            "segment_bytes": SEGMENT_BYTES // 16,
        }
        listed = ", ".join(f'"{name}"' for name in names)
        if kind == "classic":
            slaves = ", ".join(f'"{name}"' for name in names[1:])
            group |= {"master": '"n0"', "slaves": f"[{slaves}]", "copies": 2}
        else:
            group |= {"members": f"[{listed}]", "min_in_sync_replicas": 2}
            group |= {"broker_port": BROKER_PORT, "controllers": f'["{host}.16:9878"]'}
            group |= {"controller_heart_beat_timeout_s": HEARTBEAT_TIMEOUT_S}
            own[CONTROLLER] = f"{host}.16"
        cluster = write_cluster(folder, own, group)
        if kind != "classic":
            text = f'[controllers]\nnodes = ["{CONTROLLER}"]\nport = 9878\n'
            cluster.write_text(f"{cluster.read_text()}{text}")
        found = cls(kind, cluster, processes, names)
        for name in (*([CONTROLLER] if kind != "classic" else []), *names):
            found.start(name)
        found.wait_whole()
        return found

    def start(self, name: str) -> None:
        self.nodes[name] = Node.start(self.processes, self.cluster, name)

    def folder(self, name: str) -> Path:
        return self.cluster.parent / "data" / name

    def master(self) -> str | None:
        """The replica that takes appends, once all others hold what it has; None: not yet."""
        for name in self.names:
            status = status_of(self.folder(name), GROUP)
            if status.get("is_open") and status.get("leads"):
                copies = [each for each in status["peers"] if each["is_well"] and each["has_copy"]]
                told = status["details"].get("in_sync", self.names)
                whole = len(copies) == len(self.names) - 1 and len(told) == len(self.names)
                return name if whole else None
        return None

    def wait_whole(self) -> str:
        processes = [node.process for node in self.nodes.values()]
        what = "a master with all replicas in sync"
        return wait_for(self.master, what, timeout_s=WHOLE_S, alive=processes)

    def outage_s(self) -> float:
        """Kill the master under a client. Returns: seconds until an append is answered."""
        killed = self.wait_whole()
        others = [name for name in self.names if name != killed]
        kill, by_hand = self.nodes[killed].kill, self.kind == "classic"
        promote = (str(self.folder(others[0])), others[0]) if by_hand else None
        seconds = trio.run(_outage, str(self.cluster), kill, promote)
        self.start(killed)
        return seconds


async def _outage(cluster: str, kill: Callable[[], None], promote: tuple[str, str] | None) -> float:
    async def by_hand(folder: str, node: str) -> None:
        async with connect(api_socket_path(folder)) as client:
            await client.promote(GROUP, node)

    async with connect_group(cluster, GROUP) as log, trio.open_nursery() as nursery:
        for _ in range(WARM_APPENDS):
            await log.append([b"x" * RECORD_BYTES])
        kill()
        killed_s = time.monotonic()
        if promote is not None:
            nursery.start_soon(by_hand, *promote)
        while True:
            try:
                await log.append([b"x" * RECORD_BYTES])
            except (NotStored, OutcomeUnknown):
                await trio.sleep(AGAIN_S)
            else:
                return time.monotonic() - killed_s


def measure_appends(given: argparse.Namespace, how: str) -> None:
    with workplace(given.folder) as (folder, processes):
        groups = [
            Replicas.make(processes, folder / kind, given.host, kind, 2, how) for kind in KINDS
        ]
        for shape in given.shapes:
            count, batch = SHAPES[shape]
            figures = Figures(f"appends, {how}, {shape} tasks", ("k_per_s", "p50_ms", "p99_ms"))
            for _ in range(given.rounds):
                for group in groups:
                    settle()
                    load = {"count": count, "batch": batch, "size": RECORD_BYTES}
                    master = group.nodes[group.wait_whole()]
                    figures.add(group.kind, **master.ask("tasks", seconds=given.seconds, **load))
            figures.show([("autoswitch", "classic", "k_per_s", "at least 1")])


def measure_kills(given: argparse.Namespace) -> None:
    figures = Figures("a killed master, three replicas, synced", ("seconds",))
    with workplace(given.folder) as (folder, processes):
        groups = [
            Replicas.make(processes, folder / kind, given.host, kind, 3, "synced") for kind in KINDS
        ]
        for _ in range(given.kills):
            for group in groups:
                figures.add(group.kind, seconds=group.outage_s())
    figures.show(
        [("autoswitch", "classic", "seconds", "")],
        [("autoswitch", "seconds", "at most 0.3")],
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", type=list_of(str), default=["appends", "kill"])
    parser.add_argument("--shapes", type=list_of(str), default=["1", "16", "128", "1024"])
    parser.add_argument("--durability", type=list_of(str), default=["synced"])
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--stops", type=int, default=2, help="SIGSTOPs, of faults")
    parser.add_argument("--java", type=int, default=0, help="kills of a Java master, of faults")
    parser.add_argument("--seed", type=int, default=1, help="in which order, of faults")
    given = parser.parse_args()
    show_versions()
    for how in given.durability if "appends" in given.parts else []:
        measure_appends(given, how)
    if "kill" in given.parts:
        measure_kills(given)
    if "faults" in given.parts:
        measure_faults(given.folder, given.host, given.kills, given.stops, given.seed)
        if given.java:
            measure_java(given.folder, given.java)


if __name__ == "__main__":
    main()
