"""Whom a feed talks to: the group's master, as the nodes say it. It follows every promotion.

Two sources: what the last node said that was no master (its hint), and what the run's links see.
When neither helps, as for nodes that other machines run, the members are tried in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

import attrs

from actors.cluster.feed import AppendDoor
from actors.cluster.view import NodeView, newest_master
from actors.errors import NotMaster


@attrs.define
class MasterFinder:
    """One feed's.

    Attributes:
        members: the group's nodes that can be asked, in the file's order.
        current: whom to talk to next.
        views: what is known of the nodes now.
    """

    group: str
    members: tuple[str, ...]
    current: str
    _connect: Callable[[str], AbstractAsyncContextManager[AppendDoor]]
    views: Callable[[], Iterable[NodeView]]

    def connect(self) -> AbstractAsyncContextManager[AppendDoor]:
        """A connection to whoever is taken for the master."""
        return self._connect(self.current)

    def heed(self, failures: Iterable[Exception]) -> None:
        """A connection has ended with these: who is to be tried next?"""
        for failure in failures:
            if isinstance(failure, NotMaster) and failure.hint in self.members:
                assert failure.hint is not None
                self.current = failure.hint
                return
        answering = [view for view in self.views() if view.state != "away"]
        found = newest_master(answering, self.group)
        if found is not None:
            self.current = found[0]
        elif self.members and any(isinstance(failure, OSError) for failure in failures):
            place = self.members.index(self.current) if self.current in self.members else -1
            self.current = self.members[(place + 1) % len(self.members)]
