"""The messages of a DLedger group's store and their answers.

Import the module and write its name with them: `store_messages.Change` and so on.
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
"""No session has been opened yet."""


class StaleSession(NotStored):
    """The session of a write has ended, because the role or the term has changed. Nothing was
    written.
    """


@attrs.frozen(kw_only=True)
class SessionOpened:
    """The answer to OpenSession. From this end of the log on no write of an earlier session is
    accepted.
    """

    session: int
    end_index: int
    end_term: int


@attrs.frozen(kw_only=True)
class OpenSession:
    """Open a session: writes of earlier sessions are refused from now on. Handled before all
    waiting messages.

    Answered with SessionOpened, with StaleSession if a later session is open, or with LogFull as
    SaveVote is. In the last two cases the present session goes on.

    Attributes:
        session: the session's number, which rises with each role and term of this member; see
            `MemberState.session`.
        term: the term of the entries that a leader appends in the session.
        vote: a vote to be saved before the session is open; None: it is saved already.
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
        session: the newest session of this incarnation of the store; NO_SESSION: none was opened.
        begin, end, end_term: the index of the first and of the last entry, and the last one's term;
            -1 if the log is empty.
        stored: the index of the last entry that is on the disk.
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
        """Make the answer of a store that is in `session`."""
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
    """A request for MemberRecord. It is answered after the writes before it."""

    reply_to: ReplyTo[MemberRecord]


@attrs.frozen(kw_only=True)
class Condemn:
    """The log contradicts what is committed, which no write mends: the store fails, and so does the
    node.
    """

    reason: str


@attrs.frozen
class GetRoom:
    """Ask why the log takes nothing more; "": it does. See `LedgerStore.no_room`.

    Attributes:
        looks: whether to look at the disk, and also at what the log reserves next.
    """

    reply_to: ReplyTo[str]
    looks: bool = False


@attrs.frozen(kw_only=True)
class Doubt:
    """A reader beside the writer could not read these entries; see `LedgerStore.verify`.

    If the store cannot read them either, it fails, and so does the node; otherwise the error was
    temporary. Conflated.
    """

    index: int
    end_index: int
    bytes_max: int


@attrs.frozen(kw_only=True)
class Mend:
    """Replace a damaged entry by these bytes; see `LedgerStore.mend`.

    Attributes:
        source: the name of the member that gave them.
    """

    index: int
    data: bytes
    source: str
    reply_to: ReplyTo[Mended]

    def carry_out(self, ledger: LedgerStore, emit: Callable[[object], None]) -> None:
        """Mend the entry, and answer with the result. Raises: as `LedgerStore.mend`."""
        done = ledger.mend(self.index, self.data, self.source)
        if isinstance(done, str):
            self.reply_to.send(Mended(refused=done))
        else:
            emit(done)
            self.reply_to.send(Mended())


@attrs.frozen(kw_only=True)
class SaveVote:
    """Save term and vote on the disk. Handled before all waiting messages.

    Answered with the vote when it is on the disk, or with LogFull if there is no room.
    """

    vote: TermVote
    reply_to: ReplyTo[TermVote]


@attrs.frozen(kw_only=True)
class AppendedAt:
    """The answer to Append: the indexes and offsets at which its entries are written.

    LedgerGrew reports when they are synced.
    """

    first_index: int
    last_index: int
    positions: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Append:
    """Append one entry for each body, all or none, as the leader of the session.

    It is answered with AppendedAt, StaleSession, TooLarge, LogFull or Overloaded.

    Attributes:
        bodies: the bodies of the entries; at least one.
    """

    session: int
    bodies: tuple[bytes, ...]
    reply_to: ReplyTo[AppendedAt]


def answer_appends(group: Sequence[Append], added: Batch) -> None:
    """Answer several appends that were written as one batch, each with the positions of its
    entries.
    """
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
    """The answer to Change: the log's end as written; LedgerGrew reports when it is synced."""

    end_index: int


@attrs.frozen(kw_only=True)
class Change:
    """A follower's change of its log: remove entries, then append some.

    Answered with Changed, or with the error that refuses it: StaleSession, LogFull, Overloaded,
    EntryRefused, IndexNotThere. After LogFull or EntryRefused the removal may have been done.

    Attributes:
        cut_from: entries from this index on are removed first; None: none are.
        restart: whether the whole log is removed; it goes on with `entries`, at least one, at their
            leader's positions.
        entries: the entries to be appended.
    """

    session: int
    cut_from: int | None = None
    restart: bool = False
    entries: tuple[Entry, ...] = ()
    reply_to: ReplyTo[Changed]


@attrs.frozen(kw_only=True)
class Commit:
    """All entries up to `index` are committed. Conflated; ignored if its session has ended."""

    session: int
    index: int


@attrs.frozen(kw_only=True)
class DropBelow:
    """A snapshot replaces all entries below `index`: files that hold only such entries are deleted
    at once.

    Entries from `index` on are not deleted because of it. Conflated.
    """

    index: int


@attrs.frozen(kw_only=True)
class LedgerGrew:
    """To subscribers (`growth.Subscribe`): the present state of the log. Conflate it: only the
    newest matters.

    Attributes:
        session: the open session.
        begin_index, end_index, end_term: the index of the first and of the last entry, and the last
            one's term; -1 for an empty log.
        synced_index: the index of the last entry that is on the disk.
        committed_index: the committed index as reported last.
        cuts: how often entries were removed since the start, at either end. A reader closes its
            files when this number changes.
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
"""Sets of changes to wait for, for `growth.Subscribe`."""

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
    """Return how many bytes of the store's `pending_bytes` a message takes."""
    match message:
        case Append():
            return sum(map(len, message.bodies)) + ENTRY_HEAD_BYTES * len(message.bodies)
        case Change():
            return sum(entry.size for entry in message.entries)
        case _:
            return 0
