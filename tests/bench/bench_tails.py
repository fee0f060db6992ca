"""Appends beside tails: what many readers of old records cost who writes, and the other way round.

    python tests/bench/bench_tails.py                       # 0, 20 and 200 tails, a few minutes
    python tests/bench/bench_tails.py --tails 20 --idle 0 --rounds 1

A master and its slave, `synced`, two copies, bodies of 256 B; 128 tasks append over the API from a
process of their own. Tails begin at position 0 with all the credit that the protocol allows, begin
again at the log's end, and live in another process, whose priority `--nice` lowers: they take a
core for decoding, of which a small machine has few. `--idle` connections are open beside them in
the last case. In each round the same pair of master and slave is measured with appends alone, with
tails alone and with both.

- `k_per_s`: appends. `alone`: as they were without tails in the same round.
- `MB_per_s`: bytes of records that all tails got together.
- `least`: what the slowest tail got, as a part of an equal share.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

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

RECORD_BYTES = 256
TASKS = 128
PRODUCER_S = 0.5
SETTLE_S = 1.0
"""After tails have begun, or connections have come and gone, and before the next measurement."""
SHARE_WANTED = "at least 0.8"
TAILS_WANTED = "at least 0.5"
LEAST_WANTED = "at least 0.25"


def appended(client: Node, seconds: float) -> float:
    found = client.ask("tasks", count=TASKS, batch=1, seconds=seconds, size=RECORD_BYTES)
    return float(found["k_per_s"])


def tailed(readers: Node, before: Sequence[int], seconds: float) -> tuple[float, float]:
    """MB/s of all tails since `before`, and the least share of one."""
    got = [now - then for now, then in zip(readers.ask("got"), before, strict=True)]
    return sum(got) / seconds / 1e6, min(got) / max(1.0, sum(got) / len(got))


def measure(
    figures: Figures, name: str, client: Node, readers: Node, tails: int, idle: int, seconds: float
) -> None:
    """One round of one case: appends alone, tails alone, both."""
    readers.ask("idle", count=idle)
    time.sleep(SETTLE_S)
    alone = appended(client, seconds)
    if not tails:
        figures.add(name, k_per_s=alone, alone=alone)
        return
    readers.ask("start", count=tails)
    time.sleep(SETTLE_S)
    before, began_s = readers.ask("got"), time.monotonic()
    time.sleep(seconds)
    tails_alone, least_alone = tailed(readers, before, time.monotonic() - began_s)
    before, began_s = readers.ask("got"), time.monotonic()
    beside = appended(client, seconds)
    both, least = tailed(readers, before, time.monotonic() - began_s)
    readers.ask("stop")
    figures.add(f"{name}, appends alone", k_per_s=alone)
    figures.add(f"{name}, tails alone", MB_per_s=tails_alone, least=least_alone)
    figures.add(name, k_per_s=beside, MB_per_s=both, least=least)


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
        figures = Figures("appends beside tails, synced", ("k_per_s", "MB_per_s", "least"))
        for _ in range(given.rounds):
            for name, tails, idle in cases:
                settle()
                measure(figures, name, client, readers, tails, idle, given.seconds)
        show(figures, [name for name, _, _ in cases])


def with_clients(cluster: Path, count: int) -> None:
    """Let so many be connected to a node at once."""
    text = cluster.read_text()
    cluster.write_text(text.replace("[nodes]", f"api_clients = {count}\n[nodes]", 1))


def show(figures: Figures, names: Sequence[str]) -> None:
    ratios = []
    floors = []
    for name in names:
        ratios.append((name, f"{name}, appends alone", "k_per_s", SHARE_WANTED))
        ratios.append((name, f"{name}, tails alone", "MB_per_s", TAILS_WANTED))
        floors.append((name, "least", LEAST_WANTED))
    figures.show(ratios, floors)


if __name__ == "__main__":
    main()
