"""A node that is still starting, as `status` and `stop` tell it from one that hangs."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from cluster_kit import WAIT_S
from cluster_world import CONFIG, NODES, three_nodes
from free_ports import free_port

from actors.cluster import commands, starts
from actors.cluster.starts import starts_how
from actors.config import ClusterConfig
from actors.env.local_disk import LocalDisk
from actors.events.codec import LineEncoder
from actors.events.node import NodeStarted
from actors.events.runtime import ActorStarted
from actors.events.store import DiskUsageChanged
from actors.service import open_node
from actors.storage.files import room
from actors.storage.files.room import NO_ROOM
from actors.storage.files.stepping import stepped
from actors.storage.node import event_files


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    return attrs.evolve(CONFIG, data_dir=str(tmp_path))


GROUPS = ("orders", "ledger")
STARTED = NodeStarted(cluster="demo", version="1", groups=GROUPS, process=7)


def write(
    config: ClusterConfig,
    *paths: str,
    boot: int = 2,
    live: bool = True,
    last: DiskUsageChanged | None = None,
) -> None:
    """A boot of process 7 that began at 100 s, and the actors that have started since."""
    encode = LineEncoder("n1", boot).encode
    lines = [encode(1, "/n1", 0, 100_000_000, STARTED)]
    started = ActorStarted(role="actor", type="Any")
    lines += [encode(seq, path, 1, 101_000_000, started) for seq, path in enumerate(paths, 2)]
    if last is not None:
        lines.append(encode(len(lines) + 1, "/n1/orders/storage/store", 1, 102_000_000, last))
    root = f"{config.node_dir('n1')}/events"
    folder = event_files.folder_of(root, "2026-01-31", "n1")
    file = event_files.EventFile(boot=boot, start_seq=1, folder=folder)
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(file.part_path if live else file.path).write_bytes(event_files.compress(lines))


class Filled(LocalDisk):
    """A disk on which there is no room in some folder."""

    full = ""

    def usage(self, path: str) -> float:
        return 1.0 if path == self.full else 0.5

    def free_bytes(self, path: str) -> int:
        return 0


def how(config: ClusterConfig, process: int = 7) -> str:
    return starts_how(config, "n1", process, lambda: 112_400)


@pytest.mark.parametrize("live", [True, False])
def test_what_it_opens_and_for_how_long(config: ClusterConfig, live: bool) -> None:
    write(config, "/n1/api/unix_socket", boot=1, live=False)
    write(config, "/n1/event_log", "/n1/orders/storage/store", live=live)
    assert how(config) == "starting for 12 s, opens orders"
    write(config, "/n1/event_log", "/n1/orders", live=live)
    assert how(config) == "starting for 12 s, opens ledger"
    write(config, "/n1/event_log", "/n1/orders", "/n1/ledger", live=live)
    assert how(config) == "starting for 12 s"


def test_one_that_has_been_ready_and_one_that_is_somebody_else(config: ClusterConfig) -> None:
    assert how(config) == "", "no events"
    write(config, "/n1/event_log")
    assert how(config, 8) == "", "its last start was killed, and now it is checked"
    write(config, "/n1/event_log", "/n1/orders", "/n1/ledger", "/n1/api/unix_socket")
    assert how(config) == ""
    for path in Path(config.node_dir("n1")).rglob("*.gz"):
        path.write_bytes(b"\0" * 40)
    assert how(config) == "", "damaged"


def test_that_it_waits_for_room(config: ClusterConfig) -> None:
    """By its events, where those find room: the disk of a group may be another."""
    for reason, words in ((NO_ROOM + "the disk is 100% full", True), ("", False)):
        waits = DiskUsageChanged(is_full=bool(reason), used_ratio=1.0, reason=reason)
        write(config, "/n1/event_log", last=waits)
        said = ", waits: no room: the disk is 100% full: make room" if words else ""
        assert how(config) == f"starting for 12 s, opens orders{said}"


@pytest.mark.parametrize("folder", ["", "/groups/orders"])
@pytest.mark.parametrize("boot", [None, 8])
def test_what_its_disk_lacks_where_no_event_of_it_can_be_written(
    config: ClusterConfig, folder: str, boot: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if boot is not None:
        write(config, "/n1/event_log", boot=1)
    monkeypatch.setattr(starts, "LocalDisk", Filled)
    assert how(config, 8) == ""
    monkeypatch.setattr(Filled, "full", path := f"{config.node_dir('n1')}{folder}")
    assert how(config, 8) == (
        f"no answer, and no room in {path}: the disk is 100% full, 0 bytes free: it waits, so"
        " make room"
    )


async def test_status_and_stop_say_it(
    config: ClusterConfig, autojump_clock: trio.abc.Clock
) -> None:
    write(config, "/n1/event_log")
    world = three_nodes()
    world.nodes["n1"].up = False

    def begins(node: str, process: int) -> str:
        return starts_how(config, node, process, lambda: 112_400)

    async def status(pid: int, *, as_json: bool) -> commands.Answer:
        return await commands.status(
            config,
            NODES,
            world.connect,  # type: ignore[arg-type]
            {"n1": pid}.get,
            starts=begins,
            as_json=as_json,
        )

    answer = await status(7, as_json=False)
    assert answer.exit_code == 1
    assert "  n1: starting for 12 s, opens orders (process 7)" in answer.text.split("\n")
    assert "  n1: no answer, but process 8 has its data (" in (await status(8, as_json=False)).text
    found = json.loads((await status(7, as_json=True)).text)
    assert (found["starting"], found["ended"]) == ({"n1": how(config)}, {})
    assert json.loads((await status(8, as_json=True)).text)["starting"] == {}
    stopped = await commands.stop(
        config,
        ("n1",),
        world.connect,  # type: ignore[arg-type]
        {"n1": 7}.get,
        begins,
    )
    words = "n1: not stopped: starting for 12 s, opens orders (process 7)"
    assert stopped == commands.Answer(words, 1)


@pytest.mark.real_io
async def test_a_node_shows_by_itself_that_it_starts(
    config: ClusterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events of a real one, whose log takes its time."""
    orders = attrs.evolve(config.classic_groups["orders"], port=free_port())
    config = attrs.evolve(config, groups={"orders": orders}, api_port=None)
    free, ready = trio.Event(), trio.Event()
    done = trio.Event()

    async def late(work: Generator[None, None, Any]) -> Any:
        await free.wait()
        return await stepped(work)

    monkeypatch.setattr(room, "stepped", late)

    async def node() -> None:
        async with open_node(config, "n1"):
            ready.set()
            await done.wait()

    with trio.fail_after(WAIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node)
            # Files have no event that could be awaited.
            while not (found := starts_how(config, "n1", os.getpid())):  # noqa: ASYNC110
                await trio.sleep(0.05)
            assert found.endswith(" s, opens orders")
            assert not ready.is_set()
            free.set()
            await ready.wait()
            while starts_how(config, "n1", os.getpid()):  # noqa: ASYNC110
                await trio.sleep(0.05)
            done.set()
