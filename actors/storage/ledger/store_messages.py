"""The messages of a DLedger group's store and their answers.

They are written with the module's name: `store_messages.Change` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from actors.errors import NotStored
from actors.log_types import Membership
from actors.runtime import ReplyTo
from actors.storage.ledger.ledger import Batch, LedgerStore
from actors.storage.ledger.term_files import TermVote
from actors.storage.log.growth import Subscribe, Unsubscribe
from actors.storage.log.syncer import SyncDone
from actors.storage.scrub.mending import Mended
from wire.dledger.entry import ENTRY_HEAD_BYTES, Entry

NO_SESSION = -1
"""None was opened yet."""


class StaleSession(NotStored):
    """A write of a session that is over: the role or the term has changed. Nothing was written."""


@attrs.frozen(kw_only=True)
class SessionOpened:
    """The answer to OpenSession: no write of an earlier session can follow this end of the log."""

    session: int
    end_index: int
    end_term: int


@attrs.frozen(kw_only=True)
class OpenSession:
    """Refuse writes of earlier sessions from now on. It goes before all messages that wait.

    Answered with SessionOpened, with StaleSession if a later one is open, or as SaveVote; then the
    session before goes on.

    Attributes:
        session: counts the roles and terms of this member, see `MemberState.session`.
        term: the term of what a leader appends in it.
        vote: the vote that has to be on the disk before the session is open; None: it is.
    """

    session: int
    term: int
    vote: TermVote | None = None
    reply_to: ReplyTo[SessionOpened]


@attrs.frozen(kw_only=True)
class MemberRecord:
    """The answer to GetMember: the member's saved state and its log, after all earlier writes.

    Attributes:
        vote: the vote that was saved last.
        session: the newest that was opened in this incarnation of the store; NO_SESSION for none.
        begin, end, end_term: the first and the last entry, and the last one's term; -1 if the log
            is empty.
        stored: the last entry that is on the disk.
        committed: the committed index as reported last; -1 if it is unknown.
        membership: see `LedgerStore.membership`.
    """

    vote: TermVote
    session: int
    begin: int
    end: int
    end_term: int
    stored: int
    committed: int
    membership: Membership = Membership.FULL

    @classmethod
    def of(cls, ledger: LedgerStore, session: int) -> MemberRecord:
        """What a store that is in `session` answers."""
        return cls(
            vote=ledger.vote,
            session=session,
            begin=ledger.begin_index,
            end=ledger.end_index,
            end_term=ledger.end_term,
            stored=ledger.synced_index,
            committed=ledger.committed_index,
            membership=ledger.membership,
        )


@attrs.frozen(kw_only=True)
class GetMember:
    """Request. Waits for the writes before it."""

    reply_to: ReplyTo[MemberRecord]


@attrs.frozen(kw_only=True)
class Condemn:
    """The log contradicts what is committed: no write mends that. The store fails, and so does the
    node.
    """

    reason: str


@attrs.frozen
class GetRoom:
    """A status asks why the log takes nothing more; "": it does. See `LedgerStore.no_room`."""

    reply_to: ReplyTo[str]


@attrs.frozen(kw_only=True)
class Doubt:
    """A reader beside the writer could not read these entries, see `LedgerStore.verify`.

    If the store cannot either, it fails, and so does the node; otherwise the error has passed.
    Conflated.
    """

    index: int
    end_index: int
    bytes_max: int


@attrs.frozen(kw_only=True)
class Mend:
    """Put this entry in the place of a damaged one, see `LedgerStore.mend`.

    Attributes:
        source: the member that gave it.
    """

    index: int
    data: bytes
    source: str
    reply_to: ReplyTo[Mended]

    def carry_out(self, ledger: LedgerStore, emit: Callable[[object], None]) -> None:
        """Raises: as the store's."""
        done = ledger.mend(self.index, self.data, self.source)
        if isinstance(done, str):
            self.reply_to.send(Mended(refused=done))
        else:
            emit(done)
            self.reply_to.send(Mended())


@attrs.frozen(kw_only=True)
class SaveVote:
    """Have term and vote on the disk. Goes before all that waits.

    Answered when they are there, or with LogFull if they found no room.
    """

    vote: TermVote
    reply_to: ReplyTo[TermVote]


@attrs.frozen(kw_only=True)
class AppendedAt:
    """The answer to Append: it is written there. LedgerGrew reports when it is synced."""

    first_index: int
    last_index: int
    positions: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Append:
    """Append one entry for each body, all or none, as the leader of the present session.

    It is answered with AppendedAt, StaleSession, TooLarge, LogFull or Overloaded.

    Attributes:
        bodies: what the entries hold; at least one.
    """

    session: int
    bodies: tuple[bytes, ...]
    reply_to: ReplyTo[AppendedAt]


def answer_appends(group: Sequence[Append], added: Batch) -> None:
    """Answer several appends that were written as one, each with where its entries are."""
    at = 0
    for append in group:
        count = len(append.bodies)
        first = added.first_index + at
        append.reply_to.send(
            AppendedAt(
                first_index=first,
                last_index=first + count - 1,
                positions=added.positions[at : at + count],
            )
        )
        at += count


@attrs.frozen(kw_only=True)
class Changed:
    """The answer to a change: where the log ends now, written; LedgerGrew says when it is
    synced.
    """

    end_index: int


@attrs.frozen(kw_only=True)
class Change:
    """A follower's step: remove, then append; the parts of it in this order.

    Answered with Changed, or with what refuses it: StaleSession, LogFull, Overloaded, EntryRefused,
    IndexNotThere. After LogFull or EntryRefused the removal may have been done.

    Attributes:
        cut_from: entries from here on leave first; None: none does.
        restart: the whole log leaves; it goes on with `entries` (at least one), where their leader
            has them.
        entries: to be added at the end.
    """

    session: int
    cut_from: int | None = None
    restart: bool = False
    entries: tuple[Entry, ...] = ()
    reply_to: ReplyTo[Changed]


@attrs.frozen(kw_only=True)
class Commit:
    """All up to `index` is committed. Conflated; ignored if its session has ended."""

    session: int
    index: int


@attrs.frozen(kw_only=True)
class DropBelow:
    """A snapshot stands for all entries below `index`: files that hold nothing else go at once.

    Entries from there on stay, however old they are. Conflated.
    """

    index: int


@attrs.frozen(kw_only=True)
class LedgerGrew:
    """To subscribers (`growth.Subscribe`): the log now. Conflate it; only the newest matters.

    Attributes:
        session: the open session.
        begin_index, end_index, end_term: the first and the last entry, and the last one's term; -1
            for an empty log.
        synced_index: the last entry that is on the disk.
        committed_index: the committed index as reported last.
        cuts: how often entries left since the start, at either end: a reader whose number is
            another forgets its files.
    """

    session: int
    begin_index: int
    end_index: int
    end_term: int
    synced_index: int
    committed_index: int
    cuts: int


COMMITS: Final = frozenset({"committed_index"})
SYNCS: Final = frozenset({"synced_index"})
ENDS: Final = frozenset({"end_index", "end_term"})
"""For `growth.Subscribe`."""

Message: TypeAlias = (
    OpenSession
    | GetMember
    | SaveVote
    | Condemn
    | GetRoom
    | Doubt
    | Mend
    | Append
    | Change
    | Commit
    | DropBelow
    | Subscribe[LedgerGrew]
    | Unsubscribe
    | SyncDone
)


def size_of(message: object) -> int:
    """The bytes of a message that count against those that may wait."""
    match message:
        case Append():
            return sum(map(len, message.bodies)) + ENTRY_HEAD_BYTES * len(message.bodies)
        case Change():
            return sum(entry.size for entry in message.entries)
        case _:
            return 0
