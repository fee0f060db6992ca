"""Whether stored entries are those that a leader sent.

Upstream: openmessaging/dledger, DLedgerEntry.java, equals (0.3.1.2): all but the two checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wire.dledger_entry import Entry, decode_entry


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


def equal_count(
    entries: Sequence[Entry], begin: int, end: int, read: Callable[[int, int], bytes]
) -> int:
    """How many of `entries`, from the first on, are in the log.

    Args:
        begin, end: indexes of the log's first and last entry; -1 if there is none.
        read: entries from an index on, at most so many bytes or one entry.
    """
    count = 0
    data, at = b"", 0
    left = sum(entry.size for entry in entries)
    for entry in entries:
        if not max(begin, 0) <= entry.index <= end:
            break
        if at == len(data):
            data, at = read(entry.index, left), 0
        ours = decode_entry(data, at)
        if not is_equal(ours, entry):
            break
        at += ours.size
        left -= entry.size
        count += 1
    return count
