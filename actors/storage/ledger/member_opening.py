"""Opening the store of a member: a log, and a vote that is not older than the log is.

Upstream: openmessaging/dledger, MemberState.java, loadTerm (0.3.1.2), which believes whatever term
the file says.

Differs: a vote from before the last entry's term is refused. A member saves a term before it takes
an entry of it, so the file is an older copy, and its later votes are lost. A store that has lost
everything, its vote included, is distinguished from a new one by a note that is kept elsewhere
(`MemberNote`): upstream's begins in term 0, and may help to elect a leader that lacks an
acknowledged entry. A member that has lost its log alone, a committed part of it, or the note, too,
is distinguished from one that holds what it has acknowledged. So is one whose synced mark is gone,
because it is unknown what else is.
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
    """What a node knows of its member of a group, kept outside of the member's store.

    Attributes:
        had_vote: whether the member's term and vote were once on the disk.
        membership: gives the membership that was noted last; None if none was.
        take: notes this membership, and that there is a vote, durably; raises OSError.
    """

    had_vote: Callable[[], bool]
    membership: Callable[[], Membership | None]
    take: Callable[[Membership], None]

    def lacks(self) -> None:
        """Note that the log ends, or may end, below what was committed. Raises: OSError."""
        self.take(Membership.FORGOT)

    def opened(self, ledger: LedgerStore) -> None:
        """Note that the member's term and vote are on the disk, before a message rests on them.

        A member whose log is empty is new, or has lost it; so it is until something else is noted.
        Raises: OSError; the store is closed.
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
    """As `open_ledger`. Raises: LostVote, too, unless `settings.vote_unsynced`: nothing is changed
    then.
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
    """Warn of a vote for a node that is no member. It still counts for its term.

    Args:
        known: the members, and the nodes that were members before.
    """
    vote = ledger.vote
    if vote.voted_for and vote.voted_for not in known:
        _LOGGER.warning("%s: term %d, vote for %s: %s", layout.term, *attrs.astuple(vote), STRANGER)
        emit(VoteForStranger(term=vote.term, voted_for=vote.voted_for))
