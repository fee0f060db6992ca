"""Events of a broker's metadata: its topics, offsets and groups.

`table` is the name of a kind, as "topics" or "consumer_offsets".
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class MetadataRead:
    """The tables were read from their files. Emitted by metadata, at each start.

    Attributes:
        topics, subscriptions, offsets: how many rows these tables have; the second is that of
            subscription groups.
    """

    topics: int
    subscriptions: int
    offsets: int


@attrs.frozen(kw_only=True)
class MetadataAdopted:
    """A slave took a table from its master. Emitted by metadata, where that changed something.

    Attributes:
        counter, timestamp: of the master's version of the table; 0: it has none.
        rows: how many it has now.
        removed: how many of its rows went, because the master has removed them.
    """

    table: str
    counter: int
    timestamp: int
    rows: int
    removed: int


@attrs.frozen(kw_only=True)
class MetadataNotWritten:
    """A table could not be written; its file has the old content until a later try. Emitted by
    metadata, once until one succeeds.
    """

    table: str
    reason: str
