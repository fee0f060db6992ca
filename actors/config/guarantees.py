"""What an answered append means, in words: printed at start and by `check`, and the README's table.

Design section 4. The words for one group and for the table come from the same functions, so that
neither can promise more than the other.
"""

from __future__ import annotations

import attrs

from actors.config.model import ClassicGroup, Durability


@attrs.frozen(kw_only=True)
class Guarantee:
    """One promise.

    Attributes:
        mode: which groups it is for.
        returns_when: what has happened when an append returns.
        holds_after: what may happen then without losing the record.
        notes: what an operator has to know besides, one sentence each.
    """

    mode: str
    returns_when: str
    holds_after: str
    notes: tuple[str, ...] = ()


def guarantee_of(group: ClassicGroup) -> Guarantee:
    """The promise of one configured group."""
    mode = f'classic, copies = {group.copies}, durability = "{group.durability}"'
    notes = _notes(group)
    if group.master_node.kind == "java":
        return Guarantee(
            mode="classic, the master is a Java broker",
            returns_when=f"{group.master} says so: its own brokerRole and inSyncReplicas decide",
            holds_after="what RocketMQ promises for that; our slaves report "
            + ("synced bytes only" if group.durability == "synced" else "written bytes"),
            notes=notes,
        )
    return Guarantee(
        mode=mode,
        returns_when=_returns_when(group.copies, group.durability),
        holds_after=_holds_after(group.copies, group.durability),
        notes=notes,
    )


def table() -> tuple[Guarantee, ...]:
    """The promises of every kind of group, for the README."""
    rows = []
    for copies in (1, "n"):
        for durability in ("synced", "written"):
            rows.append(
                Guarantee(
                    mode=f'classic, `copies = {copies}`, `durability = "{durability}"`',
                    returns_when=_returns_when(copies, durability),
                    holds_after=_holds_after(copies, durability),
                )
            )
    return tuple(rows)


def markdown() -> str:
    """`table()` for the README, which a test compares with it."""
    lines = ["| Group | An append returns when | Holds after |", "|---|---|---|"]
    lines += [f"| {row.mode} | {row.returns_when} | {row.holds_after} |" for row in table()]
    return "\n".join(lines)


def _returns_when(copies: int | str, durability: Durability) -> str:
    if copies == 1:
        return "the master has it " + (
            "on its disk" if durability == "synced" else "in its page cache"
        )
    each = "on its disk" if durability == "synced" else "in its page cache"
    return f"{copies} distinct nodes have it, the master among them, each {each}"


def _holds_after(copies: int | str, durability: Durability) -> str:
    if copies == 1:
        restart = "a crash and restart of the master's process"
        return restart + ("; power loss" if durability == "synced" else "; not power loss")
    if isinstance(copies, str):
        lost = f"any {copies} - 1 nodes"
    else:
        lost = "any one node" if copies == 2 else f"any {copies - 1} nodes"
    loss = f"loss of {lost}: the furthest slave has it"
    power = "power loss of all nodes" if durability == "synced" else "not power loss of all nodes"
    return f"{loss}; {power}"


def _notes(group: ClassicGroup) -> tuple[str, ...]:
    notes = []
    if group.copies == 1 and group.slaves and group.master_node.kind == "python":
        notes.append("asynchronous: what no slave has yet is lost with the master's disk")
    for slave in group.slaves:
        if slave.kind == "java" and group.durability == "synced":
            notes.append(
                f"{slave.node} is a Java slave: written only, it does not count towards copies"
            )
        elif slave.kind == "java":
            notes.append(f"{slave.node} is a Java slave: it counts as soon as it has written")
    if group.copies > 1 and group.copies == len(group.counting_nodes):
        notes.append("every slave is needed: while one is away, appends time out")
    if group.compat == "upstream":
        notes.append(
            'compat = "upstream": reads may show what is not acknowledged, recovery always cuts'
        )
    return tuple(notes)
