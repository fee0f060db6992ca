"""The paths of a DLedger group's actors on a node, and what its tree is built from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Literal

import attrs

from actors.config import ClusterConfig, DLedgerGroup
from actors.controller.machine import ControllerView
from actors.dledger.core.settings import STRICT, CompatSettings, ElectionSettings, PushSettings
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.rpc.rpc_messages import Sender
from actors.env import Env
from actors.runtime import ActorRef, Registry
from actors.state_machine import StateMachine
from actors.storage.layout import LedgerLayout
from actors.storage.ledger import reader
from actors.storage.ledger.entry_window import AHEAD_BYTES, DoubtedSource, EntrySource
from actors.storage.ledger.member_opening import MemberNote
from actors.storage.ledger.memory_ledger import MemoryEntries, MemoryReader
from actors.storage.ledger.recent import RecentEntries
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.ledger.store_messages import Doubt
from actors.storage.node.identity import NodeDirectory


class LedgerPaths:
    """The paths of a group's actors, for whoever needs references to them."""

    def __init__(self, base: str) -> None:
        """Args: base: "/n0/ledger"."""
        self.base = base
        self.store = f"{base}/storage/store"
        self.syncer = f"{base}/storage/syncer"
        self.quorum_ack_checker = f"{base}/entry_pusher/quorum_ack_checker"
        self.entry_handler = f"{base}/entry_pusher/entry_handler"
        self.entry_reader = f"{base}/entry_reader"
        self.state_machine_caller = f"{base}/state_machine_caller"
        self.state_maintainer = f"{base}/state_maintainer"
        self.controller = f"{base}/controller"
        self.remoting_client = f"{base}/remoting_client"

    def peer(self, name: str, *, shared: bool = False) -> str:
        """What sends votes and heartbeats; `shared`: over the connection of pushes."""
        return self.dispatcher(name) if shared else f"{self.base}/rpc_peers/{name}"

    def dispatcher(self, peer: str) -> str:
        return f"{self.base}/entry_pusher/dispatchers/{peer}"


@attrs.frozen(kw_only=True)
class LedgerSetup:
    """One group on one of its members: what every part of its tree is built from.

    Attributes:
        role_status: where refusals find the leader.
        held: of a memory store: what it holds.
        recent: what this member has appended last.
        member_note: what is known of this member beside its store; None: nothing that its
            files do not say.
        machine: makes the group's state machine; None: it has none.
        controller_view: what the controllers of the group agree on; None: it has no controllers.
        connections: numbers that outlive restarts of the tree.
    """

    config: ClusterConfig
    node: str
    group: DLedgerGroup
    env: Env
    registry: Registry
    role_status: LeaderStatus = attrs.field(factory=LeaderStatus)
    held: MemoryEntries = attrs.field(factory=MemoryEntries)
    recent: RecentEntries = attrs.field(factory=RecentEntries)
    member_note: MemberNote | None = None
    machine: Callable[[], StateMachine] | None = None
    controller_view: ControllerView | None = None
    connections: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))

    @property
    def paths(self) -> LedgerPaths:
        return LedgerPaths(f"/{self.node}/{self.group.name}")

    @property
    def layout(self) -> LedgerLayout:
        return LedgerLayout(self.config.group_dir(self.node, self.group.name))

    @property
    def compat(self) -> CompatSettings:
        """The looser rules of its group."""
        return compat_settings(self.group)

    @property
    def note(self) -> MemberNote | None:
        """`member_note`, but where upstream's way to save a vote may lose it by itself (B8)."""
        return None if self.compat.vote_unsynced else self.member_note

    @property
    def synced(self) -> bool:
        """Whether an entry counts here only once it is on the disk."""
        return self.group.durability == "synced" and not self.compat.ack_unsynced

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in self.group.members if name != self.node)

    @property
    def sender(self) -> Sender:
        return Sender(group=self.group.name, self_id=self.node)

    def address_of(self, node: str) -> str:
        return self.config.nodes[node]

    def files(self) -> reader.LedgerReader | None:
        """A reader of this member's files, one for each owner; None: it has none."""
        if self.group.store == "memory":
            return None
        return reader.LedgerReader.of(self.env.disk, self.layout, ledger_settings(self.group))

    def source(self) -> EntrySource:
        """The same, or one of its memory; what it cannot read, it has the store look at."""
        files = self.files()
        if files is None:
            return MemoryReader(self.held, self.group.data_file_bytes)
        ref: ActorRef[Doubt] = self.registry.ref(self.paths.store)

        def doubt(index: int, end_index: int, bytes_max: int) -> None:
            ref.offer(Doubt(index=index, end_index=end_index, bytes_max=bytes_max))

        return DoubtedSource(files, doubt)


def member_notes(
    config: ClusterConfig, node: str, directory: NodeDirectory
) -> dict[str, MemberNote]:
    """By DLedger group, where a node notes what it knows of its member."""
    return {
        group.name: MemberNote(
            had_vote=partial(directory.has_voted, group.name),
            membership=partial(directory.membership, group.name),
            take=partial(directory.note_member, group.name),
        )
        for group in config.ledger_groups_of(node)
    }


def compat_settings(group: DLedgerGroup) -> CompatSettings:
    """Upstream's looser rules, as far as the group has them."""
    opens = group.opens_term_with
    if group.compat == "upstream":
        return CompatSettings.upstream(opens)
    return attrs.evolve(STRICT, term_entry=opens, count_older=opens == "none")


def ledger_settings(group: DLedgerGroup) -> LedgerSettings:
    """The settings of a member's store. Its looser ways are upstream's (bugs B6, B8, B12)."""
    upstream = group.compat is not None
    return LedgerSettings(
        data_file_bytes=group.data_file_bytes,
        index_file_bytes=group.index_file_bytes,
        file_reserved_hours=group.file_reserved_time_h,
        delete_when_hours=group.delete_when_hours,
        disk_check_ratio=group.disk_check_ratio,
        disk_clean_ratio=group.disk_clean_ratio,
        disk_force_clean=group.disk_force_clean,
        checkpoint_interval_s=group.checkpoint_interval_s,
        vote_unsynced=upstream,
        cut_stays=upstream,
        cuts_committed=upstream,
    )


def election_settings(group: DLedgerGroup, node: str) -> ElectionSettings:
    """The settings of one member's state maintainer."""
    return ElectionSettings(
        raft_votes=group.votes_as_raft,
        candidate=node in group.standing,
        heartbeat_interval_s=group.heartbeat_interval_s,
        heartbeat_leaks=group.heartbeat_leaks,
        vote_interval_min_s=group.vote_interval_min_s,
        vote_interval_max_s=group.vote_interval_max_s,
        take_over_interval_min_s=group.take_over_interval_min_s,
        take_over_interval_max_s=group.take_over_interval_max_s,
        transfer_lag_max=group.transfer_lag_max,
        transfer_wait_s=group.transfer_wait_s,
        preferred_leaders=group.preferred_leaders,
    )


COMMIT_NEWS_S: Final = 0.01
"""A follower's readers see what is committed so much later, at the most, where no push follows."""


FOLLOWER_PAUSE_S: Final = 0.02
"""A new leader's COMPARE may come to a peer whose store has yet to say where its log ends."""


BYTES_LEAST: Final = 16 << 10
"""A push and its JSON take 0.2 s of a way of 1 Mbit/s, which heartbeats share."""


def push_settings(group: DLedgerGroup, *, to_java: bool, machine: bool) -> PushSettings:
    """The settings of a dispatcher; our members take whole stretches in one push, and snapshots."""
    upstream = PushSettings()
    snapshots: Literal["install", "refuse"] = "refuse" if to_java else "install"
    return PushSettings(
        commit_news_s=upstream.commit_news_s if group.compat else COMMIT_NEWS_S,
        follower_pause_s=upstream.follower_pause_s if group.compat else FOLLOWER_PAUSE_S,
        pending_max=group.pending_max,
        in_flight_bytes_least=None if group.compat else BYTES_LEAST,
        push_timeout_s=group.push_timeout_s,
        batch=group.batch_push or not to_java,
        batch_bytes_max=group.batch_push_bytes if to_java else AHEAD_BYTES,
        quota_bytes_per_s=group.push_quota_bytes_per_s,
        throttle_bytes=group.push_throttle_bytes,
        snapshots=snapshots if machine else "none",
    )
