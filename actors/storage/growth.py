"""Who is told that the log has grown, and how soon: most need not wake for each append."""

from __future__ import annotations

import attrs

from actors.storage.store_messages import LogGrew, Subscribe

SUBSCRIBERS_MAX = 1024


@attrs.define
class _Subscriber:
    wanted: Subscribe
    told: LogGrew


@attrs.define
class Growth:
    """The subscribers of one store, in the order in which they came first."""

    _subscribers: dict[str, _Subscriber] = attrs.field(factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all subscribers, in the order in which they are told."""
        return tuple(self._subscribers)

    async def subscribe(self, message: Subscribe, now: LogGrew) -> None:
        """Add, or replace, a subscriber; it is told the present range at once."""
        living = {name: s for name, s in self._subscribers.items() if s.wanted.subscriber.alive}
        self._subscribers = living  # the killed say no goodbye
        self._subscribers[message.name] = _Subscriber(message, now)
        assert len(self._subscribers) <= SUBSCRIBERS_MAX
        await message.subscriber.tell(now)

    def unsubscribe(self, name: str) -> None:
        """No more news. Harmless for the unknown."""
        self._subscribers.pop(name, None)

    async def tell(self, now: LogGrew) -> None:
        """The log's range is another one. First those who are only left a note."""
        prompt = []
        for subscriber in self._subscribers.values():
            wanted, told = subscriber.wanted, subscriber.told
            if wanted.synced_only and now == attrs.evolve(told, written_bytes=now.written_bytes):
                continue
            subscriber.told = now
            if wanted.within_s > 0.0:
                wanted.subscriber.leave(now, within_s=wanted.within_s)
            else:
                prompt.append(wanted.subscriber)
        for each in prompt:
            await each.tell(now)
