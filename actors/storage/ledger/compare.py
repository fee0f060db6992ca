"""Whether stored entries are those that a leader sent.

Upstream: openmessaging/dledger, DLedgerEntry.java, equals (0.3.1.2): all but the two checksums.
"""

from __future__ import annotations

from wire.dledger.entry import Entry


def is_equal(ours: Entry, theirs: Entry) -> bool:
    """As upstream compares entries."""
    return (
        ours.index == theirs.index
        and ours.term == theirs.term
        and ours.pos == theirs.pos
        and ours.size == theirs.size
        and ours.magic == theirs.magic
        and ours.channel == theirs.channel
        and ours.body == theirs.body
    )
