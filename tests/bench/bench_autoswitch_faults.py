"""Outages of `python -m actors.cluster examples/autoswitch.toml --processes`: its master is killed
and stopped again and again, under the clients of tests/kills/, whose judge has the last word.

All times are from the signal, but for the last two:

- `silent_s`: the controller takes the master for dead; `elected_s`: another one is elected;
- `told_s`: that one has heard of it; `opened_s`: it may acknowledge;
- `answered_s`: the first acknowledgement of an append that was asked for after the signal;
- `loaded_s`: from the start of the killed master's next process to that of its node, which is the
  time of Python's imports;
- `back_s`: from that start, or from the SIGCONT, until both replicas are in the sync state set.

In the end the nodes stop in order, and what each one's files have has to be what was acknowledged:
each record once, in the order of each sender.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from bench_kit import Figures, workplace
from interop_processes import Process
from kills_clients import Clients, Files, judged
from kills_nodes import LOST, Node, NotAsPlanned, dumped

from actors.client import connect
from actors.env.local_disk import LocalDisk
from actors.events import controller, ha
from actors.events.codec import LoggedEvent
from actors.events.node import NodeStarted
from actors.storage.node.event_reader import read_events

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLE: Final = ROOT / "examples" / "autoswitch.toml"
GROUP: Final = "orders"
REPLICAS: Final = ("n0", "n1")
NODES: Final = ("c0", *REPLICAS)
LOOK_S: Final = 0.02
CALM_S: Final = (0.3, 1.3)
"""Longer than a heartbeat's interval, so that faults fall at any time between two."""
WHOLE_S: Final = 180.0
"""It bounds only those that fail."""
KILLED: Final = "killed"
STOPPED: Final = "stopped"
TABLE: Final = "examples/autoswitch.toml --processes, its master's process, seconds"
COLUMNS: Final = (
    *("silent_s", "elected_s", "told_s", "opened_s", "answered_s", "loaded_s", "back_s"),
)
WANTED: Final = (
    (KILLED, "answered_s", "at worst 0.3"),
    (STOPPED, "answered_s", "at worst 2.5"),
    (KILLED, "back_s", "at worst 1"),
)


def write_example(folder: Path, host: str) -> Path:
    """The example at other addresses, with its files in `folder` and without its own feed."""
    text = EXAMPLE.read_text().partition("[demo.feed]")[0]
    text = text.replace('"127.0.0.', f'"{host}.').replace('"../var/pair"', '"data"')
    file = folder / "cluster.toml"
    file.write_text(text)
    return file


@attrs.frozen
class Fault:
    """What befell a master. Times are the wall clock's, in seconds.

    Attributes:
        begun_s: of the signal.
        answered_s: of the first acknowledgement after it.
        again_s: of the next process's start, or of the SIGCONT.
        whole_s: when both replicas were seen in the sync state set.
    """

    what: str
    master: str
    begun_s: float
    answered_s: float
    again_s: float
    whole_s: float


@attrs.define(eq=False)
class Faults:
    """Befalls the cluster's masters, and looks on.

    Attributes:
        folder: of the cluster file.
        cluster: the process that has started the nodes', and starts them again.
        found: what happened.
    """

    folder: Path
    cluster: Process
    rng: random.Random
    found: list[Fault] = attrs.field(factory=list)
    _since_s: float = float("inf")
    _heard: trio.Event = attrs.field(factory=trio.Event)

    def acknowledged(self, asked_s: float) -> None:
        if asked_s >= self._since_s:
            self._heard.set()

    async def run(self, kills: int, stops: int) -> None:
        """Raises: NotAsPlanned: the cluster was not whole in time."""
        for what in self.rng.sample([KILLED] * kills + [STOPPED] * stops, kills + stops):
            await self.whole()
            await trio.sleep(self.rng.uniform(*CALM_S))
            self.found.append(await self._befall(what, await self.whole()))
            took_s = self.found[-1].answered_s - self.found[-1].begun_s
            print(f"    {what}: answered after {took_s:.3f} s", file=sys.stderr, flush=True)

    async def _befall(self, what: str, master: str) -> Fault:
        pid = node_pid(self.cluster, master)
        assert pid is not None
        self._heard = trio.Event()
        os.kill(pid, signal.SIGKILL if what == KILLED else signal.SIGSTOP)
        begun_s, self._since_s = time.time(), trio.current_time()
        with trio.move_on_after(WHOLE_S):
            await self._heard.wait()
        answered_s, self._since_s = time.time(), float("inf")
        if what == STOPPED:
            os.kill(pid, signal.SIGCONT)
        else:

            async def runs() -> bool:
                return node_pid(self.cluster, master) not in (None, pid)

            await self._until(runs)
        again_s = time.time()
        await self.whole()
        return Fault(what, master, begun_s, answered_s, again_s, time.time())

    async def whole(self) -> str:
        """Returns the master, once both replicas are in its sync state set."""
        master = ""

        async def look() -> bool:
            nonlocal master
            for master in REPLICAS:
                said = await self._status(master)
                if said.get("is_open") and len(said["details"]["in_sync"]) == len(REPLICAS):
                    return True
            return False

        await self._until(look)
        return master

    async def _until(self, look: Callable[[], Awaitable[bool]]) -> None:
        with trio.move_on_after(WHOLE_S):
            while not await look():  # noqa: ASYNC110 - other processes set no event
                await trio.sleep(LOOK_S)
            return
        raise NotAsPlanned(str(self.cluster.failed(f"was not whole within {WHOLE_S:g} s")))

    async def _status(self, name: str) -> dict[str, Any]:
        """What a node says of the group; nothing while it does not answer."""
        found: dict[str, Any] = {}
        with trio.move_on_after(1.0):
            try:
                async with connect(str(self.folder / "data" / name / "api.sock")) as client:
                    found = (await client.status())["groups"][GROUP]
            except* LOST:
                pass
        return found


def node_pid(cluster: Process, name: str) -> int | None:
    """The process of a node, which another one has started; None: it has none now."""
    parent = cluster.popen.pid
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if b"--node" in words and words[words.index(b"--node") + 1] == name.encode():
            return int(child)
    return None


def stages(fault: Fault, events: Iterable[LoggedEvent]) -> dict[str, float]:
    """What the nodes' events say of a fault, in the columns of the table.

    Args:
        events: of all nodes, in the order of time.
    """
    found = {"answered_s": fault.answered_s - fault.begun_s}
    again_s = fault.again_s if fault.what == STOPPED else float("inf")
    for each in events:
        now_s = each.ts_us / 1e6
        if not fault.begun_s <= now_s <= fault.whole_s:
            continue
        name, since_s = "", fault.begun_s
        match each.event:
            case controller.ReplicaSilent():
                name = "silent_s"
            case controller.MasterElected():
                name = "elected_s"
            case ha.RoleGiven(role="master") if each.node != fault.master:
                name = "told_s"
            case ha.LeaseChanged(holds=True) if each.node != fault.master:
                name = "opened_s"
            case NodeStarted() if each.node == fault.master and fault.what == KILLED:
                name, since_s, again_s = "loaded_s", fault.again_s, now_s
            case controller.SyncStateSetChanged(in_sync=members) if len(members) == len(REPLICAS):
                name, since_s = "back_s", again_s
        if name and name not in found and since_s <= now_s:
            found[name] = now_s - since_s
    return found


def measure_faults(parent: Path, host: str, kills: int, stops: int, seed: int) -> None:
    """Print the figures. Raises: NotAsPlanned: a record is lost, doubled or in another order."""
    with workplace(parent) as (folder, processes):
        file = write_example(folder, host)
        command: list[str | Path] = [sys.executable, "-m", "actors.cluster", file]
        command += ["--processes", "--plain"]
        # An installed package has its modules compiled, whatever this environment says.
        env = {"PYTHONDONTWRITEBYTECODE": ""}
        cluster = processes.start("cluster", command, folder, cwd=ROOT, env=env)
        faults = Faults(folder, cluster, random.Random(f"{seed}:faults"))
        clients = Clients(str(file), (GROUP,), faults.acknowledged)
        try:
            trio.run(_under_load, faults, clients, kills, stops, seed)
        finally:
            cluster.stop()
        show(faults.found, [each for node in NODES for each in _events(folder, node)])
        wrong = judge(folder, clients)
    if wrong:
        raise NotAsPlanned("; ".join(wrong))
    print(f"judged: {clients.outcomes[f'{GROUP} acknowledged']:,} acknowledged, each there once")


async def _under_load(faults: Faults, clients: Clients, kills: int, stops: int, seed: int) -> None:
    async with trio.open_nursery() as nursery:
        await faults.whole()
        nursery.start_soon(clients.run, seed)
        await faults.run(kills, stops)
        clients.stopped = True


def _events(folder: Path, node: str) -> Iterable[LoggedEvent]:
    return read_events(LocalDisk(), str(folder / "data" / node / "events"))


def show(faults: Iterable[Fault], events: Iterable[LoggedEvent]) -> None:
    figures, events = Figures(TABLE, COLUMNS), sorted(events, key=lambda each: each.ts_us)
    for fault in faults:
        figures.add(fault.what, **stages(fault, events))
    figures.show()
    for row, column, wanted in WANTED:
        worst = max(figures.found(row, column), default=float("nan"))
        print(f"{row}, {column}: {worst:.3f} at worst   (wanted: {wanted})")


def judge(folder: Path, clients: Clients) -> list[str]:
    """What is wrong with both replicas' files, and with what the clients heard."""
    nodes = [Node(name, folder) for name in REPLICAS]
    files = {(GROUP, node.name): Files.of(GROUP, dumped(node, GROUP)) for node in nodes}
    return judged(clients, files)
