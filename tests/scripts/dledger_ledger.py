"""One member's files in a script's hand, on a simulated disk.

ledger
append TERM BODY ... | truncate INDEX | commit INDEX | sync
vote TERM NAME | kill | power-loss | log | term
"""

from __future__ import annotations

from dledger_words import span, terms_text
from ledger_kit import entries_of, finish, fresh, opened, sim_disk
from ledger_kit import sync as sync_now

from actors.dledger.core.settings import CompatSettings
from actors.errors import StorageError, TriologError
from actors.storage.ledger.file_ledger import FileLedger
from actors.storage.ledger.term_files import TermVote


class Ledger:
    """See the module's text."""

    def __init__(self, compat: CompatSettings, seed: int = 0) -> None:
        self.settings = {
            "vote_unsynced": compat.vote_unsynced,
            "cut_stays": compat.cut_stays,
            "cuts_committed": compat.cut_committed,
        }
        self.disk = sim_disk(seed)
        self.ledger: FileLedger = fresh(self.disk, **self.settings)

    def made(self) -> list[str]:
        return [*self.do_term(), *self.do_log()]

    def do_append(self, term: str, *bodies: str) -> list[str]:
        self.ledger.append_as_leader([body.encode() for body in bodies], int(term))
        return []

    def do_truncate(self, index: str) -> list[str]:
        try:
            finish(self.ledger.truncate(int(index)))
        except TriologError as error:
            return [f"{type(error).__name__}: {error}"]
        return self.do_log()

    def do_commit(self, index: str) -> list[str]:
        self.ledger.commit(int(index))
        return []

    def do_sync(self) -> list[str]:
        sync_now(self.ledger, self.disk, whole=True)
        return []

    def do_vote(self, term: str, name: str) -> list[str]:
        was, now = self.ledger.vote, TermVote(int(term), name)
        if now.term == was.term and was.voted_for not in ("", name):
            return [f"{was.voted_for} has it"]  # as `votes.judge` says
        self.ledger.save_vote(now)
        return self.do_term()

    def do_kill(self) -> list[str]:
        self.disk.kill()
        return self._open()

    def do_power_loss(self) -> list[str]:
        self.disk.power_loss()
        return self._open()

    def _open(self) -> list[str]:
        try:
            self.ledger = opened(self.disk, **self.settings)
        except StorageError as error:
            return [f"refuses to start: {error}"]
        return self.made()

    def do_log(self) -> list[str]:
        entries = entries_of(self.ledger)
        begin = max(self.ledger.begin_index, 0)
        terms = terms_text(begin, (entry.term for entry in entries))
        return [f"log {terms}; committed {span(0, self.ledger.committed_index)}"]

    def do_term(self) -> list[str]:
        vote = self.ledger.vote
        return [f"term {vote.term}, vote for {vote.voted_for or 'nobody'}"]
