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


@attrs.frozen
class Key:
    """One key of a properties file.

    Attributes:
        name: the key's name in the file.
        kind: how its values are read, and their range.
        new, old: its default in 5.3.3, and in 4.9.8 where that is another one; NO_DEFAULT: it has
            none, or is not known there.
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
    new: str = NO_DEFAULT
    old: str = attrs.field(default=attrs.Factory(lambda key: key.new, takes_self=True))
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
    Key("brokerClusterName", WORD, new="DefaultCluster", does="the cluster's name", of_node=True),
    Key(
        "brokerName",
        WORD,
        new="the host's name",
        does="the group, and with brokerId the node",
        of_node=True,
    ),
    Key(
        "brokerId", Integer(0), new="0", does="0 is the master's, others are slaves'", of_node=True
    ),
    Key(
        "brokerRole",
        Choice(tuple(ROLES)),
        new="ASYNC_MASTER",
        does="who is master, and what an append waits for",
        of_node=True,
    ),
    Key(
        "brokerIP1",
        HostAddress(),
        new="a local address",
        does="the node's address; where brokerIP2 says another, clients are told this one, and"
        " listenPort is open there, too, if its machine has it",
        of_node=True,
    ),
    Key(
        "brokerIP2",
        HostAddress(),
        new="a local address",
        does="the node's address: it listens there, connects from there, and slaves are told it",
        of_node=True,
    ),
    Key(
        "namesrvAddr",
        Servers(),
        does="namesrv_addr: all of the cluster register there, names resolved at each attempt; a"
        " slave follows the Java master that they name, from haMasterAddress on",
        of_node=True,
    ),
    Key(
        "listenPort",
        Integer(VIP_PORT_OFFSET + 1, bounds.PORT_MAX - HA_PORT_OFFSET),
        new="10911",
        does="where all of the group answer for topics, offsets and consumer groups, as the"
        " master's file says, or a lone slave's; haListenPort is one more, unless it is given",
        of_node=True,
    ),
    Key(
        "haListenPort",
        Integer(1, bounds.PORT_MAX),
        new="listenPort + 1",
        old="listenPort + 1, whatever is given",
        does="where a master takes slaves; a slave that is promoted listens on its master's",
        of_node=True,
    ),
    Key(
        "haMasterAddress",
        HostAndPort(),
        does="a slave's master, where the master's file is not given too; a host name is resolved"
        " at each attempt to connect",
        of_node=True,
    ),
    Key(
        "triolog.masterPort",
        Integer(VIP_PORT_OFFSET + 1, bounds.PORT_MAX),
        does="a lone slave's master has this listenPort; not given: haMasterAddress's port less 1",
    ),
    Key(
        "triolog.slaves",
        HostAddresses(),
        does="a master takes slaves that other machines run, RocketMQ's or ours, from there",
        of_node=True,
    ),
    Key("triolog.peers", HostAddresses(), sets="broker_peers", convert=list),
    Key(
        "triolog.apiPort",
        Integer(1, bounds.PORT_MAX),
        does="api_port: our nodes on different machines ask each other there",
        of_node=True,
    ),
)
"""Who it is, and where it is found."""


_OF_COPIES: Final = (
    Key(
        "haSlaveFallbehindMax",
        _GAP,
        old="268435456",
        does="the lag from which a slave is not in sync; SYNC_MASTER: answers as 4.x does,"
        " unless a key of 5.x is given",
    ),
    Key(
        "haMaxGapNotInSync",
        _GAP,
        new="268435456",
        old=NO_DEFAULT,
        sets="ha_max_gap_not_in_sync_bytes",
    ),
    Key(
        "syncFlushTimeout",
        MILLISECONDS,
        new="5000",
        does="SYNC_FLUSH: how long an append waits for its sync",
    ),
    Key(
        "slaveTimeout",
        MILLISECONDS,
        new="3000",
        does="SYNC_MASTER: how long an append waits for its copies",
    ),
    Key(
        "putMessageTimeout",
        MILLISECONDS,
        new="8000",
        old=NO_DEFAULT,
        does="the longest that an append waits for either",
    ),
    Key("totalReplicas", _REPLICAS, new="1", old=NO_DEFAULT, does="bounds inSyncReplicas"),
    Key(
        "inSyncReplicas",
        _REPLICAS,
        new="1",
        old=NO_DEFAULT,
        does="SYNC_MASTER: nodes that have an append before it is answered, as 5.x counts",
    ),
    Key(
        "minInSyncReplicas",
        _REPLICAS,
        new="1",
        old=NO_DEFAULT,
        does="SYNC_MASTER: the least of them where their number follows who is in sync",
    ),
    Key(
        "enableAutoInSyncReplicas",
        SWITCH,
        new="false",
        old=NO_DEFAULT,
        does="SYNC_MASTER: wait for no more nodes than are in sync",
    ),
    Key(
        "allAckInSyncStateSet",
        SWITCH,
        new="false",
        old=NO_DEFAULT,
        does="SYNC_MASTER: wait for all nodes that are in sync",
    ),
    Key(
        "enableSlaveActingMaster",
        SWITCH,
        new="false",
        old=NO_DEFAULT,
        does="SYNC_MASTER: refuse an append, nothing written, while too few are in sync",
    ),
    Key(
        "flushDiskType",
        Choice(("ASYNC_FLUSH", "SYNC_FLUSH")),
        new="ASYNC_FLUSH",
        sets="durability",
        convert={"ASYNC_FLUSH": "written", "SYNC_FLUSH": "synced"}.__getitem__,
    ),
    Key(
        "duplicationEnable",
        SWITCH,
        new="false",
        does="nothing: what is received is dispatched and sent on either way",
        acts=False,
    ),
)
"""What an append waits for."""


_OF_CONNECTIONS: Final = (
    Key(
        "haSendHeartbeatInterval",
        MILLISECONDS,
        new="5000",
        sets="ha_send_heartbeat_interval_s",
        convert=_seconds,
    ),
    Key(
        "haHousekeepingInterval",
        MILLISECONDS,
        new="20000",
        sets="ha_housekeeping_interval_s",
        convert=_seconds,
    ),
    Key(
        "haTransferBatchSize",
        Integer(int(bounds.FRAME.low), int(bounds.FRAME.high), "bytes"),
        new="32768",
        sets="frame_bytes",
    ),
    Key(
        "haFlowControlEnable",
        SWITCH,
        new="false",
        old=NO_DEFAULT,
        does="whether maxHaTransferByteInSecond limits each connection",
    ),
    Key(
        "maxHaTransferByteInSecond",
        Integer(1, int(bounds.RATE.high), "bytes"),
        new="104857600",
        old=NO_DEFAULT,
        does="haFlowControlEnable: the limit of each connection, heads and bodies",
    ),
    Key(
        "haMaxTimeSlaveNotCatchup",
        Only(Integer(1, 86_400_000, "ms"), 15_000, _CONTROLLER),
        new="15000",
        old=NO_DEFAULT,
        does="as without a controller: nothing else is taken",
    ),
    *(
        Key(
            name,
            Only(SWITCH, False, _CONTROLLER),
            new="false",
            old=NO_DEFAULT,
            does="as without a controller: nothing else is taken",
        )
        for name in ("syncFromLastFile", "asyncLearner", "syncMasterFlushOffsetWhenStartup")
    ),
    Key(
        "slaveReadEnable",
        SWITCH,
        new="false",
        does="readers of ours read from every node, true or false",
        later="no RocketMQ consumer is served",
    ),
)
"""How masters and slaves speak."""


_OF_STORE: Final = (
    Key(
        "storePathRootDir",
        Folder(),
        new="~/store",
        does="the store, opened where it is; our own of the node is in triolog/ there",
        of_node=True,
    ),
    Key(
        "storePathCommitLog",
        Folder(),
        new="commitlog in storePathRootDir",
        does="the commit log, opened where it is",
        of_node=True,
    ),
    Key("mappedFileSizeCommitLog", _SEGMENT, new="1073741824", sets="segment_bytes"),
    Key(
        "mappedFileSizeConsumeQueue",
        Integer(1, int(bounds.CONSUME_QUEUE.high), "bytes"),
        new="6000000",
        sets="consume_queue_bytes",
        convert=_whole_units,
    ),
    Key(
        "maxHashSlotNum",
        Integer(int(bounds.INDEX_COUNT.low), int(bounds.INDEX_COUNT.high)),
        new="5000000",
        sets="index_slots_count",
    ),
    Key(
        "maxIndexNum",
        Integer(int(bounds.INDEX_COUNT.low), int(bounds.INDEX_COUNT.high)),
        new="20000000",
        sets="index_units_count",
    ),
    Key(
        "maxMessageSize",
        Integer(1, int(bounds.MESSAGE.high), "bytes"),
        new="4194304",
        sets="max_message_bytes",
    ),
    Key("messageDelayLevel", DELAYS, new=DELAY_LEVELS, sets="message_delay_level"),
    Key(
        "flushIntervalCommitLog", MILLISECONDS, new="500", sets="flush_interval_s", convert=_seconds
    ),
    Key(
        "flushCommitLogLeastPages",
        Integer(0, int(bounds.PAGES.high), "pages of 4 KiB"),
        new="4",
        sets="flush_least_pages",
    ),
    Key(
        "flushCommitLogThoroughInterval",
        MILLISECONDS,
        new="10000",
        sets="flush_thorough_interval_s",
        convert=_seconds,
    ),
    Key(
        "transientStorePoolEnable",
        SWITCH,
        new="false",
        does="nothing: what is written is in the page cache, never in a pool that a kill loses",
        acts=False,
    ),
    Key("checkCRCOnRecover", SWITCH, new="true", sets="check_crc_on_recover"),
    Key(
        "fileReservedTime",
        Integer(1, int(bounds.HOURS.high), "hours"),
        new="72",
        sets="file_reserved_time_h",
    ),
    Key("deleteWhen", HoursOfDay(), new="04", sets="delete_when_hours", convert=list),
    Key(
        "diskMaxUsedSpaceRatio",
        Integer(10, 95, "per cent"),
        new="75",
        sets="disk_max_used_ratio",
        convert=_ratio,
    ),
    Key(
        "cleanResourceInterval",
        MILLISECONDS,
        new="10000",
        sets="clean_resource_interval_s",
        convert=_seconds,
    ),
    Key(
        "accessMessageInMemoryMaxRatio",
        Integer(1, 100, "per cent"),
        new="40",
        does="nothing: readers are never sent to another broker",
        acts=False,
    ),
    Key(
        "enableDLegerCommitLog",
        Only(SWITCH, False, "a DLedger group has a cluster file, examples/among_brokers.toml"),
        new="false",
        does="a classic group's: nothing else is taken",
    ),
    Key(
        "enableControllerMode",
        Only(SWITCH, False, _CONTROLLER),
        new="false",
        old=NO_DEFAULT,
        does="as without a controller: nothing else is taken",
    ),
    Key("triolog.storeVersion", VERSION, sets="store_version"),
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
