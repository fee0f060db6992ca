"""The load of the append measurements: tasks that each wait for their answer, one producer, or
batches to many topics.
"""

from __future__ import annotations

import os
from typing import Any

import trio
from bench_kit import percentiles_ms

from actors.log import IN_FLIGHT_BYTES_DEFAULT, RECORD_COST_BYTES, Log
from actors.log_types import Message

WARM_UP_S = 0.5
SAMPLE_EVERY = 500
"""Of a producer's records, whose time from `send` to its acknowledgement is measured."""


async def load_tasks(
    *logs: Log, count: int, batch: int, seconds: float, size: int
) -> dict[str, Any]:
    """`count` tasks that each append `batch` records and wait for the answer, again and again.

    Args:
        logs: the same log over one or more connections; the tasks are spread over them.
    """
    records = (b"x" * size,) * batch
    latencies_s: list[float] = []
    from_s = trio.current_time() + WARM_UP_S
    until_s = from_s + seconds

    async def append(log: Log) -> None:
        while (began_s := trio.current_time()) < until_s:
            await log.append(records)
            ended_s = trio.current_time()
            if from_s <= ended_s < until_s:
                latencies_s.append(ended_s - began_s)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(append, logs[number % len(logs)])
    return {"k_per_s": len(latencies_s) * batch / seconds / 1e3, **percentiles_ms(latencies_s)}


async def load_producer(
    log: Log, seconds: float, size: int, outstanding: int | None = None
) -> dict[str, Any]:
    """One task that sends single records through an appender, as fast as it has room.

    `cpu_us` is what the process spends of a processor for one of them, `kernel_us` what of that
    is the kernel's.

    Args:
        outstanding: records that the appender has room for; None: its default.
    """
    room = IN_FLIGHT_BYTES_DEFAULT
    if outstanding is not None:
        room = outstanding * (size + RECORD_COST_BYTES)
    record = b"x" * size
    latencies_s: list[float] = []
    sent = 0
    sampled: list[tuple[int, float]] = []  # a record's number, and when it was sent
    async with log.appender(in_flight_bytes=room) as out:
        on_answer = out._stir

        def stirred() -> None:
            """Called with every answer, among others."""
            now_s = trio.current_time()
            while sampled and sampled[0][0] <= out.acknowledged_count:
                latencies_s.append(now_s - sampled.pop(0)[1])
            on_answer()

        out._stir = stirred  # type: ignore[method-assign]
        from_s = trio.current_time() + WARM_UP_S
        while trio.current_time() < from_s:
            for _ in range(SAMPLE_EVERY):
                await out.send(record)
                sent += 1
        latencies_s.clear()
        acknowledged, from_s = out.acknowledged_count, trio.current_time()
        before = os.times()
        while trio.current_time() < from_s + seconds:
            for _ in range(SAMPLE_EVERY):
                await out.send(record)
                sent += 1
            sampled.append((sent, trio.current_time()))
        took_s = trio.current_time() - from_s
        after, count = os.times(), out.acknowledged_count - acknowledged
    kernel_s = after.system - before.system
    used_s = after.user - before.user + kernel_s
    spent = {
        name: s / max(count, 1) * 1e6 for name, s in (("cpu_us", used_s), ("kernel_us", kernel_s))
    }
    return {"k_per_s": count / took_s / 1e3, **spent, **percentiles_ms(latencies_s)}


async def load_topics(log: Log, count: int, batch: int, size: int) -> dict[str, float]:
    """One record for each of `count` topics, in batches that follow each other's answer.

    Gives the rate in topics per second, and where the log ends.
    """
    body, end = b"x" * size, 0
    began_s = trio.current_time()
    for first in range(0, count, batch):
        topics = range(first, min(first + batch, count))
        receipt = await log.append(
            [Message(topic=f"topic-{n:06d}", body=body, keys=(f"{n}",)) for n in topics]
        )
        end = receipt.next
    return {"per_s": count / (trio.current_time() - began_s), "end": end}
