"""The messages about sessions between a member's state maintainer and its other actors.

These are quorum_ack_checker, entry_handler, each entry_dispatcher, entry_reader and
state_machine_caller. A session is the time in which a member has one role in one term; its number
rises for as long as the store runs. An actor drops messages with a session below the newest one
that it was sent, and takes the newest one twice without harm.

Source: openmessaging/dledger, MemberState.java, which upstream's threads share (0.3.1.2).
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.runtime import ReplyTo


@attrs.frozen(kw_only=True)
class Resting:
    """The session before has ended: stop acting by it, and wait for Following or Leading.

    Attributes:
        term: the member's term from this session on.
    """

    session: int
    term: int


@attrs.frozen(kw_only=True)
class _Working:
    """The whole log of a member that follows or leads is stored (on the disk, if synced).

    Attributes:
        begin, end, end_term: the first and the last entry of the own log, and the last one's term;
            -1 if it is empty.
        committed: the committed index as far as known; -1 for none.
    """

    session: int
    term: int
    begin: int
    end: int
    end_term: int
    committed: int


@attrs.frozen(kw_only=True)
class Following(_Working):
    """This member follows `leader`."""

    leader: str


@attrs.frozen(kw_only=True)
class Leading(_Working):
    """This member leads."""


@attrs.frozen(kw_only=True)
class Rejoin:
    """An actor was restarted and knows of no session: it has to be sent the present one.

    Attributes:
        actor: its path.
        renew: whether it has forgotten what cannot be sent again, so that all actors have to begin
            a new session of the same role and term.
    """

    actor: str
    renew: bool


@attrs.frozen(kw_only=True)
class SawTerm:
    """A push, or the answer to one, bore this term, which is larger than the session's."""

    term: int


@attrs.frozen(kw_only=True)
class CaughtUp:
    """The own log has all that the leader's had when both were first compared.

    The entry handler sends it once in a session.
    """

    session: int


@attrs.frozen(kw_only=True)
class StoreTakes:
    """The store refused entries for want of room, or takes entries again.

    Attributes:
        session: the session in which it did.
        refusal: for people: why it takes none; "" if it takes them.
    """

    session: int
    refusal: str = ""


@attrs.frozen(kw_only=True)
class LeaderProven:
    """The answer to ProveLeader.

    Attributes:
        term: the term in which this member led at some moment after the question; -1 if it does
            not lead.
    """

    term: int


@attrs.frozen(kw_only=True)
class ProveLeader:
    """Ask the maintainer whether this member leads, by a round of heartbeats that begins after it.

    Answered with LeaderProven; fails with Overloaded if too many wait.
    """

    reply_to: ReplyTo[LeaderProven]


SessionChange: TypeAlias = Resting | Following | Leading
"""The messages to every actor of the member."""
SessionReport: TypeAlias = Rejoin | SawTerm | StoreTakes | CaughtUp
"""The messages from any actor of the member."""
CONTROL: tuple[type, ...] = (Resting, Following, Leading)
"""The classes that go through an actor's control lane, before all messages of the new session."""
