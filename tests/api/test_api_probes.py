"""Connections that say nothing, junk or half a handshake, on both sockets of a node.

Afterwards the node is what it was: tasks, actors, mailboxes, connections, and the shared budget.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from api_kit import NODE, PORT, SOCKET, Served, bare_client, serving

from actors.api.budget import Budget
from actors.runtime import TreeNode
from wire.api import frames

UPGRADE = (
    b"GET /triolog HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
JUNK = (
    b"",
    b"\0",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    b"\xff" * 3000,
    UPGRADE[:-20],
    UPGRADE,
    UPGRADE + b"\x82\x80\0\0\0\0",  # an empty message
    UPGRADE + b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",  # one of 2**63 - 1 bytes
    UPGRADE + b"\x02\xfe\xff\xff\0\0\0\0" + b"x" * 1000,  # the beginning of one
    UPGRADE + b"\xf7\x01\x02",
)
PROBES = 20 * 4 * 3 * len(JUNK)
"""Each junk from each listener, read to its end and not, twenty times. 10,000 real ones are in
`tests/service`.
"""


def below(tree: TreeNode) -> Iterator[TreeNode]:
    yield tree
    for child in tree.children:
        yield from below(child)


def picture(served: Served, budgets: list[Budget]) -> dict[str, object]:
    nodes = list(below(served.system.tree()))
    return {
        "actors": [node.path for node in nodes],
        "waiting": sum(node.mailbox.depth for node in nodes if node.mailbox is not None),
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "ends": served.network.ends_count,
        "budget": [(each.received.free_bytes, each.read.free_bytes) for each in budgets],
    }


async def probe(served: Served, number: int) -> None:
    """One connection, and away; turned away already is as good."""
    try:
        if number % 4 == 0:
            stream = await served.stranger.connect(NODE, PORT)
        elif number % 4 == 1:
            stream = await served.host.connect_unix(SOCKET)
        else:
            stream = await served.member.connect(NODE, PORT)
        try:
            receive, send = stream.halves()
            junk = JUNK[number % len(JUNK)]
            if junk.startswith(UPGRADE):
                await send.send_all(UPGRADE)
                await receive.receive_some(4096)
                junk = junk[len(UPGRADE) :]
            await send.send_all(junk)
            if number % 3 == 0:
                with trio.move_on_after(0.05):
                    while await receive.receive_some(4096):
                        pass
        finally:
            stream.abort()
    except (OSError, trio.BrokenResourceError):
        pass


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[Budget]:
    """Those that are made, the node's own among them."""
    made: list[Budget] = []
    original = Budget.of

    def of(limits: object) -> Budget:
        made.append(original(limits))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(Budget, "of", of)
    return made


async def test_probes_leave_nothing_behind(autojump_clock: object, budgets: list[Budget]) -> None:
    async with serving() as served, bare_client(served) as client:
        assert isinstance(await client.ask(frames.GetStatus(id=1)), frames.Status)
        await trio.sleep(1.0)
        before = picture(served, budgets)
        for number in range(PROBES):
            await probe(served, number)
        await trio.sleep(1.0)
        assert picture(served, budgets) == before
        assert len(served.events("APIConnectionRefused")) < 40
        assert served.events("APIFrameRefused")  # some came as far as that
        answer = await client.ask(frames.Append(id=2, group="orders", records=(b"a",)))
        assert isinstance(answer, frames.Appended)
