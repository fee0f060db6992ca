"""What reads of old records cost appends on one loop, with and without its rule for bulk work.

    python tests/bench/bench_loop_share.py                   # 20 and 200 readers, a minute
    python tests/bench/bench_loop_share.py --readers 20 --rounds 3

A master without slaves, `synced`, bodies of 256 B; 128 tasks append and others read from position
0 on and again, all in this process, so that nothing but the loop is shared. Figures are per second
of processor time, which what else runs on the machine hardly changes: `k_per_core` appends,
`MB_per_core` read. `without`: `actors.runtime.loop_share` lets reads go on at once.
"""

from __future__ import annotations

import time
from pathlib import Path

import attrs
import trio
from bench_kit import (
    GROUP,
    Figures,
    arguments,
    cluster_file,
    list_of,
    show_versions,
    workplace,
)

from actors import open_node
from actors.collector import collect_less
from actors.node.node import Node
from actors.runtime.loop_share import let_others_work
from actors.storage.commitlog import pull_service

RECORD_BYTES = 256
RECORDS_BEFORE = 200_000
TASKS = 128
READ_BYTES = 256 << 10
BEGINNING_S = 0.3
LOOK_S = 0.05
SHARE_WANTED = "at least 0.7"


async def at_once(_took_s: float) -> None:
    await trio.lowlevel.checkpoint()


RULES = {"with": let_others_work, "without": at_once}


@attrs.define
class Load:
    """Appends and reads of one node, and how much they did."""

    node: Node
    appended_count: int = 0
    read_bytes: int = 0

    async def append(self) -> None:
        log, records = self.node.log(GROUP), (b"x" * RECORD_BYTES,)
        while True:
            await log.append(records)
            self.appended_count += 1

    async def read(self) -> None:
        position = 0
        while True:
            batch = await self.node.read(GROUP, position, READ_BYTES, False)
            self.read_bytes += batch.next - position
            position = 0 if batch.is_empty else batch.next

    async def run(self, readers: int, seconds: float) -> dict[str, float]:
        """For so many seconds of processor time."""
        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(self.append)
            for _ in range(readers):
                nursery.start_soon(self.read)
            await trio.sleep(BEGINNING_S)
            self.appended_count = self.read_bytes = 0
            began_s = time.process_time()
            while (used_s := time.process_time() - began_s) < seconds:  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
            found = self.appended_count / used_s / 1e3, self.read_bytes / used_s / 1e6
            nursery.cancel_scope.cancel()
        return dict(zip(("k_per_core", "MB_per_core"), found, strict=True))


async def measure(figures: Figures, cluster: Path, counts: list[int], rounds: int) -> None:
    async with open_node(cluster, "n0") as node:
        async with node.log(GROUP).appender() as out:
            for _ in range(RECORDS_BEFORE):
                await out.send(b"x" * RECORD_BYTES)
        for _ in range(rounds):
            figures.add("appends alone", **await Load(node).run(0, 1.0))
            for count in counts:
                for name, rule in RULES.items():
                    pull_service.let_others_work = rule
                    found = await Load(node).run(count, 1.0)
                    figures.add(f"{count} readers, {name}", **found)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--readers", type=list_of(int), default=[20, 200])
    given = parser.parse_args()
    show_versions()
    figures = Figures("appends beside reads on one loop", ("k_per_core", "MB_per_core"))
    with workplace(given.folder) as (folder, _):
        group = {"durability": '"synced"', "copies": 1}
        cluster = cluster_file(folder / "share", given.host, 0, group)
        trio.run(measure, figures, cluster, given.readers, given.rounds)
    rows = [f"{count} readers, {name}" for count in given.readers for name in RULES]
    wanted = [SHARE_WANTED if row.endswith("with") else "" for row in rows]
    figures.show(
        [(row, "appends alone", "k_per_core", want) for row, want in zip(rows, wanted, strict=True)]
    )


if __name__ == "__main__":
    collect_less()
    main()
