"""`transfer-leader`, and what only the other kind of group has, as words and as text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from cluster_kit import make_cluster
from group_states import status_of

from actors.api.failures import RequestRefused
from actors.cluster import links, transferring
from actors.cluster.arguments import Arguments, parse
from actors.cluster.command_line import run_command_line
from actors.cluster.reaching import NoAnswer
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
    """Those of `up` answer; `leader` leads in `term`, and the others name it.

    Attributes:
        slow: attempts to connect that still come to nothing, as on a machine with too much to do.
        error: what a leader that is asked to hand over answers.
        then: what has happened by then.
        joining: what all of them say of their own votes.
    """

    up: tuple[str, ...] = ("n0", "n1", "n2")
    leader: str | None = "n1"
    term: int = 3
    slow: dict[str, int] = attrs.field(factory=dict)
    error: Exception | None = None
    then: Callable[[], None] = lambda: None
    joining: str = ""
    asked: list[tuple[str, str, str | None]] = attrs.field(factory=list)

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Any]:
        await trio.lowlevel.checkpoint()
        if name not in self.up:
            raise ConnectionRefusedError("nobody listens")
        if self.slow.get(name, 0):
            self.slow[name] -= 1
            await trio.sleep(5)
            raise TimeoutError(f"cannot reach {name}: no answer within 5 s")
        yield Api(self, name)

    def lead(self, name: str | None) -> None:
        """In the next term."""
        self.leader, self.term = name, self.term + 1


@attrs.define
class Api:
    nodes: Nodes
    name: str

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        own = status_of(
            leads=False,
            is_open=False,
            leader=self.nodes.leader or "",
            epoch=self.nodes.term,
            troubles=tuple(filter(None, [self.nodes.joining])),
        )
        return {"groups": {"ledger": own}}

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.nodes.asked.append((self.name, group, node))
        if self.name != self.nodes.leader:
            raise NotMaster(f"{self.name} does not lead {group}", hint=self.nodes.leader)
        error = self.nodes.error
        if error is not None:
            self.nodes.then()
            raise error
        return MOVED


async def moved(file: str, nodes: Nodes, node: str | None = None, *, as_json: bool = False) -> str:
    answer = await transferring.transfer_leader(
        load(file), "ledger", node, nodes.connect, as_json=as_json, say=lambda line: None
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
    assert nodes.asked == [("n2", "ledger", "n1")]
    nodes = Nodes(up=("n1",))
    assert json.loads(await moved(file, nodes, as_json=True)) == MOVED
    assert nodes.asked == [("n1", "ledger", None)]


def test_who_leads_already_is_no_failure() -> None:
    found = {"group": "ledger", "leader": "n1", "old_leader": "n1", "term": 4}
    assert transferring.transferred_line(found) == "ledger: n1 leads in term 4 already"


async def test_where_nobody_leads(file: str, autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(up=("n0", "n2"), leader=None)
    with pytest.raises(NoAnswer) as caught:
        await moved(file, nodes)
    said = "ledger: n0 runs, but no node that it knows leads ledger"
    assert str(caught.value).startswith(said)
    for fact in ("nothing was done", "2 of the 3 members run", "see `status`", "type it again"):
        assert fact in str(caught.value)
    assert nodes.asked == []
    with pytest.raises(NoAnswer, match=r"leads ledger \(is new\); .*done: see `status`"):
        await moved(file, Nodes(up=("n0", "n2"), leader=None, joining="is new"))
    with pytest.raises(ConfigError, match="expected a running member of ledger, found none"):
        await moved(file, Nodes(up=()))


async def test_that_nobody_leads_is_said_at_once(file: str, autojump_clock: trio.abc.Clock) -> None:
    """And waited for: an election may be under way."""
    nodes = Nodes(leader=None)
    begun_s = trio.current_time()
    lines: list[tuple[float, str]] = []

    def say(line: str) -> None:
        lines.append((trio.current_time() - begun_s, line))

    async def elect() -> None:
        await trio.sleep(6)
        nodes.lead("n1")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(elect)
        answer = await transferring.transfer_leader(
            load(file), "ledger", None, nodes.connect, as_json=False, say=say
        )
    assert answer.text == "ledger: n2 leads in term 4; it was n1"
    ((after_s, line),) = lines
    assert after_s < 1
    assert line.startswith("ledger: no node leads now, as far as n0")
    assert line.endswith(" know; waits for a leader, up to 10 s")


async def test_a_leader_that_is_found_needs_no_words(
    file: str, autojump_clock: trio.abc.Clock
) -> None:
    nodes, lines = Nodes(slow={"n1": 1}), list[str]()
    await transferring.transfer_leader(
        load(file), "ledger", None, nodes.connect, as_json=False, say=lines.append
    )
    assert lines == []


def test_what_is_waited_for_is_said_on_standard_error(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(file).write_text("answer_timeout_s = 1\n" + Path(file).read_text())
    nodes = Nodes(up=("n0",), leader=None)
    monkeypatch.setattr(links, "connect_own", lambda config, name: nodes.connect(name))
    assert run_command_line([file, "transfer-leader", "ledger", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first == (
        "triolog: ledger: no node leads now, as far as n0 knows; waits for a leader, up to 1 s"
    )
    assert second.startswith("triolog: ledger: n0 runs, but no node ")


async def test_a_leader_with_too_much_to_do_is_waited_for(
    file: str, autojump_clock: trio.abc.Clock
) -> None:
    """It takes no connection within that one's time: the next attempt does."""
    nodes = Nodes(slow={"n1": 1})
    assert await moved(file, nodes) == "ledger: n2 leads in term 4; it was n1"
    assert trio.current_time() < 6


async def test_members_that_hang_are_waited_for_at_once(
    file: str, autojump_clock: trio.abc.Clock
) -> None:
    begun_s = trio.current_time()
    nodes = Nodes(leader="n2", slow={"n0": 99, "n1": 99})
    await moved(file, nodes)
    assert trio.current_time() - begun_s < 1
    nodes = Nodes(slow={"n0": 99, "n1": 99, "n2": 99})
    begun_s = trio.current_time()
    with pytest.raises(NoAnswer, match=r"^ledger: n0 does not answer within 10 s; .*done$"):
        await moved(file, nodes)
    assert trio.current_time() - begun_s <= load(file).answer_timeout_s


LOST = NodeStopped("the connection to n1 ended before the answer: reset")


async def test_a_lost_answer_is_found_with_the_others(
    file: str, autojump_clock: trio.abc.Clock
) -> None:
    nodes = Nodes(error=LOST)
    nodes.then = partial(nodes.lead, "n0")
    assert await moved(file, nodes) == "ledger: n0 leads in term 4; it was n1"
    nodes = Nodes(error=LOST)
    nodes.then = partial(nodes.lead, "n0")
    with pytest.raises(OutcomeUnknown) as unknown:
        await moved(file, nodes, "n2")
    assert str(unknown.value) == f"n0 leads ledger in term 4, not n2: {LOST}"
    assert len(nodes.asked) == 1


async def test_a_lead_that_has_not_moved_is_said(file: str, autojump_clock: trio.abc.Clock) -> None:
    with pytest.raises(RequestRefused) as refused:
        await moved(file, Nodes(error=OutcomeUnknown("n2 did not take ledger over in time")))
    assert str(refused.value) == (
        "n1 leads ledger in term 3 as before: n2 did not take ledger over in time"
    )


async def test_where_the_lead_is_cannot_be_known(file: str, autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(error=LOST)
    nodes.then = partial(nodes.lead, None)
    with pytest.raises(OutcomeUnknown) as unknown:
        await moved(file, nodes)
    assert str(unknown.value) == (
        f"whether n1 has handed ledger over is not known: {LOST}; `status` names the leader"
    )


async def test_a_leader_that_is_one_no_more_is_not_the_end(
    file: str, autojump_clock: trio.abc.Clock
) -> None:
    """Whoever leads by then is asked; without a name, that another one leads is what was wanted."""
    nodes = Nodes(error=NotMaster("n1 does not lead ledger any more", hint="n0"))

    def lead() -> None:
        nodes.lead("n0")
        nodes.error = None

    nodes.then = lead
    assert await moved(file, nodes, "n2") == "ledger: n2 leads in term 4; it was n1"
    assert [name for name, *_ in nodes.asked] == ["n1", "n0"]
    nodes = Nodes(error=NotMaster("n1 does not lead ledger any more", hint="n0"))
    nodes.then = lead
    assert await moved(file, nodes) == "ledger: n0 leads in term 4; it was n1"
    assert [name for name, *_ in nodes.asked] == ["n1"]


@pytest.mark.parametrize("then", [None, "n2"])
def test_a_lost_answer_is_one_line_without_names_of_ours(
    file: str,
    then: str | None,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(up=("n1", "n2"), error=LOST)
    nodes.then = partial(nodes.lead, then)
    monkeypatch.setattr(links, "connect_own", lambda config, name: nodes.connect(name))
    monkeypatch.setattr(transferring, "SETTLE_S", 0.5)
    code = run_command_line([file, "transfer-leader", "ledger", "n2"])
    out, err = capsys.readouterr()
    assert (code, out.count("\n"), err.count("\n")) == ((1, 0, 1) if then is None else (0, 1, 0))
    assert "Error" not in err
    assert caplog.records == []


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
            "promote: expected a group whose master is promoted, found ledger, a dledger"
            " group: its members elect their leader, `python -m actors.cluster FILE"
            " transfer-leader ledger` changes it",
        ),
        (
            "resync n1 ledger",
            "resync: expected a group whose master is promoted, found ledger, a dledger group:"
            " a follower's log is made like its leader's by itself",
        ),
        (
            "transfer-leader orders",
            "transfer-leader: expected a group whose members elect their leader, found orders,"
            " a classic group: `python -m actors.cluster FILE promote orders` changes its master",
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
    assert capsys.readouterr().err == f"triolog: {line.replace('FILE', file)}\n"


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
    said = "triolog: NODE: expected a member of a group for this command, found n2\n"
    assert capsys.readouterr().err == said
