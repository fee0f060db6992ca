"""Who is master, when it opens, whom a slave follows: one rule each."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from roles_kit import A, B, P, fenced, opened, promoted, rules, said, slave, start

from actors.epochs import Epoch
from actors.events import roles as events
from actors.ha.core.extent import LogExtent
from actors.ha.core.role_effects import Effects, Fence, Role, RoleState
from actors.ha.core.role_rules import ASK_GRACE_S, PLAUSIBLE_BYTES
from actors.log_types import GroupRecord, GroupState, Promotion

# A master opens.


def test_a_master_opens_when_all_members_were_heard() -> None:
    one = rules()
    assert not opened(start(one))
    assert one.view().state is RoleState.ASKING
    assert "n1, n2" in one.view().reason
    assert not opened(one.heard("n1", said("n1"), 0.1))
    effects = one.heard("n2", said("n2"), 0.2)
    assert opened(effects)
    epoch = Epoch(0, 1001, "n0", 0)
    assert effects.record == GroupRecord(history=(epoch,))
    assert effects.events == (
        events.GroupOpened(number=0, token=1001, start_bytes=0, heard=("n1", "n2")),
    )
    view = one.view()
    assert (view.role, view.state, view.opened) == (Role.MASTER, RoleState.OPEN, True)


def test_a_master_without_members_to_ask_opens_at_once() -> None:
    assert opened(start(rules(members=())))


def test_one_silent_member_holds_it_back_for_a_while_only() -> None:
    one = rules()
    start(one, now_s=10.0)
    effects = one.heard("n2", said("n2"), 10.5)
    assert (opened(effects), effects.deadline_s) == (False, 10.0 + ASK_GRACE_S)
    assert not opened(one.tick(11.9))
    assert opened(one.tick(10.0 + ASK_GRACE_S))


@pytest.mark.parametrize("since_s", [0.1, 2.3, 33.7, 1e9 / 7])
def test_no_tick_asks_for_another_at_the_same_moment(since_s: float) -> None:
    one = rules()
    deadline_s = start(one, now_s=since_s).deadline_s
    assert deadline_s is not None
    assert one.tick(deadline_s).deadline_s is None


def test_a_master_that_is_alone_never_opens() -> None:
    one = rules(copies=1)
    start(one)
    effects = one.tick(10_000.0)
    assert not opened(effects)
    assert effects.deadline_s is None
    assert opened(one.heard("n1", said("n1"), 10_001.0))


def test_a_member_that_does_not_know_the_promotion_yet_does_not_count() -> None:
    """It may still follow an older master, and its log grow."""
    one = rules(members=("n1",), promotion_number=3, promotion_master="n0")
    start(one)
    assert not opened(one.heard("n1", said("n1", number=2), 5.0))
    assert opened(one.heard("n1", said("n1", number=3), 5.1))


def test_who_becomes_master_hears_one_of_every_set_that_may_hold_an_append() -> None:
    members = ("n1", "n2", "n3", "n4")
    fresh = rules(members=members, promotion_number=1, promotion_master="n0")
    start(fresh)
    for heard in ("n1", "n2"):
        assert not opened(fresh.heard(heard, said(heard, number=1), 9.0))
    assert opened(fresh.heard("n3", said("n3", number=1), 9.0))
    again = rules(
        members=members, promotion_number=1, promotion_master="n0", history=(Epoch(1, 5, "n0", 0),)
    )
    start(again)
    assert opened(again.heard("n1", said("n1", number=1), 9.0)), "it has all that it acknowledged"


@pytest.mark.parametrize(
    ("history", "enough"),
    [((A,), True), ((Epoch(0, 5, "n9", 0),), False), ((), False), ((Epoch(2, 5, "n1", 0),), False)],
)
def test_the_master_before_is_enough_if_it_opened_the_log(
    history: tuple[Epoch, ...], enough: bool
) -> None:
    """What was acknowledged is in the log of the last who took appends."""
    chosen = rules("n2", ("n0", "n1"), copies=1, promotion_number=1, promotion_master="n2")
    start(chosen, 50)
    effects = chosen.heard("n0", said("n0", 0, *history, number=1, master="n2"), ASK_GRACE_S)
    assert opened(effects) is enough


# Fences.


@pytest.mark.parametrize(
    ("own", "own_end", "theirs", "their_end", "expected"),
    [
        ((A,), 90, (A,), 100, Fence.SLAVE_AHEAD),
        ((A,), 90, (A, B), 130, Fence.SLAVE_AHEAD),  # an older copy of the same master
        ((), 0, (A,), 10, Fence.SLAVE_AHEAD),  # an empty disk
        ((A,), 120, (A, B), 130, Fence.SLAVE_AHEAD),  # an epoch of ours that is not known here
        ((A, P), 200, (A,), 130, None),  # the rest of the master before us
        ((A, P), 200, (A, B), 130, None),
        ((A,), 100, (A,), 100, None),
        ((A,), 100, (), 0, None),
    ],
)
def test_what_a_member_holds_keeps_a_master_closed(
    own: Any, own_end: int, theirs: Any, their_end: int, expected: Fence | None
) -> None:
    one = rules(members=("n1",), history=own)
    start(one, own_end)
    effects = one.heard("n1", said("n1", their_end, *theirs), 1.0)
    assert fenced(one) == expected
    assert opened(effects) == (expected is None)
    if expected is not None:
        (reported,) = effects.events
        assert isinstance(reported, events.MasterFenced)
        assert reported.reason == expected.name
        assert one.view().reason.endswith(": `promote orders` makes the furthest node master")
        assert one.heard("n1", said("n1", their_end, *theirs), 1.1).events == (), "reported once"


@pytest.mark.parametrize(
    ("writer", "text"),
    [
        ("n1", "n1 holds what it wrote itself from 100 on"),
        ("n2", "n1 holds what n2 wrote from 100 on"),
    ],
)
def test_it_is_said_who_wrote_what_a_member_holds(writer: str, text: str) -> None:
    one = rules(members=("n1", "n2"), history=(A,))
    start(one, 120)
    one.heard("n1", said("n1", 130, A, Epoch(0, 2, writer, 100)), 1.0)
    one.heard("n2", said("n2", 90, A), 1.1)
    assert one.view().reason.startswith(f"a member holds bytes that this log lacks: {text}: ")


def test_the_fence_ends_when_the_member_is_not_ahead_any_more() -> None:
    one = rules(members=("n1",), history=(A,))
    start(one, 90)
    one.heard("n1", said("n1", 100, A), 1.0)
    assert opened(one.heard("n1", said("n1", 90, A), 2.0))
    assert fenced(one) is None


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ({"acknowledged": 101}, "n1 has heard that all below 101 is acknowledged"),
        ({"acknowledged": 100}, None),
        ({"acknowledged": 101, "number": 0}, None),  # it may mean what was given up since
        ({"history": (A, Epoch(3, 9, "n0", 101))}, "n1 knows that it ended at 101 once"),
        ({"history": (A, Epoch(3, 9, "n0", 100))}, None),  # nothing was written in it
        ({"history": (A, Epoch(2, 9, "n1", 101))}, None),  # promotion 3 may have given it up
    ],
)
def test_what_a_lagging_member_knows_of_our_log_keeps_a_master_closed(
    heard: dict[str, Any], expected: str | None
) -> None:
    """The newest slave is away, and this log may be an older copy."""
    one = rules(promotion_number=3, promotion_master="n0", history=(A, Epoch(3, 8, "n0", 60)))
    start(one, 100)
    lagging = said("n1", 50, **{"history": (A,), "number": 3, **heard})
    effects = one.heard("n1", lagging, ASK_GRACE_S)
    assert opened(effects) is (expected is None and lagging.number == 3)
    if expected is not None:
        assert fenced(one) is Fence.SHORTER_THAN_MARK
        assert expected in one.view().reason
        assert "`promote orders`" in one.view().reason


def test_a_log_shorter_than_its_mark_stays_closed() -> None:
    one = rules(members=(), history=(A,), high_water_bytes=101)
    assert not opened(start(one, 100))
    assert fenced(one) is Fence.SHORTER_THAN_MARK


def test_a_slave_s_mark_may_have_been_in_the_middle_of_a_record() -> None:
    follower = {"promotion_number": 1, "promotion_master": "n1", "history": (A,)}
    one = rules(node="n1", members=(), **follower, high_water_bytes=104)
    assert opened(start(one, 100, kept_bytes=4))
    assert one.record.high_water_bytes == 100
    torn = rules(node="n1", members=(), **follower, high_water_bytes=104, synced=False)
    assert not opened(start(torn, 100, kept_bytes=4, was_clean=False))
    own = rules(members=(), history=(A,), high_water_bytes=104)
    assert not opened(start(own, 100, kept_bytes=4)), "a master acknowledges whole records"


def test_two_masters_by_one_number_close_the_one_that_hears_of_it() -> None:
    one = rules(members=("n1",))
    start(one)
    assert opened(one.heard("n1", said("n1"), 0.0))
    effects = one.heard("n1", said("n1", master="n1", role="master"), 1.0)
    assert effects.gate is not None
    assert not effects.gate.open
    assert fenced(one) is Fence.CONFLICT
    assert opened(one.heard("n1", said("n1"), 2.0)), "its configuration was mended"
    assert len(one.record.history) == 1, "the epoch goes on"


@pytest.mark.checklist(8)
def test_a_java_slave_is_ahead_when_it_says_so_twice() -> None:
    one = rules(members=())
    start(one, 100)
    one.reported_ahead("j", 150, 1.0)
    one.reported_ahead("j", 160, 2.0)
    one.reported_ahead("j", 100 + PLAUSIBLE_BYTES + 1, 2.5)
    assert fenced(one) is None
    one.reported_ahead("j", 160, 3.0)
    assert fenced(one) is Fence.SLAVE_AHEAD


# Promotions.


def test_a_promotion_is_remembered_and_the_tree_restarted_by_it() -> None:
    one = rules()
    start(one)
    effects = one.recorded(Promotion(1, "n1"), 1.0, token=77)
    assert effects.record == GroupRecord(promotion_number=1, promotion_master="n1")
    assert effects.restart
    assert effects.gate is not None
    assert effects.gate.master == "n1"
    view = one.view()
    assert (view.number, view.fence) == (0, Fence.SUPERSEDED), "not acted on before the restart"
    assert start(one).gate is not None
    view = one.view()
    assert (view.role, view.number, view.master) == (Role.SLAVE, 1, "n1")


def test_a_tree_built_by_an_older_promotion_is_not_taken_for_the_new_one() -> None:
    one = rules(members=())
    promoted(one, Promotion(1, "n0"), 1.0)
    assert one.started(Promotion(0, "n0"), LogExtent(0, 0, 0), 1.0) == Effects()
    assert not one.acts
    assert opened(start(one))


@pytest.mark.parametrize("promotion", [Promotion(1, "n2"), Promotion(2, "n0"), Promotion(3, "x")])
def test_an_older_or_contradicting_promotion_is_refused(promotion: Promotion) -> None:
    one = rules(promotion_number=2, promotion_master="n1")
    start(one)
    effects = one.recorded(promotion, 1.0, token=77)
    assert effects.refused
    assert effects.record is None
    assert one.recorded(Promotion(2, "n1"), 1.0, token=77) == Effects(), "the same again is no news"


def test_a_promotion_is_heard_from_a_member() -> None:
    one = rules()
    start(one)
    effects = one.heard("n2", said("n2", number=4, master="n2"), 1.0)
    assert (effects.restart, one.promotion) == (True, Promotion(4, "n2"))
    assert not one.heard("n1", said("n1", number=5, master="stranger"), 1.0).restart


def test_force_opens_without_hearing_anybody_whatever_was_lost() -> None:
    one = rules(history=(A,), high_water_bytes=100)
    start(one, 90)
    one.heard("n1", said("n1", 100, A), 1.0)
    assert fenced(one) is Fence.SLAVE_AHEAD
    assert promoted(one, Promotion(1, "n0"), 2.0, force=True).restart
    effects = start(one, 90)
    assert opened(effects)
    assert [each.forced for each in effects.events if isinstance(each, events.GroupOpened)] == [
        True
    ]
    assert one.record.high_water_bytes == 90
    assert one.record.history[-1] == Epoch(1, 1001, "n0", 90)


# A slave.


def master(end: int, *history: Epoch, **changes: Any) -> GroupState:
    more = {"role": "master", "state": "open", "opened": True, **changes}
    return said("n0", end, *history, **more)


def test_a_slave_that_fits_follows_and_takes_the_master_s_history() -> None:
    one = slave(80, history=(A,))
    assert one.verify(5, 80).ask == (("n0", 1),)
    effects = one.heard("n0", master(120, A, B), 1.0, asked=1)
    assert effects.verdict is not None
    assert (effects.verdict.session, effects.verdict.fits) == (5, True)
    assert effects.record is not None
    assert effects.record.history == (A, B)
    assert one.view().state is RoleState.FOLLOWING
    one.left(5)
    assert one.view().state is RoleState.CONNECTING


def test_a_copy_that_is_found_damaged_while_it_is_asked_for_does_not_follow() -> None:
    one = slave(80, history=(A,))
    one.verify(5, 80)
    one.copy_is("bytes 0 to 10 are damaged")
    answer = one.heard("n0", master(120, A, B), 1.0, asked=1)
    assert answer.verdict is None
    assert one.view().state is RoleState.DAMAGED
    one.copy_is("")
    assert one.view().state is RoleState.CONNECTING


def test_the_end_of_an_older_connection_is_no_news() -> None:
    """It may be reported behind the next one's verdict."""
    one = slave(100, history=(A,))
    one.verify(5, 100)
    one.verify(6, 100)
    assert one.heard("n0", master(500, A, B), 1.0, asked=2).verdict is not None
    one.left(5)
    assert one.view().state is RoleState.FOLLOWING
    one.left(6)
    assert one.view().state is RoleState.CONNECTING


def test_a_slave_with_foreign_bytes_does_not_report() -> None:
    one = slave(110, history=(A,))
    one.verify(5, 110)
    effects = one.heard("n0", master(500, A, B), 1.0, asked=1)
    assert effects.verdict is not None
    assert not effects.verdict.fits
    assert "equal up to 100 only: `resync n1`" in effects.verdict.detail
    assert effects.record is None
    assert one.view().state is RoleState.DIVERGED
    (reported,) = effects.events
    assert isinstance(reported, events.LogDiverged)
    assert reported.consistent_bytes == 100
    one.verify(6, 110)
    assert one.view().state is RoleState.DIVERGED, "until it is found to fit"
    assert one.heard("n0", master(500, A, B), 1.0, asked=2).events == (), "reported once"


@pytest.mark.parametrize(
    "state",
    [
        master(100, A, opened=False),
        master(100, A, number=0),
        master(100, A, role="slave"),
    ],
)
def test_a_master_that_has_not_opened_by_this_promotion_is_waited_for(state: GroupState) -> None:
    one = slave(80, history=(A,), promotion_number=1, promotion_master="n0")
    by_it = attrs.evolve(state, number=state.number and 1) if state.opened else state
    one.verify(5, 80)
    assert one.heard("n0", by_it, 1.0, asked=1) == Effects()
    ready = master(100, A, number=1)
    assert one.heard("n0", ready, 2.0).ask == (("n0", 2),), "a push may be older"
    one.verify(6, 80)
    assert one.heard("n0", ready, 2.0, asked=2).ask == (("n0", 4),), "asked before it connected"
    effects = one.heard("n0", ready, 2.0, asked=3)
    assert effects.verdict is not None
    assert effects.verdict.fits


def test_a_push_that_comes_before_the_answer_makes_no_storm_of_questions() -> None:
    one = slave(80, history=(A,))
    one.verify(5, 80)
    assert one.heard("n0", master(120, A), 1.0).ask == (("n0", 2),)
    effects = one.heard("n0", master(120, A), 1.0, asked=1)
    assert effects.verdict is not None
    assert effects.verdict.fits
    assert one.heard("n0", master(120, A), 1.0, asked=2) == Effects()


def test_what_another_member_says_is_no_answer() -> None:
    one = slave(80, history=(A,))
    one.verify(5, 80)
    assert one.heard("n2", attrs.evolve(master(100, A), node="n2"), 1.0, asked=1) == Effects()


def test_a_java_master_is_followed_unasked() -> None:
    one = rules(node="n1", members=("n2",))
    start(one)
    effects = one.verify(1, 0)
    assert effects.verdict is not None
    assert effects.verdict.fits


def test_a_slave_is_cut_where_it_parts_from_its_master() -> None:
    one = slave(130, history=(A, B), high_water_bytes=125)
    effects = one.resync(0, 100)
    assert effects.restart
    assert effects.record is not None
    assert effects.record.cut_bytes == 100
    assert not one.acts
    assert start(one, 130) == Effects(), "built before it was decided"
    started = start(one, 100)
    assert started.record == GroupRecord(history=(A,), high_water_bytes=100)
    assert one.acts
    assert one.resync(1, 100).refused, "by another promotion"
    assert rules().resync(0, 100).refused, "a master"


def test_the_mark_only_rises() -> None:
    one = slave(80)
    effects = one.high_water(70)
    assert effects.record == GroupRecord(high_water_bytes=70)
    assert not effects.rests
    assert one.high_water(60) == Effects()
