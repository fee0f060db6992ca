"""What a follower's handler is given, and what it asks for."""

from __future__ import annotations

import itertools
from typing import Protocol, assert_never

import attrs

from actors.dledger.core.member_state import INDEX_NONE
from actors.dledger.core.push_effects import PushAnswer
from wire.dledger.codes import PushType, ResponseCode
from wire.dledger.entry import Entry, entry_problem


class LedgerView(Protocol):
    """What a handler reads of the own log, with all that was asked of the store."""

    def holds(self, entry: Entry) -> bool | None:
        """Whether the log has an entry of that index, equal in all that upstream compares.

        None: it had one, which has expired.
        """


@attrs.frozen(kw_only=True)
class Pushed:
    """A request of a leader.

    Attributes:
        token: names it in the answer.
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
        """Answer it. Args: as in PushAnswer."""
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
        """Whether a leader may send it: as many entries as its type has, one after the other."""
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
    """What the store is asked to do, in one step and for `session` only.

    The store refuses an entry whose position (`pos`) is not the one that its own log gives it.

    Attributes:
        number: comes back with what is stored then.
        cut_from: entries from here on leave first; None: none does.
        restart: the whole log leaves, and begins anew with `entries`: the leader has expired what
            comes before them.
        entries: to be added at the end.
    """

    session: int
    number: int
    cut_from: int | None = None
    restart: bool = False
    entries: tuple[Entry, ...] = ()


@attrs.frozen(kw_only=True)
class IntakeEffects:
    """What one input asks for, to be done in the order of the fields.

    Attributes:
        alarm: an invariant is broken, the member must end; "" if none is.
        changes: for the store.
        committed: the committed index rose to this; None: no news.
        larger_term: a leader has this term.
        answers: by token.
        events: to emit.
        deadline_s: when to call `tick`; None: not needed.
    """

    alarm: str = ""
    changes: tuple[StoreChange, ...] = ()
    committed: int | None = None
    larger_term: int | None = None
    answers: tuple[tuple[int, PushAnswer], ...] = ()
    events: tuple[object, ...] = ()
    deadline_s: float | None = None
