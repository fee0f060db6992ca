"""What people read of a DLedger member's status answer, whichever command shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from actors.dledger.weaker import weaker_words

CANDIDATE: Final = "candidate"
ANSWERS: Final = "answers"
JOINS: Final = "joins"
"""Of a candidate's peer that neither is silent nor refuses it; see `actors.node.ledger_peers`."""


_JOIN: Final = {True: "is new or lacks its log", False: "are new or lack their logs"}


def stranger(address: str) -> str:
    """Of one that came to the member's port."""
    return f"turned away {address}: the cluster file names no member at that address"


def without_majority(role: str, members_count: int, states: Iterable[str], *, joins: bool) -> str:
    """Why nobody is elected; "" of a member that is no candidate, or may be elected.

    Args:
        states: of the peers that the member has asked for votes.
        joins: its own vote counts only with all others'.
    """
    asked = tuple(states)
    joining_count = asked.count(JOINS)
    answer_count = asked.count(ANSWERS) + joining_count
    needed_count = min(members_count // 2 + joining_count + joins, members_count - 1)
    if role != CANDIDATE or not asked or answer_count >= needed_count:
        return ""
    answer = "answers" if answer_count == 1 else "answer"
    needed = f"{needed_count} {'is' if needed_count == 1 else 'are'} needed"
    whose = f", as {joining_count} of them {_JOIN[joining_count == 1]}" if joining_count else ""
    return f"{answer_count} of {members_count - 1} others {answer}, {needed}{whose}"


def lacks_majority(group: Mapping[str, Any]) -> str:
    """`without_majority`, of a member's status answer."""
    states = (str(peer.get("state", "")) for peer in group.get("peers", ()))
    members_count, joins = len(group.get("members", ())), bool(group.get("joining"))
    return without_majority(str(group.get("role")), members_count, states, joins=joins)


def why_none_leads(unsaved_vote: str, refusal: str, lacks: str, joining: str) -> str:
    """What keeps a member from leading, or electing anybody; "" if nothing does.

    Args:
        unsaved_vote, refusal, joining: of its status answer.
        lacks: by `without_majority`.
    """
    full = f"takes no entries: {refusal}" if refusal else ""
    return unsaved_vote or "; ".join(filter(None, (full, lacks, joining)))


def keeps_from_electing(group: Mapping[str, Any]) -> str:
    """`why_none_leads`, of a member's status answer."""
    keys = ("unsaved_vote", "refusal", "joining")
    unsaved_vote, refusal, joining = (str(group.get(key, "")) for key in keys)
    return why_none_leads(unsaved_vote, refusal, lacks_majority(group), joining)


def troubles(name: str, group: Mapping[str, Any]) -> list[str]:
    """What is not as it should be with a member of group `name`, one line each."""
    peers = group["peers"]
    lacks = lacks_majority(group)
    lines = [f"{name}: {lacks}"] if lacks else []
    lines += [f"{name}: {peer['node']}: {peer['reason']}" for peer in peers if peer.get("reason")]
    lines += [f"{name}: {group[key]}" for key in ("unsaved_vote", "joining") if group.get(key)]
    if group.get("refusal"):
        lines.append(f"{name} takes no entries: {group['refusal']}")
    lines += [f"{name}: {weaker_words(*pair)}" for pair in group.get("weaker", {}).items()]
    return [*lines, *(f"{name}: {stranger(each)}" for each in group.get("strangers", ()))]
