"""The entries of a controller's replicated log: what changed in the broker sets.

Upstream: apache/rocketmq, controller/.../impl/event/{EventType,EventSerializer}.java and the events
beside them, 5.3.3; autoswitch-ha.md 7.2. An entry's body is the event's type, a big-endian short,
and the event as JSON. A new leader appends an empty body.

| Type | Event                 | What it does                                                    |
|------|-----------------------|-----------------------------------------------------------------|
| 1    | `AlterSyncStateSet`   | replaces the sync state set, whose epoch grows by one           |
| 2    | `ApplyBrokerId`       | gives a replica its id, and makes the broker set if it is new   |
| 3    | `ElectMaster`         | names the master, or that there is none; the epoch grows by one |
| 4    | READ                  | never written                                                   |
| 5    | `CleanBrokerData`     | forgets replicas; without ids the whole broker set              |
| 6    | `UpdateBrokerAddress` | replaces a replica's address                                    |

Differs: bytes between the type and the JSON, and an `eventType` other than the type's, are refused.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final, Literal, TypeAlias

from wire.broker.dialect import Body, BodyDecoder, encode_body
from wire.errors import RemoteProtocolError
from wire.remoting.tolerant_json import Long, always

_TYPE = struct.Struct(">h")


class AlterSyncStateSet(Body, frozen=True, kw_only=True):
    """The sync state set becomes `new_sync_state_set`, which has ids in ascending order."""

    TYPE: ClassVar[int] = 1
    broker_name: str
    event_type: Literal["ALTER_SYNC_STATE_SET_EVENT"] = always("ALTER_SYNC_STATE_SET_EVENT")
    new_sync_state_set: tuple[Long, ...] = always(())


class ApplyBrokerId(Body, frozen=True, kw_only=True):
    """The replica at `broker_address` gets the id `new_broker_id`."""

    TYPE: ClassVar[int] = 2
    broker_address: str
    broker_name: str
    cluster_name: str
    event_type: Literal["APPLY_BROKER_ID_EVENT"] = always("APPLY_BROKER_ID_EVENT")
    new_broker_id: Long
    register_check_code: str


class ElectMaster(Body, frozen=True, kw_only=True):
    """`new_master_broker_id` becomes master, or no replica if `new_master_elected` is false."""

    TYPE: ClassVar[int] = 3
    broker_name: str
    event_type: Literal["ELECT_MASTER_EVENT"] = always("ELECT_MASTER_EVENT")
    new_master_broker_id: Long | None = None
    new_master_elected: bool = always(False)


class CleanBrokerData(Body, frozen=True, kw_only=True):
    """These replicas are removed, or the whole broker set if there are none."""

    TYPE: ClassVar[int] = 5
    broker_id_set_to_clean: tuple[Long, ...] | None = None
    broker_name: str
    event_type: Literal["CLEAN_BROKER_DATA_EVENT"] = always("CLEAN_BROKER_DATA_EVENT")


class UpdateBrokerAddress(Body, frozen=True, kw_only=True):
    """A replica gets another address."""

    TYPE: ClassVar[int] = 6
    broker_address: str
    broker_id: Long
    broker_name: str
    cluster_name: str
    event_type: Literal["UPDATE_BROKER_ADDRESS"] = always("UPDATE_BROKER_ADDRESS")


ControllerEvent: TypeAlias = (
    AlterSyncStateSet | ApplyBrokerId | ElectMaster | CleanBrokerData | UpdateBrokerAddress
)

_DECODERS: Final[dict[int, BodyDecoder[ControllerEvent]]] = {
    1: BodyDecoder(AlterSyncStateSet),
    2: BodyDecoder(ApplyBrokerId),
    3: BodyDecoder(ElectMaster),
    5: BodyDecoder(CleanBrokerData),
    6: BodyDecoder(UpdateBrokerAddress),
}


def encode_event(event: ControllerEvent) -> bytes:
    """Encode the body of the entry.

    Raises:
        LocalProtocolError: a value cannot be written.
    """
    return _TYPE.pack(event.TYPE) + encode_body(event)


def decode_event(body: bytes) -> ControllerEvent | None:
    """Decode the event of an entry, or return None for a body without bytes.

    Raises:
        RemoteProtocolError: the body is no such event.
    """
    if not body:
        return None
    if len(body) < _TYPE.size:
        raise RemoteProtocolError("an event of a controller begins with its type, two bytes")
    (kind,) = _TYPE.unpack_from(body)
    if kind not in _DECODERS:
        raise RemoteProtocolError(f"a controller has no event of type {kind}")
    return _DECODERS[kind].decode(body[_TYPE.size :])
