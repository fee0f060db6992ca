"""Opening the store of a member: a log, and a vote that is not older than the log is.

Upstream: openmessaging/dledger, MemberState.java, loadTerm (0.3.1.2), which believes whatever term
the file says.

Differs: a vote from before the last entry's term is refused. A member saves a term before it takes
an entry of it, so the file is an older copy: what it has voted since is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.env import Env
from actors.storage.dledger.file_ledger import FileLedger, open_ledger
from actors.storage.dledger.layout import LedgerLayout
from actors.storage.dledger.settings import LedgerSettings
from actors.storage.dledger.term_files import LostVote


def open_member(
    env: Env,
    layout: LedgerLayout,
    settings: LedgerSettings,
    *,
    owner: str = "",
    emit: Callable[[object], None] | None = None,
) -> Generator[None, None, FileLedger]:
    """As `open_ledger`. Raises: LostVote, too, unless `settings.vote_unsynced`."""
    ledger = yield from open_ledger(env, layout, settings, owner=owner, emit=emit)
    term, last = ledger.vote.term, ledger.end_term
    if term < last and not settings.vote_unsynced:
        ledger.close(ordered=False)
        raise LostVote(layout.term, f"term {term}, but the last entry is of term {last}")
    return ledger
