"""The messages between state_machine_caller and the other actors of a member."""

from __future__ import annotations

import attrs

from actors.errors import TriologError
from actors.runtime import ReplyTo
from actors.storage.ledger.snapshots import Snapshot


class NoSnapshot(TriologError):
    """This member has no whole snapshot."""


@attrs.frozen(kw_only=True)
class GetSnapshot:
    """Ask for the newest snapshot. Answered with Snapshot; fails with NoSnapshot.

    The snapshot is kept, and the log from its index on, until `holder` releases it.

    Attributes:
        holder: the path of the actor that asks; it holds one snapshot at a time.
    """

    holder: str
    reply_to: ReplyTo[Snapshot]


@attrs.frozen(kw_only=True)
class ReleaseSnapshot:
    """The snapshot that `holder` held need not be kept for it any more."""

    holder: str


@attrs.frozen(kw_only=True)
class MachineAt:
    """The state machine has all entries up to `index`, whether the log holds them or not.

    The entry handler takes it.
    """

    index: int
