"""Who leads a group, of what several nodes say: one rule for the client, the feed and the views.

A reign is a DLedger leader's term, or the number of the promotion that made a classic master; the
newest one counts, whoever else still takes itself for the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from actors.client.ledger_words import keeps_from_electing


@attrs.frozen(kw_only=True)
class Claim:
    """Whom one node takes for the group's leader or master.

    Attributes:
        leader: that node, itself or another; "" if it knows nobody.
        reign: since which term, or by which promotion; -1 before the first.
        answers: who says so can be heard now.
        is_open: who leads takes appends, as far as is known.
        lacks: what keeps that node from electing anybody, for people; "": nothing that it knows.
    """

    leader: str
    reign: int
    answers: bool = True
    is_open: bool = False
    lacks: str = ""


def newest(claims: Iterable[Claim]) -> Claim | None:
    """The claim of the newest reign; of one reign's, of a node that answers, and of a leader that
    takes appends. None: nobody names anybody.
    """
    named = (claim for claim in claims if claim.leader)
    return max(named, key=lambda each: (each.reign, each.answers, each.is_open), default=None)


def claim_of(status: Mapping[str, Any], group: str) -> Claim:
    """Whom a node of this status answer names."""
    said = status.get("groups", {}).get(group, {})
    leader, reign = said.get("leader", said.get("master")), said.get("term", said.get("promotion"))
    return Claim(
        leader=str(leader or ""),
        reign=-1 if reign is None else int(reign),
        lacks="" if leader else keeps_from_electing(said),
    )


def not_led(node: str, group: str, own: Claim, known: Claim) -> str:
    """For people, of a node that was asked for who leads: whom it names, and what it lacks.

    Args:
        own, known: what that node says, and the newest that anybody does.
    """
    whom = (known if own.leader == node else own).leader or "nobody that it knows"
    lacks = f" ({own.lacks})" if own.lacks else ""
    return f"{node} runs, but {whom} leads {group}{lacks}"
