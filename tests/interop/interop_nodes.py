"""Our side: a cluster file with Java nodes in it, and each of our nodes as a process of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from interop_processes import PEER_S, Process, Processes, wait_for
from interop_rocketmq import CONSUME_QUEUE_BYTES, SEGMENT_BYTES

from actors.api.socket_file import api_socket_path
from actors.client import connect
from actors.errors import TriologError
from actors.log import Log
from actors.log_types import Message, Receipt

ROOT = Path(__file__).parents[2]
GROUP = "orders"
"""Also the name of the broker that a Java member takes part as."""
JAVA_ADDRESS = "127.0.0.1"
"""A Java slave does not choose the address that it connects from; on one machine it is this one."""
FEED_TIMEOUT_S = 120.0
RETRY_PAUSE_S = 0.2
PAUSE_S = 0.005
"""Between the batches of a feed, so that it lasts long enough for something to be killed in it."""


def write_cluster(folder: Path, nodes: Mapping[str, str], group: Mapping[str, object]) -> Path:
    """Write a cluster file with one group.

    Args:
        nodes: name to address.
        group: keys of the group, as TOML text: `{"master": '"n0"', "copies": 1}`; it is a classic
            one unless they say another mode.
    """
    lines = ["version = 1", 'name = "interop"', 'data_dir = "data"', "[nodes]"]
    lines += [f'{name} = "{address}"' for name, address in nodes.items()]
    lines += [f"[groups.{GROUP}]"]
    settings = {
        "mode": '"classic"',
        "segment_bytes": SEGMENT_BYTES,
        "consume_queue_bytes": CONSUME_QUEUE_BYTES,
        "index_slots_count": 1_000,
        "index_units_count": 4_000,
        "reconnect_interval_s": 0.5,
        **group,
    }
    lines += [f"{key} = {value}" for key, value in settings.items()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def status_of(folder: Path, group: str) -> dict[str, Any]:
    """What the node of that data folder says of a group; nothing while it does not run."""

    async def ask() -> dict[str, Any]:
        async with connect(api_socket_path(str(folder))) as client:
            found: dict[str, Any] = (await client.status())["groups"][group]
            return found

    try:
        return trio.run(ask)
    except OSError:
        return {}


@attrs.define
class Node:
    """One of our nodes, and the same one again after a crash."""

    name: str
    cluster: Path
    processes: Processes
    process: Process | None = None

    @property
    def store(self) -> Path:
        return self.cluster.parent / "data" / self.name / "groups" / GROUP

    @property
    def commitlog(self) -> Path:
        return self.store / "commitlog"

    def start(self) -> Process:
        """Returns at once; what the test waits for next needs the node."""
        command: list[str | Path] = [sys.executable, "-m", "actors.cluster", self.cluster]
        command += ["--node", self.name, "--plain"]
        folder = self.cluster.parent / f"{self.name}-output"
        self.process = self.processes.start(f"node {self.name}", command, folder, cwd=ROOT)
        return self.process

    @asynccontextmanager
    async def open_log(self) -> AsyncIterator[Log]:
        """Its log through its API socket. Raises: OSError while it does not run."""
        folder = self.cluster.parent / "data" / self.name
        async with connect(api_socket_path(str(folder))) as client:
            yield client.log(GROUP)

    def append(self, batch: Sequence[Message]) -> Receipt:
        """Append one batch; raises what the node answers instead."""

        async def append() -> Receipt:
            with trio.fail_after(FEED_TIMEOUT_S):
                while True:
                    try:
                        async with self.open_log() as log:
                            return await log.append(batch)
                    except OSError:  # it is still starting
                        if self.process is None or not self.process.running:
                            raise
                        await trio.sleep(RETRY_PAUSE_S)

        return trio.run(append)

    def wait_until_it_follows(self) -> None:
        """Until it has reported to its master what it has."""
        assert self.process is not None

        def follows() -> bool:
            link = status_of(self.cluster.parent / "data" / self.name, GROUP).get("link") or {}
            return link.get("is_up", False) and link["details"]["last_write_age_s"] is not None

        wait_for(follows, "a slave that follows", timeout_s=PEER_S, alive=[self.process])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def stop(self) -> int:
        assert self.process is not None
        return self.process.stop()


def message(topic: str, number: int, size_bytes: int) -> Message:
    """Message `number`, made like those of Driver.java so that any of them can be made again."""
    return Message(
        topic=topic,
        body=bytes((number + i) % 251 for i in range(size_bytes)),
        tags=f"tag{number % 3}",
        keys=(f"key{number}",),
        properties={"number": str(number), "schön": "值 🚀"},
        queue_id=number % 4,
    )


@attrs.define
class Feed:
    """Appends messages in order, one batch at a time, from a thread of its own.

    A batch that is not acknowledged is appended again, so that a message may be stored twice.

    Attributes:
        receipts: of the batches acknowledged so far.
        failures: what was answered instead.
    """

    node: Node
    batches: Sequence[Sequence[Message]]
    receipts: list[Receipt] = attrs.field(factory=list)
    failures: list[BaseException] = attrs.field(factory=list)
    _thread: threading.Thread | None = None
    _over: bool = False

    def __enter__(self) -> Feed:
        self._thread = threading.Thread(target=trio.run, args=[self._run], daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._over = True
        self._thread.join(FEED_TIMEOUT_S)
        assert not self._thread.is_alive()

    def wait_for(self, count: int) -> None:
        """Until so many batches are acknowledged; the node has to run."""
        assert self.node.process is not None
        wait_for(
            lambda: len(self.receipts) >= count,
            f"{count} batches acknowledged",
            timeout_s=FEED_TIMEOUT_S,
            alive=[self.node.process],
        )

    def wait(self) -> None:
        """Until all batches are acknowledged; the node has to run."""
        self.wait_for(len(self.batches))

    async def _run(self) -> None:
        while len(self.receipts) < len(self.batches) and not self._over:
            try:
                async with self.node.open_log() as log:
                    for batch in self.batches[len(self.receipts) :]:
                        self.receipts.append(await log.append(batch))
                        if self._over:
                            return
                        await trio.sleep(PAUSE_S)
            except (TriologError, OSError) as error:
                self.failures.append(error)
                await trio.sleep(RETRY_PAUSE_S)
