"""Makes the first lines of `status`: for each group which node takes its appends, or why they fail
and what to do about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from actors.cluster.view import ClusterView
from actors.config import ClusterConfig, Group
from actors.config.dledger import CONTROLLERS
from actors.config.kind import Terms
from actors.config.kinds import kind_of
from actors.group_status import WITHOUT_ROOM, GroupStatus
from actors.readable import counted
from actors.storage.files.room import LACKS_ROOM, NO_ROOM

_OF_CONTROLLERS: Final = {
    "takes appends": "answers brokers",
    "takes no appends": "answers no broker",
    "appends fail": "brokers get no answer",
    "appends wait": "brokers wait for answers",
}
"""What a group of controllers does in place of what others do: nobody else appends to it."""


@attrs.frozen
class Headline:
    """One group's line.

    Attributes:
        is_well: whether the group takes appends, as far as the nodes that were asked know.
    """

    text: str
    is_well: bool


def headlines(
    config: ClusterConfig,
    view: ClusterView,
    starting: Collection[str],
    ended: Collection[str] = (),
) -> list[Headline]:
    """Return one line for each group of which a node was asked.

    Args:
        view: the nodes that were asked; those that did not answer are away.
        starting: the nodes that are starting.
        ended: the nodes that do not run, as far as is known.
    """
    asked = {node.node for node in view.nodes}
    lines = []
    for name, group in config.groups.items():
        if asked & set(group.members):
            found = _headline(config, group, view, starting, ended)
            words = _OF_CONTROLLERS if name == CONTROLLERS else {}
            text = found.text
            for usual, own in words.items():
                text = text.replace(usual, own)
            lines.append(Headline(f"{name}: {text}", found.is_well))
    return lines


def _headline(
    config: ClusterConfig,
    group: Group,
    view: ClusterView,
    starting: Collection[str],
    ended: Collection[str],
) -> Headline:
    terms, found, said = kind_of(group).terms, view.leader_of(group.name), view.of(group.name)
    named = view.named_leader_of(group.name)
    if found is not None and (named is None or named.epoch <= found[1].epoch):
        return _led(found[0], found[1], said)
    ours = [node for node in group.members if node in config.python_nodes]
    all_asked = set(ours) <= {node.node for node in view.nodes}
    if all_asked and (to_start := _to_start(group, said, ended)):
        return Headline(f"no {terms.leader}, appends fail: {to_start}", False)
    if named is None:
        return Headline(_without_leader(ours, group.name, terms, view, starting), False)
    leads = f"{named.leader} is {terms.leader}{terms.by(named.epoch)}"
    # it was not asked, or is a Java broker
    if named.leader not in {node.node for node in view.nodes}:
        return Headline(f"{leads}, as others say", True)
    if named.leader in starting:
        return Headline(f"no {terms.leader} yet: {named.leader} is starting", False)
    then = "an election follows" if group.election is not None else f"`promote {group.name}`"
    why = f"{named.leader} does not answer"
    silent = [node for node in ours if node not in said]
    if group.election is None and all_asked and len(silent) >= group.sure_copies:
        one = len(silent) == 1
        why = f"{', '.join(silent)} {'does' if one else 'do'} not answer"
        start, alone = ("it", "it alone has") if one else ("one of them", "they alone have")
        force = f"`promote {group.name} --force`, which may lose what {alone}"
        then = f"start {start}, or {force}"  # without, it would be refused
    if named.leader in said:  # it answers, and does not lead any more
        own = said[named.leader]
        why = f"{named.leader}: {own.troubles[0] if own.troubles else own.role}"
    next_step = "" if LACKS_ROOM in why else f"; {then}"  # which it says itself
    return Headline(f"no {terms.leader}, appends fail: {why}{next_step}", False)


def _led(node: str, own: GroupStatus, said: Mapping[str, GroupStatus]) -> Headline:
    """Describe a group whose leader answers.

    Args:
        said: the status of the group on each node that answered.
    """
    who = f"{node} is {own.terms.leader}{own.terms.by(own.epoch)}"
    if not own.is_open or own.reason.startswith(NO_ROOM):
        why = "; ".join(own.troubles) or own.state or "not open"
        why = why.removeprefix("takes no appends: ")
        return Headline(f"{who} and takes no appends: {why}", False)
    full = {each for each, other in said.items() if WITHOUT_ROOM in other.findings}
    lacks = [
        peer.node for peer in own.peers if not (peer.is_well and peer.has_copy) or peer.node in full
    ]
    copies = len(own.peers) + 1 - len(lacks)
    if copies < own.copies:
        text = f"{who}, appends wait: {copies} of {own.copies} copies that they need"
        return Headline(text, False)
    hold = f"{copies} of {counted(len(own.peers) + 1, 'node')} can hold copies"
    without = f", not {', '.join(lacks)}" if lacks else ""
    return Headline(f"{who} and takes appends, {hold}{without}", True)


def _to_start(group: Group, said: Mapping[str, GroupStatus], ended: Collection[str]) -> str:
    """Say which members to start so that the others can elect a leader; "" if that is not all.

    Args:
        said: the status of the group on each node that answered.
        ended: the nodes that do not run.
    """
    down = [node for node in group.members if node in ended]
    if group.election is None and len(down) == len(group.members) > 1:
        return f"{', '.join(down)} do not run: start them"
    needed = len(group.members) // 2 + 1 - (len(group.members) - len(down))
    joining = [node for node, own in said.items() if own.details.get("joining")]
    if group.election is None or not down or (needed <= 0 and not joining):
        return ""
    who, one = ", ".join(down), len(down) == 1
    start = f"{who} {'does' if one else 'do'} not run: start {'it' if one else 'them'}"
    if joining:
        lack = "is new or lacks its log" if len(joining) == 1 else "are new or lack their logs"
        return f"{start}, as {', '.join(joining)} {lack}, so that all have to vote"
    if needed == len(down):
        return start
    return f"{who} do not run: starting {needed} of them is enough"


def _without_leader(
    ours: list[str], group: str, terms: Terms, view: ClusterView, starting: Collection[str]
) -> str:
    """Describe a group for which no answer names a leader.

    Args:
        ours: the members that can be asked.
    """
    said, asked = view.of(group), [node.node for node in view.nodes if node.node in ours]
    begins = [node for node in asked if node in starting]
    if begins and len(begins) + len(said) > len(ours) // 2:
        starts = "is" if len(begins) == 1 else "are"
        return f"no {terms.leader} yet: {', '.join(begins)} {starts} starting"
    if len(asked) < len(ours) and not said:
        do = "does" if len(asked) == 1 else "do"
        return f"who is {terms.leader} is not known: {', '.join(asked)} {do} not answer"
    lacks = [f"{node}: {own.troubles[0]}" for node, own in said.items() if own.troubles]
    answer = "answers" if len(said) <= 1 else "answer"
    answers = f"{len(said) or 'none'} of its {counted(len(ours), 'node')} {answer}"
    return f"no {terms.leader}, appends fail: {'; '.join(lacks) or answers}"
