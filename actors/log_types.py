"""The values that cross every edge of a log: what is appended, what is answered, what is read.

Layer L1, without Trio: the API socket, the embedding API, the client and Spark share them.
Positions are what the group's log counts in: physical offsets in bytes for a classic group, indexes
of entries for a DLedger group.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from actors.epochs import History

Properties: TypeAlias = tuple[tuple[str, str], ...]


def _keys(value: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(value.split()) if isinstance(value, str) else tuple(value)


def _properties(value: Mapping[str, str] | Iterable[tuple[str, str]]) -> Properties:
    return tuple(value.items()) if isinstance(value, Mapping) else tuple(value)


def _pairs_of_text(message: Message, _: object, pairs: Properties) -> None:
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(word, str) for word in pair):
            raise TypeError(f"properties: expected pairs of str, found {pair!r}")


def _of_type(kind: type) -> Callable[[Message, attrs.Attribute[Any], object], None]:
    """As attrs' own, with a message for people."""

    def check(message: Message, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            found = type(value).__name__
            raise TypeError(f"{field.name}: expected {kind.__name__}, found {found}")

    return check


_TEXT = _of_type(str)


def _each_text(message: Message, field: attrs.Attribute[Any], words: tuple[object, ...]) -> None:
    for word in words:
        _TEXT(message, field, word)


class Membership(enum.StrEnum):
    """Whether a DLedger member holds what it has acknowledged, so that its vote counts by itself.

    FULL: it does. The votes of the others count only if all members vote. NEW: it has never held
    what a leader of its group had, or its whole disk is lost. FORGOT: its log alone is lost.
    """

    FULL = "full"
    NEW = "new"
    FORGOT = "forgot"


@attrs.frozen
class Message:
    """One record to append, in groups that carry messages (a classic group always does).

    A wrong type is refused here, with TypeError; limits on sizes when it is appended.

    Attributes:
        topic: where readers by topic find it; None: the topic named after the group.
        body: the payload; the group's limit on its size is checked when it is appended.
        tags: the one tag that subscribers filter by; "" for none.
        keys: what the record can be looked up by; one string is split at spaces, as upstream does.
        properties: further name-value pairs, in order; a mapping is accepted.
        queue_id: which queue of the topic it goes to, from 0.
    """

    topic: str | None = attrs.field(validator=attrs.validators.optional(_TEXT))
    body: bytes = attrs.field(validator=_of_type(bytes))
    tags: str = attrs.field(default="", validator=_TEXT)
    keys: tuple[str, ...] = attrs.field(default=(), converter=_keys, validator=_each_text)
    properties: Properties = attrs.field(
        default=(), converter=_properties, validator=_pairs_of_text
    )
    queue_id: int = attrs.field(default=0, validator=_of_type(int))


NewRecord: TypeAlias = bytes | Message
"""What `append` takes: plain bytes are a message without a topic, tags, keys or properties."""


@attrs.frozen(kw_only=True)
class Receipt:
    """The answer to one append: its records are as safe as the group promises.

    Attributes:
        first: position of the first record.
        last: position of the last record.
        next: the position after the last record.
        count: number of records.
        copies: distinct nodes that held all of them when this was answered, the master among them.
        durability: "written" or "synced": what each copy (Java slaves excepted) had done with them.
        results: what the group's state machine gave for each record; () without one, and from
            another process.
    """

    first: int
    last: int
    next: int
    count: int
    copies: int
    durability: str
    results: tuple[object, ...] = ()


@attrs.frozen
class Left:
    """A record that an `Appender` has no receipt for.

    Attributes:
        number: how many records were sent to that appender before it.
        in_doubt: it may be stored; otherwise it is not.
    """

    number: int
    record: NewRecord
    in_doubt: bool


@attrs.frozen(kw_only=True)
class Record:
    """One record as read.

    An entry of a DLedger group is plain bytes: it has positions and a body, and nothing else here
    says anything of it. Its `topic` is "", which no message's is.

    Attributes:
        position: where it stands in the log; `Reader(start=position)` reads it again.
        next_position: where a reader continues after it.
        topic: the topic's name; "" of what is no message.
        queue_id: the queue of the topic.
        queue_offset: its number in that queue, from 0 without gaps.
        body: the payload.
        tags: its tag, "" for none.
        keys: what it can be looked up by.
        properties: all other properties, in stored order.
        store_timestamp_ms: the master's clock when it was stored, milliseconds since 1970.
        born_timestamp_ms: the producer's clock when it was made, milliseconds since 1970.
    """

    position: int
    next_position: int
    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    tags: str
    keys: tuple[str, ...]
    properties: Properties
    store_timestamp_ms: int
    born_timestamp_ms: int

    @property
    def is_message(self) -> bool:
        """Whether it has more than positions and a body."""
        return bool(self.topic)


@attrs.frozen(kw_only=True)
class Batch:
    """Consecutive records of a log, and how far the node that answered is.

    Attributes:
        records: in log order; empty when nothing acknowledged stands at or after the asked
            position.
        next: where to read on; it may lie above the last record's `next_position` (filler at a
            file's end) and above the asked start (the log's oldest files are gone).
        acknowledged: everything below this position is acknowledged and may be shown.
        end: where this node's log ends.
        lag_bytes: how much this node knows to be acknowledged and does not hold yet, in bytes (in
            entries for a DLedger group); 0 on the master or leader.
    """

    records: tuple[Record, ...]
    next: int
    acknowledged: int
    end: int
    lag_bytes: int

    @property
    def is_empty(self) -> bool:
        """Whether it has no record."""
        return not self.records


@attrs.frozen(kw_only=True)
class StoredBatch:
    """The same with its records as the log's files hold them; `actors.records` reads
    them.

    Whoever shows the records decodes them: a node passes the bytes on, at a small part of the cost.

    Attributes:
        start: the position of the first byte of `data`.
        data: whole records, one after the other; b"" where there are none.
        entries: they are DLedger entries; otherwise messages of a commit log.
        skips_empty: an entry without a body is no record: it opened a term.
        next, acknowledged, end, lag_bytes: see `Batch`.
    """

    start: int
    data: bytes
    entries: bool
    skips_empty: bool
    next: int
    acknowledged: int
    end: int
    lag_bytes: int

    @property
    def is_empty(self) -> bool:
        """Whether it has no record."""
        return not self.data


Found: TypeAlias = Batch | StoredBatch
"""What a read gives: with its records taken apart, or as they are stored."""


@attrs.frozen(kw_only=True)
class Offsets:
    """How far one node is with one group, in log positions.

    Attributes:
        min: the log's first position.
        written: the end of what is written.
        synced: the end of what is synced.
        acknowledged: the end of what readers may see; a slave may not hold all of it yet. Below
            `min` if files expired that were never acknowledged.
        master: the name of the node that this one takes for the group's master or leader; None:
            unknown.
    """

    min: int
    written: int
    synced: int
    acknowledged: int
    master: str | None


@attrs.frozen
class Promotion:
    """The master of a group and the promotion that made it: 0 is the cluster file's choice."""

    number: int
    master: str


@attrs.frozen(kw_only=True)
class ToldRole:
    """Who is master of an auto-switch group in an epoch, as its controllers have told.

    Attributes:
        master: its id, the own one for the own mastership.
        address: where brokers and clients reach it.
        in_sync, in_sync_epoch: the sync state set; () if it was not told.
    """

    epoch: int
    master: int
    address: str
    in_sync: tuple[int, ...] = ()
    in_sync_epoch: int = 0


@attrs.frozen(kw_only=True)
class Claim:
    """That a coordinator is about to make a node master. See `actors.ha.core.claims`.

    Attributes:
        number: of the promotion.
        token: drawn by the coordinator; another one that takes the same number has another token.
        by: the node that carries it out.
        master: the chosen one.
        again: its coordinator is still at it: only who holds it already holds it on.
        kept: confirmed: the chosen one may hear of it from now on. Again, too.
        force: put another coordinator's claim aside.
    """

    number: int
    token: int
    by: str
    master: str
    again: bool = False
    kept: bool = False
    force: bool = False


Forgot: TypeAlias = Literal["", "log", "all"]
"""What a node may have lost of one group, so that its silence proves nothing.

"log": it held bytes that it lost, or began without any, and has not caught up with a master since.
"all": neither does it know which promotions took place: it began empty, as a new node does and one
whose disk was replaced; nothing distinguishes the two.
"""


@attrs.frozen(kw_only=True)
class GroupRecord:
    """What a node must remember of one group, beside its log.

    Attributes:
        promotion_number: of the newest promotion that it has heard of, 0 for none.
        promotion_master: who is master by it, "" without one: then the cluster file says it.
        history: the epochs of the log here.
        high_water_bytes: the highest offset that this node is known to have acknowledged to a
            producer, or reported to a master; up to a second old.
        cut_bytes: where the log is to be cut before it opens again; None: it is not.
        forgot: what it once may have known and does not, see `Forgot`.
        forced_number: of the last promotion by which it opened its log by force, 0 for none.
    """

    promotion_number: int = 0
    promotion_master: str = ""
    history: History = ()
    high_water_bytes: int = 0
    cut_bytes: int | None = None
    forgot: Forgot = ""
    forced_number: int = 0


@attrs.frozen(kw_only=True)
class GroupState:
    """What one node is in one group, and how far its log reaches.

    Attributes:
        cluster, node, boot, group: who says so.
        role: "master" or "slave"; in a DLedger group, of which only `no_room` is asked for,
            "leader", "follower" or "candidate".
        state: of a master "asking" (it hears its members before it takes appends), "open" or
            "fenced"; of a slave "connecting", "following", "diverged" or "damaged".
        reason: why it is fenced, diverged or still asking, for people; "" otherwise.
        opened: the newest epoch of `history`, its log's, is this master's: slaves may follow it.
        number: of the last promotion that it acts on, 0 for none.
        master: who is master by that promotion, or by the cluster file.
        min, written, synced: its log's range, in bytes; acknowledged: as in `Offsets`.
        high_water: the highest offset that it is known to have acknowledged or reported.
        unanswered: records that producers have handed to this node and wait for.
        claimed: the highest number that a promotion was begun with here, 0 for none under way.
        forgot, damage: as in `GroupRecord`; which bytes of its log are not what was written, or "".
        forced: it opened its log as the master by this promotion by force.
        no_room: why its disk takes nothing more, or not once what is reserved there has been
            written, for people; "" if it does.
    """

    cluster: str
    node: str
    boot: int
    group: str
    role: str
    state: str
    reason: str
    opened: bool
    number: int
    master: str
    history: History
    min: int
    written: int
    synced: int
    acknowledged: int
    high_water: int
    unanswered: int
    claimed: int = 0
    forgot: str = ""
    damage: str = ""
    forced: bool = False
    no_room: str = ""


BEHIND_FAILED = "an append before it has failed"


@attrs.define(eq=False)
class Chain:
    """Appends that were handed over without waiting for one another, and are to keep their order.

    Once one of them was not stored, or may not have been, those behind it that still wait are
    refused. Else a member that leads again a moment later could store them, before their sender has
    heard of the failure; and what is sent again then would come behind them.

    Attributes:
        number: of this chain in its process, from 1.
        broken: one of them has failed. Set by whoever takes the outcomes.
    """

    number: int = attrs.field(factory=itertools.count(1).__next__, init=False)
    broken: bool = False


@attrs.frozen(kw_only=True)
class GoodRange:
    """A range of a member's log for one whose copy of it is damaged.

    Attributes:
        start: the position at which it begins.
        data: the whole range, or what is synced of it; b"" if it is refused.
        digest: CRC-32 of `data`.
        refused: why there is none, for people.
    """

    start: int
    data: bytes = b""
    digest: int = 0
    refused: str = ""
