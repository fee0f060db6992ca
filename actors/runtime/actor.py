"""`Actor`: one task, one mailbox, state that only its hooks touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from actors.runtime.mailbox import MailboxSpec, StopReason

if TYPE_CHECKING:
    from actors.runtime.context import ActorContext

M = TypeVar("M")


class Actor(Generic[M]):
    """Base of every actor. Subclasses are `@attrs.define` and write the hooks they need.

    A restart makes a new instance, so what must survive is rebuilt in `on_start`. `on_stop` runs
    once if `on_start` returned, whatever ended the actor; an `on_start` that fails cleans up
    after itself.

    Attributes:
        mailbox: how this class's mailbox behaves.
        asks_max: how many `ctx.ask_later` may be unanswered, for an actor whose work is bounded by
            a setting; None: `context.ASKS_PENDING_MAX`.
        ctx: set before `on_start`.
    """

    __slots__ = ("ctx",)

    mailbox: ClassVar[MailboxSpec] = MailboxSpec()
    asks_max: ClassVar[int | None] = None
    ctx: ActorContext[M]

    async def on_start(self) -> None:
        """Get ready.

        The actor is ready when this returns; only then does the next sibling start. It may ask
        earlier siblings.
        """

    async def handle(self, message: M) -> None:
        """Handle one message. An exception is a crash."""

    async def handle_batch(self, messages: list[M]) -> None:
        """Handle all messages that waited, in one list, which belongs to the actor.

        Control messages come in a list of their own.

        Override this for batch work. A stop or a control message then waits for the end of the
        batch, and long work must checkpoint by itself. With plain `handle` the runtime does both
        between messages.
        """
        for message in messages:
            await self.handle(message)

    async def on_stop(self, reason: StopReason) -> None:
        """Close what was opened.

        The mailbox is closed and the feeders have ended; timers do not fire any more.
        """
