"""`promote` and `resync` as words and as text, against nodes in memory; in virtual time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from group_states import status_of

from actors.api.failures import RequestRefused
from actors.client.slot_retries import NoSlot
from actors.cluster import links, reaching, switching
from actors.cluster.arguments import Arguments, parse
from actors.cluster.command_line import run_command_line
from actors.cluster.explain import explain
from actors.cluster.reaching import NoAnswer
from actors.config import load
from actors.config.autoswitch_kind import AUTOSWITCH
from actors.config.classic_kind import CLASSIC
from actors.errors import ConfigError, NodeStopped, OutcomeUnknown
from actors.storage.files.room import room_text

FILE = Path(__file__).parents[2] / "tests" / "three_nodes.toml"
CONFIG = load(FILE)
PROMOTED = {
    "group": "orders",
    "number": 2,
    "master": "n1",
    "old_master": "n0",
    "start_bytes": 4096,
    "handed_over": True,
    "losses": [],
    "members": {
        "n0": {"role": "slave", "state": "diverged", "reason": "too long", "written_bytes": 9},
        "n1": {"role": "master", "state": "open", "reason": "", "written_bytes": 4100},
        "n2": {"silent": "connection refused"},
    },
}
FULL = "no room: the disk is 100% full"
RESYNCED = {
    "group": "orders",
    "node": "n0",
    "master": "n1",
    "end_bytes": 100,
    "cut_bytes": 70,
}


@attrs.define
class Nodes:
    """Those of `up` answer."""

    up: tuple[str, ...] = ("n0", "n1", "n2")
    hanging: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    asked: list[tuple[Any, ...]] = attrs.field(factory=list)
    resynced: dict[str, Any] = attrs.field(factory=lambda: dict(RESYNCED))
    repaired: dict[str, Any] = attrs.field(factory=dict)
    parts: list[dict[str, str]] = attrs.field(factory=list)
    promoted: dict[str, Any] = attrs.field(factory=lambda: dict(PROMOTED))
    written: int = 9
    error: Exception | None = None

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Any]:
        await trio.lowlevel.checkpoint()
        if name not in self.up:
            raise ConnectionRefusedError("nobody listens")
        if name in self.hanging:
            await trio.sleep(5)
            raise TimeoutError(f"cannot reach {name}: no answer within 5 s")
        if name in self.full:
            raise NoSlot(f"{name}: all 64 client slots are taken")
        yield Api(self, name)


@attrs.define
class Api:
    nodes: Nodes
    name: str

    async def promote(self, group: str, node: str | None, *, force: bool) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.nodes.asked.append((self.name, group, node, force))
        if self.nodes.error is not None:
            raise self.nodes.error
        return self.nodes.promoted

    async def resync(self, group: str) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.nodes.asked.append((self.name, group))
        if self.nodes.error is not None:
            raise self.nodes.error
        return self.nodes.resynced

    async def repair(self, group: str, source: str | None) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.nodes.asked.append((self.name, group, source))
        return self.nodes.repaired

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        parts = self.nodes.parts
        part = parts.pop(0) if len(parts) > 1 else parts[0]
        own = status_of(role="slave", leads=False, written=self.nodes.written, **part)
        return {"groups": {"orders": own}}


def test_words() -> None:
    assert parse(["c.toml", "promote", "orders"]) == Arguments(
        file="c.toml", command="promote", group="orders"
    )
    assert parse(["c.toml", "promote", "orders", "n1", "--force", "--json"]) == Arguments(
        file="c.toml", command="promote", group="orders", member="n1", force=True, json=True
    )
    assert parse(["c.toml", "resync", "n0"]) == Arguments(
        file="c.toml", command="resync", member="n0"
    )
    assert parse(["c.toml", "resync", "n0", "orders"]).group == "orders"
    assert parse(["c.toml", "repair", "n0", "orders", "--from", "n1"]) == Arguments(
        file="c.toml", command="repair", member="n0", group="orders", source="n1"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("promote", "promote: expected GROUP [NODE], found nothing (see --help)"),
        ("promote a b c", "promote: expected GROUP [NODE], found a b c (see --help)"),
        ("resync", "resync: expected NODE [GROUP], found nothing (see --help)"),
        ("repair", "repair: expected NODE [GROUP], found nothing (see --help)"),
        ("resync n0 --from n1", "--from has no meaning for resync (see --help)"),
        ("status n1", "unrecognized arguments: n1 (see --help)"),
        ("run x", "unrecognized arguments: x (see --help)"),
        ("status --force", "--force has no meaning for status (see --help)"),
        ("resync n0 --force", "--force has no meaning for resync (see --help)"),
        ("promote orders --node n1", "--node has no meaning for promote (see --help)"),
        ("promote orders --plain", "--plain has no meaning for promote (see --help)"),
    ],
)
def test_wrong_words(words: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(["c.toml", *words.split()])
    assert caught.value.problems == (line,)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("promote order", "GROUP: expected orders, found order"),
        ("promote orders n9", "NODE: expected one of n0, n1, n2, found n9"),
        ("resync nn2", "NODE: expected one of n0, n1, n2 (did you mean n2?), found nn2"),
        ("repair n0 --from n9", "--from: expected one of n0, n1, n2, found n9"),
        ("resync n0 ledger", "GROUP: expected orders, found ledger"),
    ],
)
def test_names_that_are_none(words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([str(FILE), *words.split()]) == 2
    assert capsys.readouterr().err == f"triolog: {line}\n"


@pytest.mark.parametrize(
    "error",
    [
        RequestRefused("BadRequest", "n0 has 9 bytes that n1 does not have"),
        OutcomeUnknown("nobody knows whether n1 has heard of promotion 2: promote again"),
        NodeStopped("the connection to n0 ended before the answer: connection lost"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("words", ["promote orders", "resync n0"])
def test_a_node_s_no_is_one_line(
    words: str,
    error: Exception,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(error=error)
    monkeypatch.setattr(links, "connect_own", lambda config, name: nodes.connect(name))
    assert run_command_line([str(FILE), *words.split()]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"triolog: {error}")
    assert said.count("\n") == 1
    assert caplog.records == []  # which would be a traceback


@pytest.mark.parametrize(
    ("start_bytes", "line"),
    [
        (4096, "orders: n1 is master in epoch 2, from byte 4096 on; it was n0"),
        (None, "orders: n1 is master in epoch 2; it was n0"),  # a Java broker
    ],
)
def test_an_election_says_its_epoch(start_bytes: int | None, line: str) -> None:
    found = {**PROMOTED, "handed_over": False, "start_bytes": start_bytes}
    assert switching.promoted_lines(found, AUTOSWITCH.terms)[0] == line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "transfer-leader orders",
            "transfer-leader: expected a group whose members elect their leader, found orders, an"
            " autoswitch group: `python -m actors.cluster FILE promote orders` changes its master",
        ),
        (
            "resync n0 orders",
            "resync: expected a group whose master is promoted, found orders, an autoswitch group:"
            " a follower's log is made like its leader's by itself",
        ),
    ],
)
def test_what_has_no_meaning_for_an_autoswitch_group(
    words: str, line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "pair.toml"
    file.write_text((FILE.parents[1] / "examples" / "autoswitch.toml").read_text())
    assert run_command_line([str(file), *words.split()]) == 2
    assert capsys.readouterr().err == f"triolog: {line.replace('FILE', str(file))}\n"


async def promoted(nodes: Nodes, node: str | None = None, **keys: bool) -> str:
    asked = {"force": False, "as_json": False} | keys
    answer = await switching.promote(CONFIG, "orders", node, nodes.connect, **asked)
    assert answer.exit_code == 0
    return answer.text


async def test_a_node_that_is_lost_meanwhile_leaves_words_what_to_do(
    autojump_clock: trio.abc.Clock,
) -> None:
    nodes = Nodes(error=NodeStopped("the connection to n0 ended before the answer: reset"))
    with pytest.raises(OutcomeUnknown) as unknown:
        await promoted(nodes)
    assert str(unknown.value) == (
        "the connection to n0 ended before the answer: reset; `status` says who is master of"
        " orders: while nobody is, type `promote orders` again"
    )


async def test_whoever_answers_carries_it_out(autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(up=("n1", "n2"))
    text = await promoted(nodes)
    assert nodes.asked == [("n1", "orders", None, False)]
    assert text.split("\n") == [
        "orders: n1 is master by promotion 2, from byte 4096 on; it was n0",
        "  n0 handed over: nothing is lost or in doubt",
        "  n0: slave, 9 bytes, diverged: too long",
        "  n1: master, 4100 bytes, takes appends",
        "  n2: does not answer, and hears of it later (connection refused)",
    ]
    assert json.loads(await promoted(nodes, "n2", force=True, as_json=True)) == PROMOTED
    assert nodes.asked[1] == ("n2", "orders", "n2", True)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([{"state": "connecting"}] * 3 + [{"state": "following"}], "4100 bytes, follows n1"),
        (
            [{"state": "connecting"}],
            "9 bytes, still connecting to n1: `status` says when it follows",
        ),
        (
            [{"state": "connecting", "reason": "it began empty"}],
            "9 bytes, connecting: it began empty",
        ),
        ([{"state": "diverged", "reason": "too long"}], "9 bytes, diverged: too long"),
        ([{"state": "following", "reason": FULL}], f"9 bytes, follows n1; {room_text(FULL)}"),
        ([], "9 bytes, still connecting to n1: `status` says when it follows"),
    ],
)
async def test_who_was_connecting_is_shown_as_it_follows(
    parts: list[dict[str, str]], says: str, autojump_clock: trio.abc.Clock
) -> None:
    """For a moment after each promotion the other members have no connection; without an answer
    they are as they were.
    """
    nodes = Nodes(up=("n0", "n1") if parts else ("n1",), parts=list(parts))
    nodes.written = 4100 if says.startswith("4100") else 9
    rest = {name: PROMOTED["members"][name] for name in ("n1", "n2")}
    n0 = {"role": "slave", "state": "connecting", "reason": "", "written_bytes": 9}
    nodes.promoted = PROMOTED | {"members": {"n0": n0, **rest}}
    begun_s = trio.current_time()
    text = await promoted(nodes)
    assert f"  n0: slave, {says}" in text.split("\n")
    assert trio.current_time() - begun_s <= switching.FOLLOWS_S
    again = json.loads(await promoted(nodes, as_json=True))
    assert again["members"]["n0"]["state"] == (parts[-1]["state"] if parts else "connecting")


async def test_what_is_lost_by_force_is_said(autojump_clock: trio.abc.Clock) -> None:
    found = PROMOTED | {"old_master": "n1", "handed_over": False, "losses": ["n2 has 9 bytes"]}
    assert switching.promoted_lines(found, CLASSIC.terms)[:2] == [
        "orders: n1 is master by promotion 2, from byte 4096 on",
        "  by force: n2 has 9 bytes",
    ]
    lines = switching.promoted_lines(found | {"handed_over": True}, CLASSIC.terms)
    assert not any("nothing is lost" in line for line in lines)


async def test_a_node_that_is_starting_is_no_mistake(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens there yet, and the command was right."""
    monkeypatch.setattr(reaching, "data_holder", lambda config, node: 7 if node == "n1" else None)
    monkeypatch.setattr(reaching, "starts_how", lambda *asked: "starting for 3 s, opens orders")
    nobody = Nodes(up=())
    words = r"n1: starting for 3 s, opens orders \(process 7\); nothing was done: `status` says"
    with pytest.raises(NoAnswer, match=words) as caught:
        await promoted(nobody)
    assert explain(caught.value).exit_code == 1
    with pytest.raises(NoAnswer, match=words):
        await switching.resync(CONFIG, "n1", ("orders",), nobody.connect, as_json=False)


async def test_what_is_refused_is_raised(autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(error=RequestRefused("BadRequest", "n0 is the master of orders"))
    with pytest.raises(RequestRefused, match="n0 is the master"):
        await promoted(nodes)
    with pytest.raises(ConfigError, match="expected a running member of orders, found none"):
        await promoted(Nodes(up=()))


async def test_members_that_hang_are_waited_for_at_once(autojump_clock: trio.abc.Clock) -> None:
    begun_s = trio.current_time()
    nodes = Nodes(hanging=("n0", "n1"))
    await promoted(nodes)
    assert [name for name, *_ in nodes.asked] == ["n2"]
    assert trio.current_time() - begun_s < 1
    begun_s = trio.current_time()
    each = "; ".join(f"{name} does not answer within 10 s" for name in ("n0", "n1", "n2"))
    with pytest.raises(NoAnswer, match=f"^orders: {each}; nothing was done$"):
        await promoted(Nodes(hanging=("n0", "n1", "n2")))
    assert trio.current_time() - begun_s == pytest.approx(CONFIG.answer_timeout_s)


async def test_a_node_that_hangs_is_not_called_away_by_resync(
    autojump_clock: trio.abc.Clock,
) -> None:
    begun_s = trio.current_time()
    nodes = Nodes(hanging=("n1",))
    with pytest.raises(NoAnswer, match=r"^n1 does not answer within 10 s; nothing was done$"):
        await switching.resync(CONFIG, "n1", ("orders",), nodes.connect, as_json=False)
    assert trio.current_time() - begun_s == pytest.approx(CONFIG.answer_timeout_s)


async def test_a_member_without_a_place_runs(autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes(full=("n0", "n1", "n2"))
    with pytest.raises(NoAnswer, match=r"^orders: n0: all 64 client slots are taken; n1: "):
        await promoted(nodes)
    with pytest.raises(NoSlot, match=r"^n0: all 64 client slots .* taken; tried again for "):
        await switching.resync(CONFIG, "n0", ("orders",), nodes.connect, as_json=False)


async def test_resync(autojump_clock: trio.abc.Clock) -> None:
    nodes = Nodes()

    async def text(part: str = "following", reason: str = "", **changes: Any) -> tuple[str, int]:
        nodes.resynced = RESYNCED | changes
        nodes.parts = [{"state": "connecting"}, {"state": part, "reason": reason}]
        answer = await switching.resync(CONFIG, "n0", ("orders",), nodes.connect, as_json=False)
        return answer.text, answer.exit_code

    assert await text() == (
        "orders: n0 is cut at byte 70: 30 bytes are kept in aside/; following",
        0,
    )
    assert nodes.asked == [("n0", "orders")]
    assert await text(cut_bytes=None) == (
        "orders: n0 fits the log of n1: nothing to cut; following",
        0,
    )
    assert await text("connecting", "why", cut_bytes=0) == (
        "orders: n0 begins anew: all of its 100 bytes are kept in aside/; connecting (why)",
        1,
    )
    nodes.resynced, nodes.parts = RESYNCED, [{"state": "following"}]
    answer = await switching.resync(CONFIG, "n0", ("orders",), nodes.connect, as_json=True)
    assert json.loads(answer.text) == [RESYNCED | {"state": "following", "reason": ""}]
    with pytest.raises(ConfigError, match="expected node n0 to run, found nobody there"):
        await switching.resync(CONFIG, "n0", ("orders",), Nodes(up=()).connect, as_json=False)
