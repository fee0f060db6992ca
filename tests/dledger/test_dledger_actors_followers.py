"""Followers without room, asked for what no leader may ask, or contradicted by their leader."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio
from entry_kit import new_entry
from group_kit import SMALL, Group, group_config, opened, run_member

from actors.dledger.replication.append_messages import Committed
from actors.errors import Overloaded
from actors.events.dledger import DispatcherChanged, EntriesRefused, RoleChanged
from actors.runtime import describe
from actors.storage.ledger import store, store_messages
from wire.dledger.codes import PushType, ResponseCode
from wire.dledger.rpc import (
    InstallSnapshotRequest,
    PushEntryRequest,
    PushEntryResponse,
)


async def test_a_follower_without_room_catches_up_once_it_has_some(
    autojump_clock: object,
) -> None:
    async with opened(data_file_bytes=4096) as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        await group.append(leader, b"before")
        group.world.node(follower).disk.faults.fill(25.0)
        for number in range(30):
            done = await group.append(leader, b"%d" % number * 300)
            await trio.sleep(0.1)
        assert (await group.offsets(follower)).written <= done.last_index, "it is behind"
        with trio.fail_after(60.0):
            while (await group.offsets(follower)).written <= done.last_index:  # noqa: ASYNC110
                await trio.sleep(0.1)
        await group.until_shown(done.last_index)
        assert await group.entries(follower) == await group.entries(leader)
        assert group.leaders == [leader], "and nobody else was disturbed"
        changes = len(group.events(DispatcherChanged, leader))
        assert changes < 250, "a refused push is not repeated at once"


def push(group: Group, to: str, leader: str, **more: Any) -> PushEntryRequest:
    role = group.role(to)
    assert role is not None
    fields: dict[str, Any] = {"group": "ledger", "remote_id": to, "local_id": leader}
    return PushEntryRequest(**{**fields, "leader_id": leader, "term": role.term, **more})


async def test_what_no_leader_may_ask_is_refused(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        follower, other = (name for name in group.names if name != leader)
        done = await group.append(leader, b"x")
        await group.until_shown(done.last_index)
        base: dict[str, Any] = {"group": "ledger", "remote_id": follower, "local_id": leader}
        found = await group.call(follower, InstallSnapshotRequest(data=b"x", term=3, **base))
        assert (found.code, found.term) == (ResponseCode.UNSUPPORTED, 3)
        entry = new_entry(index=9, term=0, pos=0, body=b"x")
        for request, code in (
            (push(group, follower, leader, type=None), ResponseCode.UNEXPECTED_ARGUMENT),
            (push(group, follower, leader), ResponseCode.UNEXPECTED_ARGUMENT),
            (push(group, follower, other, entry=entry), ResponseCode.INCONSISTENT_LEADER),
            (push(group, leader, follower, entry=entry), ResponseCode.NOT_FOLLOWER),
        ):
            found = await group.call(request.remote_id or "", request)
            assert isinstance(found, PushEntryResponse)
            assert found.code == code
        assert isinstance(await group.append(leader, b"y"), Committed)


@pytest.mark.checklist(20, of="dledger")
async def test_a_push_of_an_older_term_changes_nothing(autojump_clock: object) -> None:
    async with opened() as group:
        first = await group.leader()
        await group.append(first, b"x")
        await group.kill(first)
        leader = await group.leader()
        done = await group.append(leader, b"y")
        await group.until_shown(done.last_index)
        follower = next(name for name in group.systems if name != leader)
        before = await group.entries(follower)
        entry = new_entry(index=0, term=0, pos=0, body=b"z")
        for kind in (PushType.COMPARE, PushType.TRUNCATE, PushType.APPEND):
            request = push(group, follower, first, term=0, type=kind, entry=entry)
            found = await group.call(follower, request, host=leader)
            assert found.code == ResponseCode.EXPIRED_TERM
            assert found.term > 0
        assert await group.entries(follower) == before


async def test_a_leader_that_contradicts_what_is_committed_ends_the_node(
    autojump_clock: object,
) -> None:
    async with opened() as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        done = await group.append(leader, b"x")
        await group.until_shown(done.last_index)
        forged = new_entry(index=done.first_index, term=0, pos=done.positions[0], body=b"y")
        request = push(group, follower, leader, type=PushType.TRUNCATE, entry=forged)
        with trio.move_on_after(5.0), suppress(trio.BrokenResourceError):
            await group.call(follower, request)
        with trio.fail_after(20.0):
            await group.world.node(follower).wait_ended()
        failure = group.world.node(follower).take_failure()
        assert failure is not None
        said = describe(failure)
        term = group.events(RoleChanged, follower)[-1].term
        which = f"entry {done.first_index} is committed and differs from the leader's"
        assert f"ledger: {follower} ends: {which}, {leader}'s in term {term}. " in said
        assert "out of DATA_DIR/NODE/groups/ledger and keep it" in said
        del group.systems[follower]
        assert isinstance(await group.append(leader, b"z"), Committed)


async def test_a_member_whose_files_have_another_size_says_so_and_disturbs_nobody(
    autojump_clock: object,
) -> None:
    """Positions are part of an entry: it cannot take what does not fit its own files."""
    async with opened(data_file_bytes=8192, started=False) as group:
        await group.start("n0", "n1")
        odd = group_config(**{**SMALL, "data_file_bytes": 4096})
        main = partial(run_member, odd, "n2")
        group.systems["n2"] = await group.world.start_node("n2", main)
        leader = await group.leader()
        while leader == "n2":
            await group.kill("n2")
            leader = await group.leader()
            group.systems["n2"] = await group.world.start_node("n2", main)
        for _ in range(4):
            await group.append(leader, bytes(1500))
        before = len(group.events(DispatcherChanged, leader))
        await trio.sleep(20.0)
        assert len(group.events(DispatcherChanged, leader)) - before < 200
        refused = group.events(EntriesRefused, "n2")
        sessions = [each.session for each in refused]
        assert len(set(sessions)) == len(sessions) > 0, "once a session"
        assert "this log goes on at" in refused[0].reason
        assert isinstance(await group.append(leader, b"x"), Committed)


async def test_a_store_that_has_too_much_to_do_is_asked_again(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a removal many writes may wait; also the question what became of those refused."""
    real, busy, refused = store.Store._write, list[str](), list[type]()

    async def write(self: store.Store, message: Any) -> None:
        if self.ctx.path.startswith(tuple(busy)):
            refused.append(type(message))
            message.reply_to.fail(Overloaded("too many writes wait behind a removal"))
        else:
            await real(self, message)

    monkeypatch.setattr(store.Store, "_write", write)
    async with opened() as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        await group.until_shown((await group.append(leader, b"before")).last_index)
        busy.append(f"/{follower}/")
        await group.append(leader, b"meanwhile")
        await trio.sleep(3.0)
        busy[0] = "/nobody/"
        assert {store_messages.Change, store_messages.GetMember} <= set(refused)
        done = await group.append(leader, b"after")
        await group.until_shown(done.last_index, within_s=10.0)
        assert await group.entries(follower) == await group.entries(leader)
