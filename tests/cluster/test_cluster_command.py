"""The command as a user runs it: whole runs with real processes and files."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from cluster_kit import (
    ROOT,
    WAIT_S,
    Cluster,
    children_of,
    gone,
    make_cluster,
    statuses,
    unready,
    wait_for,
)

pytestmark = pytest.mark.real_io


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path)


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


def test_processes_with_kills_and_an_ordered_stop(cluster: Cluster) -> None:
    lines = "".join(f"{number:08d}\n" for number in range(20_000))
    words = ("--processes", "--feed", "-", "--json")
    # The stop waits for the slave that was killed last: a busy machine needs its time to start it.
    cluster.text = "drain_timeout_s = 60.0\n" + cluster.text
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


def test_a_node_by_itself_says_that_it_runs(cluster: Cluster) -> None:
    """On a machine of its own it has no view, and its summary comes at the end."""
    with cluster.start("--node", "n1", "--json") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        node_dir = cluster.folder / "var" / "n1"
        assert line.startswith("n1: runs on 127.")
        assert line.endswith(f", clients reach it at {node_dir}/api.sock\n")
        assert (node_dir / "api.sock").is_socket()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["reason"] == "terminated"


def test_killed_parent_leaves_no_children(cluster: Cluster) -> None:
    with cluster.start("--processes", "--json") as process:
        wait_for(lambda: cluster.folder.joinpath("var", "n2").exists())
        wait_for(lambda: all(statuses(cluster).values()))
        pids = children_of(process)
        assert len(pids) == 3
        words = [sys.executable, "-m", "actors.cluster", cluster.file, "status", "--json"]
        found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, "")
        assert json.loads(found.stdout)["nodes"].keys() == statuses(cluster).keys()
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
    assert (process.returncode, unready(err)) == (0, "")
    assert out.startswith("orders: an append returns when 2 distinct nodes have it")
    with cluster.start("--plain", *words) as process:
        wait_for(lambda: all(statuses(cluster).values()))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, unready(err)) == (0, "")
    assert "demo: terminated after " in out


def test_one_node_per_command(cluster: Cluster) -> None:
    slaves = [cluster.start("--node", node, "--json") for node in ("n1", "n2")]
    with slaves[0], slaves[1]:  # a new group starts once all of it was heard
        with cluster.start("--node", "n0", "--feed", "-", "--json", stdin=subprocess.PIPE) as first:
            out, err = first.communicate("a\nb\n", WAIT_S)
        assert (first.returncode, err) == (0, "")
        found = json.loads(out)["groups"]["orders"]
        assert found["acknowledged"] == 2
        assert list(found["offsets"]) == ["n0"]
        for slave in slaves:
            slave.send_signal(signal.SIGINT)
            out, err = slave.communicate(timeout=WAIT_S)
            assert (slave.returncode, unready(err)) == (0, "")
    log = cluster.log_of("n0")
    assert log
    assert log in (cluster.log_of("n1"), cluster.log_of("n2")), "one of them is enough"


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


def test_feed_record_that_is_none(cluster: Cluster) -> None:
    folder = cluster.folder / "var" / "feed"
    folder.mkdir(parents=True)
    (folder / "orders.jsonl").write_text('{"kind": "opened"}\n')
    with cluster.start("--feed", "-", "--json", stdin=subprocess.PIPE) as process:
        out, err = process.communicate("a\n", WAIT_S)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("triolog: ")
    assert "orders.jsonl: " in err
    assert err.count("\n") == 1


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


def test_output_without_our_signs(cluster: Cluster) -> None:
    words = [sys.executable, "-m", "actors.cluster", cluster.write(), "check"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"event_log" in found.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_reason_to_fail(cluster: Cluster, closed: str) -> None:
    words = shlex.join([sys.executable, "-m", "actors.cluster", cluster.write(), "--for", "0.1s"])
    found = subprocess.run(
        f"{words} {closed}", shell=True, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


SIGNAL_WHILE_IMPORTING = """
import os, signal, sys
from actors.ROOM.__main__ import main

# As in a terminal: tests that run in the background have some of them ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)

class End:
    def find_spec(self, name, path=None, target=None):
        if name == "LOADED":
            os.kill(os.getpid(), signal.SIGNAL)

sys.meta_path.insert(0, End())
main(["FILE", "status"])
"""


@pytest.mark.parametrize(
    ("room", "loaded", "name", "code"),
    [
        ("cluster", "actors.cluster.arguments", "SIGINT", 130),
        ("cluster", "actors.cluster.commands", "SIGINT", 130),
        ("cluster", "actors.cluster.commands", "SIGTERM", 143),
        ("client", "trio", "SIGINT", 130),
        ("client", "actors.client.connection", "SIGHUP", 129),
        ("storage", "actors.storage.log.commit_log", "SIGTERM", 143),
        ("sim", "trio", "SIGINT", 130),
        ("sim", "actors.sim.world", "SIGTERM", 143),
    ],
)
def test_a_signal_before_anything_has_started(room: str, loaded: str, name: str, code: int) -> None:
    program = SIGNAL_WHILE_IMPORTING
    values = (("ROOM", room), ("LOADED", loaded), ("SIGNAL", name), ("FILE", "examples/3node.toml"))
    for word, value in values:
        program = program.replace(word, value)
    words = [sys.executable, "-c", program]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (code, "", "")


@pytest.mark.parametrize("words", [(), ("--for", "2s")], ids=["without end", "for a time"])
def test_damage_in_one_node_ends_a_run_of_processes(
    cluster: Cluster, words: tuple[str, ...]
) -> None:
    with cluster.start("--feed", "-", "--json", stdin=subprocess.PIPE) as process:
        process.communicate("line\n" * 300, WAIT_S)
    store = cluster.folder / "var" / "n1" / "groups" / "orders"
    (store / "abort").touch()  # as after kill -9: the whole log is looked at
    (segment, *_) = sorted((store / "commitlog").iterdir())
    with segment.open("r+b") as file:
        file.seek(10_000)
        file.write(b"X" * 300)
    with cluster.start("--processes", "--json", *words, stdin=subprocess.DEVNULL) as process:
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    found = json.loads(out)
    assert found["reason"] == "n1 could not start"
    (line,) = unready(err).splitlines()
    assert line.startswith(f"triolog: n1: {segment}: byte ")
    assert found["failures"] == [line]


@pytest.mark.parametrize("ignored", [False, True])
def test_the_end_of_the_terminal_is_an_ordered_stop(cluster: Cluster, ignored: bool) -> None:
    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    with cluster.start("--json", preexec_fn=prepare) as process:
        wait_for(lambda: all(statuses(cluster).values()))
        process.send_signal(signal.SIGHUP)
        if ignored:
            assert all(statuses(cluster).values())
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, unready(err)) == (0, "")
    assert json.loads(out)["reason"] == "terminated"


def test_named_pipe_that_nobody_writes_to_blocks_nothing(cluster: Cluster) -> None:
    pipe = cluster.folder / "pipe"
    os.mkfifo(pipe)
    with cluster.start("--feed", str(pipe), "--json") as process:
        wait_for(lambda: all(statuses(cluster).values()))
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=WAIT_S)
    assert json.loads(out)["groups"]["orders"]["appended"] == 0
    with cluster.start("--feed", str(pipe), "--json") as process:
        wait_for(lambda: all(statuses(cluster).values()))
        pipe.write_text("a\nb\n")
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["groups"]["orders"]["acknowledged"] == 2


def test_notes_that_nobody_reads_block_nothing(cluster: Cluster) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    words = [sys.executable, "-m", "actors.cluster", cluster.write(), "--processes", "--json"]
    with subprocess.Popen(
        words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=writing
    ) as process:
        os.close(writing)
        wait_for(lambda: all(statuses(cluster).values()))
        pid = children_of(process)[0]
        os.kill(pid, signal.SIGKILL)  # which is worth a note
        wait_for(partial(gone, pid))
        wait_for(lambda: all(statuses(cluster).values()))
        process.send_signal(signal.SIGTERM)
        while os.read(reading, 1 << 16):
            pass
        out, _ = process.communicate(timeout=WAIT_S)
    os.close(reading)
    assert json.loads(out)["groups"]["orders"]["restarts"] == 1
