"""One node in a process of its own, for the measurements: `bench_node.py CLUSTER NODE [--turns]`.

A JSON line on standard output says that it is ready; then each line of standard input is a command,
answered by one line. Times are seconds of CLOCK_MONOTONIC, which all processes of a machine share.
With `--turns` it knows how long the longest turn of its loop was, and tells it once more when it
ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from cProfile import Profile
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
import trio
from bench_kit import GROUP
from bench_load import load_producer, load_tasks, load_topics

from actors import open_node
from actors.collector import collect_less
from actors.env.real import real_env
from actors.events import ha, store
from actors.node.node import Node
from actors.runtime.process import ActorProcess
from actors.storage.dispatch.dispatcher_messages import Dispatched, GetDispatched
from actors.trees.group_setup import GroupPaths

LOOK_S = 0.01
"""Between two looks at something that has no event."""
STAMPS_MAX = 1_000_000


@attrs.define
class Watch:
    """Sees every event of the node as it happens.

    Attributes:
        started_s: when a slave's transfer began, by slave.
        acked: how far each slave is.
        stamps: (offset, time) of each write, a master's or a slave's, when they are asked for.
    """

    started_s: dict[str, float] = attrs.field(factory=dict)
    acked: dict[str, int] = attrs.field(factory=dict)
    stamps: list[tuple[int, float]] | None = None
    progress: trio.Event = attrs.field(factory=trio.Event)

    def __call__(self, _path: str, _incarnation: int, event: object) -> None:
        match event:
            case ha.HATransferStarted():
                self.started_s[event.slave] = time.monotonic()
            case ha.SlaveAcked():
                self.acked[event.slave] = event.offset_bytes
                self.progress.set()
            case store.RecordsAppended() | store.BytesReceived():
                if self.stamps is not None and len(self.stamps) < STAMPS_MAX:
                    self.stamps.append((event.next_bytes, time.monotonic()))
            case _:
                pass


@attrs.define(eq=False)
class Turns(trio.abc.Instrument):
    """The longest time, since it was last asked, between two waits of the loop for input or time.

    Nothing else of the process is served meanwhile.

    Attributes:
        longest_s: as a clock says it, with what it waited for a disk or for a processor.
        busiest_s: the most that a turn took of a processor.
    """

    longest_s: float = 0.0
    busiest_s: float = 0.0
    _began_s: float = attrs.field(factory=time.monotonic)
    _used_s: float = attrs.field(factory=time.thread_time)

    def after_io_wait(self, timeout: float) -> None:
        self._began_s, self._used_s = time.monotonic(), time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        self.longest_s = max(self.longest_s, time.monotonic() - self._began_s)
        self.busiest_s = max(self.busiest_s, time.thread_time() - self._used_s)

    def take(self) -> tuple[float, float]:
        found = self.longest_s, self.busiest_s
        self.longest_s = self.busiest_s = 0.0
        return found


@attrs.frozen
class Counts:
    """What Python does in the thread of the loop, while it is counted."""

    _profile: Profile = attrs.field(factory=partial(Profile, builtins=False))

    def start(self) -> None:
        self._profile.enable()

    def take(self) -> dict[str, int]:
        """What there was since it was started; nothing is counted any more.

        `calls`: frames that were entered, or resumed. `wakes`: actors that had parked and went on.
        `objects`: of attrs classes, that were made.
        """
        self._profile.disable()
        found = dict.fromkeys(("calls", "wakes", "objects"), 0)
        for entry in self._profile.getstats():
            code, count = entry.code, entry.callcount
            assert not isinstance(code, str), "builtins are not counted"
            made = code.co_name == "__init__" and code.co_filename.startswith("<attrs generated")
            found["calls"] += count
            found["wakes"] += count if code is ActorProcess._woken.__code__ else 0
            found["objects"] += count if made else 0
        return found


async def commands() -> AsyncIterator[dict[str, Any]]:
    stream, waiting = trio.lowlevel.FdStream(os.dup(0)), b""
    while data := await stream.receive_some():
        *lines, waiting = (waiting + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


async def copied(watch: Watch, slaves: list[str], end: int) -> float:
    """Seconds from the first transfer's start until all `slaves` hold everything below `end`."""
    while any(watch.acked.get(slave, -1) < end for slave in slaves):
        watch.progress = trio.Event()
        await watch.progress.wait()
    ended_s = time.monotonic()
    return ended_s - min(watch.started_s[slave] for slave in slaves)


async def dispatched(node: Node, end: int) -> float:
    """When everything below `end` can be consumed here."""
    system = node._system
    assert system is not None
    dispatcher = system.ref(GroupPaths(f"/{node.name}/{GROUP}").dispatcher)
    while True:
        state: Dispatched = await dispatcher.ask(
            Dispatched, lambda reply_to: GetDispatched(reply_to=reply_to), timeout_s=60.0
        )
        if state.dispatched_bytes >= end:
            return time.monotonic()
        await trio.sleep(LOOK_S)


async def obey(
    node: Node, watch: Watch, turns: Turns, counts: Counts, command: dict[str, Any]
) -> Any:
    do = command.pop("do")
    log = node.log(GROUP)
    match do:
        case "forget":
            watch.started_s.clear()
            watch.acked.clear()
            return True
        case "copied":
            seconds = await copied(watch, **command)
            return {"seconds": seconds, "began_s": min(watch.started_s.values())}
        case "dispatched":
            return await dispatched(node, **command)
        case "offsets":
            return attrs.asdict(await log.offsets())
        case "stamp":
            watch.stamps = []
            return True
        case "stamps":
            return watch.stamps
        case "tasks":
            return await load_tasks(log, **command)
        case "producer":
            return await load_producer(log, **command)
        case "topics":
            return await load_topics(log, **command)
        case "turns":
            return turns.take()
        case "count":
            counts.start()
            return True
        case "counted":
            return counts.take()
        case _:
            raise ValueError(f"unknown command {do!r}")


async def main(cluster: str, name: str, turns: Turns) -> None:
    watch, counts = Watch(), Counts()
    env = attrs.evolve(real_env(), events=watch)
    began_s = time.monotonic()
    async with open_node(cluster, name, env=env) as node:
        print(json.dumps({"ready_s": time.monotonic() - began_s}), flush=True)
        async for command in commands():
            print(json.dumps(await obey(node, watch, turns, counts, command)), flush=True)
        turns.take()
    print(json.dumps(turns.take()), flush=True)


if __name__ == "__main__":
    collect_less()
    found = Turns()
    instruments = (found,) if "--turns" in sys.argv[3:] else ()
    trio.run(main, *sys.argv[1:3], found, instruments=instruments)
