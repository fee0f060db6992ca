"""What is kept of a configuration, and what `check` says about a changed one."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from actors.config import changes, load, loads, settings
from actors.config.settings import UNTIL_THE_NEXT

EXAMPLE = Path(__file__).parents[2] / "tests" / "three_nodes.toml"


def test_every_setting_is_kept_as_text() -> None:
    kept = settings(load(EXAMPLE))
    assert kept["version"] == "1"
    assert kept["nodes.n1"] == '"127.0.0.2"'
    assert kept["groups.orders.master"] == "n0"
    assert kept["groups.orders.slaves"] == "[n1, n2]"
    assert kept["groups.orders.durability"] == '"synced"'
    assert kept["groups.orders.check_crc_on_recover"] == "true"
    assert kept["groups.orders.delete_when_hours"] == "[4]"
    assert kept["events.policy"] == '"drop"'
    assert all(isinstance(value, str) for value in kept.values())


def test_what_no_node_lives_by_is_not_kept() -> None:
    found = load(EXAMPLE)
    moved = attrs.evolve(found, data_dir="/elsewhere", path="/other", demo=type(found.demo)())
    assert settings(moved) == settings(found)
    assert "groups.orders.compat" not in settings(found)
    assert "groups.orders.name" not in settings(found)


def test_changes() -> None:
    text = EXAMPLE.read_text()
    before = settings(loads(text, "f"))
    assert changes(before, before) == ()
    text = text.replace("copies = 2", 'copies = 3\ncompat = "upstream"')
    after = settings(
        loads(
            text.replace('"n2"]', '{ node = "n2", kind = "java" }]').replace(
                '"synced"', '"written"'
            ),
            "f",
        )
    )
    assert changes(before, after) == (
        'groups.orders.compat: nothing becomes "upstream"',
        f"groups.orders.copies: 2 becomes 3: {UNTIL_THE_NEXT}",
        'groups.orders.durability: "synced" becomes "written"',
        "groups.orders.slaves: [n1, n2] becomes [n1, n2 (java)]",
    )
    assert changes(after, before)[0] == 'groups.orders.compat: "upstream" becomes nothing'


@pytest.mark.parametrize("key", ["copies", "in_sync_replicas", "min_in_sync_replicas"])
@pytest.mark.parametrize(
    ("old", "new", "reported"), [(1, 2, True), (9, 10, True), (2, 1, False), (10, 9, False)]
)
def test_a_larger_promise_is_none_for_what_was_answered_before(
    key: str, old: int, new: int, reported: bool
) -> None:
    key = f"groups.orders.{key}"
    (line,) = changes({key: str(old)}, {key: str(new)})
    assert line == f"{key}: {old} becomes {new}" + (f": {UNTIL_THE_NEXT}" if reported else "")


def test_other_settings_may_grow() -> None:
    key = "groups.orders.segment_bytes"
    assert changes({key: "1"}, {key: "2"}) == (f"{key}: 1 becomes 2",)
    assert changes({}, {"groups.orders.copies": "2"}) == (
        "groups.orders.copies: nothing becomes 2",
    )


def test_settings_are_in_the_order_of_the_documentation() -> None:
    found = [key.rpartition(".")[2] for key in settings(load(EXAMPLE)) if ".orders." in key]
    first = ["mode", "master", "slaves", "copies", "durability", "port", "broker_peers"]
    assert found[:8] == [*first, "ack_policy"]
    assert found[-1] == "receive_pending_bytes"
