"""The messages between a replica's manager, which speaks with controllers, and who replicates.

They are written with their names: `ChangeRole` and so on.
"""

from __future__ import annotations

import attrs

from actors.ha.core.sync_state_set import Refusal
from actors.log_types import ToldRole
from actors.runtime import ReplyTo


@attrs.frozen
class ChangeRole:
    """To the role owner: become master, or a slave of `role.master`.

    Answered with RoleTaken once that is done; an error if it could not be.
    """

    role: ToldRole
    broker_id: int
    reply_to: ReplyTo[RoleTaken]


@attrs.frozen
class RoleTaken:
    """The role is the one that was asked for."""

    epoch: int


@attrs.frozen
class SyncStateSetTold:
    """To the role owner: the sync state set of the epoch is another one."""

    role: ToldRole


@attrs.frozen
class LeaseBegan:
    """To the role owner: a master may acknowledge now, for the first time or again."""


@attrs.frozen(kw_only=True)
class AlterSyncStateSet:
    """To the replicas manager, from a master: ask the controllers for this set.

    Answered with SetAdopted or SetRefused; an error if it is not known what became of it.

    Attributes:
        epoch: the master's.
        members: the ids of the replicas.
        set_epoch: the number of the set that is to be changed.
    """

    epoch: int
    members: frozenset[int]
    set_epoch: int
    reply_to: ReplyTo[SetAdopted | SetRefused]


@attrs.frozen
class SetAdopted:
    """The controllers have this set now."""

    members: frozenset[int]
    set_epoch: int


@attrs.frozen
class SetRefused:
    """The controllers keep the set that they have."""

    refusal: Refusal
    reason: str


@attrs.frozen
class LookNow:
    """To the replicas manager: ask the controllers at once, for example who is registered, or as
    a master's connection has ended.
    """
