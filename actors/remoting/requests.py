"""Requests of accepted connections, and what is made of them: `Processors` by their codes.

A `Request` is answered once, now or later, by any actor and in any order: with an `Answer`, or with
an error. `Refused` has a code and a remark of its own, MailboxFull becomes code 2, and any other
error code 1 with its text. A one-way request gets no answer, whatever the outcome.

    table = Processors({RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route})  # where it is served
    session = plain(posted_to(ref))                                        # at the port

Upstream: apache/rocketmq, remoting/netty/NettyRemotingAbstract.processRequestCommand,
NettyRequestProcessor.java, 5.3.3.

Differs: a processor has no threads of its own, and never waits. A request that needs to wait is
answered later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import attrs
from msgspec import Struct

from actors.env.protocols import Address
from actors.runtime import ActorRef, MailboxFull, ReplyTo, describe
from wire.errors import RemoteProtocolError
from wire.remoting.frame import (
    REMOTING_CODE_NOT_SUPPORTED,
    REMOTING_SYSTEM_ERROR,
    Frame,
    encode_frame,
)
from wire.remoting.header import VERSION, Header, read_fields, reply_header

BUSY: Final = "busy"
UNANSWERED_MAX: Final = 32
"""How many requests of one connection may wait for their answers; more wait in the stream. The
actors that all connections share answer in the order in which requests come, so those of a client
that asks much at once do not stand before all of another's."""
_LOGGER: Final = logging.getLogger("triolog.remoting")

S = TypeVar("S", bound=Struct)


@attrs.frozen(kw_only=True)
class Answer:
    """The answer to a request.

    Attributes:
        code: a ResponseCode of `wire.broker.codes`.
        remark: what happened, for people, if the request failed.
    """

    code: int = 0
    ext_fields: Mapping[str, str] | None = None
    remark: str | None = None
    body: bytes = b""


class Refused(Exception):
    """A request is refused by code and remark. Raised by a processor, or given to `fail`."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class CallFailed(Exception):
    """A call to the other end has no answer; the text says why."""


class Channel(Protocol):
    """An accepted connection, as the actors know it that serve its requests.

    It may be used in any actor, and no method waits.

    Attributes:
        tolerated: how many frames were read only as fastjson reads them.
    """

    tolerated: int

    @property
    def connection(self) -> int:
        """The connection's number, which does not repeat."""

    @property
    def address(self) -> Address:
        """The address of the other end."""

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of frames wait until the other end takes them."""

    def has_room(self, size_bytes: int) -> bool:
        """Return whether an answer of this size would find room at the port now.

        An answer that finds none is refused as busy; who knows its size need not make it.
        """

    def on_end(self, callback: Callable[[Channel], None]) -> None:
        """Have `callback` called once when the connection ends, at once if it has.

        Args:
            callback: a short synchronous function, which must not raise. One that is given twice is
                called once.
        """

    def end(self, reason: str) -> None:
        """End the connection; `reason` is for people."""

    def prove(self) -> None:
        """Note that the connection is a member's or a broker's.

        It is served first, and is not ended to make room for others.
        """

    def notify(
        self, code: int, *, ext_fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> bool:
        """Send the other end a one-way request.

        Returns: False if the connection has ended, or ends now because the other end does not read.

        Raises: LocalProtocolError: it does not fit into a frame.
        """

    def call(
        self,
        code: int,
        *,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float,
        reply_to: ReplyTo[Frame],
    ) -> None:
        """Send the other end a request.

        Args:
            reply_to: gets the answer's frame, whatever its code; fails with CallFailed.

        Raises: LocalProtocolError: it does not fit into a frame.
        """

    def take_answer(self, request: Request, answer: object) -> None:
        """Take the answer to a request, or the error; `Request` calls it."""

    def reserve(self, request: Request, cost_bytes: int) -> bool:
        """Implement `Request.reserve`, which calls it."""

    def refused(self, header: Header, reason: str) -> bool:
        """Count a frame that no processor served. Returns: whether an event reports it."""


class Request(ReplyTo[Answer]):
    """One request, which is answered as a `ReplyTo` with `send` or `fail`.

    Attributes:
        body: b"" if there is none. Whoever has decoded it may set it to b"".
        loose: whether the header needed fastjson's tolerance.
        size_bytes: the size by which the request is counted until it is answered.
        cost_bytes: the bytes that `reserve` has reserved for the answer; 0 for none.
        outcome: the answer, until the connection has encoded it.
    """

    __slots__ = ("body", "channel", "cost_bytes", "header", "loose", "outcome", "size_bytes")

    def __init__(self, channel: Channel, frame: Frame, size_bytes: int) -> None:
        self.answered = False
        self._asked = None
        self.channel = channel
        self.header = frame.header
        self.body = frame.body
        self.loose = frame.loose
        self.size_bytes = size_bytes
        self.cost_bytes = 0
        self.outcome: Any = None

    def fields(self, type_: type[S], *, code: int = REMOTING_SYSTEM_ERROR) -> S:
        """Decode the extFields as an object of `type_`; see `read_fields`.

        Raises: Refused: a field is missing or of another type. It has `code`, and a remark that
            names the field.
        """
        try:
            return read_fields(self.header, type_)
        except RemoteProtocolError as error:
            raise Refused(code, str(error)) from None

    def refuse(self, code: int, remark: str) -> bool:
        """Refuse a request that no processor serves, and count it.

        Returns: whether an event reports it.
        """
        reported = self.channel.refused(self.header, remark)
        self.fail(Refused(code, remark))
        return reported

    def reserve(self, cost_bytes: int) -> bool:
        """Reserve room at the port for the answer, for as long as it is encoded and sent.

        Args:
            cost_bytes: how much the answer holds while it is encoded.

        Returns: whether there is that much room.
        """
        return self.channel.reserve(self, cost_bytes)

    def _settle(self, value: Any, error: Exception | None) -> None:
        self.channel.take_answer(self, value if error is None else error)


Processor: TypeAlias = Callable[[Request], Answer | None]
"""Serves a request synchronously. Returns: the answer; None if it is answered later."""


class Processors:
    """Serves requests by a table of processors by request code; refuses requests of other codes."""

    def __init__(self, table: Mapping[int, Processor]) -> None:
        self._table = dict(table)

    def serve(self, request: Request) -> None:
        """Have a request processed, in its connection or in the actor that it was posted to."""
        code = request.header.code
        processor = self._table.get(code)
        if processor is None:
            request.refuse(REMOTING_CODE_NOT_SUPPORTED, f" request type {code} not supported")
            return
        try:
            answer = processor(request)
        except Refused as refused:
            request.fail(refused)
        except Exception as error:  # as upstream: it is the request that fails, and nothing else
            if request.refuse(REMOTING_SYSTEM_ERROR, describe(error)):
                _LOGGER.exception("request code %d from %s", code, request.channel.address)
        else:
            if answer is not None:
                request.send(answer)


def posted_to(ref: ActorRef[Request]) -> Callable[[Request], None]:
    """Return a function that hands each request to an actor as a message, in order.

    A request fails when that actor ends.
    """

    def serve(request: Request) -> None:
        request.bound_to(ref)
        if not request.answered and not ref.post(request):
            request.fail(MailboxFull(BUSY))

    return serve


class Session(Protocol):
    """Serves the requests of one connection at a port, in the connection's task."""

    @property
    def unanswered_max(self) -> int:
        """How many of them may wait for their answers; it may grow."""

    @property
    def version(self) -> int:
        """The `version` in the headers of answers."""

    def serve(self, request: Request) -> None:
        """Take a request. Must not raise."""

    def step_ended(self) -> None:
        """Note that all requests that came together have been taken."""

    def encode(self, request: Request, answer: Any) -> bytes:
        """Return the frame of an answer that is no error. Raises: LocalProtocolError."""


@attrs.define(eq=False)
class _Plain:
    """A Session whose answers are of class Answer. It is stateless, so a port needs only one."""

    _serve: Callable[[Request], None]
    unanswered_max: int
    version: int = VERSION

    def serve(self, request: Request) -> None:
        self._serve(request)

    def step_ended(self) -> None:
        """Do nothing, as nothing is kept for the end of a step."""

    def encode(self, request: Request, answer: Answer) -> bytes:
        header = reply_header(
            request.header,
            code=answer.code,
            ext_fields=answer.ext_fields,
            remark=answer.remark,
            version=self.version,
        )
        return encode_frame(header, answer.body)


def plain(
    serve: Callable[[Request], None], *, unanswered_max: int = UNANSWERED_MAX
) -> Callable[[Channel], Session]:
    """Return a function that makes sessions, which hand each request to `serve`.

    Args:
        serve: `Processors.serve`, or `posted_to` an actor.
        unanswered_max: as in `Session`.
    """
    session = _Plain(serve, unanswered_max)
    return lambda channel: session
