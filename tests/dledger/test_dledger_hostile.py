"""A whole member on real sockets and files gets bodies that no peer would send, and goes on.

What cannot be read is refused by the remoting layer's code, what can be read but says too little by
the body's; a frame that is too long ends its connection. Beside all of it pushes and appends go on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from entry_kit import new_entry
from free_ports import free_port
from group_kit import run_member
from rpc_kit import Client, frame_of

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.env.real import real_env
from actors.env.tcp import TcpNetwork
from actors.events.remoting import RPCConnectionClosed, RPCFrameRefused
from actors.events.runtime import ActorCrashed
from wire.dledger.codes import PushType, RequestCode
from wire.dledger.entry import (
    Entry,
)
from wire.dledger.rpc import AppendEntryRequest, HeartBeatRequest, PushEntryRequest, Request
from wire.remoting.frame import FRAME_BYTES_MAX, REMOTING_SYSTEM_ERROR, encode_frame
from wire.remoting.header import Header

pytestmark = pytest.mark.real_io

HOSTS = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
WITHIN_S = 60.0
DEEP = 100_000
HUGE_BYTES = 17 << 20
MIB = 1 << 20
HALVES = 32
LARGE_BYTES = 100_000
ENTRY = {"body": "eA==", "index": 0, "magic": 1, "pos": 0, "size": 49, "term": 0}
BASE = {"group": "g", "remoteId": "n0", "localId": "n1", "leaderId": "n1", "term": 0}
READABLE: dict[RequestCode, dict[str, Any]] = {
    RequestCode.METADATA: BASE,
    RequestCode.APPEND: {**BASE, "body": "eA=="},
    RequestCode.GET: {**BASE, "beginIndex": 0},
    RequestCode.VOTE: {**BASE, "ledgerEndIndex": -1, "ledgerEndTerm": -1},
    RequestCode.HEART_BEAT: BASE,
    RequestCode.PUSH: {**BASE, "type": "COMPARE", "commitIndex": -1, "entry": ENTRY},
    RequestCode.LEADERSHIP_TRANSFER: {**BASE, "transferId": "n0", "transfereeId": "n1"},
    RequestCode.INSTALL_SNAPSHOT: {**BASE, "data": "eA=="},
}
"""A body of each request that a member reads; what follows is made of them."""
NUMBERS: tuple[Any, ...] = (None, 10**20, -(10**20), "x", "", 1.5, [], {}, True)
TEXTS: tuple[Any, ...] = (5, [], {}, True)
BYTES: tuple[Any, ...] = ("eA", "a-_=", "e A==", "!", 5, [1], {}, True)
ENTRIES: tuple[Any, ...] = (
    [],
    {},
    "x",
    5,
    *({k: v for k, v in ENTRY.items() if k != key} for key in ENTRY),
)


def misread(code: RequestCode, body: dict[str, Any]) -> Iterator[bytes]:
    """One field at a time is of another kind, beyond its range, or no Base64."""
    for key, value in body.items():
        wrong = ENTRIES if key == "entry" else BYTES if key in ("body", "data") else ()
        if not wrong and key != "type":
            wrong = NUMBERS if isinstance(value, int) else TEXTS
        for each in wrong:
            if (key, each) != ("beginIndex", None):  # which is one that is not there
                yield json.dumps({**body, key: each}).encode()
    if "entry" in body:
        for key in ENTRY:
            for each in BYTES if key == "body" else NUMBERS:
                yield json.dumps({**body, "entry": {**ENTRY, key: each}}).encode()


UNREADABLE = (
    b"",
    b"x",
    b"{",
    b"[]",
    b"null",
    b"5",
    b'"x"',
    b"\xff\xfe",
    b"[" * DEEP,
    b'{"a":' * DEEP,
)
TOO_LITTLE = (
    (RequestCode.METADATA, {}, 401),
    (RequestCode.METADATA, {"group": None, "remoteId": "n0"}, 400),
    (RequestCode.VOTE, {"group": "other", "remoteId": "n0"}, 400),
    (RequestCode.HEART_BEAT, {"group": "g"}, 401),
    (RequestCode.PUSH, {"group": "g", "remoteId": None}, 401),
    (RequestCode.APPEND, {"group": "g", "remoteId": "n9", "body": "eA=="}, 401),
)
"""Code, body, and the code in the answer's."""
OF_A_LEADER = (
    (RequestCode.APPEND, {"group": "g", "remoteId": "n0"}, 411),
    (RequestCode.APPEND, {"group": "g", "remoteId": "n0", "body": None}, 411),
    (RequestCode.GET, {"group": "g", "remoteId": "n0"}, 411),
    (RequestCode.GET, {"group": "g", "remoteId": "n0", "beginIndex": None}, 411),
    (RequestCode.LEADERSHIP_TRANSFER, {"group": "g", "remoteId": "n0"}, 411),
)
OF_A_FOLLOWER = tuple(
    (RequestCode.PUSH, {**BASE, **more}, 411)
    for more in (
        {"type": "APPEND"},
        {"type": "COMPARE"},
        {"type": "TRUNCATE", "entry": None},
        {"type": None, "entry": ENTRY},
        {"type": "NOPE", "entry": ENTRY},
        {"type": "COMMIT", "entry": ENTRY},
        {"type": "APPEND", "entry": {**ENTRY, "size": 50}},
        {"type": "APPEND", "entry": {**ENTRY, "magic": 0}},
        {"type": "APPEND", "entry": {**ENTRY, "term": 9}},
        {"type": "APPEND", "batchEntry": [ENTRY, ENTRY]},
    )
)
OF_NO_TERM = tuple(
    (code, {**READABLE[code], "term": (1 << 63) - 1}, 411)
    for code in (RequestCode.VOTE, RequestCode.HEART_BEAT, RequestCode.PUSH)
)
"""A member that took such a term could take no later one."""


@attrs.define
class Member:
    """n0 of group g, alone on this machine."""

    port: int
    seen: list[Any] = attrs.field(factory=list)
    _clients: list[Client] = attrs.field(factory=list)
    _opaque: int = 0

    async def connect(self, host: str = "127.0.0.1") -> Client:
        stream = await TcpNetwork().connect(HOSTS["n0"], self.port, local_host=host)
        self._clients.append(Client.of(stream))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.stream.abort()

    async def ask(self, client: Client, code: int, body: bytes) -> tuple[int, dict[str, Any]]:
        """The header's code of the answer, and its body."""
        self._opaque += 1
        await client.put(encode_frame(Header(code=code, opaque=self._opaque), body))
        answer = await client.next_frame()
        assert answer.header.opaque == self._opaque
        return answer.header.code, json.loads(answer.body) if answer.body else {}

    async def answer_to(self, client: Client, request: Request) -> dict[str, Any]:
        await client.put(frame_of(request, 1))
        return json.loads((await client.next_frame()).body)  # type: ignore[no-any-return]


@asynccontextmanager
async def member(folder: Path, members: int) -> AsyncIterator[Member]:
    names = tuple(HOSTS)[:members]
    found = Member(free_port())
    group = DLedgerGroup(
        name="g",
        members=names,
        port=found.port,
        data_file_bytes=1 << 20,
        index_file_bytes=1 << 16,
        term_entry="none",
    )
    nodes = {name: HOSTS[name] for name in names}
    config = ClusterConfig(
        name="hostile", data_dir=str(folder), nodes=nodes, groups={"g": group}, api_port=None
    )
    validate(config)
    with trio.fail_after(WITHIN_S):
        async with trio.open_nursery() as nursery:
            env = real_env(events=lambda path, incarnation, event: found.seen.append(event))
            system = await nursery.start(partial(run_member, config, "n0", env))
            yield found
            assert [each for each in found.seen if isinstance(each, ActorCrashed)] == []
            found.close()
            await system.stop()


async def send_bad_ones(
    node: Member, host: str, said: tuple[tuple[RequestCode, dict[str, Any], int], ...]
) -> int:
    """Every bad body; how many."""
    client = await node.connect(host)
    count = 0
    for code, body in READABLE.items():
        for bad in (*UNREADABLE, *misread(code, body)):
            assert await node.ask(client, code, bad) == (REMOTING_SYSTEM_ERROR, {}), bad[:200]
            count += 1
    for code, body, expected in (*TOO_LITTLE, *said):
        found, answer = await node.ask(client, code, json.dumps(body).encode())
        assert (found, answer["code"]) == (200, expected), (body, answer)
        count += 1
    for length in (HUGE_BYTES, 2**31 - 1, 2**32 - 1, 0):
        huge = await node.connect(host)
        await huge.put(length.to_bytes(4) + bytes(100))
        assert await huge.ended()
    return count


async def beside(more: Callable[[int], Any], until: trio.Event) -> int:
    """Ask for one thing after the other until the bad ones are through, and once more."""
    number = 0
    while True:
        last = until.is_set()
        await more(number)
        number += 1
        if last:
            return number


@pytest.mark.checklist(4, 5, of="dledger")
async def test_appends_go_on_beside_bad_bodies(tmp_path: Path) -> None:
    async with member(tmp_path, 1) as node:
        client, over = await node.connect(), trio.Event()
        request = AppendEntryRequest(group="g", remote_id="n0", body=b"good")
        while (await node.answer_to(client, request))["code"] != 200:  # noqa: ASYNC110
            await trio.sleep(0.05)  # until it leads

        async def append(number: int) -> None:
            answer = await node.answer_to(client, request)
            assert (answer["code"], answer["index"]) == (200, number + 1)

        async def bad() -> None:
            assert await send_bad_ones(node, "127.0.0.1", OF_A_LEADER) > 300
            over.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bad)
            assert await beside(append, over) > 1
        assert any(isinstance(each, RPCFrameRefused) for each in node.seen)
        reasons = {each.reason for each in node.seen if isinstance(each, RPCConnectionClosed)}
        assert any(str(HUGE_BYTES) in reason for reason in reasons), reasons


async def following(node: Member) -> Callable[..., Any]:
    """Have it follow n1; gives what pushes the next entry, with a body of so many bytes."""
    client = await node.connect(HOSTS["n1"])
    base: dict[str, Any] = {"group": "g", "remote_id": "n0", "leader_id": "n1", "term": 0}
    beat = HeartBeatRequest(**base)
    entries: list[Entry] = []

    async def push(number: int, body_bytes: int = 1) -> None:
        assert (await node.answer_to(client, beat))["code"] == 200
        pos = entries[-1].pos + entries[-1].size if entries else 0
        entries.append(new_entry(index=number, term=0, pos=pos, body=b"x" * body_bytes))
        kind = PushType.APPEND if number else PushType.TRUNCATE
        asked = PushEntryRequest(type=kind, entry=entries[-1], commit_index=number - 1, **base)
        answer = await node.answer_to(client, asked)
        assert (answer["code"], answer["endIndex"]) == (200, number)

    assert (await node.answer_to(client, beat))["code"] == 200
    await trio.sleep(0.5)  # it follows
    return push


@pytest.mark.checklist(4, of="dledger")
async def test_pushes_go_on_beside_bad_bodies(tmp_path: Path) -> None:
    async with member(tmp_path, 3) as node:
        push, over = await following(node), trio.Event()

        async def bad() -> None:
            await send_bad_ones(node, HOSTS["n2"], OF_A_FOLLOWER + OF_NO_TERM)
            over.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bad)
            assert await beside(push, over) > 1


@pytest.mark.checklist(4, of="dledger")
async def test_pushes_go_on_beside_half_read_frames(tmp_path: Path) -> None:
    """From members' addresses, more of them than there is room for; also large pushes do."""
    async with member(tmp_path, 3) as node, trio.open_nursery() as nursery:
        push = await following(node)
        begun = (FRAME_BYTES_MAX - 4).to_bytes(4) + (100).to_bytes(4) + bytes(MIB)

        async def half(host: str) -> None:
            client = await node.connect(host)
            await client.put(begun)
            await trio.sleep_forever()

        for number in range(HALVES):
            nursery.start_soon(half, HOSTS["n1" if number % 2 else "n2"])
        await trio.sleep(1)
        for number in range(20):
            await push(number, LARGE_BYTES if number % 5 == 4 else 1)
        nursery.cancel_scope.cancel()
