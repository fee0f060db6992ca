"""What a port holds in memory: no more than it counts, and no longer than requests wait."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import trio
from remoting_kit import frame, head, serving

from actors.remoting.requests import Answer
from actors.remoting.stream import RECEIVE_BYTES

MIB = 1 << 20


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
