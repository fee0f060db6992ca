"""Auto-switch groups in simulated worlds: seeds that pass."""

from __future__ import annotations

import pytest

from actors.sim.running import run_seed

MODE = "autoswitch"


@pytest.mark.parametrize("seed", ["1", "4", "13", "20"])
def test_a_seed_passes(seed: str) -> None:
    outcome = run_seed(seed, mode=MODE)
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 0
    assert outcome.counts["epochs"] > 0


def test_a_seed_is_the_same_run_again() -> None:
    first, second = run_seed("2", mode=MODE), run_seed("2", mode=MODE)
    assert (first.fingerprint, first.digest) == (second.fingerprint, second.digest)
