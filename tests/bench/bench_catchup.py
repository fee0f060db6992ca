"""Catch-up of empty slaves: ours beside a C program and a pair of RocketMQ brokers.

    python tests/bench/bench_catchup.py                       # 512 MB, no Java: a minute
    python tests/bench/bench_catchup.py --bytes 2GB --java
    python tests/bench/bench_catchup.py --bytes 20GB --records 16K --slaves 1

The master runs through all rounds and has dispatched its log; each slave begins with nothing. The
C program (catchup.c) copies the same files from the page cache into files that are laid out like
ours and syncs as ours do: `synced`, one sync at a time behind the writes and a report behind each;
`written`, a report behind each frame and a sync every half second.

MB/s are bytes until the last slave has reported the log's end, counted from its first report;
consumable_s is the time until its consume queues reach there too. Nobody's start counts as copying:
while our slaves and RocketMQ's start, their master stands still (SIGSTOP), and goes on when they
wait for it and the machine is settled. The C program has forked its own before the first report.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
from pathlib import Path

import attrs
from bench_java import JavaPair, behind_bytes, set_batch
from bench_java import catch_up as java_catch_up
from bench_kit import (
    NODES,
    SEGMENT_BYTES,
    Figures,
    Node,
    arguments,
    bytes_of,
    cluster_file,
    compiled,
    list_of,
    master_with_log,
    settle,
    show_versions,
    standing_still,
    workplace,
)
from interop_processes import Processes, wait_for

FRAME_BYTES = 1 << 20
DURABILITIES = ("written", "synced")
GOAL_C = "at least 0.85"
JAVA_FRAMES = {32 << 10: "Java, 32 KiB", 1 << 20: "Java, 1 MiB"}
JAVA_RATIOS = [("ours", row, "MB_per_s", "at least 5") for row in JAVA_FRAMES.values()]
DISPATCH_TIMEOUT_S = 600.0


def c_program(program: Path, source: Path, folder: Path, end: int, slaves: int, how: str) -> float:
    """Seconds."""
    target = folder / "c"
    target.mkdir()
    words = [program, source, target, end, slaves, how, FRAME_BYTES, SEGMENT_BYTES]
    done = subprocess.run([str(word) for word in words], capture_output=True, check=True)
    shutil.rmtree(target)
    return float(done.stdout)


def ours(
    processes: Processes, master: Node, cluster: Path, end: int, slaves: int
) -> tuple[float, float]:
    """Seconds until the last slave has everything, and until it can be consumed there."""
    names = list(NODES[1 : slaves + 1])
    master.ask("forget")
    master.begin("copied", slaves=names, end=end)
    with standing_still(master.process, end * slaves):
        nodes = [Node.start(processes, cluster, name) for name in names]
    copied = master.answer()
    consumable_s = max(node.ask("dispatched", end=end) for node in nodes) - copied["began_s"]
    for node in nodes:
        node.kill()
        shutil.rmtree(node.store.parents[1])
    return copied["seconds"], consumable_s


@attrs.define(kw_only=True)
class Location:
    """One log, and what copies it."""

    given: argparse.Namespace
    folder: Path
    processes: Processes
    program: Path
    log: Path
    end: int
    java: JavaPair | None

    def measure(self, title: str, how: str, slaves: int) -> None:
        cluster = cluster_file(
            self.folder, self.given.host, slaves, {"durability": f'"{how}"', "copies": 1}
        )
        master = Node.start(self.processes, cluster, "n0")
        master.ask("dispatched", end=self.end)
        figures = Figures(title, ("MB_per_s", "seconds", "consumable_s"))
        for _ in range(self.given.rounds):
            settle(self.end * slaves)
            seconds = c_program(self.program, self.log, self.folder, self.end, slaves, how)
            self.add(figures, "C", slaves, seconds)
            seconds, consumable_s = ours(self.processes, master, cluster, self.end, slaves)
            self.add(figures, "ours", slaves, seconds, consumable_s=consumable_s)
            if self.java is not None and slaves == 1 and how == "written":
                self.add_java(figures, self.java)
        figures.show([("ours", "C", "MB_per_s", GOAL_C), *JAVA_RATIOS])
        master.kill()

    def add(self, figures: Figures, row: str, slaves: int, seconds: float, **more: float) -> None:
        rate = self.end * slaves / seconds / 1e6
        figures.add(row, MB_per_s=rate, seconds=seconds, **more)

    def add_java(self, figures: Figures, pair: JavaPair) -> None:
        """Upstream's slave answers before it syncs, so this stands beside `written`."""
        for frame_bytes, row in JAVA_FRAMES.items():
            set_batch(pair.master, frame_bytes)
            seconds, consumable_s = java_catch_up(pair, self.log, self.end)
            self.add(figures, row, 1, seconds, consumable_s=consumable_s)


def java_master(folder: Path, processes: Processes, log: Path) -> JavaPair:
    """A pair whose master has the same log and has dispatched it; its slave has not run."""
    pair = JavaPair.make(processes, folder / "java", "catchup")
    shutil.copytree(log, pair.master.commitlog)
    pair.start_master()
    wait_for(
        lambda: behind_bytes(pair.master) == 0, "a dispatched log", timeout_s=DISPATCH_TIMEOUT_S
    )
    return pair


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--bytes", type=list_of(bytes_of), default=[512_000_000])
    parser.add_argument("--records", type=list_of(bytes_of), default=[256, 16384])
    parser.add_argument("--slaves", type=list_of(int), default=[1])
    parser.add_argument("--durability", type=list_of(str), default=list(DURABILITIES))
    parser.add_argument("--java", action="store_true", help="with a pair of RocketMQ brokers")
    given = parser.parse_args()
    show_versions()
    for size, record in itertools.product(given.bytes, given.records):
        with workplace(given.folder) as (folder, processes):
            store, end = master_with_log(folder, processes, given.host, size, record)
            log = store / "commitlog"
            place = Location(
                given=given,
                folder=folder,
                processes=processes,
                program=compiled("catchup", folder),
                log=log,
                end=end,
                java=java_master(folder, processes, log) if given.java else None,
            )
            for how, slaves in itertools.product(given.durability, given.slaves):
                what = f"{size / 1e6:.0f} MB, records of {record} B, {how}, {slaves} slave(s)"
                place.measure(f"catch-up of {what}", how, slaves)


if __name__ == "__main__":
    main()
