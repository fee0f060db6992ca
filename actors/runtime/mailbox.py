"""The mailbox of one incarnation: bounded, conflating, with a small lane for control messages.

Two lanes of lists. The receiver takes a whole lane by swapping its list for an empty one, so the
cost per message is the sender's append. `ActorRef.tell` appends by itself as long as `0 <
len(items) < limit` and the message's class is not special; `Mailbox` keeps that safe:

- the receiver parks only while both lanes are empty, so an append to a lane that is not empty
  wakes nobody;
- `limit` is the capacity, and somebody waits for room only while the lane is full; where an append
  needs more thought (bytes are counted, the actor has stopped) it is 0.

A sender that waits is an entry in `waiting`, its message with it: making room moves the message
into the lane and then wakes the sender, so a cancellation comes either before (the message was
never sent) or after (it was).

A message can also be queued without waking the actor (`defer`): it stays in `deferred` until the
next one comes for the lane, and goes in front of that, so that all are read in the order in which
they came.

Bounds: `capacity` messages and `capacity_bytes` twice: for what waits in the
lane, and for the batch that the actor works on. A single message above
`capacity_bytes` is let in when the lane is empty.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

import attrs
import trio

from actors.runtime.deadlines import Alarm, Deadlines
from actors.runtime.errors import MailboxFull, SpecError
from actors.runtime.lane import GONE, Lane, WaitingSender
from actors.runtime.parking import Parker

CAPACITY = 1024  # messages; a batch of this many small messages is about a millisecond of work
CONTROL_CAPACITY = 64  # stop, role change, truncation: a handful per session
DEFERRED_MAX = 64  # deferred messages that are not conflated
GONE_MIN = 64  # gaps that conflated messages leave before the lane is compacted


class StopReason(enum.Enum):
    """Why an actor stops."""

    NORMAL = "normal"  # it called ctx.stop()
    SHUTDOWN = "shutdown"  # its supervisor asked
    CRASHED = "crashed"  # a hook or a feeder raised
    KILLED = "killed"  # it outlasted its time; await in on_stop raises Cancelled at once


class Unanswered(Protocol):
    """A question that an incarnation was asked."""

    def fail(self, error: Exception) -> bool:
        """See `ReplyTo.fail`."""


class Overflow(enum.Enum):
    """What a full mailbox does with a tell."""

    WAIT = "wait"
    REFUSE = "refuse"


@attrs.frozen(kw_only=True)
class MailboxSpec:
    """How an actor's mailbox behaves. Classes are matched exactly, not by inheritance.

    Attributes:
        capacity: messages that may wait.
        capacity_bytes: bytes that may wait, by `size_of`; None counts no bytes.
        size_of: the size of a message in bytes.
        conflate: class -> key. A newer message with the same key goes to the tail and the older
            leaves; such messages never wait for room, so their keys must be few (and name the
            connection).
        control: classes that go through the control lane, which is read first.
        control_capacity: messages that may wait there.
        overflow: WAIT, or REFUSE: a tell becomes a dead letter, an ask fails with MailboxFull.
    """

    capacity: int = CAPACITY
    capacity_bytes: int | None = None
    size_of: Callable[[Any], int] | None = None
    conflate: Mapping[type, Callable[[Any], Hashable]] = attrs.field(factory=dict)
    control: tuple[type, ...] = ()
    control_capacity: int = CONTROL_CAPACITY
    overflow: Overflow = Overflow.WAIT

    def __attrs_post_init__(self) -> None:
        if self.capacity < 1 or self.control_capacity < 1:
            raise SpecError("a mailbox holds at least one message")
        if (self.capacity_bytes is None) != (self.size_of is None):
            raise SpecError("capacity_bytes and size_of go together")
        if any(kind in self.conflate for kind in self.control):
            raise SpecError("a message class is either control or conflated")


@attrs.frozen(kw_only=True)
class MailboxStatistics:
    """The figures of one mailbox at one moment.

    Attributes:
        depth: messages that wait in both lanes.
        peak: the largest depth of the main lane so far.
        size_bytes: bytes that wait, if bytes are counted.
        oldest_age_s: seconds since the main lane was last empty; 0.0 if it is.
        received: messages handed to the actor so far.
        refused: tells and offers that found no room.
        conflated: messages that left because a newer one came.
        senders_waiting: tasks that wait for room.
    """

    depth: int
    peak: int
    size_bytes: int
    oldest_age_s: float
    received: int
    refused: int
    conflated: int
    senders_waiting: int


class Mailbox:
    """The mailbox of one incarnation. See the module's text for how `ActorRef.tell` shares it.

    Attributes:
        lane: the main lane.
        control: the lane that is read first.
        receiver: where the actor's task parks while both lanes are empty.
        urgent: whether there is something for the receive loop before its next message: a control
            message, a stop or a failure.
        stopping: why the loop has to end; None while it does not.
        first_s: when the main lane was last empty.
        replies: the unanswered `ReplyTo`s that this incarnation was sent, in order.
        receiver_task: the task that must not wait for room here, because it would wait for itself.
        alarm: wakes the receiver at a given time.
        deferred: messages queued without waking the actor, newest last, behind the main lane's.
        deferred_s: the time by which these have to be read; inf: they wait for the next message.
        timer_s: when the actor's next timer was due when it parked.
        delay_max_s: the longest delay that the actor itself allows them; inf: that of the senders.
    """

    __slots__ = (
        "_conflate",
        "_control_types",
        "_keyed",
        "_size_of",
        "_within_s",
        "alarm",
        "conflated",
        "control",
        "deferred",
        "deferred_s",
        "delay_max_s",
        "first_s",
        "lane",
        "open",
        "path",
        "peak",
        "received",
        "receiver",
        "receiver_task",
        "refused",
        "replies",
        "stopping",
        "timer_s",
        "urgent",
        "waits",
    )

    def __init__(self, spec: MailboxSpec, path: str, deadlines: Deadlines | None = None) -> None:
        special = frozenset(spec.conflate) | frozenset(spec.control)
        self.path = path
        self.lane = Lane(spec.capacity, spec.capacity_bytes, special)
        self.control = Lane(spec.control_capacity)
        self.receiver = Parker()
        self.receiver_task: trio.lowlevel.Task | None = None
        self.urgent = False
        self.stopping: StopReason | None = None
        self.open = True
        self.waits = spec.overflow is Overflow.WAIT
        self.replies: dict[Unanswered, None] = {}
        self.peak = self.received = self.refused = self.conflated = 0
        self._size_of = spec.size_of
        self._conflate = spec.conflate
        self._control_types = frozenset(spec.control)
        self._keyed: dict[Hashable, int] = {}
        self.first_s = 0.0
        self.alarm = Alarm(deadlines or Deadlines(), self._rung)
        self.deferred: dict[Hashable, Any] = {}
        self.deferred_s = math.inf
        self._within_s = math.inf  # the shortest delay of those
        self.timer_s = math.inf
        self.delay_max_s = math.inf

    def offer(self, message: object) -> bool:
        """Add the message if there is room and no sender waits for room; never wait."""
        assert self.open  # ClosedMailboxIsUnreachable: its ref was turned away first
        kind = type(message)
        size_bytes = self._size_of(message) if self._size_of is not None else 0
        if kind in self._control_types:
            lane = self.control
            self.urgent = True
        elif kind in self._conflate:
            self._replace(message, (kind, self._conflate[kind](message)), size_bytes)
            assert self.lane.items[-1] is message  # NewestGoesToTheTail
            return True
        else:
            lane = self.lane
        if lane.waiting or (lane.items and not lane.has_room(size_bytes)):
            return False
        self._append(lane, message, size_bytes)
        return True

    def defer(self, message: object, within_s: float = math.inf) -> bool:
        """Queue the message; wake the receiver for it after `within_s` or `delay_max_s` seconds.

        Returns: False if there is no room. For a conflated message there always is.
        """
        kind = type(message)
        assert kind not in self._control_types
        key: Hashable
        if kind in self._conflate:
            key = (kind, self._conflate[kind](message))
            if self.deferred.pop(key, None) is not None:
                self.conflated += 1
        elif len(self.deferred) < DEFERRED_MAX:
            key = object()
        else:
            return False
        self.deferred[key] = message
        self.lane.limit = 0  # whatever comes next has to go behind it
        self._schedule_deferred(min(within_s, self.delay_max_s))
        return True

    def limit_delay(self, within_s: float) -> None:
        """Implement `ActorContext.limit_delay`."""
        self.delay_max_s = within_s
        if self.deferred:
            self._schedule_deferred(within_s)

    def push(self, message: object) -> None:
        """Add the message whatever the capacity; for answers, which their asker bounds."""
        self._append(self.lane, message, self._size_of(message) if self._size_of is not None else 0)

    def enqueue(self, message: object) -> WaitingSender:
        """Have the message wait for room behind those that wait already.

        No task is woken when it gets in.
        """
        lane = self.control if type(message) in self._control_types else self.lane
        if self.deferred and lane is self.lane:
            self._append_deferred()
        size_bytes = self._size_of(message) if self._size_of is not None else 0
        sender = WaitingSender(lane, message, size_bytes)
        lane.waiting[sender] = None
        return sender

    async def wait(self, message: object) -> None:
        """Wait for room, in line with others, and add the message.

        If the actor stops meanwhile, the message is a dead letter.

        Raises: MailboxFull: the actor's own loop would wait, for itself and for ever.
        """
        if trio.lowlevel.current_task() is self.receiver_task:
            raise MailboxFull(f"{self.path} would wait for room in its own mailbox for ever")
        await self.enqueue(message).parker.park()

    def stop(self, reason: StopReason) -> None:
        """Have the receive loop end after its current message. The first reason counts."""
        if self.stopping is None:
            self.stopping = reason
        self.alert()

    def alert(self) -> None:
        """Have the receive loop handle what is urgent."""
        self.urgent = True
        self.receiver.wake()

    def take_control(self) -> list[Any]:
        """Remove and return all control messages, oldest first."""
        control = self.control.take()
        self.received += len(control)
        self.urgent = bool(self.control.items)  # from senders that waited
        return control

    def take(self) -> list[Any]:
        """Remove and return the main lane's messages, oldest first; let in senders that wait."""
        lane = self.lane
        if lane.gone or lane.waiting:
            items = lane.take()
        else:
            items, lane.items, lane.size_bytes = lane.items, [], 0
        depth = len(items)
        self.received += depth
        if depth > self.peak:
            self.peak = depth
        if self._keyed:
            self._keyed.clear()
        if lane.items:
            self.first_s = trio.current_time()
        return items

    def close(self) -> list[Any]:
        """Close the mailbox, so that no message comes in any more.

        The senders that wait are woken in order.

        Returns: the unread messages, without deferred ones of conflated classes, which are out of
            date by then.
        """
        self.open = False
        self.alarm.cancel()
        left = [each for each in self.deferred.values() if type(each) not in self._conflate]
        self.deferred.clear()
        for lane in (self.control, self.lane):
            left += [each for each in lane.items if each is not GONE]
            lane.items = []
            lane.limit = lane.gone = lane.size_bytes = 0
            for sender in lane.waiting:
                left.append(sender.message)
                sender.parker.wake()
            lane.waiting.clear()
        return left

    def statistics(self) -> MailboxStatistics:
        lane, control = self.lane, self.control
        return MailboxStatistics(
            depth=lane.depth + len(self.deferred) + control.depth,
            peak=max(self.peak, lane.depth),
            size_bytes=lane.size_bytes + control.size_bytes,
            oldest_age_s=trio.current_time() - self.first_s if lane.depth else 0.0,
            received=self.received,
            refused=self.refused,
            conflated=self.conflated,
            senders_waiting=len(lane.waiting) + len(control.waiting),
        )

    def _append(self, lane: Lane, message: object, size_bytes: int) -> None:
        if not lane.items:
            self.first_s = trio.current_time()
        if self.deferred and lane is self.lane:
            self._append_deferred()
        lane.items.append(message)
        lane.size_bytes += size_bytes
        self.receiver.wake()

    def _schedule_deferred(self, within_s: float) -> None:
        if within_s >= self._within_s:
            return  # what is there already is read in time for both
        self._within_s = within_s
        if within_s <= 0.0:
            self._append_deferred()
            self.receiver.wake()
            return
        # At a multiple of it, so that one look at the deadlines serves many actors.
        due_s = (trio.current_time() // within_s + 1) * within_s
        if due_s < self.deferred_s:
            self.deferred_s = due_s
            self.alarm.set(due_s)

    def _rung(self) -> None:
        """Wake the receiver if a timer or deferred messages are due; else set the alarm again."""
        now_s = trio.current_time()
        if now_s >= self.deferred_s:
            self._append_deferred()
        elif now_s < self.timer_s:
            self.alarm.set(min(self.deferred_s, self.timer_s))
            return
        self.receiver.wake()

    def _append_deferred(self) -> None:
        """Move the deferred messages behind those of the main lane.

        They replace none of these, as a message there may rely on the older ones in front of it.
        There are few kinds of them, and one message of each kind each time.
        """
        lane, deferred = self.lane, self.deferred
        self.deferred, self.deferred_s, self._within_s = {}, math.inf, math.inf
        lane.limit = lane.capacity if lane.capacity_bytes is None else 0
        if not lane.items:
            self.first_s = trio.current_time()
        for key, message in deferred.items():
            self._keyed[key] = len(lane.items)
            lane.items.append(message)
            lane.size_bytes += self._size_of(message) if self._size_of is not None else 0

    def _replace(self, message: object, key: Hashable, size_bytes: int) -> None:
        lane = self.lane
        if self.deferred:
            self._append_deferred()
        index = self._keyed.get(key)
        if index is not None:
            older = lane.items[index]
            if self._size_of is not None:
                lane.size_bytes -= self._size_of(older)
            lane.items[index] = GONE
            lane.gone += 1
            self.conflated += 1
            if lane.gone >= GONE_MIN and lane.gone * 2 > len(lane.items):
                self._close_up()
        self._keyed[key] = len(lane.items)
        self._append(lane, message, size_bytes)

    def _close_up(self) -> None:
        """Close the gaps of replaced messages, so that waiting senders bound their number."""
        lane = self.lane
        moved: dict[int, int] = {}
        kept: list[Any] = []
        for index, each in enumerate(lane.items):
            if each is not GONE:
                moved[index] = len(kept)
                kept.append(each)
        lane.items = kept
        lane.gone = 0
        self._keyed = {key: moved[at] for key, at in self._keyed.items() if at in moved}
