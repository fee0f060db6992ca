"""Groups in memory: what a member keeps all the same, and what a restart of it may cost."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group_kit import Group, opened

from actors.dledger.core.votes import VoteAnswer
from actors.dledger.election import election_requests
from actors.dledger.rpc.rpc_messages import Asked
from actors.events.dledger import RoleChanged
from wire.dledger.codes import VoteResult
from wire.dledger.rpc import VoteRequest, VoteResponse

TERM = 7


async def vote(group: Group, candidate: str, term: int = TERM) -> VoteResult | None:
    """What n0 answers to a candidate whose log is as good as any."""
    request = VoteRequest(
        group="ledger",
        remote_id="n0",
        local_id=candidate,
        leader_id=candidate,
        term=term,
        ledger_end_index=100,
        ledger_end_term=term,
    )
    answer: Any = await group.ref("n0", "state_maintainer").ask(
        VoteResponse, lambda reply_to: Asked(request=request, reply_to=reply_to), timeout_s=5.0
    )
    await trio.sleep(0.1)
    found: VoteResult | None = answer.vote_result
    return found


@pytest.mark.checklist(7, of="dledger")
@pytest.mark.parametrize("ends", ["kill", "power_loss"])
@pytest.mark.parametrize("store", ["memory", "file"])
async def test_a_vote_outlives_the_member(autojump_clock: object, store: str, ends: str) -> None:
    """Else it could have two leaders in one term."""
    async with opened(3, started=False, store=store) as group:
        await group.start("n0")
        await trio.sleep(0.1)
        assert await vote(group, "n1") is VoteResult.ACCEPT
        await getattr(group, ends)("n0")
        await group.start("n0")
        await trio.sleep(0.1)
        assert await vote(group, "n2") is VoteResult.REJECT_ALREADY_VOTED
        assert await vote(group, "n2", TERM - 1) is VoteResult.REJECT_EXPIRED_VOTE_TERM


async def test_what_a_restarted_member_has_lost_elects_nobody_who_lacks_it(
    autojump_clock: object,
) -> None:
    """It had acknowledged what a third member never got, and would vote for that one."""
    async with opened(store="memory") as group:
        leader = await group.leader()
        held, lacks = (name for name in group.names if name != leader)
        await group.append(leader, b"everywhere")
        cut = group.world.network.cut_both
        cut(leader, lacks)
        cut(held, lacks)
        await group.append(leader, b"on two")
        await group.kill(held)
        cut(leader, held)
        group.world.network.heal(held, lacks)
        group.world.network.heal(lacks, held)
        await group.start(held)
        began = len(group.events(RoleChanged))
        await trio.sleep(60.0)
        later = group.events(RoleChanged, held, lacks)
        assert "LEADER" not in [role.role for role in later[-(len(later) - began) :]]
        group.world.network.heal_all()
        done = await group.append(await group.leader(), b"after")
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [b"everywhere", b"on two", b"after"]


async def test_one_that_has_caught_up_votes_like_the_others(autojump_clock: object) -> None:
    async with opened(store="memory") as group:
        leader = await group.leader()
        restarted, other = (name for name in group.names if name != leader)
        for number in range(20):
            done = await group.append(leader, b"%d" % number)
        await group.kill(restarted)
        await group.start(restarted)
        await group.until_shown(done.last_index, restarted)
        await group.kill(leader)
        done = await group.append(await group.leader(), b"after")
        await group.until_shown(done.last_index, restarted, other)
        assert await group.bodies(restarted) == [*(b"%d" % each for each in range(20)), b"after"]


@pytest.mark.parametrize("members", [1, 2, 3, 5])
async def test_a_group_that_has_lost_all_begins_anew_once_all_are_there(
    autojump_clock: object, members: int
) -> None:
    async with opened(members, store="memory") as group:
        await group.append(await group.leader(), b"lost")
        for name in group.names:
            await group.kill(name)
        before = len(group.seen)
        await group.start(*group.names[1:] or ())
        if members > 1:
            await trio.sleep(60.0)
            roles = [one.event for one in group.seen[before:] if isinstance(one.event, RoleChanged)]
            assert "LEADER" not in [role.role for role in roles], "one may hold what is committed"
            await group.start(group.names[0])
        done = await group.append(await group.leader(), b"anew")
        await group.until_shown(done.last_index)
        for name in group.names:
            assert await group.bodies(name) == [b"anew"]


def test_members_of_upstreams_take_a_partial_vote_for_none() -> None:
    request = VoteRequest(group="ledger", remote_id="n0", local_id="n1", leader_id="n1", term=TERM)
    answer = VoteAnswer(result=VoteResult.ACCEPT, term=TERM, is_partial=True)
    response = election_requests.vote_response(request, answer)
    assert response.vote_result is VoteResult.REJECT_TAKING_LEADERSHIP
    assert election_requests.vote_answer(response) == answer
    for result in VoteResult:
        plain = VoteAnswer(result=result, term=TERM)
        assert (
            election_requests.vote_answer(election_requests.vote_response(request, plain)) == plain
        )
