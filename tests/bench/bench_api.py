"""The API socket and the event log, without a store behind: what they cost by themselves.

Run: python tests/bench/bench_api.py
Prints medians of five rounds. Client and server share one process and one Unix socket, so both
ends' work is counted. Appends are answered at once by a node in memory.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))

import trio
from api_kit import MemoryNode
from test_api_real import serving

from actors.client import connect
from actors.events.ha import SlaveAcked
from actors.events.node import NodeStarted
from actors.events.sink import EventSink
from actors.log import AppendOutcome
from actors.log_types import Chain, NewRecord, Receipt
from actors.storage.node.event_files import compress

ROUNDS = 5
SHAPES = ((256, 1, 3000), (256, 64, 1000), (256, 1024, 100), (65_536, 1, 500), (1 << 20, 1, 50))
EVENTS = 50_000
BLOCK = 500


class Quick(MemoryNode):
    """Answers every append at once and keeps nothing."""

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        count = len(records)
        on_done(Receipt(first=0, last=0, next=1, count=count, copies=1, durability="written"))


def appends(size: int, batch: int, frames: int) -> float:
    """Seconds for `frames` pipelined appends of `batch` records."""

    async def main() -> float:
        with tempfile.TemporaryDirectory() as folder:
            async with serving(Quick(), Path(folder)) as (_, path), connect(path) as client:
                records = (bytes(size),) * batch
                left = frames
                done = trio.Event()

                def on_done(outcome: AppendOutcome) -> None:
                    nonlocal left
                    assert isinstance(outcome, Receipt)
                    left -= 1
                    if not left:
                        done.set()

                began = time.perf_counter()
                for _ in range(frames):
                    await client.submit("orders", records, on_done)
                await done.wait()
                return time.perf_counter() - began

    return trio.run(main)


def events() -> float:
    """Seconds to emit and to compress EVENTS events."""
    started = NodeStarted(cluster="bench", version="0", groups=())
    sink = EventSink("n0", 1, lambda: 1_700_000_000_000_000, started, pending_max=EVENTS + 1)
    event = SlaveAcked(slave="n1", connection=4, offset_bytes=123_456_789)
    began = time.perf_counter()
    for _ in range(EVENTS):
        sink("/n0/orders/group_transfer", 1, event)
    while sink.pending:
        lines = sink.peek(BLOCK)
        compress(lines)
        sink.written(len(lines))
    return time.perf_counter() - began


def main() -> None:
    print(f"{'append':24}{'frames/s':>12}{'records/s':>12}{'MB/s':>8}")
    for size, batch, frames in SHAPES:
        seconds = statistics.median(appends(size, batch, frames) for _ in range(ROUNDS))
        rate = frames / seconds
        name = f"{size} B x {batch}"
        print(f"{name:24}{rate:12.0f}{rate * batch:12.0f}{rate * batch * size / 1e6:8.0f}")
    seconds = statistics.median(events() for _ in range(ROUNDS))
    print(f"an event, emitted and compressed: {seconds / EVENTS * 1e6:.2f} us")


if __name__ == "__main__":
    main()
