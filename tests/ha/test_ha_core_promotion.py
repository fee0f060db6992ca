"""Who becomes master: by hand, and against a small world in which acknowledged bytes are known."""

from __future__ import annotations

import attrs
import pytest
from group_states import R0, WISH, master, slave
from promotion_kit import planned

from actors.epochs import Epoch
from actors.ha.core.promotion import PromotionPlan, PromotionRefusal, decide, handed_over
from actors.log_types import GroupState
from wire.api.frames import NUMBER_MAX

DEAD = {"n0": "connection refused"}


def of(*states: GroupState) -> dict[str, GroupState]:
    return {each.node: each for each in states}


def refused(found: PromotionPlan | PromotionRefusal) -> str:
    assert isinstance(found, PromotionRefusal), found
    return "; ".join(found.reasons)


def test_the_furthest_slave_of_a_dead_master() -> None:
    found = planned(decide(WISH, of(slave("n1", 90), slave("n2", 100)), DEAD))
    assert found == PromotionPlan(number=1, chosen="n2", old="n0", fence=(), hand_over=False)


def test_of_equals_the_first_of_the_file() -> None:
    assert planned(decide(WISH, of(slave("n2", 90), slave("n1", 90)), DEAD)).chosen == "n1"


def test_what_is_synced_counts_before_what_is_written() -> None:
    states = of(slave("n1", 100, synced=50), slave("n2", 90))
    assert planned(decide(WISH, states, DEAD)).chosen == "n2"
    written = attrs.evolve(WISH, synced=False)
    assert planned(decide(written, states, DEAD)).chosen == "n1"
    states = of(slave("n1", 90, synced=80), slave("n2", 100, synced=80))
    assert planned(decide(WISH, states, DEAD)).chosen == "n2"  # so that it need not be cut


def test_one_that_is_not_the_furthest_only_by_force() -> None:
    wish = attrs.evolve(WISH, node="n1")
    states = of(slave("n1", 90), slave("n2", 100))
    found = decide(wish, states, DEAD)
    assert refused(found) == "n2 has 10 bytes that n1 does not have"
    assert isinstance(found, PromotionRefusal)
    assert found.by_force
    found = planned(decide(attrs.evolve(wish, force=True), states, DEAD))
    assert (found.chosen, found.losses) == ("n1", ("n2 has 10 bytes that n1 does not have",))


def test_one_without_room_only_by_force() -> None:
    """It would take no appends; but nothing is lost, so that it does not open by force."""
    full = attrs.evolve(slave("n1", 100), no_room="no room: the disk is full")
    wish = attrs.evolve(WISH, node="n1")
    found = decide(wish, of(master(100), full, slave("n2", 100)), {})
    assert refused(found) == "n1 would take no appends: no room: the disk is full"
    assert isinstance(found, PromotionRefusal)
    assert found.by_force
    states = of(master(100), full, slave("n2", 100))
    assert planned(decide(attrs.evolve(wish, force=True), states, {})).losses == ()


def test_of_equals_one_with_room() -> None:
    full = attrs.evolve(slave("n1", 100), no_room="no room: the disk is full")
    assert planned(decide(WISH, of(full, slave("n2", 100)), DEAD)).chosen == "n2"


def test_no_force_is_needed_where_nobody_takes_appends_now() -> None:
    """The master is dead, or full itself: a promotion makes nothing worse."""
    full = attrs.evolve(slave("n1", 100), no_room="no room: the disk is full")
    assert planned(decide(WISH, of(full, slave("n2", 90)), DEAD)).chosen == "n1"
    wish = attrs.evolve(WISH, node="n1")
    old = attrs.evolve(master(100), no_room="no room: the disk is full")
    assert planned(decide(wish, of(old, full, slave("n2", 100)), {})).chosen == "n1"


def test_a_silent_slave_is_named() -> None:
    silent = {**DEAD, "n2": "timed out"}
    found = decide(WISH, of(slave("n1", 90)), silent)
    assert refused(found) == (
        "n0 does not answer (connection refused), n2 does not answer (timed out): with copies = 2"
        " they may have what nobody else has"
    )
    forced = planned(decide(attrs.evolve(WISH, force=True), of(slave("n1", 90)), silent))
    assert forced.chosen == "n1"
    # With as many copies as nodes, the one that answers has everything.
    assert planned(decide(attrs.evolve(WISH, copies=3), of(slave("n1", 90)), silent)).losses == ()


def test_with_one_copy_a_dead_master_is_a_loss() -> None:
    wish = attrs.evolve(WISH, copies=1)
    states = of(slave("n1", 90), slave("n2", 100))
    assert "n0 does not answer (connection refused): with copies = 1" in refused(
        decide(wish, states, DEAD)
    )


def test_what_is_known_to_be_acknowledged_and_nobody_has() -> None:
    states = of(slave("n1", 90, acknowledged=100), slave("n2", 80))
    assert refused(decide(WISH, states, DEAD)) == (
        "all below 100 may be acknowledged, and n1 has what is below 90"
    )
    states = of(slave("n1", 90), slave("n2", 80, high_water=95))
    assert "all below 95 may be acknowledged" in refused(decide(WISH, states, DEAD))


def test_a_master_that_answers_hands_over() -> None:
    states = of(master(120), slave("n1", 90), slave("n2", 100, acknowledged=110))
    found = planned(decide(WISH, states, {}))
    assert found == PromotionPlan(number=1, chosen="n2", old="n0", fence=("n0",), hand_over=True)
    # The answers are not of one moment: the master may have grown since its own.
    grown = {**states, "n1": slave("n1", 130)}
    assert planned(decide(attrs.evolve(WISH, node="n2"), grown, {})).losses == ()
    # Nothing is unknown, so that others may be silent.
    alone = of(master(120), slave("n1", 90))
    assert planned(decide(WISH, alone, {"n2": "off"})).losses == ()
    # n2 is further than n1 now, but n1 gets all that the master has, and n2 has nothing else.
    named = planned(decide(attrs.evolve(WISH, node="n1"), states, {}))
    assert (named.chosen, named.hand_over) == ("n1", True)


def test_the_master_is_master() -> None:
    states = of(master(120), slave("n1", 90), slave("n2", 100))
    found = decide(attrs.evolve(WISH, node="n0", force=True), states, {})
    assert refused(found) == "n0 is the master of orders"


def test_a_master_alone_opens_by_force_only() -> None:
    alone = of(master(120, state="asking", opened=False))
    silent = {"n1": "off", "n2": "off"}
    assert "n1 does not answer" in refused(decide(attrs.evolve(WISH, node="n0"), alone, silent))
    found = planned(decide(attrs.evolve(WISH, node="n0", force=True), alone, silent))
    assert (found.number, found.chosen, found.fence, found.hand_over) == (1, "n0", (), False)
    nobody = of(master(120))
    assert refused(decide(attrs.evolve(WISH, force=True), nobody, silent)) == (
        "no member of orders but its master n0 answers"
    )


def test_a_fenced_master_may_be_the_furthest_or_not() -> None:
    fenced = master(120, state="fenced", reason="shorter than its mark")
    found = planned(decide(WISH, of(fenced, slave("n1", 90), slave("n2", 100)), {}))
    assert (found.chosen, found.fence, found.hand_over) == ("n0", (), False)
    found = planned(decide(WISH, of(fenced, slave("n1", 150), slave("n2", 100)), {}))
    assert (found.chosen, found.fence, found.hand_over) == ("n1", ("n0",), True)


def test_nodes_that_cannot_be_chosen() -> None:
    states = of(slave("n1", 90))
    silent = {**DEAD, "n2": "off"}
    assert refused(decide(attrs.evolve(WISH, node="n2"), states, silent)) == (
        "n2 does not answer: off"
    )
    assert refused(decide(attrs.evolve(WISH, node="n9"), states, silent)) == (
        "n9 is no member of orders"
    )
    java = attrs.evolve(WISH, members=("n0", "n1"), java=("n2",), node="n2")
    assert "n2 is a Java broker" in refused(decide(java, states, DEAD))
    everybody = dict.fromkeys(WISH.members, "off")
    assert refused(decide(WISH, {}, everybody)) == "no member of orders answers"


def test_java_brokers_cannot_be_asked() -> None:
    wish = attrs.evolve(WISH, members=("n0", "n1"), java=("n2",), counting=("n0", "n1"))
    assert planned(decide(wish, of(slave("n1", 90)), DEAD)).chosen == "n1"
    counts = attrs.evolve(wish, counting=("n0", "n1", "n2"))
    assert "n2 is a Java broker, n0 does not" in refused(decide(counts, of(slave("n1", 90)), DEAD))
    wish = attrs.evolve(WISH, members=("n1", "n2"), java=("n0",))
    found = decide(wish, of(slave("n1", 90), slave("n2", 90)), {})
    assert "n0 is a Java broker and cannot be fenced" in refused(found)


R1 = Epoch(1, 12, "n1", 80)


def test_an_old_master_with_a_longer_log_is_not_chosen_and_nothing_of_it_is_lost() -> None:
    line = (R0, R1)
    states = of(
        slave("n0", 500, state="diverged", number=1, master="n1", acknowledged=500),
        slave("n1", 100, role="master", state="open", number=1, master="n1", history=line),
        slave("n2", 90, number=1, master="n1", history=line),
    )
    found = planned(decide(WISH, states, {}))
    assert (found.number, found.chosen, found.old, found.fence) == (2, "n2", "n1", ("n1",))
    old = decide(attrs.evolve(WISH, node="n0"), states, {})
    assert refused(old).startswith("n0 has parted from the group's log: `resync n0` first; ")
    states.pop("n1")
    found = planned(decide(WISH, states, {"n1": "off"}))
    assert (found.chosen, found.losses) == ("n2", ())


def test_a_master_that_has_begun_its_epoch_without_a_byte_is_no_laggard() -> None:
    states = of(
        slave("n0", 500, role="master", state="fenced"),
        slave("n1", 80, role="master", state="fenced", number=1, master="n1", history=(R0, R1)),
        slave("n2", 80, number=1, master="n1", history=(R0, R1)),
    )
    found = planned(decide(WISH, states, {}))
    assert (found.number, found.chosen, found.fence) == (2, "n1", ("n0",))


def test_a_slave_below_all_that_a_full_history_keeps_is_no_obstacle() -> None:
    """The oldest epochs have left the master's history, and with it the slave's."""
    kept = (Epoch(0, 300, "n0", 5000), Epoch(0, 301, "n0", 6000))
    old = master(7000, history=kept)
    new = slave("n2", 0, history=kept)
    found = planned(decide(WISH, of(old, slave("n1", 7000, history=kept), new), {}))
    assert (found.chosen, found.hand_over) == ("n1", True)
    found = planned(decide(WISH, of(slave("n1", 7000, history=kept), new), DEAD))
    assert (found.chosen, found.losses) == ("n1", ())


def test_two_masters_by_the_same_promotion() -> None:
    states = of(
        slave("n0", 90),
        slave("n1", 100, role="master", state="fenced", number=1, master="n1"),
        slave("n2", 90, role="master", state="fenced", number=1, master="n2"),
    )
    found = planned(decide(WISH, states, {}))
    assert (found.number, found.chosen, found.old) == (2, "n1", None)
    assert found.fence == ("n2",)
    parted = {
        "n1": attrs.evolve(states["n1"], history=(R0, R1)),
        "n2": attrs.evolve(states["n2"], history=(R0, Epoch(1, 13, "n2", 80))),
    }
    either = decide(WISH, {**states, **parted}, {})
    assert refused(either) == "n2 has 10 bytes that n1 does not have"


def test_a_hand_over_ends_when_nothing_is_unknown() -> None:
    fenced = master(120, state="fenced", synced=110)
    assert handed_over(WISH, fenced, slave("n1", 120))
    assert not handed_over(WISH, fenced, slave("n1", 119))
    assert not handed_over(WISH, fenced, slave("n1", 120, synced=119))
    assert not handed_over(WISH, attrs.evolve(fenced, unanswered=1), slave("n1", 120))
    assert not handed_over(WISH, attrs.evolve(fenced, state="open"), slave("n1", 120))
    other = slave("n1", 120, history=(Epoch(0, 99, "n9", 0),))
    assert not handed_over(WISH, fenced, other)


def test_a_master_that_never_opened_has_not_all_that_a_silent_one_may_have() -> None:
    """n2 is master by promotion 1, but has heard too few to open: n1 may have more."""
    one_copy = attrs.evolve(WISH, copies=1, node="n0")
    asking = {"role": "master", "state": "asking", "number": 1, "master": "n2"}
    states = of(slave("n0", 80, number=1, master="n2"), slave("n2", 80, **asking))
    silent = {"n1": "off"}
    assert "n1 does not answer (off)" in refused(decide(one_copy, states, silent))
    forced = planned(decide(attrs.evolve(one_copy, force=True), states, silent))
    assert (forced.chosen, forced.hand_over, len(forced.losses)) == ("n0", True, 1)
    epoch = Epoch(1, 12, "n2", 80)
    states["n2"] = attrs.evolve(states["n2"], history=(R0, epoch))
    assert planned(decide(one_copy, states, silent)).losses == ()


@pytest.mark.parametrize("field", ["number", "claimed"])
def test_the_last_number_has_no_next(field: str) -> None:
    """It could be sent to nobody."""
    reported = of(*(attrs.evolve(slave(name), **{field: NUMBER_MAX}) for name in ("n1", "n2")))
    found = decide(attrs.evolve(WISH, force=True), reported, DEAD)
    assert found == PromotionRefusal((f"promotion {NUMBER_MAX} leaves no number for another one",))
