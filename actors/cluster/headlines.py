"""Makes the first lines of `status`: for each group which node takes its appends, or why they fail
and what to do about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from actors.cluster.view import ClusterView
from actors.config import ClusterConfig, Group
from actors.config.kind import Terms
from actors.config.kinds import kind_of
from actors.group_status import WITHOUT_ROOM, GroupStatus
from actors.storage.files.room import NO_ROOM


def headlines(config: ClusterConfig, view: ClusterView, starting: Collection[str]) -> list[str]:
    """Return one line for each group of which a node was asked.

    Args:
        view: the nodes that were asked; those that did not answer are away.
        starting: the nodes that are starting.
    """
    asked = {node.node for node in view.nodes}
    return [
        f"{name}: {_headline(config, group, view, starting)}"
        for name, group in config.groups.items()
        if asked & set(group.members)
    ]


def _headline(
    config: ClusterConfig, group: Group, view: ClusterView, starting: Collection[str]
) -> str:
    terms, found, said = kind_of(group).terms, view.leader_of(group.name), view.of(group.name)
    named = view.named_leader_of(group.name)
    if found is not None and (named is None or named.epoch <= found[1].epoch):
        return _led(found[0], found[1], said)
    if named is None:
        ours = [node for node in group.members if node in config.python_nodes]
        return _without_leader(ours, group.name, terms, view, starting)
    leads = f"{named.leader} is {terms.leader}{terms.by(named.epoch)}"
    # it was not asked, or is a Java broker
    if named.leader not in {node.node for node in view.nodes}:
        return f"{leads}, as others say"
    if named.leader in starting:
        return f"no {terms.leader} yet: {named.leader} is starting"
    then = "an election follows" if group.election is not None else f"`promote {group.name}`"
    why = f"{named.leader} does not answer"
    if named.leader in said:  # it answers, and does not lead any more
        own = said[named.leader]
        why = f"{named.leader}: {own.troubles[0] if own.troubles else own.role}"
    return f"no {terms.leader}, appends fail: {why}; {then}"


def _led(node: str, own: GroupStatus, said: Mapping[str, GroupStatus]) -> str:
    """Describe a group whose leader answers.

    Args:
        said: the status of the group on each node that answered.
    """
    who = f"{node} is {own.terms.leader}{own.terms.by(own.epoch)}"
    if not own.is_open or own.reason.startswith(NO_ROOM):
        return f"{who} and takes no appends: {'; '.join(own.troubles) or own.state or 'not open'}"
    full = {each for each, other in said.items() if WITHOUT_ROOM in other.findings}
    lacks = [
        peer.node for peer in own.peers if not (peer.is_well and peer.has_copy) or peer.node in full
    ]
    copies = len(own.peers) + 1 - len(lacks)
    if copies < own.copies:
        return f"{who}, appends wait: {copies} of {own.copies} copies that they need"
    hold = f"{copies} of {len(own.peers) + 1} nodes can hold copies"
    without = f", not {', '.join(lacks)}" if lacks else ""
    return f"{who} and takes appends, {hold}{without}"


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
        return f"who is {terms.leader} is not known: {', '.join(asked)} does not answer"
    lacks = [f"{node}: {own.troubles[0]}" for node, own in said.items() if own.troubles]
    answers = f"{len(said) or 'none'} of its {len(ours)} nodes answers"
    return f"no {terms.leader}, appends fail: {'; '.join(lacks) or answers}"
