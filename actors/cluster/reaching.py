"""Members of a group, asked side by side: one that hangs is not waited for while others answer."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

import trio

from actors.client.race import Race, open_race
from actors.client.slot_retries import NoSlot
from actors.cluster.in_use import data_holder
from actors.cluster.links import LOST
from actors.cluster.starts import starts_how
from actors.config import ClusterConfig
from actors.env.protocols import process_text
from actors.errors import ConfigError, TriologError

AGAIN_S: Final = 0.25
"""When one that did not open is tried again, or asked again."""

HANGS: Final = (TimeoutError, trio.TooSlowError)
"""One try's end. The words of it name the time that one try took, and it is tried again."""

T = TypeVar("T")


class NoAnswer(TriologError):
    """Members may run, and none has answered in time. Nothing was asked of them."""


@asynccontextmanager
async def first_of(
    config: ClusterConfig, group: str, race: AbstractAsyncContextManager[Race[T]]
) -> AsyncIterator[T]:
    """The first member that opens, within `answer_timeout_s`.

    Raises (on entry): ConfigError: none runs, which is known at once. NoAnswer: none has answered
        in time, with what each said or did instead; or one is starting.
    """
    async with race as members:
        found = await first_within(members, config.answer_timeout_s)
        if found is None:
            silent = f"does not answer within {config.answer_timeout_s:g} s"
            reasons = {name: members.reasons.get(name, TimeoutError()) for name in members.names}
            if all(map(_is_not_there, reasons.values())):
                expected = f"expected a running member of {group}, found none"
                raise not_there(config, members.names, expected)
            said = [
                f"{name} {silent}" if isinstance(reason, HANGS) else str(reason)
                for name, reason in reasons.items()
            ]
            raise NoAnswer(f"{group}: {'; '.join(said)}; nothing was done")
        yield found


def not_there(config: ClusterConfig, nodes: tuple[str, ...], expected: str) -> TriologError:
    """What to raise where none of these nodes can be reached: a start that goes on is no mistake.

    Args:
        expected: what was expected and found, for a mistake of the user's.
    """
    begin = {node: pid for node in nodes if (pid := data_holder(config, node)) is not None}
    said = [
        f"{node}: {starts_how(config, node, pid) or 'no answer'} ({process_text(pid)})"
        for node, pid in begin.items()
    ]
    if not said:
        return ConfigError(f"{config.path}: {expected}")
    return NoAnswer(f"{'; '.join(said)}; nothing was done: `status` says when it runs")


def open_members(
    names: tuple[str, ...], enter: Callable[[str], AbstractAsyncContextManager[T]]
) -> AbstractAsyncContextManager[Race[T]]:
    """A race of them; those that are lost, or slow, are tried again."""
    return open_race(names, enter, passing=LOST, again_s=AGAIN_S)


async def first_within(race: Race[T], timeout_s: float) -> T | None:
    """The first that opens; None: none has in time, or none is there."""
    found: T | None = None
    with trio.move_on_after(timeout_s):
        found = await race.first()
        if found is None and not all(map(_is_not_there, race.reasons.values())):
            found = await race.first(math.inf)
    return found


def _is_not_there(word: Exception | str) -> bool:
    """It said nothing, and not because it is slow, hangs, or has no slot."""
    return isinstance(word, Exception) and not isinstance(word, (*HANGS, NoSlot))
