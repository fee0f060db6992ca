"""Chooses a group's next master from what its members answer.

`decide` chooses, and says what may be lost. Without `force` it refuses if anything may be. So every
acknowledged record is kept: as long as fewer nodes are silent, or have lost what they held, than an
append had copies, one of the nodes that answer has it, and the furthest of them has all.

Upstream: DefaultElectPolicy.java, apache/rocketmq controller/.../elect/impl (5.3.3), which compares
epochs, then offsets. Differs: histories are compared, so that a log which parted from the group's
is never chosen for its length; and an operator asks for it, as there is no controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from actors.epochs import Comparison, Epoch, Kind, compare, line
from actors.ha.core.role_checks import opened_by
from actors.ha.core.role_part import LEAP_MAX
from actors.log_types import GroupState
from wire.api.frames import NUMBER_MAX


@attrs.frozen(kw_only=True)
class Wish:
    """What an operator asks for, and what the cluster file says of the group.

    Attributes:
        members: the members that can be asked, in the file's order.
        java: the members that cannot, because they are Java brokers.
        file_master: the master without any promotion.
        counting: the members that can hold a copy of an append, the master among them.
        copies: how many of these held an append before it was answered.
        synced: whether only synced bytes were acknowledged.
        node: the member that has to become master; None: the furthest.
        force: whether to promote although something may be lost.
    """

    group: str
    members: tuple[str, ...]
    java: tuple[str, ...] = ()
    file_master: str
    counting: tuple[str, ...]
    copies: int
    synced: bool
    node: str | None = None
    force: bool = False

    def end_of(self, state: GroupState) -> int:
        """The end of a member's log: of what is synced, in a synced group."""
        return state.synced if self.synced else state.written


@attrs.frozen(kw_only=True)
class PromotionPlan:
    """How to carry the promotion out.

    Attributes:
        number: the promotion's number.
        chosen: the next master.
        old: the master before it; None if it is unknown.
        fence: the members that take appends, or might soon, to be fenced before `chosen` records
            the promotion.
        hand_over: whether `chosen` has to get all that `old`, which answers, has before that.
        losses: what may be lost all the same, by `force`.
        strays: members that answer and are not asked to agree, because the promotion that they know
            cannot be the group's.
    """

    number: int
    chosen: str
    old: str | None
    fence: tuple[str, ...]
    hand_over: bool
    losses: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()


@attrs.frozen
class PromotionRefusal:
    """Nothing is done.

    Attributes:
        reasons: why, for people.
        by_force: whether it would be done with `force`.
    """

    reasons: tuple[str, ...]
    by_force: bool = False


def decide(
    wish: Wish, states: Mapping[str, GroupState], silent: Mapping[str, str]
) -> PromotionPlan | PromotionRefusal:
    """Choose the next master.

    Args:
        states: the members that answer.
        silent: all other members, and why they do not answer.
    """
    assert set(states) | set(silent) == set(wish.members)
    assert not set(states) & set(silent)
    if wish.node is not None and wish.node not in states:
        return PromotionRefusal((_absent(wish, wish.node, silent),))
    if not states:
        return PromotionRefusal((f"no member of {wish.group} answers",))
    if strays := _strays(wish, states):
        if not wish.force:
            return PromotionRefusal(tuple(strays.values()), by_force=True)
        others = {name: state for name, state in states.items() if name not in strays}
        mute = dict.fromkeys(strays, "its promotion follows nothing that others know")
        found = decide(wish, others, {**silent, **mute})
        if isinstance(found, PromotionRefusal):
            return found
        losses = (*strays.values(), *found.losses)
        return attrs.evolve(found, losses=losses, strays=tuple(strays))
    number = max(state.number for state in states.values())
    claimed = max(state.claimed for state in states.values())
    if max(number, claimed) >= NUMBER_MAX:
        return PromotionRefusal(
            (f"promotion {max(number, claimed)} leaves no number for another one",)
        )
    old = _master(wish, states, number)
    chosen = wish.node or _furthest(wish, states, old)
    if chosen is None:
        return PromotionRefusal((f"no member of {wish.group} but its master {old} answers",))
    if chosen == old and states[chosen].role == "master" and states[chosen].state == "open":
        return PromotionRefusal((f"{chosen} is the master of {wish.group}",))
    answers = old is not None and old in states and states[old].role == "master"
    hand_over = answers and old is not None and old != chosen and _fits(states, chosen, old)
    short = {}
    if hand_over and old is not None and _has_lost(states, chosen, old):
        short = {old: states[old].written}
    gets = old if hand_over and not short and old is not None and _has_all(states[old]) else None
    losses = (
        *(() if gets is not None else _silent_losses(wish, states, silent, old, short)),
        *_lacks(wish, states, chosen, gets),
    )
    works = answers and old is not None and states[old].state == "open" and not states[old].no_room
    full = states[chosen].no_room if works else ""
    idle = (f"{chosen} would take no appends: {full}",) if full else ()  # which loses nothing
    if (losses or idle) and not wish.force:
        return PromotionRefusal((*losses, *idle), by_force=True)
    masters = [name for name, state in states.items() if state.role == "master" and name != chosen]
    return PromotionPlan(
        number=max(number, claimed) + 1,
        chosen=chosen,
        old=old,
        fence=tuple(masters),
        hand_over=hand_over,
        losses=losses,
    )


def handed_over(wish: Wish, old: GroupState, chosen: GroupState) -> bool:
    """Whether `chosen` has all that the fenced `old` has, and no append waits for its answer."""
    return (
        old.state == "fenced"
        and old.unanswered == 0
        and _compare(chosen, old).kind in (Kind.FITS, Kind.AHEAD)
        and chosen.written >= old.written
        and wish.end_of(chosen) >= old.written
    )


def is_outdated(state: GroupState, others: Mapping[str, GroupState]) -> bool:
    """Whether a member's log parted from a history that went on: a resync loses nothing then."""
    return any(
        _is_newer(other, state) and _compare(state, other).kind is not Kind.FITS
        for name, other in others.items()
        if name != state.node
    )


def _strays(wish: Wish, states: Mapping[str, GroupState]) -> dict[str, str]:
    """Members whose promotion is too far above what at least half of those that answer know.

    Each has a text for people that says what to do about it.
    """
    numbers = {name: max(state.number, state.claimed) for name, state in states.items()}
    known = sorted(numbers.values())[(len(numbers) - 1) // 2]
    return {
        name: (
            f"{name} knows of promotion {number}, which does not follow {known}: stop it, take"
            f" {wish.group} out of `records` in its identity.json, and start it"
        )
        for name, number in numbers.items()
        if number > known + LEAP_MAX
    }


def _master(wish: Wish, states: Mapping[str, GroupState], number: int) -> str | None:
    """The master by the newest promotion; None if two nodes are master by it."""
    named = [state.master for state in states.values() if state.number == number]
    return named[0] if named.count(named[0]) == len(named) else None


def _absent(wish: Wish, node: str, silent: Mapping[str, str]) -> str:
    if node in silent:
        return f"{node} does not answer: {silent[node]}"
    if node in wish.java:
        return f"{node} is a Java broker: it cannot be promoted from here"
    return f"{node} is no member of {wish.group}"


def _furthest(wish: Wish, states: Mapping[str, GroupState], old: str | None) -> str | None:
    """The member with the longest log, of those whose log is not outdated.

    Of several it is an undamaged one, and one with room on its disk. A master that works is not
    chosen.
    """
    works = old is not None and old in states and states[old].state == "open"
    found = [
        (
            not states[name].damage,
            wish.end_of(states[name]),
            states[name].written,
            not states[name].no_room,
            -place,
        )
        for place, name in enumerate(wish.members)
        if name in states and not (works and name == old) and not is_outdated(states[name], states)
    ]
    return wish.members[-max(found)[-1]] if found else None


def _silent_losses(
    wish: Wish,
    states: Mapping[str, GroupState],
    silent: Mapping[str, str],
    old: str | None,
    short: Mapping[str, int],
) -> Iterator[str]:
    """What members that cannot be asked may hold, or have held.

    Args:
        forgot: members that began empty or lost bytes, so that asking them proves nothing.
        short: members that have lost all above an offset, likewise.
    """
    was = old if old is not None else wish.file_master
    if was in wish.java:
        yield f"{was} is a Java broker and cannot be fenced: is it stopped for good?"
    mute = {node: f"{node} is a Java broker" for node in wish.java}
    mute |= {node: f"{node} does not answer ({why})" for node, why in silent.items()}
    # If all members answer, no other node can know more: the furthest has all that remains.
    forgot = [name for name, state in states.items() if state.forgot and mute]
    mute |= {node: f"{node} began empty or lost bytes, and has not caught up" for node in forgot}
    mute |= {node: f"{node} has lost what it had above {end}" for node, end in short.items()}
    known = [text for node, text in mute.items() if node in wish.counting]
    if len(known) >= wish.copies:
        yield f"{', '.join(known)}: with copies = {wish.copies} they may have what nobody else has"


def _lacks(
    wish: Wish, states: Mapping[str, GroupState], chosen: str, gets: str | None
) -> Iterator[str]:
    """What the chosen member lacks.

    Args:
        gets: the member whose log it will have after the hand-over.
    """
    own = states[gets or chosen]
    if states[chosen].damage:
        yield f"{chosen} has a damaged copy: {states[chosen].damage}: mend it first"
    if is_outdated(states[chosen], states):
        yield f"{chosen} has parted from the group's log: `resync {chosen}` first"
    for name, other in states.items():
        if name in (chosen, gets) or is_outdated(other, states):
            continue
        found = _compare(other, own)
        if gets is not None and own.state == "open" and found.kind is Kind.AHEAD:
            continue  # the master grew between two answers
        lost_bytes = wish.end_of(other) - found.consistent_bytes
        if found.kind is not Kind.FITS and lost_bytes > 0:
            yield f"{name} has {lost_bytes} bytes that {chosen} does not have"
    line = [state for state in states.values() if not is_outdated(state, states)]
    known = max(max(state.acknowledged, state.high_water) for state in line)
    end = wish.end_of(own)
    if gets is None and known > end:
        yield f"all below {known} may be acknowledged, and {chosen} has what is below {end}"


def _fits(states: Mapping[str, GroupState], chosen: str, old: str) -> bool:
    """Whether the chosen member can get what it lacks from the old master."""
    return _compare(states[chosen], states[old]).kind in (Kind.FITS, Kind.AHEAD)


def _has_all(old: GroupState) -> bool:
    """Whether the master has what was acknowledged before its promotion.

    It may not if it never opened by its promotion, or forgot. The cluster file's master has no
    predecessor.
    """
    return not old.forgot and (old.number == 0 or opened_by(old, old.number))


def _has_lost(states: Mapping[str, GroupState], chosen: str, old: str) -> bool:
    """Whether a fenced master's log, which does not grow, is shorter than its slave's.

    It has lost bytes then, so it may lack acknowledged records, and counts as silent.
    """
    found = _compare(states[chosen], states[old])
    return states[old].state != "open" and found.kind is Kind.AHEAD


def _compare(own: GroupState, other: GroupState) -> Comparison:
    return compare(own.history, own.written, other.history, other.written)


def _last(state: GroupState) -> Epoch:
    """The newest epoch of a log, which may begin at its very end."""
    return line(state.history, state.written + 1)[-1]


def _is_newer(one: GroupState, other: GroupState) -> bool:
    """Whether `one` has an epoch that is newer than all of `other`'s."""
    newest, known = _last(one), _last(other)
    if newest.number != known.number:
        return newest.number > known.number
    return known in one.history and newest not in other.history
