"""Comparisons on real processes: three nodes on this machine, kill -9, SIGSTOP, cut links.

Each node is `compare_node.py` in a process of its own; the clients are in this one, at the nodes'
sockets. A cut link is cut in the nodes that it joins: neither sends nor hears on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import trio
from bench_kit import GROUP, Node, cluster_file
from bench_ledger_groups import OurGroup
from compare_links import METER_BYTES, Meter
from compare_load import Load
from compare_run import CONTENDERS, Run, elects, run_on
from compare_script import FAILED, Api, Hit, Stage
from interop_processes import Processes

from actors.client import Client, connect_node
from actors.config import ClusterConfig
from actors.config import load as load_config
from actors.errors import Closed, NodeStopped
from actors.log import AppendOutcome, Log
from actors.log_types import Batch, Chain, NewRecord, Offsets, Receipt

R = TypeVar("R")

OUTSTANDING: Final = 16
RECONNECT_S: Final = 0.02
RUN_MAX_S: Final = 900.0
"""A run that lasts longer is given up."""
NODES: Final = ("n0", "n1", "n2")


def make_file(folder: Path, contender: str, host: str, processes: Processes) -> Path:
    """A cluster file of three nodes with every size as it is by default."""
    settings = {"durability": "synced", **CONTENDERS[contender]}
    if elects(contender):
        hosts = [f"{host}.{number + 1}" for number in range(3)]
        return OurGroup.make(processes, folder, hosts, **settings).cluster
    text = {key: f'"{each}"' if isinstance(each, str) else each for key, each in settings.items()}
    return cluster_file(folder, host, 2, text)


@attrs.define(eq=False)
class ProcessStage(Stage):
    """See `Stage`. `run` keeps a connection to each node."""

    processes: Processes
    file: Path
    config: ClusterConfig
    nodes: dict[str, Node] = attrs.field(factory=dict, init=False)
    _clients: dict[str, Client] = attrs.field(factory=dict, init=False)
    _broken: dict[str, trio.Event] = attrs.field(factory=dict, init=False)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for name in self.names:
                nursery.start_soon(self._keep, name)

    def log(self, name: str) -> Log:
        return Log(_Door(self, name), GROUP)

    async def ask(self, name: str, call: Callable[[Api], Awaitable[Any]]) -> Any:
        client = self.client(name)
        with self.watching(name, client):
            return await call(client)

    async def kill(self, name: str) -> None:
        process = self.nodes[name].process
        process.popen.kill()  # at once; then wait for it elsewhere
        await trio.to_thread.run_sync(process.kill)

    async def start(self, *names: str) -> None:
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(self._start, name)
        for name in names:
            while name not in self._clients:  # noqa: ASYNC110 - soon
                await trio.sleep(RECONNECT_S)

    async def pause(self, name: str) -> None:
        self.nodes[name].process.pause()
        await trio.lowlevel.checkpoint()

    async def resume(self, name: str) -> None:
        self.nodes[name].process.resume()
        await trio.lowlevel.checkpoint()

    async def cut(self, one: str, other: str) -> None:
        await self._both("cut", one, other)

    async def heal(self, one: str, other: str) -> None:
        await self._both("heal", one, other)

    def again_bytes(self) -> int:
        return sum(Meter(self._meter(name).read_bytes()).again_bytes for name in self.names)

    # ---- inside ----

    def client(self, name: str) -> Client:
        """Raises: Closed while there is no connection."""
        found = self._clients.get(name)
        if found is None:
            raise Closed(f"{name} is out of reach")
        return found

    @contextmanager
    def watching(self, name: str, client: Client) -> Iterator[None]:
        """A call of the block may find the connection broken: then another one is made."""
        try:
            yield
        except (Closed, NodeStopped):
            if self._clients.get(name) is client:
                self._lost(name)
            raise

    def _lost(self, name: str) -> None:
        if name in self._clients:
            del self._clients[name]
            self._broken[name].set()

    async def _keep(self, name: str) -> None:
        while True:
            try:
                async with connect_node(self.config, name) as client:
                    self._broken[name] = trio.Event()
                    self._clients[name] = client
                    await self._broken[name].wait()
            except FAILED:
                pass
            self._clients.pop(name, None)
            await trio.sleep(RECONNECT_S)

    async def _start(self, name: str) -> None:
        self._lost(name)
        meter = self._meter(name)
        if not meter.exists():
            meter.write_bytes(bytes(METER_BYTES))
        words = ("compare_node.py", self.file, name, meter)
        self.nodes[name] = node = Node.launch(self.processes, self.file, name, words)
        await trio.to_thread.run_sync(node.answer)

    async def _both(self, do: str, one: str, other: str) -> None:
        for name, peer in ((one, other), (other, one)):
            ask = partial(self.nodes[name].ask, do, node=peer)
            await trio.to_thread.run_sync(ask)

    def _meter(self, name: str) -> Path:
        return self.file.parent / f"{name}.meter"


@attrs.frozen
class _Door:
    """`LogBackend` over whatever connection there is to a node now."""

    _stage: ProcessStage
    _name: str

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        await self._ask(lambda client: client.submit(group, records, on_done, chain))

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        return await self._ask(lambda client: client.append(group, records))

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
        return await self._ask(lambda client: client.read(group, start, max_bytes, fresh))

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        return await self._ask(lambda client: client.wait_acknowledged(group, above))

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        return await self._ask(lambda client: client.wait_offsets(group, known))

    async def _ask(self, call: Callable[[Client], Awaitable[R]]) -> R:
        client = self._stage.client(self._name)
        with self._stage.watching(self._name, client):
            return await call(client)


async def run_processes(
    contender: str,
    folder: Path,
    host: str,
    processes: Processes,
    faults: Callable[[Stage, Load], Awaitable[list[Hit]]],
    pause_s: float = 0.0,
) -> Run:
    """One run in a folder that does not exist yet.

    Args:
        pause_s: of each client after an answer; 0: as fast as they are answered.

    Raises: TooSlowError after RUN_MAX_S; as `run_on`.
    """
    file = make_file(folder, contender, host, processes)
    stage = ProcessStage(NODES, elects(contender), processes, file, load_config(str(file)))
    with trio.fail_after(RUN_MAX_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.run)
            await stage.start(*stage.names)
            load = Load(stage.names, stage.log, OUTSTANDING, pause_s)
            run = await run_on(stage, load, faults)
            nursery.cancel_scope.cancel()
    for node in stage.nodes.values():
        node.kill()
    return run
