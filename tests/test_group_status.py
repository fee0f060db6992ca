"""What a node says of a group crosses the API's socket as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.config.kind import Terms
from actors.errors import TriologError
from actors.group_status import GroupStatus, Link, Peer, Scrub, group_status, group_statuses

OWN = GroupStatus(
    mode="third",
    terms=Terms(),
    role="leader",
    leads=True,
    leader="n0",
    epoch=3,
    is_open=True,
    first=0,
    written=9,
    synced=8,
    acknowledged=7,
    peers=(Peer(node="n1", end=8, lag=1, heard_age_s=0.5, details={"a": [1]}),),
    link=Link(state="up", is_up=True),
    scrub=Scrub(unread_bytes=5, whole_age_s=None),
    counts={"acknowledged": 7},
    troubles=("is tired",),
    findings={"damaged": "bytes 1 to 2"},
)


def answer(own: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps({"node": "n0", "groups": {"a": own}}))
    return found


def test_it_comes_as_it_was_sent() -> None:
    assert group_statuses(answer(OWN.plain())) == {"a": OWN}
    assert group_status(answer(OWN.plain()), "b") is None
    newer = answer(OWN.plain() | {"what a newer version says": 1})
    assert group_status(newer, "a") == OWN


@pytest.mark.parametrize(
    ("junk", "where"),
    [
        ({"written": "9"}, "written"),
        ({"leads": 1}, "leads"),
        ({"peers": "n1"}, "peers"),
        ({"peers": [{"node": 7}]}, "peers"),
        ({"terms": {"unit": "miles"}}, "unit"),
        ({"terms": None}, "terms"),
    ],
)
def test_junk_is_one_line_that_says_where(junk: dict[str, Any], where: str) -> None:
    with pytest.raises(TriologError, match=r"^cannot read n0's status of a: [^\n]*" + where):
        group_status(answer(OWN.plain() | junk), "a")


@pytest.mark.parametrize(
    "junk", [7, [], None, {"role": "master", "min_bytes": "x"}, {1: 2}, {"term": "x"}]
)
def test_so_is_what_no_version_says(junk: Any) -> None:
    with pytest.raises(TriologError, match=r"^cannot read n0's status of a: "):
        group_status(answer(junk), "a")


def test_a_node_that_names_no_groups() -> None:
    assert group_statuses({"node": "n0"}) == {}
    with pytest.raises(TriologError, match="cannot read n0's status of groups: "):
        group_statuses({"node": "n0", "groups": 7})


def test_what_cannot_be_seen_is_shown_by_its_code() -> None:
    found = group_status(answer(OWN.plain() | {"reason": "a\nb\x1b"}), "a")
    assert found is not None
    assert found.reason == r"a\u000ab\u001b"
