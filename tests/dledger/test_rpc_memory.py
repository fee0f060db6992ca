"""What a member's port counts for a request that waits is no less than what it takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from entry_kit import new_entry
from rpc_kit import frame_of, keep, request, serving
from waiting_memory import look_at_costs

from actors.remoting.requests import Request
from wire.dledger.entry import Entry
from wire.dledger.rpc import AppendEntryRequest, PushEntryRequest, VoteRequest


def entry(at: int, body: bytes = b"") -> Entry:
    return new_entry(index=at, term=at, pos=at, body=body)


SHAPES: dict[str, Callable[[int], bytes]] = {
    "a question": lambda at: frame_of(request(), at),
    "a vote": lambda at: frame_of(request(VoteRequest, term=at, leader_id=f"n{at}"), at),
    "a push": lambda at: frame_of(request(PushEntryRequest, term=at, entry=entry(at)), at),
    "a large push": lambda at: frame_of(request(PushEntryRequest, entry=entry(at, b"x" * 900)), at),
    "an append": lambda at: frame_of(request(AppendEntryRequest, body=f"{at}".encode()), at),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_a_waiting_request_takes_no_more_than_it_is_counted(
    shape: Callable[[int], bytes], autojump_clock: object
) -> None:
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        await client.ask(request(VoteRequest))  # a member's may have many
        await trio.sleep(1)
        first = kit.asked[0][1].reply_to
        assert isinstance(first, Request)

        def kept() -> int:
            """APPENDs that came together are one question."""
            return sum(len(getattr(each, "requests", (each,))) for _, each in kit.asked)

        await look_at_costs(client, first.channel, kept, shape)
