"""A group with `mode = "dledger"` as a frozen class: a log that a majority of its members commits.

Upstream: openmessaging/dledger, DLedgerConfig.java, dledger-all-0.3.1.2.
Differs: one file for the whole cluster; units stand in the names; every value is checked;
`durability`, `term_entry` and `compat` say what upstream leaves to its flush threads and to chance.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

from actors.config import bounds
from actors.config.bounds import INTERVAL, PORT, EachWithin, Within
from actors.config.group import ConfiguredRole, Durability, ElectionTimes, LargestFile, StoreType
from actors.config.members import MemberNode, member_nodes
from wire.dledger.entry import (
    BLANK_BYTES,
    DATA_FILE_BYTES,
    ENTRY_BYTES_MAX,
    ENTRY_HEAD_BYTES,
    INDEX_BYTES,
    INDEX_FILE_BYTES,
)

MIB = 1 << 20
CONTROLLERS: Final = "controllers"
"""The name of the group that `[controllers]` makes."""
TermEntry: TypeAlias = Literal["empty", "none"]
_MEMBER: Final = ConfiguredRole(name="member", listens=True, appends=True, receives=True)


@attrs.frozen(kw_only=True)
class ControllerSettings:
    """`[controllers]`: what its own keys say; the other keys are those of a DLedger group.

    Attributes:
        elect_unclean_master: whether a replica may be elected that was not in the sync state set:
            what only its members held is lost then. Upstream: enableElectUncleanMaster, false.
        notify_role_changed: whether replicas are told of an election; else they learn of it when
            they ask next. Upstream: notifyBrokerRoleChanged, true.
    """

    elect_unclean_master: bool = False
    notify_role_changed: bool = True


@attrs.frozen(kw_only=True)
class DLedgerGroup:
    """`[groups.NAME]` with `mode = "dledger"`: equal members, one of which leads.

    Attributes:
        name: the table's name; also the group's name on the wire, and the folder under `groups/`.
        mode: "dledger".
        member_nodes: key `members`; every node of the group, and whether it may lead (`candidate`).
            Upstream: peers.
        members_before: who the members were before one was added or removed. A node refuses other
            members than it began with, unless these were; it may stay until the next change.
        durability: "synced": an entry counts on a member once it is on its disk; "written": in its
            page cache, synced every `flush_interval_s`. Upstream flushes behind its answers, every
            10 ms (flushFileInterval). A "synced" member warns of one whose own file says less.
        port: where every member listens, for members and clients. Several groups of a node may
            share one. Upstream: the port in peers.
        store: "memory" keeps term and vote over a restart, and no entry; a member that restarted
            helps to elect a leader once it has caught up, or with all others. Upstream: storeType,
            FILE.
        term_entry: how a leader opens its term, so that entries of older terms can be committed
            safely: "empty": an entry without a body, which our readers skip (its index stays a
            gap), and Java's deliver; "none": nothing, and older entries are committed by counting,
            as upstream does, which can lose what was acknowledged (bug B1). Must be stated where a
            member is a Java node and one of ours may lead; else "empty".
        compat: "upstream" turns on DLedger 0.3.1.2's looser rules, for comparison and to see its
            known bugs run (`python tests/traps.py`).
        raft_votes: a voter takes a larger term and gives its vote in it in one step, and a
            candidate asks in the next term once a quorum has said that nobody leads: an election
            is over one pause after the leader was missed. `false`: upstream's ways, a refusal
            first and a pause before each step. Java members understand both, and members of ours
            may differ. A Java follower that has not voted in the term gives its vote beside a
            leader, too: with it, one of ours that is cut from the leader alone ends the leadership,
            as it does with `false`, a pause later. Default: true; with `compat = "upstream"` false.
        heartbeat_interval_s: Upstream: heartBeatTimeIntervalMs, 2000.
        heartbeat_leaks: intervals of silence after which a follower campaigns, and without a
            quorum's answers after which a leader steps down. Upstream: maxHeartBeatLeak, 3.
        vote_interval_min_s, vote_interval_max_s: the pause before a campaign is drawn from here.
            Upstream: minVoteIntervalMs 300, maxVoteIntervalMs 1000.
        take_over_interval_min_s, take_over_interval_max_s: the same while this node takes over from
            a leader. Upstream: minTakeLeadershipVoteIntervalMs 30, maxTakeLeadershipVoteIntervalMs
            100.
        transfer_lag_max: entries that a transferee may be behind. Upstream:
            maxLeadershipTransferWaitIndex, 1000.
        transfer_wait_s: how long a transferee waits for its log to reach the leader's end.
            Upstream: leadershipTransferWaitTimeout, 1000 ms.
        preferred_leaders: members that should lead if they can. One that did not take over is asked
            again after 2 s, and after twice as long each time, up to a minute; with `compat =
            "upstream"` too. Upstream: preferredLeaderId, none; it asks each second.
        pending_max: pushes to one peer that may be unanswered. Upstream: a constant, 1000.
        push_timeout_s: age at which the push after the watermark is sent again. Upstream:
            maxPushTimeOutMs, 1000.
        batch_push: several entries to a push, also towards Java members; towards ours it is always
            on. Upstream: enableBatchPush, false.
        batch_push_bytes: the most bytes of the entries of one push to a Java member. Upstream:
            maxBatchPushSize, 4096.
        push_quota_bytes_per_s: to a peer that is far behind; 0 = none. Upstream: peerPushQuota, 20
            MiB.
        push_throttle_bytes: how far "far behind" is. Upstream: peerPushThrottlePoint, 300 MiB.
        waiting_max: appends that may wait for a quorum. Upstream: maxPendingRequestsNum, 10000.
        append_timeout_s: how long one waits before its outcome is unknown. Upstream:
            maxWaitAckTimeMs, 2500.
        data_file_bytes: size of one data file; equal on all members. Upstream:
            mappedFileSizeForEntryData, 1 GiB.
        index_file_bytes: size of one index file. Upstream: mappedFileSizeForEntryIndex, 160 MiB.
        max_entry_bytes: largest body of an entry. Upstream: a buffer of 4 MiB for the whole entry.
        flush_interval_s: how often a `written` group syncs behind the answers. Upstream:
            flushFileInterval, 10 ms.
        checkpoint_interval_s: how often the committed index is written down. Upstream:
            checkPointInterval, 3000 ms.
        file_reserved_time_h: age at which a full data file expires. Upstream: fileReservedHours,
            72 h.
        delete_when_hours: local hours in which expired files are deleted. Upstream: deleteWhen,
            "04".
        disk_check_ratio: above it they are deleted at any hour. Upstream:
            diskSpaceRatioToCheckExpired, 0.70.
        disk_clean_ratio: above it the oldest go before they expire; 0.05 more, at most 0.95,
            refuses appends. Upstream: diskSpaceRatioToForceClean, 0.85.
        disk_force_clean: whether they do. Upstream: enableDiskForceClean, true.
        snapshot_entries, snapshot_bytes: for a group with a state machine: a member takes a
            snapshot of it after so many entries, or so many bytes of bodies, whichever comes first;
            whole data files before the oldest that is kept are deleted then. Upstream (0.4.0):
            snapshotThreshold, 1000 entries.
        snapshot_keep: so many of the newest are kept; a damaged one is passed over for the one
            before. Upstream: maxSnapshotReservedNum, 3.
        controller: the group is a cluster's controllers: its members run RocketMQ's controller on
            its log, and its port serves brokers, too. None: it carries records. In a cluster file
            `[controllers]` says so.
        append_pending_bytes: bodies that may wait unwritten in the leader; above it callers wait or
            are refused.
        receive_pending_bytes: pushed bytes that may wait unwritten in a follower.
    """

    name: str = attrs.field(validator=bounds.NAME)
    mode: Literal["dledger"] = "dledger"
    member_nodes: tuple[MemberNode, ...] = attrs.field(alias="members", converter=member_nodes)
    members_before: tuple[str, ...] = ()
    durability: Durability = "synced"
    port: int = attrs.field(default=20_911, validator=PORT)
    store: StoreType = "file"
    term_entry: TermEntry | None = None
    compat: Literal["upstream"] | None = None

    raft_votes: bool | None = None
    heartbeat_interval_s: float = attrs.field(default=2.0, validator=INTERVAL)
    heartbeat_leaks: int = attrs.field(default=3, validator=bounds.LEAKS)
    vote_interval_min_s: float = attrs.field(default=0.3, validator=INTERVAL)
    vote_interval_max_s: float = attrs.field(default=1.0, validator=INTERVAL)
    take_over_interval_min_s: float = attrs.field(default=0.03, validator=INTERVAL)
    take_over_interval_max_s: float = attrs.field(default=0.1, validator=INTERVAL)
    transfer_lag_max: int = attrs.field(default=1000, validator=bounds.ENTRIES)
    transfer_wait_s: float = attrs.field(default=1.0, validator=INTERVAL)
    preferred_leaders: tuple[str, ...] = ()

    pending_max: int = attrs.field(default=1000, validator=bounds.ENTRIES)
    push_timeout_s: float = attrs.field(default=1.0, validator=INTERVAL)
    batch_push: bool = False
    batch_push_bytes: int = attrs.field(default=4096, validator=Within(1, ENTRY_BYTES_MAX))
    push_quota_bytes_per_s: int = attrs.field(default=20 * MIB, validator=bounds.RATE)
    push_throttle_bytes: int = attrs.field(default=300 * MIB, validator=Within(0, bounds.GAP.high))
    waiting_max: int = attrs.field(default=10_000, validator=bounds.ENTRIES)
    append_timeout_s: float = attrs.field(default=2.5, validator=INTERVAL)

    data_file_bytes: int = attrs.field(default=DATA_FILE_BYTES, validator=bounds.SEGMENT)
    index_file_bytes: int = attrs.field(
        default=INDEX_FILE_BYTES,
        validator=Within(INDEX_BYTES, bounds.SEGMENT_BYTES_MAX, INDEX_BYTES),
    )
    max_entry_bytes: int = attrs.field(
        default=attrs.Factory(lambda group: group.entry_body_bytes_max, takes_self=True),
        validator=Within(1, ENTRY_BYTES_MAX - ENTRY_HEAD_BYTES),
    )
    flush_interval_s: float = attrs.field(default=0.01, validator=INTERVAL)
    checkpoint_interval_s: float = attrs.field(default=3.0, validator=INTERVAL)
    file_reserved_time_h: int = attrs.field(default=72, validator=bounds.HOURS)
    delete_when_hours: tuple[int, ...] = attrs.field(
        default=(4,), validator=EachWithin(0, 23, "hours")
    )
    disk_check_ratio: float = attrs.field(default=0.70, validator=bounds.RATIO)
    disk_clean_ratio: float = attrs.field(default=0.85, validator=bounds.RATIO)
    disk_force_clean: bool = True
    snapshot_entries: int = attrs.field(default=100_000, validator=bounds.SNAPSHOT_ENTRIES)
    snapshot_bytes: int = attrs.field(default=256 * MIB, validator=bounds.GAP)
    snapshot_keep: int = attrs.field(default=2, validator=bounds.SNAPSHOTS)
    append_pending_bytes: int = attrs.field(default=64 * MIB, validator=bounds.PENDING)
    receive_pending_bytes: int = attrs.field(default=64 * MIB, validator=bounds.PENDING)
    controller: ControllerSettings | None = None

    @property
    def body_bytes_max(self) -> int:
        """The largest record."""
        return self.max_entry_bytes

    @property
    def entry_body_bytes_max(self) -> int:
        """The largest body of an entry, in bytes, that fits a data file and upstream's buffer."""
        return min(ENTRY_BYTES_MAX, self.data_file_bytes - BLANK_BYTES) - ENTRY_HEAD_BYTES

    @property
    def members(self) -> tuple[str, ...]:
        """Every node of the group, sorted: no one of them is special."""
        return tuple(sorted(member.node for member in self.member_nodes))

    @property
    def java_nodes(self) -> tuple[str, ...]:
        """The names of the members that run DLedger in Java."""
        return tuple(one.node for one in self.member_nodes if one.kind == "java")

    @property
    def standing(self) -> tuple[str, ...]:
        """The members that may lead, sorted; a Java node may."""
        return tuple(sorted(one.node for one in self.member_nodes if one.candidate))

    @property
    def led_by_java(self) -> bool:
        """Whether only Java members may lead."""
        return set(self.standing) <= set(self.java_nodes)

    @property
    def quorum(self) -> int:
        """Members that make a decision."""
        return len(self.member_nodes) // 2 + 1

    @property
    def sure_copies(self) -> int:
        """Nodes that hold whatever was acknowledged, at least."""
        return self.quorum

    @property
    def as_upstream(self) -> bool:
        """Whether it follows one of upstream's looser rules."""
        return self.compat is not None or self.opens_term_with == "none"

    @property
    def takes_empty(self) -> bool:
        """Whether empty records may be appended: not if an empty entry opens a term."""
        return self.opens_term_with != "empty"

    @property
    def election(self) -> ElectionTimes:
        """Members elect a leader once they have missed so many heartbeats."""
        return ElectionTimes(
            missed_after_s=self.heartbeat_interval_s * self.heartbeat_leaks,
            campaign_max_s=self.vote_interval_max_s,
        )

    @property
    def largest_file(self) -> LargestFile | None:
        """A data file, if it has any."""
        if self.store == "memory":
            return None
        return LargestFile(key="data_file_bytes", size_bytes=self.data_file_bytes)

    def role_of(self, node: str) -> ConfiguredRole:
        """All members are alike."""
        return _MEMBER

    @property
    def votes_as_raft(self) -> bool:
        """Whether members vote as in Raft: `raft_votes`, or its default."""
        return self.compat is None if self.raft_votes is None else self.raft_votes

    @property
    def opens_term_with(self) -> TermEntry:
        """`term_entry`, or what it is when it is not stated; upstream opens a term with nothing."""
        if self.term_entry is not None:
            return self.term_entry
        return "empty" if self.compat is None else "none"
