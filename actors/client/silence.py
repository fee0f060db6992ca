"""Gives up a node that hangs, although its connection is open, once another one has taken its
place.

A process that is stopped, or a machine that swaps, breaks no connection. Its answers may still
come, so silence alone proves nothing; only what other members say does. A node that takes appends
is given up when another member names a leader in a later term, or a master by a later promotion: so
they are asked soon, and an outage lasts little longer than it takes them to replace that node. A
node that is read from is given up when another member answers, and so it has more time.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

import attrs
import trio

from actors.client.connection import CONNECT_TIMEOUT_S, Client
from actors.client.leading import leader_named_by
from actors.client.race import Failures, Race, open_race
from actors.client.requests import PROBE_INTERVAL_S, SILENT_S

LEADER_SILENT_S: Final = 2 * PROBE_INTERVAL_S
"""After so long a silence of a node that takes appends the others are asked. It was sent a ping
halfway."""
LOOK_FIRST_S: Final = 0.05
LOOK_S: Final = 0.5
"""The bounds of the pause before another member is asked once more. LOOK_S is also how often it is
looked whether the node is still silent."""
LOOK_PART: Final = 0.05
"""The pause before another member is asked once more, as a part of the silence so far."""

ConnectTo: TypeAlias = Callable[[str], AbstractAsyncContextManager[Client]]
"""Connects to the node with this name."""


@attrs.frozen(kw_only=True)
class Silence:
    """Watches one node, and gives it up when it is silent and another one has taken its place.

    Attributes:
        others: the names of the members to ask.
        away: the failures of a member that does not answer.
        epoch: the term or promotion by which the node leads, as far as is known; None: it is only
            read from.
    """

    client: Client
    group: str
    others: tuple[str, ...]
    connect_to: ConnectTo
    away: Failures
    epoch: int | None

    async def watch(self) -> None:
        """Give the node up when it is silent and another one has taken its place; then return."""
        while True:
            await self.client.wait_silent(self._silent_s)
            why = await self._why_not()
            if why and self._is_silent():
                node = self.client.identity.node
                self.client.give_up(f"{node} was silent for {self._silent_s:g} s, and {why}")
                return

    async def _why_not(self) -> str | None:
        """Return, for people, why another node has to be asked instead; None: the node is heard
        again.
        """

        @asynccontextmanager
        async def enter(node: str) -> AsyncIterator[str]:
            async with self.connect_to(node) as other:
                yield await self._superseded(node, other, race)

        why: str | None = None
        async with open_race(self.others, enter, passing=self.away, again_s=LOOK_S) as race:
            with trio.CancelScope() as asking:

                async def end_when_heard() -> None:
                    while self._is_silent():  # noqa: ASYNC110 - bytes that come set no event
                        await trio.sleep(LOOK_S)
                    asking.cancel()

                race.run_beside(end_when_heard)
                why = await race.first(math.inf)
        return why

    async def _superseded(self, node: str, other: Client, race: Race[str]) -> str:
        """Wait until a member says that the silent node was replaced; return that, for people."""
        own = self.client.identity.node
        while self.epoch is not None:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                named = leader_named_by(await other.status(), self.group)
            if named.leader not in ("", own) and named.epoch > self.epoch:
                return f"{named.leader} leads by term or promotion {named.epoch}"
            race.say(node, "knows of no other")
            silent_s = trio.current_time() - self.client.quiet_since_s
            await trio.sleep(min(LOOK_S, max(LOOK_FIRST_S, LOOK_PART * silent_s)))
        return f"{node} answers"

    @property
    def _silent_s(self) -> float:
        return SILENT_S if self.epoch is None else LEADER_SILENT_S

    def _is_silent(self) -> bool:
        return trio.current_time() >= self.client.quiet_since_s + self._silent_s
