"""Running nodes whose cluster files differ: `status` names what, and where."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from actors.cluster import commands
from actors.cluster.differences import differences
from actors.config import ClusterConfig, loads, stated

FILE = """version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", "n2"]
copies = 2
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
"""
NAMES = ("n0", "n1", "n2")
DIFFERS = "differs between the cluster files:"


def config(*changes: tuple[str, str]) -> ClusterConfig:
    text = FILE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return loads(text, "/c.toml")


def answer(found: ClusterConfig, node: str) -> dict[str, Any]:
    return {"settings": {group.name: stated(group) for group in found.groups_of(node)}}


def told(**others: ClusterConfig) -> list[str]:
    """What is told of three nodes of which these have other files."""
    answers = {node: answer(others.get(node, config()), node) for node in NAMES}
    return differences(config(), answers)


def test_equal_files_have_no_differences() -> None:
    assert told() == []
    reordered = config(('["n0", "n1", "n2"]', '["n2", "n0", "n1"]'))
    assert told(n1=reordered) == []
    said_defaults = config(('mode = "dledger"', 'mode = "dledger"\nheartbeat_leaks = 3'))
    assert told(n2=said_defaults) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            'members = ["n0", "n1", "n2"]',
            'members = ["n2"]',
            f"groups.ledger.members {DIFFERS} [n0, n1, n2] in n0, n1, /c.toml; [n2] in n2",
        ),
        (
            'mode = "dledger"',
            'mode = "dledger"\ndurability = "written"',
            f'groups.ledger.durability {DIFFERS} "synced" in n0, n1, /c.toml; "written" in n2',
        ),
        (
            "copies = 2",
            "copies = 3",
            f"groups.orders.copies {DIFFERS} 2 in n0, n1, /c.toml; 3 in n2",
        ),
        (
            'slaves = ["n1", "n2"]',
            'slaves = [{ node = "n1", kind = "java" }, "n2"]',
            f"groups.orders.slaves {DIFFERS} [n1, n2] in n0, n1, /c.toml; [n1 (java), n2] in n2",
        ),
    ],
)
def test_what_differs_is_named_with_who_says_what(before: str, after: str, line: str) -> None:
    assert told(n2=config((before, after))) == [line]


def test_a_group_that_a_file_leaves_out_is_told() -> None:
    without = config(('members = ["n0", "n1", "n2"]', 'members = ["n0", "n1"]'))
    assert told(n2=without) == [f"groups.ledger {DIFFERS} there in n0, n1, /c.toml; missing in n2"]
    answers = {node: answer(config(), node) for node in NAMES}
    assert differences(config(("groups.ledger", "groups.other")), answers) == [
        f"groups.ledger {DIFFERS} there in n0, n1, n2; missing in /c.toml",
        f"groups.other {DIFFERS} missing in n0, n1, n2; there in /c.toml",
    ]


def test_the_asker_s_own_file_may_be_the_odd_one_and_older_nodes_say_nothing() -> None:
    answers = {node: answer(config(), node) for node in NAMES}
    odd = config(("copies = 2", "copies = 1"))
    (line,) = differences(odd, answers)
    assert line == f"groups.orders.copies {DIFFERS} the default in n0, n1, n2; 1 in /c.toml"
    assert differences(odd, {node: {} for node in NAMES}) == []


@attrs.define
class Api:
    said: dict[str, Any]

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"state": "running", "groups": {}, **self.said}

    async def tree(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"path": "/n0", "kind": "", "state": "running", "children": []}


async def test_status_tells_them_first(autojump_clock: object) -> None:
    odd = config(("copies = 2", "copies = 3"))
    apis = {node: Api(answer(odd if node == "n1" else config(), node)) for node in NAMES}
    ask = partial(commands.status, config(), NAMES, apis.__getitem__, {}.get)  # type: ignore[arg-type]
    line = f"groups.orders.copies {DIFFERS} 2 in n0, n2, /c.toml; 3 in n1"
    assert (await ask(as_json=False)).text.split("\n")[:2] == ["cluster demo", f"  {line}"]
    assert json.loads((await ask(as_json=True)).text)["differences"] == [line]
