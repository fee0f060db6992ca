"""Decides which node leads a group by what several nodes say: one rule for client, feed and views.

The newest epoch counts (a DLedger leader's term, the number of the promotion that made a classic
master), even while another node still takes itself for the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from actors.group_status import GroupStatus, group_status


@attrs.frozen(kw_only=True)
class NamedLeader:
    """The leader of a group as one node names it.

    Attributes:
        leader: the name of the leader, which may be the node itself; "" if the node knows none.
        epoch: the term or promotion by which it leads; -1 before the first.
        answers: whether the node that names it can be reached now.
        is_open: whether the leader takes appends, as far as is known.
        lacks: why the node names no leader, for people; "": no reason is known.
    """

    leader: str
    epoch: int
    answers: bool = True
    is_open: bool = False
    lacks: str = ""

    @classmethod
    def of(cls, own: GroupStatus, *, answers: bool = True) -> NamedLeader:
        """Return the leader that a node's status names."""
        return cls(
            leader=own.leader,
            epoch=own.epoch,
            answers=answers,
            is_open=own.is_open,
            lacks="" if own.leader else "; ".join(own.troubles),
        )


def newest(named: Iterable[NamedLeader]) -> NamedLeader | None:
    """Return the leader of the newest epoch; None: no node names any.

    Within an epoch those named by a node that answers come first, then those that take appends.
    """
    known = (each for each in named if each.leader)
    return max(known, key=lambda each: (each.epoch, each.answers, each.is_open), default=None)


def leader_named_by(answer: Mapping[str, Any], group: str) -> NamedLeader:
    """Return the leader that a status answer names. Raises: TriologError: it cannot be read."""
    own = group_status(answer, group)
    return NamedLeader(leader="", epoch=-1) if own is None else NamedLeader.of(own)


def not_led(node: str, group: str, own: NamedLeader, known: NamedLeader) -> str:
    """Say, for people, why a node does not lead: which leader it names, and what it lacks.

    Args:
        own, known: the leader that this node names, and the newest one that any node names.
    """
    whom = (known if own.leader == node else own).leader or "no node that it knows"
    lacks = f" ({own.lacks})" if own.lacks else ""
    return f"{node} runs, but {whom} leads {group}{lacks}"
