"""Whether a node that does not answer is still starting, by its own events: for `status`, `stop`.

Its API comes last, when every log is recovered, so until then nobody can be asked; one that hangs
is as silent. The first event of a boot names its process: who else has the data open, to check it,
has no such boot.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.config import ClusterConfig
from actors.env.local_disk import LocalDisk
from actors.env.real import now_ms


def starts_how(
    config: ClusterConfig, node: str, process: int, clock_ms: Callable[[], int] = now_ms
) -> str:
    """For people: since when, and which group it opens at the moment; "" if it has been ready, if
    the process is none of its boot, or if its events do not tell.

    Args:
        process: who has its data open.
        clock_ms: milliseconds since 1970.
    """
    # Here, as few look for it, and all would wait for it.
    from actors.events.codec import EventFormatError
    from actors.events.node import NodeStarted
    from actors.events.runtime import ActorStarted
    from actors.storage.event_reader import newest_boot
    from actors.storage.identity import events_path

    try:
        events = newest_boot(LocalDisk(), events_path(config.node_dir(node)), node)
        first = next(events, None)
        if first is None or not isinstance(first.event, NodeStarted):
            return ""  # of a long life: its beginning has expired
        if first.event.process != process:
            return ""
        ready = set[str]()
        for logged in events:
            if isinstance(logged.event, ActorStarted):
                if logged.path.startswith(f"/{node}/api/"):
                    return ""
                ready.add(logged.path)
    except (OSError, EventFormatError):
        return ""
    left = [group for group in first.event.groups if f"/{node}/{group}" not in ready]
    so_far_s = max(0, clock_ms() - first.ts_us // 1000) / 1000
    return f"starting for {so_far_s:.0f} s" + (f", opens {left[0]}" if left else "")
