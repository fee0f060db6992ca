"""One group's table of a cluster file, from its master's properties or from a lone slave's.

Upstream: what brokerRole, inSyncReplicas and their like mean for an append: classic-ha.md 3.2, 3.3.
Differs: SYNC_MASTER waits for a slave unless inSyncReplicas = 1 says that it does not (T13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from actors.config.bounds import is_address
from actors.config.brokerconf.brokers import Broker, master_of, node_name
from actors.config.brokerconf.keys import HA_PORT_OFFSET, KEYS, VIP_PORT_OFFSET

FIVE: Final = {
    "inSyncReplicas": "in_sync_replicas",
    "minInSyncReplicas": "min_in_sync_replicas",
    "enableAutoInSyncReplicas": "enable_auto_in_sync_replicas",
    "allAckInSyncStateSet": "all_ack_in_sync_state_set",
    "enableSlaveActingMaster": "enable_slave_acting_master",
    "totalReplicas": "",
}
"""What only 5.x has for SYNC_MASTER, and the key of a cluster file."""
SET_ALONE: Final = {key.sets: key.name for key in KEYS.values() if key.sets} | {
    key: name for name, key in FIVE.items() if key
}
"""Keys of a group in a cluster file that one property says, and which."""
PROPERTIES: Final = SET_ALONE | {
    "port": "haListenPort",
    "broker_port": "listenPort",
    "master_broker_port": "triolog.masterPort",
    "master": "haMasterAddress",
}
"""The same of keys that several say: the nearest."""
_COPIES: Final = 2
"""What SYNC_MASTER waits for where no key says more: the master and one slave."""
_WAITS: Final = {"syncFlushTimeout": 5000, "slaveTimeout": 3000}
_PUT_TIMEOUT: Final = "putMessageTimeout"
_GAP, _FALLBEHIND = "haMaxGapNotInSync", "haSlaveFallbehindMax"
FILE_SIZE: Final = "mappedFileSizeCommitLog"
MASTER_PORT: Final = "triolog.masterPort"
SEGMENT_BYTES: Final = 1 << 30
"""Its default."""


@attrs.define
class GroupTable:
    """A group, its nodes, and which property each of its keys comes from.

    Attributes:
        name: brokerName.
        decides: the broker whose file the group's keys come from: the master, or a lone slave.
        table: the group's table.
        others: the addresses of nodes that other machines run, by node.
        origins: key of the table -> the property behind it.
        notes, problems: one line each.
    """

    name: str
    decides: Broker
    table: dict[str, Any] = attrs.field(factory=dict)
    others: dict[str, str] = attrs.field(factory=dict)
    origins: dict[str, str] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    @classmethod
    def of(cls, name: str, brokers: Sequence[Broker]) -> GroupTable:
        """Args: brokers: all files of this group, at least one."""
        master = master_of(name, brokers)
        slaves = [each for each in brokers if not each.is_master]
        made = cls(name=name, decides=master or slaves[0])
        made.set("mode", "classic")
        if master is None:
            made.lone_slaves(slaves)
        else:
            made.members(master, slaves)
        made.plain_keys()
        made.waits()
        for slave in slaves:
            if slave is not made.decides:
                made.compare(slave)
        return made

    def set(self, key: str, value: Any, origin: str = "") -> None:
        """Args: origin: the property behind it."""
        self.table[key] = value
        if origin:
            self.origins[key] = origin

    # ---- who is in it ----

    def lone_slaves(self, slaves: Sequence[Broker]) -> None:
        """Slaves of a master that another machine runs, of which no more is known than where."""
        key, masters = "haMasterAddress", []
        for slave in slaves:
            found = slave.file.value(key)
            if found is None:
                hint = "or the master's file beside this one (--broker-conf)"
                self.problems.append(slave.file.problem(key, f"{KEYS[key].kind.expected}, {hint}"))
            else:
                masters.append((slave, found))
        for slave, found in masters[1:]:
            if found != masters[0][1]:
                before, (address, port) = masters[0][0].file, masters[0][1]
                expected = f"{address}:{port}, as {before.path} has it"
                self.problems.append(slave.file.problem(key, expected))
        address, port = masters[0][1] if masters else ("", 1)
        master = node_name(self.name, 0)
        self.others[master] = address
        self.set("master", {"node": master, "kind": "java"}, key)
        self.set("slaves", [each.node for each in slaves], "brokerId")
        self.set("port", port, key)
        derived = max(port - HA_PORT_OFFSET, VIP_PORT_OFFSET + 1)
        asked = self.decides.file.value(MASTER_PORT, derived)
        own = self.decides.file.value("listenPort", asked)
        self.set(
            "broker_port", own, "listenPort" if "listenPort" in self.decides.file.given else key
        )
        if own != asked:
            self.set("master_broker_port", asked, MASTER_PORT)
        self.same_listen_port(slaves, own)
        self.set("copies", 1, "brokerRole")  # its master decides

    def members(self, master: Broker, slaves: Sequence[Broker]) -> None:
        """A master, its slaves here, and those that its file names elsewhere."""
        file = master.file
        elsewhere = file.value("triolog.slaves", ())
        named = [
            {"node": f"{self.name}-slave{n}", "kind": "java"} for n in range(1, len(elsewhere) + 1)
        ]
        self.others |= {one["node"]: at for one, at in zip(named, elsewhere, strict=True)}
        self.set("master", master.node, "brokerRole")
        self.set("slaves", [*(each.node for each in slaves), *named], "triolog.slaves")
        is_given = "haListenPort" in file.given
        self.set("port", master.ha_port, "haListenPort" if is_given else "listenPort")
        self.set("broker_port", master.listen_port, "listenPort")
        for slave in slaves:
            wanted, found = (master.address, master.ha_port), slave.file.value("haMasterAddress")
            is_named = found is not None and not is_address(found[0])
            if found not in (None, wanted) and not (is_named and found[1] == wanted[1]):
                expected = f"{wanted[0]}:{wanted[1]}, where {file.path} has it"
                self.problems.append(slave.file.problem("haMasterAddress", expected))
        self.same_listen_port(slaves, master.listen_port)
        self.acknowledgement(master, slaves, counts_elsewhere=bool(elsewhere))

    def same_listen_port(self, slaves: Sequence[Broker], port: int) -> None:
        """All of a group have one."""
        for slave in slaves:
            if slave.file.value("listenPort", port) != port:
                text = f"not used: all of the group answer at {port}, {self.decides.file.path}'s"
                self.notes.append(slave.file.given["listenPort"].note(text))

    # ---- what an append waits for ----

    def acknowledgement(
        self, master: Broker, slaves: Sequence[Broker], *, counts_elsewhere: bool
    ) -> None:
        file = master.file
        five = [name for name in FIVE if name in file.given]
        if master.role != "SYNC_MASTER":
            self.set("copies", 1, "brokerRole")
        elif five:
            self.as_five(master)
        elif _FALLBEHIND in file.given:
            self.set("ack_policy", "4.x", _FALLBEHIND)
            self.set("ha_slave_fallbehind_max_bytes", file.value(_FALLBEHIND), _FALLBEHIND)
        else:
            self.set("copies", _COPIES, "brokerRole")
        if master.role != "SYNC_MASTER" or file.value("inSyncReplicas", _COPIES) == 1:
            return
        synced = file.value("flushDiskType") == "SYNC_FLUSH"
        if not slaves and not counts_elsewhere:
            expected = "a slave beside it: its file too (--broker-conf), or triolog.slaves"
            self.problems.append(file.given["brokerRole"].problem(f"ASYNC_MASTER, or {expected}"))
        elif not slaves and synced:
            expected = "ASYNC_FLUSH, or the slave's file too (--broker-conf): one that another"
            expected += " machine runs reports what it has not synced, which does not count"
            self.problems.append(file.problem("flushDiskType", expected))

    def as_five(self, master: Broker) -> None:
        """SYNC_MASTER by the keys of 5.x."""
        file = master.file
        self.set("ack_policy", "5.x", next(name for name in FIVE if name in file.given))
        for name, key in FIVE.items():
            if name in file.given and key:
                self.set(key, file.value(name), name)
        total = file.value("totalReplicas")
        if "inSyncReplicas" not in file.given and not file.value("allAckInSyncStateSet", False):
            self.set("in_sync_replicas", _COPIES, "brokerRole")
        elif file.value("inSyncReplicas") == 1:
            text = "no append waits for a slave, as RocketMQ 5 does not by default"
            self.notes.append(file.given["inSyncReplicas"].note(text))
        for name in ("inSyncReplicas", "minInSyncReplicas"):
            if total is not None and file.value(name, 1) > total:
                self.problems.append(file.problem(name, f"at most totalReplicas, {total}"))

    def waits(self) -> None:
        """How long an append waits: upstream waits for sync and copies at the same time."""
        file = self.decides.file
        asked = {
            "syncFlushTimeout": file.value("flushDiskType") == "SYNC_FLUSH",
            "slaveTimeout": self.decides.role == "SYNC_MASTER",
        }
        given = [name for name in (*_WAITS, _PUT_TIMEOUT) if name in file.given]
        if not given:
            return
        longest = [file.value(name, _WAITS[name]) for name, is_asked in asked.items() if is_asked]
        put = file.value(_PUT_TIMEOUT)
        wait = max(longest) if longest else file.value(given[0])
        self.set("slave_timeout_s", min(wait, put or wait) / 1000, given[0])

    # ---- all else ----

    def plain_keys(self) -> None:
        """Each key that has one of a cluster file's."""
        file = self.decides.file
        for name, given in file.given.items():
            if given.key.sets:
                self.set(given.key.sets, given.key.convert(given.value), name)
        if _GAP not in file.given and _FALLBEHIND in file.given:
            self.set("ha_max_gap_not_in_sync_bytes", file.value(_FALLBEHIND), _FALLBEHIND)
        is_limited = file.value("haFlowControlEnable", False)
        if is_limited:
            limit = file.value("maxHaTransferByteInSecond", 104_857_600)
            self.set("max_ha_transfer_bytes_per_s", limit, "maxHaTransferByteInSecond")
        if "durability" not in self.table:
            self.set("durability", "written", "flushDiskType")
        half = self.table.get("segment_bytes", SEGMENT_BYTES) // 2
        if self.table.get("max_message_bytes", 0) > half:
            self.set("max_message_bytes", half, "maxMessageSize")
            text = f"{half}, half of {FILE_SIZE}, as a record has to fit into a file"
            self.notes.append(file.given["maxMessageSize"].note(text))

    def compare(self, slave: Broker) -> None:
        """A slave's own file where its master's decides: sizes must be equal, all else is said."""
        mine = self.decides.file
        for name, given in slave.file.given.items():
            default = given.key.default
            if given.key.of_node or not given.key.acts or given.value == mine.value(name, default):
                continue
            if name == FILE_SIZE:
                size = self.table.get("segment_bytes", SEGMENT_BYTES)
                if given.value != size:
                    expected = f"{size}, as {mine.path} has it: files are copied as they are"
                    self.problems.append(given.problem(expected))
                continue
            said = mine.given.get(name)
            other = "its default" if said is None else " ".join(said.text.split())
            self.notes.append(given.note(f"the group has what {mine.path} says, {other}"))

    def where(self, key: str) -> str:
        """`FILE:LINE: key NAME` of the property behind a key; no line if it is not given."""
        name, file = self.origins.get(key, PROPERTIES.get(key, key)), self.decides.file
        return f"{file.given[name].where if name in file.given else file.path}: key {name}"
