"""DLedger's actors and store broken on purpose, one rule at a time: functions that patch.

`python tests/sim/sim_mutations.py --mode dledger` finds out at which seed a checker of whole
simulated groups objects to each of these, and to some of `broken_core`.
"""

from __future__ import annotations

from typing import Any

import attrs
import broken_core
import broken_members
import broken_votes
from broken_core import Mutation, Patch
from broken_machine import MACHINE_MUTATIONS

from actors.dledger.core import dispatch, intake, quorum
from actors.dledger.reading import entry_reader
from actors.dledger.replication import entry_handler, outcomes, quorum_ack_checker
from actors.storage.ledger import file_ledger, opening
from actors.storage.ledger.mark import MarkValues
from wire.dledger.codes import ResponseCode
from wire.dledger.files import LedgerCheckpoint


def answer_before_a_quorum(patch: Patch) -> None:
    """An append is answered as soon as its leader has written it."""
    real = quorum.Quorum.waiting

    def waiting(self: Any, *waits: Any) -> Any:
        effects = real(self, *waits)
        return attrs.evolve(effects, done=(*effects.done, *waits))

    patch.setattr(quorum.Quorum, "waiting", waiting)


def written_counts_as_synced(patch: Patch) -> None:
    """A member holds what it has written, though the group is synced."""
    written = property(lambda self: self.end_index, lambda self, index: None)
    patch.setattr(file_ledger.FileLedger, "synced_index", written)


def vote_sent_and_not_saved(patch: Patch) -> None:
    """The store answers that a vote is on the disk, and only remembers it."""

    def save_vote(self: Any, vote: Any) -> None:
        self._vote = vote

    patch.setattr(file_ledger.FileLedger, "save_vote", save_vote)


def read_beyond_committed(patch: Patch) -> None:
    """Readers see what is written (upstream's bug B13)."""
    real = entry_reader.EntryReader.__init__

    def init(self: Any, **fields: Any) -> None:
        real(self, **{**fields, "uncommitted": True})

    patch.setattr(entry_reader.EntryReader, "__init__", init)


def readers_know_too_much(patch: Patch) -> None:
    """A reader takes one entry more for committed than it was sent."""
    real = entry_reader.EntryReader._offsets

    def offsets(self: Any) -> Any:
        found = real(self)
        return attrs.evolve(found, acknowledged=min(found.acknowledged + 1, found.written))

    patch.setattr(entry_reader.EntryReader, "_offsets", offsets)


def lost_leadership_is_not_stored(patch: Patch) -> None:
    """Appends whose leader leads no more are refused, as if nothing were written."""
    patch.setattr(
        quorum_ack_checker.outcomes,
        "leadership_lost",
        lambda first, last: outcomes.not_leader(""),
    )


# ---- the leader ----


def leader_counts_what_it_has_written(patch: Patch) -> None:
    """A leader holds what is in its page cache, though the group is synced."""
    real = quorum_ack_checker.QuorumAckChecker.__init__

    def init(self: Any, **fields: Any) -> None:
        real(self, **{**fields, "synced": False})

    patch.setattr(quorum_ack_checker.QuorumAckChecker, "__init__", init)


def leader_commits_what_it_finds(patch: Patch) -> None:
    """Whatever a new leader has is committed."""
    real = quorum.Quorum.lead

    def lead(self: Any, **fields: Any) -> Any:
        effects = real(self, **fields)
        if fields["end"] <= self.committed:
            return effects
        self.committed = fields["end"]
        said = quorum.events.CommittedRose(session=fields["session"], index=self.committed)
        return attrs.evolve(effects, committed=self.committed, events=(*effects.events, said))

    patch.setattr(quorum.Quorum, "lead", lead)


def lost_is_answered(patch: Patch) -> None:
    """Appends that wait when a leadership ends learn that they are done."""

    def lose(self: Any, effects: Any) -> None:
        self._reads.fail(outcomes.not_leader(""))
        for wait in effects.lost:
            wait.done(1, ())

    patch.setattr(quorum_ack_checker.QuorumAckChecker, "_lose", lose)


def every_answer_is_an_acknowledgement(patch: Patch) -> None:
    """A leader does not look at the code of an answer to entries."""
    real = dispatch.Dispatch._append_answered

    def answered(self: Any, now_s: float, answer: Any) -> None:
        real(self, now_s, attrs.evolve(answer, code=ResponseCode.SUCCESS))

    patch.setattr(dispatch.Dispatch, "_append_answered", answered)


# ---- the follower ----


def acknowledge_what_is_written(patch: Patch) -> None:
    """A follower vouches for what is in its page cache, though the group is synced."""
    real = entry_handler.EntryHandler.__init__

    def init(self: Any, **fields: Any) -> None:
        real(self, **{**fields, "synced": False})

    patch.setattr(entry_handler.EntryHandler, "__init__", init)


def follower_forgets_what_is_committed(patch: Patch) -> None:
    """What a follower knew to be committed it learns again from each leader."""
    real = intake.Intake.follow

    def follow(self: Any, **fields: Any) -> Any:
        self.committed = -1
        return real(self, **{**fields, "committed": -1})

    patch.setattr(intake.Intake, "follow", follow)


# ---- the store ----


def mark_before_the_sync(patch: Patch) -> None:
    """The mark says that entries are on the disk when their sync begins, and is synced itself."""
    real = file_ledger.FileLedger.begin_sync

    def begin_sync(self: Any, *, whole: bool = False) -> Any:
        work = real(self, whole=whole)
        self._mark.write(MarkValues(work.end_bytes, 0))
        self._mark.sync()
        return work

    patch.setattr(file_ledger.FileLedger, "begin_sync", begin_sync)


def checkpoint_says_the_end(patch: Patch) -> None:
    """A start takes all that was written for committed."""
    real = opening.read_checkpoint

    def read(disk: Any, path: str) -> Any:
        real(disk, path)
        return LedgerCheckpoint(committed_index=1 << 40, end_index=1 << 40)

    patch.setattr(opening, "read_checkpoint", read)


LEDGER_MUTATIONS: tuple[Mutation, ...] = (
    answer_before_a_quorum,
    written_counts_as_synced,
    vote_sent_and_not_saved,
    read_beyond_committed,
    readers_know_too_much,
    lost_leadership_is_not_stored,
    leader_counts_what_it_has_written,
    leader_commits_what_it_finds,
    lost_is_answered,
    every_answer_is_an_acknowledgement,
    acknowledge_what_is_written,
    follower_forgets_what_is_committed,
    mark_before_the_sync,
    checkpoint_says_the_end,
    broken_core.own_entries_count_before_the_sync,
    broken_core.compare_by_the_index_only,
    broken_core.commit_capped_by_the_end,
    broken_core.minority_commits,
    broken_votes.vote_without_the_log_check,
    broken_votes.lost_logs_vote_like_others,
    broken_votes.second_vote_in_a_term,
    broken_votes.one_vote_less_is_enough,
    broken_core.acknowledge_before_the_sync,
    broken_votes.vote_not_persisted,
    broken_votes.term_not_persisted,
    broken_core.older_terms_by_counting,
    broken_members.vote_sent_before_it_is_saved,
    broken_members.reads_without_proof,
    broken_members.cut_is_not_on_the_disk,
    *MACHINE_MUTATIONS,
)
