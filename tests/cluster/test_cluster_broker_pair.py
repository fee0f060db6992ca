"""The pair of examples in real processes, as SYNC_MASTER and as ASYNC_MASTER, killed and started
again; and each of the two alone, as on two machines.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from cluster_kit import ROOT, WAIT_S, children_of, gone, statuses_of, wait_for
from free_ports import free_port

from actors.client.__main__ import main as client
from actors.cluster.command_line import run_command_line
from actors.config.brokerconf import BrokerConf, load_broker_conf
from actors.group_status import group_statuses

pytestmark = pytest.mark.real_io

LINES = 200
PORTS = ("10921", "10922", "10932")
"""Of the examples; a broker listens 2 below the first of each, too."""
EXAMPLES = ("broker-a.properties", "broker-a-s.properties")


def pair(folder: Path, role: str) -> tuple[str, ...]:
    """The examples in a folder of their own, with ports that are free."""
    first = free_port(8)
    ports = {text: first + at for text, at in zip(PORTS, (2, 3, 7), strict=True)}
    files = []
    for name in EXAMPLES:
        text = (ROOT / "examples" / name).read_text()
        text = re.sub(r"\d{5}$", lambda port: str(ports.get(port[0], port[0])), text, flags=re.M)
        text = text.replace("=var/", f"={folder}/").replace("=67108864", "=65536")
        text = text.replace("brokerRole=SYNC_MASTER", f"brokerRole={role}")
        (folder / name).write_text(text)
        files.append(str(folder / name))
    return tuple(files)


def toml_of(folder: Path, conf: BrokerConf) -> str:
    """The cluster file that means the same, which the client takes."""
    made = folder / "cluster.toml"
    made.write_text(conf.toml)
    return str(made)


@contextmanager
def running(files: Sequence[str], *more: str) -> Iterator[subprocess.Popen[str]]:
    """The processes of a run; killed at the end if they still run."""
    words = [word for file in files for word in ("--broker-conf", file)]
    command = subprocess.Popen(
        [sys.executable, "-m", "actors.cluster", *words, "run", "--plain", *more],
        cwd=ROOT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield command
    finally:
        children = children_of(command) if command.poll() is None else []
        command.kill()
        for child in children:
            os.kill(child, signal.SIGKILL)
        command.communicate(timeout=WAIT_S)


def has_copies(file: str) -> bool:
    """Whether all its nodes answer, and the master has as many copies as an append waits for: its
    time may be over before a slave that starts on a busy machine is connected.
    """
    found = statuses_of(file).values()
    if not all(found):
        return False
    groups = [group_statuses(each["status"])["broker-a"] for each in found]
    return any(each.is_open and each.copies_count >= each.copies for each in groups)


def append(file: str, part: str) -> list[str]:
    """Lines, once all nodes run; returns when all are acknowledged."""
    wait_for(partial(has_copies, file))
    given = [f"{part} {number} {'x' * 200}" for number in range(LINES)]
    lines = Path(file).with_name(f"{part}.lines")
    lines.write_text("".join(f"{line}\n" for line in given))
    assert client([file, "append", "--again", "--wait", str(WAIT_S), str(lines)]) == 0
    return given


def lines_in(log: Path) -> set[str]:
    """By a reader that shares no code with us."""
    command = [sys.executable, str(ROOT / "tests/plain_reader.py"), str(log)]
    read = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S)
    return set(read.stdout.splitlines())


def log_of(root: str | Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(root, "commitlog").iterdir()))


def holds(log: Path, lines: Sequence[str]) -> bool:
    return log.is_dir() and set(lines) <= lines_in(log)


def pid_of(run: subprocess.Popen[str], node: str) -> int:
    def found() -> int | None:
        for child in children_of(run):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
                return child
        return None

    pid: int = wait_for(found)
    return pid


@pytest.mark.checklist(56)
@pytest.mark.parametrize("role", ["SYNC_MASTER", "ASYNC_MASTER"])
def test_the_pair_replicates_and_survives_a_kill_of_either(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pair(tmp_path, role)
    conf = load_broker_conf(files)
    cluster, given = toml_of(tmp_path, conf), list[str]()
    master, slave = tmp_path / "broker-a/commitlog", tmp_path / "broker-a-s/commitlog"
    with running(files, "--processes") as run:
        for part, node in enumerate(("broker-a-1", "broker-a-0", "")):
            given += append(cluster, f"part{part}")
            if role == "SYNC_MASTER":
                assert holds(slave, given), "what was answered is on both"
            wait_for(partial(holds, slave, given))
            if node:
                os.kill(pid := pid_of(run, node), signal.SIGKILL)
                wait_for(partial(gone, pid))
        assert holds(master, given)
        for each in conf.config.nodes.values():
            for port in conf.config.classic_groups["broker-a"].broker_ports:
                socket.create_connection((each, port), timeout=WAIT_S).close()
        capsys.readouterr()
        words = [word for file in files for word in ("--broker-conf", file)]
        wait_for(lambda: run_command_line([*words, "status"]) == 0)
        assert "broker-a" in capsys.readouterr().out
        assert run_command_line([*words, "stop"]) == 0
        assert run.wait(timeout=WAIT_S) == 0
    assert log_of(tmp_path / "broker-a") == log_of(tmp_path / "broker-a-s")


@pytest.mark.checklist(56)
def test_each_alone_as_on_two_machines(tmp_path: Path) -> None:
    """Neither knows of the other more than an address; the master counts the slave all the same."""
    files = pair(tmp_path, "SYNC_MASTER")
    master, slave = map(Path, files)
    port = load_broker_conf(files).config.groups["broker-a"].port
    master.write_text(f"{master.read_text()}\ntriolog.slaves=127.0.0.2\n")
    slave.write_text(f"{slave.read_text()}\nhaMasterAddress=127.0.0.1:{port}\n")
    cluster = toml_of(tmp_path, load_broker_conf([str(master)]))
    with running([str(master)]) as one, running([str(slave)]) as other:
        given = append(cluster, "both")
        assert holds(tmp_path / "broker-a-s/commitlog", given)
        other.kill()
        wait_for(lambda: not has_copies(cluster))  # else the next append begins before it is known
        with running([str(slave)]) as again:
            given += append(cluster, "again")
            assert holds(tmp_path / "broker-a-s/commitlog", given)
            for run in (again, one):
                run.send_signal(signal.SIGTERM)
                assert run.wait(timeout=WAIT_S) == 0
    assert log_of(tmp_path / "broker-a") == log_of(tmp_path / "broker-a-s")


def test_each_with_both_files_and_its_node(tmp_path: Path) -> None:
    """As on two machines that know of each other all that a cluster file says."""
    files = pair(tmp_path, "SYNC_MASTER")
    cluster = toml_of(tmp_path, load_broker_conf(files))
    with (
        running(files[::-1], "--node", "broker-a-1") as slave,
        running(files, "--node", "broker-a-0") as master,
    ):
        given = append(cluster, "both")
        assert holds(tmp_path / "broker-a-s/commitlog", given)
        for run in (master, slave):
            run.send_signal(signal.SIGTERM)
            assert run.wait(timeout=WAIT_S) == 0
    assert log_of(tmp_path / "broker-a") == log_of(tmp_path / "broker-a-s")


def test_a_start_says_what_is_not_as_a_broker_has_it(tmp_path: Path) -> None:
    files = pair(tmp_path, "ASYNC_MASTER")
    Path(files[0]).write_text(Path(files[0]).read_text() + "\nx=1\ntransientStorePoolEnable=true\n")
    Path(files[1]).write_text(Path(files[1]).read_text() + "\nlistenPort=1911\n")
    with running(files, "--for", "1s", "--json") as run:
        _, said = run.communicate(timeout=WAIT_S)
        assert run.returncode == 0, said
    lines = said.splitlines()
    assert lines[0].startswith("triolog: broker-a: an append returns when the master has it")
    assert f"triolog: {files[0]}: keys that mean nothing here: x" in lines
    assert sum("key transientStorePoolEnable: not acted on: " in line for line in lines) == 1
    assert sum("key listenPort: " in line for line in lines) == 1


def test_a_port_in_use_is_named_by_its_property(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = pair(tmp_path, "ASYNC_MASTER")
    port = load_broker_conf(files).config.groups["broker-a"].port
    with socket.create_server(("127.0.0.1", port)):
        assert run_command_line(["--broker-conf", files[0], "run", "--json"]) == 2
    assert (
        f"triolog: {files[0]}: key haListenPort: expected a free port, found"
        f" 127.0.0.1:{port} in use\n"
    ) in capfd.readouterr().err


def test_what_a_child_refuses_is_said_of_the_files_as_typed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = pair(tmp_path, "ASYNC_MASTER")
    store = tmp_path / "broker-a-s"
    store.mkdir()
    (store / "synced").write_bytes(b"")  # it was ours once, and has lost what says so
    options = [word for file in files for word in ("--broker-conf", file)]
    assert run_command_line([*options, "run", "--processes", "--json"]) == 2
    folder = f"{tmp_path}/broker-a/triolog/broker-a-1"
    assert (
        f"triolog: {files[0]}, {files[1]}: key storePathRootDir: {folder}: expected identity.json"
        " beside the groups' data, found none"
    ) in capfd.readouterr().err
