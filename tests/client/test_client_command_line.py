"""`python -m actors.client` as a process, against a node in memory on a real Unix socket."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from api_kit import STATUS, MemoryNode
from group_states import status_of

from actors.api.accept_socket import UnixEndpoint
from actors.api.limits import ApiLimits
from actors.api.server import api_spec
from actors.client import connect
from actors.env.tcp import TcpNetwork
from actors.errors import NotMaster, ReplicationTimeout
from actors.log_types import Chain, NewRecord, Receipt
from actors.runtime import ChildSpec, SupervisorSpec, System, open_system

pytestmark = pytest.mark.real_io

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0

FILE = """
version = 1
name = "demo"
data_dir = "."
answer_timeout_s = 0.5
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1"]
"""


@attrs.define
class ServedAt:
    """A cluster's folder, in which n0 serves."""

    folder: Path
    system: System

    @property
    def file(self) -> str:
        return str(self.folder / "c.toml")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "actors.client", *words]

    async def run(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """Run to its end: exit code, standard output, standard error."""
        with trio.fail_after(TIMEOUT_S):
            done = await trio.run_process(
                self.command(*words),
                stdin=stdin,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=ROOT,
            )
        error = done.stderr.decode()
        assert "Traceback" not in error
        return done.returncode, done.stdout, error


@asynccontextmanager
async def served_at(
    folder: Path, node: MemoryNode, limits: ApiLimits | None = None
) -> AsyncIterator[ServedAt]:
    (folder / "c.toml").write_text(FILE)
    (folder / "n0").mkdir()
    unix = UnixEndpoint(path=str(folder / "n0" / "api.sock"))
    spec = api_spec(TcpNetwork(), node, unix=unix, limits=limits)
    root = SupervisorSpec(children=(ChildSpec(name="api", start=spec),))
    async with open_system("n0", root, events=node.sink) as system:
        yield ServedAt(folder, system)


async def test_append_and_read_back(tmp_path: Path) -> None:
    node = MemoryNode()
    lines = b"".join(b"line %d\n" % number for number in range(5000))
    async with served_at(tmp_path, node) as at:
        code, out, error = await at.run(at.file, "append", stdin=lines + b"without newline")
        assert (code, error) == (0, "")
        assert out.startswith(b"5,001 of 5,001 lines acknowledged in orders by n0, ")
        assert out.endswith(b" lines/s; the log goes on at byte 500100\n")
        code, out, _ = await at.run(at.file, "read")
        assert (code, out) == (0, lines + b"without newline\n")
        code, out, _ = await at.run(f"{at.file}:n0", "read", "--start", "100", "--count", "1")
        assert (code, out) == (0, b"line 1\n")
        code, out, error = await at.run(f"{at.file}:n0", "read", "--start", "500100")
        assert (code, out, error) == (0, b"", ""), "the end, where more may come"
        code, out, error = await at.run(f"{at.file}:n0", "read", "--start", "99999900")
        said = "triolog: n0 shows orders up to byte 500100, before 99999900\n"
        assert (code, out, error) == (0, b"", said)
        (at.folder / "more").write_bytes(b"a\n\nb\n")
        socket = str(at.folder / "n0" / "api.sock")
        code, out, _ = await at.run(socket, "append", str(at.folder / "more"), "--json")
        found = json.loads(out)
        assert code == 0
        assert (found["lines"], found["acknowledged"], found["error"]) == (3, 3, None)
        assert (found["bytes"], found["next"]) == (2, 500_400)
    assert node.stored[-3:] == [b"a", b"", b"b"]


async def test_read_from_a_node_that_got_nothing(tmp_path: Path) -> None:
    """A slave that has not reached its master holds records and may show none: not "no records"."""
    node = MemoryNode(stored=[b"a", b"b"], acknowledged=0, held_end=0)
    async with served_at(tmp_path, node) as at:
        code, out, error = await at.run(at.file, "read")
    assert (code, out) == (1, b"")
    assert error.startswith("triolog: n0 holds orders up to byte 200, but does not know ")
    assert error.count("\n") == 1


async def test_status_and_bench(tmp_path: Path) -> None:
    node = MemoryNode()
    async with served_at(tmp_path, node) as at:
        code, out, error = await at.run(at.file, "status", "--json")
        assert (code, error) == (0, "")
        assert json.loads(out) == STATUS
        first, second = json.loads(await bench(at, "--window", "1,300", "--size", "10", "--json"))
        assert (first["connections"], second["connections"]) == (1, 2)
        assert first["first_error"] is second["first_error"] is None
        assert set(node.stored) == {b"x" * 10}
        assert re.match(rb"window  appends/s .*\n +2 ", await bench(at, "--window", "2"))


async def bench(at: ServedAt, *words: str) -> bytes:
    """What it prints once an append of each window was answered; it is given longer each time.

    On a busy machine none may be within 0.2 s, which its exit code tells.
    """
    for seconds in ("0.2", "2", "20"):
        code, out, error = await at.run(at.file, "bench", "--seconds", seconds, *words)
        nothing = b'"appends": 0,' in out or b"no append was answered within" in out
        assert (code, error) == (1 if nothing else 0, ""), out
        if not nothing:
            return out
    raise AssertionError(f"no append was answered within {seconds} s")


async def test_a_full_node(tmp_path: Path) -> None:
    socket = str(tmp_path / "n0" / "api.sock")
    taken = "its only client slot is taken"
    async with served_at(tmp_path, MemoryNode(), ApiLimits(clients=1)) as at, connect(socket):
        code, _, error = await at.run(socket, "append", "--wait", "0.1")
        assert (code, error) == (1, f"triolog: {socket}: {taken}; tried again for 0.1 s\n")
        code, _, error = await at.run(at.file, "read", "--wait", "0")
        assert (code, error.count("\n")) == (1, 1)
        assert f"n0: {socket}: {taken}" in error


async def test_tail_until_interrupted(tmp_path: Path) -> None:
    node = MemoryNode()
    async with served_at(tmp_path, node) as at, trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            at.command(at.file, "tail", "--start", "0"), stdout=subprocess.PIPE, cwd=ROOT
        )
        nursery.start_soon(process.wait)
        assert process.stdout is not None
        found = b""
        with trio.fail_after(TIMEOUT_S):
            for number in range(3):
                body = b"%d" % number
                await node.submit("orders", (body,), lambda outcome: None)
                while not found.endswith(body + b"\n"):
                    found += await process.stdout.receive_some()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    assert found == b"0\n1\n2\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("{file}", "append", "--group", "x"), "--group: expected a group of {file}, orders"),
        (("{socket}", "read", "--group", "x"), "--group: expected a group of n0, orders"),
        (("{file}:n5", "status"), "{file}:n5: expected one of n0, n1"),
        (("{file}", "append", "{folder}/none"), 'FILE: expected a file to read, found "{folder}'),
        (("{file}", "read", "--start", "5"), "no record begins at 5"),
        (("{file}", "read", "--start", "x"), "--start: expected a number"),
        (("{folder}/nothing", "status"), "which is no file"),
    ],
)
async def test_a_users_mistake(tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    values = {
        "file": str(tmp_path / "c.toml"),
        "folder": str(tmp_path),
        "socket": str(tmp_path / "n0" / "api.sock"),
    }
    async with served_at(tmp_path, MemoryNode()) as at:
        code, out, error = await at.run(*(word.format(**values) for word in words))
    assert (code, out) == (2, b"")
    assert error.startswith("triolog: ")
    assert text.format(**values) in error
    assert error.count("\n") == 1


async def test_nobody_is_there(tmp_path: Path) -> None:
    async with served_at(tmp_path, MemoryNode()) as at:
        for target, named in ((f"{at.file}:n1", "cannot reach n1: "), ("127.0.0.1:1", "127.0.0.1")):
            code, out, error = await at.run(target, "status")
            assert (code, out) == (1, b"")
            assert error.count(named) == 1
            assert error.count("\n") == 1


@attrs.define(eq=False)
class Failing(MemoryNode):
    """Takes a first append; then fails every one with `failure`."""

    failure: Exception | None = None

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[Receipt | Exception], None],
        chain: Chain | None = None,
    ) -> None:
        if not self.stored:
            await MemoryNode.submit(self, group, records, on_done)
            return
        assert self.failure is not None
        on_done(self.failure)


@pytest.mark.parametrize(
    ("failure", "lines", "found"),
    [
        (
            ReplicationTimeout("1 of 2 copies in time", 100, 300, 350),
            ["ReplicationTimeout: 1 of 2", "may be stored, or not, at bytes 100 to 350"],
            {"error": "ReplicationTimeout", "first": 100, "last": 300, "in_doubt_to": 350},
        ),
        (
            NotMaster("n0 is a slave of orders", "n1"),
            ["NotMaster: n0 is a slave of orders; n1 leads it", "not stored: 1 line"],
            {"error": "NotMaster", "first": None, "last": None},
        ),
    ],
)
async def test_appends_that_fail(
    tmp_path: Path, failure: Exception, lines: list[str], found: dict[str, object]
) -> None:
    # Lines so long that each is a batch: two were read before the second is refused, or more.
    stdin = b"".join(bytes([65 + number]) * 300_000 + b"\n" for number in range(3))
    async with served_at(tmp_path, Failing(failure=failure)) as at:
        code, out, error = await at.run(f"{at.file}:n0", "append", "--json", stdin=stdin)
    assert code == 1
    reported = error.splitlines()
    left = reported.pop() if "go on with" in reported[-1] else ""  # all may have been handed over
    which = r"triolog: go on with lines? [23].* of the input( and all after it)?"
    assert re.fullmatch(which + "; the others are acknowledged( or in doubt)?", left) or (
        not left and isinstance(failure, ReplicationTimeout)
    )
    if len(reported) > len(lines):  # the third line had not been sent
        assert reported.pop() == "triolog: not stored: 1 line"
    for line, printed in zip(lines, reported, strict=True):
        assert printed.startswith("triolog: ")
        assert re.sub("[23] lines", "1 line", line) in re.sub("[23] lines", "1 line", printed)
    summary = json.loads(out)
    assert {key: summary[key] for key in found} == found
    assert summary["acknowledged"] == 1


@attrs.define(eq=False)
class Heard(MemoryNode):
    """Tells when it has been appended to."""

    came: trio.Event = attrs.Factory(trio.Event)

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[Receipt | Exception], None],
        chain: Chain | None = None,
    ) -> None:
        await MemoryNode.submit(self, group, records, on_done)
        came, self.came = self.came, trio.Event()
        came.set()

    async def wait_stored(self, count: int) -> None:
        while len(self.stored) < count:
            await self.came.wait()


async def test_a_node_that_goes_away(tmp_path: Path) -> None:
    node = Heard(hold=True)
    async with served_at(tmp_path, node) as at, trio.open_nursery() as nursery:
        results: list[tuple[int, bytes, str]] = []

        async def append() -> None:
            results.append(await at.run(at.file, "append", stdin=b"one\ntwo\n"))

        nursery.start_soon(append)
        with trio.fail_after(TIMEOUT_S):
            await node.wait_stored(2)
            await at.system.stop()
    ((code, out, error),) = results
    assert code == 1
    assert "triolog: orders: the connection to n0 ended before the answer" in error
    assert "; looks for the next leader, for 0.5 s" in error
    assert "2 lines may be stored, or not, at unknown positions" in error
    assert out.startswith(b"0 of 2 lines acknowledged")


async def test_an_interrupt_ends_the_reading_and_keeps_what_was_read(tmp_path: Path) -> None:
    node = Heard()
    async with served_at(tmp_path, node) as at:
        process = await trio.lowlevel.open_process(
            at.command(at.file, "append"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with trio.fail_after(TIMEOUT_S):
            await process.stdin.send_all(b"one\ntwo\nhalf a li")
            await node.wait_stored(2)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            assert (await process.stdout.receive_some()).startswith(b"2 of 2 lines acknowledged")
    assert node.stored == [b"one", b"two"]


async def test_a_reader_of_our_output_that_leaves(tmp_path: Path) -> None:
    node = MemoryNode(stored=[b"x" * 1000] * 3000, acknowledged=300_000)
    async with served_at(tmp_path, node) as at:
        process = await trio.lowlevel.open_process(
            at.command(at.file, "read"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with trio.fail_after(TIMEOUT_S):
            await process.stdout.receive_some()
            await process.stdout.aclose()
            assert await process.stderr.receive_some() == b""
            assert await process.wait() == 1


async def test_a_progress_bar_on_a_terminal_only(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        async with served_at(tmp_path, MemoryNode()) as at:
            (at.folder / "lines").write_bytes(b"x\n" * 1000)
            with trio.fail_after(TIMEOUT_S):
                done = await trio.run_process(
                    at.command(at.file, "append", str(at.folder / "lines")),
                    stderr=theirs,
                    capture_stdout=True,
                    cwd=ROOT,
                    env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
                )
        shown = os.read(ours, 65_536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"lines acknowledged" in shown
    assert b"1,000 of 1,000 lines" in done.stdout


@attrs.define(eq=False)
class Ledger(MemoryNode):
    """A member of a DLedger group, as to what it takes."""

    async def status(self) -> dict[str, object]:
        await trio.lowlevel.checkpoint()
        own = status_of(role="leader", epoch=1, takes_empty=False, body_bytes_max=100)
        return {"groups": {"orders": own}}


async def test_empty_lines_are_passed_over_where_a_group_takes_none(tmp_path: Path) -> None:
    node = Ledger()
    async with served_at(tmp_path, node) as at:
        code, out, error = await at.run(at.file, "append", stdin=b"a\n\nb\n")
        assert code == 0
        assert error == "triolog: 1 empty line was passed over: orders takes no empty records\n"
        assert out.startswith(b"2 of 2 lines acknowledged in orders by n0, ")
        code, out, error = await at.run(at.file, "append", "--json", stdin=b"\n\n")
        found = json.loads(out)
        assert (code, found["lines"], found["empty"], found["error"]) == (0, 0, 2, None)
        code, out, error = await at.run(at.file, "bench", "--seconds", "0.2", "--size", "0")
        assert (code, out, error[:31]) == (2, b"", "triolog: --size: expected 1 or ")
    assert node.stored == [b"a", b"b"]
