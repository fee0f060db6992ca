"""The command as a user runs it: exit codes, single lines, whole runs. Real processes and files."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.cluster.__main__ import main
from actors.env.local_disk import LocalDisk

pytestmark = pytest.mark.real_io
ROOT = Path(__file__).parents[2]
WAIT_S = 60.0


@attrs.define
class Cluster:
    """A cluster file of its own, with a port of its own."""

    folder: Path
    port: int
    text: str

    @property
    def file(self) -> str:
        return str(self.folder / "c.toml")

    def write(self, text: str | None = None) -> str:
        Path(self.file).write_text(self.text if text is None else text)
        return self.file

    def log_of(self, node: str) -> bytes:
        folder = self.folder / "var" / node / "groups" / "orders" / "commitlog"
        return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))

    def start(self, *words: str, **keys: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "actors.cluster", self.write(), *words]
        return subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keys
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = f"""\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
master = "n0"
slaves = ["n1", "n2"]
port = {port}
segment_bytes = 65536
"""
    return Cluster(tmp_path, port, text)


def refusal(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command, which must end with exit code 2 and one line."""
    assert main(words) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("triolog: ")
    return lines[0].removeprefix("triolog: ")


@pytest.mark.checklist(57)
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("port =", "prot =", "groups.orders.prot: expected a known key (did you mean port?)"),
        ('"n0"', "3", "groups.orders.master: expected a node's name"),
        ("port =", 'check_crc_on_recover = "no"\nport =', "expected true or false, found"),
        ('["n1", "n2"]', '["n1", "n9"]', "slaves[1]: expected one of the nodes n0, n1, n2"),
        ("[groups", '[groups.b]\nmaster = "n1"\nport = PORT\n[groups', "expected a port of its"),
        ("version = 1", "version = 2", "key version: expected 1, found 2"),
        ("[nodes]", "[nodes", "expected TOML"),
    ],
)
def test_mistakes_in_the_file(
    capfd: pytest.CaptureFixture[str], cluster: Cluster, before: str, after: str, line: str
) -> None:
    text = cluster.text.replace(before, after.replace("PORT", str(cluster.port)), 1)
    file = cluster.write(text)
    for command in ("run", "check", "status", "stop"):
        found = refusal(capfd, file, command)
        assert found.startswith(f"{file}: ")
        assert line in found
    assert not (cluster.folder / "var").exists()


def test_missing_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "none.toml")
    assert refusal(capfd, file) == f"{file}: expected a cluster file, found no such file"


def test_usage(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert "FILE" in refusal(capfd)
    found = refusal(capfd, cluster.write(), "--node", "n4")
    assert found == "--node: expected one of n0, n1, n2, found n4"
    java = cluster.text.replace('"n2"]', '{ node = "n2", kind = "java" }]')
    found = refusal(capfd, cluster.write(java), "--node", "n2")
    assert found.endswith("found n2 (a Java broker, not run by us)")


def test_feed_that_cannot_be_read(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    found = refusal(capfd, cluster.write(), "--feed", "/no/such")
    assert found.startswith("--feed: expected a file to read, found ")
    found = refusal(capfd, cluster.write(), "--feed", "-", "--node", "n1")
    assert found == ("--feed: expected a group's master among the nodes that run here, found n1")
    file = cluster.write(cluster.text + '[demo.feed]\nfile = "none.txt"\n')
    assert refusal(capfd, file).startswith(f"{file}: key demo.feed.file: expected a file to read")


def test_port_in_use(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", cluster.port)):
        for words in ((), ("--processes",)):
            found = refusal(capfd, cluster.write(), "--json", "--for", "60s", *words)
            key = f"{cluster.file}: key groups.orders.port: expected a free port"
            assert found == f"{key}, found 127.0.0.1:{cluster.port} in use"


def test_address_of_another_machine(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    file = cluster.write(cluster.text.replace("127.0.0.1", "198.51.100.7"))
    assert refusal(capfd, file, "--for", "60s", "--json") == (
        f'{file}: key nodes.n0: expected an address of this machine, found "198.51.100.7"'
    )


def ran_once(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([cluster.write(), "--for", "10ms", "--json"]) == 0
    capfd.readouterr()


def change_identity(cluster: Cluster, changes: dict[str, object]) -> None:
    path = cluster.folder / "var" / "n1" / "identity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node": "n2"}, "found that of node 'n2'"),
        ({"cluster": "other"}, "of cluster 'other'"),
        ({"format_version": 99}, "found 99"),
    ],
)
def test_data_directory_of_somebody_else(
    capfd: pytest.CaptureFixture[str], cluster: Cluster, changes: dict[str, object], words: str
) -> None:
    ran_once(cluster, capfd)
    change_identity(cluster, changes)
    found = refusal(capfd, cluster.file, "--for", "60s", "--json")
    assert found.startswith(f"{cluster.file}: key data_dir: {cluster.folder}/var/n1: expected ")
    assert words in found


HOLD = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX, 1); print()"
HOLD += "; sys.stdout.flush(); sys.stdin.read()"


def test_data_directory_locked_by_another_process(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    lock = str(cluster.folder / "var" / "n1" / "lock")
    command = [sys.executable, "-c", HOLD, lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        found = refusal(capfd, cluster.file, "--for", "60s", "--json")
        holder.communicate(b"")
    expected = "expected a free data directory, found a lock of another process"
    assert found == f"{cluster.file}: key data_dir: {expected} ({lock})"


def test_data_directory_locked_by_this_process(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    held = LocalDisk().lock(str(cluster.folder / "var" / "n1" / "lock"))
    try:
        found = refusal(capfd, cluster.file, "--for", "60s", "--json")
    finally:
        held.release()
    assert "found a lock of this process" in found


def test_nobody_runs(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert refusal(capfd, cluster.write(), "stop").endswith("expected running nodes, found none")
    assert main([cluster.file, "status", "--node", "n1"]) == 1
    assert capfd.readouterr().out.startswith("cluster demo\n  n1: not running (")
    assert main([cluster.file, "status", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["nodes"] == {"n0": None, "n1": None, "n2": None}


def test_check(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert main([cluster.write(), "check"]) == 0
    page = capfd.readouterr().out
    assert f"n0  127.0.0.1:{cluster.port}" in page
    assert "tree of n1\n  /n1 [one_for_one" in page
    assert "ha_client" in page.split("tree of n1")[1].split("tree of n2")[0]
    assert "changed since" not in page
    assert not (cluster.folder / "var").exists()
    assert main([cluster.file, "check", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["guarantees"]["orders"]["returns_when"].startswith("2 distinct nodes")
    assert found["changed"] == {}


def test_check_says_what_changed(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    ran_once(cluster, capfd)
    file = cluster.write(cluster.text + "copies = 3\n")
    assert main([file, "check"]) == 0
    page = capfd.readouterr().out
    assert "changed since the last start of n0\n  groups.orders.copies: 2 becomes 3" in page
    assert page.count("changed since") == 3


def plain_bodies(cluster: Cluster, node: str) -> str:
    """The lines in a node's log, by a reader that shares no code with the project."""
    folder = cluster.folder / "var" / node / "groups" / "orders" / "commitlog"
    command = [sys.executable, str(ROOT / "tests" / "plain_reader.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_lines_from_standard_input(cluster: Cluster) -> None:
    lines = "".join(f"line {number}\n" for number in range(3000))
    with cluster.start("--feed", "-", "--json", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(lines, WAIT_S)
    assert (process.returncode, err) == (0, "")
    found = json.loads(out)
    assert found["reason"] == "the feed has ended"
    orders = found["groups"]["orders"]
    assert (orders["appended"], orders["acknowledged"], orders["outcome_unknown"]) == (
        3000,
        3000,
        0,
    )
    assert orders["bytes"] == len(lines) - 3000
    ends = {node["written_bytes"] for node in orders["offsets"].values()}
    assert len(ends) == 1
    assert cluster.log_of("n0") == cluster.log_of("n1") == cluster.log_of("n2")
    for node in ("n0", "n1", "n2"):
        assert plain_bodies(cluster, node) == lines
    record = (cluster.folder / "var" / "feed" / "orders.jsonl").read_text().splitlines()
    assert json.loads(record[-1]) == {"kind": "ended", "line": 3000}


def children_of(process: subprocess.Popen[str]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(word) for word in text.split()]


def wait_for(condition: Callable[[], Any]) -> Any:
    """Poll another process's state."""
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has no files any more."""
    return not os.path.exists(f"/proc/{pid}/fd/0")


def statuses(cluster: Cluster) -> dict[str, Any]:
    words = [sys.executable, "-m", "actors.cluster", cluster.file, "status", "--json"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    nodes: dict[str, Any] = json.loads(found.stdout)["nodes"]
    return nodes


def test_processes_with_kills_and_an_ordered_stop(cluster: Cluster) -> None:
    lines = "".join(f"{number:08d}\n" for number in range(20_000))
    words = ("--processes", "--feed", "-", "--json")
    with cluster.start(*words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for piece in range(2):
            process.stdin.write(lines[piece * 90_000 : (piece + 1) * 90_000])
            process.stdin.flush()
            running = wait_for(lambda: all(statuses(cluster).values()))
            assert running
            pid = wait_for(lambda: children_of(process))[0]  # the first started is a slave
            os.kill(pid, signal.SIGKILL)
            wait_for(partial(gone, pid))
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    orders = json.loads(out)["groups"]["orders"]
    assert orders["acknowledged"] == 20_000
    assert orders["restarts"] == 2
    assert err.count("was killed by SIGKILL, starting it again") == 2
    assert set(plain_bodies(cluster, "n0").splitlines()) == set(lines.splitlines())
    assert cluster.log_of("n0") == cluster.log_of("n1") == cluster.log_of("n2")
    assert all(node["behind_bytes"] == 0 for node in orders["offsets"].values())


def test_killed_parent_leaves_no_children(cluster: Cluster) -> None:
    with cluster.start("--processes", "--json") as process:
        wait_for(lambda: cluster.folder.joinpath("var", "n2").exists())
        wait_for(lambda: all(statuses(cluster).values()))
        pids = children_of(process)
        assert len(pids) == 3
        process.kill()
        process.communicate()
    wait_for(lambda: all(gone(pid) for pid in pids))


@pytest.mark.parametrize("words", [(), ("--processes",)])
def test_stop_by_command_and_by_signal(cluster: Cluster, words: tuple[str, ...]) -> None:
    with cluster.start("--plain", *words) as process:
        wait_for(lambda: all(statuses(cluster).values()))
        stop = [sys.executable, "-m", "actors.cluster", cluster.file, "stop"]
        found = subprocess.run(stop, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout == "n0: stopped\nn1: stopped\nn2: stopped\n"
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("orders: an append returns when 2 distinct nodes have it")
    with cluster.start("--plain", *words) as process:
        wait_for(lambda: all(statuses(cluster).values()))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    assert "demo: terminated after " in out


def test_one_node_per_command(cluster: Cluster) -> None:
    with cluster.start("--node", "n1", "--json") as slave:
        with cluster.start("--node", "n0", "--feed", "-", "--json", stdin=subprocess.PIPE) as first:
            out, err = first.communicate("a\nb\n", WAIT_S)
        assert (first.returncode, err) == (0, "")
        found = json.loads(out)["groups"]["orders"]
        assert found["acknowledged"] == 2
        assert list(found["offsets"]) == ["n0"]
        slave.send_signal(signal.SIGINT)
        out, err = slave.communicate(timeout=WAIT_S)
    assert (slave.returncode, err) == (0, "")
    [log] = {cluster.log_of("n0"), cluster.log_of("n1")}
    assert log


def test_file_is_fed_again_from_where_it_was_left(cluster: Cluster) -> None:
    lines = cluster.folder / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(1000)))
    ran = [json.loads(run_feed(cluster, str(lines)))["groups"]["orders"] for _ in range(2)]
    assert [orders["acknowledged"] for orders in ran] == [1000, 1000]  # it had ended
    record = cluster.folder / "var" / "feed" / "orders.jsonl"
    record.write_text("".join(record.read_text().splitlines(keepends=True)[:-1]))
    assert json.loads(run_feed(cluster, str(lines)))["groups"]["orders"]["appended"] == 0


def run_feed(cluster: Cluster, file: str) -> str:
    with cluster.start("--feed", file, "--json") as process:
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    return out


def test_line_that_is_too_long_fails_the_run(cluster: Cluster) -> None:
    with cluster.start("--feed", "-", "--json", stdin=subprocess.PIPE) as process:
        out, err = process.communicate("ok\n" + "x" * 40_000 + "\n", WAIT_S)
    assert process.returncode == 1
    assert "line 2 has 40000 bytes, more than the group's max_message_bytes, 32768" in err
    assert json.loads(out)["reason"] == "the feed failed"


def test_reader_of_the_output_that_goes_away(cluster: Cluster) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "actors.cluster", cluster.write(), "check"]
    found = subprocess.run(words, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (found.returncode, found.stderr) == (1, b"")
