"""What a run needs of its nodes, however they run: in its process, or in one each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias


class Backend(Protocol):
    """The nodes of a run, however they run."""

    def restarts(self, node: str) -> int:
        """How often its process was started again."""

    def expected(self, node: str) -> bool:
        """Whether it runs, or is being started again."""

    async def wait_ended(self) -> str:
        """Return why, when the nodes have ended, or want to, without having been asked."""

    def failed(self) -> Mapping[str, str]:
        """The nodes that ended and are not started again, and why."""

    async def wait_failed(self) -> None:
        """Return when one more node has."""

    def end_appends(self) -> None:
        """Nodes take no more, and wait for others `drain_timeout_s` from now on: these are not to
        be waited for twice. Where each has its own process it does so when it is stopped.
        """

    def waits_for(self) -> str:
        """Whom a node waits for that is stopped now, for people; "": for nobody, as far as is
        known here.
        """

    def hurry(self) -> None:
        """Wait for nobody any more."""


OpenBackend: TypeAlias = Callable[[Callable[[str], None]], AbstractAsyncContextManager[Backend]]
"""Takes where notes for people go; running between entry and exit, stopped in order at exit."""
