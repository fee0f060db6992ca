"""Questions over a link: one connection for all, none holds up another, each sent at most once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from api_kit import MEMBER, NODE, PORT, MemoryNode, Served, serving
from member_kit import TCP, Slave, slave
from proof_kit import SECRET, credentials
from trio.testing import MockClock

from actors.api.credentials import MemberNetwork
from actors.api.failures import RequestRefused
from actors.api.limits import READ_COST_BYTES, ApiLimits
from actors.control.member_link import (
    GIVEN_UP_MAX,
    QUESTIONS_MAX,
    READS_PER_GROUP_MAX,
)
from actors.control.member_session import LOST
from actors.env.protocols import Address
from actors.errors import Overloaded
from actors.log_types import Batch
from wire.api import frames

RECORD = frames.Record(id=0, group="orders", number=3, master="n0", token=5, force=False)
ANSWER_S = TCP.answer_timeout_s


def opened(served: Served) -> int:
    """Connections of members so far."""
    return len(served.events("APIConnectionOpened"))


async def acknowledged(found: Slave) -> int:
    """By a read, which waits where the node's reads do."""
    read = frames.Read(id=0, group="orders", start=0, max_bytes=1, fresh=True)
    return (await found.links.ask("n0", read, frames.Batch)).acknowledged


async def outcome(ask: Callable[[], Awaitable[Any]], found: list[Any]) -> None:
    try:
        found.append(await ask())
    except LOST as error:
        found.append(error)


async def test_every_question_takes_the_one_connection(autojump_clock: MockClock) -> None:
    node = MemoryNode(stored=[b"x"] * 9, acknowledged=300)
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        links = found.links
        assert (await links.group_state("n0", "orders")) == node.state
        assert await acknowledged(found) == 300
        assert await links.ask("n0", RECORD, frames.Group)
        with pytest.raises(RequestRefused, match="no group 'other'"):
            await links.group_state("n0", "other")
        assert opened(served) == 1
        assert found.events() == ["MasterLinkOpened"], "what one question comes to is its own"


async def test_an_answer_that_takes_long_holds_up_no_other(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    node.may_read = trio.Event()
    async with serving(node) as served, slave(served) as found, trio.open_nursery() as nursery:
        read: list[Any] = []
        nursery.start_soon(outcome, lambda: acknowledged(found), read)
        await trio.sleep(1)
        with trio.fail_after(1):
            assert await found.links.group_state("n0", "orders") == node.state
        assert read == []
        node.may_read.set()
        await trio.sleep(1)
        assert read == [0]


async def test_a_question_without_a_connection_has_one_tried_at_once(
    autojump_clock: MockClock,
) -> None:
    """Also in the longest of the pauses between attempts."""
    async with serving() as served, slave(served, retry_s=300.0) as found:
        await trio.sleep(1)
        served.network.isolate("n0")
        served.network.reset("n0", "n1")
        await trio.sleep(1000)
        served.network.heal_all()
        before_s = trio.current_time()
        assert await found.links.group_state("n0", "orders")
        assert trio.current_time() - before_s < 1


async def test_it_fails_as_the_attempt_does(autojump_clock: MockClock) -> None:
    nobody = attrs.evolve(TCP, address=Address(NODE, PORT + 1))
    async with serving() as served, slave(served, nobody) as found:
        await trio.sleep(30)
        before_s = trio.current_time()
        with pytest.raises(ConnectionRefusedError):
            await found.links.group_state("n0", "orders")
        assert trio.current_time() - before_s < 1


async def test_a_silent_member_costs_a_question_its_time(autojump_clock: MockClock) -> None:
    async with serving() as served, slave(served) as found:
        await trio.sleep(1)
        served.network.isolate("n0")
        for _ in range(3):  # over the old connection, over none, and over a new one
            before_s = trio.current_time()
            with pytest.raises(LOST):
                await found.links.group_state("n0", "orders")
            assert trio.current_time() - before_s <= ANSWER_S + 0.1
        served.network.heal_all()
        with trio.fail_after(ANSWER_S):
            assert await found.links.group_state("n0", "orders")


async def test_what_its_asker_gave_up_is_not_sent_later(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        served.network.isolate("n0")
        served.network.reset("n0", "n1")
        await trio.sleep(1)
        with pytest.raises(trio.TooSlowError):
            await found.links.ask("n0", RECORD, frames.Group, timeout_s=2.0)
        served.network.heal_all()
        await trio.sleep(100)
        assert await found.links.group_state("n0", "orders")
        assert node.calls == []


async def test_what_was_sent_is_lost_with_its_connection_and_not_sent_again(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()
    node.may_read = trio.Event()
    async with serving(node) as served, slave(served) as found, trio.open_nursery() as nursery:
        read: list[Any] = []
        nursery.start_soon(outcome, lambda: acknowledged(found), read)
        await trio.sleep(1)
        served.network.reset("n0", "n1")
        await trio.sleep(1)
        (error,) = read
        assert isinstance(error, LOST)
        await trio.sleep(30)
        assert (node.reads, opened(served)) == (1, 2)


async def test_a_flood_of_reads_holds_up_no_claim_and_no_other_group(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()
    node.identity = attrs.evolve(node.identity, groups=("orders", "bills"))
    node.may_read = trio.Event()
    async with serving(node) as served, slave(served) as found, trio.open_nursery() as nursery:
        await trio.sleep(1)
        reads: list[Any] = []
        for _ in range(QUESTIONS_MAX + READS_PER_GROUP_MAX):
            nursery.start_soon(outcome, lambda: acknowledged(found), reads)
        await trio.sleep(1)
        assert len(reads) == QUESTIONS_MAX
        assert all(isinstance(each, Overloaded) for each in reads)
        with trio.fail_after(1):
            assert await found.links.ask("n0", RECORD, frames.Group)
            assert await found.links.group_state("n0", "bills")
        node.may_read.set()
        await trio.sleep(1)
        assert reads[QUESTIONS_MAX:] == [0] * READS_PER_GROUP_MAX


async def test_what_a_leader_has_committed_waits_for_no_room_that_reads_take(
    autojump_clock: MockClock,
) -> None:
    """Nothing is read for it."""

    class Waits(MemoryNode):
        async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
            if start < frames.POSITION_MAX:
                await trio.sleep_forever()
            return Batch(records=(), next=start, acknowledged=300, end=300, lag_bytes=0)

    limits = ApiLimits(read_bytes=READ_COST_BYTES)
    async with serving(Waits(), limits=limits) as served, slave(served) as found:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, lambda: acknowledged(found), [])
            await trio.sleep(1)
            with trio.fail_after(1):
                assert await found.links.committed("n0", "orders") == 300
            nursery.cancel_scope.cancel()


async def test_questions_that_change_something_are_bounded_too(autojump_clock: MockClock) -> None:
    class Slow(MemoryNode):
        async def record(self, group: str, *words: Any) -> Any:
            await trio.sleep_forever()

    async with serving(Slow()) as served, slave(served) as found, trio.open_nursery() as nursery:
        outcomes: list[Any] = []
        for _ in range(QUESTIONS_MAX + 1):
            nursery.start_soon(
                outcome, lambda: found.links.ask("n0", RECORD, frames.Group), outcomes
            )
        await trio.sleep(1)
        (error,) = outcomes
        assert isinstance(error, Overloaded)
        nursery.cancel_scope.cancel()


async def test_too_many_that_were_given_up_make_a_new_connection(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()
    node.may_read = trio.Event()
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        for _ in range(GIVEN_UP_MAX):
            with trio.move_on_after(0.1):
                await acknowledged(found)
        assert opened(served) == 1
        assert await found.links.group_state("n0", "orders")
        assert opened(served) == 2


async def test_a_secret_that_is_put_there_counts_from_the_next_question_on(
    autojump_clock: MockClock,
) -> None:
    """A member that had none believed anybody, and was believed nothing that changes anything."""
    known, none = credentials(SECRET), credentials(None)

    class Store:
        has = False

        def read(self, path: str) -> bytes | None:
            return (known if self.has else none).secret_store.read(path)

        def fresh(self, count: int) -> bytes:
            return known.secret_store.fresh(count)

        def make(self, path: str) -> None:
            raise AssertionError

    store, node = Store(), MemoryNode()
    found_here = attrs.evolve(known, secret_store=store)
    async with serving(node) as served:
        network = MemberNetwork(served.member, found_here)
        async with slave(served, network=network) as found:
            await trio.sleep(1)
            with pytest.raises(RequestRefused) as caught:
                await found.links.ask("n0", RECORD, frames.Group)
            assert caught.value.error == frames.ERROR_PERMISSION
            store.has = True
            assert await found.links.ask("n0", RECORD, frames.Group)
            assert len(node.calls) == 1


async def test_a_member_watches_more_than_a_client_may(autojump_clock: MockClock) -> None:
    names = tuple(f"g{number}" for number in range(20))
    node = MemoryNode(acknowledged=300)
    node.identity = attrs.evolve(node.identity, groups=names)
    limits = ApiLimits(members=2, member_subscriptions=2 * len(names))
    members = {"n0": NODE, "n1": MEMBER}
    async with serving(node, limits=limits, members=members) as served:
        async with slave(served, group="g0", more=names[1:]) as found:
            await trio.sleep(1)
            assert len(found.received) == len(names)
            assert found.acknowledged() == [300] * len(names)


async def test_a_group_that_the_member_does_not_know_disturbs_no_other(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode(acknowledged=300)
    async with serving(node) as served, slave(served, more=("bills",)) as found:
        await trio.sleep(20)
        assert (found.acknowledged(), opened(served)) == ([300], 1)
        assert found.events() == ["MasterLinkOpened", "MasterLinkOpened", "MasterLinkLost"]
        node.identity = attrs.evolve(node.identity, groups=("orders", "bills"))
        await trio.sleep(6)
        assert found.acknowledged() == [300, 300], "it is asked for again and again"
        assert found.events()[3:] == ["MasterLinkOpened"]
