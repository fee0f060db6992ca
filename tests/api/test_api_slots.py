"""Clients, members and whoever has yet to say hello have slots of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from api_kit import (
    MEMBER,
    NODE,
    PORT,
    SOCKET,
    BareClient,
    MemoryNode,
    Served,
    bare_client,
    serving,
)
from member_kit import slave
from proof_kit import N0
from trio.testing import MockClock

from actors.api import frame_socket
from actors.api.credentials import WHOLLY_TRUSTED, Admission, greet
from actors.api.frame_socket import SocketClosed
from actors.api.limits import ApiLimits
from actors.api.slots import CROWD, MADE_WAY, QUIET, QUIET_S, Slots, member_name
from actors.env.protocols import Address, Network, Stream
from actors.runtime.accepting import FULL, UNOWNED_MAX
from wire.api import frames

PROVEN = Admission(proof=b"proof")
MEMBERS = {"n0": NODE, "n1": MEMBER}
HERE, THERE, FILE = Address(NODE, 5), Address(MEMBER, 5), Address(SOCKET, 0)


@asynccontextmanager
async def greeted(served: Served, network: Network, name: str) -> AsyncIterator[BareClient]:
    async with frame_socket.connect(await network.connect(NODE, PORT)) as socket:
        client = BareClient(socket)
        hello = greet(frames.Hello(id=0, version=1, name=name), N0, socket.challenge).hello
        assert isinstance(await client.ask(hello), frames.Welcome)
        yield client
        await socket.close()


def closed(served: Served) -> list[str]:
    return [each.reason for each in served.events("APIConnectionClosed")]


async def test_idle_clients_keep_no_member_out(autojump_clock: MockClock) -> None:
    """It learns what it may show, and asks; and in the clients' slots there is room again."""
    limits = ApiLimits(clients=3, members=1)
    node = MemoryNode(stored=[b"x"] * 9, acknowledged=100)
    async with serving(node, limits=limits, members=MEMBERS) as served:
        async with AsyncExitStack() as clients:
            for _ in range(3):
                await clients.enter_async_context(bare_client(served))
            with pytest.raises(SocketClosed, match=r"code 1013: all 3 client slots are taken$"):
                async with bare_client(served):
                    raise AssertionError
            async with slave(served) as found:
                await trio.sleep(5)
                assert found.acknowledged() == [100]
        await trio.sleep(1)
        async with bare_client(served):
            assert closed(served).count(FULL) == 1


async def test_members_have_no_more_than_their_places_and_what_clients_leave(
    autojump_clock: MockClock,
) -> None:
    """Else a member that asks much would keep clients and the other members out."""
    limits = ApiLimits(clients=1, members=1)
    async with serving(limits=limits, members=MEMBERS) as served, AsyncExitStack() as members:
        for _ in range(2):
            await members.enter_async_context(greeted(served, served.member, member_name("n1")))
        for network, name in ((served.member, member_name("n1")), (served.member, "client")):
            with pytest.raises(SocketClosed, match="code 1013: its only client slot"):
                async with greeted(served, network, name):
                    raise AssertionError


async def test_who_says_nothing_makes_way(autojump_clock: MockClock) -> None:
    """Within the time that they have for their hello, and long before it is over."""
    crowd: list[Stream] = []
    async with serving(members=MEMBERS) as served:
        begin_s = trio.current_time()
        async with bare_client(served) as early:
            for number in range(200):
                network = served.host if number % 2 else served.member
                crowd.append(await network.connect(NODE, PORT))
                await trio.sleep(0.001)
            async with slave(served) as found:
                await trio.sleep(1)
                assert found.events() == ["MasterLinkOpened"]
                assert isinstance(await early.ask(frames.GetStatus(id=1)), frames.Status)
                assert trio.current_time() < begin_s + ApiLimits().hello_timeout_s
                assert closed(served) == [MADE_WAY] * (200 + 1 - UNOWNED_MAX)
        assert "APIConnectionRefused" not in served.kinds()


async def test_who_makes_way_is_asked_to_come_again(autojump_clock: MockClock) -> None:
    """It learned that the node goes away before, as if there were no node."""
    async with serving(members=MEMBERS) as served:
        with pytest.raises(SocketClosed) as caught:
            async with bare_client(served, hello=False) as silent:
                for _ in range(UNOWNED_MAX):
                    await served.host.connect(NODE, PORT)
                await silent.receive()
        assert (caught.value.code, caught.value.said) == (frame_socket.TRY_AGAIN_LATER, CROWD)


async def test_a_crowd_at_once_makes_way_too(autojump_clock: MockClock) -> None:
    async with serving(members=MEMBERS) as served:
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(served.host.connect, NODE, PORT)
        async with bare_client(served):
            pass
        await trio.sleep(1)
        tree = served.system.tree().find("/n0/api/connections")
        assert tree is not None
        assert len(tree.children) <= UNOWNED_MAX


@pytest.mark.parametrize(
    ("name", "remote", "admission", "is_member"),
    [
        ("member n1", THERE, PROVEN, True),
        ("member n1", FILE, WHOLLY_TRUSTED, True),
        ("member n1", HERE, PROVEN, False),
        ("member n9", THERE, PROVEN, False),
        ("n1", THERE, PROVEN, False),
        ("member ", THERE, PROVEN, False),
        ("client", FILE, WHOLLY_TRUSTED, False),
        ("member n1", THERE, Admission(reads_only=True, no_member=True), False),
        ("member n1", THERE, Admission(reads_only=True), True),  # this node knows no secret
    ],
)
def test_who_is_a_member(name: str, remote: Address, admission: Admission, is_member: bool) -> None:
    slots = Slots(ApiLimits(clients=0, members=1), MEMBERS)
    slot = slots.come(lambda reason: None)
    assert slots.greet(slot, name, remote, admission) is is_member


def test_a_place_that_is_left_is_free_again() -> None:
    slots = Slots(ApiLimits(clients=1))
    ended: list[str] = []
    for _ in range(3):
        slot = slots.come(ended.append)
        assert slots.greet(slot, "client", FILE, WHOLLY_TRUSTED)
        assert not slots.greet(slots.come(ended.append), "client", FILE, WHOLLY_TRUSTED)
        slots.leave(slot)
        slots.leave(slot)
    for _ in range(100):
        slots.make_way()
        slots.come(ended.append)
    assert ended == [MADE_WAY] * (100 - UNOWNED_MAX)


async def test_a_client_that_asked_nothing_for_long_makes_way_for_the_next(
    autojump_clock: MockClock,
) -> None:
    """A crowd of idle ones kept everybody else out for as long as it liked."""
    limits = ApiLimits(clients=3, members=0)
    async with serving(MemoryNode(stored=[b"x"], acknowledged=1), limits=limits) as served:
        async with AsyncExitStack() as clients:
            follows, idle, asks = [
                await clients.enter_async_context(bare_client(served)) for _ in range(3)
            ]
            await follows.send(frames.WatchOffsets(id=1, group="orders"))
            await trio.sleep(QUIET_S)
            assert isinstance(await asks.ask(frames.GetStatus(id=1)), frames.Status)
            async with bare_client(served) as late:
                assert isinstance(await late.ask(frames.GetStatus(id=1)), frames.Status)
                assert isinstance(await asks.ask(frames.GetStatus(id=2)), frames.Status)
                with pytest.raises(SocketClosed) as caught:
                    await idle.receive()
                assert caught.value.code == frame_socket.TRY_AGAIN_LATER
                with pytest.raises(SocketClosed, match="all 3 client slots are taken"):
                    async with bare_client(served):
                        raise AssertionError
            await trio.sleep(5)
            assert closed(served).count(QUIET) == 1
