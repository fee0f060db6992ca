"""Every key of a broker's properties that we know: its values, its defaults, what it sets here.

Upstream: apache/rocketmq, common/.../BrokerConfig.java, remoting/.../NettyServerConfig.java and
store/.../config/MessageStoreConfig.java, 4.9.8 and 5.3.3; classic-ha.md 6.
Differs: a key that is not given has our cluster file's default, which is upstream's but for
haTransferBatchSize (ours sends larger frames), the pages that may wait for a sync (none of ours do)
and SYNC_MASTER (ours waits for a slave: T13). Keys that begin with `triolog.` are ours; a broker,
which finds no field of such a name, passes over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from actors.config import bounds
from actors.config.bounds import Mismatch
from actors.config.brokerconf.values import (
    DELAYS,
    MILLISECONDS,
    ROLES,
    SWITCH,
    VERSION,
    WORD,
    Choice,
    Folder,
    HostAddress,
    HostAddresses,
    HostAndPort,
    HoursOfDay,
    Integer,
    Kind,
    Only,
    Servers,
)
from wire.files.properties import DELAY_LEVELS

NO_DEFAULT: Final = "-"
HA_PORT_OFFSET: Final = 1
"""haListenPort is listenPort and this, where it is not given."""
LISTEN_PORT: Final = 10_911
VIP_PORT_OFFSET: Final = 2
"""A broker listens at listenPort less this, too."""
_REPLICAS: Final = Integer(1, bounds.NODES_MAX, "nodes")
_GAP: Final = Integer(1, 1 << 62, "bytes")
_SEGMENT: Final = Integer(4096, bounds.SEGMENT_BYTES_MAX, "bytes", step=bounds.SEGMENT.step)
_CONTROLLER: Final = "another value is for a controller's brokers, auto-switch HA"
_FORCED_RATIO: Final = 0.85
"""disk_clean_forcibly_ratio's default: above it the oldest files go anyway."""


def _same(value: Any) -> Any:
    return value


def _seconds(value_ms: int) -> float:
    return value_ms / 1000


def _whole_units(value: int) -> int:
    """As upstream: up to a whole number of a queue's units."""
    unit = bounds.CONSUME_QUEUE_UNIT_BYTES
    return -(-value // unit) * unit


def _ratio(percent: int) -> float:
    return min(percent / 100, _FORCED_RATIO)


@attrs.frozen(kw_only=True)
class Key:
    """One key of a properties file.

    Attributes:
        name: the key's name in the file.
        kind: how its values are read, and their range.
        old, new: its default in 4.9.8 and in 5.3.3; NO_DEFAULT: it has none, or is not known there.
        sets: the key of the group's table in a cluster file that has its value; "": it takes more
            than that (`does`).
        convert: its value -> that of `sets`.
        does: for people: what it does here, beside setting a key.
        acts: False: it is read, checked and without any effect.
        later: for people: what of it waits for a part that is not there yet.
        of_node: each broker has its own value; of all other keys the group has its master's.
    """

    name: str
    kind: Kind
    old: str = NO_DEFAULT
    new: str = NO_DEFAULT
    sets: str = ""
    convert: Callable[[Any], Any] = _same
    does: str = ""
    acts: bool = True
    later: str = ""
    of_node: bool = False

    @property
    def default(self) -> Any:
        """Upstream's, read; None: it has none, or it depends on the machine."""
        for text in (self.new, self.old):
            try:
                return self.kind.read(text)
            except Mismatch:
                continue
        return None


_OF_BROKER: Final = (
    Key(
        name="brokerClusterName",
        kind=WORD,
        old="DefaultCluster",
        new="DefaultCluster",
        does="the cluster's name",
        of_node=True,
    ),
    Key(
        name="brokerName",
        kind=WORD,
        old="the host's name",
        new="the host's name",
        does="the group, and with brokerId the node",
        of_node=True,
    ),
    Key(
        name="brokerId",
        kind=Integer(0),
        old="0",
        new="0",
        does="0 is the master's, others are slaves'",
        of_node=True,
    ),
    Key(
        name="brokerRole",
        kind=Choice(tuple(ROLES)),
        old="ASYNC_MASTER",
        new="ASYNC_MASTER",
        does="who is master, and what an append waits for",
        of_node=True,
    ),
    Key(
        name="brokerIP1",
        kind=HostAddress(),
        old="a local address",
        new="a local address",
        does="the node's address; where brokerIP2 says another, clients are told this one, and"
        " listenPort is open there, too, if its machine has it",
        of_node=True,
    ),
    Key(
        name="brokerIP2",
        kind=HostAddress(),
        old="a local address",
        new="a local address",
        does="the node's address: it listens there, connects from there, and slaves are told it",
        of_node=True,
    ),
    Key(
        name="namesrvAddr",
        kind=Servers(),
        does="namesrv_addr: all of the cluster register there, names resolved at each attempt; a"
        " slave follows the Java master that they name, from haMasterAddress on",
        of_node=True,
    ),
    Key(
        name="listenPort",
        kind=Integer(VIP_PORT_OFFSET + 1, bounds.PORT_MAX - HA_PORT_OFFSET),
        old="10911",
        new="10911",
        does="where all of the group answer for topics, offsets and consumer groups, as the"
        " master's file says, or a lone slave's; haListenPort is one more, unless it is given",
        of_node=True,
    ),
    Key(
        name="haListenPort",
        kind=Integer(1, bounds.PORT_MAX),
        old="listenPort + 1, whatever is given",
        new="listenPort + 1",
        does="where a master takes slaves; a slave that is promoted listens on its master's",
        of_node=True,
    ),
    Key(
        name="haMasterAddress",
        kind=HostAndPort(),
        does="a slave's master, where the master's file is not given too; a host name is resolved"
        " at each attempt to connect",
        of_node=True,
    ),
    Key(
        name="triolog.masterPort",
        kind=Integer(VIP_PORT_OFFSET + 1, bounds.PORT_MAX),
        does="a lone slave's master has this listenPort; not given: haMasterAddress's port less 1",
    ),
    Key(
        name="triolog.slaves",
        kind=HostAddresses(),
        does="a master takes slaves that other machines run, RocketMQ's or ours, from there",
        of_node=True,
    ),
    Key(
        name="triolog.peers",
        kind=HostAddresses(),
        sets="broker_peers",
        convert=list,
    ),
    Key(
        name="triolog.apiPort",
        kind=Integer(1, bounds.PORT_MAX),
        does="api_port: our nodes on different machines ask each other there",
        of_node=True,
    ),
)
"""Who it is, and where it is found."""


_OF_COPIES: Final = (
    Key(
        name="haSlaveFallbehindMax",
        kind=_GAP,
        old="268435456",
        does="the lag from which a slave is not in sync; SYNC_MASTER: answers as 4.x does,"
        " unless a key of 5.x is given",
    ),
    Key(
        name="haMaxGapNotInSync",
        kind=_GAP,
        new="268435456",
        sets="ha_max_gap_not_in_sync_bytes",
    ),
    Key(
        name="syncFlushTimeout",
        kind=MILLISECONDS,
        old="5000",
        new="5000",
        does="SYNC_FLUSH: how long an append waits for its sync",
    ),
    Key(
        name="slaveTimeout",
        kind=MILLISECONDS,
        old="3000",
        new="3000",
        does="SYNC_MASTER: how long an append waits for its copies",
    ),
    Key(
        name="putMessageTimeout",
        kind=MILLISECONDS,
        new="8000",
        does="the longest that an append waits for either",
    ),
    Key(name="totalReplicas", kind=_REPLICAS, new="1", does="bounds inSyncReplicas"),
    Key(
        name="inSyncReplicas",
        kind=_REPLICAS,
        new="1",
        does="SYNC_MASTER: nodes that have an append before it is answered, as 5.x counts",
    ),
    Key(
        name="minInSyncReplicas",
        kind=_REPLICAS,
        new="1",
        does="SYNC_MASTER: the least of them where their number follows who is in sync",
    ),
    Key(
        name="enableAutoInSyncReplicas",
        kind=SWITCH,
        new="false",
        does="SYNC_MASTER: wait for no more nodes than are in sync",
    ),
    Key(
        name="allAckInSyncStateSet",
        kind=SWITCH,
        new="false",
        does="SYNC_MASTER: wait for all nodes that are in sync",
    ),
    Key(
        name="enableSlaveActingMaster",
        kind=SWITCH,
        new="false",
        does="SYNC_MASTER: refuse an append, nothing written, while too few are in sync",
    ),
    Key(
        name="flushDiskType",
        kind=Choice(("ASYNC_FLUSH", "SYNC_FLUSH")),
        old="ASYNC_FLUSH",
        new="ASYNC_FLUSH",
        sets="durability",
        convert={"ASYNC_FLUSH": "written", "SYNC_FLUSH": "synced"}.__getitem__,
    ),
    Key(
        name="duplicationEnable",
        kind=SWITCH,
        old="false",
        new="false",
        does="nothing: what is received is dispatched and sent on either way",
        acts=False,
    ),
)
"""What an append waits for."""


_OF_CONNECTIONS: Final = (
    Key(
        name="haSendHeartbeatInterval",
        kind=MILLISECONDS,
        old="5000",
        new="5000",
        sets="ha_send_heartbeat_interval_s",
        convert=_seconds,
    ),
    Key(
        name="haHousekeepingInterval",
        kind=MILLISECONDS,
        old="20000",
        new="20000",
        sets="ha_housekeeping_interval_s",
        convert=_seconds,
    ),
    Key(
        name="haTransferBatchSize",
        kind=Integer(int(bounds.FRAME.low), int(bounds.FRAME.high), "bytes"),
        old="32768",
        new="32768",
        sets="frame_bytes",
    ),
    Key(
        name="haFlowControlEnable",
        kind=SWITCH,
        new="false",
        does="whether maxHaTransferByteInSecond limits each connection",
    ),
    Key(
        name="maxHaTransferByteInSecond",
        kind=Integer(1, int(bounds.RATE.high), "bytes"),
        new="104857600",
        does="haFlowControlEnable: the limit of each connection, heads and bodies",
    ),
    Key(
        name="haMaxTimeSlaveNotCatchup",
        kind=Only(Integer(1, 86_400_000, "ms"), 15_000, _CONTROLLER),
        new="15000",
        does="as without a controller: nothing else is taken",
    ),
    *(
        Key(
            name=name,
            kind=Only(SWITCH, False, _CONTROLLER),
            new="false",
            does="as without a controller: nothing else is taken",
        )
        for name in ("syncFromLastFile", "asyncLearner", "syncMasterFlushOffsetWhenStartup")
    ),
    Key(
        name="slaveReadEnable",
        kind=SWITCH,
        old="false",
        new="false",
        does="readers of ours read from every node, true or false",
        later="no RocketMQ consumer is served",
    ),
)
"""How masters and slaves speak."""


_OF_STORE: Final = (
    Key(
        name="storePathRootDir",
        kind=Folder(),
        old="~/store",
        new="~/store",
        does="the store, opened where it is; our own of the node is in triolog/ there",
        of_node=True,
    ),
    Key(
        name="storePathCommitLog",
        kind=Folder(),
        old="commitlog in storePathRootDir",
        new="commitlog in storePathRootDir",
        does="the commit log, opened where it is",
        of_node=True,
    ),
    Key(
        name="mappedFileSizeCommitLog",
        kind=_SEGMENT,
        old="1073741824",
        new="1073741824",
        sets="segment_bytes",
    ),
    Key(
        name="mappedFileSizeConsumeQueue",
        kind=Integer(1, int(bounds.CONSUME_QUEUE.high), "bytes"),
        old="6000000",
        new="6000000",
        sets="consume_queue_bytes",
        convert=_whole_units,
    ),
    Key(
        name="maxHashSlotNum",
        kind=Integer(int(bounds.INDEX_COUNT.low), int(bounds.INDEX_COUNT.high)),
        old="5000000",
        new="5000000",
        sets="index_slots_count",
    ),
    Key(
        name="maxIndexNum",
        kind=Integer(int(bounds.INDEX_COUNT.low), int(bounds.INDEX_COUNT.high)),
        old="20000000",
        new="20000000",
        sets="index_units_count",
    ),
    Key(
        name="maxMessageSize",
        kind=Integer(1, int(bounds.MESSAGE.high), "bytes"),
        old="4194304",
        new="4194304",
        sets="max_message_bytes",
    ),
    Key(
        name="messageDelayLevel",
        kind=DELAYS,
        old=DELAY_LEVELS,
        new=DELAY_LEVELS,
        sets="message_delay_level",
    ),
    Key(
        name="flushIntervalCommitLog",
        kind=MILLISECONDS,
        old="500",
        new="500",
        sets="flush_interval_s",
        convert=_seconds,
    ),
    Key(
        name="flushCommitLogLeastPages",
        kind=Integer(0, int(bounds.PAGES.high), "pages of 4 KiB"),
        old="4",
        new="4",
        sets="flush_least_pages",
    ),
    Key(
        name="flushCommitLogThoroughInterval",
        kind=MILLISECONDS,
        old="10000",
        new="10000",
        sets="flush_thorough_interval_s",
        convert=_seconds,
    ),
    Key(
        name="transientStorePoolEnable",
        kind=SWITCH,
        old="false",
        new="false",
        does="nothing: what is written is in the page cache, never in a pool that a kill loses",
        acts=False,
    ),
    Key(
        name="checkCRCOnRecover",
        kind=SWITCH,
        old="true",
        new="true",
        sets="check_crc_on_recover",
    ),
    Key(
        name="fileReservedTime",
        kind=Integer(1, int(bounds.HOURS.high), "hours"),
        old="72",
        new="72",
        sets="file_reserved_time_h",
    ),
    Key(
        name="deleteWhen",
        kind=HoursOfDay(),
        old="04",
        new="04",
        sets="delete_when_hours",
        convert=list,
    ),
    Key(
        name="diskMaxUsedSpaceRatio",
        kind=Integer(10, 95, "per cent"),
        old="75",
        new="75",
        sets="disk_max_used_ratio",
        convert=_ratio,
    ),
    Key(
        name="cleanResourceInterval",
        kind=MILLISECONDS,
        old="10000",
        new="10000",
        sets="clean_resource_interval_s",
        convert=_seconds,
    ),
    Key(
        name="accessMessageInMemoryMaxRatio",
        kind=Integer(1, 100, "per cent"),
        old="40",
        new="40",
        does="nothing: readers are never sent to another broker",
        acts=False,
    ),
    Key(
        name="enableDLegerCommitLog",
        kind=Only(SWITCH, False, "a DLedger group has a cluster file, examples/among_brokers.toml"),
        old="false",
        new="false",
        does="a classic group's: nothing else is taken",
    ),
    Key(
        name="enableControllerMode",
        kind=Only(SWITCH, False, _CONTROLLER),
        new="false",
        does="as without a controller: nothing else is taken",
    ),
    Key(name="triolog.storeVersion", kind=VERSION, sets="store_version"),
)
"""What lies on the disk, and for how long."""


KEYS: Final[Mapping[str, Key]] = {
    key.name: key for key in (*_OF_BROKER, *_OF_COPIES, *_OF_CONNECTIONS, *_OF_STORE)
}
"""By name."""
OLD_NAMES: Final[Mapping[str, str]] = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
}
"""As they were spelled up to 4.5.1."""
