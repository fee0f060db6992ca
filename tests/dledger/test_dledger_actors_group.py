"""Groups of real actors: a leader is elected, appends are committed, every member shows them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group_kit import opened

from actors.dledger.replication.append_messages import Committed
from actors.errors import NotMaster
from actors.events.dledger import CommittedRose
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    GetEntriesResponse,
    MetadataRequest,
    MetadataResponse,
    Request,
    VoteRequest,
)


@pytest.mark.checklist(36, of="dledger")
@pytest.mark.parametrize("members", [1, 3, 5])
async def test_a_leader_is_elected_and_commits(autojump_clock: object, members: int) -> None:
    async with opened(members) as group:
        leader = await group.leader()
        first = await group.append(leader, b"one")
        second = await group.append(leader, b"two", b"three")
        assert second.first_index == first.last_index + 1
        assert second.last_index == second.first_index + 1
        assert second.copies >= members // 2 + 1
        await group.until_shown(second.last_index)
        for name in group.names:
            assert await group.bodies(name) == [b"one", b"two", b"three"]


async def test_appends_of_many_tasks_are_committed_together(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        answers: dict[bytes, Committed] = {}

        async def append(body: bytes) -> None:
            answers[body] = await group.append(leader, body)

        before = len(group.events(CommittedRose, leader))
        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(append, b"%d" % number)
        steps = len(group.events(CommittedRose, leader)) - before
        assert steps < 50, "an append has no round of its own"
        last = max(answer.last_index for answer in answers.values())
        await group.until_shown(last)
        for name in group.names:
            entries = {entry.index: entry for entry in await group.entries(name)}
            for body, answer in answers.items():
                assert entries[answer.first_index].body == body
                assert entries[answer.first_index].pos == answer.positions[0]


async def test_a_memory_store_serves_the_same_group(autojump_clock: object) -> None:
    async with opened(store="memory") as group:
        leader = await group.leader()
        for number in range(30):
            done = await group.append(leader, bytes(number * 100))
        await group.until_shown(done.last_index)
        follower = next(name for name in group.names if name != leader)
        await group.kill(follower)
        done = await group.append(leader, b"while it was away")
        await group.start(follower)
        await group.until_shown(done.last_index, follower)
        entries = [await group.entries(name) for name in group.names]
        assert entries[0] == entries[1] == entries[2]
        assert entries[0][-1].body == b"while it was away"


@pytest.mark.parametrize("durability", ["written", "synced"])
async def test_a_follower_that_was_away_catches_up(autojump_clock: object, durability: str) -> None:
    async with opened(durability=durability) as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        await group.append(leader, b"before")
        await group.kill(follower)
        for number in range(40):
            done = await group.append(leader, b"%d" % number * 500)
        await group.start(follower)
        await group.until_shown(done.last_index, follower)
        assert await group.entries(follower) == await group.entries(leader)


async def test_who_does_not_lead_says_who_does(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        await group.append(leader, b"x")
        with pytest.raises(NotMaster, match=f"{leader} leads") as caught:
            await group.append(follower, b"y")
        assert (caught.value.hint, caught.value.status) == (leader, "NOT_LEADER")
        assert (await group.offsets(follower)).master == leader


# ---- over the wire ----


def base(to: str) -> dict[str, Any]:
    return {"group": "ledger", "remote_id": to, "local_id": "client"}


async def test_a_client_appends_and_reads_over_the_wire(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        found = await group.call(follower, MetadataRequest(**base(follower)))
        assert isinstance(found, MetadataResponse)
        assert found.leader_id == leader
        assert found.peers == {name: f"{at}:20911" for name, at in group.config.nodes.items()}

        done = await group.call(leader, AppendEntryRequest(body=b"hello", **base(leader)))
        assert isinstance(done, AppendEntryResponse)
        assert (done.code, done.leader_id, done.term) == (200, leader, 0)
        read = await group.call(leader, GetEntriesRequest(begin_index=done.index, **base(leader)))
        assert isinstance(read, GetEntriesResponse)
        assert [(entry.body, entry.pos) for entry in read.entries] == [(b"hello", done.pos)]


async def test_appends_that_come_together_are_each_answered(autojump_clock: object) -> None:
    async with opened(max_entry_bytes=1000) as group:
        leader = await group.leader()
        last = (await group.append(leader, b"before")).last_index
        bodies = [b"a", bytes(1001), b"", b"b", b"c", bytes(2000)]
        to = base(leader)
        requests = [AppendEntryRequest(body=body, **to) for body in bodies]
        found = await group.calls(leader, *requests, AppendEntryRequest(**to))
        codes = [answer.code for answer in found]
        assert codes == [200, 411, 200, 200, 200, 411, 411]
        answers = [answer for answer in found if isinstance(answer, AppendEntryResponse)]
        indexes = [answer.index for answer in answers]
        assert indexes == [last + 1, -1, last + 2, last + 3, last + 4, -1, -1]
        await group.until_shown(last + 4)
        entries = {entry.index: entry for entry in await group.entries(leader)}
        for body, answer in zip(bodies, answers, strict=False):
            if answer.code == 200:
                entry = entries[answer.index]
                assert (entry.body, entry.pos, entry.term) == (body, answer.pos, answer.term)
        follower = next(name for name in group.names if name != leader)
        other = base(follower)
        refused = await group.calls(follower, *[AppendEntryRequest(body=b"x", **other)] * 2)
        assert [answer.code for answer in refused] == [ResponseCode.NOT_LEADER] * 2


async def test_what_cannot_be_served_has_upstreams_codes(autojump_clock: object) -> None:
    async with opened(max_entry_bytes=1000) as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)

        to, other = base(leader), base(follower)
        refused: list[tuple[str, Request, ResponseCode]] = [
            (follower, AppendEntryRequest(body=b"x", **other), ResponseCode.NOT_LEADER),
            (follower, GetEntriesRequest(begin_index=0, **other), ResponseCode.NOT_LEADER),
            (leader, AppendEntryRequest(**to), ResponseCode.UNEXPECTED_ARGUMENT),
            (leader, AppendEntryRequest(body=bytes(1001), **to), ResponseCode.UNEXPECTED_ARGUMENT),
            (leader, GetEntriesRequest(**to), ResponseCode.UNEXPECTED_ARGUMENT),
            (leader, GetEntriesRequest(begin_index=7, **to), ResponseCode.INDEX_OUT_OF_RANGE),
        ]
        for name, request, expected in refused:
            assert (await group.call(name, request)).code == expected, request


async def test_uncommitted_entries_are_shown_to_nobody(autojump_clock: object) -> None:
    """Item 13 of what a better node does (bug B13)."""
    async with opened() as group:
        leader = await group.leader()
        done = await group.append(leader, b"committed")
        for name in group.names:
            if name != leader:
                group.world.network.cut_both(leader, name)
        with trio.move_on_after(1.0):
            await group.append(leader, b"not committed")
        pulled = await group.read(leader, done.last_index + 1)
        assert (pulled.data, pulled.offsets.written) == (b"", done.last_index + 2)
        read = await group.call(
            leader,
            GetEntriesRequest(begin_index=done.last_index + 1, **base(leader)),
            host=leader,
        )
        assert read.code == ResponseCode.INDEX_OUT_OF_RANGE


@pytest.mark.checklist(5, of="dledger")
async def test_a_request_for_somebody_else_is_refused(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        fields: dict[str, Any] = {"local_id": "n1", "leader_id": "n1", "term": 3}
        wrong = VoteRequest(group="ledger", remote_id="n9", **fields)
        found = await group.call(leader, wrong)
        assert (found.code, found.remote_id, found.local_id) == (401, "n9", "n1")
        assert (found.leader_id, found.term) == (leader, 3)
        found = await group.call(leader, VoteRequest(group="other", remote_id=leader, **fields))
        assert (found.code, found.group) == (400, "other")
