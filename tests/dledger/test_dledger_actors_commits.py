"""What a member's readers are shown while its log is made to be the leader's."""

from __future__ import annotations

from contextlib import suppress

import trio
from group_kit import Group, opened

from actors.dledger.replication.append_messages import Followed
from actors.errors import TriologError
from actors.events.dledger import LedgerTruncated
from actors.runtime import ActorError

SYNC_S = 30.0
"""Longer than an election, and than it takes to heal and compare."""


async def watched(group: Group, name: str, seen: dict[int, set[bytes]]) -> None:
    """Note every entry that readers are shown there."""
    while True:
        for entry in await group.entries(name):
            seen.setdefault(entry.index, set()).add(entry.body)
        await trio.sleep(0.02)


async def test_no_reader_is_shown_what_has_yet_to_leave(autojump_clock: object) -> None:
    """CommittedNeverLeaves: the leader's committed entries take the place of others, which leave
    only after the sync that runs.
    """
    async with opened(durability="written") as group:
        first = await group.leader()
        others = [name for name in group.names if name != first]
        done = await group.append(first, b"before")
        await group.until_shown(done.last_index)
        group.world.node(first).disk.faults.slow_syncs(SYNC_S, SYNC_S)
        for name in others:
            group.world.network.cut_both(first, name)
        with suppress(TriologError, ActorError):
            await group.append(first, *(b"lost %d" % number for number in range(9)), timeout_s=1.0)
        await group.until(lambda: bool(set(group.leaders) & set(others)))
        leader = await group.leader()
        for number in range(9):
            done = await group.append(leader, b"kept %d" % number)
        await group.until_shown(done.last_index, *others)
        seen: dict[int, set[bytes]] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watched, group, first, seen)
            group.world.network.heal_all()
            await group.until_shown(done.last_index, first)
            nursery.cancel_scope.cancel()
        assert group.events(LedgerTruncated, first), "its entries had to leave"
        kept = {entry.index: {entry.body} for entry in await group.entries(leader)}
        assert seen == {index: kept[index] for index in seen}
        assert await group.entries(first) == await group.entries(leader)


async def test_a_leader_shows_what_it_learned_of_in_a_session_that_is_over(
    autojump_clock: object,
) -> None:
    """Without a term entry nothing else would be committed that brings the news."""
    async with opened(1, term_entry="none") as group:
        done = await group.append(await group.leader(), b"x")
        await group.kill("n0")  # the committed index was not on the disk yet
        await group.start("n0")
        await group.ref("n0", "quorum_ack_checker").tell(Followed(index=done.last_index))
        await group.until_shown(done.last_index)
        assert await group.bodies("n0") == [b"x"]
