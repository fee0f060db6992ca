"""What stands around every event: who said it, when, and where in the order of its node."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class LoggedEvent:
    """One line of an event log.

    The key is (node, boot, seq). `seq` is gapless within a boot but for ranges that an
    `EventsDropped` of the same boot names. Nothing follows from comparing `ts_us` of two nodes.

    Attributes:
        node: who emitted it.
        boot: how often that node had been started, from 1.
        seq: number within the boot, from 1.
        path: the actor it is about, "/n0/orders/store".
        incarnation: which life of that actor; 0 where there is none.
        ts_us: the node's own clock in microseconds since 1970.
        event: an instance of a class of the catalogue, or `UnknownEvent`.
    """

    node: str
    boot: int
    seq: int
    path: str
    incarnation: int
    ts_us: int
    event: Any

    @property
    def kind(self) -> str:
        """The event's name in the catalogue."""
        event = self.event
        return event.kind if isinstance(event, UnknownEvent) else type(event).__name__


@attrs.frozen(kw_only=True)
class UnknownEvent:
    """An event of a newer (or older) catalogue: its kind and its fields as they were read."""

    kind: str
    fields: tuple[tuple[str, Any], ...]
