"""Members that stand still, and members whose vote finds no room: what waits for them, and how."""

from __future__ import annotations

import errno
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from group_kit import Group, opened

from actors.dledger.core.election_effects import Effects, HeartbeatAnswer
from actors.dledger.core.member_state import SavedVote
from actors.dledger.election import held_effects
from actors.dledger.election.held_effects import HeldEffects, Job
from actors.dledger.rpc.peer_messages import GetSigns, Signs
from actors.dledger.rpc.rpc_messages import Asked
from actors.dledger.session_messages import LeaderProven, ProveLeader
from actors.env import Address
from actors.errors import Overloaded
from actors.events.dledger import RoleChanged, VoteUnsaved
from actors.storage.ledger import store_messages
from wire.dledger.codes import RequestCode, VoteResult
from wire.dledger.rpc import HeartBeatRequest, VoteRequest, VoteResponse, encode_body
from wire.remoting.frame import encode_frame
from wire.remoting.header import Header

TERM = 3
LEAK_S = 6.0


@attrs.define
class Leader:
    """n1, by hand: it sends n0 heartbeats, and reads no answers."""

    group: Group
    send: Any

    @classmethod
    async def of(cls, group: Group) -> Leader:
        network = group.world.network.open("n1")
        address = Address(group.config.nodes["n0"], group.config.ledger_groups_of("n0")[0].port)
        stream = await network.connect(address.host, address.port)
        return cls(group, stream.halves()[1])

    async def beat(self) -> None:
        beat = HeartBeatRequest(
            group="ledger", remote_id="n0", local_id="n1", leader_id="n1", term=TERM
        )
        await self.send.send_all(
            encode_frame(Header(code=RequestCode.HEART_BEAT, opaque=1), encode_body(beat))
        )

    async def followed(self) -> None:
        for _ in range(2):
            await self.beat()
            await trio.sleep(0.5)
        assert [one.role for one in self.group.events(RoleChanged)][-1] == "FOLLOWER"


@pytest.mark.parametrize("still_s", [LEAK_S, LEAK_S + 0.01, 30.0, 60.0])
async def test_a_member_that_stood_still_hears_what_waits_before_it_campaigns(
    autojump_clock: trio.testing.MockClock, still_s: float
) -> None:
    async with opened(2, started=False) as group:
        await group.start("n0")
        leader = await Leader.of(group)
        await leader.followed()
        reported = group.events(RoleChanged)
        await leader.beat()
        autojump_clock.jump(still_s)  # all of it is late now: the heartbeat, and the time-out
        await trio.sleep(LEAK_S - 1.0)
        assert group.events(RoleChanged) == reported, "its leader is there"
        await trio.sleep(1.5)
        assert [one.role for one in group.events(RoleChanged)[len(reported) :]] == ["CANDIDATE"]


async def test_a_member_that_stands_still_again_listens_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened(2, started=False) as group:
        await group.start("n0")
        leader = await Leader.of(group)
        await leader.followed()
        reported = group.events(RoleChanged)
        autojump_clock.jump(LEAK_S)
        await trio.sleep(0.02)  # it listens
        await leader.beat()
        autojump_clock.jump(30.0)
        await trio.sleep(1.0)
        assert group.events(RoleChanged) == reported


# ---- votes that find no room ----


def vote_request(term: int, voter: str = "n0") -> VoteRequest:
    return VoteRequest(
        group="ledger",
        remote_id=voter,
        local_id="n1",
        leader_id="n1",
        term=term,
        ledger_end_index=100,
        ledger_end_term=term,
    )


@attrs.define
class Asking:
    """Asks n0's maintainer for votes, and notes the answers by number: two for each term."""

    group: Group
    answers: dict[int, Any] = attrs.field(factory=dict)

    async def ask(self, number: int) -> None:
        term = 10 + number // 2
        try:
            self.answers[number] = await self.group.ref("n0", "state_maintainer").ask(
                VoteResponse,
                lambda reply_to: Asked(request=vote_request(term), reply_to=reply_to),
                timeout_s=3600.0,
            )
        except Overloaded as error:
            self.answers[number] = error


NO_ROOM = "no room"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs waited, after each that came."""
    waiting: list[int] = []
    real = HeldEffects.add

    def add(self: HeldEffects, job: Job) -> None:
        real(self, job)
        waiting.append(len(self))

    monkeypatch.setattr(HeldEffects, "add", add)
    return waiting


def refuse_votes(group: Group) -> None:
    """As a full disk does whose file system does not write in place: there a reserve is none."""
    group.world.node("n0").disk.faults.fail(
        "write", errno.ENOSPC, path_part="/currterm", times=1 << 30, name=NO_ROOM
    )


async def test_a_candidate_whose_own_vote_finds_no_room_stands_still(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It asks nobody, however often it would, and says why; afterwards it goes on at once."""
    waiting = counted(monkeypatch)
    async with opened(3, started=False) as group:
        await group.start("n0")
        refuse_votes(group)
        await trio.sleep(990.0)
        assert max(waiting) <= 3
        (reported,) = group.events(VoteUnsaved)
        assert "room" in reported.reason
        words = f"cannot save its vote of term {reported.term}: {reported.reason}"
        assert await unsaved(group) == words
        still = f"ledger: n0 {words}; until it can it takes no part in elections"
        assert [each for each in caplog.messages if "vote" in each] == [still]
        await group.start("n1")
        await trio.sleep(10.0)
        group.world.node("n0").disk.faults.disarm(NO_ROOM)
        await trio.sleep(10.0)
        assert await group.leader(within_s=10.0) in ("n0", "n1")
        assert await unsaved(group) == ""
        assert group.events(VoteUnsaved)[1:] == [attrs.evolve(reported, reason="")]
        over = f"ledger: n0 has saved its vote of term {reported.term}, and goes on"
        assert [each for each in caplog.messages if "vote" in each] == [still, over]


async def unsaved(group: Group) -> str:
    """What n0 says in its status."""
    said = await group.ref("n0", "state_maintainer").ask(
        Signs, lambda reply_to: GetSigns(reply_to=reply_to), timeout_s=5.0
    )
    assert isinstance(said, Signs)
    return said.unsaved_vote


@pytest.mark.checklist(7, of="dledger")
@pytest.mark.parametrize("raft_votes", [False, True])
async def test_what_waits_for_a_vote_to_be_saved_has_a_bound(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, raft_votes: bool
) -> None:
    """Requests above it are refused as busy, and none is answered before the vote is kept."""
    waiting = counted(monkeypatch)
    monkeypatch.setattr(held_effects, "HELD_MAX", 20)
    opening = opened(3, started=False, raft_votes=raft_votes)
    async with opening as group, trio.open_nursery() as nursery:
        await group.start("n0")
        await trio.sleep(0.2)
        asking = Asking(group)
        if not raft_votes:
            await asking.ask(0)  # it takes the term
            await trio.sleep(0.1)
            assert asking.answers.pop(0).vote_result == VoteResult.REJECT_TERM_NOT_READY
        refuse_votes(group)
        for number in range(50):
            nursery.start_soon(asking.ask, number)
            await trio.sleep(0.1)
        roles = len(group.events(RoleChanged))
        await trio.sleep(900.0)
        assert max(waiting) <= 20
        busy = {each for each, answer in asking.answers.items() if isinstance(answer, Overloaded)}
        assert set(asking.answers) == busy, "no vote is answered that is not on the disk"
        assert len(busy) >= 50 - 20
        assert len(group.events(RoleChanged)) == roles, "no campaign that nobody hears of"
        proven = await group.ref("n0", "state_maintainer").ask(
            LeaderProven, lambda reply_to: ProveLeader(reply_to=reply_to), timeout_s=5.0
        )
        assert proven == LeaderProven(term=-1)
        group.world.node("n0").disk.faults.disarm(NO_ROOM)
        await trio.sleep(120.0)
        given = {number: one for number, one in asking.answers.items() if number not in busy}
        assert len(given) == 50 - len(busy)
        accepted = [one.term for one in given.values() if one.vote_result == VoteResult.ACCEPT]
        voted = [10 + number // 2 for number in sorted(given)] if raft_votes else [10, 10]
        assert accepted == voted, "reported once it is kept"
        kept = await group.ref("n0", "store").ask(
            store_messages.MemberRecord,
            lambda reply_to: store_messages.GetMember(reply_to=reply_to),
            timeout_s=5.0,
        )
        assert kept.vote.term > 10


def test_what_asks_for_nothing_waits_for_no_vote() -> None:
    held = HeldEffects(waits=True)
    resting = Effects(persist=SavedVote(term=2))
    held.add(Job(effects=resting))
    held.add(Job(effects=Effects(heartbeat=HeartbeatAnswer(code=200))))  # type: ignore[arg-type]
    assert held.next() is resting
    for number in range(10_000):
        held.add(Job(effects=Effects(deadline_s=float(number))))
    assert (len(held), held.full, held.next()) == (2, False, None)
    held.saved()
    assert [held.next() is not None for _ in range(3)] == [True, True, False]
    held.add(Job(effects=Effects(deadline_s=1.0)))
    assert held.next() is not None
