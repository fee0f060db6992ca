"""Leadership that is handed over on purpose: the leader's part and the transferee's.

Source: openmessaging/dledger, DLedgerLeaderElector.java (handleLeadershipTransfer,
handleTakeLeadership, TakeLeadershipTask), 0.3.1.2; specification 4.5. `preferred` has the leader's
own reason to.

Differs from upstream:
- The transferee waits without blocking anything, and a leader that leads no more when the transfer
  fails still answers who asked for it (bug V15; `CompatSettings.transfer_unanswered`).
- The leader stops taking appends first and names the log's end after that, so that nothing is
  appended which the transferee need not have.
- A leader refuses to hand over to itself, as to one that is no member.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.member_state import TERM_MAX, LedgerEnd, MemberState, Role
from actors.dledger.core.settings import ElectionSettings
from wire.dledger_codes import ResponseCode


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
        number: of the request to the transferee, once it is sent.
        deadline_s: it is given up then.
        token: None: nobody asked for it (a preferred leader).
    """

    transferee: str
    token: int | None
    deadline_s: float
    number: int | None = None


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


def refuse_transfer(
    state: MemberState,
    settings: ElectionSettings,
    asked: TransferAsked,
    *,
    watermark: int,
    running: bool,
) -> ResponseCode | None:
    """Why a leader does not hand over; None if it does.

    Args:
        watermark: the highest index that the transferee acknowledged in this term, -1: none.
    """
    if asked.transferee not in state.members or asked.transferee == state.self_id:
        return ResponseCode.UNKNOWN_MEMBER
    if asked.term != state.term:
        return ResponseCode.INCONSISTENT_TERM
    if state.role is not Role.LEADER:
        return ResponseCode.NOT_LEADER
    if state.end.index - watermark >= settings.transfer_lag_max:
        return ResponseCode.FALL_BEHIND_TOO_MUCH
    if running:
        return ResponseCode.LEADER_TRANSFERRING
    return without_a_next_term(state)


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
