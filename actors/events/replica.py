"""Events of a replica of a broker set, which controllers give its role."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ReplicaIdentified:
    """The replica has an id, which is on its disk. Emitted by replicas_manager, once in the life of
    a store.
    """

    broker: str
    broker_id: int


@attrs.frozen(kw_only=True)
class ControllersFailed:
    """The controllers do not answer as the replica needs it. Emitted by replicas_manager, at each
    change of the reason; it asks on.

    Attributes:
        step: what it asks for.
    """

    step: str
    reason: str


@attrs.frozen(kw_only=True)
class ReplicaRoleTaken:
    """The replica has become master, or a slave of another one. Emitted by replicas_manager.

    Attributes:
        role: "master" or "slave".
        epoch: of the election.
        master_id: the id of the master.
    """

    role: str
    epoch: int
    master_id: int


@attrs.frozen(kw_only=True)
class RoleNotTaken:
    """A change of the role has failed; the replica stays fenced, and tries again. Emitted by
    replicas_manager.
    """

    epoch: int
    reason: str
