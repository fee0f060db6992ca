"""Events of DLedger members. Terms and indexes are -1 where there is none."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RoleChanged:
    """A member took a role, or a term, and what it knows is remembered. By state_maintainer.

    Checkers: one term has one leader (ElectionSafety); sessions rise by one within a boot. `role`
    is CANDIDATE, LEADER or FOLLOWER; `leader` is "" where none is known.
    """

    session: int
    role: str
    term: int
    leader: str


@attrs.frozen(kw_only=True)
class DispatcherChanged:
    """A leader's dispatcher to `peer` took a state, and why. By entry_dispatcher.

    Checkers: each session begins with COMPARE; no APPEND without a COMPARE or TRUNCATE before.
    """

    peer: str
    term: int
    state: str
    detail: str


@attrs.frozen(kw_only=True)
class LedgerTruncated:
    """A follower took entries from its log because the leader's differ. By entry_handler.

    Checkers: none of them was committed. `index`: the first that left; `end`: the last.
    """

    session: int
    index: int
    end: int


@attrs.frozen(kw_only=True)
class CommittedRose:
    """The committed index as this member knows it. By quorum_ack_checker on a leader, by
    entry_handler on a follower.

    Checkers: CommittedIndexMonotonic, CommittedIsOnQuorum.
    """

    session: int
    index: int
