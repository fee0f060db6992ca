"""One node that has nothing but its event log, for the tests of the event log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.config.model import EventsConfig
from actors.env.protocols import Disk
from actors.events.node import NodeStarted
from actors.events.runtime import ActorRestarted
from actors.events.sink import EventSink
from actors.runtime import AutoShutdown, SupervisorSpec, open_system
from actors.storage.node.event_log import child_spec
from actors.storage.node.event_reader import read_events, summarize

ROOT = "/data/n0/events"
DAY_US = 86_400_000_000
STARTED = NodeStarted(cluster="demo", version="0", groups=("orders",))


@asynccontextmanager
async def running(
    disk: Disk, boot: int = 1, *, root: str = ROOT, start_us: int = 0, **settings: object
) -> AsyncIterator[EventSink]:
    """One boot of a node that has nothing but its event log."""
    config = EventsConfig(**settings)  # type: ignore[arg-type]
    began_s = trio.current_time()

    def now_us() -> int:
        return start_us + round((trio.current_time() - began_s) * 1e6)

    sink = EventSink(
        "n0", boot, now_us, STARTED, policy=config.policy, pending_max=config.pending_max_count
    )
    auto = AutoShutdown.ANY_SIGNIFICANT if config.policy == "stop" else AutoShutdown.NEVER
    spec = SupervisorSpec(
        auto_shutdown=auto, children=(child_spec(sink, disk, root, config, now_us),)
    )
    async with open_system("n0", spec, events=sink):
        yield sink


def emit(sink: EventSink, count: int) -> None:
    for number in range(count):
        sink("/n0/x", 1, ActorRestarted(restarts=number))


def numbers(disk: Disk, root: str = ROOT) -> list[int]:
    """What `emit` emitted, as it stands in the log."""
    events = [logged.event for logged in read_events(disk, root)]
    return [event.restarts for event in events if isinstance(event, ActorRestarted)]


def sound(disk: Disk, root: str = ROOT) -> list[bool]:
    """Whether each boot ended in order; all of them are whole."""
    boots = summarize(read_events(disk, root))
    assert [boot.problems for boot in boots] == [()] * len(boots)
    return [boot.ended for boot in boots]
