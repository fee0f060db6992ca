"""What a node may touch of the outside world, as protocols: network, disk, clock, randomness, events.

`actors.env.tcp` and `actors.env.local_disk` are the real ones, and the only modules with sockets, files and
threads; `actors.sim` has the simulated ones. Everything else gets an `Env` from the root.
"""

from actors.env.protocols import (
    Address,
    Disk,
    Env,
    EventSink,
    File,
    FileLock,
    FileStat,
    Listener,
    LockedByOther,
    LockedByUs,
    Network,
    ReceiveHalf,
    SendHalf,
    Stream,
    Syncer,
)

__all__ = [
    "Address",
    "Disk",
    "Env",
    "EventSink",
    "File",
    "FileLock",
    "FileStat",
    "Listener",
    "LockedByOther",
    "LockedByUs",
    "Network",
    "ReceiveHalf",
    "SendHalf",
    "Stream",
    "Syncer",
]
