"""What an answered append and a fresh read of an auto-switch group mean, in words. See `kinds`."""

from __future__ import annotations

from actors.config.autoswitch import AutoSwitchGroup
from actors.config.group import Durability
from actors.config.kind import Guarantee
from actors.readable import counted

_WRITTEN = "not power loss of all of them, or of one while the others are away"
_SYNCED = "power loss of all of them"


def autoswitch_guarantee(group: AutoSwitchGroup) -> Guarantee:
    """The promise of one configured group."""
    least = str(group.least_in_sync)
    if group.all_ack_in_sync_state_set:
        mode = f"min_in_sync_replicas = {least}"
        returns_when = _all_ack(least, group.durability)
        lost = counted(group.least_in_sync - 1, "replica") if group.least_in_sync > 1 else ""
        holds_after = _all_hold(lost, group.durability)
    else:
        mode = f"in_sync_replicas = {group.in_sync_replicas}"
        returns_when = _fixed(str(group.in_sync_replicas), _where(group.durability))
        holds_after = _fixed_holds(
            "power loss" if group.durability == "synced" else "not power loss"
        )
    return Guarantee(
        mode=f'autoswitch, {mode}, durability = "{group.durability}"',
        returns_when=returns_when,
        holds_after=holds_after,
        notes=tuple(_notes(group)),
    )


def autoswitch_rows() -> tuple[Guarantee, ...]:
    """The promises of every kind of auto-switch group, for `guarantees.md`."""
    rows = []
    durabilities: tuple[Durability, ...] = ("synced", "written")
    for least in (1, 2):
        for durability in durabilities:
            shown = "1" if least == 1 else "n"
            rows.append(
                Guarantee(
                    mode=f"autoswitch, `min_in_sync_replicas = {shown}`,"
                    f' `durability = "{durability}"`',
                    returns_when=_all_ack(shown, durability),
                    holds_after=_all_hold("n - 1" if least > 1 else "", durability),
                    judges=_JUDGES,
                )
            )
    rows.append(
        Guarantee(
            mode="autoswitch, `all_ack_in_sync_state_set = false`, `in_sync_replicas = n`",
            returns_when=_fixed("n", "on its disk " + _OR_WRITTEN.format("in its page cache")),
            holds_after=_fixed_holds("power loss " + _OR_WRITTEN.format("not power loss")),
            judges=("AcknowledgedIsOnEnough", "SyncedSurvives", "AcknowledgedSurvives"),
        )
    )
    return tuple(rows)


_OR_WRITTEN = '(`"written"`: {})'
_JUDGES = ("AcknowledgedIsOnTheSet", "AcknowledgedSurvives")


def _all_ack(least: str, durability: Durability) -> str:
    return (
        f"all replicas of the sync state set have it, at least {least}, each {_where(durability)};"
        " refused before it is written while fewer are in the set"
    )


def _all_hold(lost: str, durability: Durability) -> str:
    """Args: lost: how many may be lost whatever the set is; "": none may."""
    power = _SYNCED if durability == "synced" else _WRITTEN
    if not lost:
        return (
            "loss of all replicas of the set but one, which the controllers then elect;"
            f" what a master answered alone is lost with its disk; {power}"
        )
    return (
        "loss of all replicas of the set but one, which the controllers then elect, so of any"
        f" {lost}; {power}"
    )


def _fixed(copies: str, where: str) -> str:
    if copies == "1":
        return f"the master has it {where}"
    return f"{copies} replicas have it, the master among them, each {where}"


def _fixed_holds(power: str) -> str:
    return (
        f"a crash and restart of the master's process; {power}; an election may take it back, as"
        " one of the set may be elected that does not have it"
    )


def _where(durability: Durability) -> str:
    return "on its disk" if durability == "synced" else "in its page cache"


def _notes(group: AutoSwitchGroup) -> list[str]:
    notes = []
    count = len(group.voters)
    if group.least_in_sync == 1 and count > 1:
        notes.append("a master alone goes on; while it is away, nobody is elected who lacks that")
    if count > 1 and group.least_in_sync == count:
        notes.append("every replica is needed: while one is away, appends are refused")
    copies = group.sure_copies
    if copies > group.least_in_sync:
        notes.append(
            f"while fewer than {copies} replicas copy, appends are written and time out, their"
            f" outcome unknown; with min_in_sync_replicas = {copies} they are refused first"
        )
    if count == 1:
        notes.append("one replica: nobody else can be elected")
    notes += [f"{node} is a learner: it counts nowhere" for node in group.learners]
    return notes


def confirmed_by(group: AutoSwitchGroup) -> str:
    """Who confirms a fresh read of the group, as text."""
    lease_s = group.controller_heart_beat_timeout_s
    return f"is answered by the master alone, which a controller has confirmed within {lease_s:g} s"
