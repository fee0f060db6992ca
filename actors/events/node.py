"""Events of a node as a whole, and of its event log about itself."""

from __future__ import annotations

import attrs

ORDERED = "ordered"
"""What NodeStopped says of a stop that somebody asked for."""


@attrs.frozen(kw_only=True)
class NodeStarted:
    """The first event of every boot. Emitted by the event sink, when the node opens it.

    Audits take it for the beginning of a boot: a seq below it is an error.

    Attributes:
        cluster: the cluster's name.
        version: of triolog.
        groups: the groups this node is a member of.
        process: the number of its process, by which `status` finds out that it starts; 0 by older
            versions, and in simulation.
    """

    cluster: str
    version: str
    groups: tuple[str, ...]
    process: int = 0


@attrs.frozen(kw_only=True)
class GroupConfigured:
    """What a group promises, by this node's cluster file. Emitted by the node, at its start, for
    each of its groups.

    Audits: what was acknowledged is on `sure_copies` members, and each has an event log.

    Attributes:
        mode: "classic", "dledger" or "autoswitch".
        members: every node of the group.
        java_members: those of them that are Java nodes, which have no event log.
        sure_copies: nodes that hold whatever was answered, at least; a DLedger group's majority.
        durability: "synced" or "written".
        store: "file", or "memory": a restarted member has lost its entries.
        upstream: with upstream's looser rules, of which audits expect nothing (`compat`, a DLedger
            group's `term_entry = "none"`, or `all_ack_in_sync_state_set = false`).
    """

    mode: str
    members: tuple[str, ...]
    java_members: tuple[str, ...]
    sure_copies: int
    durability: str
    store: str
    upstream: bool = False


@attrs.frozen(kw_only=True)
class NodeStopped:
    """The last event of an ordered boot. Emitted by the event log, when everything else has
    stopped.

    Audits take a boot without it for one that ended by a crash, and its end as open.

    Attributes:
        reason: "ordered", or why the node gave up.
    """

    reason: str


@attrs.frozen(kw_only=True)
class EventsDropped:
    """Events that found no room in memory. Emitted by the event sink, as soon as there is room
    again.

    The completeness audit accepts exactly the holes in `seq` that these name.

    Attributes:
        first_seq: the first that is missing.
        last_seq: the last that is missing; all between them are missing too.
    """

    first_seq: int
    last_seq: int


@attrs.frozen(kw_only=True)
class EventRefused:
    """Something was emitted that is no event or cannot be encoded. Emitted by the sink, in its
    place.

    A mistake in the program: tests demand that it never appears.
    """

    type: str
    error: str


@attrs.frozen(kw_only=True)
class EventFileRepaired:
    """A file that a crash had left open was published. Emitted by the event log, when it starts.

    The completeness audit expects that the boot of that file ends with it.

    Attributes:
        file: its published name.
        events: how many it holds.
        cut_bytes: how much of a torn end was cut off.
    """

    file: str
    events: int
    cut_bytes: int


@attrs.frozen(kw_only=True)
class EventFilesExpired:
    """Old files are not kept by the retention any more. Emitted by the event log, before it deletes
    them: that is done once this event is published.

    Completeness audits take a range that is missing just before the oldest event that is left for
    one that expired before it was read.

    Attributes:
        files: how many.
        size_bytes: of them.
        oldest_boot: boot of the oldest event that is left; 0 by older versions, which deleted
            first, and did not say.
        oldest_seq: its seq.
    """

    files: int
    size_bytes: int
    oldest_boot: int = 0
    oldest_seq: int = 0


@attrs.frozen(kw_only=True)
class EventWriteFailed:
    """The disk took no events. Emitted by the event log, once it takes them again; policy "drop"
    only.

    Attributes:
        error: the first error.
        count: how many attempts failed in a row.
    """

    error: str
    count: int
