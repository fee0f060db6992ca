"""Leaders that die, are cut off, hand over or run out of disk: what becomes of their appends."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from group_kit import Group, opened

from actors.dledger.replication.append_messages import Committed, GetReadIndex, ReadIndex
from actors.errors import (
    LeadershipLost,
    LogFull,
    NotMaster,
    Overloaded,
    ReplicationTimeout,
    TriologError,
)
from actors.events.dledger import RoleChanged
from actors.events.runtime import ActorCrashed
from actors.runtime import context
from actors.sim.world import SimEvent
from actors.storage.ledger import store, store_messages
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import AppendEntryRequest, LeadershipTransferRequest


async def outcome(group: Group, name: str, body: bytes, **more: Any) -> Committed | TriologError:
    """Of an append that may fail."""
    try:
        return await group.append(name, body, **more)
    except TriologError as error:
        return error


def cut_off(group: Group, name: str) -> None:
    for other in group.names:
        if other != name:
            group.world.network.cut_both(name, other)


@pytest.mark.parametrize("how", ["kill", "power_loss"])
async def test_the_next_leader_has_all_that_was_acknowledged(
    autojump_clock: object, how: str
) -> None:
    async with opened() as group:
        first = await group.leader()
        bodies = [b"%d" % number for number in range(50)]
        for body in bodies:
            await group.append(first, body)
        await getattr(group, how)(first)
        second = await group.leader()
        assert second != first
        done = await group.append(second, b"after")
        await group.start(first)
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [*bodies, b"after"]


async def test_a_synced_group_survives_the_loss_of_all_power(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        for number in range(20):
            await group.append(leader, b"%d" % number)
        for name in group.names:
            await group.power_loss(name)
        await group.start()
        leader = await group.leader()
        done = await group.append(leader, b"on")
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [*(b"%d" % number for number in range(20)), b"on"]


@pytest.mark.checklist(31, of="dledger")
async def test_a_deposed_leaders_appends_end(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        last = (await group.append(leader, b"committed")).last_index
        cut_off(group, leader)
        began_s = trio.current_time()
        found = await outcome(group, leader, b"in doubt", timeout_s=30.0)
        assert isinstance(found, LeadershipLost)
        assert (found.first, found.last) == (last + 1, last + 1)
        assert found.status == "EXPIRED_TERM"
        assert 4.0 <= trio.current_time() - began_s <= 6.0, "three heartbeats of silence"
        found = await outcome(group, leader, b"refused")
        assert isinstance(found, NotMaster)
        group.world.network.heal_all()
        leader = await group.leader()
        done = await group.append(leader, b"after")
        await group.until_shown(done.last_index)
        assert (await group.bodies(leader))[0] == b"committed"


@pytest.mark.checklist(30, 31, of="dledger")
async def test_an_append_for_another_term_is_refused(autojump_clock: object) -> None:
    async with opened() as group:
        first = await group.leader()
        roles = {name: group.role(name) for name in group.names}
        role = roles[first]
        assert role is not None
        assert isinstance(await outcome(group, first, b"x", term=role.term), Committed)
        for term in (role.term - 1, role.term + 1):
            assert isinstance(await outcome(group, first, b"x", term=term), NotMaster)
        assert await group.bodies(first) == [b"x"]


async def test_what_no_quorum_has_in_time_is_in_doubt(autojump_clock: object) -> None:
    async with opened(waiting_max=2) as group:
        leader = await group.leader()
        last = (await group.append(leader, b"committed")).last_index
        cut_off(group, leader)
        found: list[Committed | TriologError] = []

        async def append(body: bytes) -> None:
            found.append(await outcome(group, leader, body, timeout_s=1.0))

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(append, b"%d" % number)
                await trio.sleep(0.05)
        full, *late = found
        assert isinstance(full, Overloaded)
        assert full.status == "LEADER_PENDING_FULL"
        indexes = []
        for error in late:
            assert isinstance(error, ReplicationTimeout)
            assert error.status == "WAIT_QUORUM_ACK_TIMEOUT"
            indexes.append((error.first, error.last, error.next))
        assert indexes == [(last + n, last + n, last + n + 1) for n in (1, 2, 3)]
        again = await outcome(group, leader, b"again", timeout_s=0.5)
        assert isinstance(again, ReplicationTimeout), "the count fell again"
        group.world.network.heal_all()
        done = await group.append(await group.leader(), b"after")
        await group.until_shown(done.last_index)
        expected = [b"committed", b"0", b"1", b"2", b"again", b"after"]
        assert await group.bodies(leader) == expected, "an outcome that was unknown"


async def test_over_the_wire_a_late_append_is_502(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        cut_off(group, leader)
        request = AppendEntryRequest(body=b"x", group="ledger", remote_id=leader, local_id="client")
        found = await group.call(leader, request, host=leader)
        assert (found.code, found.index, found.pos) == (502, 1, -1)  # type: ignore[union-attr]
        both: Any = await group.calls(leader, request, request, host=leader)
        assert [(each.code, each.index, each.pos) for each in both] == [(502, 2, -1), (502, 3, -1)]


async def test_over_the_wire_no_more_appends_wait_than_may(autojump_clock: object) -> None:
    async with opened(waiting_max=2) as group:
        leader = await group.leader()
        cut_off(group, leader)
        request = AppendEntryRequest(body=b"x", group="ledger", remote_id=leader, local_id="client")
        codes: list[int] = []

        async def append(count: int) -> None:
            found = await group.calls(leader, *[request] * count, host=leader)
            codes.extend(answer.code for answer in found)

        async with trio.open_nursery() as nursery:
            for count in (3, 2, 1):
                nursery.start_soon(append, count)
                await trio.sleep(0.05)
        assert codes == [ResponseCode.LEADER_PENDING_FULL] * 3 + [502] * 3


# ---- the entry that opens a term ----


@pytest.mark.parametrize("answers", [True, False])
async def test_an_entry_that_opens_a_term_and_was_refused_is_given_again(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """Nobody appends: without it the term would commit nothing that is left of older ones.

    A store that is busy refuses it, or does not answer in time.
    """
    real, refused = store.Store._append_all, []

    def busy(self: store.Store, appends: list[store_messages.Append]) -> None:
        taken = []
        for append in appends:
            if append.bodies == (b"",) and len(refused) < 3:
                refused.append(append)
                if answers:
                    append.reply_to.fail(Overloaded("too much waits"))
            else:
                taken.append(append)
        real(self, taken)

    async with opened() as group:
        first = await group.leader()
        done = await group.append(first, b"before")
        monkeypatch.setattr(store.Store, "_append_all", busy)
        await group.kill(first)
        second = await group.leader()
        await group.until_shown(done.last_index + 1, second, within_s=400.0)
        assert len(refused) == 3
        assert [entry.body for entry in await group.entries(second)] == [b"", b"before", b""]


async def test_no_term_is_opened_by_a_leader_that_leads_no_more(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[float] = []

    def busy(self: store.Store, appends: list[store_messages.Append]) -> None:
        for append in appends:
            refused.append(trio.current_time())
            append.reply_to.fail(Overloaded("too much waits"))

    monkeypatch.setattr(store.Store, "_append_all", busy)
    async with opened() as group:
        first = await group.leader()
        cut_off(group, first)
        await group.until(lambda: group.leaders not in ([], [first]))
        for name in group.names:
            if name != first:
                await group.kill(name)
        await trio.sleep(20.0)
        given = len(refused)
        await trio.sleep(20.0)
        assert group.role(first).role == "CANDIDATE"  # type: ignore[union-attr]
        assert given == len(refused) > 0


# ---- many appends ----


async def test_as_many_appends_may_wait_for_the_store_as_for_a_quorum(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime's bound of one actor's questions follows `waiting_max`, which may be larger."""
    monkeypatch.setattr(context, "ASKS_PENDING_MAX", 50)
    real, gates = store.Store.handle_batch, list[trio.Event]()

    async def slow(self: store.Store, messages: list[Any]) -> None:
        for gate in gates:
            await gate.wait()
        await real(self, messages)

    monkeypatch.setattr(store.Store, "handle_batch", slow)
    found: list[Committed | TriologError] = []
    async with opened(1, waiting_max=100) as group:
        leader = await group.leader()
        await group.append(leader, b"before")
        gates.append(trio.Event())

        async def append(number: int) -> None:
            found.append(await outcome(group, leader, b"%d" % number, timeout_s=30.0))

        async with trio.open_nursery() as nursery:
            for number in range(110):
                nursery.start_soon(append, number)
                await trio.sleep(0.01)
            assert [type(each) for each in found] == [Overloaded] * 9, "100 wait, and one more"
            gates[0].set()
        assert len([each for each in found if isinstance(each, Committed)]) == 101
        assert not group.events(ActorCrashed)


# ---- transfers ----


def transfer(group: Group, leader: str, to: str, term: int) -> LeadershipTransferRequest:
    return LeadershipTransferRequest(
        group="ledger",
        remote_id=leader,
        local_id="client",
        term=term,
        transfer_id=leader,
        transferee_id=to,
    )


@pytest.mark.checklist(32, of="dledger")
async def test_leadership_is_handed_over(autojump_clock: object) -> None:
    async with opened() as group:
        old = await group.leader()
        new = next(name for name in group.names if name != old)
        await group.append(old, b"before")
        term = group.events(RoleChanged, old)[-1].term
        answer = await group.call(old, transfer(group, old, new, term))
        assert answer.code == ResponseCode.SUCCESS
        assert await group.leader() == new
        done = await group.append(new, b"after")
        await group.until_shown(done.last_index)
        assert await group.bodies(old) == [b"before", b"after"]
        role = group.role(old)
        assert role is not None
        assert (role.role, role.leader, role.term) == ("FOLLOWER", new, term + 1)


@pytest.mark.checklist(32, of="dledger")
async def test_a_transfer_that_fails_lets_the_leader_go_on(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        away = next(name for name in group.names if name != leader)
        await group.append(leader, b"before")
        group.world.network.cut_both(leader, away)
        term = group.events(RoleChanged, leader)[-1].term
        codes: list[int] = []

        async def ask() -> None:
            found = await group.call(leader, transfer(group, leader, away, term), host=leader)
            codes.append(found.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(0.5)
            found = await outcome(group, leader, b"meanwhile")
            assert isinstance(found, NotMaster)
            assert found.status == "LEADER_TRANSFERRING"
        assert codes != [200]
        assert isinstance(await outcome(group, leader, b"after"), Committed)


async def test_a_preferred_leader_is_handed_the_group(autojump_clock: object) -> None:
    async with opened(seed="preferred", preferred_leaders=("n1",)) as group:
        await group.until(lambda: group.leaders == ["n1"])
        assert isinstance(await outcome(group, await group.leader(), b"x"), Committed)


# ---- disks ----


@pytest.mark.checklist(34, of="dledger")
async def test_a_leader_without_room_steps_down(autojump_clock: object) -> None:
    async with opened(data_file_bytes=4096) as group:
        leader = await group.leader()
        await group.append(leader, b"before")
        group.world.node(leader).disk.faults.fill(3600.0)
        found: Committed | TriologError | None = None
        while not isinstance(found, LogFull):
            found = await outcome(group, leader, bytes(1000))
            assert isinstance(found, Committed | LogFull), found
        assert found.status == "DISK_FULL"
        await group.until(lambda: group.leaders not in ([], [leader]))
        assert isinstance(await outcome(group, await group.leader(), b"after"), Committed)


@pytest.mark.checklist(34, of="dledger")
async def test_a_full_disk_is_415_over_the_wire(autojump_clock: object) -> None:
    async with opened(1, data_file_bytes=4096) as group:
        leader = await group.leader()
        group.world.node("n0").disk.faults.fill(30.0)
        request = AppendEntryRequest(
            body=bytes(1000), group="ledger", remote_id=leader, local_id="client"
        )
        codes: list[int] = []
        while codes[-1:] in ([], [200]):
            codes.append((await group.call(leader, request, host=leader)).code)
        assert codes[-1] == ResponseCode.DISK_FULL
        refused = await group.call(leader, request, host=leader)
        assert refused.code == ResponseCode.NOT_LEADER
        await trio.sleep(60.0)
        assert isinstance(await outcome(group, await group.leader(), b"after"), Committed)


@pytest.mark.checklist(7, of="dledger")
async def test_a_vote_that_found_no_room_is_sent_to_nobody(autojump_clock: object) -> None:
    """A candidate's own vote, too: it leads once that is on the disk."""
    async with opened(1) as group:
        faults = group.world.node("n0").disk.faults  # as where a reserve is none
        faults.fail("write", errno.ENOSPC, path_part="/currterm", times=1 << 30, name="full")
        await trio.sleep(29.0)
        assert [role.role for role in group.events(RoleChanged)] == ["CANDIDATE"]
        faults.disarm("full")
        await group.leader(within_s=3.0)


async def test_a_fresh_read_waits_for_the_first_commit_of_the_term(autojump_clock: object) -> None:
    """Whatever else the leader hears meanwhile: here that its own disk has the entry."""
    async with opened(started=False) as group:

        def slow_down(seen: SimEvent) -> None:
            if isinstance(seen.event, RoleChanged) and seen.event.role == "LEADER":
                for name in group.names:
                    sync_s = 0.5 if name == seen.node else 1.0
                    group.world.node(name).disk.faults.slow_syncs(sync_s, sync_s)

        group.world.on_event.append(slow_down)
        await group.start()
        leader = await group.leader()
        asked_s = trio.current_time()
        found: ReadIndex = await group.ref(leader, "quorum_ack_checker").ask(
            ReadIndex, lambda reply_to: GetReadIndex(reply_to=reply_to), timeout_s=5.0
        )
        assert trio.current_time() > asked_s + 0.5, "it was committed before the question"
        assert found.index == 0
