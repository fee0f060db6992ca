"""What a group promises by its configuration, as the node tells it at its start."""

from __future__ import annotations

from actors.config import ClassicGroup
from actors.config.model import Group
from actors.events.node import GroupConfigured


def configured(group: Group) -> GroupConfigured:
    """The event for one group."""
    if isinstance(group, ClassicGroup):
        mode, sure_copies, store = "classic", group.sure_copies, "file"
        upstream = group.compat is not None
    else:
        mode, sure_copies, store = "dledger", group.quorum, group.store
        upstream = group.compat is not None or group.opens_term_with == "none"
    return GroupConfigured(
        mode=mode,
        members=group.members,
        java_members=group.java_nodes,
        sure_copies=sure_copies,
        durability=group.durability,
        store=store,
        upstream=upstream,
    )
