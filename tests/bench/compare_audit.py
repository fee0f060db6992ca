"""What became of a run's records: the logs of all members, read back, beside what clients heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Final, Protocol

import attrs
import trio
from compare_load import Acked, number_of

from actors.errors import TriologError
from actors.log import Log
from actors.log_types import Offsets

EVEN_S: Final = 120.0
"""A healed group is the same everywhere by then."""
LOOK_S: Final = 0.05
READ_BYTES: Final = 1 << 20
ReadLog = Sequence[tuple[int, int]]
"""Position and number of each record of one member's log, in its order."""


class NotEven(Exception):
    """The members still differ though they had time. The text says how far each is."""


class Logs(Protocol):
    """Whose logs."""

    @property
    def names(self) -> Sequence[str]: ...
    def log(self, name: str) -> Log: ...


@attrs.frozen(kw_only=True)
class Audit:
    """Counts of records; all but the first two are 0 in a good run.

    Attributes:
        acknowledged: by their clients.
        unknown: of unknown outcome; they may be in the logs or not.
        lost: acknowledged, and not at their place in the log of every member.
        reordered: acknowledged, and before one that had been acknowledged when they were asked for.
        strange: in a log though no client made them, or twice, or though they were not stored.
    """

    acknowledged: int
    unknown: int
    lost: int
    reordered: int
    strange: int

    @property
    def good(self) -> bool:
        return self.lost == self.reordered == self.strange == 0


def audit(acked: Sequence[Acked], unknown: Collection[int], logs: Mapping[str, ReadLog]) -> Audit:
    """Compare what was heard with what was read of each member."""
    lost: set[int] = set()
    strange = 0
    allowed = {each.number for each in acked} | set(unknown)
    for log in logs.values():
        at = dict(log)
        lost |= {each.number for each in acked if at.get(each.position) != each.number}
        times = Counter(number for _, number in log)
        strange += sum(
            times[number] if number not in allowed else times[number] - 1 for number in times
        )
    return Audit(
        acknowledged=len(acked),
        unknown=len(unknown),
        lost=len(lost),
        reordered=_reordered(acked),
        strange=strange,
    )


def _reordered(acked: Sequence[Acked]) -> int:
    """Whoever is asked for after another's answer stands behind it."""
    ended = sorted(acked, key=attrgetter("ended_s"))
    found, highest, next_ended = 0, -1, 0
    for each in sorted(acked, key=attrgetter("asked_s")):
        while next_ended < len(ended) and ended[next_ended].ended_s < each.asked_s:
            highest = max(highest, ended[next_ended].position)
            next_ended += 1
        found += each.position <= highest
    return found


async def read_back(members: Logs) -> dict[str, ReadLog]:
    """All of every member's log, once all hold and show the same.

    Raises: NotEven.
    """
    await _wait_even(members)
    return {name: await _read(members.log(name)) for name in members.names}


async def _read(log: Log) -> ReadLog:
    found: list[tuple[int, int]] = []
    async with log.reader(0, batch_bytes=READ_BYTES) as batches:
        async for batch in batches:
            found += [(record.position, number_of(record.body)) for record in batch.records]
    return found


async def _wait_even(members: Logs) -> None:
    found: dict[str, Offsets] = {}
    with trio.move_on_after(EVEN_S):
        while True:
            try:
                found = {name: await members.log(name).offsets() for name in members.names}
            except TriologError:
                found = {}
            ends = {(each.written, each.acknowledged) for each in found.values()}
            if len(found) == len(members.names) and len(ends) == 1:
                written, acknowledged = ends.pop()
                if written == acknowledged > 0:
                    return
            await trio.sleep(LOOK_S)
    raise NotEven(f"after {EVEN_S:g} s: {found}")
