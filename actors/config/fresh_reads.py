"""How many members of a classic group have to confirm a fresh read, and that in words for `check`.

Why so many: `actors.ha.core.freshness`.
"""

from __future__ import annotations

from actors.config.classic import ClassicGroup


def others_needed(*, nodes: int, copies: int, java_copies: int = 0, forced: bool = False) -> int:
    """How many other members of a classic group have to agree.

    Args:
        nodes: the members that can be asked, this one included.
        copies: nodes that hold an append before it is answered, at least.
        java_copies: members that count as copies and cannot be asked.
        forced: the present master opened its log by force.
    """
    asked_copies = min(nodes, max(1, copies - java_copies))
    return nodes - 1 if forced else nodes - asked_copies


def can_be_asked(group: ClassicGroup) -> tuple[str, ...]:
    """The members that are no Java brokers."""
    return tuple(each for each in group.members if each not in group.java_nodes)


def others_of(group: ClassicGroup, *, forced: bool = False) -> int:
    """`others_needed` of a configured group."""
    return others_needed(
        nodes=len(can_be_asked(group)),
        # Upstream's rules believe every report: nobody but the master is sure to hold anything.
        copies=1 if group.compat is not None else group.sure_copies,
        java_copies=sum(each in group.java_nodes for each in group.counting_nodes),
        forced=forced,
    )


def confirmed_by(group: ClassicGroup) -> str:
    """Which members confirm a fresh read of the group, as text."""
    if group.master_node.kind == "java":
        return f"is refused: {group.master} is a Java broker and cannot be asked"
    others, needed = len(can_be_asked(group)) - 1, others_of(group)
    if not others:
        return "is confirmed by nobody else: no other member can be asked"
    if not needed:
        return (
            "is confirmed by nobody else, as every append is on all members; after"
            f" `promote --force` by all {others} others"
        )
    asked = f"{needed} of {others} others, asked since it came"
    forced = "" if needed == others else "; after `promote --force` by all"
    return f"is confirmed by the node that is read and {asked}{forced}"
