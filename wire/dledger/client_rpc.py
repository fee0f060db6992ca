"""Bodies of what clients ask DLedger nodes: METADATA, APPEND, GET. See `wire.dledger.rpc`."""

from __future__ import annotations

from wire.dledger.codes import BaseFields, Body
from wire.dledger.entry import Entry
from wire.remoting.tolerant_json import Int, Long, always


class MetadataRequest(BaseFields, frozen=True, kw_only=True):
    """Asks which member leads the group, and which members it has."""


class MetadataResponse(Body, frozen=True, kw_only=True):
    """`peers`: id -> address. Clients connect to these."""

    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    peers: dict[str, str] | None = None
    remote_id: str | None = None
    term: Long = always(-1)


class AppendEntryRequest(Body, frozen=True, kw_only=True):
    """`body`: of the new entry. None (which upstream's batch class is on the wire) has no entry."""

    body: bytes | None = None
    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)


class AppendEntryResponse(Body, frozen=True, kw_only=True):
    """`index`, `pos`: where the entry lies, -1 if nowhere; with 502 `pos` is -1 and `index` not."""

    code: Int = always(200)
    group: str | None = None
    index: Long = always(-1)
    leader_id: str | None = None
    local_id: str | None = None
    pos: Long = always(-1)
    remote_id: str | None = None
    term: Long = always(-1)


class GetEntriesRequest(Body, frozen=True, kw_only=True):
    """`begin_index`: the entry asked for. Nobody uses `index_list` and `max_size`."""

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
    """`entries`: one, or none if refused."""

    code: Int = always(200)
    entries: tuple[Entry, ...] = always(())
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)
