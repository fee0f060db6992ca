"""What a state maintainer tells itself: what others said to its questions, and its timers."""

from __future__ import annotations

import attrs

from actors.dledger.append_messages import Watermarks
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import SavedVote
from actors.dledger.rpc_messages import Asked
from actors.storage.dledger import store
from actors.storage.dledger.term_files import TermVote


@attrs.frozen(kw_only=True)
class VoteSaved:
    """What the store said to SaveVote."""

    vote: SavedVote
    outcome: TermVote | Exception


@attrs.frozen(kw_only=True)
class Opened:
    """What the store said to OpenSession."""

    role: RoleChanged
    outcome: store.SessionOpened | Exception


@attrs.frozen(kw_only=True)
class WatermarksSaid:
    """What the checker said; `asked` is None for the look at preferred leaders."""

    asked: Asked | None
    outcome: Watermarks | Exception


@attrs.frozen(kw_only=True)
class SaveAgainDue:
    """Timer: the vote is to be saved once more."""


@attrs.frozen(kw_only=True)
class LeadAgainDue:
    """Timer: the store may take entries again."""


@attrs.frozen(kw_only=True)
class LookForPreferred:
    """Timer: see `Election.look_for_preferred`."""
