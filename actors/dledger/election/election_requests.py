"""Translates requests of elections and transfers, and their answers, to values and back.

Upstream: openmessaging/dledger, DLedgerLeaderElector.java, 0.3.1.2; dledger.md 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from actors.dledger.core.election import Election
from actors.dledger.core.election_effects import (
    AskVotes,
    Effects,
    HeartbeatAnswer,
    SendHeartbeats,
    SendTransfer,
    TransferAnswer,
)
from actors.dledger.core.member_state import LedgerEnd
from actors.dledger.core.settings import TRANSFER_TIMEOUT_S, ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from actors.dledger.core.votes import VoteAnswer, VoteAsked
from actors.dledger.rpc.rpc_messages import Answered, Call, Sender
from actors.runtime import ActorRef
from wire.dledger.codes import ResponseCode, VoteResult, response_code
from wire.dledger.rpc import (
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    MetadataRequest,
    MetadataResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)

PARTIAL: Final = (ResponseCode.INCONSISTENT_STATE, VoteResult.REJECT_TAKING_LEADERSHIP)
"""The answer of a provisional voter, which upstream's members do not count as a vote."""


@attrs.frozen
class _Vote:
    """The token of a VOTE."""

    number: int
    peer: str


@attrs.frozen
class _Beat:
    """The token of a HEART_BEAT."""

    number: int
    peer: str


@attrs.frozen
class _Transfer:
    """The token of a LEADERSHIP_TRANSFER to the transferee."""

    number: int


def round_of(token: object) -> int | None:
    """Return the number of the call's round of votes or heartbeats; None if it is of neither.

    Numbers rise through all incarnations of a maintainer.
    """
    return token.number if isinstance(token, _Vote | _Beat) else None


# ---- what this member asks ----


def calls(
    sender: Sender,
    peers: Iterable[str],
    effects: Effects,
    settings: ElectionSettings,
    answer_to: ActorRef[Any],
) -> list[tuple[str, Call]]:
    """Return all calls that these effects ask for, each with the peer that it is for."""
    sent: list[tuple[str, Call]] = []
    if effects.ask_votes is not None:
        sent += _votes(sender, peers, effects.ask_votes, settings, answer_to)
    if effects.send_heartbeats is not None:
        sent += _beats(sender, peers, effects.send_heartbeats, settings, answer_to)
    if effects.send_transfer is not None:
        sent.append(_transfer(sender, effects.send_transfer, answer_to))
    return sent


def _votes(
    sender: Sender,
    peers: Iterable[str],
    ask: AskVotes,
    settings: ElectionSettings,
    answer_to: ActorRef[Any],
) -> list[tuple[str, Call]]:
    """Ask each peer for its vote. The round ends by its own deadline, before the calls'."""
    timeout_s = settings.heartbeat_interval_s + settings.vote_round_extra_s
    calls = []
    for peer in peers:
        request = VoteRequest(
            ledger_end_index=ask.end.index,
            ledger_end_term=ask.end.term,
            **sender.base(peer, sender.self_id, ask.term),
        )
        token = _Vote(ask.number, peer)
        calls.append((peer, _call(request, timeout_s, token, answer_to)))
    return calls


def _beats(
    sender: Sender,
    peers: Iterable[str],
    send: SendHeartbeats,
    settings: ElectionSettings,
    answer_to: ActorRef[Any],
) -> list[tuple[str, Call]]:
    """Send each peer a heartbeat; its time-out is the time at which the next one is due."""
    calls = []
    for peer in peers:
        request = HeartBeatRequest(**sender.base(peer, sender.self_id, send.term))
        token = _Beat(send.number, peer)
        calls.append((peer, _call(request, settings.heartbeat_interval_s, token, answer_to)))
    return calls


def _transfer(sender: Sender, send: SendTransfer, answer_to: ActorRef[Any]) -> tuple[str, Call]:
    """Ask the transferee to take the leadership over."""
    request = LeadershipTransferRequest(
        take_leadership_ledger_index=send.index,
        transfer_id=sender.self_id,
        transferee_id=send.transferee,
        **sender.base(send.transferee, sender.self_id, send.term),
    )
    token = _Transfer(send.number)
    return send.transferee, _call(request, TRANSFER_TIMEOUT_S, token, answer_to)


def _call(request: Request, timeout_s: float, token: object, answer_to: ActorRef[Any]) -> Call:
    return Call(request=request, timeout_s=timeout_s, token=token, answer_to=answer_to)


def answered(election: Election, now_s: float, answered: Answered) -> Effects:
    """Pass a call's answer, or the fact that it has none, to the election."""
    response: Response | None = answered.response
    match answered.token:
        case _Vote(number, peer):
            answer = None
            if isinstance(response, VoteResponse):
                answer = vote_answer(response)
            return election.vote_answered(now_s, number, peer, answer)
        case _Beat(number, peer):
            code, term, joins = ResponseCode.NETWORK_ERROR, -1, False
            if isinstance(response, HeartBeatResponse):
                code, term, joins = response_code(response.code), response.term, response.joins
            return election.heartbeat_answered(now_s, number, peer, code, term, joins=joins)
        case _Transfer(number):
            code, term = ResponseCode.NETWORK_ERROR, -1
            if isinstance(response, LeadershipTransferResponse):
                code, term = response_code(response.code), response.term
            return election.transfer_answered(now_s, number, code, term)
        case _:
            raise AssertionError(f"not a call of the maintainer: {answered.token!r}")


def vote_answer(response: VoteResponse) -> VoteAnswer:
    """Translate a voter's response to a value."""
    result = response.vote_result or VoteResult.UNKNOWN
    if (response_code(response.code), result) == PARTIAL:
        return VoteAnswer(result=VoteResult.ACCEPT, term=response.term, is_partial=True)
    if result is VoteResult.ACCEPT and response_code(response.code) is not ResponseCode.SUCCESS:
        result = VoteResult.UNKNOWN
    return VoteAnswer(result=result, term=response.term)


# ---- what it is asked ----


def vote_asked(request: VoteRequest) -> VoteAsked:
    end = LedgerEnd(index=request.ledger_end_index, term=request.ledger_end_term)
    return VoteAsked(candidate=request.leader_id or "", term=request.term, end=end)


def transfer_asked(request: Request, token: int) -> TransferAsked:
    assert isinstance(request, LeadershipTransferRequest)
    return TransferAsked(
        token=token,
        transferer=request.transfer_id or "",
        transferee=request.transferee_id or "",
        term=request.term,
        index=request.take_leadership_ledger_index,
    )


def vote_response(request: Request, answer: VoteAnswer) -> VoteResponse:
    """Return the response to a request for a vote; it copies the request's base fields."""
    code, result = PARTIAL if answer.is_partial else (ResponseCode.SUCCESS, answer.result)
    return VoteResponse(
        code=code,
        group=request.group,
        leader_id=request.leader_id,
        local_id=request.local_id,
        remote_id=request.remote_id,
        term=answer.term,
        vote_result=result,
    )


def heartbeat_response(answer: HeartbeatAnswer) -> HeartBeatResponse:
    return HeartBeatResponse(code=answer.code, term=answer.term, joins=answer.joins)


def transfer_response(answer: TransferAnswer) -> LeadershipTransferResponse:
    return LeadershipTransferResponse(code=answer.code, term=answer.term)


def metadata(request: MetadataRequest, leader: str, addresses: dict[str, str]) -> MetadataResponse:
    """Return the response to a METADATA request. Clients connect to the addresses in it."""
    return MetadataResponse(group=request.group, leader_id=leader or None, peers=dict(addresses))
