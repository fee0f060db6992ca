"""What `role_rules` takes and asks for."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from actors.epochs import History
from actors.log_types import Forgot, GroupRecord


class Role(enum.Enum):
    MASTER = "master"
    SLAVE = "slave"


class RoleState(enum.Enum):
    """Where a node is in its role; the value travels in `GroupState.state`."""

    ASKING = "asking"  # a master that hears its members before it takes appends
    OPEN = "open"
    FENCED = "fenced"
    CONNECTING = "connecting"  # a slave that is not known to fit its master
    FOLLOWING = "following"
    DIVERGED = "diverged"
    DAMAGED = "damaged"  # bytes of a slave's log are not what was written: it does not report


class Fence(enum.Enum):
    """Why a master takes no appends."""

    SLAVE_AHEAD = "a member holds bytes that this log lacks"
    SHORTER_THAN_MARK = "this log is shorter than what was acknowledged from it"
    CONFLICT = "another member has another master by the same promotion"
    HANDING_OVER = "another node is about to become master"
    ABANDONED = "a promotion was begun, and nobody knows whether it took place"
    SUPERSEDED = "another node is master by a later promotion"


# Closed for a moment only: the master asks its members, or another one is about to take over.
PASSING: Final = (Fence.HANDING_OVER, Fence.SUPERSEDED, None)


@attrs.frozen(kw_only=True)
class RoleView:
    """What others may know of this node's part; the fields are those of `GroupState`.

    Attributes:
        fence: why a master is fenced; None if it is not.
        claimed: the highest number that a promotion was begun with, or that is known and not acted
            by yet; 0 for none under way.
        forgot: see `actors.log_types.Forgot`.
        damage: which bytes of its log are not what was written; "" if none are known.
        forced: this node opened its log as the master by this promotion without having heard enough
            members, by force.
    """

    role: Role
    state: RoleState
    fence: Fence | None
    reason: str
    opened: bool
    number: int
    master: str
    history: History
    high_water: int
    claimed: int = 0
    forgot: Forgot = ""
    damage: str = ""
    forced: bool = False


@attrs.frozen(kw_only=True)
class Gate:
    """Whether appends are taken.

    Attributes:
        reason: why not, for people.
        master: who takes them, if they are not taken here; "" if another one is about to.
    """

    open: bool
    reason: str = ""
    master: str = ""


@attrs.frozen(kw_only=True)
class Verdict:
    """The answer to the slave connection of that session.

    Attributes:
        whole_at_bytes: once it has reported so much, the log counts again; None: it does.
    """

    session: int
    fits: bool
    detail: str = ""
    whole_at_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Effects:
    """What one input asks for, to be done in the order of the fields.

    Attributes:
        record: to be remembered, and synced, before anything else happens.
        rests: something does, on what is in `record`; else it may be remembered later.
        gate: of the store of this life.
        restart: end the group's tree and start it again, built by the promotion in `record`.
        ask: who is to be asked what they are, with the number of the question.
        verdict: for the slave's connection.
        refused: why a request was not carried out; "" if it was.
        events: to emit.
        deadline_s: when to call `tick`; None: not needed.
    """

    record: GroupRecord | None = None
    rests: bool = True
    gate: Gate | None = None
    restart: bool = False
    ask: tuple[tuple[str, int], ...] = ()
    verdict: Verdict | None = None
    refused: str = ""
    events: tuple[object, ...] = ()
    deadline_s: float | None = None
