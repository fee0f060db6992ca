"""Events of a broker among others: what name servers know of it, and what it learns there."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RegisteredAt:
    """A name server has all that there is to know of this broker. Emitted by registrar, where it
    had not before.

    Attributes:
        name_server: its host and port.
        broker: the broker's host and port, as clients are told.
        broker_id: 0: as master.
        topics: how many it registered.
    """

    name_server: str
    broker: str
    broker_id: int
    topics: int


@attrs.frozen(kw_only=True)
class NotRegisteredAt:
    """A name server did not take a registration. Emitted by registrar, at the third failure in a
    row.
    """

    name_server: str
    reason: str


@attrs.frozen(kw_only=True)
class MasterFound:
    """A name server has named a master that this slave did not follow, and now does. Emitted by
    registrar.

    Attributes:
        broker: where it answers for its metadata.
        ha: where it is copied from.
    """

    name_server: str
    broker: str
    ha: str


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
