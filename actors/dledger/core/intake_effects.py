"""The inputs and effects of `intake`."""

from __future__ import annotations

import itertools
from typing import Protocol, assert_never

import attrs

from actors.dledger.core.member_state import INDEX_NONE
from actors.dledger.core.push_effects import PushAnswer
from wire.dledger.codes import PushType, ResponseCode
from wire.dledger.entry import Entry, entry_problem


class LedgerView(Protocol):
    """What `intake` reads of the own log, with all changes that the store was asked for."""

    def holds(self, entry: Entry) -> bool | None:
        """Return whether the log has this entry, equal in all that upstream compares.

        Returns: None if the log's entry of that index has expired.
        """


@attrs.frozen(kw_only=True)
class Pushed:
    """A leader's push.

    Attributes:
        token: stands in its answer.
        entries: in index order without a gap: one or more in APPEND, one in COMPARE and TRUNCATE,
            none in COMMIT.
    """

    token: int
    type: PushType
    term: int
    leader: str
    commit_index: int
    entries: tuple[Entry, ...] = ()

    @property
    def first(self) -> int:
        return self.entries[0].index if self.entries else INDEX_NONE

    @property
    def last(self) -> int:
        return self.entries[-1].index if self.entries else INDEX_NONE

    def answer(self, code: ResponseCode, term: int, begin: int, end: int) -> PushAnswer:
        """Return the answer to this push. Args: as the attributes of PushAnswer."""
        return PushAnswer(
            code=code,
            term=term,
            index=self.first,
            count=len(self.entries),
            begin=begin,
            end=end,
        )

    @property
    def is_well_formed(self) -> bool:
        """Whether this push has as many entries as its type requires, with indexes in order."""
        entries = self.entries
        match self.type:
            case PushType.COMMIT:
                good = not entries
            case PushType.APPEND:
                good = len(entries) > 0
            case PushType.COMPARE | PushType.TRUNCATE:
                good = len(entries) == 1
            case _:
                assert_never(self.type)
        row = all(entry.index == index for index, entry in enumerate(entries, self.first))
        terms = all(one.term <= two.term for one, two in itertools.pairwise(entries))
        good = good and not any(map(entry_problem, entries))
        return good and row and terms and (not entries or entries[-1].term <= self.term)


@attrs.frozen(kw_only=True)
class StoreChange:
    """A change that the store is asked to make in one step, and for `session` only.

    The store refuses an entry whose position (`pos`) is not the one that its own log gives it.

    Attributes:
        number: stands in the report of what is stored then.
        cut_from: entries from here on are removed first; None: none is.
        restart: whether the whole log is removed, and begins anew with `entries`, because the
            leader's entries before them have expired.
        entries: added at the end.
    """

    session: int
    number: int
    cut_from: int | None = None
    restart: bool = False
    entries: tuple[Entry, ...] = ()


@attrs.frozen(kw_only=True)
class IntakeEffects:
    """What the actor has to do after one input, in the order of the fields.

    Attributes:
        alarm: the invariant that is broken, so that the member must end; "" if none is.
        changes: the changes that the store has to make.
        committed: the committed index, if it rose; else None.
        larger_term: the larger term that a leader has.
        answers: answers to pushes, with their tokens.
        events: the events to emit.
        deadline_s: when to call `tick`; None if that is not needed.
    """

    alarm: str = ""
    changes: tuple[StoreChange, ...] = ()
    committed: int | None = None
    larger_term: int | None = None
    answers: tuple[tuple[int, PushAnswer], ...] = ()
    events: tuple[object, ...] = ()
    deadline_s: float | None = None
