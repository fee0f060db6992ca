"""The API socket's client: for programs that do not embed a node, and as a command.

    async with client.connect("var/demo/n0/api.sock") as node:
        receipt = await node.append("orders", [b"one", b"two"])
        async with node.log("orders").appender() as out:      # pipelined: the fast path
            await out.send(b"...")
        async with node.tail("orders", start=receipt.first) as batches:
            async for batch in batches: ...

`python -m actors.client --help` is the command.
"""

from actors.client.connecting import connect, parse_address
from actors.client.connection import Client
from actors.client.following import EventTail, Tail

__all__ = ["Client", "EventTail", "Tail", "connect", "parse_address"]
