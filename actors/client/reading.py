"""`read` and `tail`: acknowledged records to standard output, as lines or as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from actors.client.connection import Client
from actors.client.report import record_json, record_line
from actors.errors import Closed
from actors.log import READ_BYTES_DEFAULT
from actors.log_types import Batch, Record

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


def as_bytes(records: Iterable[Record], *, json: bool) -> bytes:
    """What is printed of them."""
    return b"".join(map(record_json if json else record_line, records))


async def read(
    client: Client,
    group: str,
    write: Write,
    *,
    start: int,
    count: int | None,
    fresh: bool,
    json: bool,
) -> Batch:
    """Print at most `count` acknowledged records from `start` on (None: all there are now).

    Returns: the last answer of the node, which says where to read on.

    Raises: RequestRefused if no record begins at `start`.
    """
    position, left = start, count
    while True:
        batch = await client.read(group, position, READ_BYTES_DEFAULT, fresh)
        records = batch.records if left is None else batch.records[:left]
        await write(as_bytes(records, json=json))
        if left is not None:
            left -= len(records)
        if not batch.records or left == 0:
            return batch
        position = batch.next


def knows_nothing(last: Batch) -> bool:
    """Whether the node has a log but was never told what of it is acknowledged, so shows nothing.

    An empty answer alone would look as if there were no records.
    """
    return last.acknowledged == 0 < last.end


async def tail(client: Client, group: str, write: Write, *, start: int | None, json: bool) -> None:
    """Print records as they are acknowledged, until cancelled.

    Raises: Closed when the connection ends; RequestRefused if no record begins at `start`.
    """
    async with client.tail(group, start) as batches:
        async for batch in batches:
            await write(as_bytes(batch.records, json=json))
    raise Closed(f"{client.identity.node} ended the tail")
