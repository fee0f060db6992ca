"""The commands of `python -m actors.storage` one after the other, on nodes and brokers' stores."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable

import attrs
import pytest
import trio
from free_ports import free_port
from storage_kit import golden_copy
from tools_command_kit import MASTER, run_apart

import actors
from actors.config import loads
from actors.storage.tools.command_line import run_command_line

pytestmark = pytest.mark.real_io


CLUSTER = """
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
[groups.orders]
mode = "classic"
master = "n0"
port = 24101
segment_bytes = 65536
consume_queue_bytes = 2000
index_slots_count = 50
index_units_count = 200
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "c.toml"
    path.write_text(CLUSTER.replace("24101", str(free_port())))
    return path


@pytest.fixture
def pair(file: pathlib.Path) -> pathlib.Path:
    alone = file.read_text()
    file.write_text(alone.replace('master = "n0"', 'master = "n0"\nslaves = ["n1"]'))
    return file


async def append(file: pathlib.Path, count: int = 200) -> None:
    """Have a node that was stopped in order."""
    async with actors.open_node(str(file), "n0") as node:
        await node.log("orders").append([b"line %d" % number for number in range(count)])


@attrs.frozen(kw_only=True)
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process; in a thread, for a test may itself be run by Trio."""

    def run(*words: object) -> Done:
        capfd.readouterr()
        codes: list[int] = []
        typed = [str(word) for word in words]
        thread = threading.Thread(target=lambda: codes.append(run_command_line(typed)))
        thread.start()
        thread.join()
        output, errors = capfd.readouterr()
        return Done(returncode=codes[0], stdout=output, stderr=errors)

    return run


async def test_a_stopped_node_from_check_to_seed(
    pair: pathlib.Path, tmp_path: pathlib.Path, run: Run
) -> None:
    async with actors.open_node(str(pair), "n1"):
        await append(pair)
    shutil.rmtree(tmp_path / "var" / "n1")
    node = tmp_path / "var" / "n0"
    checked = run("check", node, "--json")
    assert checked.returncode == 0, checked.stderr
    (group,) = json.loads(checked.stdout)["groups"]
    assert (group["records"], group["units"], group["state"]) == (200, 200, "stopped")
    lines = run("dump", node).stdout.splitlines()
    assert [json.loads(line)["body"] for line in lines] == [f"line {n}" for n in range(200)]

    copied = run("backup", node, tmp_path / "copy", "--json")
    assert copied.returncode == 0, copied.stderr
    assert json.loads(copied.stdout)["groups"][0]["end_bytes"] == group["end_bytes"]
    assert run("check", tmp_path / "copy").returncode == 0
    assert run("dump", tmp_path / "copy").stdout.splitlines() == lines
    again = run("backup", node, tmp_path / "copy")
    assert again.returncode == 2
    assert "found a whole backup" in again.stderr
    assert "found a backup" in run("truncate", tmp_path / "copy", 0).stderr

    made = run("seed", tmp_path / "copy", f"{pair}:n1", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["ends"] == {"orders": group["end_bytes"]}
    async with actors.open_node(str(pair), "n0"), actors.open_node(str(pair), "n1") as slave:
        async with slave.log("orders").reader(start=0, follow=True) as batches:
            with trio.fail_after(30):
                batch = await batches.receive()
    assert batch.records[0].body == b"line 0"
    for words, expected in (
        ((f"{pair}:n1",), "expected an empty folder"),
        ((f"{pair}:n0",), "groups.orders.master: expected another node"),
        ((f"{pair}:n7",), "expected one of n0, n1"),
        ((f"{pair}",), "expected CLUSTER.toml:NODE or a folder"),
        ((tmp_path / "a b",), "--node: expected a name"),
    ):
        refused = run("seed", tmp_path / "copy", *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert expected in refused.stderr
    (tmp_path / "copy" / "backup.json").rename(tmp_path / "moved.json")
    for words in (("check",), ("dump",), ("truncate", "0"), ("seed", "x"), ("backup", "y")):
        name, *rest = words
        refused = run(name, tmp_path / "copy", *rest)
        assert refused.returncode == 2
        assert "expected identity.json" in refused.stderr


async def test_a_running_node(file: pathlib.Path, tmp_path: pathlib.Path, run: Run) -> None:
    """It is read from, and never cut."""
    async with actors.open_node(str(file), "n0") as node:
        log = node.log("orders")
        receipt = await log.append([b"line %d" % number for number in range(2000)])

        async def tool(*words: object) -> tuple[int, str, str]:
            command = [sys.executable, "-m", "actors.storage", *map(str, words)]
            found = await trio.run_process(
                command, capture_stdout=True, capture_stderr=True, check=False
            )
            return found.returncode, found.stdout.decode(), found.stderr.decode()

        code, output, _ = await tool("check", tmp_path / "var/n0", "--json")
        (group,) = json.loads(output)["groups"]
        assert (code, group["state"], group["records"]) == (0, "running", 2000)
        code, output, _ = await tool("dump", tmp_path / "var/n0")
        assert (code, output.count("\n")) == (0, 2000)
        code, _, errors = await tool("truncate", tmp_path / "var/n0", 0, "--yes", "--force")
        assert code == 2
        assert f"is in use by process {os.getpid()}; stop it first" in errors
        code, output, errors = await tool(
            "backup", tmp_path / "var/n0", tmp_path / "copy", "--json"
        )
        assert code == 0, errors
        (copied,) = json.loads(output)["groups"]
        assert copied["end_bytes"] == receipt.next
        assert copied["limit"] == "acknowledged and synced on a running node"
        await log.append([b"more"])
    assert run("check", tmp_path / "copy").returncode == 0
    assert run("dump", tmp_path / "copy").stdout.count("\n") == 2000


async def test_a_brokers_store_becomes_a_slave(
    pair: pathlib.Path, tmp_path: pathlib.Path, run: Run
) -> None:
    """With the queues and the index that the broker itself had derived."""
    copy = tmp_path / "copy"
    assert run("backup", MASTER, copy).returncode == 0
    for words, expected in (
        ((tmp_path / "n1",), "TARGET: expected CLUSTER.toml:NODE, for the backup names no cluster"),
        ((f"{pair}:n1",), "key groups.master: expected the group of the backup (or --group)"),
        ((f"{pair}:n1", "--group", "a b"), "--group: expected a name"),
    ):
        refused = run("seed", copy, *words)
        assert refused.stderr.count("\n") == 1
        assert expected in refused.stderr, refused.stderr
    assert run("seed", copy, f"{pair}:n1", "--group", "orders").returncode == 0
    async with actors.open_node(str(pair), "n1"):
        pass
    node = tmp_path / "var" / "n1"
    (found,) = json.loads(run("check", node, "--json").stdout)["groups"]
    # The index was made anew as the newest broker does: an entry more for each of 34 tags.
    assert (found["records"], found["units"], found["entries"]) == (35, 35, 69 + 34)
    assert run("dump", node).stdout == run("dump", MASTER).stdout


def test_a_store_without_any_file(tmp_path: pathlib.Path, run: Run) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    assert run("check", tmp_path / "store").returncode == 0
    assert run("dump", tmp_path / "store").stdout == ""
    assert run("backup", tmp_path / "store", tmp_path / "copy").returncode == 0
    assert run("check", tmp_path / "copy").returncode == 0
    refused = run("truncate", tmp_path / "store", 0)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


async def test_truncate_asks(file: pathlib.Path, tmp_path: pathlib.Path, run: Run) -> None:
    await append(file)
    node = tmp_path / "var" / "n0"
    offset = json.loads(run("dump", node).stdout.splitlines()[50])["offset"]
    refused = run("truncate", node, offset, "--yes")
    assert refused.returncode == 2
    assert "may have been acknowledged; --force cuts it all the same" in refused.stderr
    refused = run("truncate", node, offset + 1, "--force", "--yes")
    assert refused.returncode == 2
    assert f"the nearest is {offset} or" in refused.stderr
    refused = run("truncate", node, offset, "--force")
    assert refused.returncode == 2
    assert "--yes: expected where standard input is no terminal" in refused.stderr
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        found = run_apart("truncate", node, offset, "--force", stdin=theirs)
        os.close(ours)
        os.close(theirs)
        assert found.returncode == code, found.stderr
        assert f"the log will end at {offset}" in found.stderr
        assert "150 records are cut and kept in" in found.stderr
    assert "kept in" in found.stdout
    checked = json.loads(run("check", node, "--json").stdout)["groups"][0]
    assert (checked["records"], checked["units"]) == (50, 50)
    again = run("truncate", node, offset, "--force", "--json")  # nothing to ask for
    assert again.returncode == 0
    assert json.loads(again.stdout)["cut_bytes"] == 0
    async with actors.open_node(str(file), "n0"):
        pass
    assert json.loads(run("check", node, "--json").stdout)["groups"][0]["end_bytes"] == offset


async def test_what_the_identity_says_is_compared(
    file: pathlib.Path, tmp_path: pathlib.Path, run: Run
) -> None:
    await append(file)
    path = tmp_path / "var" / "n0" / "identity.json"
    identity = json.loads(path.read_bytes())
    end = json.loads(run("check", path.parent, "--json").stdout)["groups"][0]["end_bytes"]
    for high_water, code in ((end, 0), (end + 1, 1)):
        record = {"high_water_bytes": high_water}
        record |= {"promotion_number": 0, "promotion_master": "", "history": []}
        path.write_text(json.dumps(identity | {"records": {"orders": record}}))
        assert run("check", path.parent).returncode == code
    found = run("check", path.parent).stdout
    assert f"all below {end + 1} was acknowledged or reported, but the log ends at {end}" in found
    path.write_text(json.dumps(identity | {"groups": []}))
    assert "does not name this group" in run("check", path.parent).stdout


HOLD = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX, 1); print()"


HOLD += "; sys.stdout.flush(); sys.stdin.read()"


def test_a_broker_that_runs_is_refused(tmp_path: pathlib.Path, run: Run) -> None:
    """It does not say what of its store is safe to read."""
    store = golden_copy("5.3.3", "master", tmp_path)
    command = [sys.executable, "-S", "-c", HOLD, str(store / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"\n"
        for words in (("check",), ("dump",), ("truncate", "0"), ("backup", tmp_path / "copy")):
            name, *rest = words
            refused = run(name, store, *rest)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
            assert f"is in use by process {broker.pid}; stop it first" in refused.stderr
        broker.communicate(b"")
    assert not (tmp_path / "copy").exists()
    assert run("check", store).returncode == 0


def test_the_cluster_files_of_these_tests_are_good(pair: pathlib.Path) -> None:
    assert loads(CLUSTER, "c.toml").groups["orders"].copies == 1
    assert loads(pair.read_text(), "c.toml").groups["orders"].copies == 2
