"""What the role keeper takes and answers; import them as `role_messages.HighWater` and so on."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.log_types import Claim, GroupState
from actors.runtime import ReplyTo
from actors.storage.commitlog.store_messages import StoreStarted
from actors.storage.files.room import OpeningWaits
from actors.storage.scrub.scrubber_messages import CopyState

HIGH_WATER_S = 1.0
"""The actor that acknowledges or reports tells the keeper at most so often: each time the identity
is written and synced.
"""


@attrs.frozen(kw_only=True)
class HighWater:
    """This node has acknowledged to a producer, or reported to its master, up to here."""

    offset_bytes: int


@attrs.frozen(kw_only=True)
class Verified:
    """The answer to Verify.

    Attributes:
        fits: the log may follow this master.
        detail: why it may not, for people.
        whole_at_bytes: with HighWater of this, at once, the log counts again; None: it does.
    """

    fits: bool
    detail: str = ""
    whole_at_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Verify:
    """A slave has a connection to its master: may it report? Answered once the master said enough.

    Attributes:
        session: of the connection; a later one replaces it.
        end_bytes: of the own log, with nothing of an earlier session under way.
    """

    session: int
    end_bytes: int
    reply_to: ReplyTo[Verified]


@attrs.frozen(kw_only=True)
class MasterLeft:
    """The connection of that session has ended."""

    session: int


@attrs.frozen(kw_only=True)
class MemberReported:
    """The role authority: what a member is in the group.

    Attributes:
        asked: number of the question that this answers; 0: nobody asked.
    """

    member: str
    state: GroupState
    asked: int = 0


@attrs.frozen(kw_only=True)
class Fresh:
    """The answer to AskFresh: a read that shows all below `offset_bytes` has missed nothing that
    was acknowledged before; on the master, one of what it shows itself has not either.

    Attributes:
        refused: why nobody knows, "" if one does.
    """

    offset_bytes: int
    refused: str = ""


@attrs.frozen(kw_only=True)
class AskFresh:
    """Up to where is a read fresh here? Answered at `deadline_s` at the latest. See
    `core.freshness`.
    """

    deadline_s: float
    reply_to: ReplyTo[Fresh]


@attrs.frozen(kw_only=True)
class ReportedAhead:
    """A slave whose log cannot be asked for (a Java broker) reported more than this log holds."""

    slave: str
    offset_bytes: int


@attrs.frozen(kw_only=True)
class Fence:
    """See `NodeHandle.fence`. Answered when the store knows."""

    claim: Claim
    on: bool
    reply_to: ReplyTo[Done]


@attrs.frozen(kw_only=True)
class Record:
    """See `NodeHandle.record`. Answered when the group's tree acts by it, or waits for room."""

    number: int
    master: str
    token: int
    force: bool
    reply_to: ReplyTo[Done]


@attrs.frozen(kw_only=True)
class Resync:
    """Set aside what this slave's log has beyond `cut_bytes`; answered when it has opened again.

    Attributes:
        number: of the promotion that its master acts by.
    """

    number: int
    cut_bytes: int
    reply_to: ReplyTo[Done]


@attrs.frozen(kw_only=True)
class Done:
    """A request was carried out, or refused.

    Attributes:
        refused: why, "" if it was not.
    """

    refused: str = ""


Message: TypeAlias = (
    HighWater
    | Verify
    | MasterLeft
    | MemberReported
    | AskFresh
    | ReportedAhead
    | Fence
    | Record
    | Resync
    | StoreStarted
    | CopyState
    | OpeningWaits
)
