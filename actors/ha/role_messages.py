"""The messages of the role keeper and their answers.

They are written with the module's name: `role_messages.HighWater` and so on.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.errors import TriologError
from actors.log_types import Claim, GroupState
from actors.runtime import ReplyTo
from actors.storage.commitlog.store_messages import StoreStarted
from actors.storage.files.room import OpeningWaits
from actors.storage.scrub.scrubber_messages import CopyState

HIGH_WATER_S = 1.0
"""The least time between two HighWater messages, in seconds: for each the identity file is written
and synced.
"""


@attrs.frozen(kw_only=True)
class HighWater:
    """This node has acknowledged to a producer, or reported to its master, all up to here."""

    offset_bytes: int


@attrs.frozen(kw_only=True)
class Verified:
    """The answer to Verify.

    Attributes:
        fits: whether the log may follow this master.
        detail: for people: why it may not.
        whole_at_bytes: the offset whose HighWater, sent at once, makes the log count again; None if
            it counts now.
    """

    fits: bool
    detail: str = ""
    whole_at_bytes: int | None = None


class NotCompared(TriologError):
    """An answer to Verify: the logs could not be compared; a later attempt may."""


@attrs.frozen(kw_only=True)
class Verify:
    """Ask whether a slave may report over its connection to its master.

    Answered once the master has reported enough about its own log.

    Attributes:
        session: the connection's session; a later one replaces it.
        end_bytes: the end of the own log, with nothing of an earlier session under way.
        synced_bytes: how much of it is on the disk: nothing beyond may be reported to the master.
    """

    session: int
    end_bytes: int
    synced_bytes: int
    reply_to: ReplyTo[Verified]


@attrs.frozen(kw_only=True)
class MasterLeft:
    """The connection of that session to the master has ended."""

    session: int


@attrs.frozen(kw_only=True)
class MemberReported:
    """The role authority reports what a member is in the group.

    Attributes:
        asked: the number of the question that this answers; 0 if it was not asked for.
    """

    member: str
    state: GroupState
    asked: int = 0


@attrs.frozen(kw_only=True)
class Fresh:
    """The answer to AskFresh.

    A read that shows all below `offset_bytes` has missed nothing that was acknowledged before. On
    the master, a read of what it shows itself has not either.

    Attributes:
        refused: why the offset is unknown; "" if it is known.
    """

    offset_bytes: int
    refused: str = ""


@attrs.frozen(kw_only=True)
class AskFresh:
    """Ask up to where a read is fresh here, see `core.freshness`.

    Answered at `deadline_s` at the latest.
    """

    deadline_s: float
    reply_to: ReplyTo[Fresh]


@attrs.frozen(kw_only=True)
class ReportedAhead:
    """A slave that cannot be asked (a Java broker) reported more than this log holds."""

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
        number: the promotion by which its master acts.
    """

    number: int
    cut_bytes: int
    reply_to: ReplyTo[Done]


@attrs.frozen(kw_only=True)
class Done:
    """A request was carried out, or refused.

    Attributes:
        refused: why it was refused; "" if it was not.
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
