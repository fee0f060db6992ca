"""The command `bench`: measures appends per second and their latencies, with a given number
unanswered.

It is a closed loop: a new append is sent when one is answered. The node bounds how many one
connection may have unanswered, so a larger window takes several connections. When the node is lost,
the loop goes on with the next leader: the outage is part of the measurement, and failed appends are
counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TypeAlias

import attrs
import trio

from actors.client.connection import Client
from actors.client.members import MemberFinder
from actors.errors import OutcomeUnknown, TriologError
from actors.log_types import Receipt

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]

LATENCIES_MAX = 2_000_000
"""How many latencies are kept (16 MB); after more answers the percentiles are those of the first
ones."""
LAST_ANSWERS_S = 10.0
"""How long to wait for the answers that are open at the end, which do not count."""


@attrs.frozen(kw_only=True)
class Figures:
    """The result of one measurement.

    Attributes:
        connections: how many connections the window took.
        seconds: how long the measurement took.
        appends: how many appends were answered with a receipt.
        not_stored, outcome_unknown: how many appends failed, by their outcome.
        first_error: class and text of the first of these errors; None: there was none.
        ended_early: whether a failure ended the measurement before its time.
    """

    window: int
    connections: int
    size_bytes: int
    batch_count: int
    seconds: float
    appends: int
    appends_per_s: float
    records_per_s: float
    mb_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    not_stored: int
    outcome_unknown: int
    first_error: str | None
    ended_early: bool = False


@attrs.define
class _Loop:
    """The loop of one window, over all its connections."""

    group: str
    records: tuple[bytes, ...]
    open_count: int = 0
    latencies_s: list[float] = attrs.field(factory=list)
    appends: int = 0
    not_stored: int = 0
    outcome_unknown: int = 0
    failure: Exception | None = None
    first_error: Exception | None = None
    counting: bool = True
    ended_s: float = 0.0
    answered: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, clients: list[Client], window: int, until_s: float) -> None:
        """Append until an append fails or the time is over. Appends that are open then do not
        count.
        """
        self.failure = None
        with trio.move_on_at(until_s):
            while self.failure is None:
                await self._fill(clients, window)
                self.answered = trio.Event()
                await self.answered.wait()
        self.ended_s = trio.current_time()
        self.counting = self.failure is not None
        with trio.move_on_after(LAST_ANSWERS_S):
            while self.open_count:
                self.answered = trio.Event()
                await self.answered.wait()

    async def _fill(self, clients: list[Client], window: int) -> None:
        """Send appends until the window is full; the connections take turns, so none exceeds its
        share.
        """
        while self.open_count < window and self.failure is None:
            client = min(clients, key=lambda one: one.unanswered_count)
            try:
                done = partial(self._on_done, trio.current_time())
                await client.submit(self.group, self.records, done)
            except TriologError as error:
                self._failed(error)
            else:
                # `done` runs in another task, so it cannot have come before this
                self.open_count += 1

    def _on_done(self, begun_s: float, outcome: Receipt | Exception) -> None:
        self.open_count -= 1
        self.answered.set()
        if not self.counting:
            return
        if isinstance(outcome, Receipt):
            self.appends += 1
            if len(self.latencies_s) < LATENCIES_MAX:
                self.latencies_s.append(trio.current_time() - begun_s)
        else:
            self._failed(outcome)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, OutcomeUnknown):
            self.outcome_unknown += 1
        else:
            self.not_stored += 1
        self.failure = self.failure or error
        self.first_error = self.first_error or error
        self.answered.set()


async def measure(
    connect: Connect,
    group: str,
    *,
    window: int,
    size_bytes: int,
    batch_count: int,
    seconds: float,
    members: MemberFinder | None = None,
) -> Figures:
    """Make one measurement. It ends early with the first failure after which it cannot go on.

    Args:
        connect: makes another connection to the same node, or to the present leader.
        window: how many appends are unanswered at a time.
        members: decides after which failures the measurement goes on; None: after none.

    Raises: OSError, TriologError: it cannot connect in the beginning.
    """
    loop = _Loop(group, (b"x" * size_bytes,) * batch_count)
    connections, begun_s, goes_on = 0, math.nan, True
    while goes_on:
        before = loop.appends
        async with AsyncExitStack() as stack:
            try:
                clients = await _connected(stack, connect, window)
            except (OSError, TriologError):
                if loop.failure is None:
                    raise
                loop.ended_s = trio.current_time()
                break
            begun_s = trio.current_time() if math.isnan(begun_s) else begun_s
            connections = max(connections, len(clients))
            await loop.run(clients, window, begun_s + seconds)
        goes_on = False
        if members is not None and loop.failure is not None:
            if loop.appends > before:
                members.well()
            goes_on = members.heed(clients[0].identity.node, loop.failure)
            await members.pause()
    took_s = loop.ended_s - begun_s
    records = loop.appends * batch_count
    error = loop.first_error
    return Figures(
        window=window,
        connections=connections,
        size_bytes=size_bytes,
        batch_count=batch_count,
        seconds=round(took_s, 3),
        appends=loop.appends,
        appends_per_s=round(loop.appends / took_s, 1),
        records_per_s=round(records / took_s, 1),
        mb_per_s=round(records * size_bytes / took_s / 1e6, 3),
        p50_ms=_percentile_ms(loop.latencies_s, 0.50),
        p99_ms=_percentile_ms(loop.latencies_s, 0.99),
        max_ms=_percentile_ms(loop.latencies_s, 1.0),
        not_stored=loop.not_stored,
        outcome_unknown=loop.outcome_unknown,
        first_error=None if error is None else f"{type(error).__name__}: {error}",
        ended_early=loop.failure is not None,
    )


async def _connected(stack: AsyncExitStack, connect: Connect, window: int) -> list[Client]:
    """Make as many connections as the window takes."""
    clients = [await stack.enter_async_context(connect())]
    while len(clients) * clients[0].in_flight_requests_max < window:
        clients.append(await stack.enter_async_context(connect()))
    return clients


def _percentile_ms(latencies_s: list[float], share: float) -> float | None:
    """Return the smallest latency that is not below `share` of all, in ms; None: there are none."""
    if not latencies_s:
        return None
    rank = max(1, math.ceil(share * len(latencies_s)))
    return round(1000 * sorted(latencies_s)[rank - 1], 3)
