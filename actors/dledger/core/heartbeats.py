"""A leader's rounds of heartbeats, and a member's answer to a heartbeat.

Source: openmessaging/dledger, DLedgerLeaderElector.java (sendHeartbeats, handleHeartBeat), 0.3.1.2;
dledger.md 4.4.

Differs from upstream:
- A larger term in any answer ends the leadership, also when a quorum is happy (bug V1: a member
  that raised its term alone could never come back; `CompatSettings.quorum_hides_terms`).
- The clock of the last quorum starts at the election, not at -1: a new leader whose first round
  fails goes on until the leak.
- A round is judged as soon as each answer comes; nothing waits for the slowest.
"""

from __future__ import annotations

import enum

import attrs

from actors.dledger.core.member_state import MemberState, Role
from wire.dledger.codes import ResponseCode


class Heard(enum.Enum):
    """What a heartbeat makes of the member that got it."""

    NOTHING = enum.auto()
    FOLLOW = enum.auto()  # the sender, from now on
    REFRESH = enum.auto()  # it is followed already
    RAISE = enum.auto()  # become a candidate of its term; the next heartbeat is followed


@attrs.frozen(kw_only=True)
class HeartbeatVerdict:
    """How a member answers a heartbeat.

    Attributes:
        heard: what the heartbeat makes of the member.
        term: the member's own, in refusals that carry it; else -1.
    """

    heard: Heard
    code: ResponseCode
    term: int = -1


def judge_heartbeat(state: MemberState, leader: str, term: int) -> HeartbeatVerdict:
    """Judge a heartbeat on the receiver's side, as in dledger.md 4.4."""
    if leader not in state.members:
        code = ResponseCode.UNKNOWN_MEMBER
        return HeartbeatVerdict(heard=Heard.NOTHING, code=code, term=state.term)
    if leader == state.self_id:
        code = ResponseCode.UNEXPECTED_MEMBER
        return HeartbeatVerdict(heard=Heard.NOTHING, code=code, term=state.term)
    if term < state.term:
        code = ResponseCode.EXPIRED_TERM
        return HeartbeatVerdict(heard=Heard.NOTHING, code=code, term=state.term)
    if term > state.term:
        return HeartbeatVerdict(heard=Heard.RAISE, code=ResponseCode.TERM_NOT_READY)
    if state.role is Role.FOLLOWER and state.leader == leader:
        return HeartbeatVerdict(heard=Heard.REFRESH, code=ResponseCode.SUCCESS)
    if not state.leader:
        return HeartbeatVerdict(heard=Heard.FOLLOW, code=ResponseCode.SUCCESS)
    return HeartbeatVerdict(heard=Heard.NOTHING, code=ResponseCode.INCONSISTENT_LEADER)


class RoundOutcome(enum.Enum):
    """What the answers so far mean for a leader."""

    OPEN = enum.auto()
    QUORUM = enum.auto()  # it still leads
    AGAIN = enum.auto()  # a quorum will follow as soon as it has raised its term
    OTHER_LEADER = enum.auto()  # of the same term, and no quorum: upstream becomes a candidate


@attrs.define(kw_only=True)
class HeartbeatRound:
    """Counts the answers to one round of heartbeats. The caller deals with larger terms in them.

    Attributes:
        number: stands in the answers; one with another number is not of this round.
        peers: how many were asked.
        sent_s: when the round was sent. A quorum's confirmation is as old as this, not as the
            answers.
        term_max: the largest term in the answers; -1 if none had any.
    """

    number: int
    peers: int
    quorum: int
    sent_s: float
    term_max: int = attrs.field(default=-1, init=False)
    _answers: dict[str, ResponseCode] = attrs.field(factory=dict, init=False)

    def answered(self, peer: str, code: ResponseCode, term: int = -1) -> RoundOutcome:
        """Count one peer's answer; NETWORK_ERROR if no answer can come any more."""
        self._answers.setdefault(peer, code)
        self.term_max = max(self.term_max, term)
        return self.outcome

    @property
    def all_answered(self) -> bool:
        return len(self._answers) == self.peers

    def _count(self, *codes: ResponseCode) -> int:
        return sum(code in codes for code in self._answers.values())

    @property
    def outcome(self) -> RoundOutcome:
        """The result of the counts, in which this member is one of the successes."""
        successes = 1 + self._count(ResponseCode.SUCCESS)
        if successes >= self.quorum:
            return RoundOutcome.QUORUM
        if successes + self._count(ResponseCode.TERM_NOT_READY) >= self.quorum:
            return RoundOutcome.AGAIN
        if self.all_answered and self._count(ResponseCode.INCONSISTENT_LEADER):
            return RoundOutcome.OTHER_LEADER
        return RoundOutcome.OPEN
