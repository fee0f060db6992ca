"""Whole groups of the pure classes: drawn faults, then convergence; and scenes by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pytest
from broken_core import older_terms_by_counting
from core_member import Member
from core_run import converge, run_seed
from core_world import Faults, World

from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.member_state import ROLE_TRANSITIONS, Role
from actors.dledger.core.push_effects import DISPATCHER_TRANSITIONS, DispatcherState
from actors.dledger.core.roles import Roles
from actors.dledger.core.settings import PushSettings

SEEDS = 40
UNDRAWN = {
    ("FOLLOWER", "FOLLOWER"),
    ("LEADER", "LEADER"),
    ("COMPARE", "INSTALL_SNAPSHOT"),
    ("INSTALL_SNAPSHOT", "TRUNCATE"),
    ("INSTALL_SNAPSHOT", "COMPARE"),
}
"""No actors crash here, and no group has a state machine: `test_dledger_sessions` and
`test_dledger_dispatch_install` take these."""
SEEN = (
    "LEADER",
    "commits",
    "kills",
    "cuts of the network",
    "splits",
    "expiries",
    "cuts",
    "restarts of a log",
    "removals held",
    "done",
    "unknown",
    "transfer SUCCESS",
    "transfer TIMEOUT",
)
"""What happens somewhere in these seeds; otherwise they show little."""


def test_drawn_groups_keep_every_promise_and_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    """And take all transitions that the tables of states list, but those of UNDRAWN."""
    taken = transitions_taken(monkeypatch)
    total: dict[str, int] = {}
    for seed in range(SEEDS):
        try:
            world = run_seed(seed)
        except AssertionError as error:
            error.add_note(f"python tests/dledger/core_run.py {seed} {seed + 1}")
            raise
        for what, count in world.counts.items():
            total[what] = total.get(what, 0) + count
    assert {what for what in SEEN if not total.get(what)} == set()
    assert total["done"] > 50 * SEEDS
    assert taken == listed() - UNDRAWN


Pairs: TypeAlias = set[tuple[str, str]]
"""Transitions: the name of a state, and of the next. As numbers those of two tables are equal."""


def listed() -> Pairs:
    """All that the tables allow."""
    tables: tuple[Mapping[Any, Mapping[Any, str]], ...] = (
        ROLE_TRANSITIONS,
        DISPATCHER_TRANSITIONS,
    )
    return {
        (state.name, after.name)
        for table in tables
        for state, following in table.items()
        for after in following
    }


def transitions_taken(patch: pytest.MonkeyPatch) -> Pairs:
    """A set that each transition is put into from now on."""
    taken: Pairs = set()
    change, enter = Dispatch._change, Roles._enter

    def changed(self: Dispatch, state: DispatcherState, detail: str, **words: bool) -> None:
        taken.add((self.state.name, state.name))
        change(self, state, detail, **words)

    def entered(self: Roles, role: Role, leader: str) -> None:
        taken.add((self.state.role.name, role.name))
        enter(self, role, leader)

    patch.setattr(Dispatch, "_change", changed)
    patch.setattr(Roles, "_enter", entered)
    return taken


def test_a_transition_that_no_table_lists_is_refused() -> None:
    world = quiet()
    member = next(m for m in world.members.values() if m.election.state.role is Role.FOLLOWER)
    with pytest.raises(AssertionError, match="FOLLOWER to LEADER"):
        member.election._enter(Role.LEADER, member.name)
    assert member.election.state.role is Role.FOLLOWER
    leader = world.leader
    assert leader is not None
    dispatch = next(iter(leader.dispatches.values()))
    assert dispatch.state is DispatcherState.APPEND
    with pytest.raises(AssertionError, match="APPEND to TRUNCATE"):
        dispatch._change(DispatcherState.TRUNCATE, "")
    assert dispatch.state is DispatcherState.APPEND


def test_a_seed_says_everything() -> None:
    one, two = run_seed(3), run_seed(3)
    assert one.counts == two.counts
    assert [m.disk for m in one.members.values()] == [m.disk for m in two.members.values()]


def quiet(size: int = 3, *, pending_max: int = 1000) -> World:
    """A group without faults that has a leader and one committed append."""
    push = PushSettings(pending_max=pending_max)
    world = World(seed=1, size=size, faults=Faults(lost=0.0, twice=0.0), push=push)
    world.start_all()
    world.run(20.0)
    leader = world.leader
    assert leader is not None
    leader.append("first", 3)
    world.run(25.0)
    assert world.outcomes["first"] == "done"
    return world


def isolate(world: World, name: str) -> None:
    for other in world.names:
        if other != name:
            world.cut |= {(name, other), (other, name)}


@pytest.mark.checklist(33, of="dledger")
def test_an_isolated_follower_comes_back_without_deposing_its_leader() -> None:
    world = quiet()
    leader = world.leader
    assert leader is not None
    follower = next(m for m in world.members.values() if m is not leader)
    term, session = leader.election.state.term, leader.session
    isolate(world, follower.name)
    world.run(125.0)
    leader.append("meanwhile")
    assert follower.election.state.role is Role.CANDIDATE
    assert follower.election.state.term == term, "nobody answered it: it keeps its term"
    world.cut.clear()
    world.run(140.0)
    assert (world.leader, leader.session) == (leader, session)
    assert follower.election.state.leader == leader.name
    converge(world)


@pytest.mark.checklist(31, 33, of="dledger")
def test_an_isolated_leader_answers_what_waits_and_follows_when_it_is_back() -> None:
    world = quiet()
    leader = world.leader
    assert leader is not None
    isolate(world, leader.name)
    leader.append("alone")
    world.run(27.6)
    assert world.outcomes["alone"] == "unknown", "502 within the limit"
    leader.append("still alone")
    leader.append("and again")
    world.run(45.0)
    assert leader.election.state.role is Role.CANDIDATE
    assert world.outcomes["and again"] == "unknown"
    other = world.leader
    assert other is not None
    other.append("elsewhere")
    world.run(50.0)
    assert world.outcomes["elsewhere"] == "done"
    leaders = len(world.leaders)
    world.cut.clear()
    converge(world)
    assert len(world.leaders) <= leaders + 1


@pytest.mark.checklist(23, of="dledger")
@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.3])
def test_a_new_leader_that_dies_early_takes_nothing_that_was_acknowledged(after_s: float) -> None:
    world = quiet()
    old = world.leader
    assert old is not None
    for i in range(20):
        old.append(f"b{i}")
    world.run(world.now_s + 0.05)
    old.stop()
    while world.leader is None:
        world.run(world.now_s + 0.01)
    world.run(world.now_s + after_s)
    new = world.leader
    new.stop()
    old.start()
    world.run(world.now_s + 30.0)
    new.start()
    converge(world)
    done = [name for name, outcome in world.outcomes.items() if outcome == "done"]
    bodies = {each.body for each in world.chosen}
    assert all(f"{name}.0".encode() in bodies for name in done)


def figure_8() -> None:
    """The Raft paper's: an entry of an older term on a majority, and a leader that lacks it."""
    world = quiet(5, pending_max=1)
    one = world.leader
    assert one is not None
    two, *others = [m for m in world.members.values() if m is not one]
    isolate(world, one.name)
    world.cut -= {(one.name, two.name), (two.name, one.name)}
    one.append("x")
    x = len(one.disk.log) - 1
    world.run(world.now_s + 1.0)
    one.stop()
    two.stop()
    assert [len(m.disk.log) > x for m in (one, two, *others)] == [True, True, False, False, False]
    world.cut.clear()
    five = until_led(world)  # its own first entry stays with it
    isolate(world, five.name)
    world.run(world.now_s + 0.1)
    five.stop()
    assert five.disk.log[x].term > one.disk.log[x].term
    world.cut.clear()
    three, four = (m for m in others if m is not five)
    isolate(world, four.name)
    one.start()
    two.start()
    leader = until_led(world)
    assert leader in (one, two)
    ways = {(leader.name, three.name), (three.name, leader.name)}
    world.cut |= ways
    until_acknowledged(leader, two if leader is one else one, x)
    world.cut -= ways
    until_acknowledged(leader, three, x)
    assert len(three.disk.log) == x + 1, "the leader's own first entry is on two only"
    isolate(world, leader.name)
    one.stop()
    two.stop()
    world.run(world.now_s + 0.1)
    world.cut.clear()
    five.start()
    assert until_led(world) is five
    world.run(world.now_s + 1.0)
    one.start()
    two.start()
    converge(world)
    assert "x" not in world.outcomes
    assert world.chosen[x].body != b"x.0"


def until_led(world: World) -> Member:
    while world.leader is None:
        world.run(world.now_s + 0.001)
    return world.leader


def until_acknowledged(leader: Member, peer: Member, index: int) -> None:
    world = leader.world
    while leader.quorum.watermarks[peer.name] < index:
        world.run(world.now_s + 0.001)


@pytest.mark.checklist(24, of="dledger")
def test_figure_8(monkeypatch: pytest.MonkeyPatch) -> None:
    figure_8()
    older_terms_by_counting(monkeypatch)
    with pytest.raises(AssertionError, match="LeaderCompleteness"):
        figure_8()


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.checklist(36, of="dledger")
def test_small_and_even_groups(size: int) -> None:
    world = quiet(size)
    leader = world.leader
    assert leader is not None
    down = [m for m in world.members.values() if m is not leader][: (size - 1) // 2]
    for member in down:
        member.stop()
    leader.append("with the rest")
    world.run(world.now_s + 2.0)
    assert world.outcomes["with the rest"] == "done"
    for member in world.members.values():
        if member is not leader and member.up:
            member.stop()
            leader.append("with too few")
            world.run(world.now_s + 3.0)
            assert world.outcomes["with too few"] == "unknown"
            break
    converge(world)


def test_a_member_without_its_head_or_with_an_empty_log_is_filled_from_the_leaders_begin() -> None:
    world = quiet()
    leader = world.leader
    assert leader is not None
    follower = next(m for m in world.members.values() if m is not leader)
    follower.stop()
    leader.append("more", 20)
    world.run(world.now_s + 1.0)
    leader.expire(leader.committed - 4)
    world.run(world.now_s + 1.0)
    follower.start()
    world.run(world.now_s + 10.0)
    assert follower.disk.begin == leader.disk.begin > 0
    assert world.counts["restarts of a log"] == 3
    converge(world)
