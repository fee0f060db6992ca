"""What the command prints: records, a node's status, summaries; for people and as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import attrs

from actors.client.bench import Figures
from actors.client.ledger_words import troubles
from actors.config.command_line import columns
from actors.errors import NotMaster
from actors.log_types import Record
from actors.readable import readable

CONNECTED = "transfer"
"""A slave's state while its link is up; its last error is then history."""
OF_AN_ENTRY = ("position", "next_position")
"""What an entry of a DLedger group has beside its body."""
_LEDGER_COLUMNS = ("term", "first", "written", "synced", "committed")
_LEDGER_KEYS = ("term", "begin_index", "written_index", "synced_index", "committed_index")
BENCH_COLUMNS = ("window", "appends/s", "records/s", "MB/s", "p50 ms", "p99 ms", "max ms")


def error_text(error: BaseException) -> str:
    """One line of an error's words; with who leads, if it is about that."""
    text = " ".join(str(error).split())
    if isinstance(error, NotMaster) and error.hint is not None and error.hint not in text:
        return f"{text}; {error.hint} leads it"
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if not error.filename else f"{error.filename}: {error.strerror}"
    return text or type(error).__name__


def as_json(value: Any) -> str:
    """One line; attrs classes become objects."""
    return json.dumps(value, ensure_ascii=False, default=attrs.asdict)


def record_line(record: Record) -> bytes:
    """The body as a line."""
    return record.body + b"\n"


def record_json(record: Record) -> bytes:
    """All fields that it has as a line of JSON; a body that is not UTF-8 stands as Base64."""
    found = attrs.asdict(record)
    body = found.pop("body")
    if not record.is_message:
        found = {name: found[name] for name in OF_AN_ENTRY}
    try:
        found["body"] = body.decode()
    except UnicodeDecodeError:
        found["body_base64"] = base64.b64encode(body).decode()
    if record.is_message:
        found["properties"] = dict(record.properties)
    return readable(as_json(found)).encode() + b"\n"


def bench_lines(figures: Iterable[Figures]) -> list[str]:
    """A table, one row per window, and below it what failed."""
    listed = list(figures)
    rows = [BENCH_COLUMNS, *(_bench_row(one) for one in listed)]
    lines = columns(rows, left=0)
    for one in listed:
        if not one.appends:
            lines.append(f"window {one.window}: no append was answered within {one.seconds:g} s")
        if one.first_error is not None:
            end = "ended early" if one.ended_early else "went on"
            lines.append(
                f"window {one.window}: {end}, {one.not_stored} appends not stored and"
                f" {one.outcome_unknown} with unknown outcome: {one.first_error}"
            )
    return lines


def _bench_row(one: Figures) -> tuple[str, ...]:
    latencies = (one.p50_ms, one.p99_ms, one.max_ms)
    return (
        str(one.window),
        f"{one.appends_per_s:.0f}",
        f"{one.records_per_s:.0f}",
        f"{one.mb_per_s:.2f}",
        *("-" if each is None else f"{each:.2f}" for each in latencies),
    )


def status_lines(status: dict[str, Any]) -> list[str]:
    """What a node says of itself: a line, and for each kind of group a table and its followers."""
    head = f"node {status.get('node')} of {status.get('cluster')}, {status.get('state')}"
    lines = [f"{head}, boot {status.get('boot')}"]
    groups: dict[str, dict[str, Any]] = status.get("groups", {})
    if not groups:
        return [*lines, "no groups"]
    ledgers = {name: group for name, group in groups.items() if group.get("mode") == "dledger"}
    classic = {name: group for name, group in groups.items() if name not in ledgers}
    return [*lines, *_classic_lines(classic), *_ledger_lines(ledgers)]


def _ledger_lines(groups: dict[str, dict[str, Any]]) -> list[str]:
    if not groups:
        return []
    rows: list[tuple[str, ...]] = [("group", "role", "leader", *_LEDGER_COLUMNS, "durability")]
    for name, group in groups.items():
        leader = group.get("leader") or None
        written = _index(group.get("written_index"), none="empty")
        term, first, _, *ends = (_index(group.get(key)) for key in _LEDGER_KEYS)
        cells = (group.get("role"), leader, term, first, written, *ends, group.get("durability"))
        rows.append((name, *map(_cell, cells)))
    lines = ["", *columns(rows, left=3)]
    peers = [(name, peer) for name, group in groups.items() for peer in group["peers"]]
    if peers:
        head = ("group", "peer", "state", "matched", "lag")
        lines += ["", *columns([head, *(_peer_row(name, peer) for name, peer in peers)], left=3)]
    wrong = [line for name, group in groups.items() for line in troubles(name, group)]
    return [*lines, *(["", *wrong] if wrong else [])]


def _peer_row(name: str, peer: dict[str, Any]) -> tuple[str, ...]:
    """A node of an older version says no state and no lag."""
    state, lag = peer.get("state"), peer.get("lag")
    return (name, str(peer["node"]), _cell(state), _index(peer["matched_index"]), _cell(lag))


def _classic_lines(groups: dict[str, dict[str, Any]]) -> list[str]:
    if not groups:
        return []
    names = ("group", "role", "master", "first", "written", "synced", "acknowledged", "copies")
    rows: list[tuple[str, ...]] = [(*names, "durability")]
    rows += [_group_row(name, group) for name, group in groups.items()]
    lines = ["", *columns(rows, left=3)]
    slaves = [
        _slave_row(name, slave) for name, group in groups.items() for slave in group["slaves"]
    ]
    if slaves:
        head_row = ("group", "slave", "state", "in sync", "acknowledged", "lag", "MB/s")
        lines += ["", *columns([head_row, *slaves], left=4)]
    for name, group in groups.items():
        client = group.get("client")
        if client is not None:
            state = _cell(client.get("state")).lower()
            lost = client.get("last_error") and state != CONNECTED
            error = f", last error: {client['last_error']}" if lost else ""
            lines += ["", f"{name} follows {_cell(group.get('master'))}: {state}{error}"]
    read = [(name, scrub) for name, group in groups.items() if (scrub := group.get("scrub"))]
    lines += ["", *(f"{name}: {_scrub_words(scrub)}" for name, scrub in read)] if read else []
    return lines


def _group_row(name: str, group: dict[str, Any]) -> tuple[str, ...]:
    keys = ("role", "master", "min_bytes", "written_bytes", "synced_bytes", "acknowledged_bytes")
    return (name, *(_cell(group.get(key)) for key in (*keys, "copies", "durability")))


def _slave_row(name: str, slave: dict[str, Any]) -> tuple[str, ...]:
    in_sync = "yes" if slave.get("in_sync") else "no"
    return (
        name,
        _cell(slave.get("node")),
        _cell(slave.get("state")).lower(),
        in_sync if slave.get("counts", True) else f"{in_sync}, written only",
        _cell(slave.get("ack_bytes")),
        _cell(slave.get("lag_bytes")),
        f"{(slave.get('bytes_per_s') or 0) / 1e6:.2f}",
    )


def _index(value: Any, none: str = "-") -> str:
    """An index, or a term; -1 says that there is none."""
    return none if value == -1 else _cell(value)


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _scrub_words(scrub: dict[str, Any]) -> str:
    """What the scrubber has read of a log, for people."""
    unread, age_s = scrub["unread_bytes"], scrub["whole_age_s"]
    what = f"{unread} bytes of its log not read since its start" if unread else "its log was read"
    if age_s is None:
        return f"{what}, no pass over all of it complete"
    return f"{what}, last whole pass {age_s:.0f} s ago"
