"""Auto-switch groups in simulated worlds: seeds that pass, and broken code that judges catch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.ha.core.sync_state_set import SyncStateSet
from actors.log_types import Offsets
from actors.node.autoswitch import AutoSwitchPart
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


def confirms_alone(patch: pytest.MonkeyPatch) -> None:
    """A master confirms what it has itself, whatever the others have."""

    def confirm(members: SyncStateSet) -> None:
        members.confirm_bytes = max(members.confirm_bytes, members.end_bytes)

    patch.setattr(SyncStateSet, "_confirm", confirm)


def confirms_without_absent(patch: pytest.MonkeyPatch) -> None:
    """A member that is not connected holds nothing up."""
    real = SyncStateSet._confirm

    def confirm(members: SyncStateSet) -> None:
        present = members._replicas.keys() | {members.own}
        whole, members.members = members.members, members.members & present
        real(members)
        members.members = whole

    patch.setattr(SyncStateSet, "_confirm", confirm)


def shows_what_is_confirmed_so_far(patch: pytest.MonkeyPatch) -> None:
    """A fresh read of a new master does not wait for what the master before acknowledged."""

    async def known(part: AutoSwitchPart, above: int) -> Offsets:
        return await part.wait_offsets(None)

    patch.setattr(AutoSwitchPart, "wait_acknowledged", known)


@pytest.mark.parametrize(
    ("broken", "seed", "judge"),
    [
        (confirms_alone, "1", "AcknowledgedIsOnTheSet"),
        (confirms_without_absent, "2", "AcknowledgedIsOnTheSet"),
        (shows_what_is_confirmed_so_far, "4", "Linearizable"),
    ],
)
def test_broken_code_is_caught(
    broken: Callable[[pytest.MonkeyPatch], None],
    seed: str,
    judge: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    outcome = run_seed(seed, mode=MODE)
    assert judge in {each.checker for each in outcome.violations}
