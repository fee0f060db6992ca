"""The wire dialect of a group as one object: its codecs, limits and start rule, and its strictness.

The sockets' actors know only this protocol. `ClassicDialect` is here; RocketMQ 5's auto-switch
dialect (`autoswitch_dialect`) begins with a handshake, and its headers say more. What a slave says
is a request in either: a handshake, or a report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import attrs

from actors.ha.core.extent import LogExtent
from actors.ha.core.start_rule import FirstByte, LastFile, StartRule
from wire.buffer import NeedData
from wire.ha import classic
from wire.ha.autoswitch import HandshakeRequest, MasterMessage, SlaveMessage
from wire.ha.frames import FrameDecoder, FrameMeter, FrameStarted


class RequestDecoder(Protocol):
    """The master's side of one connection: takes bytes from a slave, and returns its requests."""

    def receive_data(self, data: bytes) -> None: ...
    def next_message(self) -> SlaveMessage | Literal[NeedData.NEED_DATA]:
        """Return the next request, or NEED_DATA. Raises: RemoteProtocolError, for ever."""


class Handshake(Protocol):
    """The phase of a connection before its first report. A slave is known by what it says there; in
    a dialect without it, by its address.
    """

    @property
    def request(self) -> bytes:
        """What a slave sends first."""

    def identify(self, request: HandshakeRequest) -> str:
        """The name of the replica that says this; "" if it is none of the group's."""

    def answer(self, extent: LogExtent) -> bytes:
        """What the master answers, whose log is `extent`."""

    def start_rule(self, request: HandshakeRequest) -> StartRule:
        """Where to begin to send to this slave."""


class Dialect(Protocol):
    """What master and slave send each other, and where the master begins to send."""

    @property
    def name(self) -> str: ...
    @property
    def start_rule(self) -> StartRule: ...
    @property
    def upstream(self) -> bool:
        """Whether reports and frames are believed as RocketMQ believes them (`compat`)."""

    @property
    def handshake(self) -> Handshake | None:
        """How a connection begins; None if it begins with a report."""

    @property
    def stretch_end(self) -> Callable[[int], int] | None:
        """Gives, for an offset, the end of what a frame from there on may hold beside its other
        limits; None: there are no others.
        """

    @property
    def frame_header_bytes(self) -> int: ...
    @property
    def frame_body_max_bytes(self) -> int:
        """The largest body that every peer of this dialect can take."""

    def encode_report(self, offset_bytes: int) -> bytes: ...
    def encode_frame_header(self, offset_bytes: int, size_bytes: int) -> bytes: ...
    def request_decoder(self) -> RequestDecoder:
        """A new decoder for one connection, master side."""

    def frame_decoder(self) -> FrameDecoder[FrameStarted] | FrameDecoder[MasterMessage]:
        """A new decoder for one connection, slave side."""

    def frame_meter(self) -> FrameMeter:
        """A new meter for one connection, used beside the decoder by the task that reads the
        stream.
        """


@attrs.frozen
class ClassicDialect:
    """RocketMQ's classic HA, unchanged from 3.x to 5.3.3 (classic-ha.md 2)."""

    start_rule: StartRule = attrs.field(factory=FirstByte)
    upstream: bool = False
    name = "classic"
    handshake = None
    stretch_end = None
    frame_header_bytes = classic.FRAME_HEADER_BYTES
    frame_body_max_bytes = classic.FRAME_BODY_MAX

    def encode_report(self, offset_bytes: int) -> bytes:
        return classic.encode_report(offset_bytes)

    def encode_frame_header(self, offset_bytes: int, size_bytes: int) -> bytes:
        return classic.encode_frame_header(offset_bytes, size_bytes)

    def request_decoder(self) -> RequestDecoder:
        return classic.ReportDecoder()

    def frame_decoder(self) -> FrameDecoder[FrameStarted]:
        return FrameDecoder(classic.FRAME_HEADER)

    def frame_meter(self) -> FrameMeter:
        return FrameMeter(classic.FRAME_HEADER)


def classic_dialect(compat: str | None) -> ClassicDialect:
    """The classic dialect as `compat` asks for it: "upstream" or None."""
    assert compat in (None, "upstream")
    return ClassicDialect(LastFile(), upstream=True) if compat == "upstream" else ClassicDialect()
