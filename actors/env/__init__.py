"""What a node may touch of the outside world: network, disk, clock, randomness, events.

`protocols` says what it looks like. `tcp`, `pipes`, `local_disk`, `local_secrets`,
`sync_workers` and `real` are the real ones, and the only modules with sockets, files, threads, the
wall clock and entropy; `actors.sim` has the simulated ones. Everything else gets an `Env` from the
root.
"""

from actors.env.protocols import (
    Address,
    Disk,
    Env,
    EventSink,
    File,
    FileLock,
    FileStat,
    Held,
    HostUnknown,
    Listener,
    LockedByOther,
    LockedByUs,
    Network,
    ReceiveHalf,
    SecretStore,
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
    "Held",
    "HostUnknown",
    "Listener",
    "LockedByOther",
    "LockedByUs",
    "Network",
    "ReceiveHalf",
    "SecretStore",
    "SendHalf",
    "Stream",
    "Syncer",
]
