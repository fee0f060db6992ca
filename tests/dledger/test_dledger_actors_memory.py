"""Groups in memory: what a member keeps all the same, and what a restart of it may cost."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group_kit import Group, opened

from actors.dledger.rpc_messages import Asked
from wire.dledger_codes import VoteResult
from wire.dledger_rpc import VoteRequest, VoteResponse

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
        assert await vote(group, "n1") is VoteResult.REJECT_TERM_NOT_READY
        assert await vote(group, "n1") is VoteResult.ACCEPT
        await getattr(group, ends)("n0")
        await group.start("n0")
        await trio.sleep(0.1)
        assert await vote(group, "n2") is VoteResult.REJECT_ALREADY_VOTED
        assert await vote(group, "n2", TERM - 1) is VoteResult.REJECT_EXPIRED_VOTE_TERM
