"""Finds out by a node's events whether it is still starting when it does not answer, for `status`
and `stop`.

Its API starts last, when every log is recovered, so it cannot be asked until then; a node that
hangs is as silent. The first event of a boot names the process: another program that has the data
open, for instance to check it, has no such boot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actors.config import ClusterConfig
from actors.env.local_disk import LocalDisk
from actors.env.real import now_ms

STARTING: Final = "starting"
"""The text of `starts_how` begins with this if the start goes on."""


def starts_how(
    config: ClusterConfig, node: str, process: int, clock_ms: Callable[[], int] = now_ms
) -> str:
    """Say, for people, for how long a node has been starting, which group it opens, and if it waits
    for room.

    Returns: "" if the node was ready before, or if its events do not show that it is starting. A
        node on a full disk keeps its events in memory, so the text says then what its disk lacks.

    Args:
        process: the process that has its data open.
        clock_ms: returns the milliseconds since 1970.
    """
    # Imported here, because few callers need it, and all would wait for it.
    from actors.events.codec import EventFormatError
    from actors.events.node import NodeStarted
    from actors.events.runtime import ActorStarted
    from actors.events.store import DiskUsageChanged
    from actors.storage.node.event_reader import newest_boot
    from actors.storage.node.identity import events_path

    try:
        events = newest_boot(LocalDisk(), events_path(config.node_dir(node)), node)
        first = next(events, None)
        if first is None:
            return _without_room(config, node)
        if not isinstance(first.event, NodeStarted):
            return ""  # it has been running for so long that its first events have expired
        if first.event.process != process:
            return _without_room(config, node)
        ready, lacks = set[str](), ""
        for logged in events:
            if isinstance(logged.event, ActorStarted):
                if logged.path.startswith(f"/{node}/api/"):
                    return ""
                ready.add(logged.path)
            elif isinstance(logged.event, DiskUsageChanged):
                lacks = logged.event.reason
    except (OSError, EventFormatError):
        return ""
    left = [group for group in first.event.groups if f"/{node}/{group}" not in ready]
    so_far_s = max(0, clock_ms() - first.ts_us // 1000) / 1000
    opens = f", opens {left[0]}" if left else ""
    return (
        f"{STARTING} for {so_far_s:.0f} s{opens}{f', waits: {lacks}: make room' if lacks else ''}"
    )


def _without_room(config: ClusterConfig, node: str) -> str:
    """Say what the disks of the node's folders lack, which may be several disks; "": nothing."""
    from actors.storage.files.room import is_full, lacks

    disk, folder = LocalDisk(), config.node_dir(node)
    groups = [f"{folder}/groups/{group.name}" for group in config.groups_of(node)]
    for path in (folder, *groups):
        if is_full(disk, path):
            return f"no answer, and no room in {path}: {lacks(disk, path)}: it waits, so make room"
    return ""
