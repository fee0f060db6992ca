"""The paths of a DLedger group's actors on a node, and the setup from which its tree is built."""

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
    """The paths of the actors of a group, from which references to them are made."""

    def __init__(self, base: str) -> None:
        """Make the paths.

        Args:
            base: the path of the group, such as "/n0/ledger".
        """
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
        """Return the path of the actor that sends votes and heartbeats to a peer.

        Args:
            shared: whether they share the connection of pushes.
        """
        return self.dispatcher(name) if shared else f"{self.base}/rpc_peers/{name}"

    def dispatcher(self, peer: str) -> str:
        return f"{self.base}/entry_pusher/dispatchers/{peer}"


@attrs.frozen(kw_only=True)
class LedgerSetup:
    """One group on one of its members, from which every part of the group's tree is built.

    Attributes:
        role_status: the status that the state maintainer publishes, in which refusals find the
            leader.
        held: the entries of a memory store.
        recent: the entries that this member has appended last.
        member_note: what the node knows of this member beside its store; None if it knows only
            what the store's files have.
        machine: makes the group's state machine; None if it has none.
        controller_view: what the controllers of the group agree on; None if it has no controllers.
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
        """The looser rules that the group has taken from upstream."""
        return compat_settings(self.group)

    @property
    def note(self) -> MemberNote | None:
        """`member_note`, or None if upstream's way to save a vote may itself lose it (B8)."""
        return None if self.compat.vote_unsynced else self.member_note

    @property
    def synced(self) -> bool:
        """Whether an entry counts here only after it was synced."""
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
        """Make a reader of this member's files, for one owner; None if the store has no files."""
        if self.group.store == "memory":
            return None
        return reader.LedgerReader.of(self.env.disk, self.layout, ledger_settings(self.group))

    def source(self) -> EntrySource:
        """Make a reader of this member's entries, in its files or in memory.

        If the files cannot be read somewhere, the store is asked to check them there.
        """
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
    """Return the notes that a node keeps of its members, by DLedger group."""
    return {
        group.name: MemberNote(
            had_vote=partial(directory.has_voted, group.name),
            membership=partial(directory.membership, group.name),
            take=partial(directory.note_member, group.name),
        )
        for group in config.ledger_groups_of(node)
    }


def compat_settings(group: DLedgerGroup) -> CompatSettings:
    """Return those of upstream's looser rules that the group has."""
    opens = group.opens_term_with
    if group.compat == "upstream":
        return CompatSettings.upstream(opens)
    return attrs.evolve(STRICT, term_entry=opens, count_older=opens == "none")


def ledger_settings(group: DLedgerGroup) -> LedgerSettings:
    """Return the settings of a member's store; the looser ones are upstream's (B6, B8, B12)."""
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
    """Return the settings of one member's state maintainer."""
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
"""The seconds by which a follower's readers see a commit later, at most, if no push follows."""


FOLLOWER_PAUSE_S: Final = 0.02
"""The first pause after a peer does not follow yet: its store may not have reported its end."""


BYTES_LEAST: Final = 16 << 10
"""The least bytes in flight: a push and its JSON take 0.2 s of 1 Mbit/s, which heartbeats share."""


def push_settings(group: DLedgerGroup, *, to_java: bool, machine: bool) -> PushSettings:
    """Return the settings of a dispatcher.

    Members of ours take many entries in one push, and snapshots.
    """
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
