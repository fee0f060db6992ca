"""Asks the members of a group at the same time, so that one that hangs does not delay the
others.
"""

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
"""The pause before a member that did not open is tried or asked again."""

HANGS: Final = (TimeoutError, trio.TooSlowError)
"""Failures that end one try. Their text has the time of that one try, and the member is tried
again."""

T = TypeVar("T")


class NoAnswer(TriologError):
    """No member has answered in time, though some may be running. Nothing was asked of them."""


@asynccontextmanager
async def first_of(
    config: ClusterConfig, group: str, race: AbstractAsyncContextManager[Race[T]]
) -> AsyncIterator[T]:
    """Open the first member that answers, within `answer_timeout_s`.

    Raises (on entry): ConfigError: no member is running, which is known at once. NoAnswer: none has
        answered in time, or one is starting; the text has what is known of each.
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
    """Make the error for nodes of which none can be reached. That a node is starting is no user's
    mistake.

    Args:
        expected: what was expected and found, for the message about a user's mistake.
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
    """Begin a race of members; those that are lost, or slow, are tried again."""
    return open_race(names, enter, passing=LOST, again_s=AGAIN_S)


async def first_within(race: Race[T], timeout_s: float) -> T | None:
    """Return the first that opens; None: none has in time, or none can be reached at all."""
    found: T | None = None
    with trio.move_on_after(timeout_s):
        found = await race.first()
        if found is None and not all(map(_is_not_there, race.reasons.values())):
            found = await race.first(math.inf)
    return found


def _is_not_there(word: Exception | str) -> bool:
    """Whether a member gave no answer, and not because it is slow, hangs, or has no slot."""
    return isinstance(word, Exception) and not isinstance(word, (*HANGS, NoSlot))
