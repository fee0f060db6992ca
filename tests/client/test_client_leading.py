"""Who leads, of what several nodes say."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any

import pytest
from group_states import status_of

from actors.client.leading import NamedLeader, leader_named_by, newest

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


said = partial(status_of, leads=False, leader="", epoch=5, is_open=False)

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
}


@pytest.mark.parametrize(("said", "named"), SAID.values(), ids=SAID)
def test_what_a_node_says(said: dict[str, Any], named: NamedLeader) -> None:
    assert leader_named_by({"groups": {"a": said}}, "a") == named
    assert leader_named_by({"groups": {"b": said}}, "a") == NamedLeader(leader="", epoch=-1)
