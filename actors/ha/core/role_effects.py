"""The inputs and effects of `role_rules`."""

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
    """The state of a node in its role; the value is sent in `GroupState.state`."""

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
    NO_HISTORY = "it is not known from which epochs this log is"
    HANDING_OVER = "another node is about to become master"
    ABANDONED = "a promotion was begun, and nobody knows whether it took place"
    SUPERSEDED = "another node is master by a later promotion"


# Closed for a moment only: the master asks its members, or another one is about to take over.
PASSING: Final = (Fence.HANDING_OVER, Fence.SUPERSEDED, None)


@attrs.frozen(kw_only=True)
class RoleView:
    """A node's role as other actors and nodes see it; the fields are those of `GroupState`.

    Attributes:
        fence: why a master is fenced; None if it is not.
        claimed: the highest number of a promotion that was begun, or that is recorded and not acted
            by yet; 0 for none under way.
        forgot: see `actors.log_types.Forgot`.
        damage: which bytes of the log are not what was written; "" if none are known to be damaged.
        forced: whether this node opened its log as master by this promotion without having heard
            enough members, by force.
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
class AppendGate:
    """Whether appends are taken.

    Attributes:
        reason: for people: why they are not.
        master: the node that takes them, if this one does not; "" if another one is about to.
    """

    open: bool
    reason: str = ""
    master: str = ""


@attrs.frozen(kw_only=True)
class Verdict:
    """The answer to the slave's connection of that session.

    Attributes:
        whole_at_bytes: the offset from whose report on the slave's log counts as a copy again; None
            if it counts now.
    """

    session: int
    fits: bool
    detail: str = ""
    whole_at_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Effects:
    """What one input asks for, to be done in the order of the fields.

    Attributes:
        record: to be saved, and synced, before anything else happens.
        rests: whether something rests on `record`; if not, it may be saved later.
        gate: whether the store of this incarnation takes appends.
        restart: end the group's tree and start it again, built by the promotion in `record`.
        ask: the members to be asked for their states, each with the question's number.
        verdict: the answer to the slave's connection.
        refused: why a request was not carried out; "" if it was.
        events: to emit.
        deadline_s: when to call `tick`; None: not needed.
    """

    record: GroupRecord | None = None
    rests: bool = True
    gate: AppendGate | None = None
    restart: bool = False
    ask: tuple[tuple[str, int], ...] = ()
    verdict: Verdict | None = None
    refused: str = ""
    events: tuple[object, ...] = ()
    deadline_s: float | None = None
