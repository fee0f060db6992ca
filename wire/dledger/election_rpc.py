"""Bodies of VOTE, HEART_BEAT and LEADERSHIP_TRANSFER. See `wire.dledger.rpc`."""

from __future__ import annotations

from wire.dledger.codes import BaseFields, Body, VoteResult
from wire.remoting.tolerant_json import Int, Long, always


class VoteRequest(Body, frozen=True, kw_only=True):
    """A candidate's request for a vote. `ledger_end_index` and `ledger_end_term` are those of the
    candidate's last entry; -1 if it has none.
    """

    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    ledger_end_index: Long = always(-1)
    ledger_end_term: Long = always(-1)
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)


class VoteResponse(BaseFields, frozen=True, kw_only=True):
    """A voter's answer.

    `vote_result` is None for an unknown name, as version 0.1 spells one of them otherwise. `term`
    is the voter's, or that of its last entry; the other base fields are the request's.
    """

    vote_result: VoteResult | None = always(VoteResult.UNKNOWN)


class HeartBeatRequest(BaseFields, frozen=True, kw_only=True):
    """A heartbeat: the sender leads `term`."""


class HeartBeatResponse(Body, frozen=True, kw_only=True):
    """The answer to a heartbeat. Java fills in `code` and, with 401, 402 and 403, its own `term`.

    `joins` is not upstream's, whose leader skips it: the sender's vote counts only if all members
    vote (`actors.dledger.core.votes`). It is written only if it is true.
    """

    code: Int = always(200)
    group: str | None = None
    joins: bool = False
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)


class LeadershipTransferRequest(Body, frozen=True, kw_only=True):
    """A client asks the leader to hand over, or the leader asks the transferee to take over.

    Attributes:
        take_leadership_ledger_index: the leader's last index, which the transferee must reach.
        transfer_id, transferee_id: the member that hands over, and the one that takes over.
    """

    code: Int = always(200)
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    take_leadership_ledger_index: Long = always(0)
    term: Long = always(-1)
    transfer_id: str | None = None
    transferee_id: str | None = None


class LeadershipTransferResponse(BaseFields, frozen=True, kw_only=True):
    """The answer to a transfer request. Java fills in `code` and `term`."""
