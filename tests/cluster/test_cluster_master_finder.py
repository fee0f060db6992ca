"""Whom a feed talks to, and that it goes on with the next master. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from cluster_samples import master, node, slave_group
from group_states import status_of
from status_samples import said
from test_cluster_feed import FakeApi, Record, lines

from actors.cluster.feed import Feed
from actors.cluster.master_finder import MasterFinder
from actors.cluster.run import lacking
from actors.cluster.view import NodeView, newest_leader
from actors.errors import NotEnoughReplicas, NotMaster, OutcomeUnknown

MEMBERS = ("n0", "n1", "n2")


def finder(*views: NodeView, members: tuple[str, ...] = MEMBERS) -> MasterFinder:
    return MasterFinder(
        group="orders",
        members=members,
        current="n0",
        connect=pytest.fail,
        views=lambda: views,
    )


def heeded(found: MasterFinder, *failures: Exception) -> str:
    found.heed(failures)
    return found.current


def test_a_hint_is_followed() -> None:
    assert heeded(finder(), OutcomeUnknown("x"), NotMaster("a slave", hint="n2")) == "n2"


def test_a_hint_to_a_node_that_cannot_be_asked_is_none() -> None:
    assert heeded(finder(), NotMaster("a slave", hint="java")) == "n0"
    assert heeded(finder(), NotMaster("a slave")) == "n0"


async def test_a_member_that_names_nobody_is_left_after_a_while(
    autojump_clock: trio.abc.Clock,
) -> None:
    """It may be cut off from the others, who have elected long since."""
    found = attrs.evolve(finder(), turns_after_s=8.0)
    nobody = NotMaster("the node is not the group's leader")
    asked: list[str] = []
    for _ in range(9):
        asked.append(heeded(found, nobody))
        await trio.sleep(2.0)
    assert asked == ["n0"] * 4 + ["n1"] * 5
    assert heeded(found, nobody) == "n2"  # n1 was asked as long
    assert heeded(found, OutcomeUnknown("x")) == "n2"
    assert heeded(found, NotMaster("a follower", hint="n0")) == "n0"


async def test_whoever_answered_in_between_is_asked_as_long_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    found, nobody = attrs.evolve(finder(), turns_after_s=8.0), NotMaster("no leader")
    for failure in (nobody, OutcomeUnknown("it led, and was lost"), nobody):
        assert heeded(found, failure) == "n0"
        await trio.sleep(7.0)


def test_what_the_links_see_is_followed() -> None:
    new = node("n1", master(promotion=1, part="open"))
    old = node("n0", master())
    assert heeded(finder(old, new), OutcomeUnknown("the connection ended")) == "n1"
    away = attrs.evolve(new, state="away")
    assert heeded(finder(old, away), OutcomeUnknown("the connection ended")) == "n0"


def test_members_that_nobody_sees_are_tried_in_turn() -> None:
    found = finder()
    refused = ConnectionRefusedError("nobody listens")
    assert [heeded(found, refused) for _ in range(4)] == ["n1", "n2", "n0", "n1"]
    assert heeded(finder(members=()), refused) == "n0"
    assert heeded(finder(members=("n2",)), refused) == "n2"


def test_the_newest_master_of_several() -> None:
    def named(*views: NodeView) -> str | None:
        found = newest_leader(views, "orders")
        return found[0] if found else None

    old, new = node("n0", master(part="open")), node("n1", master(promotion=1, part="asking"))
    assert named(old, new) == named(new, old) == "n1"
    assert named(attrs.evolve(new, state="away"), old) == "n1"
    assert named(node("n0", slave_group())) is None
    both = node("n2", master(promotion=1, part="fenced"))
    opened = node("n1", master(promotion=1, part="open"))
    assert named(both, opened) == "n1"
    assert named(both, attrs.evolve(opened, state="away")) == "n2"


def test_whoever_follows_the_newest_master_is_waited_for() -> None:
    def done(*views: NodeView) -> bool:
        return not lacking(views, {"orders": MEMBERS[:2]}, lambda name: True)

    new = node("n1", master(promotion=1, part="open", written_bytes=80_000_000, slaves=[]))
    assert not done(node("n0", slave_group()), new)
    assert done(node("n0", slave_group(written_bytes=80_000_000)), new)
    assert done(node("n0", slave_group(part="diverged")), new)
    assert not done(node("n0", master()), new)  # it has not heard of the promotion yet
    assert done(node("n0", slave_group()), attrs.evolve(new, state="away"))


@attrs.define
class Cluster:
    """Two apis; `now` is the master, by promotion `promotion`."""

    apis: dict[str, FakeApi]
    now: str = "n0"
    promotion: int = 0
    part: str = "open"
    dead: str = ""
    tried: list[str] = attrs.field(factory=list)

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Any]:
        self.tried.append(name)
        if name == self.dead:
            raise ConnectionRefusedError("nobody listens")
        async with self.apis[name].connect() as api:
            yield Seen(self, name, api)

    def status(self, name: str) -> dict[str, Any]:
        leads = name == self.now
        found = status_of(
            role="master" if leads else "slave",
            leads=leads,
            leader=self.now,
            epoch=self.promotion,
            is_open=leads and self.part == "open",
            state=self.part,
        )
        return {"groups": {"g": found}}


@attrs.define
class Seen:
    """A api with its cluster's status."""

    cluster: Cluster
    name: str
    api: FakeApi

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return self.cluster.status(self.name)

    async def submit(self, *words: Any) -> None:
        if self.name == self.cluster.dead:
            raise trio.BrokenResourceError("it has gone")
        if self.name != self.cluster.now:
            raise NotMaster("a slave", hint=self.cluster.now)
        await self.api.submit(*words)


def feeding(
    cluster: Cluster, chunks: int, views: Callable[[], list[NodeView]] = list
) -> tuple[Feed, Record]:
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](chunks)
    for number in range(chunks):
        send.send_nowait(lines(10, 10 * number))
    send.close()
    found = MasterFinder(
        group="g",
        members=("n0", "n1"),
        current="n0",
        connect=cluster.connect,
        views=views,
    )
    record = Record()
    feed = Feed(
        group="g",
        source="s",
        lines=receive,
        connect=found.connect,
        heed=found.heed,
        watch=found.watch,
        record=record,  # type: ignore[arg-type]
        rate_per_s=100,
    )
    return feed, record


async def test_the_feed_goes_on_with_the_next_master(autojump_clock: trio.abc.Clock) -> None:
    cluster = Cluster({"n0": FakeApi(), "n1": FakeApi()})
    feed, record = feeding(cluster, 100)

    async def promote() -> None:
        await trio.sleep(3.0)
        cluster.now, cluster.promotion = "n1", 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote)
        nursery.start_soon(feed.run)
    assert cluster.tried == ["n0", "n1"]
    first, then = cluster.apis["n0"].log, cluster.apis["n1"].log
    assert first + then == list(lines(1000))  # nothing was fed twice
    assert sum(count for _, count in record.noted) == 1000


async def test_the_feed_goes_on_after_the_death_of_its_master(
    autojump_clock: trio.abc.Clock,
) -> None:
    cluster = Cluster({"n0": FakeApi(), "n1": FakeApi()})
    feed, _ = feeding(cluster, 50)

    async def die() -> None:
        await trio.sleep(2.0)
        cluster.dead = "n0"
        await trio.sleep(30.0)
        cluster.now, cluster.promotion = "n1", 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(die)
        nursery.start_soon(feed.run)
    assert set(cluster.tried) == {"n0", "n1"}
    assert set(cluster.apis["n0"].log + cluster.apis["n1"].log) == set(lines(500))
    assert feed.view().acknowledged_count == 500


def seen(name: str, group: dict[str, Any]) -> NodeView:
    return NodeView(node=name, state="running", groups={"g": said(group)}, tree=None)


async def test_a_master_that_falls_silent_is_left(autojump_clock: trio.abc.Clock) -> None:
    """Its connection stands and nothing comes back; the links see the next master."""
    cluster = Cluster({"n0": FakeApi(script={3: "lost", 4: "lost"}), "n1": FakeApi()})
    views = [seen("n0", master())]
    feed, record = feeding(cluster, 3, lambda: views)

    async def promote() -> None:
        await trio.sleep(60.0)
        assert feed.view().in_flight_count == 10
        cluster.now, cluster.promotion = "n1", 1
        new = seen("n1", master(promotion=1, part="open"))
        views[:] = [attrs.evolve(views[0], state="away"), new]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote)
        nursery.start_soon(feed.run)
    assert cluster.tried == ["n0", "n1"]
    assert 64.5 <= trio.current_time() < 70.0
    assert sum(count for _, count in record.noted) == 30
    assert cluster.apis["n1"].log == list(lines(10, 15))  # what was in doubt is there twice


async def test_a_fenced_master_is_not_waited_for(autojump_clock: trio.abc.Clock) -> None:
    """What is in doubt is not sent to it; it is asked again, and whoever else says it is master."""
    lost = OutcomeUnknown("who knows")
    cluster = Cluster({"n0": FakeApi(script={0: lost, 1: lost}), "n1": FakeApi()})
    feed, _ = feeding(cluster, 1)
    cluster.part = "fenced"

    async def promote() -> None:
        await trio.sleep(20.0)
        assert NotEnoughReplicas.__name__ in feed.view().state
        cluster.now, cluster.promotion, cluster.part = "n1", 1, "open"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote)
        nursery.start_soon(feed.run)
    assert cluster.apis["n1"].log == list(lines(10))
