"""The pure protocol, broken on purpose: each variant fails in the world, or its rule's test."""

from __future__ import annotations

import pytest
from broken_core import MUTATIONS, Mutation
from core_mutations import RULES, breaks, hunt, main

SEEDS_MAX = 60
LATE = {"nothing_is_sent_again": 9, "joined_before_it_holds_the_log": 140}
"""The first seed that shows it, of a break that none of the seeds before does."""
BY_SEED = [mutation for mutation in MUTATIONS if mutation.__name__ not in RULES]
BY_RULE = [mutation for mutation in MUTATIONS if mutation.__name__ in RULES]


@pytest.mark.parametrize("mutation", BY_SEED, ids=lambda mutation: mutation.__name__)
def test_the_world_objects_to_it(mutation: Mutation) -> None:
    seeds = (LATE.get(mutation.__name__, 0), *range(SEEDS_MAX))
    assert hunt(mutation, seeds).what


@pytest.mark.parametrize("mutation", BY_RULE, ids=lambda mutation: mutation.__name__)
def test_the_test_of_its_rule_fails(mutation: Mutation) -> None:
    rule = RULES[mutation.__name__]
    rule()
    assert breaks(mutation, rule)


def test_every_rule_is_of_a_mutation() -> None:
    assert set(RULES) <= {mutation.__name__ for mutation in MUTATIONS}


def test_the_table_says_who_caught_what(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--seeds", "5", "minority_commits", "no_gate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[1].split(":")[0] for line in lines[2:]] == [
        "CommittedIsOnQuorum",
        "test_an_older_term_changes_nothing",
    ]
    monkeypatch.setattr("core_mutations.hunt", lambda mutation, seeds: hunt(_nothing, seeds))
    assert main(["--seeds", "1", "minority_commits"]) == 1
    assert "nobody" in capsys.readouterr().out


def _nothing(patch: pytest.MonkeyPatch) -> None:
    """The code as it is."""
