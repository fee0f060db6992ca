"""The messages of HAClient, of which others send `SetMaster` alone, and its open connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from actors.env.protocols import Address, Held, SendHalf, Stream
from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.slave_progress import Append, SlaveProgress
from actors.ha.core.states import Lost
from actors.ha.role_messages import Verified
from actors.storage.commitlog import store_messages
from actors.storage.scrub import scrubber_messages
from wire.buffer import NEED_DATA
from wire.errors import RemoteProtocolError
from wire.ha.autoswitch import HandshakeAnswer, MasterMessage
from wire.ha.frames import FrameDecoder, FrameStarted


@attrs.frozen(kw_only=True)
class SetMaster:
    """The master has another address: end the old connection, and connect there."""

    address: Address


@attrs.frozen(kw_only=True)
class Connected:
    """Feeder: the stream of this session is in `_arrived`."""

    session: int


@attrs.frozen(kw_only=True)
class Received:
    """Feeder: bytes of the master, in the order in which they came.

    Attributes:
        size_bytes: the size of all pieces together.
    """

    session: int
    pieces: tuple[bytes | Held, ...]
    size_bytes: int


@attrs.frozen(kw_only=True)
class StreamEnded:
    """Feeder: the attempt failed or the stream ended."""

    session: int
    reason: Lost
    detail: str


@attrs.frozen(kw_only=True)
class RangeAnswered:
    """The store's answer: where its log ends, after all that earlier sessions gave it."""

    session: int
    outcome: store_messages.LogRange | Exception


@attrs.frozen(kw_only=True)
class Judged:
    """The judge's verdict on this session."""

    session: int
    outcome: Verified | Exception


@attrs.frozen(kw_only=True)
class RecordsSeen:
    """Feeder: the verifier has made a step, or could not read."""

    error: Exception | None


@attrs.frozen(kw_only=True)
class Tick:
    """Timer: a report, the end of a silent connection, or the next attempt is due."""


@attrs.frozen(kw_only=True)
class HighWaterDue:
    """Timer: the role keeper was sent nothing for a second."""


Message: TypeAlias = (
    SetMaster | store_messages.LogGrew | store_messages.RawRefused | scrubber_messages.CopyState
)
Inbox: TypeAlias = (
    Message
    | Connected
    | Received
    | StreamEnded
    | RangeAnswered
    | Judged
    | RecordsSeen
    | Tick
    | HighWaterDue
)


def size_of(message: Inbox) -> int:
    return message.size_bytes if isinstance(message, Received) else 0


def received(session: int, pieces: tuple[bytes | Held, ...]) -> Received:
    return Received(session=session, pieces=pieces, size_bytes=sum(map(len, pieces)))


def raw_append(
    session: int, appends: Sequence[Append], held: Held | None
) -> store_messages.AppendRaw:
    """The message that gives pieces which follow each other to the store.

    Args:
        held: the bytes that were kept in the system, for the one piece that has none.
    """
    first = appends[0]
    data = held if first.data is None else first.data
    assert data is not None  # KeptByWhoSaidSo
    if len(appends) > 1:
        data = b"".join(piece.data for piece in appends if piece.data is not None)
    return store_messages.AppendRaw(
        session=session,
        offset_bytes=first.offset_bytes,
        data=data,
        ends_frame=any(piece.ends_frame for piece in appends),
    )


@attrs.define
class AwaitedAnswer:
    """The answer to a handshake, as it comes.

    Attributes:
        until_s: when it is given up.
    """

    until_s: float
    _decoder: FrameDecoder[FrameStarted] | FrameDecoder[MasterMessage]

    def received(self, data: bytes) -> HandshakeAnswer | None:
        """Take bytes from the master. Raises: RemoteProtocolError: they are no answer alone."""
        self._decoder.receive_data(data)
        answer = self._decoder.next_event()
        if answer is NEED_DATA:
            return None
        if not isinstance(answer, HandshakeAnswer) or self._decoder.next_event() is not NEED_DATA:
            raise RemoteProtocolError("frames came before the first report")
        return answer


@attrs.define
class Connection:
    """The open connection.

    Attributes:
        awaited: the answer to the handshake that was sent; None: none is awaited.
        answer: that answer.
        progress: the decisions; None until the store has answered where its log ends.
        whole_at_bytes: the offset whose report the role keeper waits for; None: it waits for none.
    """

    stream: Stream
    send: SendHalf
    opened_s: float
    verified: bool = False
    whole_at_bytes: int | None = None
    awaited: AwaitedAnswer | None = None
    answer: HandshakeAnswer | None = None
    progress: SlaveProgress | None = None
    received_bytes: int = 0
    meter: RateLimiter = attrs.field(factory=RateLimiter)
