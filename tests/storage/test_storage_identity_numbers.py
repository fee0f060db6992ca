"""Numbers of an identity that are raised by one: each has a next one, or is refused by its name."""

from __future__ import annotations

import json

import attrs
import pytest
from store_kit import sim_disk
from test_storage_identity import DIRECTORY, RECORD, opened, refused, rewrite

from actors.sim.disk import SimDisk
from actors.storage.node.identity import identity_path
from wire.api.frames import NUMBER_MAX


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


def event_file(disk: SimDisk, name: str, *, node: str = "n0", day: str = "2026-11-22") -> None:
    folder = f"{DIRECTORY}/events/v=1/dt={day}/node={node}"
    disk.mkdir(folder)
    disk.open(f"{folder}/{name}", "x").close()


@pytest.mark.parametrize(
    ("names", "boot"),
    [
        ((), 1),
        (("000003-000000000001.jsonl.gz", "000002-000000000009.jsonl.gz"), 4),
        (("000003-000000000001.jsonl.gz", ".000007-000000000001.jsonl.gz.part"), 8),
        ((".000004-000000000001.jsonl.gz.part.copy",), 5),
        (("1000000-000000000001.jsonl.gz",), 1_000_001),
        (("9999999999999999999-000000000001.jsonl.gz", "notes.txt", "5-1.jsonl.gz"), 1),
        ((f"{NUMBER_MAX - 1}-000000000001.jsonl.gz", f"{2**62}-000000000001.jsonl.gz"), 1),
    ],
)
def test_a_new_identity_goes_on_above_the_starts_that_the_events_know(
    names: tuple[str, ...], boot: int
) -> None:
    """Its own files would take the names of theirs."""
    disk = sim_disk()
    for name in names:
        event_file(disk, name)
    event_file(disk, "000099-000000000001.jsonl.gz", node="n1")
    directory = opened(disk)
    assert directory.boot == boot
    directory.close()
    assert opened(disk).boot == boot + 1


def test_so_does_an_older_copy_of_it() -> None:
    disk = sim_disk()
    opened(disk).close()
    event_file(disk, "000041-000000000001.jsonl.gz", day="2026-11-21")
    event_file(disk, "000040-000000000001.jsonl.gz")
    assert opened(disk).boot == 42
