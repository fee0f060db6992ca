"""A group with `mode = "autoswitch"` as a frozen class: replicas of which controllers elect one.

Upstream: apache/rocketmq 5.3.3, `common/.../BrokerConfig.java`, `common/.../ControllerConfig.java`
and `store/.../config/MessageStoreConfig.java` with enableControllerMode.
Differs: an answered append is on every replica of the sync state set, by default; upstream's
defaults answer once the master alone has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs

from actors.config import bounds
from actors.config.bounds import INTERVAL
from actors.config.commit_log_group import CommitLogGroup, in_order
from actors.config.group import ConfiguredRole, ElectionTimes

_REPLICA: Final = ConfiguredRole(name="replica", listens=True, appends=True, receives=True)
NOT_CATCHUP_S: Final = 15.0
HEARTBEAT_TIMEOUT_S: Final = 10.0


def _default_least(group: Any) -> int | None:
    count = len(group.voters)
    return {1: 1, 2: None}.get(count, 2)


def _mapping(values: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(values))


@attrs.frozen(kw_only=True, field_transformer=in_order("name"))
class AutoSwitchGroup(CommitLogGroup):
    """`[groups.NAME]` with `mode = "autoswitch"`: a broker set whose controllers elect its master.

    Attributes:
        mode: "autoswitch".
        members: the nodes of this file that are replicas of the set; each may become master. Java
            brokers of the set are not named: its controllers know them.
        learners: members that copy the log and are never elected, nor counted. Upstream:
            asyncLearner.
        broker_port: where controllers, clients and other replicas reach a replica; "HOST:PORT" of
            it names it at the controllers. Upstream: listenPort, 10911.
        controllers: where the controllers are, "HOST:PORT" each; none: those of `[controllers]` in
            the same file. Upstream: controllerAddr.
        all_ack_in_sync_state_set: an append is answered once all replicas of the sync state set
            have it. Upstream: allAckInSyncStateSet, false.
        in_sync_replicas: without that: nodes that hold an append, the master included; which is
            less than a switch keeps. Upstream: inSyncReplicas, 1.
        min_in_sync_replicas: while fewer replicas are in the set, appends are refused. Default 2
            with three replicas or more that are no learners. With two it has to be stated: 1 goes
            on alone, and may lose with the master what it answered alone; 2 stops when one is gone
            (upstream: minInSyncReplicas, 1).
        ha_max_time_slave_not_catchup_s: a replica that was behind for longer leaves the set
            (upstream: haMaxTimeSlaveNotCatchup, 15 s).
        controller_heart_beat_timeout_s: a replica that is silent for longer counts as dead, and a
            master that no controller has answered for so long acknowledges nothing. Upstream:
            controllerHeartBeatTimeoutMills, 10 s.
        sync_from_last_file: whether an empty replica begins with the master's last file. Upstream:
            syncFromLastFile.
        election_priority: node -> number. Of replicas of the set with equally long logs the lowest
            is elected; a replica without a number comes last. Upstream: brokerElectionPriority.
        present_master: the member that is master now; no key of the file. "": none of them is.
    """

    mode: Literal["autoswitch"] = "autoswitch"
    members: tuple[str, ...]
    learners: tuple[str, ...] = ()
    port: int = attrs.field(default=10_912, validator=bounds.PORT)
    broker_port: int = attrs.field(default=10_911, validator=bounds.BROKER_PORT)
    controllers: tuple[str, ...] = attrs.field(default=(), validator=bounds.EACH_ENDPOINT)
    all_ack_in_sync_state_set: bool = True
    in_sync_replicas: int = attrs.field(default=1, validator=bounds.NODES)
    min_in_sync_replicas: int | None = attrs.field(
        default=attrs.Factory(_default_least, takes_self=True),
        validator=attrs.validators.optional(bounds.NODES),
    )
    ha_max_time_slave_not_catchup_s: float = attrs.field(default=NOT_CATCHUP_S, validator=INTERVAL)
    controller_heart_beat_timeout_s: float = attrs.field(
        default=HEARTBEAT_TIMEOUT_S, validator=INTERVAL
    )
    sync_from_last_file: bool = False
    election_priority: Mapping[str, int] = attrs.field(
        factory=dict, converter=_mapping, hash=False, validator=bounds.EACH_PRIORITY
    )
    present_master: str = attrs.field(default="", metadata=bounds.NO_KEY)

    @property
    def voters(self) -> tuple[str, ...]:
        """The members that may be in the sync state set."""
        return tuple(each for each in self.members if each not in self.learners)

    @property
    def master(self) -> str:
        """The member that is master now; "": none of them is."""
        return self.present_master

    @property
    def follows_java(self) -> bool:
        """Whether its master is no member: a Java broker of the set."""
        return self.present_master not in ("", *self.members)

    def led_by(self, node: str) -> AutoSwitchGroup:
        """The same group with this master, which may be no member."""
        return attrs.evolve(self, present_master=node)

    @property
    def least_in_sync(self) -> int:
        """Replicas that have to be in the set for an append."""
        return self.min_in_sync_replicas or 1  # a file states it

    @property
    def sure_copies(self) -> int:
        """Nodes that hold whatever was answered, at least, the master included."""
        return self.least_in_sync if self.all_ack_in_sync_state_set else self.in_sync_replicas

    @property
    def as_upstream(self) -> bool:
        """Whether an election may take back what was answered."""
        return not self.all_ack_in_sync_state_set

    @property
    def broker_ports(self) -> tuple[int, ...]:
        """Listen port and, 2 below, what clients call its VIP channel."""
        return (self.broker_port, self.broker_port - 2)

    @property
    def election(self) -> ElectionTimes:
        """A silent master is replaced once it has been silent for the announced time."""
        silence_s = self.controller_heart_beat_timeout_s
        return ElectionTimes(missed_after_s=silence_s, campaign_max_s=ELECTION_MAX_S)

    def role_of(self, node: str) -> ConfiguredRole:
        """A replica: any may become master."""
        return _REPLICA


ELECTION_MAX_S: Final = 2.0
"""How long controllers may take to elect once they know that a master is dead: they look at who
lives, commit the decision, and tell it."""
