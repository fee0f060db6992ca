"""The messages by which a node's status asks a member's actors about its peers, and their answers.

Each actor answers from what it knows; nothing is kept for these messages but the last error and the
last refusal.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.push_effects import DispatcherState
from actors.runtime import ReplyTo


@attrs.frozen(kw_only=True)
class PeerSign:
    """What the last votes and heartbeats have shown of a peer.

    Attributes:
        silent: whether the last one had no answer.
        heard_s: when the peer answered last, in Trio time; None: never, in this incarnation of the
            maintainer.
        refusal: why it refuses this member because of its own configuration; "" if it does not.
        joins: whether it is a provisional voter, by its last vote or heartbeat.
    """

    peer: str
    silent: bool
    heard_s: float | None
    refusal: str
    joins: bool = False


@attrs.frozen(kw_only=True)
class Signs:
    """The answer to GetSigns: what a member's election has found out.

    Attributes:
        signs: the signs of the peers that were asked for something, ordered by name.
        unsaved_vote: why the election stands still, as a vote cannot be saved; "" if it does not.
        joining: why this member's vote counts only if all vote; "" if it counts by itself.
        full: why the store refused entries when it was last given some; "" if it took them.
    """

    signs: tuple[PeerSign, ...]
    unsaved_vote: str = ""
    joining: str = ""
    full: str = ""


@attrs.frozen(kw_only=True)
class GetSigns:
    """Ask the state maintainer for the peers' signs."""

    reply_to: ReplyTo[Signs]


@attrs.frozen(kw_only=True)
class Progress:
    """The answer to GetProgress: how far a dispatcher knows its peer to be.

    Attributes:
        leading: whether this member leads; if not, the other fields mean nothing.
        matched: the index up to which the peer holds the log; -1 if it holds nothing, or nothing is
            known.
        lag: how many entries the leader has above `matched`; None if nothing is known.
        refusal: what the peer does not take; "" if it takes all.
    """

    leading: bool
    state: DispatcherState
    matched: int
    lag: int | None
    refusal: str


@attrs.frozen(kw_only=True)
class GetProgress:
    """Ask an entry dispatcher how far its peer is."""

    reply_to: ReplyTo[Progress]


@attrs.frozen(kw_only=True)
class Link:
    """The answer to GetLink: the state of a connection to a peer.

    Attributes:
        error: why the last call without an answer had none; "" if all had one.
    """

    connected: bool
    error: str


@attrs.frozen(kw_only=True)
class GetLink:
    """Ask for the state of a connection to a peer."""

    reply_to: ReplyTo[Link]


@attrs.frozen(kw_only=True)
class Taking:
    """The answer to GetTaking: whether a follower takes its leader's entries.

    Attributes:
        refusal: why its store cannot take them, in this session; "" if it can.
    """

    refusal: str


@attrs.frozen(kw_only=True)
class GetTaking:
    """Ask the entry handler whether it takes entries."""

    reply_to: ReplyTo[Taking]
