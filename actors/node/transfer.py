"""The transfer of a DLedger group's leadership to another member, on an operator's order.

Source: openmessaging/dledger, DLedgerLeaderElector.handleLeadershipTransfer and
cmdline/LeadershipTransferCommand.java, 0.3.1.2: the same request, without the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from actors.api.failures import RequestRefused
from actors.control.member_session import LOST
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.replication.append_messages import GetWatermarks, Watermarks
from actors.dledger.rpc.peer_messages import GetSigns, PeerSign, Signs
from actors.dledger.rpc.rpc_messages import Asked, Sender
from actors.dledger.session_messages import ProveLeader
from actors.errors import NotMaster, OutcomeUnknown
from actors.node.ledger_member import LedgerMember
from actors.node.ledger_peers import REFUSED
from actors.node.part import STATUS_TIMEOUT_S, asked
from actors.readable import counted
from actors.runtime import ActorError, ReplyTo
from wire.api import frames
from wire.dledger.codes import ResponseCode, response_code
from wire.dledger.rpc import LeadershipTransferRequest, LeadershipTransferResponse

LOOK_S: Final = 2.0
"""How long others are asked for the room on their disks before a transfer."""
_NOT_LEADING: Final = (ResponseCode.NOT_LEADER, ResponseCode.INCONSISTENT_TERM)


async def transfer_leader(part: LedgerMember, node: str | None) -> dict[str, Any]:
    """Have `node`, or the member with the longest log, lead in the next term.

    Appends wait meanwhile.

    Returns: group, leader, old_leader and term. If `node` leads already, leader and old_leader are
        the same.

    Raises:
        NotMaster: this member does not lead; its hint names the leader, if it knows one.
        RequestRefused: there is no such other member, or it is too far behind, its disk has no room
            where this member's has some, or another transfer is under way; this member goes on to
            lead.
        OutcomeUnknown: the other member has not reported that it leads; it may, or a third one.
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
    chosen, full = await _furthest(part) if node is None else (node, await _full(part, (node,)))
    if full.get(chosen):
        text = f"{chosen} would take no appends of {name}: {full[chosen]}"
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
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
    raise _refusal(part, chosen, code, await _hindrance(part, role, chosen, code))


async def _signs(part: LedgerMember) -> dict[str, PeerSign]:
    """Return, by peer, what its answers to the last requests have shown. Raises: ActorError."""
    said = await part.peers.maintainer.ask(
        Signs, lambda reply: GetSigns(reply_to=reply), timeout_s=STATUS_TIMEOUT_S
    )
    return {sign.peer: sign for sign in said.signs}


async def _hindrance(part: LedgerMember, role: RoleChanged, node: str, code: ResponseCode) -> str:
    """Describe, for people, what may have kept `node` from taking over; "" if nothing is known.

    The leader's refusal (417) has several possible reasons, and no transferee's answer tells them.
    """
    try:
        signs = await _signs(part)
        known = await part.peers.known(role)
    except ActorError:
        return ""
    name, lag_max = part.group.name, part.group.transfer_lag_max
    peer = next((each for each in known.peers if each.node == node), None)
    refuses = f"{node} {peer.reason}" if peer is not None and peer.state == REFUSED else ""
    if code is not ResponseCode.FALL_BEHIND_TOO_MUCH:
        return refuses
    if node in signs and signs[node].silent:
        return f"{node} does not answer {part.node}, so it cannot take {name} over now"
    then = f": {refuses}" if refuses else ""
    if peer is None or peer.lag is None:
        return f"{part.node} does not know yet what {node} holds of {name}{then}"
    if peer.lag >= lag_max:
        return (
            f"{node} is {counted(peer.lag, 'entry', 'entries')} of {name} behind,"
            f" {lag_max:,} are too many{then}"
        )
    return _lacking_votes(part, node, signs)


def _lacking_votes(part: LedgerMember, node: str, signs: Mapping[str, PeerSign]) -> str:
    others = [name for name in part.group.members if name not in (node, part.node)]
    new = [name for name in others if name not in signs or signs[name].heard_s is None]
    silent = [name for name in others if name not in new and signs[name].silent]
    joining = [name for name in others if name not in (*new, *silent) and signs[name].joins]
    kinds = (new, "has not answered"), (silent, "is silent"), (joining, "is new or lacks its log")
    lacks = ", ".join(f"{name} ({what})" for names, what in kinds for name in names)
    if not lacks:
        return f"{node} lacked votes of {part.group.name}, and does not any more: ask again"
    return f"{node} could not be elected in {part.group.name}: no votes of {lacks}"


async def _full(part: LedgerMember, peers: Collection[str]) -> dict[str, str]:
    """Return those of the peers whose disks have no room, each with the reason.

    There are none if this member's own disk has no room, for then it cannot lead for long either. A
    peer that cannot be asked counts as one with room.
    """
    found: dict[str, str] = {}

    async def look(peer: str) -> None:
        with suppress(*LOST, ActorError):
            if why := (await part.links.group_state(peer, part.group.name)).no_room:
                found[peer] = why

    with trio.move_on_after(LOOK_S):
        async with trio.open_nursery() as nursery:
            for peer in peers:
                if peer in part.group.members and peer not in part.group.java_nodes:
                    nursery.start_soon(look, peer)
    return {} if found and (await part.group_state()).no_room else found


async def _furthest(part: LedgerMember) -> tuple[str, dict[str, str]]:
    """Return the peer with the longest log, of those that answer, have room, and may lead; and who
    has no room, see `_full`.

    Of several it is the first by name. A peer that is down keeps its acknowledged entries, so it
    may seem to have as many.
    """
    try:
        marks = await part.checker.ask(
            Watermarks, lambda reply: GetWatermarks(reply_to=reply), timeout_s=STATUS_TIMEOUT_S
        )
        silent = {peer for peer, sign in (await _signs(part)).items() if sign.silent}
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
    full = await _full(part, [peer for peer, _ in standing if peer not in silent])

    def order(pair: tuple[str, int]) -> tuple[bool, bool, int, str]:
        peer, end = pair
        return peer in silent, peer in full, -end, peer

    return min(standing, key=order)[0], full


def _refusal(part: LedgerMember, node: str, code: ResponseCode, known: str) -> Exception:
    """Return the error for a refused transfer. Args: known: see `_hindrance`."""
    name, why = part.group.name, f": {known}" if known else ""
    if code in _NOT_LEADING:
        leader = part.role_status.leader
        text = f"{part.node} does not lead {name} any more"
        return NotMaster(text, hint=leader if leader not in ("", part.node) else None)
    match code:
        case ResponseCode.UNKNOWN_MEMBER:
            text = f"{node} is no member of {name}"
            return RequestRefused(frames.ERROR_BAD_REQUEST, text)
        case ResponseCode.FALL_BEHIND_TOO_MUCH:
            text = known or f"{node} is too far behind in {name}, or could not be elected"
        case ResponseCode.LEADER_TRANSFERRING:
            text = f"{part.node} is handing {name} over already"
        case ResponseCode.NETWORK_ERROR:
            lost = f"{part.node} cannot reach {node}"
            return OutcomeUnknown(f"{node} did not take {name} over: {lost}")
        case ResponseCode.TIMEOUT:
            return OutcomeUnknown(f"{node} did not take {name} over in time{why}")
        case _:
            return OutcomeUnknown(f"{node} did not take {name} over ({code.name}){why}")
    return RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
