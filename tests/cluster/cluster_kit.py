"""A cluster file of one's own, and looks at the processes that run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from free_ports import free_port

from actors.cluster.commands import status
from actors.cluster.in_use import data_holder
from actors.cluster.links import connect_own
from actors.config import load
from wire.dledger.entry import decode_entry

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0


class Command(subprocess.Popen[str]):
    """One that a failed test does not wait for."""

    def __exit__(self, kind: Any, *more: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *more)


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

    def start(self, *words: str, **keys: Any) -> Command:
        command = [sys.executable, "-m", "actors.cluster", self.write(), *words]
        return Command(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keys
        )


GROUPS = {
    "classic": """\
master = "n0"
slaves = ["n1", "n2"]
segment_bytes = 65536
""",
    "dledger": """\
mode = "dledger"
members = ["n0", "n1", "n2"]
data_file_bytes = 65536
index_file_bytes = 65536
""",
}
"""By mode, without the port."""


def make_cluster(folder: Path, mode: str = "classic") -> Cluster:
    """Three nodes and a port that is free now."""
    port = free_port()
    text = f"""\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
port = {port}
{GROUPS[mode]}"""
    return Cluster(folder, port, text)


def unready(err: str) -> str:
    """Standard error without the lines that say that a node runs, or, where the machine is busy,
    whom its stop waits for.
    """
    lines = err.splitlines(keepends=True)
    usual = (": runs on 127.0.0.", "stopping: ")
    return "".join(line for line in lines if not any(words in line for words in usual))


def bodies_of(cluster: Cluster, node: str) -> list[bytes]:
    """Of a member's data files of the group `ledger`; what opens a term has none."""
    found = []
    folder = cluster.folder / "var" / node / "groups" / "ledger" / "data"
    for file in sorted(folder.iterdir()):
        data, at = file.read_bytes(), 0
        while data[at : at + 4] == b"\0\0\0\1":  # of an entry; blank filler and zeros end a file
            entry = decode_entry(data, at)
            found += [entry.body] if entry.body else []
            at += int.from_bytes(data[at + 4 : at + 8], "big")
    return found


def statuses(cluster: Cluster) -> dict[str, Any]:
    return statuses_of(cluster.file)


def statuses_of(file: str) -> dict[str, Any]:
    """What `status --json` prints of each node, without the start of a process; None if it does not
    answer.
    """
    config = load(file)
    connect, holder = partial(connect_own, config), partial(data_holder, config)
    ask = partial(status, config, config.python_nodes, connect, holder, as_json=True)
    nodes: dict[str, Any] = json.loads(trio.run(ask).text)["nodes"]
    return nodes


def children_of(process: subprocess.Popen[str]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(word) for word in text.split()]


def wait_for(condition: Callable[[], Any]) -> Any:
    """Poll another process's state."""
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # each look takes time of the nodes, too
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has no files any more."""
    return not os.path.exists(f"/proc/{pid}/fd/0")


@contextmanager
def processes_of(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A cluster as processes under their parent, which it yields; killed with it."""
    command = subprocess.Popen(
        [sys.executable, "-m", "actors.cluster", str(file), "--processes", "--plain"],
        cwd=ROOT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield command
    finally:
        children = children_of(command) if command.poll() is None else []
        command.kill()
        for child in children:
            os.kill(child, signal.SIGKILL)
        command.wait(timeout=10)


def pid_of(cluster: subprocess.Popen[str], node: str) -> int | None:
    """The process of a node; None: it does not run."""
    for child in children_of(cluster):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
            return child
    return None


def lines_in(store: Path) -> list[str]:
    """All lines in a store's commit log, by a reader that shares no code with us."""
    read = subprocess.run(
        [sys.executable, str(ROOT / "tests/plain_reader.py"), str(store / "commitlog")],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    return read.stdout.splitlines()
