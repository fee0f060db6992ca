"""Who hears of the log's growth, and when."""

from __future__ import annotations

import math
from typing import Any

import attrs
import trio

from actors.runtime import Actor, ChildSpec, MailboxSpec, SupervisorSpec, open_system
from actors.storage.commitlog.store import Growth
from actors.storage.commitlog.store_messages import LogGrew, Subscribe

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
    growth = Growth()
    async with open_system("n0", listeners(heard)) as system:
        for name, within_s in (("now", 0.0), ("soon", 0.5), ("noted", math.inf)):
            ref = system.ref(f"/n0/{name}")
            await growth.subscribe(Subscribe(subscriber=ref, name=name, within_s=within_s), grew(0))
        assert growth.names == ("now", "soon", "noted")
        await trio.sleep(1.0)
        await growth.tell(grew(1))
        await trio.sleep(0.25)
        await growth.tell(grew(2))
        await trio.sleep(1.0)
        growth.unsubscribe("now")
        growth.unsubscribe("nobody")
        await growth.tell(grew(3))
        await trio.sleep(1.0)
        assert growth.names == ("soon", "noted")
        assert heard["now"] == [(0.0, grew(0)), (1.0, grew(1)), (1.25, grew(2))]
        assert heard["soon"] == [(0.0, grew(0)), (1.5, grew(2)), (2.5, grew(3))]
        assert heard["noted"] == [(0.0, grew(0))]
        await system.ref("/n0/noted").tell("mail")
        await trio.sleep(0.0)
        await trio.sleep(1.0)
        assert heard["noted"][1:] == [(3.25, grew(3)), (3.25, "mail")]


async def test_what_is_only_written_is_no_news_for_all(autojump_clock: Any) -> None:
    heard: dict[str, Heard] = {"a": []}
    growth = Growth()
    async with open_system("n0", listeners(heard)) as system:
        ref = system.ref("/n0/a")
        await growth.subscribe(Subscribe(subscriber=ref, name="a", synced_only=True), grew(5))
        for now in (grew(9), grew(9, synced=5), grew(12, synced=5), grew(12, synced=5, first=4)):
            await trio.sleep(1.0)
            await growth.tell(now)
        await trio.sleep(1.0)
    told = [message for _, message in heard["a"]]
    assert told == [grew(5), grew(9, synced=5), grew(12, synced=5, first=4)]
