"""DLedger groups in the live view, in plain lines and in `status`. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.table import Table

from actors.client.ledger_words import stranger
from actors.cluster.cells import STATE_NARROW_CHARS, STATE_WIDE_CHARS, STYLES, line
from actors.cluster.ledger_view import LEADER, LedgerView, PeerView, cell
from actors.cluster.rates import Rates
from actors.cluster.view import ClusterView, NodeView
from actors.dledger.weaker import weaker_words

_WORDS = ("group", "node", "role")
_COLUMNS = (*_WORDS, "term", "first", "written", "synced", "committed", "matched", "lag")
_ONLY_WIDE = ("first", "synced", "matched")


def ledger_table(
    view: ClusterView, groups: Iterable[str], rates: Mapping[str, Rates], wide: bool
) -> Table:
    """A row for each member, as far as they are known: indexes of entries.

    `matched` and `lag` are what the leader knows of a peer; of one that is no node of ours, all.
    """
    table = Table(
        box=None, pad_edge=False, header_style="bold", padding=(0, 2 if wide else 1, 0, 0)
    )
    shown = [name for name in _COLUMNS if wide or name not in _ONLY_WIDE]
    for name in (*shown, "rec/s"):
        table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=True)
    state_chars = STATE_WIDE_CHARS if wide else STATE_NARROW_CHARS
    table.add_column("state", no_wrap=True, max_width=state_chars)
    for group in groups:
        peers = _peers(view, group)
        for position, node in enumerate(_in_order(view, group)):
            own, peer = node.ledgers[group], peers.pop(node.node, None)
            cells = {
                "group": group if position == 0 else "",
                "node": node.node,
                "role": own.role,
                "term": cell(own.term),
                "first": cell(own.begin_index),
                "written": cell(own.written_index) if own.written_index >= 0 else "empty",
                "synced": cell(own.synced_index),
                "committed": cell(own.committed_index),
                **_known(peer),
            }
            takes = own.is_open and node.state != "away"  # it may have been replaced since
            speed = f"{rates.get(group, Rates()).records_per_s:.0f}" if takes else ""
            state = line(_state(node, own, peer), STYLES.get(node.state, ""))
            table.add_row(*(cells[name] for name in shown), speed, state)
        for peer in peers.values():
            cells = {"node": peer.node, **_known(peer)}
            table.add_row(*(cells.get(name, "") for name in shown), "", line(peer.words))
    return table


def ledger_line(view: ClusterView, group: str) -> str:
    """One group for logs and pipes, without time and rate."""
    found = view.leader_of(group)
    if found is None:
        named = view.named_leader_of(group)
        ours = [node for node in view.nodes if group in node.ledgers]
        if named is None:
            found_out = ((node.node, node.ledgers[group].why_none_leads) for node in ours)
            lacks = (f"{name}: {words};" for name, words in found_out if words)
            return " ".join(["nobody leads;", *lacks])
        words = [f"{named[0]} leads in term {named[1]};"]
        ends = (f"{node.node} {node.ledgers[group].end};" for node in ours)
        return " ".join([*words, *ends])
    node, own = found
    words = [f"{node} {own.words} {own.end};"]
    return " ".join([*words, *(f"{peer};" for peer in own.peer_ends)])


def ledger_lines(name: str, own: LedgerView) -> list[str]:
    """One group of one node, for `status`."""
    return [
        f"  {name}: {own.words}, {own.extent}",
        *(f"    {peer}" for peer in own.peer_ends),
        *(f"    {weaker_words(*pair)}" for pair in own.weaker),
        *(f"    {stranger(address)}" for address in own.strangers),
    ]


def _peers(view: ClusterView, group: str) -> dict[str, PeerView]:
    """As the leader sees them."""
    found = view.leader_of(group)
    return {} if found is None else {peer.node: peer for peer in found[1].peers}


def _known(peer: PeerView | None) -> dict[str, str]:
    if peer is None:
        return {"matched": "", "lag": ""}
    lag = "-" if peer.lag is None else str(peer.lag)
    return {"matched": cell(peer.matched_index), "lag": lag}


def _state(node: NodeView, own: LedgerView, peer: PeerView | None) -> str:
    if node.state != "running":
        return node.state
    if own.role == LEADER:
        return "running" if own.is_open else "takes no appends yet"
    if own.unsaved_vote:
        return own.unsaved_vote
    if own.refusal:
        return f"takes no entries: {own.refusal}"
    if peer is not None and not peer.is_well:
        return peer.words
    if own.without_majority:
        return own.without_majority
    return f"follows {own.leader}" if own.leader else "knows no leader"


def _in_order(view: ClusterView, group: str) -> list[NodeView]:
    """The leader first."""
    members = [node for node in view.nodes if group in node.ledgers]
    found = view.leader_of(group)
    return sorted(members, key=lambda node: found is None or node.node != found[0])
