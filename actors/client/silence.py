"""Gives up a node that hangs, although its connection is open, once another one has taken its
place.

A process that is stopped, or a machine that swaps, breaks no connection. Its answers may still
come, so silence alone proves nothing; only what other members say does. A node that takes appends
is given up when another member names a leader in a later term, or a master by a later promotion; a
node that is read from, when another member answers.
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
from actors.client.requests import SILENT_S

LOOK_S: Final = 0.5
"""How often each other member is asked while a node is silent, and whether the node is still
silent."""

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
            await self.client.wait_silent(SILENT_S)
            why = await self._why_not()
            if why and self._is_silent():
                node = self.client.identity.node
                self.client.give_up(f"{node} was silent for {SILENT_S:g} s, and {why}")
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
            await trio.sleep(LOOK_S)
        return f"{node} answers"

    def _is_silent(self) -> bool:
        return trio.current_time() >= self.client.quiet_since_s + SILENT_S
