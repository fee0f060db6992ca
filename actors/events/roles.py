"""Events of roles: who is master, whether it takes appends, and who may follow it.

All are emitted by a group's role keeper. `number` is a promotion's, 0 for the cluster file's word;
offsets are physical, in bytes.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class GroupOpened:
    """A master takes appends from here on: its epoch is remembered. Emitted by role_keeper.

    Checkers: epochs of one number have one master; an epoch starts at or above the end of all that
    was acknowledged, unless it is `forced`.

    Attributes:
        heard: the members that it heard before.
        forced: an operator made it master whatever may be lost.
    """

    number: int
    token: int
    start_bytes: int
    heard: tuple[str, ...]
    forced: bool = False


@attrs.frozen(kw_only=True)
class MasterFenced:
    """A master takes no appends, and why. Emitted by role_keeper, when the reason changes.

    `reason` is a name of `role_effects.Fence`.
    """

    reason: str
    detail: str


@attrs.frozen(kw_only=True)
class RecordUnsaved:
    """The disk has no room for what the group must remember, and what rests on it waits. Emitted by
    role_keeper when that begins, and with `reason` "" when it is saved.
    """

    reason: str


@attrs.frozen(kw_only=True)
class PromotionRecorded:
    """A later promotion was heard of and is remembered. Emitted by role_keeper, before it acts on
    it.

    Checkers: numbers rise, and one number has one master. `before`: who was master until then.
    """

    number: int
    master: str
    before: str


@attrs.frozen(kw_only=True)
class PromotionVoid:
    """A promotion whose coordinator fell silent has not taken place, and never will: who was to be
    master by it has said so. Emitted by role_keeper.
    """

    number: int
    master: str
    by: str


@attrs.frozen(kw_only=True)
class SlaveVerified:
    """A slave's log is a part of its master's: it may report. Emitted by role_keeper, or in an
    auto-switch group by ha_client, per connection. `number` is of the promotion or epoch.

    Checkers: no report without it where the master is ours.
    """

    session: int
    master: str
    number: int
    end_bytes: int


@attrs.frozen(kw_only=True)
class LogDiverged:
    """A slave's log is no part of its master's: it does not report. Emitted by role_keeper, once
    per cause.

    `how` is a value of `epochs.Kind`; the two logs are equal up to `consistent_bytes`.
    """

    session: int
    master: str
    how: str
    end_bytes: int
    consistent_bytes: int
