"""The three nodes of a run, each a process with a disk of its own, and what is asked of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.client import Client, connect
from actors.errors import TriologError

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "tests" / "interop" / "exec_bound_to_parent.py"
NODES = ("n0", "n1", "n2")
CLASSIC, DLEDGER, SWITCHING = "orders", "ledger", "switching"
GROUPS = (CLASSIC, DLEDGER, SWITCHING)
PORTS = 7
"""So many from the first on are used."""
DISK_BYTES = 512 << 20
DISK_INODES = 10_000
START_MAX_S = 60.0
STOP_MAX_S = 60.0
COMMAND_MAX_S = 60.0
LOOK_S = 0.1
LOST = (OSError, TriologError, trio.TooSlowError)
"""What asking a node ends with that is away, or becoming so."""

CLUSTER = """\
version = 1
name = "kills"
data_dir = "data"

[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"

[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", "n2"]
copies = 2
durability = "synced"
port = {port}
segment_bytes = 4_194_304
reconnect_interval_s = 0.5
disk_max_used_ratio = 0.95
disk_clean_forcibly_ratio = 0.97
disk_full_ratio = 0.97
clean_resource_interval_s = 1.0

[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
durability = "synced"
port = {next_port}
data_file_bytes = 4_194_304
index_file_bytes = 1_048_576
disk_check_ratio = 0.95
disk_clean_ratio = 0.95

[controllers]
nodes = ["n0", "n1", "n2"]
port = {controllers}
heartbeat_interval_s = 0.5

[groups.switching]
mode = "autoswitch"
members = ["n0", "n1", "n2"]
durability = "synced"
port = {replicas}
broker_port = {brokers}
segment_bytes = 4_194_304
reconnect_interval_s = 0.5
controller_heart_beat_timeout_s = 2.0
disk_max_used_ratio = 0.95
disk_clean_forcibly_ratio = 0.97
disk_full_ratio = 0.97
clean_resource_interval_s = 1.0
"""
"""Files go where another program leaves no room; the judge asks for what is behind them."""


class NotAsPlanned(Exception):
    """A node did what it must not, or not in time what it must."""


@attrs.define(eq=False)
class Node:
    """One node's process and its disk.

    Attributes:
        folder: of the run; the node's disk is `data/NAME` in it.
        starts: how often it has been started.
    """

    name: str
    folder: Path
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def disk(self) -> Path:
        return self.folder / "data" / self.name

    @property
    def file(self) -> Path:
        return self.folder / "cluster.toml"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Harmless if it runs."""
        if self.runs:
            return
        command = [sys.executable, "-S", "-E", str(LAUNCHER), str(os.getpid()), sys.executable]
        command += ["-m", "actors.cluster", str(self.file), "--node", self.name, "--plain"]
        with (self.folder / f"{self.name}.log").open("ab") as out:
            out.write(f"-- start {self.starts}\n".encode())
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self.starts += 1

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def stop(self) -> None:
        """In order. Raises: NotAsPlanned: too slow, or it did not end well."""
        if self._process is None:
            return
        self.signal(signal.SIGTERM)
        with trio.move_on_after(STOP_MAX_S):
            await trio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)
        if self._process.poll() != 0:
            code = self._process.poll()
            raise NotAsPlanned(f"{self.name} was to stop in order, and its exit code is {code}")

    def wipe(self) -> None:
        """A new disk in the old one's place. The node does not run."""
        for each in self.disk.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    def check_alive(self) -> None:
        """Raises: NotAsPlanned if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code = self._process.poll()
            raise NotAsPlanned(f"{self.name} has ended by itself with exit code {code}")


@attrs.define(eq=False)
class Cluster:
    """All nodes of a run, in `folder`, whose disks are mounted already."""

    folder: Path
    nodes: dict[str, Node] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.nodes = {name: Node(name, self.folder) for name in NODES}

    @property
    def file(self) -> Path:
        return self.folder / "cluster.toml"

    def start_all(self) -> None:
        for node in self.nodes.values():
            node.start()

    def kill_all(self) -> None:
        for node in self.nodes.values():
            node.signal(signal.SIGCONT)
            node.kill()

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[Client]:
        """One node's own socket. Raises: OSError, TooSlowError."""
        async with connect(str(self.nodes[name].disk / "api.sock")) as client:
            yield client

    async def status_of(self, name: str) -> dict[str, Any] | None:
        """What the node says of itself; None: it does not answer."""
        found: dict[str, Any] | None = None
        with trio.move_on_after(3.0):
            try:
                async with self.client(name) as client:
                    found = await client.status()
            except* LOST:
                pass
        return found

    async def leader_of(self, group: str) -> str:
        """Whom most nodes take for the group's master or leader; "": nobody."""
        said = [await self.status_of(name) for name in NODES]
        known = [each["groups"][group]["leader"] for each in said if each is not None]
        return max(known, key=known.count, default="")

    async def command(self, *words: str) -> tuple[int, str]:
        """`python -m actors.cluster FILE WORDS`: its exit code, and what it said."""
        with trio.move_on_after(COMMAND_MAX_S):
            done = await trio.run_process(
                [sys.executable, "-m", "actors.cluster", str(self.file), *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
            return done.returncode, done.stdout.decode(errors="replace").strip()
        return -1, f"no answer within {COMMAND_MAX_S:g} s"


def prepared(folder: Path, port: int) -> Cluster:
    """A new run's folder: cluster file and one file system of its own for each node's disk."""
    for name in NODES:
        disk = folder / "data" / name
        disk.mkdir(parents=True)
        options = f"size={DISK_BYTES},nr_inodes={DISK_INODES},mode=700"
        subprocess.run(("mount", "-t", "tmpfs", "-o", options, "none", disk), check=True)
    text = CLUSTER.format(
        port=port,
        next_port=port + 1,
        controllers=port + 2,
        replicas=port + 3,
        brokers=port + PORTS - 1,  # and the one that is 2 below
    )
    (folder / "cluster.toml").write_text(text)
    return Cluster(folder)


def tool(*words: str) -> tuple[int, list[str]]:
    """`python -m actors.storage WORDS`: its exit code, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "actors.storage", *words], cwd=ROOT, capture_output=True, text=True
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def dumped(node: Node, group: str) -> Iterator[dict[str, Any]]:
    """All records that lie in a stopped node's files."""
    code, lines = tool("dump", str(node.disk), "--group", group)
    if code != 0:
        raise NotAsPlanned(f"dump of {group} on {node.name}: exit code {code}: {lines[-1:]}")
    for line in lines:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if "body" in found:  # else it is of the replica itself
                yield found
