"""A candidate that finds no leader for a while says so, and what keeps others from electing one.

Whoever reads only what a node writes sees nothing of an election otherwise. Upstream logs each of
its rounds. One that never stands for election (`candidate = false`) asks nobody, so it has nothing
to say.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import attrs

from actors.dledger.base_fields import Sender
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role
from actors.dledger.peer_messages import PeerSign

LEADERLESS_S: Final = 10.0
"""A candidate says so for the first time then, and at most as often what has changed since."""

_LOGGER: Final = logging.getLogger("triolog.dledger")


@attrs.define
class Leaderless:
    """See the module's text. One owner: `PeerSigns`."""

    _sender: Sender
    _since_s: float | None = attrs.field(default=None, init=False)  # a candidate
    _said_s: float = attrs.field(default=0.0, init=False)
    _said: str = attrs.field(default="", init=False)

    def took(self, now_s: float, role: RoleChanged) -> None:
        """A role. Tells that there is a leader, if it was told that there is none."""
        if role.role is Role.CANDIDATE:
            if self._since_s is None:
                self._since_s = self._said_s = now_s
            return
        if self._said and self._since_s is not None:
            whom = "leads" if role.role is Role.LEADER else f"follows {role.leader}"
            self._warn(f"{whom}, after {now_s - self._since_s:.0f} s without a leader")
        self._since_s, self._said = None, ""

    def look(self, now_s: float, signs: Iterable[PeerSign], *, joins: bool, full: str = "") -> None:
        """At what the peers say to a candidate.

        Args:
            joins: its own vote counts only with all others'.
            full: why its store takes no entries, so that it cannot lead.
        """
        if self._since_s is None or now_s - self._said_s < LEADERLESS_S:
            return
        words = self._lacks(sorted(signs, key=lambda each: each.peer), joins=joins, full=full)
        if words != self._said:
            self._said, self._said_s = words, now_s
            self._warn(f"has found no leader for {now_s - self._since_s:.0f} s: {words}")

    def _lacks(self, signs: list[PeerSign], *, joins: bool, full: str) -> str:
        silent = [each.peer for each in signs if each.silent]
        refusing = [each.peer for each in signs if not each.silent and each.refusal]
        asked = [each.peer for each in signs if each.joins and not each.silent]
        joining = [self._sender.self_id] * joins + asked
        parts = [f"it takes no entries ({full})"] if full else []
        if silent:
            parts.append(f"{', '.join(silent)} {_verb(silent, 'does', 'do')} not answer")
        if refusing:
            parts.append(f"{', '.join(refusing)} {_verb(refusing, 'refuses', 'refuse')} it")
        if joining:
            lack = _verb(joining, "is new or lacks its log", "are new or lack their logs")
            parts.append(f"{', '.join(joining)} {lack}, which takes the votes of all")
        return "; ".join(parts) or "the others answer, and elect nobody"

    def _warn(self, words: str) -> None:
        _LOGGER.warning("%s: %s %s", self._sender.group, self._sender.self_id, words)


def _verb(names: list[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several
