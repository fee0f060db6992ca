"""The subscribers to a store's log, and how soon each is sent a change; most need not wake for it.

Upstream has nothing like it: its threads poll the log's end (apache/rocketmq WaitNotifyObject.java,
DefaultMappedFile.java; openmessaging/dledger DLedgerEntryPusher.java).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

import attrs

from actors.runtime import ActorRef

SUBSCRIBERS_MAX: Final = 1024
MINOR_WITHIN_S: Final = 0.005

G = TypeVar("G")
G_contra = TypeVar("G_contra", contravariant=True)


@attrs.frozen(kw_only=True)
class Subscribe(Generic[G_contra]):
    """Ask for the range of the store's log, at once and at every change; a second one replaces it.

    The subscriber is sent a frozen class of the store's, which it should conflate, because only the
    newest message matters.

    Attributes:
        within_s: maximum delay in seconds: 0 wakes at once, above 0 queues without waking
            (`ActorRef.defer`), inf waits for the next message.
        minor: fields of the message. If only these have changed, it may be delayed by
            MINOR_WITHIN_S; that saves a wake-up for every append that is alone.
        idle: fields of the message. If only these have changed, it is not sent; they come with the
            next one.
    """

    subscriber: ActorRef[G_contra]
    within_s: float = 0.0
    minor: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()

    def delay_s(self, changed: frozenset[str]) -> float | None:
        """Return how many seconds a change may be delayed; None if it is not sent by itself.

        Args:
            changed: the fields that have changed.
        """
        if changed <= self.idle:
            return None
        is_minor = changed - self.idle <= self.minor
        return self.within_s or (MINOR_WITHIN_S if is_minor else 0.0)


@attrs.frozen(kw_only=True)
class Unsubscribe:
    """End the subscription of this actor; harmless if it has none."""

    subscriber: ActorRef[Any]


@attrs.define
class Growth(Generic[G]):
    """The subscribers to one store's log, in the order in which they first came.

    Args:
        of: the class of what they are sent.

    Attributes:
        published: what was sent last, to all or to the first; None before that.
    """

    _of: type[G]
    published: G | None = attrs.field(default=None, init=False)
    _names: tuple[str, ...] = attrs.field(init=False)
    _values: Callable[[G], tuple[object, ...]] = attrs.field(init=False)
    _subscribers: dict[str, Subscribe[G]] = attrs.field(factory=dict, init=False)
    _delays: dict[frozenset[str], list[tuple[ActorRef[G], float]]] = attrs.field(
        factory=dict, init=False
    )  # by changed fields: subscribers and delays; those that need not wake first

    def __attrs_post_init__(self) -> None:
        self._names = tuple(field.name for field in attrs.fields(cast("Any", self._of)))
        self._values = attrgetter(*self._names)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all subscribers, in the order in which they are sent changes."""
        return tuple(self._subscribers)

    async def subscribe(self, message: Subscribe[G], now: G) -> None:
        """Add, or replace, a subscriber; it is sent the present range at once."""
        assert (message.minor | message.idle).issubset(self._names), "not its fields"
        living = {path: one for path, one in self._subscribers.items() if one.subscriber.alive}
        self._subscribers = living | {message.subscriber.path: message}  # killed ones say nothing
        self._delays.clear()
        assert len(self._subscribers) <= SUBSCRIBERS_MAX
        if self.published is None:
            self.published = now
        await message.subscriber.tell(now)

    def unsubscribe(self, message: Unsubscribe) -> None:
        self._subscribers.pop(message.subscriber.path, None)
        self._delays.clear()

    def changes(self, now: G) -> frozenset[str]:
        """Return the fields in which `now` differs from what was published; at first all."""
        published = self.published
        if published is None:
            return frozenset(self._names)
        pairs = zip(self._names, self._values(published), self._values(now), strict=True)
        return frozenset([name for name, before, after in pairs if before != after])

    async def publish(self, now: G) -> None:
        """Send the log's range to all that need it, if it changed. Deferred messages go first."""
        if not (changed := self.changes(now)):
            return
        self.published = now
        if (those := self._delays.get(changed)) is None:
            those = self._delays[changed] = self._of_change(changed)
        for subscriber, delay_s in those:
            if delay_s:
                subscriber.defer(now, within_s=delay_s)
            else:
                await subscriber.tell(now)

    def _of_change(self, changed: frozenset[str]) -> list[tuple[ActorRef[G], float]]:
        delays = [(one.subscriber, one.delay_s(changed)) for one in self._subscribers.values()]
        those = [(subscriber, delay_s) for subscriber, delay_s in delays if delay_s is not None]
        return sorted(those, key=lambda each: each[1] == 0.0)
