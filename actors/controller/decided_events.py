"""The events that tell of what a leader of controllers has decided, once it is applied."""

from __future__ import annotations

from actors.controller.core.broker_sets import BrokerSet
from actors.events import controller as events
from wire.broker import controller_events as changes


def event_of(
    found: BrokerSet | None, change: changes.ControllerEvent, asked_by: str
) -> object | None:
    """Return the event that tells of a change.

    Args:
        found: the broker set after the change; None: it is forgotten.
        asked_by: who wanted an election.

    Returns: None if the change concerned a set that is not there.
    """
    if isinstance(change, changes.CleanBrokerData):
        return events.BrokerDataCleaned(
            cluster="" if found is None else found.cluster,
            broker=change.broker_name,
            broker_ids=change.broker_id_set_to_clean or (),
        )
    if found is None:
        return None
    cluster, broker, master = found.cluster, found.name, found.master_id
    match change:
        case changes.ApplyBrokerId(new_broker_id=key, broker_address=address):
            return events.ReplicaAdded(
                cluster=cluster, broker=broker, broker_id=key, address=address
            )
        case changes.UpdateBrokerAddress(broker_id=key, broker_address=address):
            return events.ReplicaMoved(
                cluster=cluster, broker=broker, broker_id=key, address=address
            )
        case changes.AlterSyncStateSet():
            return events.SyncStateSetChanged(
                cluster=cluster,
                broker=broker,
                in_sync=found.in_sync,
                epoch=found.in_sync_epoch,
                master_epoch=found.master_epoch,
            )
        case changes.ElectMaster() if master is None:
            return events.NoMaster(
                cluster=cluster, broker=broker, epoch=found.master_epoch, in_sync=found.in_sync
            )
        case changes.ElectMaster():
            return events.MasterElected(
                cluster=cluster,
                broker=broker,
                broker_id=master,
                address=found.master_address or "",
                epoch=found.master_epoch,
                asked_by=asked_by,
            )
