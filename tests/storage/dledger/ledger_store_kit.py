"""A DLedger store's actors on one simulated disk: syncer, store and a listener."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio
from ledger_kit import FILE, LAYOUT, env_of, saved_term, small
from store_tree import Machine, store_tree

from actors.runtime import (
    Actor,
    ChildSpec,
    MailboxSpec,
    Registry,
    SupervisorSpec,
    open_system,
)
from actors.sim.disk import SimDisk
from actors.sim.disk.fence import FencedDisk
from actors.storage.files.room import Room
from actors.storage.ledger import store_messages
from actors.storage.ledger.file_ledger import FileLedger, open_ledger
from actors.storage.ledger.recent import RecentEntries
from actors.storage.ledger.store import Store
from actors.storage.ledger.term_files import TermVote
from actors.storage.log.growth import Subscribe
from actors.storage.log.syncer import Syncer


@attrs.define
class Listener(Actor[store_messages.LedgerGrew]):
    """Stands for a dispatcher."""

    mailbox = MailboxSpec(conflate={store_messages.LedgerGrew: lambda message: None})
    kit: Kit

    async def on_start(self) -> None:
        await self.kit.store.tell(Subscribe(subscriber=self.ctx.self_ref))

    async def handle(self, message: store_messages.LedgerGrew) -> None:
        self.kit.grown.append(message)


@attrs.define
class Kit(Machine):
    """One store on one disk."""

    grown: list[store_messages.LedgerGrew] = attrs.field(factory=list)
    events: list[Any] = attrs.field(factory=list)
    recent: RecentEntries = attrs.field(factory=RecentEntries)

    @property
    def store(self) -> Any:
        return self.registry.ref("/n0/storage/store")

    async def open(
        self, session: int, term: int = 1, vote: TermVote | None = None
    ) -> store_messages.SessionOpened:
        make = partial(store_messages.OpenSession, session=session, term=term, vote=vote)
        found: store_messages.SessionOpened = await self.store.ask(
            store_messages.SessionOpened, lambda reply_to: make(reply_to=reply_to), timeout_s=9.0
        )
        return found

    async def append(self, session: int, *bodies: bytes) -> store_messages.AppendedAt:
        found: store_messages.AppendedAt = await self.store.ask(
            store_messages.AppendedAt,
            lambda reply_to: store_messages.Append(
                session=session, bodies=bodies, reply_to=reply_to
            ),
            timeout_s=9.0,
        )
        return found

    async def change(self, session: int, **fields: Any) -> store_messages.Changed:
        found: store_messages.Changed = await self.store.ask(
            store_messages.Changed,
            lambda reply_to: store_messages.Change(session=session, reply_to=reply_to, **fields),
            timeout_s=9.0,
        )
        return found

    async def synced(self, index: int) -> None:
        for _ in range(10_000):
            if self.grown and self.grown[-1].synced_index >= index:
                return
            await trio.sleep(0.001)
        raise AssertionError(f"entry {index} was not synced within 10 s")


def tree(kit: Kit, registry: Registry) -> SupervisorSpec:
    kit.registry = registry
    kit.fence = FencedDisk(kit.disk)
    env = env_of(kit.fence)
    room = Room(disk=kit.fence, path=LAYOUT.root, owner="n0: ledger")
    settings = small(delete_when_hours=tuple(range(24)))

    async def start(emit: Callable[[object], None]) -> FileLedger:
        opening = partial(open_ledger, env, LAYOUT, settings, owner=room.owner, emit=emit)
        return await room.wait(opening, emit)

    return store_tree(
        partial(Syncer, disk=kit.fence, store=registry.ref("/n0/storage/store"), interval_s=0.0),
        partial(
            Store,
            start=start,
            syncer=registry.ref("/n0/storage/syncer"),
            data_file_bytes=FILE,
            checkpoint_interval_s=3.0,
            pending_bytes=64 << 20,
            recent=kit.recent,
        ),
        behind=(ChildSpec(name="listener", start=lambda: Listener(kit)),),
    )


@asynccontextmanager
async def running(disk: SimDisk, kit: Kit | None = None) -> AsyncIterator[Kit]:
    """The actors on this disk, until the block ends in order."""
    saved_term(disk)
    kit = kit or Kit(disk)
    async with open_system(
        "n0",
        lambda registry: tree(kit, registry),
        events=lambda path, incarnation, event: kit.events.append(event),
    ):
        yield kit
