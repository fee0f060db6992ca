"""Describes a `GroupStatus` for people, in the same way for each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.config.model import NAME_SERVER
from actors.errors import TriologError
from actors.group_status import DIVERGED, FOLLOWING, OPEN, GroupStatus, Peer
from actors.readable import counted

SHORT_HEADINGS: Final = {"acknowledged": "acked"}
"""Shorter names of columns whose names are wider than their numbers."""


def role_text(own: GroupStatus) -> str:
    """Describe a node's role: `follower of n0 in term 3`."""
    of = f" of {own.leader}" if own.epoch > 0 and own.leader and not own.leads else ""
    return f"{own.role}{of}{own.terms.by(own.epoch)}"


def extent_text(own: GroupStatus) -> str:
    """Describe what a node's log holds: `entries 0 to 900, synced to 890, committed to 880`."""
    if is_empty(own):
        return "empty"
    ends = (("synced", own.synced), (own.terms.acknowledged, own.acknowledged))
    unit, first = own.terms.unit, own.first
    up_to = f"{unit} up to {own.terms.shown(own.written)}"  # of which it does not say the first
    held = up_to if first < 0 else range_text(unit, first, own.written)
    return ", ".join((held, *(_up_to(own, f"{word} to", word, end) for word, end in ends)))


def range_text(unit: str, first: int, end: int) -> str:
    """Describe what lies between two positions: `bytes 0 to 900`, where the last number is the
    offset behind the last byte; `entries 0 to 899`, where it is the index of the last entry.

    Args:
        unit: "bytes" or "entries".
        end: the position behind the last byte or entry.
    """
    if unit == "bytes":
        return f"bytes {first} to {end}"
    return f"entries {first} to {end - 1}" if end - first > 1 else f"entry {first}"


def link_text(own: GroupStatus) -> str:
    """Describe a follower's side of its connection, without an error that is part of its reason;
    "" if it has none, does not need one, as its log does not fit, or has one and gets no further.
    """
    waits = own.link is not None and own.link.is_up and own.state not in ("", OPEN, FOLLOWING)
    if own.link is None or own.state == DIVERGED or waits:
        return ""
    is_said = own.reason and own.reason in own.link.error
    with_error = own.link.error and not own.link.is_up and not is_said
    return f"{own.link.state} ({own.link.error})" if with_error else own.link.state


def end_text(own: GroupStatus) -> str:
    """Describe where a node's log ends, shorter than `extent_text`: `at 900 committed 880`."""
    if is_empty(own):
        return "empty"
    word = own.terms.acknowledged
    return f"at {own.terms.shown(own.written)} {_up_to(own, word, word, own.acknowledged)}"


def first_text(own: GroupStatus) -> str:
    """Return the position of the first record as text; "-" if there is none."""
    return str(own.first) if own.first >= 0 else "-"


def is_empty(own: GroupStatus) -> bool:
    """Whether the log has no record, as far as its positions show: a log of bytes may begin
    anywhere.
    """
    return own.terms.shown(own.written) == "-"


def peer_text(own: GroupStatus, peer: Peer) -> str:
    """Describe a peer and how far it is known to be: `n1 at 885 behind 15`."""
    end = own.terms.shown(peer.end)
    at = "" if peer.lag is None else f"{'empty' if end == '-' else f'at {end}'} behind {peer.lag}"
    if peer.is_well:
        return f"{peer.node} {at or ('empty' if is_empty(own) else 'not reached yet')}"
    return f"{peer.node} {state_text(peer, at)}"


def state_text(peer: Peer, at: str = "") -> str:
    """Describe a peer's state and the reason.

    Args:
        at: a text to put between them.
    """
    state = f"{peer.state} {at}".rstrip()
    return f"{state}: {peer.reason}" if peer.reason else state


def _up_to(own: GroupStatus, words: str, word: str, end: int) -> str:
    shown = own.terms.shown(end)
    return f"nothing {word}" if shown == "-" else f"{words} {shown}"


def name_server_text(status: Mapping[str, Any]) -> str:
    """`name server 127.0.0.1:9876: 2 brokers, 31 topics`, by a node's status; "": it has none.

    Raises: TriologError: it cannot be read.
    """
    said = status.get(NAME_SERVER)
    if said is None:
        return ""
    try:
        head = f"name server {said['address']}"
        if "brokers" not in said:
            return f"{head}: does not answer"
        return f"{head}: {counted(said['brokers'], 'broker')}, {counted(said['topics'], 'topic')}"
    except (KeyError, TypeError, ValueError) as error:
        raise TriologError(f"cannot read what is said of a name server: {error!r}") from None
