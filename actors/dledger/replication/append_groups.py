"""Groups of appends that a leader gives to its store as one; it refuses those without room.

Upstream: openmessaging/dledger, DLedgerServer.java (handleAppend), 0.3.1.2, one entry at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from actors.dledger.replication import outcomes
from actors.dledger.replication.append_messages import Append
from actors.dledger.replication.append_waits import AppendWait, RPCAnswer, RPCAnswers
from actors.dledger.rpc.rpc_messages import Asked
from actors.errors import NotStored
from actors.log_types import BEHIND_FAILED
from wire.dledger.entry import ENTRY_HEAD_BYTES
from wire.dledger.rpc import AppendEntryRequest

GROUP_BYTES: Final = 1 << 20
"""About how many bytes of appends are given to the store as one group: a follower's sync of the
first group begins while the next one is written.
"""

Taken: TypeAlias = tuple[AppendWait, tuple[bytes, ...]]
"""An append and its bodies."""


@attrs.frozen
class AppendGroup:
    """Appends whose entries are written one after the other.

    Attributes:
        waits: the appends; () for the entry that opens a term.
        bodies: the bodies of all of them.
        size_bytes: the size of their entries.
    """

    waits: tuple[AppendWait, ...]
    bodies: tuple[bytes, ...]
    size_bytes: int = 0

    @property
    def count(self) -> int:
        """The number of appends at the store that the group counts as."""
        return sum([wait.appends for wait in self.waits]) or 1


def in_process(append: Append) -> Taken:
    """Return the append of a caller in this process, and its bodies."""
    count = len(append.bodies)
    wait = AppendWait(append.reply_to, count, append.deadline_s, chain=append.chain)
    return wait, append.bodies


def over_the_wire(asked: Asked, *, term: int, leader: str, deadline_s: float) -> list[Taken]:
    """Return a client's APPEND as an append; [] if it had no body, and was answered."""
    request = asked.request
    assert isinstance(request, AppendEntryRequest)
    answer = RPCAnswer(request, asked.reply_to, term, leader)
    if request.body is None:
        answer.fail(outcomes.no_body())
        return []
    return [(AppendWait(answer, 1, deadline_s), (request.body,))]


def together(answers: RPCAnswers, *, deadline_s: float, body_bytes_max: int) -> list[Taken]:
    """Return APPENDs that came together as few appends: as one, if no body is too large."""
    bodies = [request.body or b"" for request in answers.requests]
    found: list[Taken] = []
    first = 0
    for position in range(len(bodies) + 1):
        if position < len(bodies) and len(bodies[position]) <= body_bytes_max:
            continue
        if position > first:
            count = position - first
            wait = AppendWait(answers.part(first, position), count, deadline_s, appends=count)
            found.append((wait, tuple(bodies[first:position])))
        if position < len(bodies):
            answers.refuse(position, outcomes.too_large(len(bodies[position]), body_bytes_max))
        first = position + 1
    return found


def groups(
    taken: Iterable[Taken], *, room: int, bytes_left: int, body_bytes_max: int
) -> Iterator[AppendGroup]:
    """Yield groups of appends in their order, and refuse each append for which there is no room.

    Args:
        room, bytes_left: how many appends and bytes may still wait. Appends that came together are
            taken as a whole, and the last append may exceed the bytes.
    """
    waits: list[AppendWait] = []
    bodies: list[bytes] = []
    size = 0
    for wait, own in taken:
        largest = max(map(len, own))
        if wait.chain is not None and wait.chain.broken:
            wait.answer_to.fail(NotStored(BEHIND_FAILED))
        elif room <= 0:
            wait.answer_to.fail(outcomes.pending_full("too many appends wait for a quorum"))
        elif bytes_left <= 0:
            wait.answer_to.fail(outcomes.pending_full("too many bytes wait for the store"))
        elif largest > body_bytes_max:
            wait.answer_to.fail(outcomes.too_large(largest, body_bytes_max))
        else:
            room -= wait.appends
            waits.append(wait)
            bodies += own
            added = sum(map(len, own)) + ENTRY_HEAD_BYTES * len(own)
            size += added
            bytes_left -= added
            if size >= GROUP_BYTES:
                yield AppendGroup(tuple(waits), tuple(bodies), size)
                waits, bodies, size = [], [], 0
    if waits:
        yield AppendGroup(tuple(waits), tuple(bodies), size)
