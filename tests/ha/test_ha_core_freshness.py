"""How many members have to agree before a read is fresh, and which answers count."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import attrs
import group_states
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.config.classic_guarantees import others_needed
from actors.epochs import Epoch
from actors.ha.core.freshness import (
    ASK_AGAIN_S,
    FRESH_READS_MAX,
    FreshReads,
    Refused,
    fresh_offset,
)
from actors.ha.core.role_effects import Role, RoleState, RoleView
from actors.log_types import GroupState

EPOCH = Epoch(number=1, token=7, master="n0", start_bytes=100)
OWN = RoleView(
    role=Role.MASTER,
    state=RoleState.OPEN,
    fence=None,
    reason="",
    opened=True,
    number=1,
    master="n0",
    history=(EPOCH,),
    high_water=100,
)
SLAVE = attrs.evolve(OWN, role=Role.SLAVE, state=RoleState.FOLLOWING)


def said(node: str, **changes: object) -> GroupState:
    return group_states.slave(node, 100, **{"number": 1, "master": "n0", **changes})


def master(**changes: object) -> GroupState:
    return group_states.slave(
        "n0",
        200,
        **{
            "role": "master",
            "state": "open",
            "number": 1,
            "master": "n0",
            "history": (EPOCH,),
            "acknowledged": 150,
            **changes,
        },
    )


def needed(count: int, forced: int = 9) -> object:
    return lambda by_force: forced if by_force else count


@pytest.mark.parametrize(
    ("nodes", "copies", "others"),
    [
        *((1, 1, 0), (2, 1, 1), (2, 2, 0), (3, 1, 2), (3, 2, 1), (3, 3, 0)),
        *((4, 2, 2), (5, 1, 4), (5, 2, 3), (5, 3, 2), (5, 5, 0)),
    ],
)
def test_how_many_others_have_to_agree(nodes: int, copies: int, others: int) -> None:
    assert others_needed(nodes=nodes, copies=copies) == others
    assert others_needed(nodes=nodes, copies=copies, forced=True) == nodes - 1


def test_a_copy_that_cannot_be_asked_proves_nothing() -> None:
    assert others_needed(nodes=2, copies=2, java_copies=1) == 1, "the other may have it with Java's"
    assert others_needed(nodes=3, copies=3, java_copies=1) == 1
    assert others_needed(nodes=2, copies=1, java_copies=1) == 1, "a master is always one that can"


@given(st.data())
def test_no_other_master_can_have_acknowledged_anything_that_all_who_agree_missed(
    data: st.DataObject,
) -> None:
    """Whoever acknowledged it, `copies` members acted by its promotion: one of them is asked."""
    nodes = data.draw(st.integers(1, 7))
    java = data.draw(st.integers(0, 2))
    copies = data.draw(st.integers(1, nodes + java))
    agree = others_needed(nodes=nodes, copies=copies, java_copies=java)
    assert 0 <= agree < nodes, "never more than there are"
    # The other master, and as few members that can be asked as may have helped it.
    aware = max(1, copies - java)
    assert nodes - aware < agree + 1, "the asker and those who agree do not fit beside them"
    if agree:
        assert nodes - aware >= agree, "one fewer would not be enough"


# Which answers count.


def test_a_master_that_enough_agree_with_is_fresh_from_where_it_opened() -> None:
    assert fresh_offset("n0", OWN, {"n1": said("n1")}, needed(1)) == 100


@pytest.mark.parametrize(
    "other",
    [
        said("n1", number=0),
        said("n1", master="n2"),
        said("n1", forgot="all"),
    ],
)
def test_who_acts_by_another_promotion_or_began_empty_does_not_agree(other: GroupState) -> None:
    found = fresh_offset("n0", OWN, {"n1": other}, needed(1))
    assert "agree, asked just now, 0 of the other members, 1 have to" in str(found)


def test_a_later_promotion_is_no_agreement_with_an_older_one() -> None:
    states = {"n1": said("n1"), "n2": said("n2", number=2, master="n2")}
    assert "n2 acts by a later promotion" in str(fresh_offset("n0", OWN, states, needed(1)))


@pytest.mark.parametrize("state", [RoleState.ASKING, RoleState.FENCED])
def test_a_master_that_is_not_open_is_not_fresh(state: RoleState) -> None:
    own = attrs.evolve(OWN, state=state, reason="has not heard n1")
    found = fresh_offset("n0", own, {"n1": said("n1")}, needed(0))
    assert found == "n0 is its master and not open: has not heard n1"


def test_after_an_opening_by_force_more_have_to_agree() -> None:
    own = attrs.evolve(OWN, forced=True)
    assert "2 have to" in str(fresh_offset("n0", own, {"n1": said("n1")}, needed(1, forced=2)))
    states = {"n0": master(forced=True), "n2": said("n2")}
    assert fresh_offset("n1", SLAVE, states, needed(1, forced=2)) == 150
    assert "3 have to" in str(fresh_offset("n1", SLAVE, states, needed(1, forced=3)))


def test_a_slave_is_fresh_with_what_its_master_has_acknowledged() -> None:
    assert fresh_offset("n1", SLAVE, {"n0": master()}, needed(1)) == 150
    assert "n0 has not answered" in str(fresh_offset("n1", SLAVE, {}, needed(0)))
    closed = {"n0": master(state="asking", reason="has not heard n2")}
    assert "n0 is not open: has not heard n2" in str(fresh_offset("n1", SLAVE, closed, needed(0)))
    early = {"n0": master(acknowledged=99)}
    assert "what is below 100" in str(fresh_offset("n1", SLAVE, early, needed(0)))
    empty = attrs.evolve(SLAVE, forgot="all")
    assert "n1 began empty" in str(fresh_offset("n1", empty, {"n0": master()}, needed(0)))


# Rounds of questions.


def reads(need: int = 1) -> tuple[FreshReads[str], Iterator[int]]:
    found: FreshReads[str] = FreshReads(
        node="n0", members=("n1", "n2"), needed=lambda forced: 2 if forced else need
    )
    return found, itertools.count(1)


def test_one_question_to_each_other_member_serves_all_that_wait() -> None:
    fresh, numbers = reads()
    draw = partial(next, numbers)
    fresh.add("a", 3.0)
    fresh.add("b", 3.0)
    effects = fresh.settle(OWN, 0.0, draw)
    assert effects.ask == (("n1", 1), ("n2", 1))
    assert effects.done == ()
    fresh.heard("n1", said("n1"), 1)
    effects = fresh.settle(OWN, 0.1, draw)
    assert effects.done == (("a", 100), ("b", 100))
    assert effects.ask == ()
    assert effects.deadline_s is None


def test_an_answer_to_an_earlier_question_is_none() -> None:
    fresh, numbers = reads()
    draw = partial(next, numbers)
    fresh.add("a", 3.0)
    fresh.settle(OWN, 0.0, draw)
    fresh.add("late", 3.0)
    assert fresh.settle(OWN, 0.1, draw).ask == (), "one round at a time"
    fresh.heard("n1", said("n1"), 1)
    effects = fresh.settle(OWN, 0.2, draw)
    assert effects.done == (("a", 100),)
    assert effects.ask == (("n1", 2), ("n2", 2))
    fresh.heard("n1", said("n1"), 0)
    fresh.heard("n2", said("n2"), 1)
    fresh.heard("stranger", said("stranger"), 2)
    assert fresh.settle(OWN, 0.3, draw).done == ()
    fresh.heard("n2", said("n2"), 2)
    assert fresh.settle(OWN, 0.4, draw).done == (("late", 100),)


def test_members_are_asked_again_until_the_time_is_over() -> None:
    fresh, numbers = reads()
    draw = partial(next, numbers)
    fresh.add("a", 0.8)
    assert fresh.settle(OWN, 0.0, draw).deadline_s == ASK_AGAIN_S
    again = fresh.settle(OWN, ASK_AGAIN_S, draw)
    assert again.ask == (("n1", 2), ("n2", 2))
    assert again.deadline_s == 0.8
    ((key, found),) = fresh.settle(OWN, 0.8, draw).done
    assert key == "a"
    assert isinstance(found, Refused)
    assert "0 of the other members, 1 have to" in found.reason


def test_a_master_that_nobody_can_replace_without_its_copy_asks_nobody() -> None:
    fresh, numbers = reads(need=0)
    fresh.add("a", 3.0)
    effects = fresh.settle(OWN, 0.0, partial(next, numbers))
    assert (effects.done, effects.ask) == ((("a", 100),), ())


def test_between_two_promotions_nothing_is_fresh() -> None:
    fresh, numbers = reads(need=0)
    fresh.add("a", 3.0)
    draw = partial(next, numbers)
    assert fresh.settle(None, 0.0, draw).done == ()
    ((_, found),) = fresh.settle(None, 3.0, draw).done
    assert found == Refused(reason="n0 just takes another part")


def test_the_reads_that_wait_are_bounded() -> None:
    fresh, _ = reads()
    assert all(fresh.add(str(number), 1.0) for number in range(FRESH_READS_MAX))
    assert not fresh.add("one more", 1.0)
