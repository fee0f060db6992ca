"""A DLedger group on one node as a frozen value, read from the node's status answer.

Positions are indexes of entries, -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

LEADER = "leader"


@attrs.frozen(kw_only=True)
class PeerView:
    """A peer as its leader sees it.

    Attributes:
        matched_index: up to here its log is the leader's; -1 before the first answer of the term.
    """

    node: str
    matched_index: int


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
        peers: on an open leader: all others.
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
        return f"{self.role}{of}{term}{closed}"

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
        """How far the leader knows each peer to be, for people."""
        return tuple(
            f"{peer.node} at {peer.matched_index} behind {self.written_index - peer.matched_index}"
            if peer.matched_index >= 0
            else f"{peer.node} {'not reached yet' if self.written_index >= 0 else 'empty'}"
            for peer in self.peers
        )


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
    return LedgerView(
        group=group,
        role=str(found.get("role", "")),
        leader=str(found.get("leader", "")),
        term=int(found.get("term", -1)),
        is_open=bool(found.get("open", False)),
        begin_index=int(found.get("begin_index", -1)),
        written_index=int(found.get("written_index", -1)),
        synced_index=int(found.get("synced_index", -1)),
        committed_index=int(found.get("committed_index", -1)),
        members_count=len(found.get("members", ())),
        peers=tuple(
            PeerView(node=str(peer["node"]), matched_index=int(peer["matched_index"]))
            for peer in found.get("peers", ())
        ),
    )
