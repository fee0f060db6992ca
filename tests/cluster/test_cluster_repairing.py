"""`repair` as text, against a node in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from test_cluster_switching import CONFIG, Nodes

from actors.cluster import switching
from actors.errors import ConfigError

NOTHING: dict[str, Any] = {
    "group": "orders",
    "node": "n1",
    "unit": "bytes",
    "derived_anew": False,
    "mended": [],
    "left": [],
}
MENDED = {"first": 0, "next": 65536, "source": "n0"}
LEFT = {"first": 65536, "next": 131072, "reason": "n0: its own bytes there are damaged"}


def _no_word(line: str) -> None:
    raise AssertionError(line)


async def repaired(
    found: dict[str, Any], *, source: str | None = None, as_json: bool = False
) -> tuple[str, int]:
    nodes = Nodes(repaired=found)
    answer = await switching.repair(
        CONFIG, "n1", ("orders",), nodes.connect, source=source, as_json=as_json, say=_no_word
    )
    assert nodes.asked == [("n1", "orders", source)]
    return answer.text, answer.exit_code


async def test_what_it_says(autojump_clock: trio.abc.Clock) -> None:
    assert await repaired(NOTHING) == ("orders: n1: nothing is known to be damaged", 0)
    looked = NOTHING | {"looked": {"first": 0, "next": 131072}}
    said = "orders: n1: nothing is damaged in bytes 0 to 131072"
    of_ledger = looked | {"unit": "entries", "looked": {"first": 0, "next": 900}}
    assert await repaired(of_ledger) == (
        "orders: n1: nothing is damaged in entries 0 to 899",
        0,
    )
    assert await repaired(looked) == (said, 0)
    empty = NOTHING | {"looked": {"first": 7, "next": 7}}
    assert await repaired(empty) == ("orders: n1: it has no bytes to read", 0)
    mended = "orders: n1: mended from n0: bytes 0 to 65536; what was there is kept in aside/"
    assert await repaired(NOTHING | {"mended": [MENDED]}, source="n0") == (mended, 0)
    text, code = await repaired(NOTHING | {"mended": [MENDED], "derived_anew": True})
    assert (text.splitlines()[1], code) == (
        "  consume queues and index were derived from the damage, and are anew soon",
        0,
    )
    text, code = await repaired(NOTHING | {"mended": [MENDED], "left": [LEFT]})
    assert code == 1
    stays = f"still damaged: bytes 65536 to 131072: {LEFT['reason']}"
    first, second, third = text.splitlines()
    assert (first, second) == (mended, f"orders: n1: {stays}")
    assert "put them back from a backup" in third
    assert "mend what a reason names (no room here" in third
    assert "a master's once another is promoted" in third


async def test_its_json(autojump_clock: trio.abc.Clock) -> None:
    found = NOTHING | {"left": [LEFT]}
    text, code = await repaired(found, as_json=True)
    assert json.loads(text) == [found]
    assert code == 1


async def test_a_node_that_does_not_run_is_asked_for_nothing(
    autojump_clock: trio.abc.Clock,
) -> None:
    with pytest.raises(ConfigError, match="expected node n1 to run, found nobody there"):
        await switching.repair(
            CONFIG,
            "n1",
            ("orders",),
            Nodes(up=()).connect,
            source=None,
            as_json=False,
            say=_no_word,
        )
