"""What a node says of a group crosses the API's socket as JSON, also from an older node."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from actors.config.kind import Terms
from actors.config.kinds import KINDS
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
    "junk", [7, [], None, {"role": "master", "min_bytes": "x"}, {"slaves": [{}]}, {"term": "x"}]
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


def test_an_older_master() -> None:
    """Its keys are those of 4ef9611."""
    row = {"node": "n1", "state": "TRANSFER", "counts": True, "ack_bytes": 8, "lag_bytes": 1}
    said = {
        "mode": "classic",
        "role": "master",
        "master": "n0",
        "promotion": 2,
        "part": "fenced",
        "reason": "n1 has more",
        "copies": 2,
        "durability": "synced",
        "min_bytes": 0,
        "written_bytes": 9,
        "synced_bytes": 8,
        "acknowledged_bytes": 7,
        "slaves": [{**row, "in_sync": True, "bytes_per_s": 3, "last_error": "long ago"}],
        "client": None,
        "counts": {"acknowledged": 7},
        "scrub": {"unread_bytes": 5, "whole_age_s": None},
    }
    own = group_status(answer(said), "a")
    assert own is not None
    assert own == attrs.evolve(
        OWN,
        mode="classic",
        terms=KINDS["classic"].terms,
        role="master",
        epoch=2,
        is_open=False,
        state="fenced",
        reason="n1 has more",
        copies=2,
        durability="synced",
        peers=(
            Peer(
                node="n1",
                state="transfer",
                end=8,
                lag=1,
                has_copy=True,
                awaited=True,
                bytes_per_s=3,
            ),
        ),
        link=None,
        troubles=("fenced: n1 has more",),
        findings={},
    )
    client = {"state": "READY", "last_error": "refused", "diverged": True}
    slave = group_status(answer(said | {"role": "slave", "client": client}), "a")
    assert slave is not None
    assert (slave.leads, slave.diverged, slave.link) == (
        False,
        True,
        Link(state="ready", error="refused"),
    )


def test_an_older_leader() -> None:
    said = {
        "mode": "dledger",
        "role": "leader",
        "leader": "n0",
        "open": True,
        "term": 3,
        "members": ["n0", "n1", "n2"],
        "durability": "synced",
        "takes_empty": False,
        "begin_index": 0,
        "written_index": 8,
        "synced_index": 7,
        "committed_index": 6,
        "refusal": "no room",
        "unsaved_vote": "",
        "joining": "is new",
        "peers": [
            {"node": "n1", "state": "appending", "matched_index": 7, "lag": 1, "reason": ""},
            {"node": "n2", "state": "silent", "matched_index": -1, "lag": None, "reason": "gone"},
        ],
    }
    own = group_status(answer(said), "a")
    assert own == attrs.evolve(
        OWN,
        mode="dledger",
        terms=KINDS["dledger"].terms,
        copies=2,
        durability="synced",
        takes_empty=False,
        peers=(
            Peer(node="n1", state="appending", end=8, lag=1, has_copy=True),
            Peer(node="n2", state="silent", is_well=False, reason="gone"),
        ),
        link=None,
        scrub=None,
        counts={},
        troubles=("takes no entries: no room", "is new"),
        findings={},
    )
