"""Simulated histories of controllers and replicas, and what it takes that they are right."""

from __future__ import annotations

import pytest
from broken_controllers import MUTATIONS, Break
from controller_runs import Objection, run

SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
async def test_controllers_decide_as_one(autojump_clock: object, seed: int) -> None:
    history = await run(seed)
    assert history.counts["epochs"] > 1
    assert history.counts["answers"] > 20


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
async def test_what_is_broken_is_found(
    autojump_clock: object, mutation: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, judge = MUTATIONS[mutation]
    mutation(monkeypatch)
    with pytest.RaisesGroup(
        pytest.RaisesExc(Objection, match=f"^{judge}:"), flatten_subgroups=True
    ):
        await run(seed)
