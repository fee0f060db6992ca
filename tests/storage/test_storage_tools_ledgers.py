"""The commands on files beside the store of a DLedger group: named, and never taken for a log."""

from __future__ import annotations

import json
import pathlib

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
FOUND = "a dledger group's store, which its node checks at each start and nobody else reads"
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


def test_what_is_beside_a_ledger_is_checked_and_copied(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, (CLUSTER + CLASSIC).format(free_port(), free_port()))
    code, out, err = run(capfd, "check", node, "--json")
    assert (code, err) == (0, PASSED)
    assert [group["group"] for group in json.loads(out)["groups"]] == ["orders"]
    assert run(capfd, "dump", node)[0] == 0, "orders is the only one that is meant"
    code, out, err = run(capfd, "backup", node, tmp_path / "copy", "--json")
    assert (code, err) == (0, PASSED)
    code, out, err = run(capfd, "check", node, "--group", "orders")
    assert (code, err) == (0, "")


def test_a_ledger_is_no_log_to_read_or_to_cut(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    before = {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}
    for words in (
        ("check", node),
        ("dump", node, "--group", "ledger"),
        ("truncate", node, "0", "--yes", "--force"),
        ("backup", node, tmp_path / "copy"),
    ):
        expected = f"triolog: {node}: expected a classic group, found ledger: {FOUND}\n"
        assert run(capfd, *words) == (2, "", expected)
    root = node / "groups" / "ledger"
    for words in (("check", root), ("dump", root), ("truncate", root, "0", "--yes")):
        code, out, err = run(capfd, *words)
        assert (code, out) == (2, "")
        assert err.endswith(f"or a backup, found {FOUND}\n")
    assert before == {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}
