"""Who leads, of what several nodes say."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import attrs
import pytest

from actors.client.leading import NamedLeader, leader_named_by, newest
from actors.config.kind import Terms
from actors.group_status import GroupStatus

OLD = NamedLeader(leader="n0", epoch=3, is_open=True)
NEW = NamedLeader(leader="n1", epoch=4)
GONE = NamedLeader(leader="n2", epoch=4, answers=False, is_open=True)
NOBODY = NamedLeader(leader="", epoch=5)


def test_the_newest_epoch_counts_then_who_answers_then_who_takes_appends() -> None:
    for named in permutations((OLD, NEW, GONE, NOBODY)):
        assert newest(named) is NEW
    for named in permutations((OLD, GONE)):
        assert newest(named) is GONE
    opened = NamedLeader(leader="n1", epoch=4, is_open=True)
    for named in permutations((NEW, opened, GONE)):
        assert newest(named) is opened
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


SAID: dict[str, tuple[dict[str, Any], NamedLeader]] = {
    "leads": (
        said(leads=True, leader="n0", is_open=True),
        NamedLeader(leader="n0", epoch=5, is_open=True),
    ),
    "follows": (said(leader="n1", troubles=("is new",)), NamedLeader(leader="n1", epoch=5)),
    "knows nobody": (said(), NamedLeader(leader="", epoch=5)),
    "is in trouble": (
        said(troubles=("no room", "is new")),
        NamedLeader(leader="", epoch=5, lacks="no room; is new"),
    ),
    "is an older member": (
        {
            "mode": "dledger",
            "role": "candidate",
            "term": 5,
            "refusal": "no room",
            "joining": "is new",
        },
        NamedLeader(leader="", epoch=5, lacks="takes no entries: no room; is new"),
    ),
    "is an older slave": (
        {"role": "slave", "master": "n1", "promotion": 2},
        NamedLeader(leader="n1", epoch=2),
    ),
    "is an older slave that has heard nothing": (
        {"role": "slave", "master": None, "promotion": 0},
        NamedLeader(leader="", epoch=0),
    ),
}


@pytest.mark.parametrize(("said", "named"), SAID.values(), ids=SAID)
def test_what_a_node_says(said: dict[str, Any], named: NamedLeader) -> None:
    assert leader_named_by({"groups": {"a": said}}, "a") == named
    assert leader_named_by({"groups": {"b": said}}, "a") == NamedLeader(leader="", epoch=-1)
