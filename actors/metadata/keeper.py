"""MetadataKeeper owns the tables of one group on one node: it alone changes and writes them.

Upstream: apache/rocketmq, common/.../ConfigManager.java and the managers that extend it, 5.3.3.

Messages: Change from whoever serves clients and operators, on a master; Adopt and AnotherMaster
from slave_sync, on a slave; GetUnwritten from anybody. What it has it publishes in a
`MetadataView`, and the dispatcher it tells DeleteTopics, at its start, too. A restart forgets what
was adopted and not yet written, which the master says again, unless the keeper was stopped in order
and found no room; a change is on the disk before it is answered.

Differs: a change is in its file before anybody sees it; what a slave adopts, and what nobody waits
for, as the offsets of consumers, within WRITE_WITHIN_S. Upstream writes offsets every 5 s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

import attrs

from actors.env import Env
from actors.events import metadata as events
from actors.metadata.config_folder import ConfigFolder
from actors.metadata.core import tables as core
from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import Tables
from actors.metadata.view import MetadataView
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason
from actors.storage.dispatch.dispatcher_messages import DeleteTopics, TopicsDeleted
from actors.storage.files.room import ROOM_PAUSE_S, why_failed
from wire.broker.topics import deleted_topics

WRITE_WITHIN_S: Final = 0.5
"""How long what nobody waits for may be unwritten, in seconds: so much a kill can lose."""
DELETE_S: Final = 2.0
"""How long an answer waits for the queues of deleted topics, which go anyway: less than tools wait
for their answer, 5 s."""
_LOGGER = logging.getLogger("triolog.metadata")


@attrs.frozen(kw_only=True)
class Done:
    """A change is in effect, and on the disk if it was asked for."""


@attrs.frozen(kw_only=True)
class Change:
    """The master changes its tables.

    Attributes:
        make: makes the next tables of the present ones and of `now_ms`: a function of
            `core.changes` with the other arguments.
        reply_to: answered when the change is on the disk, and the queues of a topic that was
            deleted are gone, or DELETE_S have passed; fails with OSError, and nothing is
            changed. None: the change is in effect at once, and written soon.
    """

    make: Callable[..., Tables]
    reply_to: ReplyTo[Done] | None = None


@attrs.frozen(kw_only=True)
class Adopt:
    """The master's answer for one kind."""

    kind: Kind
    answer: Any


@attrs.frozen(kw_only=True)
class AnotherMaster:
    """What the next `Adopt` brings is of another master, or of one that was started again."""


@attrs.frozen(kw_only=True)
class Unwritten:
    """What is in effect and in no file yet.

    Attributes:
        reasons: by file, why it could not be written when that was tried last; "": it will be.
    """

    reasons: Mapping[str, str]


@attrs.frozen(kw_only=True)
class GetUnwritten:
    """Ask what is not in its file, of all that the keeper was told before."""

    reply_to: ReplyTo[Unwritten]


@attrs.frozen
class _Write:
    """Time to write what is due."""


@attrs.frozen
class _Deleted:
    """The dispatcher has removed the queues of deleted topics, or has not answered in time."""

    reply_to: ReplyTo[Done] | None
    outcome: TopicsDeleted | Exception


Message: TypeAlias = Change | Adopt | AnotherMaster | GetUnwritten
_Inbox: TypeAlias = Message | _Write | _Deleted


@attrs.define(kw_only=True)
class MetadataKeeper(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        folder: of the files, absolute.
        owner: node and group, for people.
        is_master: whether this node is the group's master.
        dispatcher: who removes the queues of deleted topics; None: nobody.
    """

    mailbox = MailboxSpec(capacity=256)
    env: Env
    folder: str
    owner: str
    view: MetadataView
    is_master: bool
    dispatcher: ActorRef[DeleteTopics] | None = None
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
        self.view.boot_ms = self.env.wall_clock_ms()
        lineage, own = f"{self.ctx.rng.getrandbits(63):x}", tables
        if self.is_master:
            own = core.with_lineage(core.promoted(tables, self.view.boot_ms), lineage)
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
                await self._write_due()
            case _:
                assert_never(message)

    async def on_stop(self, reason: StopReason) -> None:
        """What is due is written, unless the actor failed. What cannot be, the next one takes over:
        on a slave that is promoted nobody says it again.
        """
        try:
            if reason in (StopReason.SHUTDOWN, StopReason.NORMAL):
                await self._write_due()
                self.view.left = tuple(self._due)
        finally:
            self._files.close()

    async def _change(self, change: Change) -> None:
        old = self.view.tables
        new = change.make(old, now_ms=self.env.wall_clock_ms())
        changed = core.changed_kinds(old, new)
        if change.reply_to is not None:
            try:
                for kind in changed:
                    await self._write(kind, new)
            except OSError as error:
                self._due.update(dict.fromkeys(changed))  # some files may have the new content
                self._plan_write()
                change.reply_to.fail(error)
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
        """Have the queues of topics removed that were deleted since `old`, then answer. It also
        has to know which are deleted no more: their records may be older, by a clock set back.
        """
        deleted = deleted_topics(self.view.tables.topics)
        if self.dispatcher is not None and deleted != deleted_topics(old.topics):
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

    async def _write_due(self) -> None:
        """Each by itself: one that finds no room keeps no other from the disk."""
        failed = False
        for kind in tuple(self._due):
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
