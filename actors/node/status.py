"""What a node says of itself as plain values ready for JSON: status per group, and the tree.

The keys are the field names of `HaStatus`, `SlaveStatus`, `ClientChanged`, `Offsets` and
`TreeNode`, where they are explained. Times become ages in seconds: two processes share no clock.
`scrub` is `Scrubbed.plain`; null where nobody knows: the log's part does not run.
`fresh_needed` of `fresh_others` other members confirm a fresh read now, as its master knows: after
an opening by force all of them.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from actors.config import ClassicGroup
from actors.config.fresh_reads import can_be_asked, others_of
from actors.ha.connection_state import ClientChanged, HaStatus
from actors.ha.core.role_effects import RoleView
from actors.log_types import Offsets
from actors.runtime import TreeNode


def group_status(
    group: ClassicGroup,
    ha: HaStatus,
    offsets: Offsets,
    role: RoleView,
    counts: dict[str, int],
    stands_still: str = "",
    mended: str = "",
    no_room: str = "",
) -> dict[str, Any]:
    """One group on one node.

    Args:
        role: what the node is in the group, and by which promotion.
        counts: what the node did for it since its start.
        stands_still: why old log files do not go.
        mended: how much of what derives from the log was damaged, and is not any more.
        no_room: why nothing can be written here.
    """
    return {
        "mode": group.mode,
        "role": role.role.value,
        "master": role.master,
        "promotion": role.number,
        "part": role.state.value,
        "reason": role.reason or no_room,
        "fence": "" if role.fence is None else role.fence.name,
        "damage": role.damage,
        "copies": group.sure_copies,
        "fresh_others": len(can_be_asked(group)) - 1,
        "fresh_needed": others_of(group, forced=role.forced),
        "ack_policy": group.ack_policy,
        "durability": group.durability,
        "body_bytes_max": group.body_bytes_max,
        "segment_bytes": group.segment_bytes,
        "min_bytes": offsets.min,
        "written_bytes": offsets.written,
        "synced_bytes": offsets.synced,
        "acknowledged_bytes": offsets.acknowledged,
        "slaves": [attrs.asdict(slave, value_serializer=_plain) for slave in ha.slaves],
        "in_sync_count": ha.in_sync_count,
        "connections_count": ha.connections_count,
        "refused_count": ha.refused_count,
        "full_count": ha.full_count,
        "client": None if ha.client is None else _client(ha.client, ha.asked_s),
        "counts": counts,
        "stands_still": stands_still,
        "mended": mended,
    }


def unseen_status(role: RoleView) -> HaStatus:
    """The status of a group whose tree does not run: nobody is connected."""
    return HaStatus(
        role=role.role.value,
        min_bytes=0,
        written_bytes=0,
        synced_bytes=0,
        slaves=(),
        in_sync_count=0,
        connections_count=0,
        refused_count=0,
        full_count=0,
        client=None,
        asked_s=0.0,
    )


def tree_json(node: TreeNode) -> dict[str, Any]:
    """A supervision tree, and all below it."""
    return attrs.asdict(node, value_serializer=_plain)


def _client(client: ClientChanged, now_s: float) -> dict[str, Any]:
    found = attrs.asdict(client, value_serializer=_plain)
    found["last_read_age_s"] = _age(found.pop("last_read_s"), now_s)
    found["last_write_age_s"] = _age(found.pop("last_write_s"), now_s)
    next_s = found.pop("next_attempt_s")
    found["next_attempt_in_s"] = None if next_s is None else round(max(0.0, next_s - now_s), 3)
    return found


def _age(then_s: float | None, now_s: float) -> float | None:
    return None if then_s is None else round(max(0.0, now_s - then_s), 3)


def _plain(_instance: type, _field: Any, value: Any) -> Any:
    return value.name if isinstance(value, enum.Enum) else value
