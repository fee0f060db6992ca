"""The clients of a comparison, the same for every kind of group, simulated or real.

So many tasks, each with one append of one record under way. A record says its number, and is given
once: what was not stored is asked for again, what has an unknown outcome is counted and left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs
import trio

from actors.errors import NotMaster, NotStored, OutcomeUnknown
from actors.log import Log

BODY_BYTES: Final = 256
NUMBER_DIGITS: Final = 16
ANSWER_S: Final = 0.5
"""Who has not answered by then is not waited for: the outcome is unknown, and another is asked."""
AGAIN_S: Final = 0.01
"""Pause after nobody took an append."""
LOOK_S: Final = 0.005
STRANGE: Final = -1
"""The number of a record that no client made."""


def body_of(number: int) -> bytes:
    """The record of that number, BODY_BYTES long."""
    return f"{number:0{NUMBER_DIGITS}d}".encode().ljust(BODY_BYTES, b".")


def number_of(body: bytes) -> int:
    """Which record it is; STRANGE: none of ours, or not all of it."""
    digits = body[:NUMBER_DIGITS]
    if not digits.isdigit() or body != body_of(int(digits)):
        return STRANGE
    return int(digits)


@attrs.frozen
class Acked:
    """An acknowledged append.

    Attributes:
        number: of its record.
        first_s: when its client began with it.
        asked_s: when that node was asked which acknowledged it.
        ended_s: when that was heard.
        position: where its record stands.
    """

    number: int
    first_s: float
    asked_s: float
    ended_s: float
    position: int


@attrs.define(eq=False)
class Load:
    """Clients that append until they are asked to stop.

    Args:
        names: the nodes.
        log: a node's log. Raises NotStored while the node is out of reach.
        outstanding: appends under way at a time.
        pause_s: of each client between an answer and its next append.

    Attributes:
        leader: who acknowledged last; "" before the first.
        acked: in the order of their answers.
        unknown: numbers of records of unknown outcome.
        newest_asked_s: the latest `asked_s` of what was acknowledged.
    """

    names: Sequence[str]
    log: Callable[[str], Log]
    outstanding: int
    pause_s: float = 0.0
    leader: str = attrs.field(default="", init=False)
    acked: list[Acked] = attrs.field(factory=list, init=False)
    unknown: list[int] = attrs.field(factory=list, init=False)
    newest_asked_s: float = attrs.field(default=float("-inf"), init=False)
    _guess: str = attrs.field(default="", init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Return when `stop` was called and every client has its last answer."""
        self._guess = self.names[0]
        task_status.started()
        async with trio.open_nursery() as nursery:
            for _ in range(self.outstanding):
                nursery.start_soon(self._client)

    def stop(self) -> None:
        """Begin no more appends."""
        self._stopped = True

    async def wait_acknowledged(self, at_s: float, timeout_s: float) -> None:
        """Until something asked for at `at_s` or later is acknowledged, or time is over."""
        with trio.move_on_after(timeout_s):
            while self.newest_asked_s < at_s:  # noqa: ASYNC110 - an event for each costs too much
                await trio.sleep(LOOK_S)

    # ---- inside ----

    async def _client(self) -> None:
        while not self._stopped:
            await self._append(next(self._numbers))
            if self.pause_s:
                await trio.sleep(self.pause_s)

    async def _append(self, number: int) -> None:
        first_s, body = trio.current_time(), body_of(number)
        while not self._stopped:
            node, asked_s = self._guess, trio.current_time()
            hint: str | None = None
            try:
                with trio.fail_after(ANSWER_S):
                    receipt = await self.log(node).append([body])
            except NotStored as refused:
                hint = refused.hint if isinstance(refused, NotMaster) else None
            except (OutcomeUnknown, trio.TooSlowError):
                self.unknown.append(number)
                self._turn(node, None)
                return
            else:
                now_s = trio.current_time()
                self.acked.append(Acked(number, first_s, asked_s, now_s, receipt.first))
                self.leader = node
                self.newest_asked_s = max(self.newest_asked_s, asked_s)
                return
            self._turn(node, hint)
            await trio.sleep(AGAIN_S)

    def _turn(self, node: str, hint: str | None) -> None:
        """Ask another next time, unless someone has turned already."""
        if self._guess == node:
            following = self.names[(self.names.index(node) + 1) % len(self.names)]
            self._guess = hint if hint and hint in self.names and hint != node else following
