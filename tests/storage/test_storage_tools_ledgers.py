"""The commands on a node's DLedger groups, stopped and running, and beside classic ones."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from free_ports import free_port
from tools_command_kit import run

import actors
from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError, CorruptLog
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Wanted
from actors.storage.tools.ledger.check import check_ledger
from actors.storage.tools.ledger.dump import dump_ledger
from actors.storage.tools.stores import GroupLedger
from actors.storage.tools.target import find_target

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


def node_of(folder: pathlib.Path, text: str) -> pathlib.Path:
    """A node's directory, stopped in order."""
    file = folder / "c.toml"
    file.write_text(text)

    async def fill() -> None:
        async with actors.open_node(str(file), "n0"):
            pass

    trio.run(fill)
    return folder / "var" / "n0"


def fill(node: pathlib.Path, group: str = "ledger") -> None:
    """A hundred entries, behind the one that opens the term; or messages."""

    async def append() -> None:
        async with actors.open_node(str(node.parent.parent / "c.toml"), "n0") as handle:
            await handle.log(group).append([b"line %d" % number for number in range(100)])

    trio.run(append)


def test_progress_counts_what_is_read(tmp_path: pathlib.Path) -> None:
    """Most of the only file was prepared, and never written."""
    node, disk = node_of(tmp_path, CLUSTER.format(free_port())), LocalDisk()
    fill(node)
    (ledger,) = find_target(disk, str(node)).stores
    assert isinstance(ledger, GroupLedger)
    dumping = dump_ledger(disk, ledger, Wanted(), lambda data: None)
    for work, what in (check_ledger(disk, ledger, CheckOptions()), "log"), (dumping, "dump"):
        steps = [step for step in work if step.what == f"ledger: {what}"]
        assert steps
        assert all(0 < step.done_bytes <= step.total_bytes < 20_000 for step in steps)


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
    assert [row[:3] for row in rows if row[0] != "in"] == [
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


@pytest.mark.parametrize(
    "key", ["data_file_bytes = 65536", "index_file_bytes = 3200", "segment_bytes = 65536"]
)
def test_a_start_refused_for_its_file_sizes_makes_nothing_of_it_damage(
    key: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, (CLUSTER + CLASSIC).format(free_port(), free_port()))
    fill(node)
    fill(node, "orders")
    file = tmp_path / "c.toml"
    name, size = key.split(" = ")
    file.write_text(file.read_text().replace(key, f"{name} = {int(size) * 2}"))
    said = f"{name}(: expected {size}, the size of the files| was changed from {size} to )"
    with pytest.raises(ConfigError, match=said):
        fill(node)
    code, out, _ = run(capfd, "check", node)
    assert (code, "damage" in out.lower()) == (0, False), out


@pytest.mark.parametrize(
    ("known", "sums"), [("ledgers", False), ("votes", False), ("", True), ("", False)]
)
def test_a_member_that_lost_log_and_vote_is_one_all_the_same(
    known: str, sums: bool, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It was taken for a classic group, whose synced mark could not be read."""
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    fill(node)
    root, file = node / "groups" / "ledger", node / "identity.json"
    shutil.rmtree(root / "data")
    (root / "currterm").unlink()
    if not sums:
        shutil.rmtree(root / "sums")
    identity = json.loads(file.read_text())
    for key in {"ledgers", "votes"} - {known}:
        identity[key] = type(identity[key])()
    file.write_text(json.dumps(identity))
    for path in (node, root):
        code, out, err = run(capfd, "check", path)
        tells = f"ledger: damage: {root / 'data'}: no files, but all below " in out
        assert (code, err, tells) == (1, "", bool(known or sums))


@pytest.mark.parametrize(
    "place",
    [
        f"ledger/data/{65536:020d}",
        f"ledger/index/{3200 * 40:020d}",
        f"ledger/sums/{1 << 20:020d}",
        f"orders/commitlog/{65536:020d}",
        f"orders/index/{20260131120000000}",
    ],
)
def test_a_folder_in_the_place_of_a_file_is_what_the_start_says(
    place: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The next start was said to mend some."""
    node = node_of(tmp_path, (CLUSTER + CLASSIC).format(free_port(), free_port()))
    fill(node)
    (node / "groups" / place).mkdir(parents=True)
    line = f"{node / 'groups' / place}: expected a file, found a folder"
    with pytest.raises(ConfigError, match=re.escape(line)):
        fill(node)
    code, out, err = run(capfd, "check", node)
    assert (code, out, err) == (2, "", f"triolog: {line}\n")


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


def test_what_a_start_mends_has_exit_code_3(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    fill(node)
    path = node / "groups" / "ledger" / "checkpoint"
    path.write_bytes(b"committedIndex=x\n")
    code, out, err = run(capfd, "check", node)
    assert (code, err) == (3, "")
    assert re.search(r"^ledger +mends ", out, re.M)
    assert f"ledger: mends: {path}: committedIndex" in out
    code, out, _ = run(capfd, "check", node, "--json")
    found = json.loads(out)
    assert (code, found["good"]) == (3, False)
    findings = found["ledgers"][0]["findings"]
    assert (findings["mend_count"], findings["damage_count"]) == (1, 0)
    log = node / "groups" / "ledger" / "data" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[150] ^= 1
    log.write_bytes(bytes(data))
    assert run(capfd, "check", node)[0] == 1, "what is not mended decides"


def test_mistakes_are_one_line_and_change_nothing(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    before = {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}
    root = node / "groups" / "ledger"
    cut = "only its leader may have a dledger group's member cut its log"
    for words, expected in (
        (("truncate", node, "0", "--yes", "--force"), f"found ledger: {cut}"),
        (("truncate", root, "0", "--yes"), f"found ledger: {cut}"),
        (("check", root / "data"), "expected a node's data directory, a store root"),
        (("dump", root, "--topic", "x"), "--topic: expected only for a classic group"),
        (("dump", root, "--from", "99"), "--from: expected an index up to"),
        (("check", node, "--group", "ledgr"), "--group: expected a group of"),
    ):
        code, out, err = run(capfd, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("triolog: ")
        assert expected in err
    assert before == {path: path.read_bytes() for path in node.rglob("*") if path.is_file()}


def test_a_backup_of_both_kinds(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    node = node_of(tmp_path, (CLUSTER + CLASSIC).format(free_port(), free_port()))
    fill(node)
    copy = tmp_path / "copy"
    code, out, err = run(capfd, "backup", node, copy, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [group["name"] for group in found["groups"]] == ["orders"]
    (ledger,) = found["ledgers"]
    assert ledger["limit"] == "the end of a stopped log"
    assert ledger["end_index"] == ledger["committed_index"] >= 100
    code, out, err = run(capfd, "check", copy)
    assert (code, err) == (0, "")
    assert out.count("backup") >= 2
    assert "never for a member that joins it again" in out
    dumps = [run(capfd, "dump", folder, "--group", "ledger")[1] for folder in (node, copy)]
    assert dumps[0] == dumps[1]
    code, out, err = run(capfd, "seed", copy, tmp_path / "n7")
    assert code == 0
    assert err.startswith("triolog: ledger is passed over: a dledger group's member begins empty")
    assert not (tmp_path / "n7" / "groups" / "ledger").exists()
    (copy / "backup.json").rename(tmp_path / "moved.json")
    code, out, err = run(capfd, "check", copy)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the copy is incomplete" in err


def test_a_member_neither_starts_on_a_copy_nor_is_seeded_from_it(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = node_of(tmp_path, CLUSTER.format(free_port()))
    fill(node)
    code, out, err = run(capfd, "backup", node, tmp_path / "copy")
    assert (code, err) == (0, "")
    assert "to read, or to begin the whole group anew; never for a member that joins it" in out
    code, out, err = run(capfd, "seed", tmp_path / "copy", tmp_path / "n7")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "autoswitch group, found ledger: a dledger group's member begins empty" in err
    store = node / "groups" / "ledger"
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "copy" / "groups" / "ledger", store)
    with pytest.raises(CorruptLog, match="may vote twice in one term"):
        fill(node)


THREE = CLUSTER.replace(
    'n0 = "127.0.0.1"', 'n0 = "127.0.0.1"\nn1 = "127.0.0.2"\nn2 = "127.0.0.3"'
).replace('["n0"]', '["n0", "n1", "n2"]\nheartbeat_interval_s = 0.3')


async def led(nodes: list[Any]) -> Any:
    """The member that leads."""
    while True:
        for node in nodes:
            if (await node.status())["groups"]["ledger"]["is_open"]:
                return node
        await trio.sleep(0.05)


async def appended(file: pathlib.Path, bodies: list[bytes]) -> list[bytes]:
    """All that the group holds, and shows, once it has taken these."""
    async with AsyncExitStack() as stack:
        names = ("n0", "n1", "n2")
        opening = [actors.open_node(str(file), name) for name in names]
        nodes = [await stack.enter_async_context(each) for each in opening]
        with trio.fail_after(60):
            leader = await led(nodes)
            receipt = await leader.log("ledger").append(bodies)
            found: list[bytes] = []
            async with leader.log("ledger").reader(start=0) as batches:
                async for batch in batches:
                    found += [record.body for record in batch.records]
                    if batch.next >= receipt.next:
                        break
    return found


async def test_a_whole_group_begins_anew_on_one_copy(tmp_path: pathlib.Path) -> None:
    """As the README says: on every member, without the mark."""
    file = tmp_path / "c.toml"
    file.write_text(THREE.format(free_port()))
    old = [b"old %d" % number for number in range(50)]
    assert await appended(file, old) == old
    tool = [sys.executable, "-m", "actors.storage", "backup"]
    await trio.run_process([*tool, str(tmp_path / "var" / "n1"), str(tmp_path / "copy")])
    for name in ("n0", "n1", "n2"):
        store = tmp_path / "var" / name / "groups" / "ledger"
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "copy" / "groups" / "ledger", store)
        (store / "synced").unlink()
    assert await appended(file, [b"new"]) == [*old, b"new"]


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
        code, output, errors = await tool("backup", node, tmp_path / "copy", "--json")
        assert (code, errors) == (0, "")
        (copied,) = json.loads(output)["ledgers"]
        assert copied["limit"] == "committed and synced on a running member"
        assert copied["end_index"] == copied["committed_index"] == receipt.next - 1
        await handle.log("ledger").append([b"more"] * 500)
    code, output, errors = await tool("check", tmp_path / "copy")
    assert (code, errors) == (0, "")
    code, output, errors = await tool("dump", tmp_path / "copy")
    assert [json.loads(line)["body"] for line in output.splitlines()] == bodies
