"""Whether a node that does not answer is still starting, by its own events: for `status`, `stop`.

Its API comes last, when every log is recovered, so until then nobody can be asked; one that hangs
is as silent. The first event of a boot names its process: who else has the data open, to check it,
has no such boot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actors.config import ClusterConfig
from actors.env.local_disk import LocalDisk
from actors.env.real import now_ms

STARTING: Final = "starting"
"""How `starts_how` begins of a node whose start goes on."""


def starts_how(
    config: ClusterConfig, node: str, process: int, clock_ms: Callable[[], int] = now_ms
) -> str:
    """For people: since when a node starts, which group it opens, and whether it waits for room.

    It is "" if the node has been ready, or if its events do not show it. A node on a full disk has
    them in memory only, so for that one the text names what its disk lacks.

    Args:
        process: who has its data open.
        clock_ms: milliseconds since 1970.
    """
    # Here, as few look for it, and all would wait for it.
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
            return ""  # it has run for so long that its first events have expired
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
    """What the disks of the node's folders lack, each of which may be another; "": nothing."""
    from actors.storage.files.room import is_full, lacks

    disk, folder = LocalDisk(), config.node_dir(node)
    groups = [f"{folder}/groups/{group.name}" for group in config.groups_of(node)]
    for path in (folder, *groups):
        if is_full(disk, path):
            return f"no answer, and no room in {path}: {lacks(disk, path)}: it waits, so make room"
    return ""
