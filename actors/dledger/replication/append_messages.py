"""The messages of quorum_ack_checker and their answers.

They are written with the module's name: `append_messages.Append` and so on.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.member_state import LedgerEnd
from actors.log_types import Chain
from actors.runtime import ReplyTo


@attrs.frozen(kw_only=True)
class Committed:
    """An append is committed: a quorum holds it, and no later leader can take it back.

    Attributes:
        first_index, last_index: the indexes of its first and last entry.
        positions: where each entry stands in the log, in bytes.
        copies: how many members are known to hold all of them, this one among them.
        results: what the group's state machine gave for each entry, None for one without a body;
            () without a machine.
    """

    first_index: int
    last_index: int
    positions: tuple[int, ...]
    copies: int
    results: tuple[object, ...] = ()


@attrs.frozen(kw_only=True)
class Append:
    """One caller's append: an entry for each body, all or none, in this order without a gap.

    Answered with Committed. With NotMaster (this member does not lead, or hands over; `hint` names
    the leader), Overloaded, LogFull or TooLarge nothing was written. With ReplicationTimeout or
    LeadershipLost the entries are written here, and the outcome is unknown.

    Attributes:
        bodies: at least one; a body may be empty.
        deadline_s: Trio time; a committed append is answered, however late.
        chain: the append is refused (NotStored) once an earlier one of the same chain has failed.
        term: the append is refused (NotMaster) unless this member leads in that term; None: in any.
    """

    bodies: tuple[bytes, ...]
    deadline_s: float
    reply_to: ReplyTo[Committed]
    chain: Chain | None = None
    term: int | None = None


def size_of(message: object) -> int:
    """Return the bytes of a message that count against those that may wait."""
    return sum(map(len, message.bodies)) if isinstance(message, Append) else 0


@attrs.frozen(kw_only=True)
class Matched:
    """A peer holds the log up to `index`, and no more. Conflated for each peer."""

    session: int
    peer: str
    index: int


@attrs.frozen(kw_only=True)
class Applied:
    """The state machine has applied all up to `index`.

    Attributes:
        results: the results of the last entries up to there.
    """

    index: int
    results: tuple[object, ...] = ()


@attrs.frozen(kw_only=True)
class Followed:
    """As a follower, this member learned that all up to `index` is committed. Conflated."""

    index: int


@attrs.frozen(kw_only=True)
class HoldAppends:
    """Take no appends (they are refused as LEADER_TRANSFERRING), or take them again.

    With `on`, the maintainer is sent Held once the store has answered all appends before.
    """

    session: int
    on: bool


@attrs.frozen(kw_only=True)
class Held:
    """The answer to HoldAppends: no append is taken any more, and the log ends at `end`."""

    session: int
    end: LedgerEnd


@attrs.frozen(kw_only=True)
class ReadIndex:
    """The answer to GetReadIndex: all that was acknowledged before it is at or below `index`.

    It holds only if this member is proven to lead in `term` after this answer.
    """

    term: int
    index: int


@attrs.frozen(kw_only=True)
class GetReadIndex:
    """Ask a leader for its read index; answered once an entry of its own session is committed.

    Fails with NotMaster if this member does not lead, or has been deposed, and with Overloaded if
    too many wait.
    """

    reply_to: ReplyTo[ReadIndex]


@attrs.frozen(kw_only=True)
class Watermarks:
    """The answer to GetWatermarks.

    Attributes:
        session: the session; 0 while this member does not lead.
        indexes: (peer, the highest index that it acknowledged in the session, or -1) of each peer.
    """

    session: int
    indexes: tuple[tuple[str, int], ...]


@attrs.frozen(kw_only=True)
class GetWatermarks:
    """Ask for the watermarks of all peers."""

    reply_to: ReplyTo[Watermarks]
