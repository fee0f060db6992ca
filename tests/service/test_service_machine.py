"""A state machine given to `open_node`: results in receipts, refusals by name, the example."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

import actors
from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.env import Env
from actors.errors import ConfigError, NotMaster
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


@pytest.mark.real_io
def test_the_example_runs(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path)],
        cwd=EXAMPLE.parents[1],
        env={"PYTHONPATH": str(EXAMPLE.parents[1])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "the leader has counted 300 cups of tea",
        "its node is gone",
        "another leads, and says 301",
    ]


def test_the_examples_machine_outlives_what_is_no_command() -> None:
    counters = runpy.run_path(str(EXAMPLE))["Counters"]()
    bodies = (b"add tea", b"add", b"drop tea", b"get a b", b"\xff", b" ", b"get tea", b"get milk")
    entries = [actors.LogEntry(index=n, term=0, body=body) for n, body in enumerate(bodies)]
    assert counters.apply(entries) == [1, None, None, None, None, None, 1, 0]
