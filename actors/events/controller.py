"""Events of a controller of broker sets."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ControllerLeads:
    """This controller leads, has applied all that was decided before, and answers from now on.
    Emitted by the leader's controller.

    Attributes:
        term: in which it leads.
        broker_sets: how many it knows.
    """

    term: int
    broker_sets: int


@attrs.frozen(kw_only=True)
class MasterElected:
    """The controllers have elected a master of a broker set. Emitted by the leader's controller.

    Attributes:
        broker_id, address: the master's, and where brokers and clients reach it.
        epoch: of the election.
        asked_by: "the controller", "an operator", or "replica ID".
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    epoch: int
    asked_by: str


@attrs.frozen(kw_only=True)
class NoMaster:
    """A broker set has no master any more, as none of its sync state set lives. Emitted by the
    leader's controller.

    Attributes:
        epoch: of the election that found nobody.
        in_sync: the sync state set; one of them has to come back.
    """

    cluster: str
    broker: str
    epoch: int
    in_sync: tuple[int, ...]


@attrs.frozen(kw_only=True)
class SyncStateSetChanged:
    """The master of a broker set has changed its sync state set. Emitted by the leader's
    controller.

    Attributes:
        in_sync: the ids of its members, in ascending order.
        epoch: the number of the change.
        master_epoch: of the master that asked.
    """

    cluster: str
    broker: str
    in_sync: tuple[int, ...]
    epoch: int
    master_epoch: int


@attrs.frozen(kw_only=True)
class ReplicaAdded:
    """A replica got its id; the first one of a name makes the broker set. Emitted by the leader's
    controller.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str


@attrs.frozen(kw_only=True)
class ReplicaMoved:
    """A replica has another address. Emitted by the leader's controller."""

    cluster: str
    broker: str
    broker_id: int
    address: str


@attrs.frozen(kw_only=True)
class BrokerDataCleaned:
    """An operator had replicas forgotten. Emitted by the leader's controller.

    Attributes:
        broker_ids: which ones; () for the whole broker set.
    """

    cluster: str
    broker: str
    broker_ids: tuple[int, ...]


@attrs.frozen(kw_only=True)
class ReplicaHeard:
    """A replica that was not known to live has sent a heartbeat. Emitted by each controller.

    Attributes:
        address: where the replica is, as it says.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str


@attrs.frozen(kw_only=True)
class ReplicaSilent:
    """A replica counts as dead. Emitted by each controller.

    Attributes:
        reason: "connection ended" or "silent for too long".
    """

    cluster: str
    broker: str
    broker_id: int
    reason: str


@attrs.frozen(kw_only=True)
class DecisionLost:
    """What this controller decided has no known outcome: it leads no more, or its log did not
    answer. Emitted by the controller that decided.

    Attributes:
        request: its code's name.
        reason: for people.
    """

    broker: str
    request: str
    reason: str
