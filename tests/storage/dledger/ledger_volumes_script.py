"""A member of a DLedger group with a folder on another volume: lived, checked, cut and begun anew.

Run by `test_ledger_volumes`: KIND TMP PORT, for all folders one after the other.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import trio
import volumes_script
from mount_space import drop_privileges
from volumes_script import Volumes, command

import actors
from actors import open_node
from actors.config import load
from actors.storage.layout import LedgerLayout

GROUP = "{node}/groups/ledger"
INSIDE = {
    "data_dir": ("var", ""),
    "group": ("var", GROUP),
    **{
        folder: ("var", f"{GROUP}/{folder}")
        for folder in ("data", "index", "sums", "snapshot", "cut")
    },
    "backup": ("backup", ""),
}
"""By the name of a folder, where it lies."""
BATCHES = 12
TEXT = """\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
[groups.ledger]
mode = "dledger"
members = ["n0"]
port = {port}
heartbeat_interval_s = 0.5
data_file_bytes = 65536
index_file_bytes = 1280
snapshot_entries = 40
"""


class Counting:
    """Counts what it is given."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, entries: Sequence[actors.LogEntry]) -> Sequence[object]:
        self.count += len(entries)
        return [self.count - len(entries) + number for number in range(len(entries))]

    def save(self) -> list[bytes]:
        return [json.dumps(self.count).encode()]

    def load(self, chunks: Iterator[bytes]) -> None:
        self.count = json.loads(b"".join(chunks))

    def leader_started(self, term: int) -> None: ...

    def leader_stopped(self, term: int) -> None: ...


async def lives(file: str, count: int) -> int:
    """A start, some batches, an ordered stop. Gives the machine's answer to the last one."""
    async with open_node(load(file), "n0", machines={"ledger": Counting}) as node:
        result = -1
        for _ in range(count):
            receipt = await node.log("ledger").append([b"x" * 4000] * 10)
            result = receipt.results[-1]
        return result


def files(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.isdigit())


def walk_through(tmp: str, volumes: Volumes) -> None:
    file, node = f"{tmp}/one.toml", f"{tmp}/var/n0"
    layout = LedgerLayout(f"{node}/groups/ledger")

    count = trio.run(lives, file, BATCHES)
    assert len(files(layout.commit_log)) > 1
    assert len(files(layout.index)) > 2
    command("check", node)
    command("backup", node, f"{tmp}/backup")
    command("dump", node, "--limit", "3")

    for folder in (layout.index, layout.sums):  # a hole, then none: made again from the entries
        os.unlink(f"{folder}/{files(folder)[1]}")
        trio.run(lives, file, 0)
        command("check", node)
        for name in files(folder):
            os.unlink(f"{folder}/{name}")
        trio.run(lives, file, 0)
        command("check", node)
    assert [name for name in os.listdir(layout.snapshot) if name.startswith("snapshot")], "none"
    volumes.check()

    with open(f"{layout.commit_log}/{files(layout.commit_log)[-1]}", "r+b") as last:
        last.seek(-100, os.SEEK_END)
        last.write(b"torn")  # behind the mark, whatever stands there: it is cut off and kept
    assert trio.run(lives, file, 1) == count + 10
    command("check", node)
    volumes.check()


def run(kind: str, tmp: str, port: str) -> None:
    volumes_script.INSIDE.clear()
    volumes_script.INSIDE.update(INSIDE)
    volumes = {folder: Volumes(kind, folder, f"{tmp}/{folder}") for folder in INSIDE}
    for folder, each in volumes.items():
        if not os.path.exists(f"{tmp}/{folder}"):  # else it was begun anew, without privileges
            each.make()
            Path(f"{tmp}/{folder}/one.toml").write_text(TEXT.format(port=port))
    if kind != "link here":
        drop_privileges()
    for folder, each in volumes.items():
        walk_through(f"{tmp}/{folder}", each)
    print("done")


if __name__ == "__main__":
    run(*sys.argv[1:])
