"""Simulated histories in which no topic vanishes and no offset goes back, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
import trio
from metadata_runs import Objection, run

from actors.metadata.core import tables
from actors.metadata.core.kinds import TOPICS, Kind
from actors.metadata.core.tables import Tables
from actors.metadata.keeper import MetadataKeeper

SEEDS = range(12)
MUTATION_SEEDS = range(40)


@pytest.mark.checklist(48, of="autoswitch")
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_topic_vanishes_and_no_offset_goes_back(autojump_clock: object, seed: int) -> None:
    judge = await run(seed)
    assert judge.seen > 10


def _whatever_is_missing_goes(kind: Kind, own: Any, answer: Any) -> Any:
    """As 4.9 does."""
    if own.data_version == answer.data_version:
        return own, frozenset()
    rows = kind.rows or ""
    return answer, frozenset(getattr(own, rows)) - frozenset(getattr(answer, rows))


def _the_masters_offsets(
    own: Mapping[int, int], theirs: Mapping[int, int], said: Mapping[int, int]
) -> dict[int, int]:
    """T21."""
    return {**own, **theirs}


def _same_master(found: Tables) -> Tables:
    return found


def _cleared_first(view_of: Any) -> Callable[..., None]:
    """T23: there is a moment without topics."""

    def adopt(self: Any, message: Any) -> None:
        if message.kind is TOPICS and self.view.tables.topics != message.answer:
            empty = attrs.evolve(self.view.tables, topics=TOPICS.empty)
            before = self.view.tables
            self.view.publish(empty)
            self.view.tables = before
        view_of(self, message)

    return adopt


MUTATIONS: dict[str, tuple[Any, str, Any]] = {
    "what an answer lacks goes": (tables, "_next_version", _whatever_is_missing_goes),
    "the master's offsets count": (tables, "_larger_or_reset", _the_masters_offsets),
    "a restarted master is the same one": (tables, "another_master", _same_master),
    "the table is cleared first": (
        MetadataKeeper,
        "_adopt",
        _cleared_first(MetadataKeeper._adopt),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_broken_rule_is_noticed(
    autojump_clock: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, what, broken = MUTATIONS[name]
    monkeypatch.setattr(where, what, broken)
    for seed in MUTATION_SEEDS:
        try:
            await run(seed)
        except ExceptionGroup as group:
            if group.subgroup((Objection, trio.TooSlowError)) is None:
                raise
            return
    pytest.fail(f"{name}: no seed shows it")
