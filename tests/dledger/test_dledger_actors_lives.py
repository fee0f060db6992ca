"""Answers that come when the part that asked lives anew: they are not taken for answers to it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group_kit import Group, opened

from actors.dledger.election import election_requests
from actors.dledger.rpc.rpc_messages import Answered, Call
from wire.dledger.codes import VoteResult
from wire.dledger.rpc import VoteRequest, VoteResponse


async def isolated(group: Group, name: str) -> None:
    for other in group.names:
        if other != name:
            group.world.network.cut_both(name, other)


async def test_a_vote_for_an_earlier_incarnation_of_a_candidate_does_not_count(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was for an older term: two could lead in the new one (ElectionSafety)."""
    made, asked = election_requests.calls, []

    def calls(*given: Any) -> list[tuple[str, Call]]:
        found = made(*given)
        asked.extend(call for _, call in found if isinstance(call.request, VoteRequest))
        return found

    monkeypatch.setattr(election_requests, "calls", calls)
    async with opened(raft_votes=False) as group:  # its next life begins in the next term
        leader = await group.leader()
        await isolated(group, leader)
        old = [call for call in asked if call.request.local_id == leader]
        asked.clear()
        path = group.paths(leader).state_maintainer
        await group.crash(leader, path)
        await group.until(lambda: any(call.request.local_id == leader for call in asked))
        for call in old:
            answer = VoteResponse(group="ledger", term=0, vote_result=VoteResult.ACCEPT)
            peer = call.request.remote_id or ""
            reported = Answered(peer=peer, token=call.token, response=answer)
            await group.systems[leader].ref(path).tell(reported)
        await trio.sleep(0.5)
        role = group.role(leader)
        assert role is not None
        assert (role.role, role.term) == ("CANDIDATE", 1)
