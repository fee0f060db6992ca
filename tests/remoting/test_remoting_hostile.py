"""What no client would send ends its connection or is refused, and hurts nobody else."""

from __future__ import annotations

import random

import pytest
import trio
from remoting_kit import JSON, NO_FRAMES, binary, frame, head, serving

from actors.events.remoting import RPCConnectionClosed
from actors.events.runtime import ActorCrashed
from wire.remoting.header import SerializeType

MIB = 1 << 20


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
