"""What `election` and `transfer` ask for."""

from __future__ import annotations

import attrs

from actors.dledger.core.leader_proof import Proven
from actors.dledger.core.member_state import LedgerEnd, Role, SavedVote
from actors.dledger.core.votes import VoteAnswer
from wire.dledger.codes import ResponseCode


@attrs.frozen(kw_only=True)
class RoleChanged:
    """What all other parts of the member act by from now on.

    Attributes:
        session: higher than every earlier one; what carries an older one is refused.
        leader: of `term` as far as known, "" otherwise; this member itself while it leads.
    """

    session: int
    role: Role
    term: int
    leader: str


@attrs.frozen(kw_only=True)
class AskVotes:
    """A request to every peer. An answer comes back with `number`."""

    number: int
    term: int
    end: LedgerEnd


@attrs.frozen(kw_only=True)
class SendHeartbeats:
    """Send a heartbeat to every peer. An answer comes back with `number`."""

    number: int
    term: int


@attrs.frozen(kw_only=True)
class HeartbeatAnswer:
    """`term` is -1 unless the code makes it the answerer's own.

    Attributes:
        joins: the answerer follows, and its vote counts only with those of all others.
    """

    code: ResponseCode
    term: int = -1
    joins: bool = False


@attrs.frozen(kw_only=True)
class TransferAnswer:
    """The answer to a transfer request that was given this token."""

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
    """What one input asks for, to be done in the order of the fields.

    Attributes:
        persist: to be on the disk before anything else happens.
        role: to be told to all parts; the store refuses older sessions, and says the end of its log
            for this one (`Election.fenced`).
        hold_appends: True: take no appends from clients and say the log's end then
            (`Election.held`); False: take them again.
        vote: the answer to the vote request that was the input.
        heartbeat: the answer to the heartbeat that was the input.
        transfers: answers to transfer requests.
        proven: answers to `Election.proof_requested`.
        ask_votes, send_heartbeats, send_transfer: requests.
        joined: its vote counts from now on; to be noted for its next life.
        events: to emit.
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
        """They ask for nothing but a look at the clock."""
        return attrs.evolve(self, deadline_s=None) == _NOTHING


_NOTHING = Effects()
