"""Requests of accepted connections, and what is made of them: `Processors` by their codes.

A `Request` is the right to answer it once, now or later, in any actor, in any order. What answers
it is an `Answer`, or an error: `Refused` has a code and a remark of its own, MailboxFull is code 2,
any other is code 1 with its text. Nothing is sent to who sent it one-way, whatever the outcome.

    table = Processors({RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route})  # of who serves
    session = plain(posted_to(ref))                                        # of the port

Upstream: apache/rocketmq, remoting/netty/NettyRemotingAbstract.processRequestCommand,
NettyRequestProcessor.java, 5.3.3.

Differs: a processor has no threads of its own, and never waits: what it has to wait for answers the
request later.
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
_LOGGER: Final = logging.getLogger("triolog.remoting")

S = TypeVar("S", bound=Struct)


@attrs.frozen(kw_only=True)
class Answer:
    """What a request is answered with.

    Attributes:
        code: a ResponseCode of `wire.broker.codes`.
        remark: of a failure, what happened.
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
    """An accepted connection, as those know it who serve its requests.

    All of it may be used in any actor; nothing of it waits.

    Attributes:
        tolerated: how many frames were read only as fastjson reads them.
    """

    tolerated: int

    @property
    def connection(self) -> int:
        """Its number, which does not repeat."""

    @property
    def address(self) -> Address:
        """Where the other end is."""

    @property
    def is_ended(self) -> bool:
        """Whether it takes nothing any more."""

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of frames wait until the other end takes them."""

    def on_end(self, callback: Callable[[Channel], None]) -> None:
        """Have `callback` called once when the connection ends, at once if it has.

        Args:
            callback: synchronous, short, must not raise; the same one given twice counts once.
        """

    def end(self, reason: str) -> None:
        """End the connection. Args: reason: for people."""

    def prove(self) -> None:
        """Note that it is a member's or a broker's: it comes first, and makes way for nobody."""

    def notify(
        self, code: int, *, ext_fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> bool:
        """Send the other end a one-way request.

        Returns: False if the connection has ended, or ends now because the other end does not read.
        Raises: LocalProtocolError: it fits no frame.
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

        Raises: LocalProtocolError: it fits no frame.
        """

    def take_answer(self, request: Request, answer: object) -> None:
        """For Request: what it is answered with."""

    def reserve(self, request: Request, cost_bytes: int) -> bool:
        """For Request: see there."""

    def refused(self, header: Header, reason: str) -> bool:
        """Count a frame that reached nobody who serves such. Returns: whether it was reported."""


class Request(ReplyTo[Answer]):
    """One request. `send`, `fail` and `bound_to` are ReplyTo's.

    Attributes:
        body: b"" where there is none; who has decoded it may put b"" here.
        loose: whether the header needed fastjson's tolerance.
        size_bytes: by which it is counted until it is answered.
        cost_bytes: see `reserve`; 0: nothing is reserved.
        outcome: for the connection: the answer, from when it is given to when it is encoded.
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
        """The extFields as an object of a class that says what they are; see `read_fields`.

        Raises: Refused: with `code`, because one is missing or not of its kind; the remark names
            it.
        """
        try:
            return read_fields(self.header, type_)
        except RemoteProtocolError as error:
            raise Refused(code, str(error)) from None

    def refuse(self, code: int, remark: str) -> bool:
        """Refuse what reaches nobody who serves such, and count it. Returns: whether that was
        reported.
        """
        reported = self.channel.refused(self.header, remark)
        self.fail(Refused(code, remark))
        return reported

    def reserve(self, cost_bytes: int) -> bool:
        """Whether the port has room for an answer that holds so much while it is encoded; it is the
        answer's then.
        """
        return self.channel.reserve(self, cost_bytes)

    def _settle(self, value: Any, error: Exception | None) -> None:
        self.channel.take_answer(self, value if error is None else error)


Processor: TypeAlias = Callable[[Request], Answer | None]
"""What is done with a request, synchronously. None: it is answered later."""


class Processors:
    """A table of processors by request code, and what happens where it has none."""

    def __init__(self, table: Mapping[int, Processor]) -> None:
        self._table = dict(table)

    def serve(self, request: Request) -> None:
        """Have a request processed, at a connection or in the actor that it was posted to."""
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
    """What hands each request to an actor as a message, in order; it fails when that actor ends."""

    def serve(request: Request) -> None:
        request.bound_to(ref)
        if not request.answered and not ref.post(request):
            request.fail(MailboxFull(BUSY))

    return serve


class Session(Protocol):
    """What a port does with the requests of one connection, in the connection's task."""

    @property
    def version(self) -> int:
        """The `version` in the headers of answers."""

    def serve(self, request: Request) -> None:
        """Take a request. Must not raise."""

    def step_ended(self) -> None:
        """The requests that came together have all been taken."""

    def encode(self, request: Request, answer: Any) -> bytes:
        """The frame of an answer that is no error. Raises: LocalProtocolError."""


@attrs.frozen
class _Plain:
    """A Session whose answers are of class Answer. It keeps nothing, so one does for a port."""

    _serve: Callable[[Request], None]
    version: int = VERSION

    def serve(self, request: Request) -> None:
        self._serve(request)

    def step_ended(self) -> None:
        """Nothing is kept for the end of a step."""

    def encode(self, request: Request, answer: Answer) -> bytes:
        header = reply_header(
            request.header,
            code=answer.code,
            ext_fields=answer.ext_fields,
            remark=answer.remark,
            version=self.version,
        )
        return encode_frame(header, answer.body)


def plain(serve: Callable[[Request], None]) -> Callable[[Channel], Session]:
    """Sessions that hand each request to `serve`: a table's, or `posted_to` an actor."""
    session = _Plain(serve)
    return lambda channel: session
