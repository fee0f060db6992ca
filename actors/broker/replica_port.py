"""What a replica of an auto-switch group answers at its broker's port, beside what all brokers do.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java (getBrokerEpochCache,
notifyBrokerRoleChanged, exchangeBrokerHaInfo), 5.3.3; autoswitch-ha.md 7.3.

| Code | Request                    | Answer                                                     |
|------|----------------------------|------------------------------------------------------------|
| 906  | EXCHANGE_BROKER_HA_INFO    | of a master where it serves its log; a slave's is empty    |
| 1007 | GET_BROKER_EPOCH_CACHE     | the history of the log                                     |
| 1008 | NOTIFY_BROKER_ROLE_CHANGED | none is sent                                               |

Differs: 1008 is believed from an address of the controllers only. From any other the replica asks
the controllers, and does not go by what it was told. What a slave says of itself with 906 is not
used, as controllers tell who is master.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from actors.broker.replicas_manager import RoleTold
from actors.config.bounds import Mismatch, endpoint_of
from actors.env.protocols import Address
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.ha.autoswitch.messages import LookNow
from actors.remoting.requests import Answer, Processor, Request
from actors.runtime import ActorRef
from wire.broker import controller as said
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import encode_body
from wire.broker.registration import MASTER_ID
from wire.files.epoch_file import OFFSET_MAX
from wire.remoting.header import write_fields

NOT_OPEN: Final = "the log is being opened"


@attrs.frozen(kw_only=True)
class TakenRole:
    """The role by which a group's tree was built.

    Attributes:
        cluster: upstream's brokerClusterName.
        broker_id: the id that the controllers gave this replica.
        epoch: of the role.
        controllers: where they are, "HOST:PORT".
        registered: returns where brokers and clients reach each replica of the set, by its id; on
            a master.
        epochs: the history of the log.
    """

    cluster: str
    broker_id: int
    epoch: int
    controllers: tuple[str, ...]
    registered: Callable[[], Mapping[int, str]]
    epochs: EpochsView
    manager: ActorRef[RoleTold | LookNow]


@attrs.define(kw_only=True)
class ReplicaPort:
    """See the module's text.

    Attributes:
        broker: upstream's brokerName.
        broker_at, ha_at: where others reach this replica's two ports.
        processors: the processor of each request code.
    """

    role: TakenRole
    is_master: bool
    broker: str
    broker_at: Address
    ha_at: Address
    processors: dict[int, Processor] = attrs.field(init=False)
    _controllers: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._controllers = frozenset(map(_host, self.role.controllers))
        self.processors = {
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._ha_info,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._role_changed,
        }

    def may_connect(self, host: str) -> bool:
        """Return whether an address is a controller's or a registered replica's."""
        return host in self._controllers or host in map(_host, self.role.registered().values())

    def _ha_info(self, request: Request) -> Answer:
        if not self.is_master:
            return Answer(ext_fields={})
        found = said.BrokerHaInfo(
            master_address=str(self.broker_at),
            master_flush_offset=self.role.epochs.mark.offset_bytes,
            master_ha_address=str(self.ha_at),
        )
        return Answer(ext_fields=write_fields(found))

    def _epochs(self, request: Request) -> Answer:
        view = self.role.epochs
        if view.store is None:
            return Answer(code=ResponseCode.SYSTEM_ERROR, remark=NOT_OPEN)
        history = [each for each in view.history if each.number > 0]
        ends = [*(each.start_bytes for each in history[1:]), OFFSET_MAX]
        found = said.EpochEntryCache(
            broker_id=MASTER_ID if self.is_master else self.role.broker_id,
            broker_name=self.broker,
            cluster_name=self.role.cluster,
            epoch_list=tuple(
                said.EpochEntry(
                    end_offset=end_bytes, epoch=each.number, start_offset=each.start_bytes
                )
                for each, end_bytes in zip(history, ends, strict=False)
            ),
            max_offset=view.end_bytes,
        )
        return Answer(body=encode_body(found))

    def _role_changed(self, request: Request) -> Answer:
        manager = self.role.manager
        if request.channel.address.host not in self._controllers:
            manager.offer(LookNow())
            return Answer()
        change = request.fields(said.RoleChange)
        body = request.body
        in_sync = said.decode_sync_state_set(body) if body else said.SyncStateSet()
        manager.offer(RoleTold(change, in_sync))
        return Answer()


def _host(endpoint: str) -> str:
    try:
        return endpoint_of(endpoint)[0]
    except Mismatch:  # a controller may tell an address that is none
        return ""
