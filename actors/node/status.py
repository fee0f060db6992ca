"""Makes a node's status: a `GroupStatus` for a group of either mode, and the supervision tree.

Times become ages in seconds, because two processes share no clock. `details` has the fields of
`HaStatus`, `SlaveStatus` and `ClientChanged` that no other mode has; they are explained there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from actors.broker.registrar import RegistrationView
from actors.config import ClassicGroup, CommitLogGroup, DLedgerGroup, Group
from actors.config.classic_guarantees import can_be_asked, others_of
from actors.config.kinds import kind_of
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role as LedgerRole
from actors.dledger.election.joining import IS_NEW
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.weaker import weaker_text
from actors.group_status import (
    DAMAGED,
    FENCED,
    FOLLOWING,
    MENDED,
    REFUSED,
    STANDS_STILL,
    WITHOUT_ROOM,
    GroupStatus,
    Link,
    Peer,
    Scrub,
)
from actors.ha.connection_state import ClientChanged, HaStatus
from actors.ha.core.role_effects import PASSING, Role, RoleState, RoleView
from actors.ha.core.slave_table import SHOWN_REFUSALS, SlaveStatus
from actors.ha.core.states import OFFSET_REFUSALS, HAConnectionState
from actors.log_types import GroupState, Offsets
from actors.node.ledger_peers import ANSWERS, JOINS, SILENT, Known
from actors.readable import counted
from actors.runtime import TreeNode
from actors.storage.files.room import LACKS_ROOM, NO_ROOM, room_text

REFUSED_BY_MASTER: Final = tuple(reason.value for reason in SHOWN_REFUSALS)
REFUSED_BY_SLAVE: Final = tuple(reason.value for reason in OFFSET_REFUSALS)
USUAL: Final = (RoleState.OPEN, RoleState.FOLLOWING, RoleState.CONNECTING)
"""The states of a healthy node, which its status shows as trouble only if there is a reason."""


_LINK_STATES: Final = {
    HAConnectionState.READY: RoleState.CONNECTING.value,
    HAConnectionState.TRANSFER: FOLLOWING,
    HAConnectionState.SHUTDOWN: "not connected",
}
"""Our words for the states of a slave's connection, as its role has them."""
_CONNECTION_STATES: Final = {HAConnectionState.SHUTDOWN: "not connected"}
"""Likewise of a master's; upstream's name of no connection sounds like the end of the slave."""


def classic_status(
    group: ClassicGroup,
    ha: HaStatus | None,
    offsets: Offsets,
    role: RoleView,
    counts: Mapping[str, int],
    *,
    stands_still: str = "",
    mended: str = "",
    no_room: str | None = None,
    scrub: Scrub | None = None,
    said: Mapping[str, GroupState] | None = None,
    registrations: RegistrationView | None = None,
    repairing: str = "",
) -> GroupStatus:
    """Return the status of one classic group on one node.

    Args:
        ha: the state of the replication; None: the group's tree does not run, so no peer is
            connected.
        role: what the node is in the group, and by which promotion.
        counts: the outcomes of the records that were appended here since the node's start.
        stands_still: why old log files are not deleted; "" if they are.
        mended: how much of the derived files was damaged and has been mended, for people.
        no_room: why nothing can be written here; "" if it can; None: the store was not asked, or
            did not answer.
        said: by member, the newest state that it has reported.
        registrations: the state of this node's registrations at name servers.
        repairing: see `Part`.
    """
    details = _classic_details(group, ha, role)
    return commit_log_status(
        group,
        ha,
        offsets,
        role,
        counts,
        details=details,
        remarks=_classic_remarks(details),
        stands_still=stands_still,
        mended=mended,
        no_room=no_room,
        scrub=scrub,
        said=said,
        registrations=registrations,
        repairing=repairing,
    )


def commit_log_status(
    group: CommitLogGroup,
    ha: HaStatus | None,
    offsets: Offsets,
    role: RoleView,
    counts: Mapping[str, int],
    *,
    details: Mapping[str, Any],
    remarks: Iterable[str],
    stands_still: str = "",
    mended: str = "",
    no_room: str | None = None,
    scrub: Scrub | None = None,
    said: Mapping[str, GroupState] | None = None,
    registrations: RegistrationView | None = None,
    repairing: str = "",
) -> GroupStatus:
    """Return the status of a group whose log is a commit log; arguments as of `classic_status`.

    Args:
        details: what only its mode has.
        remarks: what is said behind the master's positions, for people.
    """
    registered, not_registered = (registrations or RegistrationView()).texts()
    client = None if ha is None else ha.client
    link = None if ha is None or client is None else _link(client, ha.asked_s)
    leads, reason = role.role is Role.MASTER, role.reason or no_room or ""
    findings = {
        REFUSED: "" if leads else _why_refused(role, link),
        FENCED: "" if role.fence in PASSING else role.reason,
        WITHOUT_ROOM: "" if leads else _why_without_room(reason, link, no_room),
        DAMAGED: role.damage,
        STANDS_STILL: stands_still,
        MENDED: mended,
    }
    damage = f"damaged: {role.damage}" if role.damage not in ("", reason) else ""
    slaves = () if ha is None else ha.slaves
    return GroupStatus(
        **_said_of(group, offsets, counts),
        role=role.role.value,
        leads=leads,
        leader=role.master,
        epoch=role.number,
        is_open=role.state is RoleState.OPEN,
        state=role.state.value,
        reason=reason,
        written=offsets.written,
        peers=tuple(_slave(slave, (said or {}).get(slave.node)) for slave in slaves),
        link=link,
        scrub=scrub,
        diverged=role.state is RoleState.DIVERGED or (client is not None and client.diverged),
        troubles=tuple(filter(None, (_role_trouble(role, reason, no_room, link), damage))),
        remarks=(*_repair_remark(repairing), *(remarks if leads else ()), *registered),
        others=(
            *(() if ha is None else _refused_text(ha)),
            *not_registered,
        ),
        findings={kind: text for kind, text in findings.items() if text},
        details={**details, "repair": repairing},
    )


def _role_trouble(role: RoleView, reason: str, no_room: str | None, link: Link | None) -> str:
    """Return what keeps a node from doing its part, for people; "" if nothing does.

    A node whose store has room may still have none for what the group must remember. A slave that
    is connected copies into what is reserved, however full its disk is.
    """
    if reason.startswith(NO_ROOM):
        if role.reason and no_room == "":
            return f"promotions and fences wait: {room_text(reason)}"
        if role.role is Role.MASTER:
            return f"takes no appends: {room_text(reason)}"
        if link is None or not link.is_up:
            return f"copies nothing: {room_text(reason)}"
        return f"copies while it can, but {LACKS_ROOM}: {reason.removeprefix(NO_ROOM)}"
    return "" if role.state in USUAL and not reason else f"{role.state.value}: {reason}"


def _said_of(group: Group, offsets: Offsets, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the fields of a status that groups of both modes have."""
    return {
        "mode": group.mode,
        "terms": kind_of(group).terms,
        "first": offsets.min,
        "synced": offsets.synced,
        "acknowledged": offsets.acknowledged,
        "copies": group.sure_copies,
        "durability": group.durability,
        "body_bytes_max": group.body_bytes_max,
        "takes_empty": group.takes_empty,
        "counts": counts,
    }


def _classic_details(group: ClassicGroup, ha: HaStatus | None, role: RoleView) -> dict[str, Any]:
    counts = ("in_sync_count", "connections_count", "refused_count", "full_count")
    return {
        "fence": "" if role.fence is None else role.fence.name,
        "fresh_others": len(can_be_asked(group)) - 1,
        "fresh_needed": others_of(group, forced=role.forced),
        "ack_policy": group.ack_policy,
        "segment_bytes": group.segment_bytes,
        **{count: 0 if ha is None else getattr(ha, count) for count in counts},
    }


def _classic_remarks(details: Mapping[str, Any]) -> Iterator[str]:
    if details["ack_policy"] != "copies":
        yield f"acknowledged by the policy of {details['ack_policy']}"
    if details["fresh_others"]:
        of = f"{details['fresh_needed']} of {counted(details['fresh_others'], 'other')}"
        yield f"fresh reads need {of}"


def _repair_remark(repairing: str) -> tuple[str, ...]:
    return (f"repair: {repairing}",) if repairing else ()


def _refused_text(ha: HaStatus) -> tuple[str, ...]:
    last = f", the last {ha.refused_host}" if ha.refused_host else ""
    why = f" ({ha.refused_reason})" if ha.refused_reason else ""
    what = "turned away" if why else "refused by address, as the cluster file names no slave there"
    return (f"{what}: {ha.refused_count}{last}{why}",) if ha.refused_count else ()


def _why_refused(role: RoleView, link: Link | None) -> str:
    """Return why nothing is copied to this slave any more; "" if its log fits the master's."""
    if role.state is RoleState.DIVERGED:
        return role.reason
    refuses = link is not None and not link.is_up and link.error.startswith(REFUSED_BY_SLAVE)
    return link.error if link is not None and refuses else ""


def _why_without_room(reason: str, link: Link | None, no_room: str | None) -> str:
    """Return why this slave has no room for a copy, beginning with NO_ROOM; "" if it has room.

    The end of its last connection tells this only if the store does not answer, because there may
    be room by now.
    """
    if link is not None and link.is_up:
        return ""
    ended = link.error if link is not None and no_room is None else ""
    _, sign, rest = (ended or reason).partition(NO_ROOM)
    return f"{sign}{rest}" if sign else ""


def _slave(slave: SlaveStatus, said: GroupState | None) -> Peer:
    """Return the status of one slave, as its master knows it.

    Args:
        said: the newest state that the slave has reported; None if it was silent.
    """
    why = "" if said is None else said.damage or said.no_room or said.reason
    says = f"it says {said.state}: {why}" if said is not None and why else ""
    says = room_text(why) if why.startswith(NO_ROOM) else says
    # What it reported last stays known of a slave that is not connected any more.
    is_well = slave.ack_bytes is not None and slave.state is HAConnectionState.TRANSFER
    details = attrs.asdict(slave, value_serializer=_plain)
    state = FOLLOWING if slave.in_sync else "behind"
    if not is_well:
        state = _CONNECTION_STATES.get(slave.state, slave.state.name.lower())
    for known in ("node", "lag_bytes", "bytes_per_s", "report_age_s"):
        del details[known]
    return Peer(
        node=slave.node,
        state=state if slave.counts else f"{state}, written only",
        is_well=is_well,
        reason="" if is_well else "; ".join(filter(None, (slave.last_error, says))),
        end=slave.ack_bytes,
        lag=slave.lag_bytes,
        has_copy=is_well and slave.counts,
        awaited=is_well,
        refused=not is_well and slave.last_error.startswith(REFUSED_BY_MASTER),
        heard_age_s=slave.report_age_s,
        bytes_per_s=slave.bytes_per_s,
        details=details,
    )


def _link(client: ClientChanged, now_s: float) -> Link:
    details = attrs.asdict(client, value_serializer=_plain)
    details["last_read_age_s"] = _age(details.pop("last_read_s"), now_s)
    details["last_write_age_s"] = _age(details.pop("last_write_s"), now_s)
    next_s = details.pop("next_attempt_s")
    details["next_attempt_in_s"] = None if next_s is None else round(max(0.0, next_s - now_s), 3)
    return Link(
        state=_LINK_STATES.get(client.state, client.state.name.lower()),
        is_up=client.state is HAConnectionState.TRANSFER,
        error=details.pop("last_error"),
        details=details,
    )


def ledger_status(
    group: DLedgerGroup,
    offsets: Offsets,
    role_status: LeaderStatus,
    known: Known,
    counts: Mapping[str, int],
    non_members: Iterable[str],
    repairing: str = "",
) -> GroupStatus:
    """Return the status of one DLedger group on one node.

    Args:
        role_status: what this member is in the group.
        known: what it knows of the others.
        counts: the outcomes of the records that were appended here since the node's start.
        non_members: addresses of no member from which connections came lately and were turned
            away.
        repairing: see `Part`.
    """
    role: RoleChanged | None = role_status.role
    leads = role is not None and role.role is LedgerRole.LEADER
    # What the actors report is a few milliseconds old, and not all of the same moment.
    ends = (peer.end or 0 for peer in known.peers)
    written = max(offsets.written, offsets.acknowledged, *ends)
    closed = "takes no appends yet" if leads and not role_status.is_open else ""
    why = known.refusal
    why = room_text(why) if why.startswith(NO_ROOM) else why
    refusal = f"takes no entries: {why}" if why else ""
    is_candidate = role is None or role.role is LedgerRole.CANDIDATE
    lacks = _why_not_elected(group, known) if is_candidate else ""
    non_members = tuple(non_members)
    return GroupStatus(
        **_said_of(group, offsets, counts),
        role="candidate" if role is None else role.role.name.lower(),
        leads=leads,
        leader=role_status.leader,
        epoch=-1 if role is None else role.term,
        is_open=role_status.is_open,
        written=written,
        peers=tuple(
            attrs.evolve(peer, has_copy=(peer.end or 0) >= offsets.acknowledged)
            for peer in known.peers
        ),
        troubles=tuple(
            filter(None, (closed, known.unsaved_vote, refusal, lacks, known.rests, known.joining))
        ),
        others=(
            *filter(None, (role_status.lost,)),
            *(weaker_text(*pair) for pair in role_status.weaker.items()),
            *(
                f"turned away {address}: the cluster file names no member at that address"
                for address in non_members
            ),
        ),
        remarks=_repair_remark(repairing),
        details={
            "repair": repairing,
            "members": list(group.members),
            "refusal": known.refusal,
            "unsaved_vote": known.unsaved_vote,
            "joining": known.joining,
            "non_members": list(non_members),
            "weaker": dict(role_status.weaker),
        },
    )


def _why_not_elected(group: DLedgerGroup, known: Known) -> str:
    lacks = without_majority(len(group.members), known)
    silent = [peer.node for peer in known.peers if peer.state == SILENT]
    if not (lacks and silent and known.joining.startswith(IS_NEW)):
        return lacks
    return f"waits for the first start of {', '.join(silent)}, if its group is new: {lacks}"


_JOIN: Final = {True: "is new or lacks its log", False: "are new or lack their logs"}


def without_majority(members_count: int, known: Known) -> str:
    """Return why a candidate cannot be elected; "" if it can, or has not asked any peer yet."""
    asked = tuple(peer.state for peer in known.peers)
    joining_count = asked.count(JOINS)
    answer_count = asked.count(ANSWERS) + joining_count
    needed_count = members_count // 2 + joining_count + bool(known.joining)
    needed_count = min(needed_count, members_count - 1)
    if not asked or answer_count >= needed_count:
        return ""
    answer = "answers" if answer_count == 1 else "answer"
    needed = f"{needed_count} {'is' if needed_count == 1 else 'are'} needed"
    whose = f", as {joining_count} of them {_JOIN[joining_count == 1]}" if joining_count else ""
    return f"{answer_count} of {counted(members_count - 1, 'other')} {answer}, {needed}{whose}"


def tree_json(node: TreeNode) -> dict[str, Any]:
    """Return a node of the supervision tree, with all below it, ready for JSON."""
    return attrs.asdict(node, value_serializer=_plain)


def _age(then_s: float | None, now_s: float) -> float | None:
    return None if then_s is None else round(max(0.0, now_s - then_s), 3)


def _plain(_instance: type, _field: Any, value: Any) -> Any:
    return value.name if isinstance(value, enum.Enum) else value
