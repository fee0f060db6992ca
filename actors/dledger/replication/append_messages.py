"""What quorum_ack_checker takes and answers; import them as `append_messages.Append` and so on."""

from __future__ import annotations

import attrs

from actors.dledger.core.member_state import LedgerEnd
from actors.log_types import Chain
from actors.runtime import ReplyTo


@attrs.frozen(kw_only=True)
class Committed:
    """An append is committed: a quorum holds it, and no later leader can take it back.

    Attributes:
        first_index, last_index: of its entries.
        positions: of each entry in the log, in bytes.
        copies: members that are known to hold all of them, this one among them.
        results: of a group with a state machine: what it gave for each entry, None for one without
            a body; () without a machine.
    """

    first_index: int
    last_index: int
    positions: tuple[int, ...]
    copies: int
    results: tuple[object, ...] = ()


@attrs.frozen(kw_only=True)
class Append:
    """One caller's append: an entry for each body, all or none, in this order without a gap.

    Answered with Committed, or fails with: NotMaster (no leader, or one that hands over; `hint`
    says who leads), Overloaded, LogFull, TooLarge: nothing was written. ReplicationTimeout,
    LeadershipLost: they are written here, the outcome is not known.

    Attributes:
        bodies: at least one; one may be empty.
        deadline_s: of Trio's time; what is committed is answered, however late.
        chain: it is refused (NotStored) once an earlier one of it has failed.
    """

    bodies: tuple[bytes, ...]
    deadline_s: float
    reply_to: ReplyTo[Committed]
    chain: Chain | None = None


def size_of(message: object) -> int:
    """What a message counts against the bytes that may wait."""
    return sum(map(len, message.bodies)) if isinstance(message, Append) else 0


@attrs.frozen(kw_only=True)
class Matched:
    """A peer holds the log up to `index`, or no more than that. Conflated for each peer."""

    session: int
    peer: str
    index: int


@attrs.frozen(kw_only=True)
class Applied:
    """The state machine has applied all up to `index`.

    Attributes:
        results: of the last so many entries up to there.
    """

    index: int
    results: tuple[object, ...] = ()


@attrs.frozen(kw_only=True)
class Followed:
    """As follower, this member learned that all up to `index` is committed. Conflated."""

    index: int


@attrs.frozen(kw_only=True)
class HoldAppends:
    """Take no appends (they are refused as LEADER_TRANSFERRING), or take them again.

    With `on`, the maintainer is told Held once the store has answered all that was taken.
    """

    session: int
    on: bool


@attrs.frozen(kw_only=True)
class Held:
    """No append is taken any more; the log ends there."""

    session: int
    end: LedgerEnd


@attrs.frozen(kw_only=True)
class ReadIndex:
    """Answer: all that was answered before the question is at or below `index`.

    It is only for whoever proves that this member leads in `term`, after it got this.
    """

    term: int
    index: int


@attrs.frozen(kw_only=True)
class GetReadIndex:
    """Request to a leader; answered once an entry of its own session is committed.

    Fails with NotMaster if this member does not lead, or no longer; Overloaded if too many wait.
    """

    reply_to: ReplyTo[ReadIndex]


@attrs.frozen(kw_only=True)
class Watermarks:
    """By peer, the highest index that it acknowledged in the session; -1: none.

    Attributes:
        session: 0 while this member does not lead.
        indexes: (peer, index) of each.
    """

    session: int
    indexes: tuple[tuple[str, int], ...]


@attrs.frozen(kw_only=True)
class GetWatermarks:
    """Request."""

    reply_to: ReplyTo[Watermarks]
