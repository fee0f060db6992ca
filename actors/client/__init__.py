"""The client of a node's API socket, as a library and as `python -m actors.client`.

    async with connect("var/demo/n0/api.sock") as client:           # or ("127.0.0.1", 10913)
        receipt = await client.log("orders").append([b"one", b"two"])
        async with client.tail("orders", receipt.first) as batches:
            async for batch in batches: ...
    async with connect_group("cluster.toml", "orders") as log:      # whichever node leads, also
        later receipt = await log.append([b"one", b"two"])

`connection` is the client of one node, with its requests in `requests` and what the node pushes in
`following`. `targets` finds a node's endpoint from what a user types. `members` finds the leader of
a group, `silence` notices a node that hangs, and `group_backend` goes on with another member when a
node is lost. `race` opens several connections and takes the first; `leading` compares what nodes
say about the leader; `status_text` describes a node's status for people; `slot_retries` tries a
node again that has no slot for one more client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.client.connection import Client as Client
    from actors.client.connection import connect as connect
    from actors.client.following import EventBatch as EventBatch
    from actors.client.following import Subscription as Subscription
    from actors.client.group_backend import connect_group as connect_group
    from actors.client.targets import connect_node as connect_node

_WHERE = {
    "Client": "actors.client.connection",
    "EventBatch": "actors.client.following",
    "Subscription": "actors.client.following",
    "connect": "actors.client.connection",
    "connect_group": "actors.client.group_backend",
    "connect_node": "actors.client.targets",
}

__all__ = ["Client", "EventBatch", "Subscription", "connect", "connect_group", "connect_node"]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that the command can handle Ctrl-C before it loads
    anything.
    """
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
