"""`read` of a group whose master has not opened it: it shows nothing, or less than there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from api_kit import MemoryNode
from group_states import status_of
from test_client_command_line import served_at

from actors.client import reading
from actors.config.kinds import KINDS
from actors.group_status import group_status
from actors.log_types import Batch

SLAVE = {"role": "slave", "leads": False, "is_open": False}


@pytest.mark.parametrize(
    ("own", "acknowledged", "said"),
    [
        ({"state": "open"}, 0, ""),
        ({"is_open": False, "state": "asking", "reason": "unheard n1"}, 0, "asking: unheard n1"),
        ({"is_open": False, "state": "fenced", "reason": "n1 has more"}, 100, "fenced: n1 has"),
        ({**SLAVE, "state": "following"}, 0, ""),
        ({**SLAVE, "state": "connecting"}, 100, ""),
        ({**SLAVE, "state": "connecting"}, 0, "connecting"),
        ({**SLAVE, "role": "candidate"}, 0, ""),
    ],
)
def test_a_group_that_is_not_open_is_reported(
    own: dict[str, Any], acknowledged: int, said: str
) -> None:
    last = Batch(records=(), next=0, acknowledged=acknowledged, end=100, lag_bytes=0)
    node = group_status({"groups": {"orders": status_of(**own)}}, "orders")
    assert node is not None
    found = reading.why_not_open(node, last)
    assert said in found
    assert bool(said) == bool(found)


ENTRIES = {"terms": KINDS["dledger"].terms}


@pytest.mark.parametrize(
    ("own", "start", "shown", "said"),
    [
        ({}, 0, 0, "orders has no records yet"),
        ({}, 100, 100, ""),
        (ENTRIES, 0, 0, "orders has no records yet"),
        (ENTRIES, 0, 2, "orders has no records yet: up to entry 1 it has only what opens terms"),
        (ENTRIES, 7, 9, "orders has no records from entry 7 on: up to entry 8 it has only what"),
        (ENTRIES, 9, 9, ""),
    ],
)
def test_a_group_without_records_says_so(
    own: dict[str, Any], start: int, shown: int, said: str
) -> None:
    """A read from the end is silent, for more may come."""
    node = group_status({"groups": {"orders": status_of(**own)}}, "orders")
    assert node is not None
    found = reading.why_nothing("orders", node.terms, start, shown)
    assert found.startswith(said)
    assert bool(said) == bool(found)


async def test_read_of_an_empty_group(tmp_path: Path) -> None:
    async with served_at(tmp_path, MemoryNode()) as at:
        assert await at.run(at.file, "read") == (0, b"", "triolog: orders has no records yet\n")
        assert await at.run(at.file, "read", "--count", "0") == (0, b"", "")


@attrs.define
class ClosedNode(MemoryNode):
    """A master that has not heard its members yet, and shows nothing."""

    async def status(self) -> dict[str, Any]:
        own = status_of(is_open=False, state="asking", reason="has not heard n1")
        return {**await super().status(), "groups": {"orders": own}}


async def test_read_of_a_group_that_is_not_open(tmp_path: Path) -> None:
    async with served_at(tmp_path, ClosedNode()) as at:
        code, out, error = await at.run(at.file, "read")
    assert (code, out) == (1, b"")
    assert error == (
        "triolog: orders is not open at n0, and not all may have been shown: asking: has not heard"
        " n1\n"
    )
