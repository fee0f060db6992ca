"""A client of a node in a process of its own, for the measurements: `bench_client.py NODE_FOLDER`.

It obeys as `bench_node.py` does, over the API socket. What one connection may have unanswered is
the node's bound, so many tasks share several connections.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import trio
from bench_kit import GROUP
from bench_load import load_producer, load_tasks
from bench_node import commands

from actors.api.socket_file import api_socket_path
from actors.client import connect


async def obey(path: str, command: dict[str, Any]) -> Any:
    do = command.pop("do")
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(path))]
        if do == "producer":
            return await load_producer(clients[0].log(GROUP), **command)
        wanted = math.ceil(command["count"] / clients[0].in_flight_requests_max)
        while len(clients) < wanted:
            clients.append(await stack.enter_async_context(connect(path)))
        return await load_tasks(*(client.log(GROUP) for client in clients), **command)


async def main(folder: str) -> None:
    path = api_socket_path(folder)
    print(json.dumps("ready"), flush=True)
    async for command in commands():
        print(json.dumps(await obey(path, command)), flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
