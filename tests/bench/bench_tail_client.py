"""Many tails of a node in a process of their own: `bench_tail_client.py NODE_FOLDER NICE`.

It obeys as `bench_node.py` does: `start` and `stop` so many tails, `got` says the bytes of records
that each has received, `idle` has so many connections open that do nothing, `burn` takes a part of
a core without a word to the node.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
import trio
from bench_kit import GROUP
from bench_node import commands

from actors.api.limits import ApiLimits
from actors.api.socket_file import api_socket_path
from actors.client import Client, connect
from actors.log_types import StoredBatch
from actors.records import decoded
from actors.storage.commitlog.group_commit import AppendEncoder
from wire.api import frames

PER_CONNECTION = ApiLimits().subscriptions
BURN_RECORDS = 200
BURN_RECORD_BYTES = 256
BURN_PAUSE_S = 0.001


@attrs.define
class Tails:
    """See the module's text.

    Attributes:
        nursery: where all connections live.
        got: bytes of records that each tail has received.
    """

    path: str
    nursery: trio.Nursery
    got: list[int] = attrs.field(factory=list)
    _running: list[trio.CancelScope] = attrs.field(factory=list)
    _idle: list[trio.CancelScope] = attrs.field(factory=list)

    async def start(self, count: int) -> None:
        self.got = [0] * count
        for first in range(0, count, PER_CONNECTION):
            numbers = range(first, min(count, first + PER_CONNECTION))
            self._running.append(await self.nursery.start(self._connection, numbers))

    def stop(self) -> None:
        while self._running:
            self._running.pop().cancel()

    async def stay(self, count: int) -> None:
        while len(self._idle) > count:
            self._idle.pop().cancel()
        while len(self._idle) < count:
            self._idle.append(await self.nursery.start(self._connection, ()))

    async def _connection(
        self, numbers: Sequence[int], *, task_status: trio.TaskStatus[trio.CancelScope]
    ) -> None:
        with trio.CancelScope() as scope:
            async with connect(self.path) as client, trio.open_nursery() as nursery:
                end = (await client.wait_offsets(GROUP, None)).acknowledged if numbers else 0
                for number in numbers:
                    nursery.start_soon(self._follow, client, number, end)
                task_status.started(scope)
                await trio.sleep_forever()

    async def _follow(self, client: Client, number: int, end: int) -> None:
        while True:
            async with client.tail(GROUP, 0, credit_bytes=frames.CREDIT_MAX) as batches:
                async for batch in batches:
                    self.got[number] += sum(len(record.body) for record in batch.records)
                    if batch.next >= end:
                        break  # and from the beginning again


def burn(share: float, seconds: float) -> None:
    """Decode records as tails do, for that part of the time."""
    encoder = AppendEncoder(
        default_topic=GROUP,
        host=("127.0.0.1", 1),
        segment_bytes=1 << 30,
        body_bytes_max=1 << 20,
        next_offsets={},
    )
    written = encoder.begin(0)
    encoder.add(written, (b"x" * BURN_RECORD_BYTES,) * BURN_RECORDS, 0)
    batch = StoredBatch(
        start=0,
        data=bytes(written.parts[0]),
        entries=False,
        skips_empty=False,
        next=0,
        acknowledged=0,
        end=0,
        lag_bytes=0,
    )
    began_s, used_s = time.monotonic(), time.process_time()
    while (passed_s := time.monotonic() - began_s) < seconds:
        if time.process_time() - used_s < share * passed_s:
            decoded(batch)
        else:
            time.sleep(BURN_PAUSE_S)


async def obey(tails: Tails, command: dict[str, Any]) -> Any:
    match command["do"]:
        case "start":
            await tails.start(command["count"])
        case "idle":
            await tails.stay(command["count"])
        case "got":
            return tails.got
        case "stop":
            tails.stop()
        case "burn":
            burn(command["share"], command["seconds"])
        case unknown:
            raise ValueError(f"unknown command {unknown!r}")
    return True


async def main(folder: str, nice: str) -> None:
    os.nice(int(nice))
    async with trio.open_nursery() as nursery:
        tails = Tails(api_socket_path(folder), nursery)
        print(json.dumps("ready"), flush=True)
        async for command in commands():
            print(json.dumps(await obey(tails, command)), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
