"""A state machine given to `open_node`: results in receipts, refusals by name, the example."""

from __future__ import annotations

import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

import actors
from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.env import Env
from actors.errors import ConfigError, LeadershipLost, NotMaster
from actors.log_types import Receipt
from actors.sim.world import open_world

EXAMPLE = Path(__file__).parents[2] / "examples/replicated_counter.py"
GROUP = "ledger"


def config() -> ClusterConfig:
    group = DLedgerGroup(
        name=GROUP, members=("n0",), data_file_bytes=64 << 10, index_file_bytes=64 << 10
    )
    found = ClusterConfig(
        name="sim",
        data_dir="/data",
        nodes={"n0": "10.0.0.1"},
        groups={GROUP: group},
        api_port=None,
    )
    validate(found)
    return found


class Lengths:
    """The result of a record is its length."""

    def apply(self, entries: Sequence[actors.LogEntry]) -> Sequence[object]:
        return [len(entry.body) for entry in entries]

    def save(self) -> list[bytes]:
        return [b"nothing"]

    def load(self, chunks: Iterator[bytes]) -> None:
        b"".join(chunks)

    def leader_started(self, term: int) -> None: ...
    def leader_stopped(self, term: int) -> None: ...


async def test_a_receipt_has_what_the_machine_gave(autojump_clock: object) -> None:
    async with open_world("machine") as world:
        world.add_node("n0", "10.0.0.1")
        done = trio.Event()

        async def main(env: Env, task_status: trio.TaskStatus[actors.Node]) -> None:
            async with actors.open_node(config(), "n0", env=env, machines={GROUP: Lengths}) as node:
                task_status.started(node)
                await done.wait()

        node = await world.start_node("n0", main)
        log = node.log(GROUP)
        with trio.fail_after(60):
            while True:
                try:
                    receipt = await log.append([b"one", b"three"])
                except NotMaster:
                    await trio.sleep(1)
                else:
                    break
        assert receipt.results == (3, 5)
        done.set()


async def test_a_machine_for_no_dledger_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="a state machine for 'orders'; the dledger groups of"):
        async with actors.open_node(config(), "n0", machines={"orders": Lengths}):
            pass


def run_example(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), str(folder)],
        cwd=EXAMPLE.parents[1],
        env={"PYTHONPATH": str(EXAMPLE.parents[1])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.real_io
def test_the_example_runs(tmp_path: Path) -> None:
    ran = run_example(tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "the leader has counted 300 cups of tea",
        "its node is gone",
        "another leads, and says 301",
    ]


@pytest.mark.real_io
def test_a_mistake_with_the_example_is_one_line(tmp_path: Path) -> None:
    ran = run_example(tmp_path / "missing")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)
    assert "No such file" in ran.stderr
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 20971))
        taken.listen()
        ran = run_example(tmp_path)
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)
    assert "20971" in ran.stderr


def entries_of(*bodies: bytes) -> list[actors.LogEntry]:
    return [actors.LogEntry(index=n, term=0, body=body) for n, body in enumerate(bodies)]


def test_the_examples_machine_outlives_what_is_no_command() -> None:
    counters = runpy.run_path(str(EXAMPLE))["Counters"]()
    bad = (
        b"a 2 add",
        b"a 3 drop tea",
        b"a 4 get a b",
        b"\xff",
        b" ",
        b"a -1 add tea",
        b"a b add tea",
    )
    found = counters.apply(entries_of(b"a 1 add tea", *bad, b"a 9%d add tea" % 10**18))
    assert found == [1, *[None] * len(bad), None]
    assert counters.apply(entries_of(b"a 5 get tea", b"a 6 get milk")) == [1, 0]


def test_the_examples_machine_counts_a_repeated_command_once() -> None:
    make = runpy.run_path(str(EXAMPLE))["Counters"]
    counters = make()
    commands = (b"a 1 add tea", b"a 1 add tea", b"b 1 add tea", b"a 2 add tea", b"a 2 add tea")
    assert counters.apply(entries_of(*commands)) == [1, 1, 2, 3, 3]
    assert counters.apply(entries_of(b"a 1 add tea")) == [None], "nobody waits for its answer"
    later = make()
    later.load(iter(counters.save()))
    assert later.apply(entries_of(b"a 2 add tea", b"b 2 get tea")) == [3, 3], "also by a snapshot"


class Flaky:
    """A node whose first answer is lost after the command was applied."""

    def __init__(self, counters: Any) -> None:
        self.counters, self.failures = counters, [LeadershipLost("lost"), NotMaster("no")]

    def log(self, name: str) -> Flaky:
        return self

    async def append(self, records: list[bytes]) -> Receipt:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, NotMaster):
            raise failure
        results = tuple(self.counters.apply(entries_of(*records)))
        if failure is not None:
            raise failure
        return Receipt(
            first=0, last=0, next=1, count=1, copies=2, durability="synced", results=results
        )


async def test_the_example_repeats_what_may_be_applied(autojump_clock: object) -> None:
    found = runpy.run_path(str(EXAMPLE))
    counters = found["Counters"]()
    asker = found["Asker"]({"n0": Flaky(counters)})
    assert await asker.ask("add tea") == ("n0", 1)
    assert await asker.ask("add tea") == ("n0", 2)
    assert counters.values == {"tea": 2}
