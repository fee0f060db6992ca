"""What a port holds in memory: no more than it counts, and no longer than requests wait."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import trio
from remoting_kit import LATER, frame, head, serving
from waiting_memory import look_at_costs

from actors.remoting.requests import Answer
from actors.remoting.stream import RECEIVE_BYTES
from wire.remoting.frame import encode_frame
from wire.remoting.header import Header, SerializeType

MIB = 1 << 20
LONG = "x" * 1000
WIDE = "\U0001f600"
"""A character that makes each one of its text four bytes wide."""
SHAPES: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda at: frame(LATER, at),
    "a field": lambda at: frame(LATER, at, topic=f"t{at}"),
    "a binary header": lambda at: frame(LATER, at, t=f"{at}", encoding=SerializeType.ROCKETMQ),
    "many fields": lambda at: frame(LATER, at, **{f"{at}-{of}": f"{of}-{at}" for of in range(50)}),
    "a wide field": lambda at: frame(LATER, at, t=f"{WIDE}{at}{LONG}"),
    "a remark": lambda at: encode_frame(Header(code=LATER, opaque=at, remark=f"{at}{LONG}")),
    "a body": lambda at: frame(LATER, at, f"{at}{LONG}".encode()),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_a_waiting_request_takes_no_more_than_it_is_counted(
    shape: Callable[[int], bytes], autojump_clock: object
) -> None:
    async with serving(posted=True) as port:
        client = await port.connect()
        await port.ask(client, frame())
        await look_at_costs(client, port.channels[0], lambda: len(port.kept), shape)


@pytest.fixture
def held_bytes() -> Iterator[Callable[[], int]]:
    """The bytes that were asked for since the test began, and are held."""

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        yield held
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("posted", [False, True])
async def test_an_answered_request_is_not_held(
    posted: bool, held_bytes: Callable[[], int], autojump_clock: object
) -> None:
    """Nor are the bytes in which it came, though its sender stays and sends no more."""
    async with serving(posted=posted) as port:
        port.table[1] = lambda request: Answer()
        client = await port.connect()
        await port.ask(client, frame(1))
        before = held_bytes()
        await port.ask(client, frame(1, body=bytes(8 * MIB)))
        await trio.sleep(1)
        assert held_bytes() - before < MIB // 8


async def test_requests_that_wait_to_be_read_are_not_decoded(
    held_bytes: Callable[[], int], autojump_clock: object
) -> None:
    """Each takes some ten bytes of a receive, and would take hundreds as an object."""
    async with serving(unanswered_max=32) as port:
        port.table[0] = port.kept.append
        client = await port.connect()
        least = head(6, 2) + b"{}"
        before = held_bytes()
        await client.put(least * (RECEIVE_BYTES // len(least)))
        await trio.sleep(1)
        assert len(port.kept) == 32
        assert held_bytes() - before < 3 * RECEIVE_BYTES
