"""Numbers of an identity that are raised by one: each has a next one, or is refused by its name."""

from __future__ import annotations

import json

import attrs
import pytest
from store_kit import sim_disk
from test_storage_identity import DIRECTORY, RECORD, opened, refused, rewrite

from actors.storage.identity import identity_path
from wire.api_base import NUMBER_MAX


def with_number(key: str, value: int) -> bytes:
    """An identity in which one of the numbers that are raised by one has this value."""
    record = attrs.asdict(RECORD)
    identity = {
        "format_version": 1,
        "cluster": "demo",
        "node": "n0",
        "groups": ["orders"],
        "boot": 5,
        "settings": {},
        "records": {"orders": record},
    }
    places = {"boot": identity, "promotion_number": record, "number": record["history"][1]}
    places[key][key] = value
    return json.dumps(identity).encode()


@pytest.mark.parametrize("value", [NUMBER_MAX + 1, 2**63 - 1])
@pytest.mark.parametrize("key", ["boot", "promotion_number", "number"])
def test_a_number_that_leaves_no_next_one(key: str, value: int) -> None:
    """It was taken once, and whatever came next failed."""
    disk = sim_disk()
    rewrite(disk, with_number(key, value))
    line = refused(disk)
    assert line.startswith(f"{identity_path(DIRECTORY)}: expected a node's identity")
    assert line.endswith(f"({key} is {value}, no number from 0 to {NUMBER_MAX})")


@pytest.mark.parametrize("key", ["boot", "promotion_number", "number"])
def test_a_large_number_has_a_next_one(key: str) -> None:
    disk = sim_disk()
    rewrite(disk, with_number(key, NUMBER_MAX - 10))
    for _ in range(5):
        directory = opened(disk)
        record = directory.record("orders")
        next_number = record.promotion_number + 1
        directory.update("orders", attrs.evolve(record, promotion_number=next_number))
        directory.close()
