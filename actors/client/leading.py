"""Who leads a group, of what several nodes say: one rule for the client, the feed and the views.

The newest epoch counts (a DLedger leader's term, the number of the promotion that made a classic
master), whoever else still takes itself for the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from actors.group_status import GroupStatus, group_status


@attrs.frozen(kw_only=True)
class Claim:
    """Whom one node takes for the group's leader.

    Attributes:
        leader: that node, itself or another; "" if it knows nobody.
        epoch: since which term, or by which promotion; -1 before the first.
        answers: who says so can be heard now.
        is_open: who leads takes appends, as far as is known.
        lacks: what keeps that node from naming anybody, for people; "": nothing that it knows.
    """

    leader: str
    epoch: int
    answers: bool = True
    is_open: bool = False
    lacks: str = ""

    @classmethod
    def of(cls, own: GroupStatus, *, answers: bool = True) -> Claim:
        """What a node says."""
        return cls(
            leader=own.leader,
            epoch=own.epoch,
            answers=answers,
            is_open=own.is_open,
            lacks="" if own.leader else "; ".join(own.troubles),
        )


def newest(claims: Iterable[Claim]) -> Claim | None:
    """The claim of the newest epoch; of one epoch's, of a node that answers, and of a leader that
    takes appends. None: nobody names anybody.
    """
    named = (claim for claim in claims if claim.leader)
    return max(named, key=lambda each: (each.epoch, each.answers, each.is_open), default=None)


def claim_of(answer: Mapping[str, Any], group: str) -> Claim:
    """Whom a node of this status answer names. Raises: TriologError: it cannot be read."""
    own = group_status(answer, group)
    return Claim(leader="", epoch=-1) if own is None else Claim.of(own)


def not_led(node: str, group: str, own: Claim, known: Claim) -> str:
    """For people, of a node that was asked for who leads: whom it names, and what it lacks.

    Args:
        own, known: what that node says, and the newest that anybody does.
    """
    whom = (known if own.leader == node else own).leader or "nobody that it knows"
    lacks = f" ({own.lacks})" if own.lacks else ""
    return f"{node} runs, but {whom} leads {group}{lacks}"
