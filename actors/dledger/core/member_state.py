"""The state of a member: its role, its term and vote, its leader, the end of its log.

Source: openmessaging/dledger, MemberState.java 0.3.1.2; dledger.md 1 and 4.1.

Differs from upstream:
- It has one owner, the state maintainer. Other actors hold copies that came with a session's
  number, and the store refuses what they do for an older session.
- A candidate votes and campaigns by the end of a log that cannot grow any more: the store was
  fenced, and reported its end, in this session (`end_final`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from actors.log_types import Membership

TERM_NONE = -1
TERM_MAX: Final = 3 << 61
"""A message with a larger term is refused: terms are written as 64 bits, and rise by one from
whatever a peer has. A group that an older version let rise to its own limit, 2^62, goes on.
"""
TERM_LEAP_MAX: Final = 1 << 32
"""The most elections that a member may have missed: one each second for 136 years. A term above
that comes from no election. A member keeps a term for good, so a single such message would use up
most of the terms of its group.
"""
INDEX_NONE = -1


class Role(enum.IntEnum):
    """What a member is in its group, with upstream's ordinals."""

    CANDIDATE = 0
    LEADER = 1
    FOLLOWER = 2


_FORGOTTEN: Final = "an actor of the member has forgotten the session"
ROLE_TRANSITIONS: Final[Mapping[Role, Mapping[Role, str]]] = {
    Role.CANDIDATE: {
        Role.CANDIDATE: "a larger term",
        Role.FOLLOWER: "a heartbeat of the term's leader",
        Role.LEADER: "a quorum of votes",
    },
    Role.FOLLOWER: {
        Role.CANDIDATE: "no heartbeat in time, a larger term, or asked to take over",
        Role.FOLLOWER: _FORGOTTEN,
    },
    Role.LEADER: {
        Role.CANDIDATE: "no quorum in time, a larger term, no room, or handed over",
        Role.LEADER: _FORGOTTEN,
    },
}
"""For each role, the roles that its next session may have, and what leads to each."""


@attrs.frozen(kw_only=True)
class LedgerEnd:
    """The term and the index of a log's last entry; both are -1 if it has none."""

    index: int = INDEX_NONE
    term: int = TERM_NONE


@attrs.frozen(kw_only=True)
class SavedVote:
    """What must be on the disk before a vote, or a term, is sent to any member.

    Attributes:
        term: at least 0; a leader of term 0 is normal.
        voted_for: the member that has this node's vote in the term; "" if nobody has it.
    """

    term: int
    voted_for: str = ""

    def __attrs_post_init__(self) -> None:
        assert self.term >= 0


@attrs.define(kw_only=True)
class MemberState:
    """See the module's text.

    Attributes:
        self_id: this member's name.
        members: all of the group, this one among them, sorted.
        vote: the term and the vote, as they are on the disk.
        leader: the leader of the present term; "" if it is not known.
        session: counts the roles and terms that this process has been in; what belongs to an older
            session is stale.
        end: the end of the own log.
        end_final: whether no write of an earlier session can follow it.
        membership: whether its vote counts by itself. It is FULL once the member has the log of a
            leader; until then it may lack what it acknowledged before a restart.
    """

    self_id: str
    members: tuple[str, ...]
    vote: SavedVote
    role: Role = Role.CANDIDATE
    leader: str = ""
    session: int = 0
    end: LedgerEnd = LedgerEnd()
    end_final: bool = False
    membership: Membership = Membership.FULL

    def __attrs_post_init__(self) -> None:
        assert self.self_id in self.members
        assert len(set(self.members)) == len(self.members)

    @property
    def is_partial(self) -> bool:
        """Whether this member is a provisional voter: its vote counts only if all members vote."""
        return self.membership is not Membership.FULL

    @property
    def term(self) -> int:
        return self.vote.term

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name != self.self_id)

    @property
    def quorum(self) -> int:
        """The number of members that make a majority, with this one counted."""
        return len(self.members) // 2 + 1
