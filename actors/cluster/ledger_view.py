"""A DLedger group on one node as a frozen value, read from the node's status answer.

Positions are indexes of entries, -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from actors.client.ledger_words import why_none_leads, without_majority

LEADER = "leader"
APPENDING = "appending"
"""How a peer usually is."""


@attrs.frozen(kw_only=True)
class PeerView:
    """A peer as its leader sees it.

    Attributes:
        matched_index: up to here its log is the leader's; -1 before the first answer of the term.
        lag: entries that it is not known to hold; None: nothing is known of its log.
        state: a word of `actors.node.ledger_peers`; "" from a node that says none.
        reason: of a state that is not as it should be, "" if there is none.
    """

    node: str
    matched_index: int
    lag: int | None = None
    state: str = ""
    reason: str = ""

    @property
    def is_well(self) -> bool:
        """It answers, and takes what it gets."""
        return self.state in ("", APPENDING)

    @property
    def words(self) -> str:
        """Its state, for people."""
        return f"{self.state}: {self.reason}" if self.reason else self.state

    @property
    def end(self) -> str:
        """How far it is, for people; "" if nothing is known."""
        if self.lag is None:
            return ""
        at = f"at {self.matched_index}" if self.matched_index >= 0 else "empty"
        return f"{at} behind {self.lag}"


@attrs.frozen(kw_only=True)
class LedgerView:
    """One group on one node.

    Attributes:
        role: "leader", "follower" or "candidate".
        leader: of the term, "" if the node knows none.
        term: of the node, -1 before it has one.
        is_open: a leader that takes appends.
        begin_index, written_index, synced_index: of the node's log.
        committed_index: up to here the node may show entries.
        members_count: of the group, as configured.
        peers: on a leader all others, on a candidate those that it has asked.
        refusal: why the node's log takes no entries, its leader's or, of a leader or a candidate,
            its own; "": it does.
        strangers: addresses of no member that came lately, and were turned away.
        unsaved_vote: why the node takes no part in elections; "": it does.
        joining: why the node's vote does not count alone; "": it does.
        weaker: members that acknowledge what is not on their disks, and should: name and settings.
    """

    group: str
    role: str
    leader: str
    term: int
    is_open: bool
    begin_index: int
    written_index: int
    synced_index: int
    committed_index: int
    members_count: int
    peers: tuple[PeerView, ...]
    refusal: str = ""
    strangers: tuple[str, ...] = ()
    unsaved_vote: str = ""
    joining: str = ""
    weaker: tuple[tuple[str, str], ...] = ()

    @property
    def quorum(self) -> int:
        """Members that make a decision."""
        return self.members_count // 2 + 1

    @property
    def copies_count(self) -> int:
        """On the leader: members that hold what is committed, itself among them."""
        return 1 + sum(peer.matched_index >= self.committed_index for peer in self.peers)

    @property
    def words(self) -> str:
        """The role, for people."""
        of = f" of {self.leader}" if self.role == "follower" and self.leader else ""
        closed = "" if self.is_open or self.role != LEADER else ", takes no appends yet"
        term = f" in term {self.term}" if self.term >= 0 else ""
        refuses = f", takes no entries: {self.refusal}" if self.refusal else ""
        lacks = f", {self.without_majority}" if self.without_majority else ""
        unsaved = f", {self.unsaved_vote}" if self.unsaved_vote else ""
        joins = f", {self.joining}" if self.joining else ""
        return f"{self.role}{of}{term}{closed}{refuses}{unsaved}{joins}{lacks}"

    @property
    def without_majority(self) -> str:
        """How many others answer a candidate that no majority does, for people; else ""."""
        states = (peer.state for peer in self.peers)
        joins = bool(self.joining)
        return without_majority(self.role, self.members_count, states, joins=joins)

    @property
    def why_none_leads(self) -> str:
        """What keeps this member from electing anybody, for people; "" if nothing does."""
        return why_none_leads(self.unsaved_vote, self.refusal, self.without_majority, self.joining)

    @property
    def extent(self) -> str:
        """What of the log is here, for people."""
        return extent(self.begin_index, self.written_index, self.synced_index, self.committed_index)

    @property
    def end(self) -> str:
        """Where its log ends, for people; shorter than `extent`."""
        if self.written_index < 0:
            return "empty"
        return f"at {self.written_index} {committed(self.committed_index)}"

    @property
    def peer_ends(self) -> tuple[str, ...]:
        """What each peer is and how far the leader knows it to be, for people."""
        return tuple(f"{peer.node} {self._of_peer(peer)}" for peer in self.peers)

    def _of_peer(self, peer: PeerView) -> str:
        if peer.is_well:
            return peer.end or ("not reached yet" if self.written_index >= 0 else "empty")
        state = f"{peer.state} {peer.end}".rstrip()
        return f"{state}: {peer.reason}" if peer.reason else state


def extent(begin: int, written: int, synced: int, committed_index: int) -> str:
    """`0 to 900, synced to 890, committed to 880`; indexes, -1 for none."""
    if written < 0:
        return "empty"
    to_disk = f"synced to {synced}" if synced >= 0 else "nothing synced"
    return f"{begin} to {written}, {to_disk}, {committed(committed_index, 'committed to')}"


def committed(index: int, word: str = "committed") -> str:
    return f"{word} {index}" if index >= 0 else "nothing committed"


def cell(index: int) -> str:
    """An index or a term in a table."""
    return str(index) if index >= 0 else "-"


def ledger_view(group: str, found: Mapping[str, Any]) -> LedgerView:
    """Read one group's part of a status answer."""
    written_index = int(found.get("written_index", -1))
    return LedgerView(
        group=group,
        role=str(found.get("role", "")),
        leader=str(found.get("leader", "")),
        term=int(found.get("term", -1)),
        is_open=bool(found.get("open", False)),
        begin_index=int(found.get("begin_index", -1)),
        written_index=written_index,
        synced_index=int(found.get("synced_index", -1)),
        committed_index=int(found.get("committed_index", -1)),
        members_count=len(found.get("members", ())),
        peers=tuple(_peer_view(peer, written_index) for peer in found.get("peers", ())),
        refusal=str(found.get("refusal", "")),
        strangers=tuple(map(str, found.get("strangers", ()))),
        unsaved_vote=str(found.get("unsaved_vote", "")),
        joining=str(found.get("joining", "")),
        weaker=tuple((str(name), str(said)) for name, said in found.get("weaker", {}).items()),
    )


def _peer_view(found: Mapping[str, Any], written_index: int) -> PeerView:
    """A node of an older version says how far a peer is, and no more."""
    matched_index = int(found["matched_index"])
    behind = max(0, written_index - matched_index) if matched_index >= 0 else None
    lag = found.get("lag", behind)
    return PeerView(
        node=str(found["node"]),
        matched_index=matched_index,
        lag=None if lag is None else int(lag),
        state=str(found.get("state", "")),
        reason=str(found.get("reason", "")),
    )
