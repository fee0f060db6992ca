"""Facts of three nodes (see `status_samples`), and views of what they say."""

from __future__ import annotations

from typing import Any

import attrs
from status_samples import said

from actors.cluster.view import ClusterView, FeedView, NodeView, tree_view

MAILBOX: dict[str, Any] = {"depth": 0, "size_bytes": 0}


def slave(node: str, **changes: Any) -> dict[str, Any]:
    found = {
        "node": node,
        "state": "TRANSFER",
        "counts": True,
        "ack_bytes": 70_000_000,
        "lag_bytes": 0,
        "in_sync": True,
        "bytes_per_s": 410_000,
        "last_error": "",
    }
    return {**found, **changes}


def master(**changes: Any) -> dict[str, Any]:
    found = {
        "role": "master",
        "master": "n0",
        "min_bytes": 0,
        "written_bytes": 70_000_000,
        "synced_bytes": 70_000_000,
        "acknowledged_bytes": 69_999_000,
        "slaves": [slave("n1"), slave("n2")],
        "client": None,
        "counts": {"acknowledged": 5000},
    }
    return {**found, **changes}


def slave_group(**changes: Any) -> dict[str, Any]:
    client = {"state": "TRANSFER", "last_error": ""}
    found = {
        "role": "slave",
        "master": "n0",
        "min_bytes": 0,
        "written_bytes": 70_000_000,
        "synced_bytes": 70_000_000,
        "acknowledged_bytes": 69_999_000,
        "slaves": [],
        "client": {**client, **changes.pop("client", {})},
    }
    return {**found, **changes}


def tree(path: str, *children: dict[str, Any], **changes: Any) -> dict[str, Any]:
    found = {
        "path": path,
        "incarnation": 1,
        "state": "RUNNING",
        "restarts": 0,
        "mailbox": MAILBOX,
        "children": list(children),
    }
    return {**found, **changes}


def node_tree(node: str, **store: Any) -> dict[str, Any]:
    return tree(
        f"/{node}",
        tree(f"/{node}/event_log"),
        tree(
            f"/{node}/orders",
            tree(
                f"/{node}/orders/storage",
                tree(f"/{node}/orders/storage/store", **store),
                tree(f"/{node}/orders/storage/syncer"),
                mailbox=None,
            ),
            mailbox=None,
        ),
        tree(f"/{node}/api"),
        mailbox=None,
    )


def node(name: str, group: dict[str, Any], node_state: str = "running", **store: Any) -> NodeView:
    return NodeView(
        node=name,
        state=node_state,
        groups={"orders": said(group)},
        tree=tree_view(node_tree(name, **store)),
    )


FEED = FeedView(
    group="orders",
    source="README.md",
    sent_count=5100,
    acknowledged_count=5000,
    acknowledged_bytes=250_000,
    unknown_count=0,
    in_flight_count=100,
    state="feeding",
)


def cluster(**changes: Any) -> ClusterView:
    view = ClusterView(
        cluster="demo",
        at_s=12.3,
        phase="running",
        nodes=(node("n0", master()), node("n1", slave_group()), node("n2", slave_group())),
        feeds=(FEED,),
    )
    return attrs.evolve(view, **changes)
