"""What a member of a group is: its role, its term and vote, its leader, the end of its log.

Source: openmessaging/dledger, MemberState.java 0.3.1.2; dledger.md 1 and 4.1.

Differs from upstream:
- It has one owner, the state maintainer. Others hold copies that came with a session's number, and
  what they do for an older session is refused by the store.
- A candidate votes and campaigns by the end of a log that cannot grow any more: the store was
  fenced, and said its end, in this session (`end_final`).
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from actors.log_types import Membership

TERM_NONE = -1
TERM_MAX: Final = 3 << 61
"""A message of a larger term is refused: terms are written as 64 bits, and rise by one from
whatever a peer says. A group that an older version let come to its own end, 2^62, goes on."""
TERM_LEAP_MAX: Final = 1 << 32
"""Elections that a member may have missed: one each second for 136 years. A later term is no
group's, and is kept for good by who takes it: a single message would leave few to all of them."""
INDEX_NONE = -1


class Role(enum.IntEnum):
    """Upstream's ordinals."""

    CANDIDATE = 0
    LEADER = 1
    FOLLOWER = 2


@attrs.frozen(kw_only=True)
class LedgerEnd:
    """The last entry of a log; both are -1 if it has none."""

    index: int = INDEX_NONE
    term: int = TERM_NONE


@attrs.frozen(kw_only=True)
class SavedVote:
    """What must be on the disk before a vote, or a term, is told to anybody.

    Attributes:
        term: from 0 on; a leader of term 0 is normal.
        voted_for: the member that has this node's vote in the term; "" if nobody has.
    """

    term: int
    voted_for: str = ""

    def __attrs_post_init__(self) -> None:
        assert self.term >= 0


@attrs.define(kw_only=True)
class MemberState:
    """See the module's text.

    Attributes:
        self_id: this member.
        members: all of the group, this one among them, sorted.
        vote: as remembered on the disk.
        leader: of the present term as far as known; "" otherwise.
        session: counts the roles and terms that this process has been in; what belongs to an older
            one is stale.
        end: of the own log.
        end_final: no write of an earlier session can follow it.
        membership: whether its vote counts. FULL again, or for the first time, once it has the log
            of a leader; until then it may not hold what it has acknowledged in an earlier life.
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
        """Its vote counts only with those of all others."""
        return self.membership is not Membership.FULL

    @property
    def term(self) -> int:
        return self.vote.term

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name != self.self_id)

    @property
    def quorum(self) -> int:
        """Members that make a decision, this one counted."""
        return len(self.members) // 2 + 1
