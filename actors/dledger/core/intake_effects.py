"""What a follower's handler is given, and what it asks for."""

from __future__ import annotations

from typing import Protocol

import attrs

from actors.dledger.core.member_state import INDEX_NONE
from actors.dledger.core.push_effects import PushAnswer
from wire.dledger_codes import PushType
from wire.dledger_entry import Entry


class LedgerView(Protocol):
    """What a handler reads of the own log, with all that was asked of the store."""

    def holds(self, entry: Entry) -> bool:
        """Whether the log has an entry of that index, equal in all that upstream compares."""


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


@attrs.frozen(kw_only=True)
class StoreChange:
    """What the store is asked to do, in one step and for `session` only.

    The store refuses an entry whose place (`pos`) is not the one that its own log gives it.

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
