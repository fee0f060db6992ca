"""Finds out whether this member still leads at the moment when a fresh read asks (read index).

Source: Ongaro's dissertation, section 6.4 (ReadIndex); upstream's leader answers reads without
asking anybody (bug B13).

A leader cannot know that it has been deposed. It knows that it had not been when a round of
heartbeats began that a quorum has answered, so a question is answered by a round that begins after
it. All questions that come while one round is under way share the next.
"""

from __future__ import annotations

from collections.abc import Container

import attrs

from actors.dledger.core.member_state import TERM_NONE


@attrs.frozen
class Proven:
    """The answer to the question with this token.

    Attributes:
        term: the term in which this member led at some moment after the question; -1 if it does
            not lead.
    """

    token: int
    term: int


@attrs.define
class LeaderProof:
    """The questions that wait for a round of heartbeats. See the module's text."""

    _open: list[int] = attrs.field(factory=list, init=False)  # for a round that has not begun
    _asked: list[int] = attrs.field(factory=list, init=False)
    _number: int | None = attrs.field(default=None, init=False)  # of the round for `_asked`

    def asked(self, token: int) -> bool:
        """Add a question. Returns: whether a round has to begin for it now."""
        self._open.append(token)
        return self._number is None

    def keep(self, tokens: Container[int]) -> None:
        """Forget all questions but these, because nobody waits for their answers any more."""
        self._open = [token for token in self._open if token in tokens]
        self._asked = [token for token in self._asked if token in tokens]

    def began(self, number: int) -> None:
        """Note that a round begins, for a question or by the clock."""
        if self._number is None and self._open:
            self._asked, self._open, self._number = self._open, [], number

    def quorum(self, number: int, term: int) -> tuple[Proven, ...]:
        """Note that a quorum has answered that round in this term. Returns: the answers."""
        if self._number is None or number < self._number:
            return ()
        proven = tuple(Proven(token, term) for token in self._asked)
        self._asked, self._number = [], None
        return proven

    @property
    def wants_round(self) -> bool:
        """Whether questions came while the last round was under way."""
        return self._number is None and bool(self._open)

    def lost(self) -> tuple[Proven, ...]:
        """Answer all questions: the leadership, or the session, is over."""
        proven = tuple(Proven(token, TERM_NONE) for token in (*self._asked, *self._open))
        self._asked, self._open, self._number = [], [], None
        return proven
