"""What brokers, operators and a controller tell each other about who is master of a broker set.

Upstream: apache/rocketmq, remoting/.../protocol/header/controller/ and protocol/body/
{SyncStateSet,ElectMasterResponseBody,BrokerReplicasInfo,EpochEntryCache}.java, 5.3.3;
autoswitch-ha.md 7.3.

To a controller; all but 1005, 904, 1009 and 1010 are for its leader. Most have names that begin
with CONTROLLER_ in `RequestCode`:

| Code | Request                  | Fields, and body       | Answer                        |
|------|--------------------------|------------------------|-------------------------------|
| 1001 | ALTER_SYNC_STATE_SET     | `AlterSyncStateSet`,   | `NewSyncStateSetEpoch`,       |
|      |                          | `SyncStateSet`         | `SyncStateSet`                |
| 1002 | ELECT_MASTER             | `ElectMaster`          | `ElectedMaster`,              |
|      |                          |                        | `ElectMasterResponseBody`     |
| 1003 | REGISTER_BROKER          | `RegisterToController` | `RegisteredToController`,     |
|      |                          |                        | `SyncStateSet`                |
| 1004 | GET_REPLICA_INFO         | `BrokerSet`            | `ReplicaInfo`, `SyncStateSet` |
| 1005 | GET_METADATA_INFO        |                        | `ControllerMetadata`          |
| 1006 | GET_SYNC_STATE_DATA      | a list of names        | `BrokerReplicasInfo`          |
| 1009 | UPDATE_CONTROLLER_CONFIG | text of properties     |                               |
| 1010 | GET_CONTROLLER_CONFIG    |                        | text of properties            |
| 1011 | CLEAN_BROKER_DATA        | `CleanBrokerData`      |                               |
| 1012 | GET_NEXT_BROKER_ID       | `BrokerSet`            | `NextBrokerId`                |
| 1013 | APPLY_BROKER_ID          | `ApplyBrokerId`        | `BrokerSet`                   |
| 904  | BROKER_HEARTBEAT         | `ControllerHeartbeat`  | none is sent                  |

To a broker:

| Code | Request                    | Fields, and body             | Answer            |
|------|----------------------------|------------------------------|-------------------|
| 1007 | GET_BROKER_EPOCH_CACHE     |                              | `EpochEntryCache` |
| 1008 | NOTIFY_BROKER_ROLE_CHANGED | `RoleChange`, `SyncStateSet` | none is sent      |
| 906  | EXCHANGE_BROKER_HA_INFO    | `BrokerHaInfo`               | `BrokerHaInfo`    |

A broker set has a name; its replicas have ids from 1, which the controller gives. Id 0 means the
master, towards name servers and clients only. `None` is what is absent. Sets of ids ascend here;
upstream writes them in the order of a hash table.

Differs: 5.0.0 has addresses instead of ids, and other codes for three errors; it is not read.
"""

from __future__ import annotations

from typing import Final

from wire.broker.dialect import Body, BodyDecoder, Fields
from wire.broker.routes import BrokerMemberGroup
from wire.files.epoch_file import OFFSET_MAX
from wire.remoting.tolerant_json import Int, Long, always

CONTROLLER_ITSELF: Final = -1
"""`ElectMaster.broker_id` of a controller that elects without being asked."""
LEAST_PRIORITY: Final = 2**31 - 1
"""`ControllerHeartbeat.election_priority` of who states none: lower ones are elected first."""


class BrokerSet(Fields, frozen=True, kw_only=True):
    """The set that a request or an answer is about. 1004 names no cluster."""

    broker_name: str
    cluster_name: str | None = None


class AlterSyncStateSet(Fields, frozen=True, kw_only=True):
    """A master wants another sync state set. Its body has the epoch of the present one.

    Attributes:
        invoke_time: when it was sent, in ms since 1970.
    """

    broker_name: str
    invoke_time: Long = 0
    master_broker_id: Long
    master_epoch: Int


class NewSyncStateSetEpoch(Fields, frozen=True, kw_only=True):
    """The epoch of the set now; 0 if the change was refused."""

    new_sync_state_set_epoch: Int = 0


class ElectMaster(Fields, frozen=True, kw_only=True):
    """Somebody wants a master for a set.

    Attributes:
        broker_id: the replica that asks, or that an operator wants; CONTROLLER_ITSELF.
        designate_elect: whether an operator wants this replica and no other.
    """

    broker_id: Long = CONTROLLER_ITSELF
    broker_name: str
    cluster_name: str = ""
    designate_elect: bool = False
    invoke_time: Long = 0


class ElectedMaster(Fields, frozen=True, kw_only=True):
    """The master, newly elected or still alive."""

    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None


class RegisterToController(Fields, frozen=True, kw_only=True):
    """A replica tells its present address."""

    broker_address: str
    broker_id: Long
    broker_name: str
    cluster_name: str
    invoke_time: Long = 0


class RegisteredToController(Fields, frozen=True, kw_only=True):
    """The answer to it: the master, if one lives."""

    broker_name: str | None = None
    cluster_name: str | None = None
    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None


class ReplicaInfo(Fields, frozen=True, kw_only=True):
    """The master as the controller knows it; no id: there is none."""

    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int | None = None


class ControllerMetadata(Fields, frozen=True, kw_only=True):
    """Which controller leads.

    Attributes:
        is_leader: whether the one that answered does.
        peers: of a DLedger group "id:host:port;" for each.
    """

    controller_leader_address: str | None = None
    controller_leader_id: str | None = None
    group: str | None = None
    is_leader: bool = False
    peers: str | None = None


class CleanBrokerData(Fields, frozen=True, kw_only=True):
    """Forget replicas.

    Attributes:
        broker_controller_ids_to_clean: ids with ";" between; None: the whole set.
        is_clean_living_broker: whether those that live are forgotten, too.
    """

    broker_controller_ids_to_clean: str | None = None
    broker_name: str
    cluster_name: str | None = None
    invoke_time: Long = 0
    is_clean_living_broker: bool = False


class NextBrokerId(Fields, frozen=True, kw_only=True):
    """The next id of a set that nobody has yet; it is not given with this answer."""

    broker_name: str | None = None
    cluster_name: str | None = None
    next_broker_id: Long


class ApplyBrokerId(Fields, frozen=True, kw_only=True):
    """A replica takes an id.

    Attributes:
        register_check_code: whoever repeats the request with the same one gets the same answer.
    """

    applied_broker_id: Long
    broker_name: str
    cluster_name: str
    register_check_code: str


class ControllerHeartbeat(Fields, frozen=True, kw_only=True):
    """A replica lives.

    Attributes:
        broker_id: without it the controller answers INVALID_REQUEST.
        epoch: the last epoch of its log; -1: there is none.
        heartbeat_timeout_mills: silence of more than that means that it is dead; None: 10 s.
    """

    broker_addr: str
    broker_id: Long | None = None
    broker_name: str
    cluster_name: str
    confirm_offset: Long | None = None
    election_priority: Int | None = None
    epoch: Int | None = None
    heartbeat_timeout_mills: Long | None = None
    max_offset: Long | None = None


class RoleChange(Fields, frozen=True, kw_only=True):
    """A controller tells a replica who is master now; no id: nobody."""

    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None


class BrokerHaInfo(Fields, frozen=True, kw_only=True):
    """Where the slaves of a master reach it; a slave's answer is empty.

    Attributes:
        master_flush_offset: of no use: 0, or far behind.
    """

    master_address: str | None = None
    master_flush_offset: Long | None = None
    master_ha_address: str | None = None


class SyncStateSet(Body, frozen=True):
    """The replicas that hold all that is acknowledged, and the number of the set's last change."""

    sync_state_set: tuple[Long, ...] = always(())
    sync_state_set_epoch: Int = always(0)


class ElectMasterResponseBody(Body, frozen=True):
    """Who has to know of an election; no group: nobody was elected anew."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: tuple[Long, ...] = always(())


class ReplicaIdentity(Body, frozen=True):
    """A replica, and whether the controller believes that it lives."""

    alive: bool = always(False)
    broker_address: str | None = None
    broker_id: Long | None = None
    broker_name: str | None = None


class ReplicasInfo(Body, frozen=True):
    """A set: its master, and the replicas in and out of the sync state set."""

    in_sync_replicas: tuple[ReplicaIdentity, ...] = always(())
    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int = always(0)
    not_in_sync_replicas: tuple[ReplicaIdentity, ...] = always(())
    sync_state_set_epoch: Int = always(0)


class BrokerReplicasInfo(Body, frozen=True):
    """Sets by name."""

    replicas_info_table: dict[str, ReplicasInfo] = always({})


class EpochEntry(Body, frozen=True):
    """An epoch of a broker's log, in bytes; OFFSET_MAX as its end: it is the present one."""

    end_offset: Long = always(OFFSET_MAX)
    epoch: Int = always(0)
    start_offset: Long = always(0)


class EpochEntryCache(Body, frozen=True):
    """A broker's history, oldest epoch first, and the end of its log."""

    broker_id: Long = always(0)
    broker_name: str | None = None
    cluster_name: str | None = None
    epoch_list: tuple[EpochEntry, ...] = always(())
    max_offset: Long = always(0)


decode_sync_state_set = BodyDecoder(SyncStateSet).decode
decode_elect_master = BodyDecoder(ElectMasterResponseBody).decode
decode_replicas_info = BodyDecoder(BrokerReplicasInfo).decode
decode_epoch_cache = BodyDecoder(EpochEntryCache).decode
decode_names = BodyDecoder(tuple[str, ...]).decode
