"""Opens the store of a member: its log, and a vote that is not older than the log.

Upstream: openmessaging/dledger, MemberState.java, loadTerm (0.3.1.2), which accepts whatever term
the file holds.

Differs: a vote from before the last entry's term is refused. A member saves a term before it takes
an entry of it, so the file is an older copy, and the votes given since are lost. A store that has
lost everything, its vote included, is distinguished from a new one by a note that is kept elsewhere
(`MemberNote`): upstream's member begins in term 0, and may help to elect a leader that lacks an
acknowledged entry. A member that has lost only its log, a committed part of it, or the note, is
distinguished from one that holds everything that it acknowledged. So is one whose synced mark is
missing, because it is unknown what else is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator

import attrs

from actors.env import Env
from actors.events.dledger import VoteForStranger
from actors.log_types import Membership
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.file_ledger import FileLedger, open_ledger
from actors.storage.ledger.ledger import LedgerStore
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.ledger.term_files import STRANGER, TermVote

_LOGGER = logging.getLogger("triolog.storage")


@attrs.frozen
class MemberNote:
    """What a node remembers about its member of a group, outside of the member's store.

    Attributes:
        had_vote: returns whether the member's term and vote were ever on the disk.
        membership: returns the membership that was noted last; None if none was.
        take: notes a membership, and that there is a vote, on the disk; raises OSError.
    """

    had_vote: Callable[[], bool]
    membership: Callable[[], Membership | None]
    take: Callable[[Membership], None]

    def lacks(self) -> None:
        """Note that the log ends, or may end, below what was committed. Raises: OSError."""
        self.take(Membership.FORGOT)

    def opened(self, ledger: LedgerStore) -> None:
        """Set the membership of an opened log, and note it before a message can rest on its vote.

        A member whose log is empty is new, or has lost its log; it stays so until another
        membership is noted.

        Raises: OSError; the store is closed then.
        """
        noted, had_vote = self.membership(), self.had_vote()
        found = noted or Membership.FULL
        if ledger.end_index < 0 and found is Membership.FULL:
            lived = had_vote or ledger.vote != TermVote()
            found = Membership.FORGOT if lived else Membership.NEW
        ledger.membership = found
        if found is not noted or not had_vote:
            try:
                self.take(found)
            except OSError:
                ledger.close(ordered=False)
                raise


def open_member(
    env: Env,
    layout: LedgerLayout,
    settings: LedgerSettings,
    *,
    note: MemberNote | None = None,
    owner: str = "",
    emit: Callable[[object], None] | None = None,
) -> Generator[None, None, FileLedger]:
    """Open a member's store as `open_ledger` does, and refuse a vote that is older than the log.

    Raises: LostVote, unless `settings.vote_unsynced`; nothing is changed then.
    """
    return (
        yield from open_ledger(
            env,
            layout,
            settings,
            had_vote=note is not None and note.had_vote(),
            lacks=None if note is None else note.lacks,
            needs_vote=not settings.vote_unsynced,
            owner=owner,
            emit=emit,
        )
    )


def warn_of_stranger(
    ledger: LedgerStore,
    layout: LedgerLayout,
    known: Collection[str],
    emit: Callable[[object], None],
) -> None:
    """Log a warning and emit an event if the saved vote is for a node that is no member.

    The vote still counts for its term.

    Args:
        known: the names of members and of former members.
    """
    vote = ledger.vote
    if vote.voted_for and vote.voted_for not in known:
        _LOGGER.warning("%s: term %d, vote for %s: %s", layout.term, *attrs.astuple(vote), STRANGER)
        emit(VoteForStranger(term=vote.term, voted_for=vote.voted_for))
