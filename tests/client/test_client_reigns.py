"""Who leads, of what several nodes say."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from actors.client.reigns import Claim, claim_of, newest

OLD = Claim(leader="n0", reign=3, is_open=True)
NEW = Claim(leader="n1", reign=4)
GONE = Claim(leader="n2", reign=4, answers=False, is_open=True)
NOBODY = Claim(leader="", reign=5)


def test_the_newest_reign_counts_then_who_answers_then_who_takes_appends() -> None:
    for claims in permutations((OLD, NEW, GONE, NOBODY)):
        assert newest(claims) is NEW
    for claims in permutations((OLD, GONE)):
        assert newest(claims) is GONE
    opened = Claim(leader="n1", reign=4, is_open=True)
    for claims in permutations((NEW, opened, GONE)):
        assert newest(claims) is opened
    assert newest([NOBODY]) is None
    assert newest([]) is None


SAID: dict[str, tuple[dict[str, Any], Claim]] = {
    "leads": ({"role": "leader", "leader": "n0", "term": 4}, Claim(leader="n0", reign=4)),
    "campaigns": ({"role": "candidate", "leader": "", "term": 5}, Claim(leader="", reign=5)),
    "campaigns alone": (
        {"role": "candidate", "term": 5, "members": ["n0", "n1"], "peers": [{"state": "silent"}]},
        Claim(leader="", reign=5, lacks="0 of 1 others answer, 1 is needed"),
    ),
    "cannot vote": (
        {"role": "candidate", "term": 5, "unsaved_vote": "disk full"},
        Claim(leader="", reign=5, lacks="disk full"),
    ),
    "cannot lead": (
        {"role": "candidate", "term": 5, "refusal": "no room", "joining": "is new"},
        Claim(leader="", reign=5, lacks="takes no entries: no room; is new"),
    ),
    "is a slave": ({"role": "slave", "master": "n1", "promotion": 2}, Claim(leader="n1", reign=2)),
    "has heard nothing": (
        {"role": "slave", "master": None, "promotion": 0},
        Claim(leader="", reign=0),
    ),
}


@pytest.mark.parametrize(("said", "claim"), SAID.values(), ids=SAID)
def test_what_a_node_says(said: dict[str, Any], claim: Claim) -> None:
    assert claim_of({"groups": {"a": said}}, "a") == claim
    assert claim_of({"groups": {"b": said}}, "a") == Claim(leader="", reign=-1)
