"""`ActorContext`: what an actor's hooks may use, as `self.ctx`."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple, Unpack, overload

import trio

from actors.readable import counted
from actors.runtime.errors import ActorDown, ActorError
from actors.runtime.mailbox import Mailbox, StopReason
from actors.runtime.ref import ActorRef, LaterReply, ReplyTo
from actors.runtime.timers import Timers

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from actors.runtime.ref import Registry

M = TypeVar("M")
T = TypeVar("T")
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
Ts = TypeVarTuple("Ts")

ASKS_PENDING_MAX = (
    16_384  # unanswered ask_later of one actor; more mean that it does not bound its own work
)


class ActorContext(Generic[M]):
    """One incarnation's view of the runtime.

    Attributes:
        path: "/n0/orders/store".
        incarnation: 1 for the first run at this path, then 2 and so on.
        self_ref: the actor's own ref, to be given to others.
        timers: messages to the actor itself at a given time.
        rng: the system's only source of randomness.
    """

    __slots__ = (
        "_asks",
        "_asks_max",
        "_fail",
        "_mailbox",
        "_nursery",
        "_registry",
        "incarnation",
        "path",
        "rng",
        "self_ref",
        "timers",
    )

    def __init__(
        self,
        registry: Registry,
        ref: ActorRef[M],
        incarnation: int,
        mailbox: Mailbox,
        fail: Callable[[Exception], None],
        asks_max: int | None = None,
    ) -> None:
        self.path = ref.path
        self.incarnation = incarnation
        self.self_ref = ref
        self.timers: Timers[M] = Timers(mailbox)
        self.rng: random.Random = registry.rng
        self._registry = registry
        self._mailbox = mailbox
        self._fail = fail
        self._nursery: trio.Nursery | None = None
        self._asks: dict[LaterReply, None] = {}
        self._asks_max = asks_max if asks_max is not None else ASKS_PENDING_MAX

    def now_s(self) -> float:
        """Return Trio's time in seconds, to which all deadlines refer."""
        return trio.current_time()

    @property
    def is_stopping(self) -> bool:
        """Whether the actor ends after its present message.

        It is for an actor with much work in one message, which it may then leave undone.
        """
        return self._mailbox.stopping is not None

    def emit(self, event: object) -> None:
        """Hand an event of the catalogue to the node's event log. Synchronous."""
        self._registry.emit(self.path, self.incarnation, event)

    @overload
    def ref(self, path: str) -> ActorRef[Any]: ...
    @overload
    def ref(self, path: str, message: TypeForm[T]) -> ActorRef[T]: ...
    def ref(self, path: str, message: object = None) -> ActorRef[Any]:
        """Return the ref of any path of this system; see `Registry.ref`."""
        return self._registry.ref(path)

    def spawn(self, async_fn: Callable[[Unpack[Ts]], Awaitable[object]], *args: *Ts) -> None:
        """Start a feeder: a task that awaits an outside source and sends its news to this actor.

        It runs in the actor's own nursery, is cancelled before `on_stop`, and its crash is the
        actor's crash.
        """
        assert self._nursery is not None  # SpawnFromHooksOnly
        label = getattr(async_fn, "__name__", type(async_fn).__name__)
        self._nursery.start_soon(
            async_fn, *args, name=f"{self.path}#{self.incarnation} feeder {label}"
        )

    def limit_delay(self, within_s: float) -> None:
        """Limit the delay of deferred messages (`ActorRef.defer`) from now on.

        This is for an actor that needs them soon only while somebody waits for the result.

        Args:
            within_s: the maximum delay in seconds: 0 wakes at once; inf leaves it to the senders.
        """
        self._mailbox.limit_delay(within_s)

    def stop(self, reason: StopReason = StopReason.NORMAL) -> None:
        """End this actor after the current message.

        A transient or temporary child is then not restarted.
        """
        self._mailbox.stop(reason)

    @overload
    def ask_later(
        self,
        ref: ActorRef[T],
        reply_type: type[R],
        make: Callable[[ReplyTo[R]], T],
        *,
        timeout_s: float,
        on_reply: Callable[[R | Exception], M],
        within_s: float = 0.0,
    ) -> None: ...
    @overload
    def ask_later(
        self,
        ref: ActorRef[T],
        reply_type: tuple[type[R1], type[R2]],
        make: Callable[[ReplyTo[R1 | R2]], T],
        *,
        timeout_s: float,
        on_reply: Callable[[R1 | R2 | Exception], M],
        within_s: float = 0.0,
    ) -> None: ...
    def ask_later(
        self,
        ref: ActorRef[T],
        reply_type: Any,
        make: Callable[[ReplyTo[Any]], T],
        *,
        timeout_s: float,
        on_reply: Callable[[Any], M],
        within_s: float = 0.0,
    ) -> None:
        """Ask without waiting for the answer, which comes as a message to this actor.

        The question waits for room in the other's mailbox in line with other senders; `timeout_s`
        includes that.

        Args:
            reply_type, make: as in `ActorRef.ask`.
            timeout_s: how many seconds the answer may take.
            on_reply: makes the message. It gets the answer, or AskTimeout, ActorDown, MailboxFull
                or the error with which the other answered.
            within_s: defers an answer that is no error, as `ActorRef.defer` does, for an actor that
                is woken by what follows the answer.

        Raises: ActorError: more than `Actor.asks_max` questions are unanswered.
        """
        if len(self._asks) >= self._asks_max:
            raise ActorError(f"{self.path} has {counted(self._asks_max, 'unanswered question')}")

        def done(reply: LaterReply, outcome: Any) -> None:
            self._asks.pop(reply, None)
            mailbox, is_late = self._mailbox, within_s and not isinstance(outcome, Exception)
            try:
                message = on_reply(outcome)
                if not (is_late and mailbox.open and mailbox.defer(message, within_s)):
                    mailbox.push(message)
            except Exception as exc:  # noqa: BLE001 - raised in the asker's own loop
                self._fail(exc)

        asked = ref.mailbox
        reply = LaterReply(ref, asked, timeout_s, done)
        message = make(reply)
        if asked is None:
            reply.fail(ActorDown(f"{ref.path} is not running"))
        else:
            self._asks[reply] = None
            reply.put(message, asked)

    def open(self, nursery: trio.Nursery) -> None:
        """Allow feeders to start; only the runtime calls it."""
        self._nursery = nursery

    def close(self) -> None:
        """Drop all open questions; only the runtime calls it."""
        for reply in list(self._asks):
            reply.abandon()
        self._asks.clear()
