"""The preferred leader to which a leader hands over, and those that it does not ask for now.

Source: openmessaging/dledger, DLedgerServer.java (checkPreferredLeader), 0.3.1.2;
dledger.md 4.5.

Differs from upstream: a member that did not take over is asked again after a pause that doubles,
whatever `CompatSettings` says. Upstream asks each second, and holds appends each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import attrs

from actors.dledger.core.member_state import INDEX_NONE, MemberState, Role
from actors.dledger.core.settings import PREFERRED_PAUSE_MAX_S, ElectionSettings
from actors.dledger.core.transfer import (
    PeersHeard,
    may_be_elected,
    peers_near,
    without_a_next_term,
)


@attrs.define
class PreferredPauses:
    """Preferred leaders that recently failed to take over, and when each may be asked again.

    The first pause is twice `preferred_check_s`, and each next one is twice as long, up to
    PREFERRED_PAUSE_MAX_S. A pause is forgotten PREFERRED_PAUSE_MAX_S after its end, not sooner:
    other members are asked meanwhile, each for up to TRANSFER_TIMEOUT_S, before this one's turn.
    """

    _pauses: dict[str, tuple[float, float]] = attrs.field(factory=dict)  # (its length, its end)

    def took_over(self, name: str) -> None:
        """Note that a member took over, or leads, and forget its pauses."""
        self._pauses.pop(name, None)

    def failed(self, name: str, now_s: float, check_s: float) -> None:
        """Note that a member was asked in vain.

        Args:
            check_s: `ElectionSettings.preferred_check_s`.
        """
        last_s, until_s = self._pauses.get(name, (check_s, now_s))
        if now_s >= until_s + PREFERRED_PAUSE_MAX_S:
            last_s = check_s
        pause_s = min(2 * last_s, PREFERRED_PAUSE_MAX_S)
        self._pauses[name] = pause_s, now_s + pause_s

    def waiting(self, now_s: float) -> set[str]:
        """Return the members that must not be asked now."""
        return {name for name, (_, until_s) in self._pauses.items() if now_s < until_s}


def preferred(
    state: MemberState,
    settings: ElectionSettings,
    watermarks: Mapping[str, int],
    heard: PeersHeard,
    waiting: AbstractSet[str],
) -> str | None:
    """Return the preferred leader to hand over to; None if no one can take over.

    It is the one of the smallest lag among those that answer, are near enough, and can be elected.

    Args:
        waiting: the members that were asked in vain lately.
    """
    if state.role is not Role.LEADER or state.self_id in settings.preferred_leaders:
        return None
    if without_a_next_term(state) is not None:
        return None
    near = peers_near(state, settings, watermarks) & heard.alive(state.peers)
    found = near & set(settings.preferred_leaders) - waiting
    best = min(found, key=lambda name: (-watermarks.get(name, INDEX_NONE), name), default=None)
    return best if best is not None and may_be_elected(state, best, heard) else None
