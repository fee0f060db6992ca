"""Connection serves one client of the API socket.

A feeder reads messages as long as the bounds on unanswered requests have room; otherwise it leaves
them in the stream, so back-pressure reaches the client. This actor decodes them in order, hands
appends to the node at once and in order, and starts a task for everything that takes its time. All
sending is done here, from an outbox whose frames leave together, so a client that does not read
stops its own requests and nothing else.

Messages: private ones only. Asks nobody; it uses the `NodeHandle`. There is no restart: it is a
temporary child, and its end is the connection's end.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import attrs
import trio

from actors.api import answers, convert, failures, frame_socket, subscription
from actors.api.answers import Slow
from actors.api.budget import Answering, Budget, ReadShare
from actors.api.convert import BatchForm
from actors.api.credentials import READS_ONLY, WHOLLY_TRUSTED, Admission, ConnectionGate
from actors.api.failures import RequestRefused
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.api.handle import AppendOutcome, NodeHandle
from actors.api.in_flight import InFlight
from actors.api.limits import ApiLimits
from actors.api.outbox import Outbox
from actors.api.slots import CROWD, Slot, Slots
from actors.api.subscription import Credit, Subscribe
from actors.env.protocols import Stream
from actors.events import client as events
from actors.log_types import Chain, Receipt
from actors.runtime import Actor, MailboxSpec, StopReason
from actors.runtime.accepting import FULL
from wire.api import frames as api
from wire.api import gather
from wire.errors import RemoteProtocolError

NO_HELLO = "no hello"


CHAINS_MAX = 1024
"""How many chains of a connection a node remembers. A client has one for each of its appenders."""


@attrs.define
class Chains:
    """The newest CHAINS_MAX chains of appends of one client, by the numbers that it gives them."""

    _known: dict[int, Chain] = attrs.field(factory=dict)

    def get(self, number: int) -> Chain | None:
        """Return the chain of this number, a new one if it is unknown; None for 0, no chain."""
        if not number:
            return None
        chain = self._known.get(number)
        if chain is None:
            chain = self._known[number] = Chain()
            if len(self._known) > CHAINS_MAX:
                del self._known[next(iter(self._known))]
        return chain


@attrs.frozen(kw_only=True)
class _Received:
    """Feeder: one WebSocket message."""

    requests: tuple[api.Request, ...]
    size_bytes: int
    text: bool


@attrs.frozen(kw_only=True)
class _Unreadable:
    """Feeder: a message that does not belong to this protocol."""

    error: str


@attrs.frozen(kw_only=True)
class _OutboxFilled:
    """An answer or a push waits to be sent."""


@attrs.frozen(kw_only=True)
class _SubscriptionEnded:
    """A subscription has ended.

    Attributes:
        error: why, if it failed.
    """

    request: int
    error: Exception | None


@attrs.frozen(kw_only=True)
class _Lost:
    """Feeder: the stream has ended."""

    reason: str


@attrs.frozen(kw_only=True)
class _HelloTimedOut:
    """Timer: the client has sent no hello in time."""


_Inbox: TypeAlias = (
    _Received | _Unreadable | _OutboxFilled | _SubscriptionEnded | _Lost | _HelloTimedOut
)


@attrs.define(eq=False)
class _Running:
    """A subscription of this connection, with its task."""

    credit: Credit
    scope: trio.CancelScope


@attrs.define
class Connection(Actor[_Inbox]):
    """Implements what the module describes."""

    mailbox = MailboxSpec(capacity=1024, conflate={_OutboxFilled: type})

    _stream: Stream
    _handle: NodeHandle
    _limits: ApiLimits
    _budget: Budget
    _slots: Slots
    _gate: ConnectionGate | None  # of the node's port; None: it came over the socket file
    _admission: Admission = attrs.field(init=False)
    _slot: Slot = attrs.field(init=False)
    _reading: ReadShare = attrs.field(init=False)
    _answering: Answering = attrs.field(init=False)
    _socket: FrameSocket | None = None
    _client: str | None = None
    _form: BatchForm = attrs.field(default=BatchForm(text=False, stored=False), init=False)
    _reason: str = ""
    _requests: int = 0
    _in_flight: InFlight = attrs.field(init=False)
    _chains: Chains = attrs.field(factory=Chains, init=False)
    _running: dict[int, _Running] = attrs.field(factory=dict)
    _outbox: Outbox = attrs.field(init=False)
    _filled: bool = False  # whether _OutboxFilled is on its way

    def __attrs_post_init__(self) -> None:
        self._reading = ReadShare(self._budget.received, self._limits.send_timeout_s)
        self._answering = Answering(self._budget.read)
        self._in_flight = InFlight(self._limits, self._reading)
        self._outbox = Outbox(self._encoded, self._in_flight.release, self._answering.end)

    async def on_start(self) -> None:
        self._slot = self._slots.come(self._make_way, self._waits)
        self.ctx.timers.start("hello", self._limits.hello_timeout_s, _HelloTimedOut())
        self.ctx.spawn(self._session)

    async def handle(self, message: _Inbox) -> None:
        if self._reason:
            return  # it has ended; the loop stops after this message
        match message:
            case _Received():
                await self._received(message)
            case _Unreadable():
                self.ctx.emit(events.APIFrameRefused(error=message.error[:500]))
                await self._refuse(None, api.ERROR_BAD_FRAME, message.error, "bad frame")
            case _OutboxFilled():
                self._filled = False
                await self._send_waiting()
            case _SubscriptionEnded():
                await self._subscription_ended(message)
            case _Lost():
                self._finish(message.reason)
            case _HelloTimedOut():
                if self._client is None:
                    await self._refuse(None, api.ERROR_BAD_REQUEST, NO_HELLO, NO_HELLO)
            case _:
                assert_never(message)

    async def on_stop(self, reason: StopReason) -> None:
        self._reason = self._reason or "stopping"
        self.ctx.emit(
            events.APIConnectionClosed(
                reason=self._reason, requests=self._requests, unanswered=len(self._in_flight)
            )
        )
        self._stream.abort()
        self._slots.leave(self._slot)
        self._reading.close()
        self._answering.close()

    def _waits(self) -> bool:
        return bool(self._running) or len(self._in_flight) > 0

    # Reading.

    async def _session(self) -> None:
        try:
            before = self._reading.before_read
            async with frame_socket.accept(self._stream, before, self._gate) as frames:
                self._socket = frames
                while True:
                    data = await frames.receive()
                    await self._reading.received(len(data))
                    self._in_flight.arrived(len(data))
                    try:
                        requests = gather.decode_requests(data)
                    except RemoteProtocolError as error:
                        await self.ctx.self_ref.tell(_Unreadable(error=str(error)))
                        continue
                    await self._hand_on(requests, len(data), isinstance(data, str))
        except SocketClosed as error:
            reason = "client closed" if error.orderly else error.reason
        await self.ctx.self_ref.tell(_Lost(reason=reason))

    async def _hand_on(
        self, requests: tuple[api.Request, ...], size_bytes: int, text: bool
    ) -> None:
        """Hand the requests of a message to the actor, once there is room for them.

        A message that exceeds the bounds by itself is handed on when nothing else is in flight.
        """
        await self._in_flight.room(len(requests), size_bytes)
        received = _Received(requests=requests, size_bytes=size_bytes, text=text)
        await self.ctx.self_ref.tell(received)

    async def _received(self, message: _Received) -> None:
        self._slot.asked_s = self.ctx.now_s()
        each_bytes, more_bytes = divmod(message.size_bytes, len(message.requests))
        for request in message.requests:
            size_bytes, more_bytes = each_bytes + more_bytes, 0  # the first has what is left over
            self._in_flight.read(size_bytes)
            self._requests += 1
            if self._client is None:
                await self._hello(request, message.text)
            else:
                await self._dispatch(request, size_bytes)
            if self._reason:
                return  # nothing after what ended the connection is looked at
        self._in_flight.make_room()

    async def _hello(self, request: api.Request, text: bool) -> None:
        self._form = BatchForm(text=text, stored=False)
        try:
            hello = answers.hello_of(request)
        except RequestRefused as error:
            await self._refuse(request.id, error.error, str(error), NO_HELLO)
            return
        self._admission = WHOLLY_TRUSTED if self._gate is None else self._gate.admit(hello)
        remote = self._stream.remote
        if not self._slots.greet(self._slot, hello.name, remote, self._admission):
            await self._close(frame_socket.TRY_AGAIN_LATER, self._slots.taken(), FULL)
            return
        self._client = hello.name
        self.ctx.timers.cancel("hello")
        self.ctx.emit(events.APIConnectionOpened(client=hello.name, address=str(remote), text=text))
        proof = self._admission.proof
        await self._send(answers.welcome(hello, self._handle.identity, self._limits, proof))
        self._outbox.gather = hello.version >= gather.VERSION_GATHERED
        self._form = BatchForm(text=text, stored=hello.version >= api.VERSION_STORED)

    async def _dispatch(self, request: api.Request, size_bytes: int) -> None:
        match request:
            case _ if self._admission.reads_only and not isinstance(request, api.READS):
                await self._fail(request.id, RequestRefused(api.ERROR_PERMISSION, READS_ONLY))
            case api.Grant():
                if request.id in self._running:
                    self._running[request.id].credit.grant(request.credit)
            case api.Cancel():
                await self._cancel(request.id)
            case _ if request.id in self._in_flight or request.id in self._running:
                text = f"request number {request.id} is in use"
                await self._fail(request.id, RequestRefused(api.ERROR_BAD_REQUEST, text))
            case api.Hello():
                text = "only the first request may be hello"
                await self._fail(request.id, RequestRefused(api.ERROR_BAD_REQUEST, text))
            case api.Append():
                self._in_flight.take(request.id, size_bytes)
                await self._append(request)
            case api.Tail() | api.WatchOffsets() | api.WatchGroup() | api.TailEvents():
                await self._subscribe(request)
            case api.Stop():
                await self._send(api.Stopping(id=request.id))
                self._handle.request_stop()
            case _:  # Slow: mypy sees that nothing else is left
                self._in_flight.take(request.id, size_bytes)
                self.ctx.spawn(self._answer, request)

    async def _append(self, request: api.Append) -> None:
        """Hand an append to the node.

        While the group's store has no room this waits, and with it all later requests of this
        client.
        """
        chain = self._chains.get(request.chain)

        def failed(error: Exception) -> None:
            if chain is not None:
                chain.broken = True
            self._append_failed(request.id, error)

        def on_done(outcome: AppendOutcome) -> None:
            if isinstance(outcome, Receipt):
                self._answered(request.id, convert.from_receipt(outcome, id=request.id))
            else:
                failed(outcome)

        try:
            records = convert.to_new_records(request.records)
            await self._handle.submit(request.group, records, on_done, chain)
        except Exception as error:  # noqa: BLE001 - the client gets it, and logged if not ours
            failed(error)

    def _append_failed(self, request: int, error: Exception) -> None:
        failures.log_if_not_ours(request, self._client, error)
        self._answered(request, failures.append_failed(request, error))

    async def _answer(self, request: Slow) -> None:
        # At the highest position there is nothing: who reads there, as another member does, wants
        # to know what is committed, and waits for no room.
        finds = isinstance(request, api.Read) and request.start < api.POSITION_MAX
        room = await self._answering.begin() if finds else None
        try:
            answer = await answers.answer(self._handle, request, self._form)
            if room is not None and isinstance(answer, bytes | str):
                self._answering.found(room, len(answer))
        except Exception as error:  # noqa: BLE001 - the client gets it, and logged if not ours
            answer = self._failed(request.id, error)
        self._answered(request.id, answer, room)

    def _answered(
        self, request: int, answer: api.Answer | bytes | str, room: int | None = None
    ) -> None:
        """Have the actor send an answer; callable from any task. It never waits for room."""
        if not self._reason:
            self._outbox.put(answer, request=request, room=room)
            self._announce_filled()

    def _announce_filled(self) -> None:
        if not self._filled:
            self._filled = True
            self.ctx.self_ref.offer(_OutboxFilled())

    async def _subscribe(self, request: Subscribe) -> None:
        limits = self._limits
        most = limits.member_subscriptions if self._slot.is_member else limits.subscriptions
        if len(self._running) >= most:
            text = f"{most} subscriptions run on this connection already"
            await self._fail(request.id, RequestRefused(api.ERROR_BAD_REQUEST, text))
            return
        credit = subscription.credit_of(request)
        running = _Running(credit=credit, scope=trio.CancelScope())
        self._running[request.id] = running
        self.ctx.spawn(self._follow, request, running)

    async def _follow(self, request: Subscribe, running: _Running) -> None:
        error: Exception | None = None
        with running.scope:
            try:
                push, room, form = self._push, self._answering, self._form
                await subscription.follow(self._handle, request, running.credit, push, room, form)
            except Exception as failure:  # noqa: BLE001 - the client gets it
                error = failure
        await self.ctx.self_ref.tell(_SubscriptionEnded(request=request.id, error=error))

    async def _push(self, data: bytes | str) -> None:
        sent = trio.Event()
        self._outbox.put(data, sent=sent)
        self._announce_filled()
        await sent.wait()

    async def _cancel(self, request: int) -> None:
        running = self._running.get(request)
        if running is None:
            text = f"request number {request} is not a running subscription"
            await self._fail(request, RequestRefused(api.ERROR_BAD_REQUEST, text))
        else:
            running.scope.cancel()  # `ended` follows when its task has ended

    async def _subscription_ended(self, message: _SubscriptionEnded) -> None:
        del self._running[message.request]
        if message.error is not None:
            await self._fail(message.request, message.error)
        else:
            await self._send(api.Ended(id=message.request))

    # Sending and ending.

    async def _fail(self, request: int, error: Exception) -> None:
        await self._send(self._failed(request, error))

    def _failed(self, request: int, error: Exception) -> api.Failed:
        failures.log_if_not_ours(request, self._client, error)
        return failures.failed(request, error)

    async def _send(self, answer: api.Answer) -> None:
        """Send an answer after those that wait already."""
        self._outbox.put(answer)
        await self._send_waiting()

    async def _send_waiting(self) -> None:
        """Send what waits now, if the connection is open; end it if the client does not read."""
        if self._socket is None or self._reason:
            return
        ended = await self._outbox.send(self._socket, self._limits.send_timeout_s)
        if ended:
            self._finish(ended)
        elif len(self._outbox):
            self._announce_filled()

    def _encoded(self, answer: api.Answer) -> bytes | str:
        return failures.encoded(answer, text=self._form.text)

    async def _refuse(self, request: int | None, error: str, text: str, reason: str) -> None:
        """Answer a request that ends its connection, and end it."""
        await self._send(api.Failed(id=request, error=error, message=text[:1000]))
        await self._close(frame_socket.PROTOCOL_ERROR, text, reason)

    async def _close(self, code: int, text: str, reason: str) -> None:
        """Send a close frame with this code, and end the connection."""
        if self._socket is not None and not self._reason:
            with trio.move_on_after(self._limits.send_timeout_s):
                await self._socket.close(code, text)
        self._finish(reason)

    def _make_way(self, reason: str) -> None:
        if self._socket is not None:
            self._socket.goodbye = (frame_socket.TRY_AGAIN_LATER, CROWD)
        self._finish(reason)

    def _finish(self, reason: str) -> None:
        self._reason = self._reason or reason
        self.ctx.stop()
