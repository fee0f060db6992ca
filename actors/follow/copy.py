"""One copy: the tree of a group's slave, without a cluster file, and its status.

    async with open_copy(disk, env, folder, master, rules) as copy:
        status = await copy.status()

The tree is `/follow` with the event log and, as `/follow/copy`, what `trees.classic` builds for any
slave, with a judge that compares the copy's end with what the master sends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any, Final

import attrs

from actors.config.model import EventsConfig
from actors.env import Env
from actors.env.protocols import Address
from actors.events.node import NodeStarted
from actors.events.sink import EventSink
from actors.follow.folder import GROUP, KNOWN_BROKER, MASTER, NODE, CopyFolder
from actors.ha import connection_state
from actors.ha.connection_state import HaStatus
from actors.ha.core.states import HAConnectionState, Lost
from actors.metadata import slave_sync
from actors.metadata.core import kinds
from actors.metadata.keeper import GetUnwritten, Unwritten
from actors.metadata.view import MetadataView
from actors.runtime import ActorError, Registry, SupervisorSpec, System, open_system
from actors.service import configured, emitting, why_not_started
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.store_messages import LogRange
from actors.storage.dispatch.dispatcher_messages import Dispatched, GetDispatched
from actors.storage.node import event_log
from actors.storage.node.identity import events_path
from actors.trees.classic import group_tree
from actors.trees.group_setup import CopyRules, GroupPaths, GroupSetup
from actors.trees.node import GroupTrees, group_child, node_tree
from actors.version import VERSION

STATUS_TIMEOUT_S: Final = 5.0
FOLLOWS_WITHIN_BYTES: Final = 8 << 20
"""The most bytes between a copy and the master's end at which the copy counts as following."""
NEEDED: Final = (kinds.TOPICS, kinds.CONSUMER_OFFSETS, kinds.GROUPS)
"""The metadata that every broker has."""
BROKER_QUESTION: Final = slave_sync.BROKER_QUESTION
ROUND_END: Final = slave_sync.ROUND_QUESTION
"""The question with which a round of questions for the metadata begins and ends."""
FINAL: Final = (Lost.FOREIGN_LOG, Lost.UNALIGNED, Lost.BAD_RECORD)
"""The reasons for a lost connection after which another attempt would fail as well."""


@attrs.frozen(kw_only=True)
class CopyStatus:
    """The status of a copy. Offsets are of the log, in bytes.

    Attributes:
        begin, end, synced: where the copy's log begins and ends, and up to where it is synced.
        verified: up to where the CRCs of records were checked since the start, or None if none
            was.
        reported: the offset last reported to the master on this connection, or None.
        master_end: where the master's log ended when this was known last on this connection, or
            None.
        nothing_sent: whether the master's log ends where it began to send on this connection.
        connected: whether there is a connection to the master.
        bytes_per_s: how many bytes were received in the last full second.
        received: how many bytes were received on this connection, with heartbeats.
        last_store_ms: when the master stored the newest checked record, by the master's clock in
            milliseconds since 1970; 0 if there is no such record.
        error: why the last connection ended, for people; "" if none has ended.
        final: the same as a value, if the copy cannot go on by itself; otherwise None.
        no_room: what lacks room, for people; "" if nothing does.
        dispatched: up to where queues and index are derived.
        metadata: why the broker's metadata is not copied completely, for people; "" if it is, and
            None if it was not to be copied.
        another: why the broker whose metadata is asked for is another one than the master, and what
            to do, for people; "" if that is not known.
        unwritten: whether some of the metadata is not in its files yet.
    """

    begin: int
    end: int
    synced: int
    verified: int | None
    reported: int | None
    master_end: int | None
    connected: bool
    bytes_per_s: int
    last_store_ms: int
    error: str
    final: Lost | None
    no_room: str
    dispatched: int = 0
    metadata: str | None = None
    another: str = ""
    unwritten: bool = False
    received: int = 0
    nothing_sent: bool = False

    @property
    def good(self) -> int:
        """The offset up to which the copy is synced and its records were checked."""
        return min(self.synced, self.begin if self.verified is None else self.verified)

    def moved(self, before: CopyStatus | None) -> bool:
        """Return whether bytes were received, or `good` rose, since the status `before`."""
        had = (0, 0) if before is None else (before.received, before.good)
        return self.received > had[0] or self.good > had[1]

    @property
    def follows(self) -> bool:
        """Whether the copy has reached the master's end, and has kept up since."""
        at = self.master_end
        return self.connected and at is not None and self.end < at + FOLLOWS_WITHIN_BYTES

    @property
    def lag(self) -> int | None:
        """How many bytes of the master's log are not `good` here yet, or None if unknown."""
        return max(0, self.master_end - self.good) if self.master_end is not None else None


@attrs.define
class Copy:
    """A running copy; use `open_copy` to make one.

    Attributes:
        metadata: the copied metadata of the broker, or None if it is not to be copied.
    """

    system: System
    metadata: MetadataView | None = None
    _had_metadata: bool = False  # all of it was taken once

    @property
    def paths(self) -> GroupPaths:
        return GroupPaths(f"/{NODE}/{GROUP}")

    async def status(self) -> CopyStatus | None:
        """Return the status of the copy, or None while a part of its tree is being restarted."""
        state: Any = self.system.ref(self.paths.connection_state)
        store: Any = self.system.ref(self.paths.store)
        dispatcher: Any = self.system.ref(self.paths.dispatcher)
        try:
            ha = await state.ask(
                HaStatus,
                lambda reply: connection_state.GetStatus(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
            held = await store.ask(
                LogRange,
                lambda reply: store_messages.GetRange(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
            derived = await dispatcher.ask(
                Dispatched,
                lambda reply: GetDispatched(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
        except ActorError:
            return None
        lacks = self._not_taken()
        unwritten = await self._unwritten() if lacks == "" else {}
        return attrs.evolve(
            _status(ha, held, derived),
            metadata=next(filter(None, unwritten.values()), lacks),
            another="" if self.metadata is None else self.metadata.another,
            unwritten=bool(unwritten),
        )

    async def _unwritten(self) -> dict[str, str]:
        """Return the metadata files that lack changes, each with the reason for people.

        The reason is "" if the file is about to be written.
        """
        keeper: Any = self.system.ref(self.paths.metadata)
        try:
            found = await keeper.ask(
                Unwritten,
                lambda reply: GetUnwritten(reply_to=reply),
                timeout_s=STATUS_TIMEOUT_S,
            )
        except ActorError as error:
            return {"": f"not written: {error}"}
        return {file: why and f"{file}: {why}" for file, why in found.reasons.items()}

    def _not_taken(self) -> str | None:
        """Return why the broker's metadata was never copied completely, for people.

        Returns:
            "" if it was, and None if it was not to be copied.
        """
        if self.metadata is None:
            return None
        asked = self.metadata.asked
        for name in (BROKER_QUESTION, *(kind.name for kind in NEEDED), ROUND_END):
            _, reason = asked.get(name, (0.0, "not asked yet"))
            if reason:
                return f"{name}: {reason}"
        # Offsets are taken at the end of a round.
        ended_s = asked[ROUND_END][0]
        if all(asked[kind.name][0] <= ended_s for kind in NEEDED):
            self._had_metadata = True
        return "" if self._had_metadata else "the first round is under way"


def _status(ha: HaStatus, held: LogRange, derived: Dispatched) -> CopyStatus:
    client = ha.client
    lost = None if client is None else client.last_lost
    connected = client is not None and client.state is HAConnectionState.TRANSFER
    final = lost if lost in FINAL or (client is not None and client.diverged) else None
    if client is not None and client.damage:
        final = Lost.DAMAGED
    return CopyStatus(
        begin=held.min_bytes,
        end=held.written_bytes,
        synced=held.synced_bytes,
        verified=None if client is None else client.verified_bytes,
        reported=None if client is None else client.reported_bytes,
        master_end=None if client is None else client.master_end_bytes,
        connected=connected,
        bytes_per_s=0 if client is None else client.bytes_per_s,
        last_store_ms=0 if client is None else client.last_store_ms,
        error="" if client is None else client.damage or client.last_error,
        final=None if connected else final,
        no_room=held.no_room,
        dispatched=derived.dispatched_bytes,
        received=0 if client is None else client.received_bytes,
        nothing_sent=client is not None
        and client.first_bytes is not None
        and client.first_bytes == client.master_end_bytes,
    )


@asynccontextmanager
async def open_copy(
    env: Env, folder: CopyFolder, master: Address, rules: CopyRules
) -> AsyncIterator[Copy]:
    """Run a copy for the length of the block, and close `folder` in the end.

    The end of the block stops the copy in order.

    Args:
        master: the HA address of a stock broker.

    Raises:
        ConfigError: on entry, if the files have other sizes.
        CorruptLog: on entry, if bytes that were synced are damaged.
        ExceptionGroup: the copy failed.
    """
    with closing(folder):
        sink = EventSink(
            NODE,
            folder.own.boot,
            lambda: env.wall_clock_ms() * 1000,
            NodeStarted(cluster=NODE, version=VERSION, groups=(GROUP,), process=env.process),
        )
        emit = emitting(sink, env.events, frozenset({f"/{NODE}/{GROUP}"}))
        emit(f"/{NODE}/{GROUP}", 0, configured(folder.group))
        view = MetadataView()
        rules = attrs.evolve(rules, known_broker=f"{folder.own.path}/{KNOWN_BROKER}")
        build = partial(_tree, attrs.evolve(env, events=emit), folder, master, rules, view, sink)
        async with _opened(env, build, emit) as system:
            yield Copy(system, None if rules.metadata is None else view)


@asynccontextmanager
async def _opened(env: Env, build: Any, emit: Any) -> AsyncIterator[System]:
    is_open = False
    try:
        async with open_system(
            NODE,
            build,
            rng=env.rng,
            events=emit,
            tell_hook=env.tell_hook,
            log_crashes=False,  # it has its event log
        ) as system:
            is_open = True
            yield system
    except BaseExceptionGroup as group:
        if is_open:
            raise
        why = why_not_started(group)
        raise why from (group if why is not group else None)


def _tree(
    env: Env,
    folder: CopyFolder,
    master: Address,
    rules: CopyRules,
    view: MetadataView,
    sink: EventSink,
    registry: Registry,
) -> SupervisorSpec:
    setup = GroupSetup(
        root=folder.path,
        addresses={NODE: "0.0.0.0", MASTER: master.host},
        node=NODE,
        group=folder.group,
        env=env,
        registry=registry,
        copy=rules,
        metadata=view,
    )
    events = event_log.child_spec(
        sink,
        env.disk,
        events_path(folder.own.path),
        EventsConfig(),
        lambda: env.wall_clock_ms() * 1000,
    )
    trees = GroupTrees(groups=(group_child(GROUP, group_tree(setup)),))
    return node_tree([trees], before=(events,))
