"""Opens several things at the same time, the likeliest a little earlier, and takes the first that
opens.

A process that hangs refuses nothing: its system accepts connections for it, and no answer ever
comes. So it is never waited for one alone.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Generic, TypeAlias, TypeVar

import attrs
import trio

STAGGER_S: Final = 0.25
"""How long each one starts before the next: usually enough for an answer, so that no more than one
connection is made (RFC 8305 proposes the same). After a failure the next one starts at once."""

T = TypeVar("T")

Failures: TypeAlias = tuple[type[Exception], ...]


@attrs.define(eq=False)
class Race(Generic[T]):
    """A race; `open_race` makes and ends it.

    Attributes:
        names: the names that are tried, the likeliest first.
        reasons: why each name has not opened: its failure, or what was last passed to `say`.
        preferred: which of the names not yet tried is tried next; "": the first.
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
        """Return the first that opens. It stays open, and all others are closed.

        Args:
            until_s: the time (Trio's) until which to wait although each has failed or given a
                reason.

        Returns: None: each has failed or given a reason, and that time is over.

        Raises: a failure that is not among `passing`.
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
        """Run a task until the race ends. It may be called once."""
        self._nursery.start_soon(self._run, task)

    async def _run(self, task: Callable[[], Awaitable[None]]) -> None:
        with self._beside:
            await task()

    def end(self) -> None:
        """Close what has opened, and try nothing any more."""
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
                        return  # errors while it is closed concern nobody
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
    """Begin a race, which ends with the `async with` block; what has won stays open as long.

    Args:
        enter: opens the one with this name; it may take its time, and tell `Race.say` why.
        passing: the failures that another name, or the same one later, may not have; others end the
            race.
        again_s: the pause in seconds before one that failed is tried again; None: it is not.
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
