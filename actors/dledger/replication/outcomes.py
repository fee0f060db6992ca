"""The outcomes of an append: our errors, and upstream's names and codes for them.

Upstream: openmessaging/dledger, DLedgerServer.java (handleAppend), DLedgerEntryPusher.java
(waitAck), 0.3.1.2; dledger.md 5.

Differs: an append whose leader was deposed ends with EXPIRED_TERM at once; upstream's waits until
the same node leads again, and ends with TERM_CHANGED then.

`status` of each error is the name of upstream's response code.
"""

from __future__ import annotations

from typing import Final, TypeVar

from actors.errors import (
    LeadershipLost,
    LogFull,
    NotMaster,
    NotStored,
    OutcomeUnknown,
    Overloaded,
    ReplicationTimeout,
    TooLarge,
    TriologError,
)
from wire.dledger.codes import ResponseCode

E = TypeVar("E", bound=TriologError)

_BY_NAME: Final = {code.name: code for code in ResponseCode}


def named(error: E, code: ResponseCode) -> E:
    """Set the error's status to the name of upstream's code, and return the error."""
    assert hasattr(error, "status")
    error.status = code.name
    return error


def code_of(error: Exception) -> ResponseCode:
    """Return upstream's code for an error.

    Returns: INTERNAL_ERROR, which means that the outcome is unknown, for an error without a code.
    """
    status = getattr(error, "status", "")
    return _BY_NAME.get(status, ResponseCode.INTERNAL_ERROR)


def not_leader(leader: str) -> NotMaster:
    """Return the error of a member that does not lead.

    Args:
        leader: the leader as far as known; "" for none.
    """
    says = f"{leader} leads" if leader else "it knows no leader"
    error = NotMaster(f"this member does not lead; {says}", hint=leader or None)
    return named(error, ResponseCode.NOT_LEADER)


def transferring() -> NotMaster:
    """Return the error of a leader that hands over; the next leader is not known yet."""
    error = NotMaster("the leader hands its leadership over")
    return named(error, ResponseCode.LEADER_TRANSFERRING)


def pending_full(what: str) -> Overloaded:
    """Return the error for an append that is refused because too much waits.

    Args:
        what: what is full, for people.
    """
    return named(Overloaded(what), ResponseCode.LEADER_PENDING_FULL)


def too_large(size_bytes: int, max_bytes: int) -> TooLarge:
    """Return the error for a body above the group's bound."""
    error = TooLarge(f"a body of {size_bytes} bytes, at most {max_bytes}")
    return named(error, ResponseCode.UNEXPECTED_ARGUMENT)


def no_body() -> TooLarge:
    """Return the error for an append without any body; an empty body is allowed."""
    return named(TooLarge("an append without a body"), ResponseCode.UNEXPECTED_ARGUMENT)


def not_stored(error: Exception) -> NotStored | None:
    """Translate the store's refusal of an append for its callers; None if it is no refusal."""
    match error:
        case LogFull():
            return named(LogFull(str(error)), ResponseCode.DISK_FULL)
        case TooLarge():
            return named(TooLarge(str(error)), ResponseCode.UNEXPECTED_ARGUMENT)
        case Overloaded():
            return named(Overloaded(str(error)), ResponseCode.LEADER_PENDING_FULL)
        case NotStored():
            return not_leader("")  # of an earlier session: the fence held
        case _:
            return None


def timed_out(first: int, last: int, committed: int) -> ReplicationTimeout:
    """Return the error of an append whose deadline has passed.

    Args:
        first, last: the indexes of its entries.
        committed: the committed index now.
    """
    text = f"entries {first} to {last} are written, but no quorum has them in time"
    error = ReplicationTimeout(f"{text}; committed is {committed}", first, last, last + 1)
    return named(error, ResponseCode.WAIT_QUORUM_ACK_TIMEOUT)


def leadership_lost(first: int, last: int) -> LeadershipLost:
    """Return the error of an append whose leader was deposed.

    Args:
        first, last: the indexes of its entries.
    """
    text = "this member leads no more; a quorum may have the entries"
    error = LeadershipLost(text, first, last, last + 1)
    return named(error, ResponseCode.EXPIRED_TERM)


def store_silent(error: Exception) -> OutcomeUnknown:
    """Return the error of an append that the store did not answer, which may be written."""
    unknown = OutcomeUnknown(f"the store did not say what became of an append: {error}")
    unknown.__cause__ = error
    return unknown
