"""From a few facts, in words that are short to write, to what a node says of a group: made by the
functions that nodes use.
"""

from __future__ import annotations

from typing import Any

import attrs

from actors.config import DLedgerGroup
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role as LedgerRole
from actors.dledger.leader_status import LeaderStatus
from actors.group_status import FOLLOWING, GroupStatus, Peer
from actors.ha.connection_state import ClientChanged, HaStatus
from actors.ha.core.role_effects import Fence, Role, RoleState, RoleView
from actors.ha.core.slave_table import SlaveStatus
from actors.ha.core.states import HAConnectionState
from actors.log_types import Offsets
from actors.node.ledger_peers import Known
from actors.node.status import classic_status, ledger_status
from actors.sim.cluster import classic_config

[CLASSIC] = classic_config().classic_groups.values()
PARTS = {"master": "open", "slave": "following"}


def said(facts: dict[str, Any]) -> GroupStatus:
    """What the node of these facts says."""
    return _ledger(facts) if facts.get("mode") == "dledger" else _classic(facts)


def _classic(facts: dict[str, Any]) -> GroupStatus:
    role, fence, client = facts["role"], facts.get("fence"), facts.get("client")
    view = RoleView(
        role=Role(role),
        state=RoleState(facts.get("part") or PARTS[role]),
        fence=Fence[fence] if fence else None,
        reason=facts.get("reason", ""),
        opened=True,
        number=facts.get("promotion", 0),
        master=facts.get("master", ""),
        history=(),
        high_water=0,
        damage=facts.get("damage", ""),
    )
    ends = {name: facts[f"{name}_bytes"] for name in ("min", "written", "synced")}
    ha = HaStatus(
        **{f"{name}_bytes": end for name, end in ends.items()},
        role=role,
        slaves=tuple(map(_slave, facts["slaves"])),
        in_sync_count=0,
        connections_count=0,
        refused_count=facts.get("refused_count", 0),
        refused_host=facts.get("refused_host", ""),
        refused_reason=facts.get("refused_reason", ""),
        full_count=0,
        client=None if client is None else _client(client),
        asked_s=0.0,
    )
    return classic_status(
        attrs.evolve(
            CLASSIC, copies=facts.get("copies", 1), ack_policy=facts.get("ack_policy", "copies")
        ),
        ha,
        Offsets(**ends, acknowledged=facts["acknowledged_bytes"], master=None),
        view,
        facts.get("counts", {}),
        stands_still=facts.get("stands_still", ""),
        no_room=facts.get("no_room"),
    )


def _slave(row: dict[str, Any]) -> SlaveStatus:
    unknown = dict.fromkeys(("next_bytes", "connected_s", "report_age_s"))
    fields = {"kind": "python", "address": "", "connection": 1, "sent_bytes": 0, **unknown, **row}
    return SlaveStatus(**{**fields, "state": HAConnectionState[row["state"]]})


def _client(facts: dict[str, Any]) -> ClientChanged:
    return ClientChanged(
        master="10.0.0.1:10912",
        state=HAConnectionState[facts["state"] or "SHUTDOWN"],
        session=1,
        diverged=facts.get("diverged", False),
        mismatches_count=0,
        reported_bytes=None,
        received_bytes=0,
        bytes_per_s=0,
        last_read_s=None,
        last_write_s=None,
        next_attempt_s=None,
        last_error=facts["last_error"],
    )


def _ledger(facts: dict[str, Any]) -> GroupStatus:
    role_status = LeaderStatus()
    role = LedgerRole[facts["role"].upper()]
    changed = RoleChanged(session=1, role=role, term=facts["term"], leader=facts["leader"])
    role_status.publish(changed, is_open=facts["open"])
    role_status.weaker = facts.get("weaker", {})
    ends = {name: facts[f"{name}_index"] + 1 for name in ("written", "synced", "committed")}
    return ledger_status(
        DLedgerGroup(name="ledger", members=tuple(facts["members"])),
        Offsets(
            min=facts["begin_index"],
            written=ends["written"],
            synced=ends["synced"],
            acknowledged=ends["committed"],
            master=None,
        ),
        role_status,
        Known(
            **{key: facts.get(key, "") for key in ("refusal", "unsaved_vote", "joining")},
            peers=tuple(_peer(peer, facts["written_index"]) for peer in facts["peers"]),
        ),
        {},
        facts.get("non_members", ()),
    )


def _peer(row: dict[str, Any], written: int) -> Peer:
    """One of which nothing else is known takes what it gets."""
    matched, state = row["matched_index"], row.get("state", FOLLOWING)
    lag = row.get("lag", max(0, written - matched) if matched >= 0 else None)
    return Peer(
        node=row["node"],
        state=state,
        is_well=state == FOLLOWING,
        reason=row.get("reason", ""),
        end=None if lag is None else matched + 1,
        lag=lag,
    )
