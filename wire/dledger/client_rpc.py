"""Bodies of what clients ask DLedger nodes: METADATA, APPEND, GET. See `wire.dledger.rpc`."""

from __future__ import annotations

from wire.dledger.codes import BaseFields, Body
from wire.dledger.entry import Entry
from wire.remoting.tolerant_json import Int, Long, always


class MetadataRequest(BaseFields, frozen=True, kw_only=True):
    """Asks which member leads the group, and which members it has."""


class MetadataResponse(Body, frozen=True, kw_only=True):
    """The answer to METADATA. `peers`: by id, the members' addresses, to which clients connect."""

    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    peers: dict[str, str] | None = None
    remote_id: str | None = None
    term: Long = always(-1)


class AppendEntryRequest(Body, frozen=True, kw_only=True):
    """Asks to append an entry.

    `body` is the body of the new entry; None, as in upstream's batch class on the wire, has no
    entry.
    """

    body: bytes | None = None
    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)


class AppendEntryResponse(Body, frozen=True, kw_only=True):
    """The answer to APPEND.

    `index` and `pos` are those of the entry; -1 if it was not written. With code 502 only `pos` is
    -1.
    """

    code: Int = always(200)
    group: str | None = None
    index: Long = always(-1)
    leader_id: str | None = None
    local_id: str | None = None
    pos: Long = always(-1)
    remote_id: str | None = None
    term: Long = always(-1)


class GetEntriesRequest(Body, frozen=True, kw_only=True):
    """Asks for the entry `begin_index`. No member or client uses `index_list` and `max_size`."""

    begin_index: Long | None = None
    code: Int = always(200)
    group: str | None = None
    index_list: tuple[Long, ...] | None = None
    leader_id: str | None = None
    local_id: str | None = None
    max_size: Int = always(0)
    remote_id: str | None = None
    term: Long = always(-1)


class GetEntriesResponse(Body, frozen=True, kw_only=True):
    """The answer to GET, with one entry in `entries`; none if it is refused."""

    code: Int = always(200)
    entries: tuple[Entry, ...] = always(())
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)
