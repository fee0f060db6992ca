"""How a node that does not run has ended, by the last word of its own events: for `status`."""

from __future__ import annotations

from actors.config import ClusterConfig
from actors.env.local_disk import LocalDisk

DAMAGE = ("CorruptLog", "LostVote")
"""How `NodeStopped` begins to say that the log is damaged."""


def ended_how(config: ClusterConfig, node: str) -> str:
    """For people; "" if it was asked to stop, had no time for a word, or has lived elsewhere."""
    # Here, as few look for it, and all would wait for it.
    from actors.events.codec import EventFormatError
    from actors.events.sink import ORDERED
    from actors.storage.event_reader import last_stop
    from actors.storage.identity import events_path

    try:
        stop = last_stop(LocalDisk(), events_path(config.node_dir(node)), node)
    except (OSError, EventFormatError):
        return ""
    if stop is None or stop.reason == ORDERED:
        return ""
    kind, _, words = stop.reason.partition(": ")
    if kind in DAMAGE:
        return f"ended by damage: {words}"
    return f"ended itself: {words if kind.isidentifier() and words else stop.reason}"
