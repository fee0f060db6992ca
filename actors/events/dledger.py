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
