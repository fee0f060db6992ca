"""What state_machine_caller and the other parts of a member tell each other."""

from __future__ import annotations

import attrs

from actors.errors import TriologError
from actors.runtime import ReplyTo
from actors.storage.ledger.snapshots import Snapshot


class NoSnapshot(TriologError):
    """This member has none that is whole."""


@attrs.frozen(kw_only=True)
class GetSnapshot:
    """Request for the newest one. It stays, and the log from its index on, until `holder` releases
    it. Answered with Snapshot; fails with NoSnapshot.

    Attributes:
        holder: path of whoever asks; it holds one at a time.
    """

    holder: str
    reply_to: ReplyTo[Snapshot]


@attrs.frozen(kw_only=True)
class ReleaseSnapshot:
    """What `holder` held may go."""

    holder: str


@attrs.frozen(kw_only=True)
class MachineAt:
    """To the entry handler: the state machine has all up to `index`, whatever the log holds."""

    index: int
