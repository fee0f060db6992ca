"""The first of several that opens: tried side by side, the likeliest a little before the next.

A process that hangs does not refuse: its system takes connections for it, and no answer ever comes.
So nobody is waited for alone.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Generic, TypeAlias, TypeVar

import attrs
import trio

STAGGER_S: Final = 0.25
"""The start that each has before the next: usually enough for an answer, so that no more than one
connection is made (RFC 8305 proposes the same). One that fails hands on at once.
"""

T = TypeVar("T")

Failures: TypeAlias = tuple[type[Exception], ...]


@attrs.define(eq=False)
class Race(Generic[T]):
    """Made by `open_race`, which ends it.

    Attributes:
        names: who is tried, the likeliest first.
        reasons: why each that has not opened has not: its failure, or what it passed to `say` last.
        preferred: of those not tried yet, who is next.
    """

    names: tuple[str, ...]
    _enter: Callable[[str], AbstractAsyncContextManager[T]]
    _passing: Failures
    _again_s: float | None
    _nursery: trio.Nursery
    reasons: dict[str, Exception | str] = attrs.field(factory=dict)
    preferred: str = ""
    _begun: bool = False
    _first: T | None = None
    _failure: Exception | None = None
    _scopes: dict[str, trio.CancelScope] = attrs.field(factory=dict)
    _news: trio.Event = attrs.field(factory=trio.Event)
    _over: trio.Event = attrs.field(factory=trio.Event)
    _beside: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def first(self, until_s: float = -math.inf) -> T | None:
        """The first that opens; it stays open, and all others are closed.

        Args:
            until_s: how long those are heard again that said something else.

        Returns: None: each has said something else, and that time is over.

        Raises: a failure that does not pass.
        """
        if not self._begun:
            self._begun = True
            self._nursery.start_soon(self._begin)
        while self._first is None:
            if self._failure is not None:
                raise self._failure
            none_opened = len(self.reasons) == len(self.names)
            if none_opened and trio.current_time() >= until_s:
                return None
            with trio.move_on_at(until_s if none_opened else math.inf):
                await self._news.wait()
        return self._first

    def say(self, name: str, reason: Exception | str, *, preferred: str = "") -> None:
        """Note why this name does not open, or not yet, and which name to try before others."""
        self.reasons[name] = reason
        self.preferred = preferred or self.preferred
        self._wake()

    def run_beside(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run it until this ends. Call it once."""
        self._nursery.start_soon(self._run, task)

    async def _run(self, task: Callable[[], Awaitable[None]]) -> None:
        with self._beside:
            await task()

    def end(self) -> None:
        """Leave whoever has opened, and try nobody any more."""
        self._over.set()
        self._beside.cancel()
        if self._first is None:
            self._nursery.cancel_scope.cancel()

    async def _begin(self) -> None:
        left = list(self.names)
        while left and self._first is None:
            left.sort(key=lambda name: name != self.preferred)
            name = left.pop(0)
            self._nursery.start_soon(self._try, name)
            with trio.move_on_after(STAGGER_S):
                while name not in self.reasons and self._first is None:
                    await self._news.wait()

    async def _try(self, name: str) -> None:
        self._scopes[name] = trio.CancelScope()
        with self._scopes[name]:
            while self._first is None and not self._over.is_set():
                try:
                    async with self._enter(name) as opened:
                        if self._first is None:
                            self._won(name, opened)
                            await self._over.wait()
                        return
                except Exception as error:
                    if self._first is not None and isinstance(error, self._passing):
                        return  # what fails while it is closed is nobody's
                    if self._first is not None:
                        raise
                    self._failed(name, error)
                if self._again_s is None:
                    return
                await trio.sleep(self._again_s)

    def _won(self, name: str, opened: T) -> None:
        self._first = opened
        for other, scope in self._scopes.items():
            if other != name:
                scope.cancel()
        self._wake()

    def _failed(self, name: str, error: Exception) -> None:
        if isinstance(error, self._passing):
            self.say(name, error)
        else:
            self._failure = self._failure or error
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, trio.Event()
        news.set()


@asynccontextmanager
async def open_race(
    names: tuple[str, ...],
    enter: Callable[[str], AbstractAsyncContextManager[T]],
    *,
    passing: Failures,
    again_s: float | None = None,
) -> AsyncIterator[Race[T]]:
    """A race, for the length of an `async with` block; who has won it stays open as long.

    Args:
        enter: opens the one of that name; it may take its time, and `say` why.
        passing: its failures that another one, or the same one later, may not have.
        again_s: when one that has failed is tried again; None: never.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        race = Race(names, enter, passing, again_s, nursery)
        try:
            yield race
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
            failure = error
        finally:
            race.end()
    if failure is not None:
        raise failure
