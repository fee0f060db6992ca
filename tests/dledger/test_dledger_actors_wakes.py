"""How often a leader's checker, and a member's store, are woken for what one message can say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
from group_kit import Group, opened

from actors.dledger.leader_status import LeaderStatus
from actors.dledger.replication.append_messages import GetWatermarks, Matched, Watermarks
from actors.dledger.replication.entry_dispatcher import EntryDispatcher
from actors.dledger.replication.quorum_ack_checker import STORED_WITHIN_S, QuorumAckChecker
from actors.dledger.session_messages import Resting
from actors.errors import LeadershipLost
from actors.storage.ledger import store_messages
from actors.storage.ledger.store import Store
from actors.storage.ledger.term_files import TermVote

APPENDS = 10


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each wake-up of a checker: the messages that it read then, in words."""
    found: list[str] = []
    real = QuorumAckChecker.handle_batch

    async def handle_batch(self: QuorumAckChecker, messages: list[Any]) -> None:
        if self.quorum.leading:
            found.append(" ".join(type(message).__name__ for message in messages))
        await real(self, messages)

    monkeypatch.setattr(QuorumAckChecker, "handle_batch", handle_batch)
    return found


async def appended_alone(group: Group, batches: list[str]) -> tuple[str, int]:
    """Append some entries, each alone, with nothing deferred coming due meanwhile.

    Returns: the leader, and the last index.
    """
    leader = await group.leader()
    await trio.sleep(2.0)
    batches.clear()
    for number in range(APPENDS):
        due_s = trio.current_time() // STORED_WITHIN_S * STORED_WITHIN_S
        await trio.sleep(due_s + STORED_WITHIN_S * 1.02 - trio.current_time())
        done = await group.append(leader, b"%d" % number)
    return leader, done.last_index


@pytest.mark.parametrize("durability", ["synced", "written"])
async def test_a_checker_is_woken_for_nothing_that_decides_nothing(
    autojump_clock: object, batches: list[str], durability: str
) -> None:
    """Once for an append, and for what its commit waits for: the own disk and one peer at most."""
    async with opened(durability=durability) as group:
        leader, last = await appended_alone(group, batches)
        assert batches[0].split()[-1] == "Append"
        needed = 3 if durability == "synced" else 2
        assert len(batches) <= needed * APPENDS + 1, batches  # one for the news of a second
        await trio.sleep(STORED_WITHIN_S)
        known = await group.ref(leader, "quorum_ack_checker").ask(
            Watermarks, lambda reply_to: GetWatermarks(reply_to=reply_to), timeout_s=5.0
        )
        peers = tuple((name, last) for name in group.names if name != leader)
        assert tuple(sorted(known.indexes)) == peers, "what wakes nobody is not lost"


async def test_a_member_without_peers_commits_what_its_disk_has_at_once(
    autojump_clock: object, batches: list[str]
) -> None:
    async with opened(1) as group:
        await appended_alone(group, batches)
        took_s = []
        for number in range(APPENDS):
            began_s = trio.current_time()
            await group.append("n0", b"%d" % number)
            took_s.append(trio.current_time() - began_s)
        assert sorted(took_s)[APPENDS // 2] < STORED_WITHIN_S / 4, "a sync, and nothing else"


async def test_an_append_that_its_session_ends_for_is_answered_at_once(
    autojump_clock: object,
) -> None:
    """What the store has said of it wakes the checker, though no peer will say more."""
    async with opened() as group:
        leader = await group.leader()
        await trio.sleep(2.0)
        checker = group.ref(leader, "quorum_ack_checker")
        group.world.node(leader).disk.faults.slow_syncs(5.0, 5.0)
        for name in group.names:
            if name != leader:
                group.world.network.cut_both(leader, name)
        failed_s: list[float] = []

        async def append() -> None:
            with pytest.raises(LeadershipLost):
                await group.append(leader, b"x")
            failed_s.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await trio.sleep(0.0001)
            session = await group.watermarks_session(leader)
            await checker.tell(Resting(session=session + 1, term=99))
            rested_s = trio.current_time()
        assert failed_s[0] - rested_s < STORED_WITHIN_S / 4


@attrs.define
class Checker:
    """Stands for its ref."""

    received: list[int] = attrs.field(factory=list)
    deferred: list[int] = attrs.field(factory=list)

    async def tell(self, message: Matched) -> None:
        self.received.append(message.index)

    def defer(self, message: Matched, *, within_s: float) -> bool:
        assert 0.0 < within_s < 10.0
        self.deferred.append(message.index)
        return True


async def test_a_peer_that_has_lost_entries_is_reported_at_once() -> None:
    checker, status = Checker(), LeaderStatus()
    dispatcher: Any = SimpleNamespace(
        checker=checker,
        role_status=status,
        dispatch=SimpleNamespace(peer="n1"),
        _session=3,
        _reported=-1,
        _matched=None,
    )

    async def matched(index: int, committed: int) -> None:
        status.committed = committed
        await EntryDispatcher._send_matched(dispatcher, index)

    await matched(4, 3)
    await matched(5, 5)
    await matched(-1, 5)
    await matched(4, 5)
    await matched(6, 5)
    assert (checker.received, checker.deferred) == ([4, -1, 6], [5, 4])


async def test_a_session_and_the_vote_that_it_begins_with_are_one_message(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round trip to the store for each change of an election, and none without a session."""
    asked: list[str] = []
    real = Store._save_or_open

    def save_or_open(self: Store, message: Any) -> None:
        with_vote = getattr(message, "vote", None) is not None
        asked.append(type(message).__name__ + (" with a vote" if with_vote else ""))
        real(self, message)

    monkeypatch.setattr(Store, "_save_or_open", save_or_open)
    async with opened(1) as group:
        assert await group.leader() == "n0"
        assert asked == ["OpenSession", "OpenSession with a vote"]
        kept = await group.ref("n0", "store").ask(
            store_messages.MemberRecord,
            lambda reply_to: store_messages.GetMember(reply_to=reply_to),
            timeout_s=5.0,
        )
        role = group.role("n0")
        assert role is not None
        assert (kept.session, kept.vote) == (role.session, TermVote(role.term, "n0"))
    async with opened() as group:
        leader = await group.leader()
        asked.clear()
        await group.kill(leader)
        await group.leader()
        assert asked.count("OpenSession with a vote") == 2, "who stands, and who votes for it"
        assert "SaveVote with a vote" not in asked
