"""Counters that survive the loss of a node: a state machine of your own on a DLedger group.

    python examples/replicated_counter.py [FOLDER]

Three nodes elect a leader, which takes commands; each applies them in the same order to its own
counters. Then the leader's node is stopped, and the others go on. In real life each node runs in a
program of its own, on a machine of its own.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import trio

import actors
from actors.errors import NotMaster

Started = trio.TaskStatus[actors.Node]

CLUSTER = """
version = 1
name = "counters"
data_dir = "data"                # relative to this file
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.counters]
mode = "dledger"
members = ["n0", "n1", "n2"]
port = 20971
heartbeat_interval_s = 0.3       # a lost leader is noticed within a second
snapshot_entries = 100
data_file_bytes = 1_048_576
"""


class Counters:
    """Commands are b"add NAME" and b"get NAME"; the result is the counter's value, or None for what
    is no command: an exception would end every member, and again at each start."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def apply(self, entries: Sequence[actors.LogEntry]) -> Sequence[object]:
        return [self._do(entry.body.decode(errors="replace").split()) for entry in entries]

    def _do(self, words: list[str]) -> int | None:
        match words:
            case ["add", name]:
                self.values[name] = self.values.get(name, 0) + 1
            case ["get", name]:
                pass
            case _:
                return None
        return self.values.get(name, 0)

    def save(self) -> list[bytes]:
        return [json.dumps(self.values).encode()]

    def load(self, chunks: Iterator[bytes]) -> None:
        self.values = json.loads(b"".join(chunks))

    def leader_started(self, term: int) -> None:
        """Nothing to do; a controller would begin its work here."""

    def leader_stopped(self, term: int) -> None: ...


async def ask(nodes: dict[str, actors.Node], command: bytes) -> tuple[str, object]:
    """Who leads has applied it when this returns. Gives its name, and the result."""
    while True:
        for name, node in nodes.items():
            try:
                receipt = await node.log("counters").append([command])
            except NotMaster:
                continue  # nothing was written: ask another one
            return name, receipt.results[0]
        await trio.sleep(0.1)


async def run(file: Path, name: str, life: trio.CancelScope, task_status: Started) -> None:
    """One node, until its life is cancelled: an ordered stop."""
    with life:
        await actors.serve(file, name, machines={"counters": Counters}, task_status=task_status)


async def main(folder: Path) -> None:
    file = folder / "cluster.toml"
    file.write_text(CLUSTER)
    nodes: dict[str, actors.Node] = {}
    lives = {name: trio.CancelScope() for name in ("n0", "n1", "n2")}
    async with trio.open_nursery() as nursery:
        for name, life in lives.items():
            nodes[name] = await nursery.start(run, file, name, life)
        for _ in range(300):
            leader, value = await ask(nodes, b"add tea")
        print(f"the leader has counted {value} cups of tea")
        del nodes[leader]
        lives[leader].cancel()
        print("its node is gone")
        await ask(nodes, b"add tea")
        other, value = await ask(nodes, b"get tea")
        assert other != leader
        print(f"another leads, and says {value}")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        trio.run(main, Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            trio.run(main, Path(folder))
