"""`transfer-leader`, and what only the other kind of group has, as words and as text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from cluster_kit import make_cluster

from actors.api.failures import RequestRefused
from actors.cluster import links, switching
from actors.cluster.arguments import Arguments, parse
from actors.cluster.command_line import run_command_line
from actors.config import load
from actors.errors import ConfigError, NodeStopped, NotMaster, OutcomeUnknown

LEDGER = """\
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
port = {port}
"""
MOVED = {"group": "ledger", "leader": "n2", "old_leader": "n1", "term": 4}


@pytest.fixture
def file(tmp_path: Path) -> str:
    cluster = make_cluster(tmp_path)
    return cluster.write(cluster.text + LEDGER.format(port=cluster.port + 1))


@attrs.define
class Nodes:
    """Those of `up` answer; `leader` leads, and the others name it."""

    up: tuple[str, ...] = ("n0", "n1", "n2")
    leader: str | None = "n1"
    error: Exception | None = None
    asked: list[tuple[str, str, str | None]] = attrs.field(factory=list)

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Any]:
        await trio.lowlevel.checkpoint()
        if name not in self.up:
            raise ConnectionRefusedError("nobody listens")
        yield Api(self, name)


@attrs.define
class Api:
    nodes: Nodes
    name: str

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.nodes.asked.append((self.name, group, node))
        if self.name != self.nodes.leader:
            raise NotMaster(f"{self.name} does not lead {group}", hint=self.nodes.leader)
        if self.nodes.error is not None:
            raise self.nodes.error
        return MOVED


async def moved(file: str, nodes: Nodes, node: str | None = None, *, as_json: bool = False) -> str:
    answer = await switching.transfer_leader(
        load(file), "ledger", node, nodes.connect, as_json=as_json
    )
    assert answer.exit_code == 0
    return answer.text


def test_words() -> None:
    assert parse(["c.toml", "transfer-leader", "ledger", "n1", "--json"]) == Arguments(
        file="c.toml", command="transfer-leader", group="ledger", member="n1", json=True
    )
    assert parse(["c.toml", "transfer-leader", "ledger"]).member is None
    for words in ([], ["a", "b", "c"]):
        with pytest.raises(ConfigError, match=r"transfer-leader: expected GROUP \[NODE\], found"):
            parse(["c.toml", "transfer-leader", *words])
    with pytest.raises(ConfigError, match="--force has no meaning for transfer-leader"):
        parse(["c.toml", "transfer-leader", "ledger", "--force"])


async def test_the_leader_is_found_and_asked(file: str, autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(leader="n2")
    assert await moved(file, nodes, "n1") == "ledger: n2 leads in term 4; it was n1"
    assert nodes.asked == [("n0", "ledger", "n1"), ("n2", "ledger", "n1")]
    nodes = Nodes(up=("n1",))
    assert json.loads(await moved(file, nodes, as_json=True)) == MOVED
    assert nodes.asked == [("n1", "ledger", None)]


def test_who_leads_already_is_no_failure() -> None:
    found = {"group": "ledger", "leader": "n1", "old_leader": "n1", "term": 4}
    assert switching.transferred_line(found) == "ledger: n1 leads in term 4 already"


async def test_where_nobody_leads(file: str, autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(leader=None)
    with pytest.raises(NotMaster, match="n2 does not lead ledger"):
        await moved(file, nodes)
    assert [name for name, *_ in nodes.asked] == ["n0", "n1", "n2"]
    with pytest.raises(ConfigError, match="expected a running member of ledger, found none"):
        await moved(file, Nodes(up=()))


async def test_a_lost_connection_leaves_it_open(file: str, autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(error=NodeStopped("the connection to n1 ended before the answer: reset"))
    with pytest.raises(OutcomeUnknown) as unknown:
        await moved(file, nodes)
    assert str(unknown.value).endswith("answer: reset; `status` says who leads ledger")


def test_a_leader_s_no_is_one_line(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(error=RequestRefused("NotAvailable", "n2 is 1000 entries of ledger behind"))
    monkeypatch.setattr(links, "connect_own", lambda config, name: nodes.connect(name))
    assert run_command_line([file, "transfer-leader", "ledger", "n2"]) == 1
    assert capsys.readouterr().err == "triolog: n2 is 1000 entries of ledger behind\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "promote ledger n1",
            "promote: expected a classic group, found ledger, a dledger group: its members elect"
            " their leader, `transfer-leader ledger` changes it",
        ),
        (
            "resync n1 ledger",
            "resync: expected a classic group, found ledger, a dledger group: a follower's log is"
            " made like its leader's by itself",
        ),
        (
            "transfer-leader orders",
            "transfer-leader: expected a dledger group, found orders, a classic group:"
            " `promote orders` changes its master",
        ),
        ("transfer-leader ledger n9", "NODE: expected one of n0, n1, n2, found n9"),
        (
            "transfer-leader ledgr",
            "GROUP: expected one of orders, ledger (did you mean ledger?), found ledgr",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(
    file: str, words: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([file, *words.split()]) == 2
    assert capsys.readouterr().err == f"triolog: {line}\n"


def test_a_name_of_one_is_no_riddle(
    tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where only one name is known it is said once, and nobody is asked whether it was meant."""
    text = Path(file).read_text()
    start = text.index("[groups.orders]")
    Path(file).write_text(text[:start] + text[text.index("[groups.ledger]") :])
    assert run_command_line([file, "transfer-leader", "ledgr"]) == 2
    assert capsys.readouterr().err == "triolog: GROUP: expected ledger, found ledgr\n"


def test_resync_needs_a_classic_group(
    tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(file).read_text().replace('slaves = ["n1", "n2"]', 'slaves = ["n1"]')
    Path(file).write_text(text)
    assert run_command_line([file, "resync", "n2"]) == 2
    said = "triolog: NODE: expected a member of a classic group, found n2\n"
    assert capsys.readouterr().err == said
