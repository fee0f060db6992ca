"""Makes what the command prints: records, a node's status, summaries; for people and as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from actors.client.bench import Figures
from actors.client.status_text import (
    SHORT_HEADINGS,
    first_text,
    is_empty,
    link_text,
    name_server_text,
)
from actors.config.command_line import columns
from actors.errors import NotMaster
from actors.group_status import GroupStatus, Peer, Scrub, group_statuses
from actors.log_types import Record
from actors.readable import counted, readable

OF_AN_ENTRY = ("position", "next_position")
"""The fields of a DLedger entry, apart from its body."""
_NUMBERS = ("first", "written", "synced", "acked", "committed", "matched", "lag", "MB/s")
"""The columns of `client status` that are as wide as a log is long, and what stands beside them."""
BENCH_COLUMNS = ("window", "appends/s", "records/s", "MB/s", "p50 ms", "p99 ms", "max ms")


def error_text(error: BaseException) -> str:
    """Return an error's text in one line, with the leader's name if the error has it."""
    text = " ".join(str(error).split())
    if isinstance(error, NotMaster) and error.hint is not None and error.hint not in text:
        return f"{text}; {error.hint} leads it"
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if not error.filename else f"{error.filename}: {error.strerror}"
    return text or type(error).__name__


def as_json(value: Any) -> str:
    """Return a value as one line of JSON; attrs classes become objects."""
    return json.dumps(value, ensure_ascii=False, default=attrs.asdict)


def record_line(record: Record) -> bytes:
    """Return a record's body as a line."""
    return record.body + b"\n"


def record_json(record: Record) -> bytes:
    """Return a record's fields as a line of JSON; a body that is not UTF-8 is in Base64."""
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
    """Make a table with one row per window, and below it a line for each window that had
    failures.
    """
    listed = list(figures)
    rows = [BENCH_COLUMNS, *(_bench_row(one) for one in listed)]
    lines = columns(rows, left=0)
    for one in listed:
        if not one.appends:
            lines.append(f"window {one.window}: no append was answered within {one.seconds:g} s")
        if one.first_error is not None:
            end = "ended early" if one.ended_early else "went on"
            lines.append(
                f"window {one.window}: {end}, {counted(one.not_stored, 'append')} not stored and"
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


def status_lines(status: dict[str, Any], width: int = 0) -> list[str]:
    """Describe a node's status: a line, then tables for each kind of group, then whatever is wrong.

    Args:
        width: the columns of the terminal; 0: a line may have any length.

    Raises: TriologError: the status cannot be read.
    """
    head = f"node {status.get('node')} of {status.get('cluster')}, {status.get('state')}"
    lines = [f"{head}, boot {status.get('boot')}"]
    groups = group_statuses(status)
    server = name_server_text(status)
    lines += [server] if server else []
    if not groups:
        return [*lines, "no groups"]
    for terms in dict.fromkeys(own.terms for own in groups.values()):
        alike = {name: own for name, own in groups.items() if own.terms == terms}
        unit = f"in {terms.unit}"
        rows = [_group_row(name, own) for name, own in alike.items()]
        peers = [_peer_row(name, own, peer) for name, own in alike.items() for peer in own.peers]
        for of, keys in (rows, 1), (peers, 2):
            lines += ["", *_table(of, unit, keys, width)] if of else []
    for name, own in groups.items():
        if link := link_text(own):
            lines += ["", f"{name} from {own.leader or '-'}: {link}"]
    odd = [f"{name}: {words}" for name, own in groups.items() for words in _odd(own)]
    read = [f"{name}: {_scrub_text(own.scrub)}" for name, own in groups.items() if own.scrub]
    return [*lines, *(["", *odd] if odd else []), *(["", *read] if read else [])]


def _group_row(name: str, own: GroupStatus) -> dict[str, str]:
    terms = own.terms
    return {
        "group": name,
        "role": own.role,
        terms.leader: own.leader or "-",
        terms.epoch: str(own.epoch) if own.epoch > 0 else "",
        "first": first_text(own),
        "written": "empty" if is_empty(own) else terms.shown(own.written),
        "synced": terms.shown(own.synced),
        SHORT_HEADINGS.get(terms.acknowledged, terms.acknowledged): terms.shown(own.acknowledged),
        "copies": f"{own.copies} {own.durability}",
    }


def _peer_row(name: str, own: GroupStatus, peer: Peer) -> dict[str, str]:
    return {
        "group": name,
        own.terms.peer: peer.node,
        "state": peer.state or "-",
        "matched": own.terms.shown(peer.end),
        "lag": "-" if peer.lag is None else str(peer.lag),
        "MB/s": "" if peer.bytes_per_s is None else f"{peer.bytes_per_s / 1e6:.2f}",
    }


def _table(rows: Sequence[dict[str, str]], unit: str, keys: int, width: int) -> list[str]:
    """Align rows, without columns that are empty in every row. If they are wider than the terminal,
    numbers have a table of their own, for a broken line would stand below the wrong headings.

    Args:
        unit: the unit of positions and lags, which is the first heading.
        keys: how many columns say what a row is of.
        width: see `status_lines`.
    """
    shown = [title for title in rows[0] if any(row[title] for row in rows)]
    whole = _aligned(rows, shown, unit)
    if not width or max(map(len, whole)) <= width:
        return whole
    key, rest = shown[:keys], shown[keys:]
    words = [title for title in rest if title not in _NUMBERS]
    numbers = [title for title in rest if title in _NUMBERS]
    return [*_aligned(rows, key + words, unit), "", *_aligned(rows, key + numbers, unit)]


def _aligned(rows: Sequence[dict[str, str]], titles: Sequence[str], unit: str) -> list[str]:
    cells = ([row[title] or "-" for title in titles] for row in rows)
    left = sum(title not in _NUMBERS for title in titles[:3])
    return columns([[unit, *titles[1:]], *cells], left=left)


def _odd(own: GroupStatus) -> list[str]:
    """Return what is wrong, with this node and with others, one text each."""
    peers = (f"{peer.node}: {peer.reason}" for peer in own.peers if peer.reason)
    return [*own.troubles, *peers, *own.others]


def _scrub_text(scrub: Scrub) -> str:
    """Describe, for people, how much of its log a node has scrubbed."""
    unread = scrub.unread_bytes
    what = (
        f"{counted(unread, 'byte')} of its log not read since its start"
        if unread
        else "its log was read"
    )
    if scrub.whole_age_s is None:
        return f"{what}, no pass over all of it complete"
    return f"{what}, last whole pass {scrub.whole_age_s:.0f} s ago"
