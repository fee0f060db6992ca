"""Which node leads a group, by what several nodes say: one rule for client, feed and views.

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
    """The leader of a group that one node names.

    Attributes:
        leader: the name of the leader, perhaps the node itself; "" if it knows none.
        epoch: the term or promotion by which it leads; -1 before the first.
        answers: the node that names it can be reached now.
        is_open: the leader takes appends, as far as is known.
        lacks: why the node names none, for people; "": no reason is known.
    """

    leader: str
    epoch: int
    answers: bool = True
    is_open: bool = False
    lacks: str = ""

    @classmethod
    def of(cls, own: GroupStatus, *, answers: bool = True) -> NamedLeader:
        """What a node says."""
        return cls(
            leader=own.leader,
            epoch=own.epoch,
            answers=answers,
            is_open=own.is_open,
            lacks="" if own.leader else "; ".join(own.troubles),
        )


def newest(named: Iterable[NamedLeader]) -> NamedLeader | None:
    """The leader of the newest epoch; in one epoch first those named by a node that answers, then
    those that take appends. None: no node names any.
    """
    known = (each for each in named if each.leader)
    return max(known, key=lambda each: (each.epoch, each.answers, each.is_open), default=None)


def leader_named_by(answer: Mapping[str, Any], group: str) -> NamedLeader:
    """The leader that a status answer names. Raises: TriologError: it cannot be read."""
    own = group_status(answer, group)
    return NamedLeader(leader="", epoch=-1) if own is None else NamedLeader.of(own)


def not_led(node: str, group: str, own: NamedLeader, known: NamedLeader) -> str:
    """Why a node that was asked does not lead: whom it names, and what it lacks, as text for
    people.

    Args:
        own, known: the leader that this node names, and the newest that any node names.
    """
    whom = (known if own.leader == node else own).leader or "no node that it knows"
    lacks = f" ({own.lacks})" if own.lacks else ""
    return f"{node} runs, but {whom} leads {group}{lacks}"
