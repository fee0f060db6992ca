"""The API server: every request, its answer, its order, its failure."""

import pytest
import trio
from api_kit import (
    BareClient,
    MemoryNode,
    bare_client,
    serving,
)
from trio.testing import MockClock

from actors.api.connection import CHAINS_MAX, Chains
from actors.api.convert import from_claim, from_group_state, to_group_state
from actors.api.frame_socket import SocketClosed
from actors.api.limits import ApiLimits
from actors.errors import NotMaster, ReplicationTimeout, StorageError
from actors.log_types import Claim, Message
from wire.api import frames


def append(number: int, *records: bytes | frames.NewMessage) -> frames.Append:
    return frames.Append(id=number, group="orders", records=records)


async def closes_with(client: BareClient, text: str) -> None:
    with pytest.raises(SocketClosed, match=text), trio.fail_after(60):
        await client.socket.receive()


# Requests and their answers.


async def test_an_append_behind_a_failed_one_of_its_chain_is_refused(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()

    async def answer(number: int, chain: int) -> str:
        body = b"%d of %d" % (number, chain)
        request = frames.Append(id=number, group="orders", records=(body,), chain=chain)
        found = await client.ask(request)
        return found.error if isinstance(found, frames.Failed) else type(found).__name__

    async with serving(node) as served, bare_client(served) as client:
        assert await answer(1, chain=5) == "Appended"
        node.refuse = NotMaster("a slave")
        assert [await answer(2, chain=5), await answer(3, chain=0)] == ["NotMaster"] * 2
        node.refuse = None
        found = [await answer(number, chain) for number, chain in ((4, 5), (5, 0), (6, 7), (7, 5))]
        assert found == ["NotStored", "Appended", "Appended", "NotStored"]
    assert node.stored == [b"1 of 5", b"5 of 0", b"6 of 7"]


def test_the_newest_chains_are_remembered() -> None:
    chains = Chains()
    assert chains.get(0) is None
    first = chains.get(1)
    assert first is not None
    for number in range(2, CHAINS_MAX + 1):
        chains.get(number)
    assert chains.get(1) is first
    chains.get(CHAINS_MAX + 1)
    assert chains.get(1) is not first


@pytest.mark.parametrize("text", [False, True])
async def test_every_request_has_its_answer(text: bool, autojump_clock: MockClock) -> None:
    node = MemoryNode()
    message = frames.NewMessage(b"body", "topic", "tag", ("k1", "k2"), (("a", "b"),), 3)
    async with serving(node) as served, bare_client(served, text=text) as client:
        appended = await client.ask(append(1, b"plain", message))
        assert appended == frames.Appended(
            id=1, first=0, last=100, next=200, count=2, copies=2, durability="synced"
        )
        assert node.stored == [
            b"plain",
            Message("topic", b"body", "tag", ("k1", "k2"), (("a", "b"),), 3),
        ]
        batch = await client.ask(frames.Read(id=2, group="orders", start=100, max_bytes=1000))
        assert isinstance(batch, frames.Batch)
        assert (batch.id, batch.next, batch.acknowledged, batch.cost_bytes) == (2, 200, 200, 0)
        assert batch.records == (
            frames.StoredRecord(
                100, 200, "topic", 3, 1, b"body", "tag", ("k1", "k2"), (("a", "b"),), 1, 2
            ),
        )
        offsets = await client.ask(frames.GetOffsets(id=3, group="orders"))
        assert offsets == frames.Offsets(
            id=3, min=0, written=200, synced=200, acknowledged=200, master="n0"
        )
        status = await client.ask(frames.GetStatus(id=4))
        assert status == frames.Status(id=4, value=await node.status())
        assert await client.ask(frames.GetTree(id=5)) == frames.Tree(id=5, value=await node.tree())
        promoted = await client.ask(frames.Promote(id=6, group="orders", node="n1", force=True))
        assert promoted == frames.Promoted(
            id=6, value={"group": "orders", "node": "n1", "force": True}
        )
        assert await client.ask(frames.Stop(id=7)) == frames.Stopping(id=7)
        assert node.stopped


@pytest.mark.parametrize("text", [False, True])
async def test_a_member_asks_for_and_changes_a_node_s_part(
    text: bool, autojump_clock: MockClock
) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served, text=text) as client:
        state = await client.ask(frames.GetGroup(id=1, group="orders"))
        assert isinstance(state, frames.Group)
        assert state.id == 1
        assert to_group_state(state) == node.state
        assert state.history[1] == frames.Epoch(2, 5, "n0", 300)
        claim = Claim(number=3, token=5, by="n1", master="n2", again=True, kept=True, force=True)
        fenced = await client.ask(from_claim(claim, id=2, group="orders", on=True))
        assert fenced == from_group_state(2, node.state)
        recorded = await client.ask(
            frames.Record(id=3, group="orders", number=3, master="n1", token=5)
        )
        assert recorded == from_group_state(3, node.state)
        resynced = await client.ask(frames.Resync(id=4, group="orders"))
        assert resynced == frames.Resynced(id=4, value={"group": "orders"})
        moved = await client.ask(frames.Transfer(id=5, group="orders", node="n2"))
        assert moved == frames.Transferred(id=5, value={"group": "orders"})
        mended = await client.ask(frames.Repair(id=6, group="orders", source="n2"))
        assert mended == frames.Repaired(id=6, value={"group": "orders"})
        given = await client.ask(frames.GetRange(id=7, group="orders", start=70))
        assert given == frames.Range(id=7, start=64, data=b"range", digest=5)
    assert node.calls == [
        ("fence", claim, True),
        ("record", 3, "n1", 5, False),
        ("resync",),
        ("transfer", "n2"),
        ("repair", "n2"),
        ("log_range", 70),
    ]


async def test_welcome_shows_the_node_and_its_limits(autojump_clock: MockClock) -> None:
    limits = ApiLimits(in_flight_requests=5, in_flight_bytes=1000)
    async with serving(limits=limits) as served, bare_client(served, hello=False) as client:
        welcome = await client.ask(frames.Hello(id=9, version=77, name="test"))
        assert welcome == frames.Welcome(
            id=9,
            version=frames.PROTOCOL_VERSION,
            cluster="demo",
            node="n0",
            boot=7,
            groups=("orders",),
            frame_bytes_max=frames.FRAME_BYTES_MAX,
            records_per_append_max=frames.RECORDS_PER_APPEND_MAX,
            in_flight_requests_max=5,
            in_flight_bytes_max=1000,
        )
        (opened,) = served.events("APIConnectionOpened")
        assert (opened.client, opened.text) == ("test", False)


async def test_appends_are_pipelined_and_keep_their_order(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    async with serving(node) as served, bare_client(served) as client:
        await client.send(*(append(number, b"%d" % number) for number in range(1, 101)))
        while len(node.stored) < 100:  # noqa: ASYNC110 - none is answered meanwhile
            await trio.sleep(0.01)
        assert node.stored == [b"%d" % number for number in range(1, 101)]
        node.answer()
        answers = [await client.receive() for _ in range(100)]
        assert [answer.id for answer in answers] == list(range(1, 101))


async def test_a_slow_read_delays_nobody(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served) as client:
        node.may_read = trio.Event()
        await client.send(frames.Read(id=1, group="orders", start=0, max_bytes=10))
        assert isinstance(await client.ask(append(2, b"x")), frames.Appended)
        node.may_read.set()
        assert isinstance(await client.receive(), frames.Batch)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            NotMaster("ask n1", "n1"),
            frames.Failed(id=1, error="NotMaster", message="ask n1", hint="n1"),
        ),
        (
            ReplicationTimeout("late", 100, 200, 250),
            frames.Failed(
                id=1, error="ReplicationTimeout", message="late", first=100, last=200, next=250
            ),
        ),
        (
            RuntimeError("oops"),
            frames.Failed(id=1, error="OutcomeUnknown", message="RuntimeError: oops"),
        ),
        (
            StorageError("disk"),
            frames.Failed(id=1, error="OutcomeUnknown", message="StorageError: disk"),
        ),
    ],
)
@pytest.mark.parametrize("when", ["at once", "later"])
async def test_an_append_that_fails_says_how(
    error: Exception, expected: frames.Failed, when: str, autojump_clock: MockClock
) -> None:
    node = MemoryNode(hold=True, refuse=error if when == "at once" else None)
    async with serving(node) as served, bare_client(served) as client:
        await client.send(append(1, b"x"))
        if when == "later":
            await trio.sleep(1)
            node.answer(error)
        assert await client.receive() == expected
        node.refuse, node.hold = None, False
        assert isinstance(await client.ask(append(1, b"x")), frames.Appended), "it goes on"


@pytest.mark.parametrize(
    "request_",
    [
        append(1, b"x"),
        frames.Read(id=1, group="orders", start=0, max_bytes=1),
        frames.Tail(id=1, group="orders", start=0, max_bytes=1, credit_bytes=1),
        frames.Tail(id=1, group="orders", start=None, max_bytes=1, credit_bytes=1),
        frames.GetOffsets(id=1, group="orders"),
        frames.WatchOffsets(id=1, group="orders"),
        frames.TailEvents(id=1, credit_lines=1),
        frames.GetStatus(id=1),
        frames.GetTree(id=1),
        frames.Promote(id=1, group="orders"),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_every_request_can_fail_alone(
    request_: frames.Request, autojump_clock: MockClock
) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served) as client:
        node.fail = ValueError("broken")
        failed = await client.ask(request_)
        error = "OutcomeUnknown" if isinstance(request_, frames.Append) else "Internal"
        assert failed == frames.Failed(id=1, error=error, message="ValueError: broken")
        node.fail = None
        assert isinstance(await client.ask(append(2, b"x")), frames.Appended)


async def test_an_unknown_group_is_refused(autojump_clock: MockClock) -> None:
    async with serving() as served, bare_client(served) as client:
        failed = await client.ask(frames.GetOffsets(id=1, group="nope"))
        assert failed == frames.Failed(id=1, error="UnknownGroup", message="no group 'nope'")


async def test_an_answer_that_cannot_be_encoded_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    node = MemoryNode()

    async def status() -> dict[str, object]:
        return {"node": object()}

    monkeypatch.setattr(MemoryNode, "status", lambda self: status())
    async with serving(node) as served, bare_client(served) as client:
        failed = await client.ask(frames.GetStatus(id=1))
        assert isinstance(failed, frames.Failed)
        assert failed.id == 1
        assert "cannot encode Status" in failed.message


async def test_a_number_in_use_is_refused(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    async with serving(node) as served, bare_client(served) as client:
        failed = None
        await client.send(append(1, b"x"), append(1, b"y"))
        failed = await client.receive()
        assert failed == frames.Failed(
            id=1, error="BadRequest", message="request number 1 is in use"
        )
        node.answer()
        assert isinstance(await client.receive(), frames.Appended)
        assert node.stored == [b"x"]


async def test_a_second_hello_is_refused(autojump_clock: MockClock) -> None:
    async with serving() as served, bare_client(served) as client:
        failed = await client.ask(frames.Hello(id=5, version=1, name="again"))
        assert isinstance(failed, frames.Failed)
        assert (failed.id, failed.error) == (5, "BadRequest")
