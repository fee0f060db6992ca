"""What a member's state maintainer and its parts tell each other about sessions.

Parts are quorum_ack_checker, entry_handler, each entry_dispatcher, entry_reader and
state_machine_caller. A session is one stretch in which a member has one role in one term; its
number rises for as long as the store lives. A part drops whatever bears a session below the newest
one that it was told, and takes the newest one twice without harm.

Source: openmessaging/dledger, MemberState.java, which upstream's threads share (0.3.1.2).
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.runtime import ReplyTo


@attrs.frozen(kw_only=True)
class Resting:
    """The session before is over: do nothing of it any more, and wait for what is told next.

    Attributes:
        term: of the member, from this session on.
    """

    session: int
    term: int


@attrs.frozen(kw_only=True)
class Following:
    """This member follows `leader`; its log is stored as a whole (on the disk, if synced).

    Attributes:
        begin, end, end_term: of the own log, -1 if it is empty.
        committed: the committed index as far as known, -1: nothing.
    """

    session: int
    term: int
    leader: str
    begin: int
    end: int
    end_term: int
    committed: int


@attrs.frozen(kw_only=True)
class Leading:
    """This member leads; its log is stored as a whole (on the disk, if synced).

    Attributes:
        begin, end, end_term: of the own log, -1 if it is empty.
        committed: the committed index as far as known, -1: nothing.
    """

    session: int
    term: int
    begin: int
    end: int
    end_term: int
    committed: int


@attrs.frozen(kw_only=True)
class Rejoin:
    """A part lives anew and knows of no session: it is told the present one.

    Attributes:
        part: its path.
        renew: what the part has forgotten cannot be told again. All parts begin a new session, of
            the same role and term.
    """

    part: str
    renew: bool


@attrs.frozen(kw_only=True)
class SawTerm:
    """A push or its answer bore this term, larger than that of the session."""

    term: int


@attrs.frozen(kw_only=True)
class CaughtUp:
    """From the entry handler, once in a session: the own log has all that the leader's had when it
    was first compared with it.
    """

    session: int


@attrs.frozen(kw_only=True)
class StoreTakes:
    """Whether the store takes entries: it refused some for want of room, or took some again.

    Attributes:
        session: in which it did.
        refusal: why not, for people; "": it takes them.
    """

    session: int
    refusal: str = ""


@attrs.frozen(kw_only=True)
class LeaderProven:
    """Answer: this member led at some moment after the question, or does not lead.

    Attributes:
        term: in which it led; -1: it does not.
    """

    term: int


@attrs.frozen(kw_only=True)
class ProveLeader:
    """Request to the maintainer: answered by a round of heartbeats that begins after it.

    Fails with Overloaded if too many wait.
    """

    reply_to: ReplyTo[LeaderProven]


Told: TypeAlias = Resting | Following | Leading
"""To every part."""
Heard: TypeAlias = Rejoin | SawTerm | StoreTakes | CaughtUp
"""From any part."""
CONTROL: tuple[type, ...] = (Resting, Following, Leading)
"""Goes through a part's control lane: nothing that waits there is of the session told."""
