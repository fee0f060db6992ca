"""Frames of a node's API socket: what clients and other nodes ask a node, and what it answers.

There is no upstream for this protocol; it stands beside RocketMQ's remoting, and replaces none of
it.

Carrier: WebSocket messages. A binary message is one MessagePack map, a text message one JSON object
with the same keys and values (bytes as Base64). The node answers in the encoding of the `hello`;
one connection uses one encoding.

From version 2 on a message may also hold many frames: `wire.api.gather`.

Binary frame, by byte (MessagePack; all lengths big-endian):

| Offset | Width | Type | Field | Meaning |
|---|---|---|---|---|
| 0 | 1 | 0x80+n | map header | n = 1 + number of the frame's fields (0xde + 2 bytes from 16 on) |
| 1 | 5 | 0xa4 "type" | key | first key of every frame, so its kind is known early |
| 6 | 1+k | 0xa0+k, UTF-8 | frame name | first column of the table below, k <= 31 |
| 7+k | 3 | 0xa2 "id" | key | every frame but `failed` for an unreadable request has one |
| 10+k | 1-9 | unsigned | request number | the client's, 0..2**53-1; answers and pushes repeat it |
| .. | | str key, value | other fields | in the order of the table; unknown keys are skipped |

A record inside is either `bin` (0xc4/0xc5/0xc6 + length + payload: a plain record) or an array. As
JSON:
`{"type":"append","id":7,"group":"orders","records":["aGVsbG8=",["Ym9keQ==","topic","tag",["key"],[["a","b"]],0]]}`

Requests, and what answers each (`failed` is possible for all):

| Frame | Fields beside `id` | Answer |
|---|---|---|
| hello | version, name, nonce, proof | welcome: the first frame of each connection, and only that |
| append | group, records, chain | appended; in order, none behind a failed one of its chain |
| read | group, start, max_bytes, fresh | batch, or stored: see `ReadAnswer` |
| tail | group, start (null: end), max_bytes, credit_bytes | batch or stored, many, for credit |
| grant | credit (more bytes or lines that may be sent); `id` of the subscription | none |
| cancel | `id` of the subscription | ended |
| get_offsets | group | offsets |
| watch_offsets | group | offsets, at once and after changes; the newest replaces unsent ones |
| get_group | group | group: what the node is in that group |
| watch_group | group | group, at once and when the node's part changes, not for growth alone |
| fence | group, number, on | group: the master takes no appends until the promotion is over |
| record | group, number, master, token, force | group, once the node acts by that promotion |
| resync | group | resynced: one free-form value |
| repair | group, source (null: any) | repaired: one free-form value |
| get_range | group, start | range: bytes of the log, for a member that mends its own |
| transfer | group, node (null: the furthest) | transferred: one free-form value, by the leader |
| get_status, get_tree | | status, tree: one free-form value |
| tail_events | credit_lines | events, many: lines as they stand in the event log |
| promote | group, node (null: the furthest), force | promoted: one free-form value |
| stop | | stopping: the node begins its ordered stop |

`failed` carries the class name of `actors.errors` where there is one, else one of the ERROR_ names
below. A frame that cannot be read is answered by one `failed` (`id` null, error `BadFrame`) and a
close with code 1002.

Over TCP a node sends a challenge with its half of the opening handshake (`wire.api.proof`). Who
proves to have the cluster's secret may ask anything there, others may only read (`READS`); the node
proves itself in its welcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from wire.api.proof import PROOF_BYTES
from wire.errors import LocalProtocolError, RemoteProtocolError

PROTOCOL_VERSION = 3
VERSION_MIN = 1
VERSION_STORED = 3
"""The first version of the protocol whose clients know `stored`; earlier ones know only `batch`."""

NAME_CHARS_MAX = 255
ID_MAX = 2**53 - 1
"""The largest integer that JSON readers in browsers hold exactly."""
POSITION_MAX = 2**63 - 1
NUMBER_MAX = 3 << 61
"""The largest value of numbers that rise by one, such as those of starts and promotions. None gets
there by itself, and after a larger one there would soon be no next. Older versions allowed 2^62, so
a group that has such a number by a mistake still works.
"""
EPOCHS_MAX = 256
"""The longest history that is sent; its owner keeps no longer one either."""

FRAME_BYTES_MAX = 6 << 20
"""The largest frame in either direction. Upstream's largest message body has 4 MiB, which are 5.6
MiB as Base64 in JSON."""
BODY_BYTES_MAX = 4 << 20
"""The largest body with which a record surely fits into a frame, in either encoding."""
RECORDS_PER_APPEND_MAX = 16_384
"""The most records in one append. Small ones cost the node about 10 us each, so this bounds how
long one batch may occupy it.
"""
READ_BYTES_MAX = 1 << 20
"""The upper bound of `max_bytes`, in log bytes; a single larger record is still returned."""
CREDIT_MAX = 64 << 20
"""The upper bound of the outstanding credit of one subscription, in bytes or lines."""

ERROR_BAD_FRAME = "BadFrame"
ERROR_BAD_REQUEST = "BadRequest"
ERROR_UNKNOWN_GROUP = "UnknownGroup"
ERROR_NOT_AVAILABLE = "NotAvailable"
ERROR_VERSION = "VersionNotSupported"
ERROR_INTERNAL = "Internal"
ERROR_PERMISSION = "PermissionDenied"

Id: TypeAlias = Annotated[int, Meta(ge=0, le=ID_MAX)]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=POSITION_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=POSITION_MAX)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Pairs: TypeAlias = tuple[tuple[str, str], ...]
Credit: TypeAlias = Annotated[int, Meta(ge=1, le=CREDIT_MAX)]
ReadBytes: TypeAlias = Annotated[int, Meta(ge=1, le=READ_BYTES_MAX)]


Proof: TypeAlias = Annotated[bytes, Meta(max_length=PROOF_BYTES)]


RANGE_BYTES_MAX: Final = 4 << 20
"""The most bytes of the log in one `range`: the largest entry of a DLedger group. A range of a
classic group has 64 KiB, and one digest.
"""


class Frame(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all frames; the tag is in `type`."""


class Numbered(Frame, frozen=True, kw_only=True):
    """A frame with a request's number."""

    id: Id


class OfGroup(Numbered, frozen=True, kw_only=True):
    """A request about one group."""

    group: Name


class Answered(Numbered, frozen=True, kw_only=True):
    """Base of answers that are one free-form value."""

    value: dict[str, Any]


class Hello(Numbered, frozen=True, kw_only=True, tag="hello", omit_defaults=True):
    """The first request of a connection.

    Fields: `version`: the highest that the client speaks. `name`: what the client calls itself,
    shown in events and the tree. `nonce`, `proof`: empty for a client without the secret, see
    `wire.api.proof`.
    """

    version: Annotated[int, Meta(ge=1, le=65_535)]
    name: Name
    nonce: Proof = b""
    proof: Proof = b""


class Welcome(Numbered, frozen=True, kw_only=True, tag="welcome", omit_defaults=True):
    """The answer to `hello`.

    Fields: `version`: the one that both speak from now on. The limits are what this node accepts
    from this connection. `proof`: the node's proof, to a client that has proved itself.
    """

    version: int
    cluster: str
    node: str
    boot: int
    groups: tuple[str, ...]
    frame_bytes_max: int
    records_per_append_max: int
    in_flight_requests_max: int
    in_flight_bytes_max: int
    proof: Proof = b""


class NewMessage(Struct, frozen=True, array_like=True):
    """A record with more than a body.

    It is an array of body, topic, tags, keys, properties, queue_id, whose end may be left out.
    """

    body: bytes
    topic: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)] | None = None
    tags: str = ""
    keys: tuple[str, ...] = ()
    properties: Pairs = ()
    queue_id: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


# --- requests ---


class Append(OfGroup, frozen=True, kw_only=True, tag="append", omit_defaults=True):
    records: Annotated[
        tuple[bytes | NewMessage, ...], Meta(min_length=1, max_length=RECORDS_PER_APPEND_MAX)
    ]
    chain: Id = 0


class Read(OfGroup, frozen=True, kw_only=True, tag="read"):
    start: Position
    max_bytes: ReadBytes
    fresh: bool = False


class Tail(OfGroup, frozen=True, kw_only=True, tag="tail"):
    start: Position | None
    max_bytes: ReadBytes
    credit_bytes: Credit


class Grant(Numbered, frozen=True, kw_only=True, tag="grant"):
    credit: Credit


class Cancel(Numbered, frozen=True, kw_only=True, tag="cancel"):
    pass


class GetOffsets(OfGroup, frozen=True, kw_only=True, tag="get_offsets"):
    pass


class WatchOffsets(OfGroup, frozen=True, kw_only=True, tag="watch_offsets"):
    pass


class GetStatus(Numbered, frozen=True, kw_only=True, tag="get_status"):
    pass


class GetTree(Numbered, frozen=True, kw_only=True, tag="get_tree"):
    pass


class TailEvents(Numbered, frozen=True, kw_only=True, tag="tail_events"):
    credit_lines: Credit


class Promote(OfGroup, frozen=True, kw_only=True, tag="promote"):
    node: Name | None = None
    force: bool = False


class GetRange(OfGroup, frozen=True, kw_only=True, tag="get_range"):
    """Asks for a range of a member's log, for `repair`.

    In a classic group it is the range that holds byte `start`, or the synced part of it; in a
    DLedger group it is the entry with index `start`.
    """

    start: Position


class Repair(OfGroup, frozen=True, kw_only=True, tag="repair"):
    """Asks to mend the log with bytes of the member `source`; null: of any that has them."""

    source: Name | None = None


class GetGroup(OfGroup, frozen=True, kw_only=True, tag="get_group"):
    pass


class WatchGroup(OfGroup, frozen=True, kw_only=True, tag="watch_group"):
    pass


class Fence(OfGroup, frozen=True, kw_only=True, tag="fence"):
    """Asks a member to hold a coordinator's claim, which fences a master.

    Fields: `number`: the number of the promotion that is about to take place. `on`: false takes the
    claim back. The others are those of `actors.log_types.Claim`.
    """

    number: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    on: bool
    token: Count = 0
    by: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    master: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    again: bool = False
    kept: bool = False
    force: bool = False


class Record(OfGroup, frozen=True, kw_only=True, tag="record"):
    """Asks a member to record that `master` is the group's master by promotion `number`.

    Fields: `force`: whether that master opens without having heard other members, whatever was
    lost. `token`: the token of the coordinator's claim.
    """

    number: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    master: Name
    token: Count = 0
    force: bool = False


class Resync(OfGroup, frozen=True, kw_only=True, tag="resync"):
    pass


class Transfer(OfGroup, frozen=True, kw_only=True, tag="transfer"):
    """Asks to have `node` lead a DLedger group; null: the member that has most of the log."""

    node: Name | None = None


class Stop(Numbered, frozen=True, kw_only=True, tag="stop"):
    pass


# --- answers and pushes ---


class Appended(Numbered, frozen=True, kw_only=True, tag="appended"):
    first: Position
    last: Position
    next: Position
    count: Count
    copies: Count
    durability: str


class StoredRecord(Struct, frozen=True, array_like=True):
    """A record as it is read, an array in this order; see `actors.log_types.Record`."""

    position: Position
    next_position: Position
    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    tags: str
    keys: tuple[str, ...]
    properties: Pairs
    store_timestamp_ms: int
    born_timestamp_ms: int


class ReadAnswer(Numbered, frozen=True, kw_only=True):
    """Base of the answer to a read and of the push to a tail, in two forms.

    `batch` has decoded records, for text and for clients of versions 1 and 2. `stored`, from
    version 3 on and only in binary, has the bytes as the log's files hold them
    (`wire.files.message_record`, `wire.dledger.entry`), which the client decodes and checks. A node
    would spend some 20 us on each record of a batch; it spends half a microsecond on a stored one.
    """


class Batch(ReadAnswer, frozen=True, kw_only=True, tag="batch"):
    """Decoded records. `cost_bytes` is taken from a tail's credit; 0 in the answer to a read."""

    records: tuple[StoredRecord, ...]
    next: Position
    acknowledged: Position
    end: Position
    lag_bytes: Count
    cost_bytes: Count = 0


class Stored(ReadAnswer, frozen=True, kw_only=True, tag="stored"):
    """Whole records as they are stored, one after the other.

    Fields: `start`: the log position of the first byte of `data` (an index for entries). `entries`:
    whether they are DLedger entries; otherwise they are messages of a commit log. `skips_empty`:
    whether an entry without a body is no record. `cost_bytes`: what they take from a tail's credit;
    0 in the answer to a read.
    """

    start: Position
    data: bytes
    entries: bool
    skips_empty: bool
    next: Position
    acknowledged: Position
    end: Position
    lag_bytes: Count
    cost_bytes: Count = 0


class Offsets(Numbered, frozen=True, kw_only=True, tag="offsets"):
    min: Position
    written: Position
    synced: Position
    acknowledged: Position
    master: str | None


class Status(Answered, frozen=True, kw_only=True, tag="status"):
    pass


class Tree(Answered, frozen=True, kw_only=True, tag="tree"):
    pass


class Events(Numbered, frozen=True, kw_only=True, tag="events"):
    """Pushes event lines. `missed`: how many events before them were dropped for slowness."""

    lines: tuple[str, ...]
    missed: Count


class Promoted(Answered, frozen=True, kw_only=True, tag="promoted"):
    pass


class Stopping(Numbered, frozen=True, kw_only=True, tag="stopping"):
    pass


class Ended(Numbered, frozen=True, kw_only=True, tag="ended"):
    """The subscription `id` sends nothing more."""


class Range(Numbered, frozen=True, kw_only=True, tag="range"):
    """A range of a log.

    Fields: `start`: where the range begins. `digest`: the CRC-32 of `data`, made when the bytes
    were written, or when their records were parsed.
    """

    start: Position
    data: Annotated[bytes, Meta(min_length=1, max_length=RANGE_BYTES_MAX)]
    digest: Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Repaired(Answered, frozen=True, kw_only=True, tag="repaired"):
    pass


class Resynced(Answered, frozen=True, kw_only=True, tag="resynced"):
    pass


class Transferred(Answered, frozen=True, kw_only=True, tag="transferred"):
    pass


class Epoch(Struct, frozen=True, array_like=True):
    """An epoch, an array in this order.

    Fields: `number`: the number of the promotion; 0 for the cluster file's master. `token`: 0 for
    an epoch from before epochs had tokens. `master`. `start`: the position where the log ended when
    it began.
    """

    number: Number
    token: Annotated[int, Meta(ge=0, le=POSITION_MAX)]
    master: str
    start: Position


class Group(Numbered, frozen=True, kw_only=True, tag="group"):
    """What one node is in one group, with the fields of `actors.log_types.GroupState`."""

    group: str
    cluster: str
    node: str
    boot: Number
    role: str
    state: str
    reason: str
    opened: bool
    number: Number
    master: str
    history: Annotated[tuple[Epoch, ...], Meta(max_length=EPOCHS_MAX)]
    min: Position
    written: Position
    synced: Position
    acknowledged: Position
    high_water: Position
    unanswered: Count
    claimed: Number = 0
    forgot: str = ""
    damage: str = ""
    forced: bool = False
    no_room: str = ""


class Failed(Frame, frozen=True, kw_only=True, tag="failed"):
    """The error that a request ended with.

    Fields: `hint`: with NotMaster, the name of the master. `first`, `last`: with an unknown
    outcome, the positions in doubt, if they are known. `next`: the position after them, which
    older nodes do not say.
    """

    id: Id | None
    error: Name
    message: str
    hint: str | None = None
    first: Position | None = None
    last: Position | None = None
    next: Position | None = None


Request: TypeAlias = (
    Hello
    | Append
    | Read
    | Tail
    | Grant
    | Cancel
    | GetOffsets
    | WatchOffsets
    | GetStatus
    | GetTree
    | TailEvents
    | Promote
    | Stop
    | GetGroup
    | WatchGroup
    | Fence
    | Record
    | Resync
    | Transfer
    | GetRange
    | Repair
)
Answer: TypeAlias = (
    Welcome
    | Appended
    | Batch
    | Stored
    | Offsets
    | Status
    | Tree
    | Events
    | Promoted
    | Stopping
    | Ended
    | Failed
    | Group
    | Resynced
    | Transferred
    | Range
    | Repaired
)

READS = (
    Read,
    Tail,
    Grant,
    Cancel,
    GetOffsets,
    WatchOffsets,
    GetGroup,
    WatchGroup,
    GetStatus,
    GetTree,
    TailEvents,
)
"""Requests that change nothing. All others need a proof over TCP."""

_ENCODE_BINARY = msgspec.msgpack.Encoder().encode
_ENCODE_TEXT = msgspec.json.Encoder().encode


def encode(frame: Request | Answer, *, text: bool = False) -> bytes | str:
    """Encode one frame as a WebSocket message: bytes, or str with `text`.

    Raises: LocalProtocolError: the frame is above FRAME_BYTES_MAX, or holds a value that cannot be
        encoded.
    """
    try:
        data = _ENCODE_TEXT(frame) if text else _ENCODE_BINARY(frame)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(f"cannot encode {type(frame).__name__}: {error}") from error
    if len(data) > FRAME_BYTES_MAX:
        raise LocalProtocolError(
            f"{type(frame).__name__} of {len(data)} bytes is above {FRAME_BYTES_MAX} bytes"
        )
    return data.decode() if text else data


def check_size(data: bytes | str) -> None:
    """Check a message's size. Raises: RemoteProtocolError: it is above FRAME_BYTES_MAX."""
    if len(data) > FRAME_BYTES_MAX:
        raise RemoteProtocolError(
            f"frame: expected at most {FRAME_BYTES_MAX} bytes, found {len(data)}"
        )


def decoder(kind: Any, what: str) -> Callable[[bytes | str], Any]:
    """Return a function that decodes a WebSocket message.

    The function raises RemoteProtocolError, and no other error.

    Args:
        kind: the type of what a message holds.
        what: the beginning of the error's text.
    """
    binary, as_text = msgspec.msgpack.Decoder(kind), msgspec.json.Decoder(kind)

    def decode(data: bytes | str) -> Any:
        check_size(data)
        try:
            return as_text.decode(data) if isinstance(data, str) else binary.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise RemoteProtocolError(f"{what}: {error}") from error

    return decode


REQUEST_PROBLEM: Final = "the request cannot be decoded"
ANSWER_PROBLEM: Final = "unreadable answer"
decode_request: Callable[[bytes | str], Request] = decoder(Request, REQUEST_PROBLEM)
"""Decodes the one request of a message. Raises: RemoteProtocolError, and no other."""
decode_answer: Callable[[bytes | str], Answer] = decoder(Answer, ANSWER_PROBLEM)
"""Decodes the one answer or push of a message. Raises: RemoteProtocolError, and no other."""
