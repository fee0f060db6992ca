"""Appends beside tails: what many readers of old records cost who writes, and the other way round.

    python tests/bench/bench_tails.py                       # 0, 20 and 200 tails, a few minutes
    python tests/bench/bench_tails.py --tails 20 --idle 0 --rounds 1

A master and its slave, `synced`, two copies, bodies of 256 B; 128 tasks append over the API from a
process of their own. Tails begin at position 0 with all the credit that the protocol allows, begin
again at the log's end, and live in another process, whose priority `--nice` lowers: they take a
core for decoding, of which a small machine has few. `--idle` connections are open beside them in
the last case. In each round the same pair of master and slave is measured with appends alone, with
tails alone, with both, and with appends beside `as busy`: the readers' process takes as much of a
core as it did for the tails, and does not talk to the node. What the tails cost beyond that they
cost the node; the rest is the machine's.

- `k_per_s`: appends.
- `MB_per_s`: bytes of records that all tails got together.
- `least`: what the slowest tail got, as a part of an equal share.
- `readers`, `master`: cores that the process took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from bench_kit import (
    Figures,
    Node,
    arguments,
    bytes_of,
    cluster_file,
    list_of,
    settle,
    show_versions,
    workplace,
)
from bench_load import WARM_UP_S

RECORD_BYTES = 256
TASKS = 128
PRODUCER_S = 0.5
SETTLE_S = 1.0
"""After tails have begun, or connections have come and gone, and before the next measurement."""
RESTS_MAX = 60
RESTS_SHARE = 0.1
"""The readers' process rests below this share of a core; it is waited for so many `SETTLE_S`."""
SHARE_WANTED = "at least 0.8"
TAILS_WANTED = "at least 0.5"
LEAST_WANTED = "at least 0.25"


def processor_s(node: Node) -> float:
    """Processor time that the process has had so far."""
    fields = Path(f"/proc/{node.process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def tailed(readers: Node, before: Sequence[int], seconds: float) -> tuple[float, float]:
    """MB/s of all tails since `before`, and the least share of one."""
    got = [now - then for now, then in zip(readers.ask("got"), before, strict=True)]
    return sum(got) / seconds / 1e6, min(got) / max(1.0, sum(got) / len(got))


@attrs.frozen
class Cast:
    """The processes of a measurement."""

    master: Node
    client: Node
    readers: Node

    def appended(self, seconds: float) -> dict[str, float]:
        """What the client appends in so long, and what that takes."""
        began_s, watched = time.monotonic(), (self.readers, self.master)
        before_s = [processor_s(node) for node in watched]
        found = self.client.ask("tasks", count=TASKS, batch=1, seconds=seconds, size=RECORD_BYTES)
        passed_s = time.monotonic() - began_s
        readers, master = (
            (processor_s(node) - then_s) / passed_s
            for node, then_s in zip(watched, before_s, strict=True)
        )
        return {"k_per_s": float(found["k_per_s"]), "readers": readers, "master": master}


def rest(node: Node) -> None:
    """Wait until it does nothing any more: to close 2,000 connections takes a while."""
    for _ in range(RESTS_MAX):
        before_s = processor_s(node)
        time.sleep(SETTLE_S)
        if processor_s(node) - before_s < RESTS_SHARE * SETTLE_S:
            return


def measure(figures: Figures, name: str, cast: Cast, tails: int, idle: int, seconds: float) -> None:
    """One round of one case: appends alone, tails alone, both, and beside as busy a process."""
    readers = cast.readers
    readers.ask("idle", count=idle)
    rest(readers)
    figures.add(f"{name}, appends alone", **cast.appended(seconds))
    readers.ask("start", count=tails)
    time.sleep(SETTLE_S)
    before, began_s = readers.ask("got"), time.monotonic()
    time.sleep(seconds)
    tails_alone, least_alone = tailed(readers, before, time.monotonic() - began_s)
    before, began_s = readers.ask("got"), time.monotonic()
    beside = cast.appended(seconds)
    both, least = tailed(readers, before, time.monotonic() - began_s)
    readers.ask("stop")
    figures.add(f"{name}, tails alone", MB_per_s=tails_alone, least=least_alone)
    figures.add(name, MB_per_s=both, least=least, **beside)
    time.sleep(SETTLE_S)
    readers.begin("burn", share=beside["readers"], seconds=WARM_UP_S + seconds)
    figures.add(f"{name}, as busy", **cast.appended(seconds))
    readers.answer()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tails", type=list_of(int), default=[20, 200])
    parser.add_argument("--idle", type=int, default=2000, help="connections in the last case")
    parser.add_argument("--nice", type=int, default=0, help="of the readers' process, 0 to 19")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--bytes", type=bytes_of, default=200_000_000, help="of records, before")
    given = parser.parse_args()
    show_versions()
    cases = [(f"{tails} tails", tails, 0) for tails in given.tails]
    if given.idle:
        tails = given.tails[0]
        cases.append((f"{tails} tails, {given.idle} idle", tails, given.idle))
    with workplace(given.folder) as (folder, processes):
        group = {"durability": '"synced"', "copies": 2}
        cluster = cluster_file(folder / "tails", given.host, 1, group)
        with_clients(cluster, given.idle + max(given.tails) + 64)
        master, _ = (Node.start(processes, cluster, name) for name in ("n0", "n1"))
        client = Node.client_of(processes, master)
        readers = Node.launch(
            processes,
            cluster,
            "readers",
            ["bench_tail_client.py", master.store.parents[1], str(given.nice)],
        )
        readers.answer()
        while master.ask("offsets")["written"] < given.bytes:
            client.ask("producer", seconds=PRODUCER_S, size=RECORD_BYTES)
        columns = ("k_per_s", "MB_per_s", "least", "readers", "master")
        figures = Figures("appends beside tails, synced", columns)
        cast = Cast(master, client, readers)
        for _ in range(given.rounds):
            for name, tails, idle in cases:
                settle()
                measure(figures, name, cast, tails, idle, given.seconds)
        show(figures, [name for name, _, _ in cases])


def with_clients(cluster: Path, count: int) -> None:
    """Let so many be connected to a node at once."""
    text = cluster.read_text()
    cluster.write_text(text.replace("[nodes]", f"api_clients = {count}\n[nodes]", 1))


def show(figures: Figures, names: Sequence[str]) -> None:
    ratios = []
    floors = []
    for name in names:
        alone, busy = f"{name}, appends alone", f"{name}, as busy"
        ratios.append((name, alone, "k_per_s", SHARE_WANTED))
        ratios.append((busy, alone, "k_per_s", ""))
        ratios.append((name, busy, "k_per_s", ""))
        ratios.append((name, f"{name}, tails alone", "MB_per_s", TAILS_WANTED))
        floors.append((name, "least", LEAST_WANTED))
    figures.show(ratios, floors)


if __name__ == "__main__":
    main()
