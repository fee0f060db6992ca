"""Nodes with a folder on another volume: lived, checked, backed up, seeded, cut and begun anew.

Run by `test_storage_volumes`: KIND TMP PORT, for all folders one after the other.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import trio
from mount_space import drop_privileges, mount_tmpfs

from actors import open_node
from actors.config import ClusterConfig, load
from actors.env.local_disk import LocalDisk
from actors.log_types import Message
from actors.storage.__main__ import main as storage
from actors.storage.commitlog.set_aside import set_aside
from actors.storage.files.stepping import finish
from actors.storage.layout import StoreLayout

INSIDE = {
    "data": ("var", ""),
    "node": ("var", "{node}"),
    "groups": ("var", "{node}/groups"),
    "group": ("var", "{node}/groups/orders"),
    "commitlog": ("var", "{node}/groups/orders/commitlog"),
    "consumequeue": ("var", "{node}/groups/orders/consumequeue"),
    "index": ("var", "{node}/groups/orders/index"),
    "backup": ("backup", ""),
}
"""By the name of a folder, where it lies."""
SEGMENT = 65_536
RECORDS = 300
TEXT = """\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
[groups.orders]
port = {port}
master = "n0"
slaves = [{slaves}]
copies = 1
segment_bytes = 65536
consume_queue_bytes = 4000
index_slots_count = 100
index_units_count = 200
"""


class Volumes:
    """Where the folder lies for each node, and what lies there."""

    def __init__(self, kind: str, folder: str, tmp: str) -> None:
        self.kind = kind
        top, inner = INSIDE[folder]
        paths = {f"{tmp}/{top}/{inner.format(node=node)}".rstrip("/") for node in ("n0", "n1")}
        self.places = {place: f"{tmp}/volume{n}" for n, place in enumerate(sorted(paths))}

    def make(self) -> None:
        for place, volume in self.places.items():
            target = place if self.kind == "mount" else volume
            os.makedirs(target)
            if self.kind != "link here":
                mount_tmpfs(target)
            os.mkdir(f"{target}/lost+found", 0)
            if self.kind != "mount":
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.symlink(volume, place)

    def check(self) -> None:
        """They are what they were."""
        for place in self.places:
            if self.kind == "mount":
                assert os.stat(place).st_dev != os.stat(os.path.dirname(place)).st_dev, place
            else:
                assert os.path.islink(place), place
            assert os.stat(f"{place}/lost+found").st_mode & 0o777 == 0


def command(*words: str, code: int = 0) -> str:
    """What a storage command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = storage(words)
    assert found == code, (words, found, out.getvalue(), err.getvalue())
    return out.getvalue()


async def lives(config: ClusterConfig, count: int) -> None:
    """A start, some records, an ordered stop; all of it is read."""
    async with open_node(config, "n0") as node:
        log = node.log("orders")
        records = [
            Message(topic=f"t{n % 3}", body=b"%d" % n * 50, keys=(f"k{n}",)) for n in range(count)
        ]
        if records:
            await log.append(records)


def begin_anew(layout: StoreLayout) -> None:
    os.unlink(layout.dispatched)


def cut(layout: StoreLayout, offset: int) -> None:
    disk: Any = LocalDisk()
    finish(set_aside(disk, layout, SEGMENT, offset))


def aside_bytes(layout: StoreLayout) -> int:
    """Of the log files that were set aside."""
    folders = [Path(folder) for folder, _, _ in os.walk(layout.aside)]
    return sum(path.stat().st_size for each in folders for path in each.glob("[0-9]" * 20))


def run(kind: str, tmp: str, port: str) -> None:
    volumes = {folder: Volumes(kind, folder, f"{tmp}/{folder}") for folder in INSIDE}
    for folder, each in volumes.items():
        if not os.path.exists(f"{tmp}/{folder}"):  # else it was begun anew, without privileges
            each.make()
            text = TEXT.format(port=port, slaves="{}")
            Path(f"{tmp}/{folder}/one.toml").write_text(text.format(""))
            Path(f"{tmp}/{folder}/two.toml").write_text(text.format('"n1"'))
    if kind != "link here":
        drop_privileges()
    for folder, each in volumes.items():
        walk_through(f"{tmp}/{folder}", each)
    print("done")


def walk_through(tmp: str, volumes: Volumes) -> None:
    config, node = load(f"{tmp}/one.toml"), f"{tmp}/var/n0"
    layout = StoreLayout(f"{node}/groups/orders")

    trio.run(lives, config, RECORDS)
    command("check", node)
    command("backup", node, f"{tmp}/backup")
    command("check", f"{tmp}/backup")
    command("dump", node, "--limit", "3")
    begin_anew(layout)  # all that is derived is derived anew
    trio.run(lives, config, 0)
    command("check", node)
    read_by_the_pipeline(f"{tmp}/var", layout)

    command("seed", f"{tmp}/backup", f"{tmp}/two.toml:n1")
    command("check", f"{tmp}/var/n1")
    volumes.check()

    cut(layout, SEGMENT + 5)  # within a record: the next start cuts the rest of it
    assert aside_bytes(layout) > 0
    trio.run(lives, config, 0)
    command("check", node, code=1)  # as its master it is shorter than what it acknowledged
    kept = aside_bytes(layout)
    cut(layout, 0)
    assert aside_bytes(layout) > kept
    assert not [name for name in os.listdir(layout.commit_log) if name.isdigit()]
    trio.run(lives, config, 0)
    command("check", node, code=1)
    volumes.check()


def read_by_the_pipeline(data: str, layout: StoreLayout) -> None:
    from actors.pipeline.alarms.event_logs import Listing
    from actors.pipeline.locations import Location
    from actors.pipeline.sources.log_files import logs_at

    logs = logs_at([f"{data}/*/groups/orders"], "commitlog")
    assert layout.commit_log in [log.folder for log in logs], logs
    assert Listing(Location(f"{data}/n0/events")).look()


if __name__ == "__main__":
    run(*sys.argv[1:])
