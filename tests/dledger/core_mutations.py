"""The pure protocol, broken on purpose, one rule at a time: what notices, and at which seed.

    python tests/dledger/core_mutations.py [--seeds 500] [--first 0] [NAME ...]

prints a table mutation -> what objected -> seed; exit code 1 if nothing objects to one. A mutation
that RULES names is caught by the test of its rule, and no seed is looked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import attrs
import pytest
import test_dledger_catching_up as of_catching_up
import test_dledger_compare as of_compare
import test_dledger_dispatch as of_dispatch
import test_dledger_election as of_election
import test_dledger_intake as of_intake
import test_dledger_quorum as of_quorum
import test_dledger_raft_votes as of_raft_votes
from broken_core import MUTATIONS, Mutation
from core_run import run_seed

from actors.log_types import Membership
from wire.dledger.codes import PushType

Rule = Callable[[], None]
RULES: dict[str, Rule] = {
    "term_not_persisted": of_election.test_a_larger_term_is_taken_in_the_middle_of_a_round,
    "vote_of_a_larger_term_not_persisted": (
        of_raft_votes.test_a_voter_that_was_killed_knows_whom_it_voted_for
    ),
    "votes_for_what_may_still_grow": (of_raft_votes.test_a_follower_s_log_is_final_before_it_votes),
    "next_term_at_a_minority_s_word": of_raft_votes.test_the_word_of_a_minority_is_not_enough,
    "same_term_again_after_a_vote_for_another": (
        of_election.test_who_voted_for_another_before_a_restart_never_leads_in_that_term
    ),
    "joined_with_a_vote_left": partial(
        of_catching_up.test_it_may_have_voted_in_the_term_that_it_joins_in, Membership.NEW
    ),
    "stale_vote_counts": of_election.test_answers_to_an_older_round_are_not_counted,
    "raise_without_a_quorum": of_election.test_a_silent_group_leaves_the_term_alone,
    "larger_term_in_an_answer_ignored": (
        of_election.test_a_larger_term_ends_a_leadership_though_a_quorum_is_happy
    ),
    "older_terms_by_counting": (
        of_quorum.test_figure_8_an_older_entry_is_committed_only_below_one_of_the_own_term
    ),
    "no_gate": partial(of_intake.test_an_older_term_changes_nothing, PushType.COMMIT),
    "truncation_keeps_what_is_before": partial(
        of_intake.test_truncate_to_what_is_not_held_begins_the_log_anew, 5
    ),
    "append_without_a_comparison": (
        of_intake.test_nothing_is_appended_before_something_was_compared
    ),
    "refusal_ignored": of_dispatch.test_a_refused_push_leads_to_compare,
    "steps_past_what_may_be_shared": partial(
        of_compare.test_thousands_of_conflicting_entries_take_tens_of_questions, 500
    ),
}
"""Tests that fail for what runs of the world may live with for long."""


@attrs.frozen
class Found:
    """What noticed a mutation, at which seed (-1: none). `what` is "" if nothing did."""

    mutation: Mutation
    what: str
    seed: int


def hunt(mutation: Mutation, seeds: Iterable[int]) -> Found:
    """Run the broken code until the world objects. The unbroken code passes all seeds."""
    last = -1
    for seed in seeds:
        last = seed
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            try:
                run_seed(seed)
            except AssertionError as error:
                return Found(mutation, str(error).split("\n")[0] or "an assertion inside", seed)
    return Found(mutation, "", last)


def breaks(mutation: Mutation, rule: Rule) -> bool:
    """Whether the test of a rule fails with the broken code."""
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        try:
            rule()
        except AssertionError:
            return True
    return False


def name_of(rule: Rule) -> str:
    """Of its function."""
    return rule.func.__name__ if isinstance(rule, partial) else rule.__name__


def main(arguments: list[str] | None = None) -> int:
    """Hunt all, or those that are named. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many at most (500)")
    parser.add_argument("--first", type=int, default=0, help="the first one (0)")
    parser.add_argument("names", nargs="*", help="only these")
    args = parser.parse_args(arguments)
    missed = 0
    print("| Mutation | Caught by | Seed | Seconds |\n|---|---|---|---|")
    for mutation in MUTATIONS:
        name = mutation.__name__
        if args.names and name not in args.names:
            continue
        begin_s = os.times().elapsed
        rule = RULES.get(name)
        if rule is not None and breaks(mutation, rule):
            found = Found(mutation, name_of(rule), -1)
        else:
            found = hunt(mutation, range(args.first, args.first + args.seeds))
        seconds = os.times().elapsed - begin_s
        what = found.what or "nobody"
        missed += what == "nobody"
        print(f"| {name} | {what} | {found.seed if found.seed >= 0 else '-'} | {seconds:.1f} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
