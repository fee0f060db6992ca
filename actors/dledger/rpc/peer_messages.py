"""What a member's parts say of its peers, when the node's status is asked for.

Each part answers from what it knows; nothing is kept or counted for the sake of these but the last
error and the last refusal.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.push_effects import DispatcherState
from actors.runtime import ReplyTo


@attrs.frozen(kw_only=True)
class PeerSign:
    """What a member's last votes and heartbeats found a peer to be.

    Attributes:
        silent: the last one had no answer.
        heard_s: when the peer answered last, of Trio's time; None: never, in the maintainer's life.
        refusal: why it refuses this member, for its own configuration; "": it does not.
        joins: by its last vote or heartbeat, its vote counts only with those of all others.
    """

    peer: str
    silent: bool
    heard_s: float | None
    refusal: str
    joins: bool = False


@attrs.frozen(kw_only=True)
class Signs:
    """What a member's election has found out.

    Attributes:
        signs: of the peers that were asked for something, by name.
        unsaved_vote: why it stands still; "": it does not.
        joining: why its vote does not count alone; "": it does.
        full: why its store took no entries when it was last asked to; "": it took them.
    """

    signs: tuple[PeerSign, ...]
    unsaved_vote: str = ""
    joining: str = ""
    full: str = ""


@attrs.frozen(kw_only=True)
class GetSigns:
    """Asks the state maintainer for the peers' signs."""

    reply_to: ReplyTo[Signs]


@attrs.frozen(kw_only=True)
class Progress:
    """How far a dispatcher knows its peer to be.

    Attributes:
        leading: this member leads; else the rest says nothing.
        matched: the peer holds the log up to there; -1: nothing known, or nothing held.
        lag: entries that the leader had at this moment above `matched`; None: nothing is known.
        refusal: what the peer does not take; "": it takes all.
    """

    leading: bool
    state: DispatcherState
    matched: int
    lag: int | None
    refusal: str


@attrs.frozen(kw_only=True)
class GetProgress:
    """Asks an entry dispatcher how far its peer is."""

    reply_to: ReplyTo[Progress]


@attrs.frozen(kw_only=True)
class Link:
    """A connection to a peer.

    Attributes:
        error: why the last call without an answer had none; "": all had one.
    """

    connected: bool
    error: str


@attrs.frozen(kw_only=True)
class GetLink:
    """To a peer's connection."""

    reply_to: ReplyTo[Link]


@attrs.frozen(kw_only=True)
class Taking:
    """What a follower makes of its leader's entries.

    Attributes:
        refusal: why its store cannot take them, in this session; "": it can.
    """

    refusal: str


@attrs.frozen(kw_only=True)
class GetTaking:
    """Asks the entry handler whether it takes entries."""

    reply_to: ReplyTo[Taking]
