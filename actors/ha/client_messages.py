"""What the HAClient tells itself, and its live connection; `SetMaster` is the one for others."""

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


@attrs.frozen(kw_only=True)
class SetMaster:
    """The master's address is another one: leave the old connection, take the new address."""

    address: Address


@attrs.frozen(kw_only=True)
class Connected:
    """Feeder: the stream of this session is in `_arrived`."""

    session: int


@attrs.frozen(kw_only=True)
class Received:
    """Feeder: bytes of the master, in the order in which they came.

    Attributes:
        size_bytes: of all pieces.
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
    """Where the store's log ends, after all that earlier sessions gave it."""

    session: int
    outcome: store_messages.LogRange | Exception


@attrs.frozen(kw_only=True)
class Judged:
    """The role keeper's word on this session."""

    session: int
    outcome: Verified | Exception


@attrs.frozen(kw_only=True)
class RecordsSeen:
    """Feeder: the verifier has made a step, or could not read."""

    error: Exception | None


@attrs.frozen(kw_only=True)
class Tick:
    """Timer: report, silence, or the next attempt."""


@attrs.frozen(kw_only=True)
class HighWaterDue:
    """Timer: the role keeper has not been told for a second."""


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
    """What the store is told of pieces that follow each other; `held`: the bytes that were kept,
    for the one piece that has none.
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
class Connection:
    """The live connection. `progress` comes with the store's answer.

    Attributes:
        whole_at_bytes: the role keeper waits for a report of so much; None: for none.
    """

    stream: Stream
    send: SendHalf
    opened_s: float
    verified: bool = False
    whole_at_bytes: int | None = None
    progress: SlaveProgress | None = None
    received_bytes: int = 0
    meter: RateLimiter = attrs.field(factory=RateLimiter)
