"""What an answered append of a DLedger group means, in words. See `guarantees`."""

from __future__ import annotations

import attrs

from actors.config.dledger import DLedgerGroup
from actors.config.kind import Guarantee
from actors.readable import counted

_JUDGES = ("CommittedIsOnQuorum", "CommittedNeverLost", "AcknowledgedIsCommitted")
_MEMORY_JUDGES = ("LogMatching", "AcknowledgedIsCommitted", "ReadsOnlyCommitted")
"""What such a group holds ends with its processes, so no checker looks for it on disks."""
_AS_UPSTREAM = (
    "as DLedger's: a crash of a minority, but for its known bugs; what a majority holds of an older"
    " term may be replaced (B1)"
)
_ONE_POWER_LOSS = (
    "not power loss, even of one node: it may come back without what it acknowledged, and an entry"
    " is lost if a majority without it elects before that node has caught up"
)


def ledger_guarantee(group: DLedgerGroup) -> Guarantee:
    """The promise of one configured group."""
    count = len(group.members)
    compat = ', compat = "upstream"' if group.compat else ""
    store = ', store = "memory"' if group.store == "memory" else ""
    members = counted(count, "member")
    holders = f"{group.quorum} of {counted(count, 'member has', 'members have')}"
    if group.led_by_java:
        return Guarantee(
            mode=f"dledger, {members}, only Java nodes lead",
            returns_when=f"its leader, a Java node, says so: {group.quorum} of {count} have it",
            holds_after=_AS_UPSTREAM,
            notes=_notes(group),
        )
    if group.controller is not None:
        return Guarantee(
            mode=f"{counted(count, 'controller')} of broker sets",
            returns_when=f"{_returns_when(holders, group)}; so it"
            " is with each decision about a master, a sync state set or an id",
            holds_after=_holds_after(group, count - group.quorum),
            notes=_notes(group),
        )
    return Guarantee(
        mode=f'dledger, {members}, durability = "{group.durability}"{store}{compat}',
        returns_when=_returns_when(holders, group),
        holds_after=_holds_after(group, count - group.quorum),
        notes=_notes(group),
    )


def ledger_rows() -> tuple[Guarantee, ...]:
    """The promises of every kind of DLedger group, for `guarantees.md`."""
    sample = DLedgerGroup(name="ledger", members=("n0", "n1", "n2"))
    kinds = {
        'dledger, `durability = "synced"`': sample,
        'dledger, `durability = "written"`': attrs.evolve(sample, durability="written"),
        'dledger, `store = "memory"`': attrs.evolve(sample, store="memory"),
        'dledger, `compat = "upstream"`': attrs.evolve(sample, compat="upstream"),
    }
    return tuple(
        Guarantee(
            mode=mode,
            returns_when=_returns_when("a majority of the members have", group),
            holds_after=_holds_after(group, None),
            judges=_judges(group),
        )
        for mode, group in kinds.items()
    )


def _judges(group: DLedgerGroup) -> tuple[str, ...]:
    if group.compat:
        return ("tests/traps.py",)
    return _MEMORY_JUDGES if group.store == "memory" else _JUDGES


def _returns_when(who: str, group: DLedgerGroup) -> str:
    where = {"synced": "on its disk", "written": "in its page cache"}[group.durability]
    if group.store == "memory":
        where = "in its memory"
    elif group.compat:
        where = "in its page cache"
    rule = ", and an entry of the leader's own term with it"
    return f"{who} it, each {where}" + ("" if group.opens_term_with == "none" else rule)


def _holds_after(group: DLedgerGroup, minority: int | None) -> str:
    """Args: minority: how many members may be lost; None: of a group of any size."""
    if group.compat or group.opens_term_with == "none":
        return _AS_UPSTREAM
    if group.java_nodes:
        return "crashes of the processes of a minority: Java members answer before they have synced"
    lost = {None: "any minority of the nodes", 0: "no node", 1: "any one node"}.get(
        minority, f"any {minority} nodes"
    )
    if group.store == "memory":
        return f"loss or restart of {lost} at a time; all are lost with all"
    if group.durability == "synced":
        return f"loss of {lost}; restarts of all; power loss of all nodes"
    power = "not power loss" if len(group.members) == 1 else _ONE_POWER_LOSS
    return f"loss of {lost} for good; kills and restarts of all processes; {power}"


def _notes(group: DLedgerGroup) -> tuple[str, ...]:
    notes = [
        f"{node} is a Java member: it acknowledges and votes before it has synced, and if it is"
        " killed as it writes an entry it keeps the beginning, as an entry like others"
        for node in group.java_nodes
    ]
    notes += [
        f"{node} does not stand for election: while it alone has an entry of those that run, nobody"
        " is elected"
        for node in group.members
        if node not in group.standing
    ]
    if len(group.members) == 2:
        notes.append("two members: both are needed for every append and every election")
    elif len(group.members) % 2 == 0:
        notes.append(
            f"{len(group.members)} members survive no more failures than {len(group.members) - 1}"
        )
    if group.store == "memory":
        notes.append(
            'store = "memory": a member that restarts counts again once it has what its leader has;'
            " where no majority remembers, all members must be there to elect one, and what all"
            " forgot is lost"
        )
    if group.java_nodes and group.controller is not None:
        notes.append(
            "a controller of Java's with an empty store is not brought up by one of ours that leads"
            " and has deleted files behind a snapshot"
        )
    elif group.java_nodes and not group.led_by_java and group.opens_term_with == "empty":
        notes.append("readers of Java members are shown the empty entry that opens each term")
    if group.opens_term_with == "none" and not group.compat:
        notes.append('term_entry = "none": upstream\'s rule, which can lose acknowledged entries')
    if group.controller is not None:
        notes.append(
            f"whoever reaches port {group.port} may elect masters and have replicas forgotten"
        )
        if group.controller.elect_unclean_master:
            notes.append(
                "elect_unclean_master: a replica may be elected that lacks what was acknowledged,"
                " which is lost then"
            )
    if group.compat == "upstream":
        notes.append(
            'compat = "upstream": DLedger\'s looser rules, its known bugs included; for comparison'
        )
    return tuple(notes)
