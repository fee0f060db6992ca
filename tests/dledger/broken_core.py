"""DLedger's pure protocol broken on purpose, one rule at a time: functions that patch.

`core_mutations` finds out at which seed the world of `core_world` objects to each, or which test of
a rule fails; `test_dledger_mutations` sees to it that it does.
"""

from __future__ import annotations

from typing import Any

import attrs
from broken_votes import OF_VOTES, Mutation, Patch

from actors.dledger.core import (
    compare,
    dispatch,
    intake,
    quorum,
    waiting_pushes,
)
from wire.dledger.codes import ResponseCode

# ---- commits ----


def older_terms_by_counting(patch: Patch) -> None:
    """Bug B1, Figure 8."""
    real = quorum.Quorum.__init__

    def init(self: Any, **fields: Any) -> None:
        real(self, **{**fields, "count_older": True})

    patch.setattr(quorum.Quorum, "__init__", init)


def minority_commits(patch: Patch) -> None:
    """One member less than a quorum is enough."""

    def index(indexes: tuple[int, ...]) -> int:
        return sorted(indexes, reverse=True)[max(0, len(indexes) // 2 - 1)]

    patch.setattr(quorum, "quorum_index", index)


def own_entries_count_before_the_sync(patch: Patch) -> None:
    """The leader counts itself for what it has only written."""
    real = quorum.Quorum.waiting

    def waiting(self: Any, *waits: Any) -> Any:
        if waits:
            self._indexes[self.self_id] = waits[-1].last
        return real(self, *waits)

    patch.setattr(quorum.Quorum, "waiting", waiting)


def commit_capped_by_the_end(patch: Patch) -> None:
    """Bug B14: a follower commits what it has, whether or not it is the leader's."""
    real = intake.Intake._commit

    def commit(self: intake.Intake, commit_index: int) -> None:
        matched, self.matched = self.matched, self.end
        real(self, commit_index)
        self.matched = matched

    patch.setattr(intake.Intake, "_commit", commit)


# ---- the follower ----


def no_gate(patch: Patch) -> None:
    """Bug B4: a push is taken from anybody and of any term."""
    real = intake.Intake._gate

    def gate(self: intake.Intake, pushed: Any) -> ResponseCode | None:
        if not self._following:
            return real(self, pushed)
        return real(self, attrs.evolve(pushed, term=self._term, leader=self._leader))

    patch.setattr(intake.Intake, "_gate", gate)


def acknowledge_before_the_sync(patch: Patch) -> None:
    """Bug B9."""

    def acknowledge(self: intake.Intake, pushed: Any, index: int) -> None:
        self._answer(pushed, ResponseCode.SUCCESS)

    patch.setattr(intake.Intake, "_acknowledge", acknowledge)


def truncation_at_once(patch: Patch) -> None:
    """TRUNCATE cuts what follows the entry, though it may be committed."""
    real = intake.Intake._truncate

    def truncate(self: intake.Intake, pushed: Any) -> None:
        real(self, pushed)
        if pushed.first < self.end:
            self._take_away(pushed.first + 1, then=pushed.first + 1)
            self.end, self.stored = pushed.first, min(self.stored, pushed.first)
            self._changed += 1
            self._changes.append(
                intake.StoreChange(
                    session=self._session,
                    number=self._changed,
                    cut_from=pushed.first,
                    entries=pushed.entries,
                )
            )

    patch.setattr(intake.Intake, "_truncate", truncate)


def truncation_keeps_what_is_before(patch: Patch) -> None:
    """Upstream's rule: only what is at the entry and behind it leaves."""
    real = intake.Intake._restart

    def restart(self: intake.Intake, entry: Any) -> bool:
        if 0 <= self.begin <= entry.index <= self.end + 1:
            return self._write((entry,))
        return real(self, entry)

    patch.setattr(intake.Intake, "_restart", restart)


def compare_by_the_index_only(patch: Patch) -> None:
    """An entry is taken for the leader's because it has the same index."""

    def holds(self: intake.Intake, entry: Any) -> bool:
        return 0 <= self.begin <= entry.index <= self.end

    patch.setattr(intake.Intake, "_holds", holds)


def append_without_a_comparison(patch: Patch) -> None:
    """A new session begins with what the log has."""
    real = intake.Intake._append

    def append(self: intake.Intake, now_s: float, pushed: Any) -> None:
        if self.matched is None and self.end >= 0:
            self.matched = self.end
        real(self, now_s, pushed)

    patch.setattr(intake.Intake, "_append", append)


def gap_is_appended(patch: Patch) -> None:
    """A push that comes too early is acknowledged and dropped."""

    def keep(self: Any, now_s: float, pushed: Any) -> Any:
        return pushed, ResponseCode.SUCCESS

    patch.setattr(waiting_pushes.WaitingPushes, "keep", keep)


def commits_what_has_yet_to_leave(patch: Patch) -> None:
    """The committed index rises though the store still holds what is not the leader's there."""
    real = intake.Intake._raise_committed

    def raise_committed(self: intake.Intake) -> None:
        self._leaving = None
        real(self)

    patch.setattr(intake.Intake, "_raise_committed", raise_committed)


# ---- the dispatcher ----


def append_without_compare(patch: Patch) -> None:
    """A leader believes that each peer has its log."""
    real = dispatch.Dispatch.lead

    def lead(self: Any, now_s: float, **fields: Any) -> Any:
        self.matched = fields["end"]
        effects = real(self, now_s, **fields)
        self._to_append(fields["end"])
        return attrs.evolve(effects, matched=fields["end"], pushes=())

    patch.setattr(dispatch.Dispatch, "lead", lead)


def code_is_believed(patch: Patch) -> None:
    """SUCCESS is success, whatever it is about: upstream's rule, and DLedger 0.4.0's answers."""
    patch.setattr(dispatch, "misfit", lambda push, answer, term: "")


def nothing_is_sent_again(patch: Patch) -> None:
    """A lost push stays lost."""

    def resend(self: Any, now_s: float) -> None:
        self._window.again(now_s)
        self._last_push_s = now_s

    patch.setattr(dispatch.Dispatch, "_resend", resend)


def refusal_ignored(patch: Patch) -> None:
    """A peer that refuses an entry is not compared at once."""
    real = dispatch.Dispatch._to_compare

    def to_compare(self: Any, why: str) -> None:
        if "refused" not in why:
            real(self, why)

    patch.setattr(dispatch.Dispatch, "_to_compare", to_compare)


def steps_past_what_may_be_shared(patch: Patch) -> None:
    """The search's steps double below the leader's first entry."""
    real = compare.Search.judge

    def judge(self: Any, answer: Any, begin: int, end: int) -> Any:
        step, at = self._step, self.at
        found = real(self, answer, begin, end)
        if self._differs == at and self._same is None and at - step < begin:
            return compare.CommonEntry(index=begin, truncate=True)
        return found

    patch.setattr(compare.Search, "judge", judge)


MUTATIONS: tuple[Mutation, ...] = (
    *OF_VOTES,
    older_terms_by_counting,
    minority_commits,
    own_entries_count_before_the_sync,
    commit_capped_by_the_end,
    no_gate,
    acknowledge_before_the_sync,
    truncation_at_once,
    truncation_keeps_what_is_before,
    compare_by_the_index_only,
    append_without_a_comparison,
    gap_is_appended,
    commits_what_has_yet_to_leave,
    append_without_compare,
    code_is_believed,
    nothing_is_sent_again,
    refusal_ignored,
    steps_past_what_may_be_shared,
)
