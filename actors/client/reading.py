"""`read` and `tail`: acknowledged records to standard output, as lines or as JSON.

Both go on at their position with another member when the one they read from is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

import trio

from actors.api.failures import RequestRefused
from actors.client.connection import Client
from actors.client.group_backend import GroupBackend
from actors.client.members import LOST, RETRY_S
from actors.client.report import record_json, record_line
from actors.errors import Closed, CorruptLog, TriologError
from actors.group_status import FOLLOWING, OPEN, GroupStatus
from actors.log import READ_BYTES_DEFAULT
from actors.log_types import Batch, Record
from actors.records import decoded
from wire.api import frames

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


def as_bytes(records: Iterable[Record], *, json: bool) -> bytes:
    """The bytes that are printed for these records."""
    return b"".join(map(record_json if json else record_line, records))


async def read(
    backend: GroupBackend,
    group: str,
    write: Write,
    *,
    start: int,
    count: int | None,
    fresh: bool,
    json: bool,
) -> Batch:
    """Print at most `count` acknowledged records from `start` on.

    `count` None: all that were acknowledged at the first answer, however fast the log grows.

    Returns: the last answer of a node, which says where to read on.

    Raises: RequestRefused if no record begins at `start`, or a node that another one was lost for
        does not show in time what that one did; as `GroupBackend.read`.
    """
    position, left = start, count
    showed: dict[str, int] = {}
    first: Batch | None = None
    while True:
        batch = await backend.read(group, position, READ_BYTES_DEFAULT, fresh)
        node = backend.reading.node
        showed[node] = min(batch.acknowledged, batch.end)
        first = first or batch
        if left is None:
            records = [each for each in batch.records if each.position < first.acknowledged]
        else:
            records = list(batch.records[:left])
            left -= len(records)
        await write(as_bytes(records, json=json))
        position = max(position, batch.next) if records else position
        if left == 0 or (left is None and records and position >= first.acknowledged):
            return batch
        most = max(showed.values())
        if not records and (position >= most or batch.acknowledged >= most):
            return batch
        if not records:
            await _wait_for_rest(backend, group, position, most)


async def _wait_for_rest(backend: GroupBackend, group: str, position: int, end: int) -> None:
    """The node that is read from now does not show yet what another one did.

    Raises: RequestRefused: nor does it within the wait for another node.
    """
    with trio.move_on_after(backend.reading.members.wait_s) as waiting:
        await backend.wait_acknowledged(group, position)
    if waiting.cancelled_caught:
        text = (
            f"{backend.reading.node} shows {group} up to {position}, another node did up to {end}"
        )
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)


def knows_nothing(last: Batch) -> bool:
    """Whether the node has a log but has not learned what of it is acknowledged, so shows nothing.

    An empty answer alone would look as if there were no records.
    """
    return last.acknowledged == 0 < last.end


def why_not_open(own: GroupStatus, last: Batch) -> str:
    """Why a node showed nothing, or less than there may be; "" if it did not.

    Who leads shows what it knows to be acknowledged: before it has opened the log that is less than
    there is, or nothing. A follower goes on showing what it heard before it lost its leader.
    """
    if own.state in ("", OPEN, FOLLOWING) or not (own.leads or last.acknowledged == 0):
        return ""
    return f"{own.state}: {own.reason}" if own.reason else own.state


async def tail(
    backend: GroupBackend, group: str, write: Write, *, start: int | None, json: bool
) -> None:
    """Print records as they are acknowledged, until cancelled.

    Raises: Closed when the connection ends and no other node is found; RequestRefused if no record
        begins at `start`.
    """
    position, nodes = start, backend.reading
    while True:
        client = await nodes.client()
        try:
            offsets = await client.wait_offsets(group, None)
            position = offsets.acknowledged if position is None else position
            nodes.members.well()
            async with client.tail(group, position) as batches:
                async for batch in batches:
                    await write(as_bytes(batch.records, json=json))
                    position = batch.next
            raise Closed(f"{client.identity.node} ended the tail")
        except (*LOST, CorruptLog, RequestRefused) as error:
            if isinstance(error, CorruptLog) and position is not None:
                for batch in await _good_before_damage(client, group, position):
                    await write(as_bytes(batch.records, json=json))
                    position = batch.next
            if not nodes.failed(client, error):
                raise
            await trio.sleep(RETRY_S)


async def _good_before_damage(client: Client, group: str, position: int) -> list[Batch]:
    """Read what is good from there on, then the damaged record behind it, which the node refuses:
    so it comes to know of it.
    """
    good: list[Batch] = []
    with suppress(TriologError, OSError):
        for _ in range(2):
            found = await client.read(group, position, READ_BYTES_DEFAULT, fresh=False)
            good.append(decoded(found))
            position = good[-1].next
    return good
