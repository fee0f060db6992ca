"""The effects of `election` and `transfer`: what its actor has to do."""

from __future__ import annotations

import attrs

from actors.dledger.core.leader_proof import Proven
from actors.dledger.core.member_state import LedgerEnd, Role, SavedVote
from actors.dledger.core.votes import VoteAnswer
from wire.dledger.codes import ResponseCode


@attrs.frozen(kw_only=True)
class RoleChanged:
    """The role by which all other actors of the member act from now on.

    Attributes:
        session: higher than every earlier one; messages with an older one are refused.
        leader: the leader of `term`, this member itself while it leads; "" if it is not known.
    """

    session: int
    role: Role
    term: int
    leader: str


@attrs.frozen(kw_only=True)
class AskVotes:
    """Ask every peer for its vote. Each answer comes back with `number`."""

    number: int
    term: int
    end: LedgerEnd


@attrs.frozen(kw_only=True)
class SendHeartbeats:
    """Send a heartbeat to every peer. Each answer comes back with `number`."""

    number: int
    term: int


@attrs.frozen(kw_only=True)
class HeartbeatAnswer:
    """The answer to a heartbeat.

    Attributes:
        term: the answering member's own term with a code that says so; else -1.
        joins: whether the answering member follows and is a provisional voter, whose vote counts
            only if all members vote.
    """

    code: ResponseCode
    term: int = -1
    joins: bool = False


@attrs.frozen(kw_only=True)
class TransferAnswer:
    """The answer to the transfer request with this token."""

    token: int
    code: ResponseCode
    term: int


@attrs.frozen(kw_only=True)
class SendTransfer:
    """Ask the transferee to take over once its log reaches `index`; answered with `number`."""

    number: int
    transferee: str
    term: int
    index: int


@attrs.frozen(kw_only=True)
class Effects:
    """What the actor has to do after one input, in the order of the fields.

    Attributes:
        persist: the vote that has to be on the disk before anything else happens.
        role: the new role, to be sent to all actors of the member. The store refuses older sessions
            from then on, and reports the end of its log for this one (`Election.fenced`).
        hold_appends: True: take no appends from clients, and report the log's end then
            (`Election.held`); False: take them again.
        vote: the answer to the vote request that was the input.
        heartbeat: the answer to the heartbeat that was the input.
        transfers: answers to transfer requests.
        proven: answers to `Election.proof_requested`.
        ask_votes, send_heartbeats, send_transfer: requests to send.
        joined: whether this member's vote counts by itself from now on, to be saved for its next
            start.
        events: the events to emit.
        deadline_s: when to call `tick`; never later than any earlier one that is still due.
    """

    persist: SavedVote | None = None
    role: RoleChanged | None = None
    hold_appends: bool | None = None
    vote: VoteAnswer | None = None
    heartbeat: HeartbeatAnswer | None = None
    transfers: tuple[TransferAnswer, ...] = ()
    proven: tuple[Proven, ...] = ()
    ask_votes: AskVotes | None = None
    send_heartbeats: SendHeartbeats | None = None
    send_transfer: SendTransfer | None = None
    joined: bool = False
    events: tuple[object, ...] = ()
    deadline_s: float | None = None

    @property
    def idle(self) -> bool:
        """Whether they ask for nothing but the next `tick`."""
        return attrs.evolve(self, deadline_s=None) == _NOTHING


_NOTHING = Effects()
