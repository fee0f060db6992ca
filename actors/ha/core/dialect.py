"""The wire dialect of a group as one object: its codecs, limits and start rule, and its strictness.

The sockets' actors know only this protocol. RocketMQ 5's auto-switch dialect (handshake, epochs,
confirm offset in the header) is another implementation of it beside `ClassicDialect`, not another
set of sockets.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from actors.ha.core.start_rule import FirstByte, LastFile, StartRule
from wire.ha import classic
from wire.ha.frames import FrameDecoder, FrameMeter, FrameStarted


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
    def frame_header_bytes(self) -> int: ...
    @property
    def frame_body_max_bytes(self) -> int:
        """The largest body that every peer of this dialect can take."""

    def encode_report(self, offset_bytes: int) -> bytes: ...
    def encode_frame_header(self, offset_bytes: int, size_bytes: int) -> bytes: ...
    def report_decoder(self) -> classic.ReportDecoder:
        """A new decoder for one connection, master side."""

    def frame_decoder(self) -> FrameDecoder[FrameStarted]:
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
    frame_header_bytes = classic.FRAME_HEADER_BYTES
    frame_body_max_bytes = classic.FRAME_BODY_MAX

    def encode_report(self, offset_bytes: int) -> bytes:
        return classic.encode_report(offset_bytes)

    def encode_frame_header(self, offset_bytes: int, size_bytes: int) -> bytes:
        return classic.encode_frame_header(offset_bytes, size_bytes)

    def report_decoder(self) -> classic.ReportDecoder:
        return classic.ReportDecoder()

    def frame_decoder(self) -> FrameDecoder[FrameStarted]:
        return FrameDecoder(classic.FRAME_HEADER)

    def frame_meter(self) -> FrameMeter:
        return FrameMeter(classic.FRAME_HEADER)


def classic_dialect(compat: str | None) -> ClassicDialect:
    """The classic dialect as `compat` asks for it: "upstream" or None."""
    assert compat in (None, "upstream")
    return ClassicDialect(LastFile(), upstream=True) if compat == "upstream" else ClassicDialect()
