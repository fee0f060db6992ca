"""Rules of the Raft paper and of upstream that no other file of tests shows; see `rules.toml`."""

from __future__ import annotations

import pytest
from core_member import Member
from core_run import run_seed
from core_world import Faults, World
from dispatch_kit import Kit as DispatchKit
from election_kit import Kit as ElectionKit

from actors.dledger.core.intake_effects import StoreChange
from actors.dledger.core.member_state import Role
from actors.dledger.core.settings import STRICT, CompatSettings
from actors.dledger.core.votes import Pause
from wire.dledger.codes import PushType

SEEDS = 10


def test_pauses_between_campaigns_are_drawn_from_the_interval() -> None:
    election = ElectionKit().election
    pauses = [election.pause(Pause.RANDOM) for _ in range(200)]
    settings = election.settings
    assert settings.vote_interval_min_s <= min(pauses)
    assert max(pauses) <= settings.vote_interval_max_s
    assert len(set(pauses)) == len(pauses)
    assert max(pauses) - min(pauses) > 0.5 * (
        settings.vote_interval_max_s - settings.vote_interval_min_s
    )


def test_a_leaders_log_only_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that takes entries away goes through the follower's part."""
    changed: list[Role] = []
    real = Member._store

    def store(member: Member, change: StoreChange) -> None:
        changed.append(member.election.state.role)
        real(member, change)

    monkeypatch.setattr(Member, "_store", store)
    cuts = sum(run_seed(seed).counts.get("cuts", 0) for seed in range(SEEDS))
    assert cuts
    assert set(changed) == {Role.FOLLOWER}


def test_an_acknowledgement_takes_all_up_to_it() -> None:
    kit = DispatchKit(pending_max=3)
    kit.append_state()
    kit.grow(6)
    _, second, _ = kit.take(*[PushType.APPEND] * 3)
    kit.answer(second)
    assert kit.dispatch.matched == second.last
    assert [push.first for push in kit.take(PushType.APPEND, PushType.APPEND)] == [13, 14]


@pytest.mark.parametrize(
    "compat",
    [
        STRICT,
        CompatSettings(term_entry="none", count_older=True),
    ],
    ids=lambda compat: compat.term_entry,
)
def test_an_idle_new_leader_learns_what_is_committed(compat: CompatSettings) -> None:
    """By the entry that opens its term, or by counting; no client appends anything meanwhile."""
    world = World(seed=1, faults=Faults(lost=0.0, twice=0.0), compat=compat)
    world.start_all()
    world.run(20.0)
    old = world.leader
    assert old is not None
    old.append("x")
    world.run(world.now_s + 0.2)
    last = len(old.disk.log) - 1
    old.stop()
    world.run(world.now_s + 20.0)
    new = world.leader
    assert new is not None
    opening = 0 if compat.term_entry == "none" else 1
    assert new.committed == len(new.disk.log) - 1 == last + opening
