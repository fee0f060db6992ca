"""Records as they are stored, across the API socket: who gets them so, and what comes first."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from api_kit import MemoryNode, bare_client, serving
from trio.testing import MockClock

from actors.api.frame_socket import FrameSocket
from actors.api.outbox import Outbox
from actors.client.following import read_batch
from actors.errors import CorruptLog
from actors.log_types import Found, NewRecord, StoredBatch
from actors.storage.commitlog.group_commit import AppendEncoder
from wire.api import frames

BODIES = (b"one", b"two", b"three")


def encoded(records: tuple[NewRecord, ...]) -> bytes:
    encoder = AppendEncoder(
        default_topic="orders",
        host=("127.0.0.1", 10911),
        segment_bytes=1 << 30,
        body_bytes_max=8 << 20,
        next_offsets={},
    )
    batch = encoder.begin(0)
    encoder.add(batch, records, 1000)
    return b"".join(map(bytes, batch.parts))


@attrs.define(eq=False)
class StoringNode(MemoryNode):
    """Answers reads with stored bytes: all of them at 0, nothing behind."""

    data: bytes = b""

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found:  # type: ignore[override]
        await trio.lowlevel.checkpoint()
        end = len(self.data)
        return StoredBatch(
            start=start,
            data=self.data[start:],
            entries=False,
            skips_empty=False,
            next=end,
            acknowledged=end,
            end=end,
            lag_bytes=0,
        )


def read(number: int = 1) -> frames.Read:
    return frames.Read(id=number, group="orders", start=0, max_bytes=1000)


async def asked(node: StoringNode, *, version: int, text: bool = False) -> frames.Answer:
    async with serving(node) as served, bare_client(served, hello=False, text=text) as client:
        welcome = await client.ask(frames.Hello(id=0, version=version, name="x"))
        assert isinstance(welcome, frames.Welcome)
        return await client.ask(read())


async def test_a_new_client_gets_the_bytes(autojump_clock: MockClock) -> None:
    node = StoringNode(data=encoded(BODIES))
    answer = await asked(node, version=frames.VERSION_STORED)
    assert isinstance(answer, frames.Stored)
    assert (answer.start, answer.data, answer.cost_bytes) == (0, node.data, 0)


@pytest.mark.parametrize(
    ("version", "text"),
    [(frames.VERSION_STORED - 1, False), (frames.VERSION_STORED, True)],
)
async def test_older_clients_and_those_of_text_get_records(
    autojump_clock: MockClock, version: int, text: bool
) -> None:
    answer = await asked(StoringNode(data=encoded(BODIES)), version=version, text=text)
    assert isinstance(answer, frames.Batch)
    assert tuple(record.body for record in answer.records) == BODIES


async def test_a_damaged_record_is_refused_where_the_node_decodes_it(
    autojump_clock: MockClock,
) -> None:
    data = bytearray(encoded((b"one",)))
    data[90] ^= 1
    answer = await asked(StoringNode(data=bytes(data)), version=2)
    assert isinstance(answer, frames.Failed)
    assert answer.error == frames.ERROR_NOT_AVAILABLE
    assert "the record at 0 cannot be shown" in answer.message


async def test_a_record_above_a_frame_is_named(autojump_clock: MockClock) -> None:
    node = StoringNode(data=encoded((bytes(frames.FRAME_BYTES_MAX),)))
    answer = await asked(node, version=frames.VERSION_STORED)
    assert isinstance(answer, frames.Failed)
    assert (answer.error, answer.message[:19]) == ("TooLarge", "the record at 0 has")


async def test_a_tail_costs_the_bytes_that_it_is_sent(autojump_clock: MockClock) -> None:
    node = StoringNode(data=encoded(BODIES))
    async with serving(node) as served, bare_client(served, hello=False) as client:
        await client.ask(frames.Hello(id=0, version=frames.PROTOCOL_VERSION, name="x"))
        await client.send(
            frames.Tail(id=1, group="orders", start=0, max_bytes=1000, credit_bytes=1 << 20)
        )
        pushed = await client.receive()
    assert isinstance(pushed, frames.Stored)
    assert pushed.cost_bytes == len(node.data)


def test_a_tail_does_not_pass_over_a_damaged_record() -> None:
    """What is pushed next lies behind it, so an error has to come in its place."""
    data = encoded(BODIES)
    damaged = bytearray(data)
    damaged[-len("orders") - 3 - len(BODIES[-1])] ^= 1  # in the body of the last one
    for pushed, whole in ((data, True), (bytes(damaged), False)):
        frame = frames.Stored(
            id=1, start=0, data=pushed, entries=False, skips_empty=False,
            next=len(data), acknowledged=len(data), end=len(data), lag_bytes=0,
        )  # fmt: skip
        make, _ = read_batch(frame)
        if whole:
            assert tuple(record.body for record in make().records) == BODIES
        else:
            with pytest.raises(CorruptLog, match="was pushed damaged"):
                make()


class Sends(FrameSocket):
    """Keeps what it is given."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.sent: list[bytes | str] = []
        self._before = before

    async def send(self, data: bytes | str) -> None:
        await trio.lowlevel.checkpoint()
        self._before()
        self.sent.append(data)


def outbox() -> Outbox:
    return Outbox(frames.encode, lambda request: None, lambda room: None)


async def test_an_answer_waits_for_one_push_at_the_most(autojump_clock: MockClock) -> None:
    box = outbox()
    for push in ("p1", "p2", "p3"):
        box.put(push)
    box.put("a1", request=1)
    box.put("a2", request=2)
    client = Sends()
    assert await box.send(client, 1.0) == ""
    assert client.sent == ["a1", "p1", "a2", "p2", "p3"]


async def test_answers_without_end_do_not_keep_pushes_back(autojump_clock: MockClock) -> None:
    box = outbox()
    numbers = iter(range(100))
    client = Sends(lambda: box.put("a", request=next(numbers)))
    box.put("a", request=1000)
    for push in ("p1", "p2"):
        box.put(push)
    await box.send(client, 1.0)
    assert client.sent == ["a", "p1", "a"]
    await box.send(client, 1.0)
    assert "p2" in client.sent[:5]


async def test_gathered_frames_begin_with_the_line_whose_turn_it_is(
    autojump_clock: MockClock,
) -> None:
    box = outbox()
    box.gather = True
    box.put("1")
    box.put("2", request=1)
    box.put("3")
    client = Sends()
    await box.send(client, 1.0)
    assert client.sent == ["[2,1,3]"]
