"""What no client would send ends its connection or is refused, and hurts nobody else."""

from __future__ import annotations

import random
import struct

import pytest
import trio
from remoting_kit import ECHO, frame, serving

from actors.events.remoting import RPCConnectionClosed
from actors.events.runtime import ActorCrashed
from wire.remoting.header import SerializeType

MIB = 1 << 20
JSON = b'{"code":105,"flag":0,"language":"JAVA","opaque":1,"version":0}'


def head(length: int, header_bytes: int, kind: int = 0) -> bytes:
    return struct.pack(">iI", length, kind << 24 | header_bytes)


def binary(*, fields: bytes = b"", language: int = 0, fields_bytes: int | None = None) -> bytes:
    """A binary request, whose extFields may be anything."""
    size = len(fields) if fields_bytes is None else fields_bytes
    header = struct.pack(">hbhiiii", ECHO, language, 0, 1, 0, 0, size) + fields
    return head(4 + len(header), len(header), 1) + header


NO_FRAMES = {
    "a length of -1": head(-1, 0) + bytes(64),
    "a length of 2**31 - 1": head(2**31 - 1, 0) + bytes(64),
    "a length of 0": bytes(64),
    "above the largest": head(16 * MIB, 10) + bytes(64),
    "a header longer than its frame": head(len(JSON) + 4, len(JSON) + 1) + JSON,
    "a header of 2**24 - 1": head(len(JSON) + 4, 2**24 - 1) + JSON,
    "encoding 2": head(len(JSON) + 4, len(JSON), 2) + JSON,
    "encoding 255": head(len(JSON) + 4, len(JSON), 255) + JSON,
    "no header": head(4, 0),
    "a list": head(6, 2) + b"[]",
    "half a text": head(8, 4) + b'{"c\xff',
    "extFields of a number": head(20, 16) + b'{"extFields": 1}',
    "binary, too short": head(10, 6, 1) + bytes(6),
    "binary, a negative length": binary(fields_bytes=-1),
    "binary, a length beyond": binary(fields_bytes=2**31 - 1),
    "binary, a negative key": binary(fields=struct.pack(">h", -1) + bytes(8)),
    "binary, a value beyond": binary(fields=b"\0\1k" + struct.pack(">i", 99) + b"v"),
    "binary, no text": binary(fields=b"\0\1\xff" + struct.pack(">i", 0)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: ns\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c4") + bytes(200),
}


@pytest.mark.checklist(73, of="broker")
@pytest.mark.parametrize("bad", NO_FRAMES.values(), ids=NO_FRAMES.keys())
async def test_what_is_no_frame_ends_its_connection(bad: bytes, autojump_clock: object) -> None:
    async with serving() as port:
        client, other = await port.connect(), await port.connect("b")
        first = b"" if bad[0] == 0x16 else frame(opaque=1)  # TLS is seen at the first byte
        await client.put(first, bad)
        with trio.fail_after(60):
            assert await client.ended()
        answer = await port.ask(other, frame(opaque=2))
        assert (answer.header.opaque, answer.header.code) == (2, 0)
        (closed,) = port.seen(RPCConnectionClosed)
        assert closed.requests == bool(first)
        assert port.seen(ActorCrashed) == []


@pytest.mark.checklist(73, 76, of="broker")
async def test_a_language_nobody_knows_is_served(autojump_clock: object) -> None:
    """Upstream gains some in each version, and looks at none of them here."""
    async with serving() as port:
        client = await port.connect()
        json = JSON.replace(b"JAVA", b"KLINGON")
        for asked in (
            binary(language=-1),
            binary(language=127),
            head(4 + len(json), len(json)) + json,
        ):
            assert (await port.ask(client, asked)).header.code == 0


@pytest.mark.checklist(73, of="broker")
async def test_random_bytes(autojump_clock: object) -> None:
    """Alone, and as damage to good requests in both encodings."""
    rng = random.Random(7)
    async with serving() as port:
        other = await port.connect("b")
        for turn in range(60):
            client = await port.connect()
            encoding = rng.choice(list(SerializeType))
            data = bytearray(frame(encoding=encoding, body=b"body", topic="t", key="value") * 3)
            if turn % 3 == 0:
                data = bytearray(rng.randbytes(rng.randint(1, 3000)))
            for _ in range(rng.randint(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            await client.put(bytes(data))
            await trio.sleep(0.01)
            client.stream.abort()
            assert (await port.ask(other, frame(opaque=turn))).header.opaque == turn
        await trio.sleep(60)
        assert len(port.seen(RPCConnectionClosed)) == 60
        assert port.seen(ActorCrashed) == []


async def test_half_a_frame_holds_nobody_else_up(autojump_clock: object) -> None:
    """Of many, each of which wants the largest there may be, and of a length it says only."""
    async with serving() as port:
        stalled = [await port.connect() for _ in range(16)]
        for each in stalled:
            await each.put(head(16 * MIB - 5, 100) + bytes(1000))
        other = await port.connect("b")
        for opaque in range(1, 20):
            assert (await port.ask(other, frame(opaque=opaque))).header.code == 0
            await trio.sleep(1)
        for each in stalled:
            assert await each.ended()
        assert (await port.ask(other, frame())).header.code == 0
