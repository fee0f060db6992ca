"""What an answered append and a fresh read of a classic group mean, in words. See `kinds`.

Why so many members have to confirm a fresh read: `actors.ha.core.freshness`.
"""

from __future__ import annotations

from actors.config.classic import ClassicGroup
from actors.config.group import Durability
from actors.config.kind import Guarantee
from actors.readable import counted

_COMPAT = (
    "as RocketMQ's: every report is believed, so what one slave alone has, or nobody, may have been"
    " answered; not power loss of the master and its slaves"
)


def classic_guarantee(group: ClassicGroup) -> Guarantee:
    """The promise of one configured group."""
    notes = _notes(group)
    if group.master_node.kind == "java":
        return Guarantee(
            mode="classic, the master is a Java broker",
            returns_when=f"{group.master} says so: its own brokerRole and inSyncReplicas decide",
            holds_after="what RocketMQ promises for that; our slaves report "
            + ("synced bytes only" if group.strict_sync else "written bytes"),
            notes=notes,
        )
    policy = f"copies = {group.copies}"
    if group.ack_policy != "copies":
        policy = f'ack_policy = "{group.ack_policy}"'
    compat = ', compat = "upstream"' if group.compat else ""
    return Guarantee(
        mode=f'classic, {policy}, durability = "{group.durability}"{compat}',
        returns_when=_policy_returns_when(group),
        holds_after=_COMPAT if group.compat else _holds_after(group.sure_copies, group.durability),
        notes=notes,
    )


def classic_rows() -> tuple[Guarantee, ...]:
    """The promises of every kind of classic group, for `guarantees.md`."""
    rows = []
    for copies in (1, "n"):
        for durability in ("synced", "written"):
            rows.append(
                Guarantee(
                    mode=f'classic, `copies = {copies}`, `durability = "{durability}"`',
                    returns_when=_returns_when(copies, _where(durability)),
                    holds_after=_holds_after(copies, durability),
                    judges=_judges(copies, durability),
                )
            )
    return (*rows, *_upstream_rows())


def _upstream_rows() -> tuple[Guarantee, ...]:
    """Make the table's rows of upstream's policies, and of its looser rules."""
    either = 'on its disk (`"written"`: in its page cache)'
    same = "as `copies = {}` of the same durability"
    judges = _judges("n", "synced")
    least = "`min_in_sync_replicas`"
    return (
        Guarantee(
            mode='classic, `ack_policy = "4.x"`',
            returns_when=_furthest(either, "`ha_slave_fallbehind_max_bytes`"),
            holds_after=same.format(2),
            judges=judges,
        ),
        Guarantee(
            mode='classic, `ack_policy = "5.x"`, `in_sync_replicas = n`',
            returns_when=_returns_when("n", either),
            holds_after=same.format("n"),
            judges=judges,
        ),
        Guarantee(
            mode="the same, `enable_auto_in_sync_replicas` or `all_ack_in_sync_state_set`",
            returns_when=_in_sync("as many nodes as are in sync", least, either),
            holds_after=same.format("m") + f", m = {least}",
            judges=judges,
        ),
        Guarantee(
            mode='classic, `compat = "upstream"`',
            returns_when="upstream's looser rules say so",
            holds_after=_COMPAT,
            judges=("tests/traps.py",),
        ),
    )


def _judges(copies: int | str, durability: Durability) -> tuple[str, ...]:
    """What answers too early, or loses an answered record, does not pass these."""
    found = ["AcknowledgedIsOnDisks"]
    if copies != 1:
        found += ["FurthestHolds"]
    if durability == "synced":
        found += ["SyncedSurvives"]
    return (*found, "AcknowledgedSurvives")


def _policy_returns_when(group: ClassicGroup) -> str:
    where = _where(group.durability)
    if group.compat and group.durability == "synced" and group.slaves:
        where = "on its disk (slaves: in the page cache)"
    if group.ack_policy == "copies":
        return _returns_when(group.copies, where)
    if group.ack_policy == "4.x":
        return _furthest(where, f"{group.ha_slave_fallbehind_max_bytes} bytes")
    least = str(group.min_in_sync_replicas)
    if group.all_ack_in_sync_state_set:
        return _in_sync("all nodes that are in sync", least, where)
    if group.enable_auto_in_sync_replicas:
        return _in_sync(
            f"as many nodes as are in sync, {group.in_sync_replicas} at most", least, where
        )
    refused = "; refused while fewer are in sync" if group.enable_slave_acting_master else ""
    return _returns_when(group.in_sync_replicas, where) + refused


def _furthest(where: str, lag: str) -> str:
    return (
        f"the master and its furthest slave have it, each {where}; with no slave, or {lag} behind,"
        " it ends at once with SLAVE_NOT_AVAILABLE: stored, outcome unknown"
    )


def _in_sync(nodes: str, least: str, where: str) -> str:
    return (
        f"{nodes} have it, at least {least}, each {where};"
        " refused before it is written while fewer are in sync"
    )


def _where(durability: Durability) -> str:
    return "on its disk" if durability == "synced" else "in its page cache"


def _returns_when(copies: int | str, where: str) -> str:
    if copies == 1:
        return f"the master has it {where}"
    return f"{copies} distinct nodes have it, the master among them, each {where}"


def _holds_after(copies: int | str, durability: Durability) -> str:
    if copies == 1:
        restart = "a crash and restart of the master's process"
        return restart + ("; power loss" if durability == "synced" else "; not power loss")
    # A node whose whole directory is an older copy has lost what it acknowledged since, and knows
    # nothing of that. A master opens when it has heard one member, and only a member that knows
    # better keeps it closed. To be sure it would have to hear all slaves but n - 2: with n = 2 no
    # master could start while any slave is away.
    if isinstance(copies, str):
        lost = f"any {copies} - 1 nodes (one put back to an older copy is lost)"
    else:
        lost = "any one node" if copies == 2 else f"any {copies - 1} nodes"
    loss = f"loss of {lost}: the furthest slave has it"
    power = "power loss of all nodes" if durability == "synced" else "not power loss of all nodes"
    return f"{loss}; {power}"


def _notes(group: ClassicGroup) -> tuple[str, ...]:
    notes = []
    strict = group.strict_sync
    if group.sure_copies == 1 and group.slaves and group.master_node.kind == "python":
        notes.append("asynchronous: what no slave has yet is lost with the master's disk")
    for slave in group.slaves:
        if slave.kind == "java" and strict:
            notes.append(
                f"{slave.node} is a Java slave: written only, it does not count towards copies"
            )
        elif slave.kind == "java":
            notes.append(f"{slave.node} is a Java slave: it counts as soon as it has written")
    if group.sure_copies > 1 and group.sure_copies == len(group.counting_nodes):
        notes.append("every slave is needed: while one is away, appends time out")
    if group.compat == "upstream":
        notes.append(
            'compat = "upstream": RocketMQ\'s looser rules, its known bugs included; for comparison'
        )
    return tuple(notes)


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
    """Return `others_needed` for a group as it is configured."""
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
            f" `promote --force` by {'the other one' if others == 1 else f'all {others} others'}"
        )
    asked = f"{needed} of {counted(others, 'other')}, asked since it came"
    forced = "" if needed == others else "; after `promote --force` by all"
    return f"is confirmed by the node that is read and {asked}{forced}"
