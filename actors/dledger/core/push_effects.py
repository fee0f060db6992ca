"""What passes between a leader's dispatcher and a follower's handler, free of bytes and sockets."""

from __future__ import annotations

import enum
from typing import Protocol

import attrs

from wire.dledger.codes import PushType, ResponseCode


class DispatcherState(enum.IntEnum):
    """Upstream's names and ordinals (EntryDispatcherState)."""

    COMPARE = 0
    TRUNCATE = 1
    APPEND = 2
    INSTALL_SNAPSHOT = 3


class LedgerSizes(Protocol):
    """What a dispatcher knows of entries besides their number."""

    def fits(self, first: int, last_max: int, bytes_max: int) -> int:
        """The last of the entries from `first` whose sizes together are at most `bytes_max`.

        At least `first`, at most `last_max`.
        """

    def bytes_from(self, first: int) -> int:
        """Bytes from that entry to the log's end."""


@attrs.frozen(kw_only=True)
class Push:
    """A request that a dispatcher wants sent. The actor reads the entries and encodes them.

    Attributes:
        number: comes back with the answer.
        type: COMPARE and TRUNCATE carry the entry `first`; APPEND carries first to last; COMMIT
            carries none, and first and last are -1.
        commit_index: the leader's.
    """

    number: int
    type: PushType
    first: int
    last: int
    commit_index: int


@attrs.frozen(kw_only=True)
class PushAnswer:
    """What a follower says to a push.

    Attributes:
        term: of the answer; that of the request unless the code is EXPIRED_TERM.
        index: the first entry's; -1 if not said.
        count: of entries; 0 if not said, and then `index` is the last one's (0.2.5 and older).
        begin, end: of the follower's log, or up to where it is known to equal the leader's; -1 for
            an empty one.
        foreign: it bears what only answers of another dialect do.
    """

    code: ResponseCode
    term: int
    index: int = -1
    count: int = 0
    begin: int = -1
    end: int = -1
    foreign: bool = False

    @property
    def last(self) -> int:
        """The last entry that the answer is about."""
        return self.index + self.count - 1 if self.count > 0 else self.index


@attrs.frozen(kw_only=True)
class DispatchEffects:
    """What one input of a dispatcher asks for.

    Attributes:
        matched: the peer is known to hold the log up to there, in this session; None: no news.
        larger_term: the peer has this term.
        pushes: to send, in order.
        install: send the peer the newest snapshot; then call `installed` or `install_failed`.
        events: to emit.
        deadline_s: when to call `tick`; None: not needed.
    """

    matched: int | None = None
    larger_term: int | None = None
    pushes: tuple[Push, ...] = ()
    install: bool = False
    events: tuple[object, ...] = ()
    deadline_s: float | None = None
