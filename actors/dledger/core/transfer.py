"""The transfer of the leadership on purpose: the leader's part and the transferee's.

Source: openmessaging/dledger, DLedgerLeaderElector.java (handleLeadershipTransfer,
handleTakeLeadership, TakeLeadershipTask), 0.3.1.2; dledger.md 4.5. `preferred` has the leader's
own reason to.

Differs from upstream:
- The transferee waits without blocking anything, and a leader that was deposed before the transfer
  failed still answers the request for it (bug V15; `CompatSettings.transfer_unanswered`).
- The leader stops taking appends first and then names the log's end, so that nothing is appended
  which the transferee need not have.
- A leader refuses to hand over to itself, as to a node that is no member.
- It also refuses where the transferee could not be elected, because too many others are down or are
  provisional voters. Once no append is taken, a round of heartbeats asks all members again, and
  only then is the transferee sent its request. Known gap: a member may end, or lose its disk, right
  after that round. Nothing shows that a Java member has lost its log, so its vote counts.
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
    """A request to hand the leadership over, or to take it over.

    Attributes:
        token: stands in the answer.
        transferer: the member that leads, as the sender believes (`transferId`).
        transferee: the member that has to lead next (`transfereeId`).
        term: the sender's term.
        index: the index that the transferee's log has to reach (`takeLeadershipLedgerIndex`).
    """

    token: int
    transferer: str
    transferee: str
    term: int
    index: int = 0


@attrs.define(kw_only=True)
class TransferOut:
    """A transfer that a leader carries out.

    Attributes:
        beats: the round of heartbeats that has to show that the transferee may be elected.
        end: the log's last entry, once no append is taken.
        number, term: those of the request to the transferee, once it is sent.
        deadline_s: when the transfer has failed.
        token: names the request for it; None if the leader began it itself, for a preferred leader.
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
        index: the index that the own log has to reach first; None once it has.
        term: the term to lead in.
        deadline_s: the end of the wait for `index`, then of the campaign.
    """

    token: int
    term: int
    index: int | None
    deadline_s: float


@attrs.define
class PeersHeard:
    """What a leader knows of its peers by their answers to heartbeats, since it leads.

    Attributes:
        silent: the peers whose last heartbeat failed.
    """

    silent: set[str] = attrs.field(factory=set, init=False)
    _votes: dict[str, tuple[int, bool]] = attrs.field(factory=dict, init=False)

    def answered(self, peer: str, number: int, code: ResponseCode, *, joins: bool) -> None:
        """Note an answer to the round of this number. For `joins` see `HeartbeatAnswer`."""
        if code is ResponseCode.NETWORK_ERROR:
            self.silent.add(peer)
            self._votes.pop(peer, None)
            return
        self.silent.discard(peer)
        if code is ResponseCode.SUCCESS:
            last, _ = self._votes.get(peer, (number, joins))
            self._votes[peer] = max(number, last), joins

    def alive(self, peers: Iterable[str]) -> frozenset[str]:
        """Return the peers whose last heartbeat did not fail."""
        return frozenset(peers) - self.silent

    def voters(self, since: int) -> tuple[frozenset[str], frozenset[str]]:
        """Return the followers whose votes count by themselves, and the provisional voters.

        Args:
            since: as in `may_be_elected`.
        """
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
    """Return the code with which a leader refuses to hand over; None if it does hand over.

    Args:
        watermarks: by peer, the highest index that it acknowledged in this term; a peer without
            one has acknowledged nothing.
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
    """Return the peers that lag few enough entries to take the leadership over."""
    last, lag_max = state.end.index, settings.transfer_lag_max
    lags = {name: last - watermarks.get(name, INDEX_NONE) for name in state.peers}
    return frozenset(name for name, lag in lags.items() if lag < lag_max)


def may_be_elected(state: MemberState, transferee: str, heard: PeersHeard, since: int = 0) -> bool:
    """Return whether the transferee can be elected, by what is known of the members' votes.

    Without enough votes that count by themselves no member could be elected, not even the present
    leader again; and a provisional voter can catch up only while there is a leader.

    Args:
        since: only members count that answered the round of heartbeats of that number or a later
            one.
    """
    full, joining = heard.voters(since)
    everybody = full | joining | {state.self_id, transferee}
    if transferee not in joining or state.end.index >= 0:  # it waits until its vote counts
        full |= {transferee}
    return len(full | {state.self_id}) >= state.quorum or len(everybody) == len(state.members)


def refuse_take_over(state: MemberState, asked: TransferAsked) -> ResponseCode | None:
    """Return the code with which a transferee refuses at once; None if it does not refuse."""
    if asked.transferer != state.leader or state.role is not Role.FOLLOWER:
        return ResponseCode.INCONSISTENT_LEADER
    if asked.term != state.term:
        return ResponseCode.INCONSISTENT_TERM
    return without_a_next_term(state)


def without_a_next_term(state: MemberState) -> ResponseCode | None:
    """Return the refusal if the next term would be above TERM_MAX, which no member accepts; or
    None.
    """
    return ResponseCode.TAKE_LEADERSHIP_FAILED if state.term >= TERM_MAX else None


def take_over_code(state: MemberState, term: int) -> ResponseCode | None:
    """Return the result of the transferee's campaign in `term`; None while it goes on."""
    if state.term > term:
        return ResponseCode.EXPIRED_TERM
    if state.role is Role.LEADER and state.term == term:
        return ResponseCode.SUCCESS
    if state.role is Role.FOLLOWER:
        return ResponseCode.TAKE_LEADERSHIP_FAILED
    return None


def reached(end: LedgerEnd, index: int) -> bool:
    """Return whether a log that ends at `end` has the entry `index`."""
    return end.index >= index
