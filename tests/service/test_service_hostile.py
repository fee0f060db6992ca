"""Hostile peers on this machine's sockets: 10,000 probes, and a slave's process that is stopped."""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import actors
from actors.config import loads
from actors.errors import NotStored, OutcomeUnknown
from actors.ha.role_messages import HIGH_WATER_S

pytestmark = pytest.mark.real_io

ROOT = Path(__file__).parents[2]
PROBES = 10_000
AT_A_TIME = 20
HANGS_S = 120.0
"""One probe, or one append, that takes longer hangs. How long all of them take is the machine's."""
LOOKS = 240
MASTER, SLAVE, STOPPED, STRANGER = (f"127.0.32.{number}" for number in (1, 2, 3, 9))
JUNK = (
    b"",
    b"\0" * 7,
    b"\xff" * 8,
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\0",
    b"\xff" * 9000,
)
"""None is a report of an offset in the log: from a slave's own address that is the slave."""
LINES = 40_000
GROWTH_BYTES = 96 << 20
"""Of the master while one slave is stopped: a slave's lag lies in the log, not in memory."""


def text(folder: Path, port: int, nodes: int) -> str:
    names = [f"n{number}" for number in range(nodes)]
    addresses = "\n".join(
        f'{name} = "{host}"' for name, host in zip(names, (MASTER, SLAVE, STOPPED), strict=False)
    )
    return f"""
version = 1
name = "hostile"
data_dir = "{folder}/data"
api_port = {port + 1}
[nodes]
{addresses}
[groups.orders]
mode = "classic"
master = "n0"
slaves = {json.dumps(names[1:])}
port = {port}
segment_bytes = 1_048_576
copies = 2
scrub_bytes_per_s = 0
"""


def open_files() -> list[str]:
    """What this process has open, sorted; sockets without their numbers, no event files."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}").partition(":[")[0])
        except FileNotFoundError:
            continue  # of the listing itself
    return sorted(name for name in found if "/events/" not in name)  # they go on in new ones


def paths(tree: dict[str, Any]) -> Iterator[str]:
    yield tree["path"]
    for child in tree["children"]:
        yield from paths(child)


def waiting(tree: dict[str, Any]) -> int:
    depth = tree["mailbox"]["depth"] if tree.get("mailbox") else 0
    return int(depth) + sum(waiting(child) for child in tree["children"])


async def picture(node: actors.Node) -> dict[str, object]:
    tree = await node.tree()
    status = await node.status()
    group = status["groups"]["orders"]
    return {
        "actors": [re.sub(r"-\d+", "-N", path) for path in paths(tree)],
        "waiting": waiting(tree),
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "files": open_files(),
        "connections": group["details"]["connections_count"],
    }


async def at_rest(
    *nodes: actors.Node, like: list[dict[str, object]] | None = None
) -> list[dict[str, object]]:
    """Their pictures, once two in a row are the same, or one is as it was before. On a machine with
    other work connections may take longer to end than two pictures are apart."""
    found: list[dict[str, object]] = []
    for _ in range(LOOKS):
        before, found = found, [await picture(node) for node in nodes]
        if found == (before if like is None else like):
            break
        await trio.sleep(0.5)
    return found


async def probe(number: int, port: int) -> None:
    """Half from the slave's own address, half from nobody's; both ports; some closed by a reset."""
    host = SLAVE if number % 2 else STRANGER
    try:
        stream = await trio.open_tcp_stream(MASTER, port + number // 2 % 2, local_address=host)
        async with stream:
            await stream.send_all(JUNK[number % len(JUNK)])
            if number % 5 == 0:
                with trio.move_on_after(0.002):
                    await stream.receive_some(100)
    except (OSError, trio.BrokenResourceError):
        pass  # turned away


async def copied(log: actors.Log) -> None:
    """An append has its two copies: some probes were taken for the slave, which comes back with
    pauses that may be longer than an append waits.
    """
    with trio.fail_after(HANGS_S):
        while True:
            try:
                await log.append([b"after"])
            except (NotStored, OutcomeUnknown):
                continue
            return


@pytest.mark.timeout(900)
@pytest.mark.checklist(11)
async def test_ten_thousand_real_probes_leave_nothing_behind(
    tmp_path: Path, free_port: int
) -> None:
    config = loads(text(tmp_path, free_port, 2), "hostile.toml")
    async with actors.open_node(config, "n1") as slave, actors.open_node(config, "n0") as node:
        log = node.log("orders")
        for _ in range(3):  # what is opened once and then kept is open then
            await log.append([b"before"])
            await trio.sleep(2 * HIGH_WATER_S)
        before = await at_rest(node, slave)
        numbers = itertools.count()

        async def prober() -> None:
            while (number := next(numbers)) < PROBES:
                with trio.fail_after(HANGS_S):
                    await probe(number, free_port)

        async with trio.open_nursery() as nursery:
            for _ in range(AT_A_TIME):
                nursery.start_soon(prober)
        await copied(log)
        for was, now in zip(before, await at_rest(node, slave, like=before), strict=True):
            for what, value in was.items():
                assert now[what] == value
        refused_count = (await node.status())["groups"]["orders"]["details"]["refused_count"]
        assert 0 < refused_count <= PROBES // 4


@pytest.fixture
def commands() -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that a test has started; whatever still runs is killed, and its children with it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for command in started:
        if command.poll() is None:
            command.kill()
        command.communicate(timeout=10)


def pid_of(command: subprocess.Popen[str], node: str) -> int | None:
    """The process of a node, by its parent and its command line; None while there is none."""
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    for child in children:
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
            return int(child)
    return None


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60.0
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def log_bytes(folder: Path, node: str) -> bytes:
    log = folder / "data" / node / "groups/orders/commitlog"
    return b"".join(path.read_bytes() for path in sorted(log.iterdir()))


def test_a_slave_stopped_by_a_signal_delays_nobody(
    tmp_path: Path, free_port: int, commands: list[subprocess.Popen[str]]
) -> None:
    """Appends go on with the other slave, the master's memory stays, the stopped one returns."""
    file = tmp_path / "c.toml"
    file.write_text(text(tmp_path, free_port, 3))
    words = [sys.executable, "-m", "actors.cluster", str(file), "--processes", "--feed", "-"]
    command = subprocess.Popen(
        [*words, "--json"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    commands.append(command)
    assert command.stdin is not None
    lines = [f"line {number} {'x' * 400}\n" for number in range(LINES)]

    def fed(count: int) -> bool:
        return log_bytes(tmp_path, "n1").count(b"x" * 400) >= count

    pids = {node: wait_for(lambda node=node: pid_of(command, node)) for node in ("n0", "n2")}
    command.stdin.write("".join(lines[:1000]))
    command.stdin.flush()
    for node in ("n1", "n2"):  # an empty slave waits until it has heard the other one
        wait_for((tmp_path / f"data/{node}/groups/orders/commitlog").exists)
        wait_for(lambda node=node: b"line 999 " in log_bytes(tmp_path, node))
    before_bytes = resident_bytes(pids["n0"])
    os.kill(pids["n2"], signal.SIGSTOP)
    try:
        command.stdin.write("".join(lines[1000:-1]))
        command.stdin.flush()
        wait_for(lambda: fed(LINES - 1000))
        assert resident_bytes(pids["n0"]) < before_bytes + GROWTH_BYTES
        assert b"line 30000 " not in log_bytes(tmp_path, "n2")
    finally:
        os.kill(pids["n2"], signal.SIGCONT)
    out, err = command.communicate(lines[-1], timeout=90)
    assert command.returncode == 0, err
    found = json.loads(out)["groups"]["orders"]
    assert found["acknowledged"] == LINES
    assert found["restarts"] == 0
    assert log_bytes(tmp_path, "n0") == log_bytes(tmp_path, "n1") == log_bytes(tmp_path, "n2")
