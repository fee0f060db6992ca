"""EpochKeeper opens the history of a replica's log behind its store, and begins a master's epoch.

Source: apache/rocketmq store/ha/autoswitch/AutoSwitchHAService.java (5.3.3), init and
changeToMaster; autoswitch-ha.md 4.2 and T8, T23.

It starts behind the store and ahead of all that needs the history, so those find it in the
`EpochsView`, whose mark it raises to the confirm offset that the checkpoint has kept. On a master
it is the history's only writer: it begins the epoch before the role owner opens the store's gate,
and forgets epochs as their files are deleted. On a slave ha_client is: the epochs of deleted files
go when the log opens the next time.

Messages: LogGrew from the store. It tells the role owner EpochsOpened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final, TypeAlias

import attrs

from actors.env.protocols import Disk
from actors.events import ha as events
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.epoch_store import EpochStore, record_begins
from actors.storage.files.room import Room
from actors.storage.layout import StoreLayout
from actors.storage.log.growth import Subscribe, Unsubscribe
from actors.storage.log.log_reader import LogReader

ASK_TIMEOUT_S: Final = 5.0
GROWTH_WITHIN_S: Final = 1.0
"""Maximum delay of the published end, which heartbeats tell controllers."""


@attrs.frozen(kw_only=True)
class EpochsOpened:
    """To the role owner: the history is known, and a master's epoch has begun in it.

    Attributes:
        build: which tree of the group this is of.
        problem: why this replica cannot be a master, for people; "" if it can.
    """

    build: int
    problem: str


Message: TypeAlias = store_messages.LogGrew


@attrs.define(kw_only=True)
class EpochKeeper(Actor[Message]):
    """See the module's text.

    Attributes:
        begins: the epoch that begins, on a master; None on a slave.
        synced: whether others have had, and heard of, only what is on the disk here. If not, a stop
            that was no ordered one may have taken what they have.
        room: waits while the disk has none for that.
    """

    mailbox = MailboxSpec(conflate={store_messages.LogGrew: lambda message: None})
    disk: Disk
    layout: StoreLayout
    store: ActorRef[store_messages.Message]
    make_reader: Callable[[], LogReader]
    owner: ActorRef[EpochsOpened]
    view: EpochsView
    build: int
    begins: int | None
    synced: bool
    room: Room
    _epochs: EpochStore = attrs.field(init=False)
    _min_bytes: int = attrs.field(init=False)

    async def on_start(self) -> None:
        held = await self.store.ask(
            store_messages.LogRange,
            lambda reply_to: store_messages.GetRange(reply_to=reply_to),
            timeout_s=ASK_TIMEOUT_S,
        )
        problem = await self.room.wait(partial(self._open, held), self.ctx.emit)
        self._min_bytes = held.min_bytes
        is_first = self.view.store is None
        self.view.store, self.view.end_bytes = self._epochs, held.written_bytes
        if is_first and not (self.synced or held.was_clean):
            self.view.doubts = self.view.last_epoch
        self.view.opened_bytes = held.written_bytes
        self.view.mark.raise_to(held.confirmed_bytes)
        await self.store.tell(Subscribe(subscriber=self.ctx.self_ref, within_s=GROWTH_WITHIN_S))
        await self.owner.tell(EpochsOpened(build=self.build, problem=problem))

    def _open(self, held: store_messages.LogRange) -> Generator[None, None, str]:
        """Open the history, and begin a master's epoch. It may be called again if there is no room.

        Returns: why the epoch cannot begin; "" if it has begun, or on a slave.
        """
        reader = self.make_reader()
        try:
            begins = record_begins(reader, held.written_bytes)
            self._epochs = EpochStore.open(
                self.disk, self.layout, held.min_bytes, held.written_bytes, begins
            )
        finally:
            reader.close()
        yield
        if self.begins is None:
            return ""
        try:
            self._epochs.begin(self.begins, held.written_bytes)
        except ValueError as error:
            return str(error)
        self.ctx.emit(events.EpochBegun(epoch=self.begins, start_bytes=held.written_bytes))
        return ""

    async def handle(self, message: Message) -> None:
        self.view.end_bytes = message.written_bytes
        if self.begins is not None and message.min_bytes > self._min_bytes:
            self._min_bytes = message.min_bytes
            self._epochs.expire(message.min_bytes)

    async def on_stop(self, reason: StopReason) -> None:
        await self.store.tell(Unsubscribe(subscriber=self.ctx.self_ref))
