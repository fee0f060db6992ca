"""Leadership that is handed over on purpose: the leader's part and the transferee's.

Source: openmessaging/dledger, DLedgerLeaderElector.java (handleLeadershipTransfer,
handleTakeLeadership, TakeLeadershipTask), 0.3.1.2; dledger.md 4.5. `preferred` has the leader's
own reason to.

Differs from upstream:
- The transferee waits without blocking anything, and a leader that leads no more when the transfer
  fails still answers who asked for it (bug V15; `CompatSettings.transfer_unanswered`).
- The leader stops taking appends first and names the log's end after that, so that nothing is
  appended which the transferee need not have.
- A leader refuses to hand over to itself, as to one that is no member.
- So it does where the transferee could not be elected, for too many others are down, or have votes
  that count only with all others'. Once no append is taken a round of heartbeats asks again, and
  only then is the transferee told: what is left is who ends, or loses its disk, in the moment
  between. Of a Java member nothing says that it has lost its log; its vote counts all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from actors.dledger.core.member_state import (
    INDEX_NONE,
    TERM_MAX,
    TERM_NONE,
    LedgerEnd,
    MemberState,
    Role,
)
from actors.dledger.core.settings import ElectionSettings
from wire.dledger.codes import ResponseCode


@attrs.frozen(kw_only=True)
class TransferAsked:
    """A request to hand leadership over.

    Attributes:
        token: names the request in its answer.
        transferer: who leads, as the sender believes (`transferId`).
        transferee: who is to lead (`transfereeId`).
        term: the sender's.
        index: what the transferee's log has to reach (`takeLeadershipLedgerIndex`).
    """

    token: int
    transferer: str
    transferee: str
    term: int
    index: int = 0


@attrs.define(kw_only=True)
class TransferOut:
    """A leader's transfer that runs.

    Attributes:
        beats: the round of heartbeats that is to show that the transferee may be elected.
        end: of the log, once no append is taken.
        number, term: of the request to the transferee, once it is sent.
        deadline_s: it is given up then.
        token: None: nobody asked for it (a preferred leader).
    """

    transferee: str
    token: int | None
    deadline_s: float
    beats: int
    end: LedgerEnd | None = None
    number: int | None = None
    term: int = TERM_NONE


@attrs.define(kw_only=True)
class TakeOver:
    """A transferee's part in a transfer.

    Attributes:
        index: the own log has to reach it first; None once it has.
        term: the one to lead in.
        deadline_s: of the wait for `index`, then of the campaign.
    """

    token: int
    term: int
    index: int | None
    deadline_s: float


@attrs.define
class PeersHeard:
    """What the answers to a leader's heartbeats say of its peers, since it leads.

    Attributes:
        silent: whose last one failed.
    """

    silent: set[str] = attrs.field(factory=set, init=False)
    _votes: dict[str, tuple[int, bool]] = attrs.field(factory=dict, init=False)

    def answered(self, peer: str, number: int, code: ResponseCode, *, joins: bool) -> None:
        """An answer to the round of this number. `joins`: see `HeartbeatAnswer`."""
        if code is ResponseCode.NETWORK_ERROR:
            self.silent.add(peer)
            self._votes.pop(peer, None)
            return
        self.silent.discard(peer)
        if code is ResponseCode.SUCCESS:
            last, _ = self._votes.get(peer, (number, joins))
            self._votes[peer] = max(number, last), joins

    def alive(self, peers: Iterable[str]) -> frozenset[str]:
        """Those that are not known to be silent."""
        return frozenset(peers) - self.silent

    def voters(self, since: int) -> tuple[frozenset[str], frozenset[str]]:
        """The followers: with a vote that counts, and without. `since`: see `may_be_elected`."""
        known = [(peer, joins) for peer, (number, joins) in self._votes.items() if number >= since]
        full = frozenset(peer for peer, joins in known if not joins)
        return full, frozenset(peer for peer, joins in known if joins)


def refuse_transfer(
    state: MemberState,
    settings: ElectionSettings,
    asked: TransferAsked,
    *,
    watermarks: Mapping[str, int],
    heard: PeersHeard,
    running: bool,
) -> ResponseCode | None:
    """Why a leader does not hand over; None if it does.

    Args:
        watermarks: the highest index that each peer acknowledged in this term; missing: none.
    """
    if asked.transferee not in state.members or asked.transferee == state.self_id:
        return ResponseCode.UNKNOWN_MEMBER
    if asked.term != state.term:
        return ResponseCode.INCONSISTENT_TERM
    if state.role is not Role.LEADER:
        return ResponseCode.NOT_LEADER
    near = asked.transferee in peers_near(state, settings, watermarks)
    if not near or not may_be_elected(state, asked.transferee, heard):
        return ResponseCode.FALL_BEHIND_TOO_MUCH
    if running:
        return ResponseCode.LEADER_TRANSFERRING
    return without_a_next_term(state)


def peers_near(
    state: MemberState, settings: ElectionSettings, watermarks: Mapping[str, int]
) -> frozenset[str]:
    """The peers that are so few entries behind that leadership may go over."""
    last, lag_max = state.end.index, settings.transfer_lag_max
    lags = {name: last - watermarks.get(name, INDEX_NONE) for name in state.peers}
    return frozenset(name for name, lag in lags.items() if lag < lag_max)


def may_be_elected(state: MemberState, transferee: str, heard: PeersHeard, since: int = 0) -> bool:
    """Whether the transferee can be elected, by all that is known of the members' votes.

    With too few votes that count by themselves no member would be elected, nor the leader once
    more; and a member that joins can catch up only with a leader.

    Args:
        since: a member counts if it answered the round of heartbeats of that number or a later one.
    """
    full, joining = heard.voters(since)
    everybody = full | joining | {state.self_id, transferee}
    if transferee not in joining or state.end.index >= 0:  # it waits until its vote counts
        full |= {transferee}
    return len(full | {state.self_id}) >= state.quorum or len(everybody) == len(state.members)


def refuse_take_over(state: MemberState, asked: TransferAsked) -> ResponseCode | None:
    """Why a transferee does not even wait; None if it does."""
    if asked.transferer != state.leader or state.role is not Role.FOLLOWER:
        return ResponseCode.INCONSISTENT_LEADER
    if asked.term != state.term:
        return ResponseCode.INCONSISTENT_TERM
    return without_a_next_term(state)


def without_a_next_term(state: MemberState) -> ResponseCode | None:
    """Leadership goes over in the next term; nobody would hear a member of one above TERM_MAX."""
    return ResponseCode.TAKE_LEADERSHIP_FAILED if state.term >= TERM_MAX else None


def take_over_code(state: MemberState, term: int) -> ResponseCode | None:
    """What became of a transferee that campaigns in `term`; None: it still does."""
    if state.term > term:
        return ResponseCode.EXPIRED_TERM
    if state.role is Role.LEADER and state.term == term:
        return ResponseCode.SUCCESS
    if state.role is Role.FOLLOWER:
        return ResponseCode.TAKE_LEADERSHIP_FAILED
    return None


def reached(end: LedgerEnd, index: int) -> bool:
    """Whether a transferee's log has all that it needs."""
    return end.index >= index
