"""The API server and the client put what they have to send into few messages."""

from __future__ import annotations

import pytest
import trio
from api_kit import SOCKET, BareClient, MemoryNode, bare_client, serving
from trio.testing import MockClock

from actors.api.frame_socket import FrameSocket
from actors.api.limits import ApiLimits
from actors.client import connect
from wire.api import frames as api
from wire.api import gather

MAX = gather.FRAMES_PER_MESSAGE_MAX


def append(number: int, body: bytes = b"x") -> api.Append:
    return api.Append(id=number, group="orders", records=(body,))


async def send_together(client: BareClient, *frames: api.Request) -> None:
    encoded = [api.encode(frame, text=client.text) for frame in frames]
    await client.socket.send(gather.gathered(encoded))


async def receive_together(client: BareClient) -> tuple[api.Answer, ...]:
    with trio.fail_after(60):
        return gather.decode_answers(await client.socket.receive())


@pytest.mark.parametrize("text", [False, True])
async def test_requests_of_one_message_are_answered_in_one(
    text: bool, autojump_clock: MockClock
) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served, text=text, version=2) as client:
        await send_together(client, *(append(number, b"%d" % number) for number in range(1, 101)))
        answers = await receive_together(client)
        assert [answer.id for answer in answers] == list(range(1, 101))
        assert node.stored == [b"%d" % number for number in range(1, 101)]


async def test_a_client_of_version_1_gets_a_message_for_each(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    async with serving(node) as served, bare_client(served, version=1) as client:
        await client.send(append(1), append(2))
        await trio.sleep(1)
        node.answer()
        assert [(await client.receive()).id for _ in range(2)] == [1, 2]


async def test_large_answers_have_a_message_each(autojump_clock: MockClock) -> None:
    size = gather.GATHERED_BYTES_MAX // 2
    node = MemoryNode(stored=[bytes(size)], acknowledged=100)
    async with serving(node) as served, bare_client(served, version=2) as client:
        reads = [api.Read(id=n, group="orders", start=0, max_bytes=1) for n in range(1, 4)]
        await send_together(client, *reads)
        answers = [await receive_together(client) for _ in range(3)]
        assert sorted(answer.id or 0 for (answer,) in answers) == [1, 2, 3]


async def test_many_answers_are_cut_by_number(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    limits = ApiLimits(in_flight_requests=2 * MAX)
    async with (
        serving(node, limits=limits) as served,
        bare_client(served, version=2) as client,
    ):
        await send_together(client, *(append(number) for number in range(MAX)))
        await send_together(client, *(append(number) for number in range(MAX, MAX + 10)))
        while len(node.stored) < MAX + 10:  # noqa: ASYNC110 - nothing is answered meanwhile
            await trio.sleep(0.01)
        node.answer()
        assert [len(await receive_together(client)) for _ in range(2)] == [MAX, 10]


async def test_every_request_of_a_message_counts_for_the_bound(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    limits = ApiLimits(in_flight_requests=10)
    async with serving(node, limits=limits) as served, bare_client(served, version=2) as client:
        for first in range(0, 30, 6):
            await send_together(client, *(append(first + more) for more in range(6)))
        stored = []
        for _ in range(5):
            await trio.sleep(5)
            stored.append(len(node.stored))
            node.answer()
        assert stored == [6, 12, 18, 24, 30], "a second message of six would have been too much"


async def test_bytes_of_a_message_are_given_back_whole(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    limits = ApiLimits(in_flight_bytes=500)
    async with serving(node, limits=limits) as served, bare_client(served, version=2) as client:
        for first in range(0, 700, 7):
            await send_together(client, *(append(first + more, b"y" * 40) for more in range(7)))
            assert len(await receive_together(client)) == 7


async def test_nothing_is_done_after_what_ends_the_connection(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served, hello=False) as client:
        await send_together(client, append(1), append(2))
        failed = await client.receive()
        assert isinstance(failed, api.Failed)
        assert (failed.id, failed.message) == (1, "the first request must be hello")
        await trio.sleep(1)
        assert node.stored == []


async def test_appends_of_many_tasks_share_a_message(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    sent: list[int] = []
    send = FrameSocket.send

    async def counting(self: FrameSocket, data: bytes | str) -> None:
        sent.append(len(data))
        await send(self, data)

    node = MemoryNode()
    async with serving(node) as served, connect(SOCKET, network=served.host) as client:
        monkeypatch.setattr(FrameSocket, "send", counting)
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(client.append, "orders", (b"%d" % number,))
        assert len(node.stored) == 100
        assert len(sent) <= 4, "both sides' messages"
