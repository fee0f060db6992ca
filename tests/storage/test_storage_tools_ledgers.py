"""The commands on a node's DLedger groups, stopped and running, and beside classic ones."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
import trio
from free_ports import free_port

import actors
from actors.storage.command_line import run_command_line

pytestmark = pytest.mark.real_io

CLUSTER = """
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
[groups.ledger]
mode = "dledger"
members = ["n0"]
port = {}
data_file_bytes = 65536
index_file_bytes = 3200
"""
CLASSIC = """
[groups.orders]
master = "n0"
port = {}
segment_bytes = 65536
"""
PASSED = "triolog: ledger is passed over: a dledger group, whose store only its node reads\n"


def node_of(folder: pathlib.Path, text: str) -> pathlib.Path:
    """A node's directory, stopped in order."""
    file = folder / "c.toml"
    file.write_text(text)

    async def fill() -> None:
        async with actors.open_node(str(file), "n0"):
            pass

    trio.run(fill)
    return folder / "var" / "n0"


def run(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run_command_line([str(word) for word in words])
    return (code, *capfd.readouterr())


def fill(node: pathlib.Path) -> None:
    """A hundred entries, behind the one that opens the term."""

    async def append() -> None:
        async with actors.open_node(str(node.parent.parent / "c.toml"), "n0") as handle:
            await handle.log("ledger").append([b"line %d" % number for number in range(100)])

    trio.run(append)


def test_both_kinds_are_checked_and_dumped(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, (CLUSTER + CLASSIC).format(free_port(), free_port()))
    fill(node)
    before = {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}
    code, out, err = run(capfd, "check", node, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [group["group"] for group in found["groups"]] == ["orders"]
    (ledger,) = found["ledgers"]
    assert (ledger["group"], ledger["state"], ledger["voted_for"]) == ("ledger", "stopped", "n0")
    assert ledger["entries"] >= 101
    assert ledger["entries"] == ledger["indexed"] == ledger["summed"]
    assert ledger["committed_index"] == ledger["end_index"]
    code, out, err = run(capfd, "check", node)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[:3] for row in rows if row[0] != "group"] == [
        ["orders", "good", "stopped"],
        ["ledger", "good", "stopped"],
    ]
    code, out, err = run(capfd, "dump", node)
    assert (code, out) == (2, "")
    assert err.endswith("--group: expected one of the groups of " + f"{node}: orders, ledger\n")
    for words in ((node, "--group", "ledger"), (node / "groups" / "ledger",)):
        code, out, err = run(capfd, "dump", *words)
        assert (code, err) == (0, "")
        bodies = [json.loads(line)["body"] for line in out.splitlines()]
        assert [body for body in bodies if body] == [f"line {n}" for n in range(100)]
    assert before == {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}


def test_damage_has_exit_code_1(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    fill(node)
    path = node / "groups" / "ledger" / "data" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(bytes(data))
    code, out, err = run(capfd, "check", node)
    assert (code, err) == (1, "")
    assert f"ledger: damage: {path}: byte " in out
    assert "remove all but currterm, its vote, from this folder and start" in out
    code, out, err = run(capfd, "dump", node)
    assert code == 1
    assert "damage, or a torn end (check says which)" in err or "not what was written" in err


def test_mistakes_are_one_line_and_change_nothing(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    before = {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}
    root = node / "groups" / "ledger"
    cut = "of a dledger group's log only its leader has members cut something"
    for words, expected in (
        (("truncate", node, "0", "--yes", "--force"), f"found ledger: {cut}"),
        (("truncate", root, "0", "--yes"), f"found ledger: {cut}"),
        (("check", root / "data"), "expected a node's data directory, a store root"),
        (("dump", root, "--topic", "x"), "--topic: expected of a classic group alone"),
        (("dump", root, "--from", "99"), "--from: expected an index up to"),
        (("check", node, "--group", "ledgr"), "--group: expected a group of"),
    ):
        code, out, err = run(capfd, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("triolog: ")
        assert expected in err
    assert before == {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}


async def test_a_running_member(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(CLUSTER.format(free_port()) + "checkpoint_interval_s = 0.1\n")
    node = tmp_path / "var" / "n0"

    async def tool(*words: object) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "actors.storage", *map(str, words)]
        found = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        return found.returncode, found.stdout.decode(), found.stderr.decode()

    async with actors.open_node(str(file), "n0") as handle:
        receipt = await handle.log("ledger").append([b"line %d" % n for n in range(100)])
        with trio.fail_after(30):
            while True:
                code, output, errors = await tool("check", node, "--json")
                assert (code, errors) == (0, "")
                (found,) = json.loads(output)["ledgers"]
                assert found["state"] == "running"
                if found["end_index"] == receipt.next - 1:
                    break
        code, output, errors = await tool("dump", node)
        assert (code, errors) == (0, "")
        bodies = [json.loads(line)["body"] for line in output.splitlines()]
        assert [body for body in bodies if body] == [f"line {n}" for n in range(100)]
