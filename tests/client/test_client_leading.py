"""Who leads, of what several nodes say."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import attrs
import pytest

from actors.client.leading import Claim, claim_of, newest
from actors.config.kind import Terms
from actors.group_status import GroupStatus

OLD = Claim(leader="n0", epoch=3, is_open=True)
NEW = Claim(leader="n1", epoch=4)
GONE = Claim(leader="n2", epoch=4, answers=False, is_open=True)
NOBODY = Claim(leader="", epoch=5)


def test_the_newest_epoch_counts_then_who_answers_then_who_takes_appends() -> None:
    for claims in permutations((OLD, NEW, GONE, NOBODY)):
        assert newest(claims) is NEW
    for claims in permutations((OLD, GONE)):
        assert newest(claims) is GONE
    opened = Claim(leader="n1", epoch=4, is_open=True)
    for claims in permutations((NEW, opened, GONE)):
        assert newest(claims) is opened
    assert newest([NOBODY]) is None
    assert newest([]) is None


def said(**changes: Any) -> dict[str, Any]:
    own = GroupStatus(
        mode="third",
        terms=Terms(),
        role="follower",
        leads=False,
        leader="",
        epoch=5,
        is_open=False,
        first=0,
        written=0,
        synced=0,
        acknowledged=0,
    )
    return attrs.evolve(own, **changes).plain()


SAID: dict[str, tuple[dict[str, Any], Claim]] = {
    "leads": (
        said(leads=True, leader="n0", is_open=True),
        Claim(leader="n0", epoch=5, is_open=True),
    ),
    "follows": (said(leader="n1", troubles=("is new",)), Claim(leader="n1", epoch=5)),
    "knows nobody": (said(), Claim(leader="", epoch=5)),
    "is in trouble": (
        said(troubles=("no room", "is new")),
        Claim(leader="", epoch=5, lacks="no room; is new"),
    ),
    "is an older member": (
        {
            "mode": "dledger",
            "role": "candidate",
            "term": 5,
            "refusal": "no room",
            "joining": "is new",
        },
        Claim(leader="", epoch=5, lacks="takes no entries: no room; is new"),
    ),
    "is an older slave": (
        {"role": "slave", "master": "n1", "promotion": 2},
        Claim(leader="n1", epoch=2),
    ),
    "is an older slave that has heard nothing": (
        {"role": "slave", "master": None, "promotion": 0},
        Claim(leader="", epoch=0),
    ),
}


@pytest.mark.parametrize(("said", "claim"), SAID.values(), ids=SAID)
def test_what_a_node_says(said: dict[str, Any], claim: Claim) -> None:
    assert claim_of({"groups": {"a": said}}, "a") == claim
    assert claim_of({"groups": {"b": said}}, "a") == Claim(leader="", epoch=-1)
