"""Which replica a name is of: one that has taken another's place at its address is meant."""

from __future__ import annotations

import pytest

from actors.ha.autoswitch.replica_names import ReplicaNames
from wire.ha.autoswitch import HandshakeRequest

REGISTERED = {1: "a:1", 2: "b:1", 3: "c:1", 4: "b:1"}
NODES = {"a:1": "n0", "b:1": "n1"}


def names(living: set[int], unknown: list[None] | None = None) -> ReplicaNames:
    return ReplicaNames(
        own=lambda: 1,
        registered=lambda: REGISTERED,
        living=lambda: living,
        node_at=lambda address: NODES.get(address, ""),
        unknown=lambda: (unknown if unknown is not None else []).append(None),
    )


@pytest.mark.parametrize(
    ("living", "named"),
    [({1, 3, 4}, 4), ({1, 2, 3, 4}, 4), ({1, 3}, 4), ({1, 2}, 2)],
    ids=["the new one", "both, for a while", "neither", "the old one, whose disk was put back"],
)
def test_of_two_at_one_address_the_living_one_is_meant_and_then_the_newest(
    living: set[int], named: int
) -> None:
    other = {2: 4, 4: 2}[named]
    asked: list[None] = []
    found = names(living, asked)
    assert (found.id_of("n1"), found.name_of(named), found.name_of(other)) == (named, "n1", "")
    assert (found.id_of("c:1"), found.name_of(3), found.name_of(9)) == (3, "c:1", "")
    assert found.who(HandshakeRequest(broker_id=named)) == "n1"
    assert not asked
    assert found.who(HandshakeRequest(broker_id=other)) == ""
    assert found.who(HandshakeRequest(broker_id=1)) == ""  # itself
    assert len(asked) == 2
    assert found.who(HandshakeRequest(broker_id=None, address="b:1")) == "n1"
