"""The other end of a node's API socket, as a library and as `python -m actors.client`.

    async with connect("var/demo/n0/api.sock") as client:           # or ("127.0.0.1", 10913)
        receipt = await client.log("orders").append([b"one", b"two"])
        async with client.tail("orders", receipt.first) as batches:
            async for batch in batches: ...

`connection` is the client, `requests` what it has under way, `following` what the node pushes;
`targets` finds a node's door from what a person types.
"""

from __future__ import annotations

from actors.client.connection import Client, connect
from actors.client.following import EventBatch, Subscription
from actors.client.targets import connect_node

__all__ = ["Client", "EventBatch", "Subscription", "connect", "connect_node"]
