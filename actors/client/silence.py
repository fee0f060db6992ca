"""A node that hangs, though its connection stands, is given up once another one takes its place.

A process that is stopped, or a machine that swaps, breaks no connection. What it owes may come
yet, so silence alone proves nothing: only what other members say does. Who takes appends is left
when one of them names another leader in a later term, or master by a later promotion; who is read
from, when another one answers.
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
"""How often each other member is asked while one is silent, and whether that one still is."""

ConnectTo: TypeAlias = Callable[[str], AbstractAsyncContextManager[Client]]
"""Connects to the node of that name."""


@attrs.frozen(kw_only=True)
class Silence:
    """Watches the silence of one node, and gives it up when another one takes its place.

    Attributes:
        others: members to ask.
        away: how one of them does not answer.
        epoch: by which term or promotion the node leads, as far as is known; None: it is only read
            from.
    """

    client: Client
    group: str
    others: tuple[str, ...]
    connect_to: ConnectTo
    away: Failures
    epoch: int | None

    async def watch(self) -> None:
        """Give the node up when it is silent and another one takes its place; then return."""
        while True:
            await self.client.wait_silent(SILENT_S)
            why = await self._why_not()
            if why and self._is_silent():
                node = self.client.identity.node
                self.client.give_up(f"{node} was silent for {SILENT_S:g} s, and {why}")
                return

    async def _why_not(self) -> str | None:
        """Why another one is to be asked instead. Returns: None: the node is heard again."""

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
        """Returns, once it is so: that the silent node's place is taken."""
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
