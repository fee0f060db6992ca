"""What the keeper of a broker's metadata publishes: others read it without a message."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import Tables

BOOT_KEY: Final = "bootTimestamp"
"""Under which a broker says when it was started. Upstream: BrokerStats and prepareRuntimeInfo."""


@attrs.define(eq=False)
class MetadataView:
    """The newest tables of one group on one node; the keeper alone writes it.

    Attributes:
        tables: a value that is never changed, so who has read it has all of one moment.
        number: raised with each change.
        boot_ms: when the keeper was started, by the wall clock, which is said as when the broker
            was, and is later if the keeper alone or the group's tree was started again; numbers of
            its different runs mean nothing to each other.
        left: what a keeper that was stopped in order could not write, for the next one.
        asked: on a slave, by kind, when its master last answered or did not, in Trio time, and why
            not; "": it did.
        another: of a copy, why the broker that is asked is another one than its master; "": it is
            not known to be.
    """

    tables: Tables = attrs.field(factory=Tables)
    number: int = 0
    boot_ms: int = 0
    left: tuple[Kind, ...] = ()
    asked: dict[str, tuple[float, str]] = attrs.field(factory=dict)
    another: str = ""
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def publish(self, tables: Tables) -> None:
        """For the keeper: there are others now."""
        self.tables = tables
        self.number += 1
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def heard(self, name: str, now_s: float, reason: str) -> None:
        """For slave_sync: the master has answered for one kind, or `reason` says why not."""
        self.asked[name] = now_s, reason

    async def wait_changed(self, number: int) -> None:
        """Return once `number` is not the newest."""
        while self.number == number:
            await self._changed.wait()
