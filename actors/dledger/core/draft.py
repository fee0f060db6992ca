"""The effects of one input to an election while it is worked on."""

from __future__ import annotations

import attrs

from actors.dledger.core.election_effects import (
    AskVotes,
    Effects,
    HeartbeatAnswer,
    RoleChanged,
    SendHeartbeats,
    SendTransfer,
    TransferAnswer,
)
from actors.dledger.core.leader_proof import Proven
from actors.dledger.core.member_state import SavedVote
from actors.dledger.core.votes import VoteAnswer


@attrs.define(kw_only=True)
class Draft:
    """See `Effects`, whose fields these are."""

    persist: SavedVote | None = None
    role: RoleChanged | None = None
    hold_appends: bool | None = None
    vote: VoteAnswer | None = None
    heartbeat: HeartbeatAnswer | None = None
    transfers: list[TransferAnswer] = attrs.field(factory=list)
    proven: list[Proven] = attrs.field(factory=list)
    ask_votes: AskVotes | None = None
    send_heartbeats: SendHeartbeats | None = None
    send_transfer: SendTransfer | None = None
    joined: bool = False
    events: list[object] = attrs.field(factory=list)

    def effects(self, deadline_s: float | None) -> Effects:
        """What they have come to."""
        return Effects(
            persist=self.persist,
            role=self.role,
            hold_appends=self.hold_appends if self.role is None else None,
            vote=self.vote,
            heartbeat=self.heartbeat,
            transfers=tuple(self.transfers),
            proven=tuple(self.proven),
            ask_votes=self.ask_votes,
            send_heartbeats=self.send_heartbeats,
            send_transfer=self.send_transfer,
            joined=self.joined,
            events=tuple(self.events),
            deadline_s=deadline_s,
        )
