"""What people read of a DLedger member's status answer, whichever command shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from actors.dledger.weaker import weaker_words

CANDIDATE: Final = "candidate"
ANSWERS: Final = "answers"
"""Of a candidate's peer that neither is silent nor refuses it; see `actors.node.ledger_peers`."""


def stranger(address: str) -> str:
    """Of one that came to the member's port."""
    return f"turned away {address}: the cluster file names no member at that address"


def without_majority(role: str, members_count: int, states: Iterable[str]) -> str:
    """Why nobody is elected; "" of a member that is no candidate, or may be elected.

    Args:
        states: of the peers that the member has asked for votes.
    """
    asked = tuple(states)
    answer_count, needed_count = asked.count(ANSWERS), members_count // 2
    if role != CANDIDATE or not asked or answer_count >= needed_count:
        return ""
    answer = "answers" if answer_count == 1 else "answer"
    needed = f"{needed_count} {'is' if needed_count == 1 else 'are'} needed"
    return f"{answer_count} of {members_count - 1} others {answer}, {needed}"


def troubles(name: str, group: Mapping[str, Any]) -> list[str]:
    """What is not as it should be with a member of group `name`, one line each."""
    peers = group["peers"]
    states = (str(peer.get("state", "")) for peer in peers)
    lacks = without_majority(str(group.get("role")), len(group.get("members", ())), states)
    lines = [f"{name}: {lacks}"] if lacks else []
    lines += [f"{name}: {peer['node']}: {peer['reason']}" for peer in peers if peer.get("reason")]
    lines += [f"{name}: {group[key]}" for key in ("unsaved_vote", "joining") if group.get(key)]
    if group.get("refusal"):
        lines.append(f"{name} takes no entries: {group['refusal']}")
    lines += [f"{name}: {weaker_words(*pair)}" for pair in group.get("weaker", {}).items()]
    return [*lines, *(f"{name}: {stranger(each)}" for each in group.get("strangers", ()))]
