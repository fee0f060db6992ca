"""Facts of three members of a DLedger group (see `status_samples`), and views of what they say."""

from __future__ import annotations

from typing import Any

import attrs
from cluster_samples import FEED, cluster, node_tree
from status_samples import said

from actors.cluster.view import ClusterView, NodeView, tree_view


def leader(**changes: Any) -> dict[str, Any]:
    found = {
        "mode": "dledger",
        "role": "leader",
        "leader": "n0",
        "open": True,
        "term": 3,
        "members": ["n0", "n1", "n2"],
        "begin_index": 0,
        "written_index": 900,
        "synced_index": 890,
        "committed_index": 880,
        "peers": [{"node": "n1", "matched_index": 885}, {"node": "n2", "matched_index": -1}],
    }
    return {**found, **changes}


def follower(**changes: Any) -> dict[str, Any]:
    return leader(role="follower", open=False, written_index=885, peers=[]) | changes


def member(name: str, group: dict[str, Any], node_state: str = "running") -> NodeView:
    return NodeView(
        node=name,
        state=node_state,
        groups={"ledger": said(group)},
        tree=tree_view(node_tree(name)),
    )


LEDGER_FEED = attrs.evolve(FEED, group="ledger")


def members(*nodes: NodeView, **changes: Any) -> ClusterView:
    ends = {"written_index": 100, "synced_index": 95, "committed_index": 90}
    campaigning = follower(role="candidate", leader="", **ends)
    shown = nodes or (
        member("n0", leader()),
        member("n1", follower()),
        member("n2", campaigning),
    )
    return cluster(**{"nodes": shown, "feeds": (LEDGER_FEED,), **changes})
