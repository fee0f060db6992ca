"""What the store takes and tells; import them as `store.Append` and so on."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.log_types import Message as LogMessage
from actors.log_types import NewRecord
from actors.runtime import ActorRef, ReplyTo
from actors.storage.syncer import SyncDone


@attrs.frozen(kw_only=True)
class Appended:
    """The answer to an append, sent by whoever acknowledges. Offsets as in `Waiting`."""

    first_bytes: int
    last_bytes: int
    next_bytes: int
    copies: int
    durability: str


@attrs.frozen(kw_only=True)
class Append:
    """Write the records of one caller, all or none. Masters only.

    Answered with Appended, or with an error: NotMaster, NotEnoughReplicas, LogFull, TooLarge,
    Overloaded if `deadline_s` has passed (nothing was written); NodeStopped, ReplicationTimeout
    (outcome unknown).
    """

    records: tuple[NewRecord, ...]
    deadline_s: float
    reply_to: ReplyTo[Appended]


@attrs.frozen(kw_only=True)
class AppendRaw:
    """Bytes received from the master, exactly at the log's end. Not answered; see RawRefused.

    Attributes:
        ends_frame: `data` is the last piece of a frame, so the growth is to be told.
    """

    session: int
    offset_bytes: int
    data: bytes
    ends_frame: bool


@attrs.frozen(kw_only=True)
class RawRefused:
    """To the opener of the session: bytes were not written, and no later ones of it will be."""

    session: int
    reason: str


@attrs.frozen(kw_only=True)
class OpenSession:
    """Only AppendRaw of this session counts from now on. Older numbers are ignored."""

    session: int
    source: ActorRef[RawRefused]


@attrs.frozen(kw_only=True)
class SetAdmission:
    """By the acknowledger: appends are refused from now on (NotEnoughReplicas), or are not.

    Attributes:
        refusal: why; "" lets them be written.
    """

    refusal: str


@attrs.frozen(kw_only=True)
class LogGrew:
    """To subscribers: the log's range now. Conflate it; only the newest matters."""

    min_bytes: int
    written_bytes: int
    synced_bytes: int


@attrs.frozen(kw_only=True)
class Subscribe:
    """Be told LogGrew, at once and at every change. A second of that name replaces the first."""

    subscriber: ActorRef[LogGrew]
    name: str


@attrs.frozen(kw_only=True)
class Unsubscribe:
    """No more LogGrew."""

    name: str


@attrs.frozen(kw_only=True)
class LogRange:
    """Where the log begins and ends.

    Attributes:
        folder: the folder of its files, for a LogReader.
    """

    min_bytes: int
    written_bytes: int
    synced_bytes: int
    segment_bytes: int
    folder: str


@attrs.frozen(kw_only=True)
class GetRange:
    """Answered at once."""

    reply_to: ReplyTo[LogRange]


@attrs.frozen(kw_only=True)
class Waiting:
    """An append that is written and waits for its copies.

    Attributes:
        first_bytes, last_bytes: offsets of its first and last record.
        next_bytes: end of its last record: what must be held.
        count: records.
    """

    first_bytes: int
    last_bytes: int
    next_bytes: int
    count: int
    deadline_s: float
    reply_to: ReplyTo[Appended]


@attrs.frozen(kw_only=True)
class RecordsWritten:
    """To the acknowledger: appends of one write, in log order."""

    waits: tuple[Waiting, ...]


Message: TypeAlias = (
    Append | AppendRaw | OpenSession | SyncDone | SetAdmission | Subscribe | Unsubscribe | GetRange
)


def size_of(message: object) -> int:
    """What a message counts against the bytes that may wait."""
    match message:
        case AppendRaw():
            return len(message.data)
        case Append():
            return sum(map(_body_bytes, message.records))
        case _:
            return 0


def _body_bytes(record: NewRecord) -> int:
    return len(record.body) if isinstance(record, LogMessage) else len(record)
