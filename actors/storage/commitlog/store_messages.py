"""The messages of a classic group's store and their answers.

They are written with the module's name: `store_messages.Append` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from actors.config import CommitLogGroup
from actors.env.protocols import Held
from actors.errors import NotEnoughReplicas, NotMaster, NotStored
from actors.log_types import Chain, NewRecord, Promotion
from actors.runtime import ActorRef, ReplyTo
from actors.storage.derived.queue_files import QueueKey
from actors.storage.files.room import OpeningWaits
from actors.storage.log.growth import Subscribe, Unsubscribe
from actors.storage.log.syncer import SyncDone


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
    (outcome unknown); NotStored if an earlier one of its `chain` has failed.
    """

    records: tuple[NewRecord, ...]
    deadline_s: float
    reply_to: ReplyTo[Appended]
    chain: Chain | None = None


@attrs.frozen(kw_only=True)
class AppendRaw:
    """Bytes received from the master, exactly at the log's end. Not answered; see RawRefused.

    Attributes:
        ends_frame: whether a frame ends in `data`, so that the growth has to be published.
    """

    session: int
    offset_bytes: int
    data: bytes | Held
    ends_frame: bool


@attrs.frozen(kw_only=True)
class RawRefused:
    """To the opener of the session: bytes were not written, and no later ones of it will be."""

    session: int
    reason: str


@attrs.frozen(kw_only=True)
class OpenSession:
    """Take AppendRaw of this session alone from now on. Older numbers are ignored."""

    session: int
    source: ActorRef[RawRefused]


@attrs.frozen(kw_only=True)
class SetAdmission:
    """From the acknowledger: refuse appends from now on (NotEnoughReplicas), or take them.

    Attributes:
        refusal: why; "" lets them be written.
    """

    refusal: str


@attrs.frozen(kw_only=True)
class SetFloor:
    """By the dispatcher: files with bytes from here on do not expire, for those below alone are
    dispatched, durably. Conflated; none do before it, but on a disk that is too full to wait.
    """

    offset_bytes: int


@attrs.frozen(kw_only=True)
class ForgetTopics:
    """By the dispatcher: these topics were deleted. On a master their queues begin anew, but for
    those with a record that was stored since, to which no unit would lead then. Later records have
    a later store timestamp than any deletion.

    Attributes:
        topics: at least one, by name, with the time of the deletion in ms since 1970.
        gone: the queues that were removed: all their records before `at_bytes` are older.
    """

    topics: Mapping[str, int]
    gone: frozenset[QueueKey]
    at_bytes: int


@attrs.frozen(kw_only=True)
class LogGrew:
    """To subscribers (`growth.Subscribe`): the log's range now. Conflate it; only the newest
    matters.
    """

    min_bytes: int
    written_bytes: int
    synced_bytes: int


WRITTEN: Final = frozenset({"written_bytes"})
"""For `growth.Subscribe`: with it as `idle`, growth that is not synced yet is not reported."""


@attrs.frozen(kw_only=True)
class LogRange:
    """The store's answer about its log: where it begins and ends, and what keeps it from growing.

    Attributes:
        folder: the folder of its files, for a LogReader.
        parsed: see `opening.OpenedStore`; empty to whoever does not take it.
        begins_bytes: see `recovery.ScanResult`.
        confirmed_bytes: see `opening.OpenedStore`; never below `min_bytes`.
        was_clean: the last stop before the store opened was an ordered one.
        stands_still: why old files do not go, for people; "": they do, or there are none.
        no_room: why nothing can be written, for people; "": it can.
        no_room_soon: as `no_room`, or why that is so once what is reserved has been written; "" to
            whoever does not ask for it.
    """

    min_bytes: int
    written_bytes: int
    synced_bytes: int
    segment_bytes: int
    folder: str
    parsed: tuple[int, int] = (0, 0)
    begins_bytes: int = 0
    confirmed_bytes: int = 0
    was_clean: bool = True
    stands_still: str = ""
    no_room: str = ""
    no_room_soon: str = ""


@attrs.frozen(kw_only=True)
class GetRange:
    """Answered at once.

    Attributes:
        takes_parsed: the answer has `parsed`, and no later one: it proves nothing about what has
            rotted since.
        looks: the answer has `no_room_soon`, for which the store looks at the disk.
    """

    reply_to: ReplyTo[LogRange]
    takes_parsed: bool = False
    looks: bool = False


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

    @property
    def in_doubt(self) -> tuple[int, int, int]:
        """The positions of an `OutcomeUnknown`."""
        return self.first_bytes, self.last_bytes, self.next_bytes


@attrs.frozen(kw_only=True)
class RecordsWritten:
    """To the acknowledger: appends of one write, in log order."""

    waits: tuple[Waiting, ...]


@attrs.frozen(kw_only=True)
class GateClosed:
    """Why a store takes no appends.

    Attributes:
        reason: for the producer.
        hint: who takes them, as far as is known.
        is_master: it is the master all the same: there is nobody else to turn to.
    """

    reason: str
    hint: str | None = None
    is_master: bool = False

    def error(self) -> NotStored:
        """A new one for each append."""
        if self.is_master:
            return NotEnoughReplicas(self.reason)
        return NotMaster(self.reason, hint=self.hint)


@attrs.frozen(kw_only=True)
class SetGate:
    """Take appends from now on (`closed` is None), or refuse them. Goes before all that waits.

    Attributes:
        incarnation: the incarnation of the store that is meant, which sent StoreStarted.
    """

    incarnation: int
    closed: GateClosed | None


@attrs.frozen
class StoreStarted:
    """To the keeper: the log is open, and its gate closed.

    Attributes:
        incarnation: the number of the store's incarnation.
        promotion: the one that the tree around the store was built by.
        kept_bytes: what was cut at the end, and kept aside.
        was_clean: the last stop was an ordered one.
    """

    incarnation: int
    promotion: Promotion
    range: LogRange
    kept_bytes: int
    was_clean: bool


@attrs.frozen
class Guard:
    """The actor that decides whether a store takes appends, and the promotion that its tree was
    built by.

    Attributes:
        cut_bytes: set aside what the log has beyond this, before it opens; None: nothing.
    """

    keeper: ActorRef[StoreStarted | OpeningWaits]
    promotion: Promotion
    cut_bytes: int | None = None


def closed_at_start(
    node: str, group: CommitLogGroup, is_master: bool, guard: Guard | None
) -> GateClosed | None:
    """The gate until the keeper has set it; for good on a slave without one."""
    if is_master:
        why = f"{node} has not opened {group.name} yet"
        return GateClosed(reason=why, is_master=True) if guard is not None else None
    hint = guard.promotion.master if guard is not None else group.master
    return GateClosed(reason=f"{node} is a slave of {group.name}", hint=hint)


Message: TypeAlias = (
    Append
    | AppendRaw
    | OpenSession
    | SyncDone
    | SetAdmission
    | SetFloor
    | ForgetTopics
    | Subscribe[LogGrew]
    | Unsubscribe
    | GetRange
    | SetGate
)


def size_of(message: object) -> int:
    """The bytes of a message that count against those that may wait."""
    if isinstance(message, Append):
        records = message.records
        return _body_bytes(records[0]) if len(records) == 1 else sum(map(_body_bytes, records))
    return len(message.data) if isinstance(message, AppendRaw) else 0


def _body_bytes(record: NewRecord) -> int:
    return len(record) if isinstance(record, bytes) else len(record.body)
