"""The transfer of a DLedger group's leadership to another member, on an operator's order.

Source: openmessaging/dledger, DLedgerLeaderElector.handleLeadershipTransfer and
cmdline/LeadershipTransferCommand.java, 0.3.1.2: the same request, without the wire.
"""

from __future__ import annotations

from typing import Any, Final

from actors.api.failures import RequestRefused
from actors.dledger.replication.append_messages import GetWatermarks, Watermarks
from actors.dledger.rpc.peer_messages import GetSigns, Signs
from actors.dledger.rpc.rpc_messages import Asked, Sender
from actors.dledger.session_messages import ProveLeader
from actors.errors import NotMaster, OutcomeUnknown
from actors.node.ledger_member import LedgerMember
from actors.node.part import STATUS_TIMEOUT_S, asked
from actors.runtime import ActorError, ReplyTo
from wire.api import frames
from wire.dledger.codes import ResponseCode, response_code
from wire.dledger.rpc import LeadershipTransferRequest, LeadershipTransferResponse

_NOT_LEADING: Final = (ResponseCode.NOT_LEADER, ResponseCode.INCONSISTENT_TERM)


async def transfer_leader(part: LedgerMember, node: str | None) -> dict[str, Any]:
    """Have `node`, or the member with the longest log, lead in the next term. Appends wait
    meanwhile.

    Returns: group, leader, old_leader and term. If `node` leads already, leader and old_leader are
        the same.

    Raises:
        NotMaster: this member does not lead; its hint names the leader, if it knows one.
        RequestRefused: there is no such other member, or it is too far behind, or another transfer
            is under way; this member leads on.
        OutcomeUnknown: the other member did not say that it leads; it may, or a third one may.
    """
    name, role = part.group.name, part.role_status.role
    if not part.role_status.is_open or role is None:
        leader = part.role_status.leader
        known = f"{leader} does" if leader not in ("", part.node) else "it knows no leader"
        hint = leader if leader != part.node else ""
        raise NotMaster(f"{part.node} does not lead {name}: {known}", hint=hint or None)
    if node == part.node:
        return {"group": name, "leader": node, "old_leader": node, "term": role.term}
    if node in part.group.members and node not in part.group.standing:
        text = f"{node} does not stand for election in {name}"
        raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
    chosen = await _furthest(part) if node is None else node
    request = LeadershipTransferRequest(
        transfer_id=part.node,
        transferee_id=chosen,
        **Sender(group=name, self_id=part.node).base(part.node, part.node, role.term),
    )

    def ask(reply: ReplyTo[object]) -> ProveLeader | Asked:
        return Asked(request=request, reply_to=reply)

    answer: object = await asked(part.node, part.maintainer, ask, object)
    assert isinstance(answer, LeadershipTransferResponse)
    code = response_code(answer.code)
    if code is ResponseCode.SUCCESS:
        return {"group": name, "leader": chosen, "old_leader": part.node, "term": role.term + 1}
    refusal = _refusal(part, chosen, code)
    if code is ResponseCode.FALL_BEHIND_TOO_MUCH and await _is_silent(part, chosen):
        text = f"{chosen} does not answer {part.node}, so it cannot take {name} over now"
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
    raise refusal


async def _is_silent(part: LedgerMember, peer: str) -> bool:
    """Whether the peer did not answer last, as far as this member can find out now."""
    try:
        return peer in await _silent(part)
    except ActorError:
        return False


async def _silent(part: LedgerMember) -> set[str]:
    """The peers that did not answer this member's last requests. Raises: ActorError."""
    said = await part.peers.maintainer.ask(
        Signs, lambda reply: GetSigns(reply_to=reply), timeout_s=STATUS_TIMEOUT_S
    )
    return {sign.peer for sign in said.signs if sign.silent}


async def _furthest(part: LedgerMember) -> str:
    """The peer with the longest log, of those that answer and may lead; of several the first by
    name.

    A peer that is down keeps what it has acknowledged, so it may seem to have as much.
    """
    try:
        marks = await part.checker.ask(
            Watermarks, lambda reply: GetWatermarks(reply_to=reply), timeout_s=STATUS_TIMEOUT_S
        )
        silent = await _silent(part)
    except ActorError:
        who = f"{part.node} does not know now which member has most of {part.group.name}"
        text = f"{who}: nothing was done"
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from None
    if not marks.indexes:
        text = f"{part.node} is the only member of {part.group.name}"
        raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
    standing = [pair for pair in marks.indexes if pair[0] in part.group.standing]
    if not standing:
        text = f"no other member of {part.group.name} stands for election"
        raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
    return min(standing, key=lambda pair: (pair[0] in silent, -pair[1], pair[0]))[0]


def _refusal(part: LedgerMember, node: str, code: ResponseCode) -> Exception:
    name = part.group.name
    if code in _NOT_LEADING:
        leader = part.role_status.leader
        text = f"{part.node} does not lead {name} any more"
        return NotMaster(text, hint=leader if leader not in ("", part.node) else None)
    match code:
        case ResponseCode.UNKNOWN_MEMBER:
            text = f"{node} is no member of {name}"
            return RequestRefused(frames.ERROR_BAD_REQUEST, text)
        case ResponseCode.FALL_BEHIND_TOO_MUCH:
            lag = part.group.transfer_lag_max
            text = (
                f"{node} is {lag} entries of {name} behind, or more, or could not be elected: too"
                " many of the others are down, or lack their logs"
            )
        case ResponseCode.LEADER_TRANSFERRING:
            text = f"{part.node} is handing {name} over already"
        case ResponseCode.NETWORK_ERROR:
            lost = f"{part.node} cannot reach {node}"
            return OutcomeUnknown(f"{node} did not take {name} over: {lost}")
        case ResponseCode.TIMEOUT:
            return OutcomeUnknown(f"{node} did not take {name} over in time")
        case _:
            return OutcomeUnknown(f"{node} did not take {name} over ({code.name})")
    return RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
