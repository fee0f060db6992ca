"""Finds the node to which a feed talks: the group's master or leader, after every promotion and
election.

There are two sources: the hint of a node that refused because it is not master, and the views of
the run's links. If neither helps, as for nodes that run on other machines, the members are tried in
turn: the next one at once if a member cannot be reached, and after `turns_after_s` if it knows of
no leader. A member that hears no other, although it can be reached, would never name one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

import attrs
import trio

from actors.cluster.feed import AppendTarget
from actors.cluster.view import NodeView, is_gone, newest_leader
from actors.errors import NotMaster
from actors.group_status import GroupStatus

LOOK_S = 0.5
SUPERSEDED_S = 5.0
"""How long a later leader has to be known before a silent one is given up. A master that still
answers says itself that it is no longer master, and its appends are answered first."""


@attrs.define
class MasterFinder:
    """Finds the node to talk to, for one feed.

    Attributes:
        members: the group's nodes that can be asked, in the file's order.
        current: the node to talk to next.
        views: returns the present views of the nodes.
        turns_after_s: how long a member that knows of no leader is asked before the next one is
            tried; longer than an election takes.
    """

    group: str
    members: tuple[str, ...]
    current: str
    _connect: Callable[[str], AbstractAsyncContextManager[AppendTarget]]
    views: Callable[[], Iterable[NodeView]]
    turns_after_s: float = math.inf
    _nobody_s: float | None = None

    def connect(self) -> AbstractAsyncContextManager[AppendTarget]:
        """Connect to the node that is taken for the master."""
        return self._connect(self.current)

    async def watch(self, epoch: int) -> None:
        """Watch for a leader in a later epoch, because a node that is silent does not say that it
        lost the lead.

        Raises: NotMaster: another node has been master by a later promotion, or has led in a later
            term, for SUPERSEDED_S.
        """
        seen_s = 0.0
        while seen_s < SUPERSEDED_S:
            await trio.sleep(LOOK_S)
            found = self._newest()
            later = found is not None and found[0] != self.current
            later = later and found is not None and found[1].epoch > epoch
            seen_s = seen_s + LOOK_S if later else 0.0
        raise NotMaster(f"{self.current} is silent, another node leads by now")

    def _newest(self) -> tuple[str, GroupStatus] | None:
        return newest_leader((each for each in self.views() if not is_gone(each)), self.group)

    def heed(self, failures: Iterable[Exception]) -> None:
        """Choose the node to try next, after a connection has ended with these failures."""
        failures = tuple(failures)
        nobody_s, self._nobody_s = self._nobody_s, None
        for failure in failures:
            if isinstance(failure, NotMaster) and failure.hint in self.members:
                assert failure.hint is not None
                self.current = failure.hint
                return
        found = self._newest()
        if found is not None:
            self.current = found[0]
        elif any(isinstance(failure, OSError) for failure in failures):
            self._turn()
        elif self.turns_after_s < math.inf and any(map(_names_nobody, failures)):
            now_s = trio.current_time()
            self._nobody_s = now_s if nobody_s is None else nobody_s
            if now_s - self._nobody_s >= self.turns_after_s:
                self._nobody_s = None
                self._turn()

    def _turn(self) -> None:
        if self.members:
            index = self.members.index(self.current) if self.current in self.members else -1
            self.current = self.members[(index + 1) % len(self.members)]


def _names_nobody(failure: Exception) -> bool:
    return isinstance(failure, NotMaster) and failure.hint is None
