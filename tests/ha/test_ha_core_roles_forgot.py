"""Who lost its disk, or part of its log: what it counts for until it has caught up."""

from __future__ import annotations

import attrs
import pytest
from roles_kit import A, P, opened, promoted, rules, said, start

from actors.epochs import Epoch
from actors.ha.core.role_effects import RoleState, Verdict
from actors.ha.core.role_rules import ASK_GRACE_S, RoleRules
from actors.log_types import GroupState, Promotion

LATER = ASK_GRACE_S + 1.0


def master(end: int = 100, **changes: object) -> GroupState:
    """n0, which has opened by the cluster file's word."""
    return said("n0", end, A, **{"role": "master", "state": "open", "opened": True, **changes})


# A master that asks.


@pytest.mark.parametrize("forgot", ["log", "all"])
def test_an_empty_member_is_no_witness_of_what_was_acknowledged(forgot: str) -> None:
    """Found by simulation: two of five held it; one was put back empty, the other cut off."""
    chosen = rules(
        "n4", ("n0", "n1", "n2", "n3"), history=(A,), promotion_number=1, promotion_master="n4"
    )
    start(chosen, 100)
    for name in ("n1", "n3"):
        chosen.heard(name, said(name, 100, A, number=1, master="n4"), LATER)
    assert not opened(chosen.heard("n2", said("n2", number=1, master="n4", forgot=forgot), LATER))
    assert chosen.view().reason == (
        "has not heard n0, and n2 cannot know what was acknowledged (began empty, or lost bytes)"
    )
    caught_up = said("n2", 100, A, number=1, master="n4")
    assert opened(chosen.heard("n2", caught_up, LATER))


def test_when_all_were_heard_nobody_else_can_know() -> None:
    chosen = rules("n2", ("n0", "n1"), history=(A,), promotion_number=1, promotion_master="n2")
    start(chosen, 100)
    assert not opened(chosen.heard("n0", said("n0", 0, number=1, master="n2", forgot="all"), LATER))
    assert opened(chosen.heard("n1", said("n1", 0, number=1, master="n2", forgot="log"), LATER))


def test_the_master_before_is_no_witness_once_it_lost_bytes() -> None:
    chosen = rules(
        "n2", ("n0", "n1", "n3"), history=(A,), promotion_number=1, promotion_master="n2"
    )
    start(chosen, 100)
    before = said("n0", 90, A, number=1, master="n2", forgot="log")
    assert not opened(chosen.heard("n0", before, LATER))
    assert opened(chosen.heard("n0", attrs.evolve(before, forgot=""), LATER))


def test_a_master_hears_from_somebody_who_knows_that_it_still_is() -> None:
    again = rules(history=(A,))
    start(again, 100)
    assert not opened(again.heard("n1", said("n1", forgot="all"), LATER))
    assert opened(again.heard("n1", said("n1", forgot="log"), LATER))


@pytest.mark.parametrize(("copies", "witnesses"), [(1, 1), (2, 5), (3, 4), (4, 4), (5, 5)])
def test_an_empty_master_hears_one_more_than_another(copies: int, witnesses: int) -> None:
    """It may have been one of those that held what was acknowledged, or may have been replaced."""
    empty = rules(members=("n1", "n2", "n3", "n4", "n5"), copies=copies, forgot="all")
    start(empty)
    for count in range(1, 5):
        heard = opened(empty.heard(f"n{count}", said(f"n{count}"), LATER))
        assert heard is (count >= witnesses), count
        if heard:
            return
    assert opened(empty.heard("n5", said("n5"), LATER))


def test_a_new_group_opens_once_all_of_it_was_heard_and_remembers_then() -> None:
    new = rules(forgot="all")
    start(new)
    assert not opened(new.heard("n1", said("n1", forgot="all"), LATER))
    assert new.view().reason == (
        "has not heard n2: waits for it to start, if the group is new, or to say what it knows"
        " (n0, n1 began empty, or lost bytes)"
    )
    effects = new.heard("n2", said("n2", forgot="all"), LATER)
    assert opened(effects)
    assert effects.record is not None
    assert effects.record.forgot == new.view().forgot == ""


def test_force_opens_an_empty_master() -> None:
    one = rules("n1", ("n0", "n2"), forgot="all")
    start(one)
    effects = promoted(one, Promotion(1, "n1"), 1.0, force=True)
    assert effects.record is not None
    assert effects.record.forgot == "log", "a coordinator knows which promotions there were"
    start(one, now_s=2.0)
    assert one.view().state is RoleState.OPEN
    assert one.record.forgot == ""


# A slave.


def test_an_empty_slave_follows_nobody_before_it_knows_who_is_master() -> None:
    """The one that it hears may have been replaced, and would count it as a copy."""
    one = rules("n3", ("n0", "n1", "n2", "n4"), copies=3, forgot="all")
    assert start(one).ask == (("n0", 1), ("n1", 1), ("n2", 1), ("n4", 1))
    assert one.heard("n0", master(), 0.1).ask == ()
    assert one.verify(7, 0).ask == (("n1", 2), ("n2", 2), ("n4", 2)), "who said it before says it"
    assert one.view().reason == (
        "it began empty, and has not heard n1, n2, n4, who may know of a later promotion"
    )
    assert one.heard("n1", said("n1", forgot="all"), 0.2).ask == ()
    assert one.heard("n2", said("n2"), 0.3).ask == ()
    learned = one.heard("n4", said("n4", forgot="log"), 0.4)
    assert learned.ask == (("n0", 3),)
    assert learned.record is not None
    assert learned.record.forgot == "log"
    assert one.heard("n0", master(), 0.5, asked=2).verdict is None
    verdict = one.heard("n0", master(), 0.5, asked=3).verdict
    assert verdict == Verdict(session=7, fits=True, whole_at_bytes=100)


def test_a_later_promotion_is_what_it_has_to_hear_of() -> None:
    one = rules("n2", ("n0", "n1"), forgot="all")
    start(one)
    one.verify(7, 0)
    assert one.heard("n0", master(), 0.1).ask == ()
    effects = one.heard("n1", said("n1", 200, P, number=1, master="n1"), 0.2)
    assert (effects.restart, one.promotion) == (True, Promotion(1, "n1"))


def test_a_slave_of_a_java_broker_has_nobody_to_ask() -> None:
    one = rules("n1", (), forgot="all")
    one.file_master = "broker"
    start(one)
    effects = one.verify(7, 0)
    assert effects.verdict == Verdict(session=7, fits=True)
    assert one.record.forgot == ""


def following(end: int) -> RoleRules:
    history = (A,) if end else ()
    one = rules("n1", ("n0", "n2"), history=history, forgot="log")
    start(one, end)
    one.verify(7, end)
    effects = one.heard("n0", master(), 0.2, asked=1)
    assert effects.verdict == Verdict(session=7, fits=True, whole_at_bytes=100)
    return one


def forgot_after(one: RoleRules, reported_bytes: int) -> str:
    """What it has remembered, and shows, once it has reported so much."""
    effects = one.high_water(reported_bytes)
    assert effects.record is not None
    assert effects.record.forgot == one.view().forgot
    return one.view().forgot


def test_it_counts_again_once_it_has_what_its_master_had() -> None:
    one = following(0)
    assert one.view().reason == "nobody counts on what it holds below 100 yet"
    assert forgot_after(one, 99) == "log"
    assert forgot_after(one, 100) == ""
    assert (one.record.high_water_bytes, one.view().reason) == (100, "")
    assert one.high_water(100).record is None


def test_what_is_on_no_disk_yet_does_not_count() -> None:
    """The store's end says what is written; a report, what is as safe as the group promises."""
    one = following(100)
    assert one.view().forgot == "log"
    assert forgot_after(one, 100) == ""


def test_a_connection_that_ends_takes_its_goal_along() -> None:
    one = following(50)
    one.left(7)
    assert forgot_after(one, 100) == "log"
    one.verify(8, 100)
    one.heard("n0", master(300), 0.3, asked=2)
    assert forgot_after(one, 299) == "log"
    assert forgot_after(one, 300) == ""


def test_where_nothing_was_written_nothing_is_missed() -> None:
    one = rules("n1", ("n0", "n2"), forgot="log")
    start(one)
    one.verify(7, 0)
    verdict = one.heard("n0", master(0), 0.2, asked=1).verdict
    assert verdict == Verdict(session=7, fits=True)
    assert (one.record.forgot, one.view().reason) == ("", "")


def test_who_has_less_than_it_reported_says_so() -> None:
    one = rules("n1", ("n0", "n2"), history=(A,), high_water_bytes=100)
    effects = start(one, 90)
    assert effects.record is not None
    assert effects.record.forgot == "log"
    one.verify(7, 90)
    one.heard("n0", master(), 0.2, asked=1)
    assert forgot_after(one, 100) == "", "also where its mark does not move"


def test_a_log_that_was_removed_is_missed_whatever_the_mark_says() -> None:
    one = rules("n1", ("n0", "n2"), history=(A,))
    start(one)
    assert one.record.forgot == "log"


@pytest.mark.parametrize("end", [100, 120])
def test_who_has_all_that_it_reported_forgot_nothing(end: int) -> None:
    one = rules("n1", ("n0", "n2"), history=(A,), high_water_bytes=100)
    start(one, end)
    assert one.record.forgot == ""


def test_a_resync_takes_nothing_that_counts() -> None:
    one = rules("n1", ("n0", "n2"), history=(A, Epoch(0, 9, "n0", 80)), high_water_bytes=100)
    start(one, 100)
    one.resync(0, 80)
    start(one, 80)
    assert one.record.forgot == ""
