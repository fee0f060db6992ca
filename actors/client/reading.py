"""The commands `read` and `tail`: print acknowledged records, as lines or as JSON.

If the member from which they read is lost, both go on at their position with another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

import trio

from actors.api.failures import RequestRefused
from actors.client.connection import Client
from actors.client.group_backend import GroupBackend
from actors.client.members import LOST
from actors.client.report import record_json, record_line
from actors.config.kind import Terms
from actors.errors import Closed, CorruptLog, TriologError
from actors.group_status import FOLLOWING, OPEN, GroupStatus
from actors.log import READ_BYTES_DEFAULT
from actors.log_types import Batch, Record
from actors.records import decoded
from wire.api import frames

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


def as_bytes(records: Iterable[Record], *, json: bool) -> bytes:
    """Return the bytes that are printed for these records."""
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

    Args:
        count: None: all records that were acknowledged at the first answer, however fast the log
            grows.

    Returns: the last answer of a node, which has the position to go on from.

    Raises: as `GroupBackend.read`; RequestRefused if no record begins at `start`, or if the node
        after a loss does not show in time what the lost one had shown.
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
    """Wait until the present node shows more than up to `position`, as another node did.

    Raises: RequestRefused: it does not within `MemberFinder.wait_s`.
    """
    with trio.move_on_after(backend.reading.members.wait_s) as waiting:
        await backend.wait_acknowledged(group, position)
    if waiting.cancelled_caught:
        text = (
            f"{backend.reading.node} shows {group} up to {position}, another node did up to {end}"
        )
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)


def knows_nothing(last: Batch) -> bool:
    """Whether the node has records but does not know yet which are acknowledged, so it shows none.

    Without this test an empty answer would look as if there were no records.
    """
    return last.acknowledged == 0 < last.end


def why_nothing(group: str, terms: Terms, start: int, shown: int) -> str:
    """Say why a read from `start` on gave no record; "" if it is from the end, where more may come.

    A log of entries has some that are no records: those that open terms.

    Args:
        shown: up to where the node shows its log.
    """
    if start >= shown:
        return "" if shown else f"{group} has no records yet"
    records = f"records from {terms.at(start)} on" if start else "records yet"
    return f"{group} has no {records}: up to {terms.up_to(shown)} it has only what opens terms"


def why_not_open(own: GroupStatus, last: Batch) -> str:
    """Say why a node showed nothing, or perhaps not everything; "" if it showed all it knows.

    A leader shows what it knows to be acknowledged: before it has opened the log that is less than
    there is, or nothing. A follower without a leader still shows what it knew before.
    """
    if own.state in ("", OPEN, FOLLOWING) or not (own.leads or last.acknowledged == 0):
        return ""
    return f"{own.state}: {own.reason}" if own.reason else own.state


async def tail(
    backend: GroupBackend, group: str, write: Write, *, start: int | None, json: bool
) -> None:
    """Print records as they are acknowledged, until cancelled.

    Raises: Closed: the connection has ended, and no other node is found; RequestRefused: no record
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
            await nodes.members.pause()


async def _good_before_damage(client: Client, group: str, position: int) -> list[Batch]:
    """Read the good records from `position` on, and then the damaged one behind them.

    The node refuses the damaged record, and so learns of the damage.
    """
    good: list[Batch] = []
    with suppress(TriologError, OSError):
        for _ in range(2):
            found = await client.read(group, position, READ_BYTES_DEFAULT, fresh=False)
            good.append(decoded(found))
            position = good[-1].next
    return good
