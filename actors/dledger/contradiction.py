"""What a member says that ends because its leader's log contradicts what is committed here.

There is no upstream: a member there cuts what was committed (bug B12).
"""

from __future__ import annotations

from actors.dledger.base_fields import Sender


def contradiction(sender: Sender, alarm: str, leader: str, term: int) -> str:
    """In one line: which group, which members, and what is to be done.

    Args:
        alarm: what the decisions say: which entry, and that it differs from the leader's.
        term: in which it leads.
    """
    group, me = sender.group, sender.self_id
    return (
        f"{group}: {me} ends: {alarm}, {leader}'s in term {term}. Two majorities have committed:"
        " some node's cluster file named other members, or its data was replaced by other data."
        f" Stop all members, and compare `members` in their files and their logs (python -m"
        f" actors.storage dump DATA_DIR/NODE --group {group}); where the log is not what most of"
        f" them have, perhaps {leader}'s, move all but currterm out of DATA_DIR/NODE/groups/{group}"
        " and keep it; start the others first (README, Running it: a DLedger member's data is lost"
        " or damaged)"
    )
