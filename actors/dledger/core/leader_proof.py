"""Whether this member still leads at the moment when somebody asks.

Source: Ongaro's dissertation, section 6.4 (ReadIndex); upstream's leader answers reads without
asking anybody (bug B13).

A leader does not know that it has been deposed. It does know that it had not been when a round of
heartbeats began that a quorum has answered, so a question is answered by a round that begins after
it. All who ask while one round is under way share the next.
"""

from __future__ import annotations

from collections.abc import Container

import attrs

from actors.dledger.core.member_state import TERM_NONE


@attrs.frozen
class Proven:
    """The answer to the question that was given this token.

    Attributes:
        term: in which this member led at some moment after the question; -1: it does not lead.
    """

    token: int
    term: int


@attrs.define
class LeaderProof:
    """The questions that wait; see the module's text."""

    _open: list[int] = attrs.field(factory=list, init=False)  # for a round that is yet to begin
    _asked: list[int] = attrs.field(factory=list, init=False)
    _number: int | None = attrs.field(default=None, init=False)  # of their round

    def asked(self, token: int) -> bool:
        """A question. Whether a round is to begin for it now."""
        self._open.append(token)
        return self._number is None

    def keep(self, tokens: Container[int]) -> None:
        """Nobody waits for the answers to others any more."""
        self._open = [token for token in self._open if token in tokens]
        self._asked = [token for token in self._asked if token in tokens]

    def began(self, number: int) -> None:
        """A round begins, for a question or by the clock."""
        if self._number is None and self._open:
            self._asked, self._open, self._number = self._open, [], number

    def quorum(self, number: int, term: int) -> tuple[Proven, ...]:
        """A quorum has answered that round, in this term."""
        if self._number is None or number < self._number:
            return ()
        proven = tuple(Proven(token, term) for token in self._asked)
        self._asked, self._number = [], None
        return proven

    @property
    def wants_round(self) -> bool:
        """Somebody asked while the last round was under way."""
        return self._number is None and bool(self._open)

    def lost(self) -> tuple[Proven, ...]:
        """The leadership, or the session, is over."""
        proven = tuple(Proven(token, TERM_NONE) for token in (*self._asked, *self._open))
        self._asked, self._open, self._number = [], [], None
        return proven
