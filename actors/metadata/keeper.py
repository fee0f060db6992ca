"""MetadataKeeper owns the tables of one group on one node. No other actor changes or writes them.

Upstream: apache/rocketmq, common/.../ConfigManager.java and the managers that extend it, 5.3.3.

Messages: Change on a master, from the parts that serve clients and operators; Adopt and
AnotherMaster on a slave, from slave_sync or master_watch; GetUnwritten. It publishes the tables in
a `MetadataView`, and sends DeleteTopics to the dispatcher, also at its start. A restart forgets
adopted tables that were not yet written, as the master sends them again; but a keeper that was
stopped, and had no room or too slow a disk, leaves them to the next one. A change with a reply is
on the disk before it is answered.

The time of a change is never before the newest store timestamp of the log, as a clock can be set
back: no queue leads to what was stored before a topic was deleted.

Differs: a change with a reply is in its file before it is visible. All others, such as adopted
tables and offsets of consumers, are written within WRITE_WITHIN_S. Upstream writes offsets every 5
s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

import attrs
import trio

from actors.env import Env
from actors.errors import StorageError
from actors.events import metadata as events
from actors.metadata.config_folder import ConfigFolder
from actors.metadata.core import tables as core
from actors.metadata.core.changes import begin
from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import Tables
from actors.metadata.view import MetadataView
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason
from actors.storage.commitlog.group_commit import StoreTime
from actors.storage.dispatch.dispatcher_messages import DeleteTopics, TopicsDeleted
from actors.storage.files.room import ROOM_PAUSE_S, why_failed
from wire.broker.topics import deleted_topics

WRITE_WITHIN_S: Final = 0.5
"""The most seconds until a change without a reply is written, which a kill can lose."""
STOP_WRITE_S: Final = 2.0
"""How long a stop writes what is due: a new role waits for it, and the file that is under way then
may take a few syncs more of a slow disk."""
DELETE_S: Final = 2.0
"""The most seconds that an answer waits for the removal of deleted topics' queues, which goes on
afterwards. It is less than the 5 s that tools wait for their answer."""
_LOGGER = logging.getLogger("triolog.metadata")


@attrs.frozen(kw_only=True)
class Done:
    """The reply to a change that is in effect and on the disk."""


@attrs.frozen(kw_only=True)
class Change:
    """Change a master's tables.

    Attributes:
        make: returns the next tables from the present ones and `now_ms`. It is a function of
            `core.changes` with its other arguments bound.
        reply_to: answered when the change is on the disk and the queues of a deleted topic are
            removed, or DELETE_S have passed. If the write fails, nothing is changed, and
            the answer is a StorageError.
            None: the change is in effect at once, and written within WRITE_WITHIN_S.
    """

    make: Callable[..., Tables]
    reply_to: ReplyTo[Done] | None = None


@attrs.frozen(kw_only=True)
class Adopt:
    """Adopt the master's answer for one kind."""

    kind: Kind
    answer: Any


@attrs.frozen(kw_only=True)
class AnotherMaster:
    """Note that the next `Adopt` is from another master, or from one that was started again."""


@attrs.frozen(kw_only=True)
class Unwritten:
    """The tables that are in effect and not in their files yet.

    Attributes:
        reasons: by file, why the last attempt to write it failed, for people; "" before an
            attempt.
    """

    reasons: Mapping[str, str]


@attrs.frozen(kw_only=True)
class GetUnwritten:
    """Ask which of the changes that were sent before are not in their files."""

    reply_to: ReplyTo[Unwritten]


@attrs.frozen
class _Write:
    """Timer: write what is due."""


@attrs.frozen
class _Deleted:
    """The dispatcher has removed the queues of deleted topics, or did not answer in time."""

    reply_to: ReplyTo[Done] | None
    outcome: TopicsDeleted | Exception


Message: TypeAlias = Change | Adopt | AnotherMaster | GetUnwritten
_Inbox: TypeAlias = Message | _Write | _Deleted


@attrs.define(kw_only=True)
class MetadataKeeper(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        folder: the absolute path of the folder of the files.
        owner: the names of node and group, for people.
        is_master: whether this node is the group's master.
        dispatcher: the actor that removes the queues of deleted topics, or None without one.
        store_time: what the store publishes of the times of its records.
    """

    mailbox = MailboxSpec(capacity=256)
    env: Env
    folder: str
    owner: str
    view: MetadataView
    is_master: bool
    dispatcher: ActorRef[DeleteTopics] | None = None
    store_time: StoreTime = attrs.field(factory=StoreTime)
    _files: ConfigFolder = attrs.field(init=False)
    _due: dict[Kind, None] = attrs.field(init=False, factory=dict)  # to be written, in order
    _refused: dict[Kind, str] = attrs.field(init=False, factory=dict)  # why; it was said
    _is_planned: bool = attrs.field(init=False, default=False)

    async def on_start(self) -> None:
        self._files = ConfigFolder(self.env.disk, self.folder, self.owner)
        read = self._files.read()
        tables = attrs.evolve(
            read, **{kind.name: getattr(self.view.tables, kind.name) for kind in self.view.left}
        )
        self.view.left = ()
        self.ctx.emit(
            events.MetadataRead(
                topics=len(tables.topics.topic_config_table),
                subscriptions=len(tables.groups.subscription_group_table),
                offsets=len(tables.consumer_offsets.offset_table),
            )
        )
        self.view.started_ms = self.env.wall_clock_ms()
        lineage, own = f"{self.ctx.rng.getrandbits(63):x}", tables
        if self.is_master:
            own = core.promoted(tables, self.view.started_ms, self.store_time.begun_ms)
            own = core.with_lineage(begin(own, self.view.started_ms), lineage)
        self._publish(read, own)
        self._delete_queues(Tables())
        self._plan_write()

    async def handle(self, message: _Inbox) -> None:
        match message:
            case Change():
                await self._change(message)
            case Adopt():
                self._adopt(message)
            case AnotherMaster():
                self.view.tables = core.another_master(self.view.tables)
            case GetUnwritten(reply_to=reply_to):
                reasons = {kind.file: self._refused.get(kind, "") for kind in self._due}
                reply_to.send(Unwritten(reasons=reasons))
            case _Deleted(reply_to=waiting):
                if waiting is not None:
                    waiting.send(Done())
            case _Write():
                self._is_planned = False
                await self._write_due(until=lambda: self.ctx.is_stopping)
            case _:
                assert_never(message)

    async def on_stop(self, reason: StopReason) -> None:
        """Write what is due, for a while, unless the actor failed.

        What is not written is left to the next keeper in the view: on a slave that is promoted, no
        master would send it again.
        """
        try:
            if reason in (StopReason.SHUTDOWN, StopReason.NORMAL):
                with trio.move_on_after(STOP_WRITE_S):
                    await self._write_due()
        finally:
            if reason is not StopReason.CRASHED:
                self.view.left = tuple(self._due)
            self._files.close()

    async def _change(self, change: Change) -> None:
        old = self.view.tables
        now_ms = max(self.env.wall_clock_ms(), self.store_time.newest_ms)
        new = change.make(old, now_ms=now_ms)
        changed = core.changed_kinds(old, new)
        if change.reply_to is not None:
            try:
                for kind in changed:
                    await self._write(kind, new)
            except OSError as error:
                self._due.update(dict.fromkeys(changed))  # some files may have the new content
                self._plan_write()
                why = why_failed(self.env.disk, self.folder, error)
                change.reply_to.fail(StorageError(f"nothing is changed: {why}"))
                return
        self._publish(old, new)
        if change.reply_to is not None:
            for kind in changed:
                self._due.pop(kind, None)
        self._delete_queues(old, change.reply_to)
        self._plan_write()

    def _adopt(self, message: Adopt) -> None:
        old, kind = self.view.tables, message.kind
        new = core.adopt(old, kind, message.answer)
        for changed in core.changed_kinds(old, new):
            rows = core.rows_of(changed, new)
            version = getattr(getattr(new, changed.name), "data_version", None)
            self.ctx.emit(
                events.MetadataAdopted(
                    table=changed.name,
                    counter=version.counter if version is not None else 0,
                    timestamp=version.timestamp if version is not None else 0,
                    rows=len(rows),
                    removed=len(core.rows_of(changed, old).keys() - rows.keys()),
                )
            )
        self._publish(old, new)
        self._delete_queues(old)
        self._plan_write()

    def _delete_queues(self, old: Tables, reply_to: ReplyTo[Done] | None = None) -> None:
        """Have the queues of topics removed that were deleted since `old`, and then answer.

        The dispatcher also has to know which topics are no longer deleted: their records can be
        older than the deletion, by a clock that was set back.
        """
        before, topics = old.topics, self.view.tables.topics
        # most changes are of offsets, and up to DELETED_MAX topics take a while to decode
        deleted = {} if topics is before else deleted_topics(topics)
        is_other = topics is not before and deleted != deleted_topics(before)
        if self.dispatcher is not None and is_other:
            self.ctx.ask_later(
                self.dispatcher,
                TopicsDeleted,
                lambda done: DeleteTopics(topics=deleted, reply_to=done),
                timeout_s=DELETE_S,
                on_reply=partial(_Deleted, reply_to),
            )
        elif reply_to is not None:
            reply_to.send(Done())

    def _publish(self, old: Tables, new: Tables) -> None:
        changed = core.changed_kinds(old, new)
        if changed or new is not self.view.tables:
            self._due.update(dict.fromkeys(changed))
            self.view.publish(new)

    def _plan_write(self, within_s: float = WRITE_WITHIN_S) -> None:
        if self._due and not self._is_planned:
            self._is_planned = True
            self.ctx.timers.start("write", within_s, _Write())

    async def _write_due(self, until: Callable[[], bool] = lambda: False) -> None:
        """Write each table that is due. A failure of one does not keep the others from the disk.

        Args:
            until: whether the others are left to `on_stop`.
        """
        failed = False
        for kind in tuple(self._due):
            if until():
                break
            try:
                await self._write(kind, self.view.tables)
            except OSError:
                failed = True
            else:
                del self._due[kind]
        if failed:
            self._plan_write(ROOM_PAUSE_S)

    async def _write(self, kind: Kind, tables: Tables) -> None:
        try:
            await self._files.write(kind, getattr(tables, kind.name))
        except OSError as error:
            reason = why_failed(self.env.disk, self.folder, error)
            was_said, self._refused[kind] = kind in self._refused, reason
            if not was_said:
                self.ctx.emit(events.MetadataNotWritten(table=kind.name, reason=reason))
                text = "%s: %s/%s keeps its old content: %s"
                _LOGGER.warning(text, self.owner, self.folder, kind.file, reason)
            raise
        self._refused.pop(kind, None)
