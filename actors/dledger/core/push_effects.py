"""Pushes and their answers, between a leader's dispatcher and a follower's handler, as values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Protocol

import attrs

from wire.dledger.codes import PushType, ResponseCode


class DispatcherState(enum.IntEnum):
    """What a dispatcher does with its peer, with upstream's ordinals (EntryDispatcherState)."""

    COMPARE = 0
    TRUNCATE = 1
    APPEND = 2
    INSTALL_SNAPSHOT = 3


_S = DispatcherState

DISPATCHER_TRANSITIONS: Final[Mapping[DispatcherState, Mapping[DispatcherState, str]]] = {
    _S.COMPARE: {
        _S.COMPARE: "no answer, or none that decides",
        _S.TRUNCATE: "the logs part behind a common entry",
        _S.APPEND: "the peer's log is a beginning of the leader's",
        _S.INSTALL_SNAPSHOT: "nothing in common, and entry 0 is gone",
    },
    _S.TRUNCATE: {
        _S.APPEND: "the peer has cut its log",
        _S.COMPARE: "refused, no answer, or the entry has expired",
    },
    _S.APPEND: {_S.COMPARE: "refused, no answer, entries lost or expired, a new session"},
    _S.INSTALL_SNAPSHOT: {
        _S.TRUNCATE: "the peer has the snapshot",
        _S.COMPARE: "it could not be sent, or a new session",
    },
}
"""For each state, the states that may follow it, and what leads to each."""


class LedgerSizes(Protocol):
    """The sizes of a log's entries, which bound what is pushed at once."""

    def fits(self, first: int, last_max: int, bytes_max: int) -> int:
        """Return the last entry from `first` on up to which the sizes sum to at most `bytes_max`.

        Returns: an index from `first` to `last_max`; `first` even if that entry alone is larger.
        """

    def bytes_from(self, first: int) -> int:
        """Return the size in bytes of the entries from `first` to the log's end."""


@attrs.frozen(kw_only=True)
class Push:
    """A push that the actor has to send. It reads the entries and encodes them.

    Attributes:
        number: comes back with the answer.
        type: COMPARE and TRUNCATE carry the entry `first`; APPEND carries first to last; COMMIT
            carries none, and first and last are -1.
        commit_index: the leader's committed index.
    """

    number: int
    type: PushType
    first: int
    last: int
    commit_index: int


@attrs.frozen(kw_only=True)
class PushAnswer:
    """A follower's answer to a push.

    Attributes:
        term: the term of the request, or the follower's own if the code is EXPIRED_TERM.
        index: the first entry's index; -1 if the answer has none.
        count: the number of entries; 0 if the answer has none, and then `index` is the last one's
            (0.2.5 and older).
        begin, end: the first entry of the follower's log, and its last or the last that is known
            to equal the leader's; -1 for an empty log.
        foreign: whether it has fields that only another dialect's answers have.
        refusal: why the follower's store takes no entries, as it says itself; "" where it does not:
            a Java member never does.
    """

    code: ResponseCode
    term: int
    index: int = -1
    count: int = 0
    begin: int = -1
    end: int = -1
    foreign: bool = False
    refusal: str = ""

    @property
    def last(self) -> int:
        """The index of the last entry that the answer is about."""
        return self.index + self.count - 1 if self.count > 0 else self.index


@attrs.frozen(kw_only=True)
class DispatchEffects:
    """What a dispatcher has to do after one input.

    Attributes:
        matched: the index up to which the peer is known to hold the log, if it changed; else None.
        larger_term: the larger term that the peer has.
        pushes: the pushes to send, in order.
        install: whether to send the peer the newest snapshot, and then to call `installed` or
            `install_failed`.
        events: the events to emit.
        deadline_s: when to call `tick`; None if that is not needed.
    """

    matched: int | None = None
    larger_term: int | None = None
    pushes: tuple[Push, ...] = ()
    install: bool = False
    events: tuple[object, ...] = ()
    deadline_s: float | None = None
