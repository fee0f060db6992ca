"""What the keeper of a broker's metadata publishes, so that others read it without a message."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.env.protocols import Address
from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import Tables

BOOT_KEY: Final = "bootTimestamp"
"""The key of the time at which a broker was started. Upstream: BrokerStats, prepareRuntimeInfo."""


@attrs.define(eq=False)
class MetadataView:
    """The newest tables of one group on one node. Only the keeper writes them.

    Attributes:
        tables: a value that is never changed, so a reader has all tables of one moment.
        number: the number of the tables, which rises with each change. Numbers of different runs
            of the keeper cannot be compared.
        started_ms: when the keeper was started, by the wall clock in milliseconds since 1970. It
            stands for the broker's start, and is later if only the keeper or the group's tree was
            started again.
        left: the kinds that a keeper which was stopped in order could not write, for the next one.
        asked: on a slave, by kind, when the last answer of the master came or failed, in Trio
            time, and why it failed, for people, or "".
        another: on a copy, why the broker that is asked is another one than its master, for
            people; "" if that is not known.
    """

    tables: Tables = attrs.field(factory=Tables)
    number: int = 0
    started_ms: int = 0
    left: tuple[Kind, ...] = ()
    asked: dict[str, tuple[float, str]] = attrs.field(factory=dict)
    another: str = ""
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def publish(self, tables: Tables) -> None:
        """Publish new tables. Called by the keeper."""
        self.tables = tables
        self.number += 1
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def heard(self, name: str, now_s: float, reason: str) -> None:
        """Note that the master has answered for one kind, or in `reason` why it did not.

        Called by slave_sync and master_watch.
        """
        self.asked[name] = now_s, reason

    async def wait_changed(self, number: int) -> None:
        """Wait until there are tables after `number`."""
        while self.number == number:
            await self._changed.wait()


def not_answered(what: str, master: Address, reason: str) -> str:
    """Say, for people, why a master has not answered; an address that the reason has is enough."""
    whose = "its master" if master.host in reason else f"master {master}"
    return f"{what} of {whose}: {reason}; asked for again"
