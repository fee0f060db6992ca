"""Who becomes master when the old one is there and has lost a part of its log."""

from __future__ import annotations

import attrs
from group_states import master, slave

from actors.ha.core.promotion import PromotionPlan, PromotionRefusal, Wish, decide
from actors.log_types import GroupState

WISH = Wish(
    group="orders",
    members=("n0", "n1", "n2"),
    file_master="n0",
    counting=("n0", "n1", "n2"),
    copies=2,
    synced=True,
)


def of(*states: GroupState) -> dict[str, GroupState]:
    return {each.node: each for each in states}


def refused(found: PromotionPlan | PromotionRefusal) -> str:
    assert isinstance(found, PromotionRefusal), found
    return "; ".join(found.reasons)


def test_a_master_that_has_lost_its_end_counts_as_silent() -> None:
    """As after a start from an older copy of its directory."""
    short = master(50, state="fenced", opened=False, reason="a member holds more")
    found = decide(WISH, of(short, slave("n1", 100), slave("n2", 100)), {})
    assert isinstance(found, PromotionPlan), found
    assert (found.chosen, found.losses, found.fence) == ("n1", (), ("n0",))
    away = decide(WISH, of(short, slave("n1", 100)), {"n2": "off"})
    assert refused(away) == (
        "n2 does not answer (off), n0 has lost what it had above 50: with copies = 2 they may have"
        " what nobody else has"
    )
    alone = attrs.evolve(WISH, copies=1)
    assert "n0 has lost" in refused(decide(alone, of(short, slave("n1", 100)), {"n2": "off"}))
    known = of(attrs.evolve(short, high_water=130), slave("n1", 100), slave("n2", 100))
    assert "all below 130 may be acknowledged" in refused(decide(WISH, known, {}))


def test_who_began_empty_counts_as_silent_until_it_has_caught_up() -> None:
    """It may be what held an append beside the master that is gone."""
    behind, whole = slave("n1", 50), slave("n2", 100)
    empty = slave("n2", forgot="log")
    found = decide(WISH, of(behind, empty), {"n0": "off"})
    assert refused(found) == (
        "n0 does not answer (off), n2 began empty or lost bytes, and has not caught up: with"
        " copies = 2 they may have what nobody else has"
    )
    forced = decide(attrs.evolve(WISH, force=True), of(behind, empty), {"n0": "off"})
    assert isinstance(forced, PromotionPlan)
    assert forced.chosen == "n1"
    one_more = attrs.evolve(WISH, members=("n0", "n1", "n2", "n3"), counting=WISH.counting)
    found = decide(one_more, of(master(100), behind, empty, slave("n3", 100)), {})
    assert isinstance(found, PromotionPlan), "it gets all that its master has"
    found = decide(WISH, of(behind, whole), {"n0": "off"})
    assert isinstance(found, PromotionPlan)
    assert found.chosen == "n2"


def test_a_master_that_began_empty_has_nothing_to_hand_over() -> None:
    """What was acknowledged is on the third node, which is silent."""
    empty, other = master(0, state="asking", opened=False, forgot="all"), slave("n2", 0)
    wish = attrs.evolve(WISH, node="n2")
    assert refused(decide(wish, of(empty, other), {"n1": "off"})) == (
        "n1 does not answer (off), n0 began empty or lost bytes, and has not caught up: with"
        " copies = 2 they may have what nobody else has"
    )
    found = decide(wish, of(empty, other, slave("n1", 0)), {})
    assert isinstance(found, PromotionPlan), "nobody else can have anything"


def test_with_all_members_there_nobody_else_can_know() -> None:
    """n1 was put back empty, n2 was promoted and never opened, as it lacks what n0 has."""
    waits = slave("n2", 50, number=1, master="n2", role="master", state="fenced")
    whole = slave("n0", 100, number=1, master="n2", state="connecting")
    empty = slave("n1", number=1, master="n2", forgot="log")
    found = decide(WISH, of(whole, empty, waits), {})
    assert isinstance(found, PromotionPlan), found
    assert (found.chosen, found.losses) == ("n0", ())
    assert "n1 began empty" in refused(decide(WISH, of(empty, waits), {"n0": "off"}))
