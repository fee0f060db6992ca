"""Who hears of the log's growth, and when."""

from __future__ import annotations

import math
from typing import Any, cast

import attrs
import pytest
import trio

from actors.runtime import Actor, ChildSpec, MailboxSpec, SupervisorSpec, open_system
from actors.storage.commitlog.store_messages import WRITTEN, LogGrew
from actors.storage.ledger import store_messages
from actors.storage.log.growth import MINOR_WITHIN_S, Growth, Subscribe, Unsubscribe

Heard = list[tuple[float, Any]]


def listeners(heard: dict[str, Heard]) -> SupervisorSpec:
    def child(name: str) -> ChildSpec:
        @attrs.define
        class Listener(Actor[Any]):
            mailbox = MailboxSpec(conflate={LogGrew: lambda message: None})

            async def handle(self, message: Any) -> None:
                heard[name].append((self.ctx.now_s(), message))

        return ChildSpec(name=name, start=Listener)

    return SupervisorSpec(children=tuple(child(name) for name in heard))


def grew(written: int, synced: int = 0, first: int = 0) -> LogGrew:
    return LogGrew(min_bytes=first, written_bytes=written, synced_bytes=synced)


async def test_each_hears_as_soon_as_it_wants(autojump_clock: Any) -> None:
    heard: dict[str, Heard] = {"noted": [], "soon": [], "now": []}
    growth = Growth(LogGrew)
    async with open_system("n0", listeners(heard)) as system:
        for name, within_s in (("now", 0.0), ("soon", 0.5), ("noted", math.inf)):
            ref = system.ref(f"/n0/{name}")
            await growth.subscribe(Subscribe(subscriber=ref, within_s=within_s), grew(0))
        assert growth.paths == ("/n0/now", "/n0/soon", "/n0/noted")
        await trio.sleep(1.0)
        await growth.publish(grew(1))
        await trio.sleep(0.25)
        await growth.publish(grew(2))
        await trio.sleep(1.0)
        for name in ("now", "nobody"):
            growth.unsubscribe(Unsubscribe(subscriber=system.ref(f"/n0/{name}")))
        await growth.publish(grew(3))
        await trio.sleep(1.0)
        assert growth.paths == ("/n0/soon", "/n0/noted")
        assert heard["now"] == [(0.0, grew(0)), (1.0, grew(1)), (1.25, grew(2))]
        assert heard["soon"] == [(0.0, grew(0)), (1.5, grew(2)), (2.5, grew(3))]
        assert heard["noted"] == [(0.0, grew(0))]
        await system.ref("/n0/noted").tell("mail")
        await trio.sleep(0.0)
        await trio.sleep(1.0)
        assert heard["noted"][1:] == [(3.25, grew(3)), (3.25, "mail")]


async def test_what_is_only_written_is_no_news_for_all(autojump_clock: Any) -> None:
    heard: dict[str, Heard] = {"a": []}
    growth = Growth(LogGrew)
    async with open_system("n0", listeners(heard)) as system:
        ref = system.ref("/n0/a")
        await growth.subscribe(Subscribe(subscriber=ref, idle=WRITTEN), grew(5))
        for now in (grew(9), grew(9, synced=5), grew(12, synced=5), grew(12, synced=5, first=4)):
            await trio.sleep(1.0)
            await growth.publish(now)
        await trio.sleep(1.0)
    reported = [message for _, message in heard["a"]]
    assert reported == [grew(5), grew(9, synced=5), grew(12, synced=5, first=4)]


@attrs.define
class Told:
    """Stands for a subscriber's ref: how each news came."""

    path: str = "/n0/listener"
    alive: bool = True
    ways: list[tuple[str, int]] = attrs.field(factory=list)

    async def tell(self, news: store_messages.LedgerGrew) -> None:
        self.ways.append(("at once", news.committed_index))

    def defer(self, news: store_messages.LedgerGrew, *, within_s: float) -> None:
        assert within_s == MINOR_WITHIN_S
        self.ways.append(("later", news.committed_index))


def ledger_grew(end: int, synced: int, committed: int, cuts: int = 0) -> store_messages.LedgerGrew:
    return store_messages.LedgerGrew(
        session=1,
        begin_index=0,
        end_index=end,
        end_term=1,
        synced_index=synced,
        committed_index=committed,
        cuts=cuts,
    )


async def ways(*news: store_messages.LedgerGrew, **wanted: frozenset[str]) -> list[tuple[str, int]]:
    """How a subscriber hears of these, one after the other; the first is what there is already."""
    reported, growth = Told(), Growth(store_messages.LedgerGrew)
    await growth.publish(news[0])
    await growth.subscribe(Subscribe(subscriber=cast("Any", reported), **wanted), news[0])
    for each in news:
        await growth.publish(each)
    return reported.ways[1:]


async def test_where_only_what_is_minor_has_changed_nobody_is_woken() -> None:
    steps = ((0, -1, -1), (0, -1, 0), (0, 0, 0), (1, 0, 1), (1, 1, 2))
    minor = store_messages.COMMITS | store_messages.SYNCS
    found = await ways(*(ledger_grew(*step) for step in steps), minor=minor)
    assert found == [("later", 0), ("later", 0), ("at once", 1), ("later", 2)]


async def test_where_only_what_is_idle_has_changed_nobody_is_notified() -> None:
    idle = store_messages.SYNCS | store_messages.ENDS
    news = (
        ledger_grew(5, 4, 3),
        ledger_grew(6, 4, 3),
        ledger_grew(6, 6, 3),
        ledger_grew(7, 6, 4),
        ledger_grew(8, 6, 4, cuts=1),
    )
    found = await ways(*news, minor=store_messages.COMMITS, idle=idle)
    assert found == [("later", 4), ("at once", 4)]


async def test_only_fields_that_there_are_can_be_minor() -> None:
    with pytest.raises(AssertionError, match="not its fields"):
        await ways(ledger_grew(0, 0, 0), minor=frozenset({"commited"}))
