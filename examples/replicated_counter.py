"""Counters that survive the loss of a node: a state machine of your own on a DLedger group.

    python examples/replicated_counter.py [FOLDER]

Three nodes elect a leader, which takes commands; each applies them in the same order to its own
counters. Then the leader's node is stopped, and the others go on. In real life each node runs in a
program of its own, on a machine of its own.

Leadership may move at any time, and what was on its way then may have been applied or not. So each
command has a number, by which the counters know one that is sent again: it counts once.
"""

import itertools
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import trio

import actors
from actors.errors import ConfigError, NotStored, OutcomeUnknown

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
    """Commands are b"ASKER NUMBER add NAME" and b"ASKER NUMBER get NAME"; the result is the
    counter's value, or None for what is no command: an exception would end every member, and again
    at each start.

    An asker numbers its commands upwards, and sends the next when it has the answer to the last. So
    its last one is all that is kept of it; who comes and goes needs a rule for when to forget it.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.last: dict[str, tuple[int, int]] = {}  # asker -> number and result

    def apply(self, entries: Sequence[actors.LogEntry]) -> Sequence[object]:
        return [self._do(entry.body.decode(errors="replace").split()) for entry in entries]

    def _do(self, words: list[str]) -> int | None:
        match words:
            case [asker, digits, "add" | "get" as verb, name] if (
                digits.isdecimal() and len(digits) < 19
            ):
                number = int(digits)
            case _:
                return None
        last, result = self.last.get(asker, (-1, 0))
        if number <= last:  # sent again: its answer was lost on the way
            return result if number == last else None
        result = self.values.get(name, 0)
        if verb == "add":
            result += 1
            self.values[name] = result
        self.last[asker] = number, result
        return result

    def save(self) -> list[bytes]:
        return [json.dumps([self.values, self.last]).encode()]

    def load(self, chunks: Iterator[bytes]) -> None:
        self.values, last = json.loads(b"".join(chunks))
        self.last = {asker: (number, result) for asker, (number, result) in last.items()}

    def leader_started(self, term: int) -> None:
        """Nothing to do; a controller would begin its work here."""

    def leader_stopped(self, term: int) -> None: ...


class Asker:
    """Asks one command after the other, each until it is answered.

    Attributes:
        nodes: changed by whoever starts and stops them.
    """

    def __init__(self, nodes: Mapping[str, actors.Node]) -> None:
        self.nodes = nodes
        self.name = secrets.token_hex(8)  # a later run is another asker
        self.numbers = itertools.count(1)

    async def ask(self, words: str) -> tuple[str, object]:
        """Who leads has applied it, once, when this returns. Gives its name, and the result."""
        command = f"{self.name} {next(self.numbers)} {words}".encode()
        while True:
            for name, node in list(self.nodes.items()):
                try:
                    receipt = await node.log("counters").append([command])
                except NotStored:
                    continue  # nothing was written: NotMaster, most often. Ask another one
                except OutcomeUnknown:
                    # It may be applied, or be so later: LeadershipLost, ReplicationTimeout ...
                    # To send the same again is safe as the counters know its number.
                    continue
                return name, receipt.results[0]
            await trio.sleep(0.1)


async def run(file: Path, name: str, scope: trio.CancelScope, task_status: Started) -> None:
    """Run one node until `scope` is cancelled, which is an ordered stop."""
    with scope:
        await actors.serve(file, name, machines={"counters": Counters}, task_status=task_status)


async def main(folder: Path) -> None:
    file = folder / "cluster.toml"
    file.write_text(CLUSTER)
    nodes: dict[str, actors.Node] = {}
    asker = Asker(nodes)
    scopes = {name: trio.CancelScope() for name in ("n0", "n1", "n2")}
    async with trio.open_nursery() as nursery:
        for name, scope in scopes.items():
            nodes[name] = await nursery.start(run, file, name, scope)
        for _ in range(300):
            leader, value = await asker.ask("add tea")
        print(f"the leader has counted {value} cups of tea")
        del nodes[leader]
        scopes[leader].cancel()
        print("its node is gone")
        await asker.ask("add tea")
        other, value = await asker.ask("get tea")
        assert other != leader
        print(f"another leads, and says {value}")
        nursery.cancel_scope.cancel()


def start(folder: Path) -> None:
    """Run it; a port in use, or a folder that another program has open, is one line."""
    mistake: BaseException | None = None
    try:
        trio.run(main, folder)
    except* (ConfigError, OSError) as group:
        mistake = group
        while isinstance(mistake, BaseExceptionGroup):
            mistake = mistake.exceptions[0]
    if mistake is not None:
        sys.exit(str(mistake))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        start(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            start(Path(folder))
