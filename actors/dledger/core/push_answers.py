"""Checks whether what a peer answers to a push is an answer to that push.

Upstream believes the code alone (openmessaging/dledger, DLedgerEntryPusher.java, EntryDispatcher,
0.3.1.2). DLedger 0.4.0 reads its own dialect in our pushes, and answers SUCCESS to each COMPARE: it
asks, without `preLogIndex`, for nothing. So an answer counts only if its own fields show that it is
about what was pushed. Those of versions 0.2.7 to 0.3.3.4 and of our own members do:

| Push                      | code     | index     | count       | term          | endIndex |
|---------------------------|----------|-----------|-------------|---------------|----------|
| APPEND, COMPARE, TRUNCATE | 200      | the first | as many (*) | the request's | >= last  |
| the same                  | 406      | the first | as many (*) | the request's | any      |
| COMMIT                    | 200, 406 | none      | 0           | the request's | any      |

(*) Up to 0.2.5 there is no count, and `index` is that of the last entry.

They answer 411 (UNEXPECTED_ARGUMENT) to a push without an entry, which we never send. Other codes
mean that nothing was done, and need no proof.
"""

from __future__ import annotations

from typing import Final

from actors.dledger.core.push_effects import Push, PushAnswer
from wire.dledger.codes import ResponseCode

_COUNTED: Final = (ResponseCode.SUCCESS, ResponseCode.INCONSISTENT_STATE)
"""The response codes whose answers tell something about the peer's log."""
SPEAKS_N: Final = (
    "speaks the dialect of DLedger 0.4.0, which none of ours does; a group needs one: up to 0.3.3.4"
)
READS_NOTHING: Final = (
    "does not read what it is sent (UNEXPECTED_ARGUMENT), as a member of another dialect"
)


def misfit(push: Push, answer: PushAnswer, term: int) -> str:
    """Describe, for people, why `answer` does not answer `push` of `term`; "" if it does."""
    if answer.foreign:
        return f"{SPEAKS_N}; nothing that it answers counts"
    if answer.code is ResponseCode.UNEXPECTED_ARGUMENT:
        return f"{READS_NOTHING}; nothing that it answers counts"
    if answer.code not in _COUNTED or _is_about(push, answer, term):
        return ""
    return f"answers {push.type.name} with what is no answer to it, and nothing of that counts"


def _is_about(push: Push, answer: PushAnswer, term: int) -> bool:
    """Return whether an answer with one of the `_COUNTED` codes fits this push."""
    whole = answer.index == push.first if answer.count else True
    there = answer.code is not ResponseCode.SUCCESS or answer.end >= push.last
    return answer.last == push.last and whole and there and answer.term == term


def said(answer: PushAnswer) -> str:
    """Describe an answer for people."""
    return (
        f"code {answer.code.name}, term {answer.term}, index {answer.index}, count {answer.count}, "
        f"log {answer.begin} to {answer.end}"
    )
