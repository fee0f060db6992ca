"""The command `run`: runs nodes, feed and view until there is a reason to stop, then stops them in
order and returns a summary.

Order of a stop: the feed sends no more, and gets its last answers; the nodes take no more appends;
slaves and followers get what they lack (within `drain_timeout_s`, and DRAIN_STANDS_S if they take
nothing); the nodes are asked a last time for the summary; then they stop, masters first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from signal import SIGINT
from typing import Protocol, TypeAlias

import attrs
import trio

from actors.cluster.explain import EXIT_FAILED, EXIT_USAGE, explain
from actors.cluster.feed import Feed
from actors.cluster.links import ANSWERING, Links
from actors.cluster.summary import GroupSummary, Summary, findings, group_summary
from actors.cluster.view import ClusterView, NodeView, clock, is_gone, newest_leader
from actors.config import ClusterConfig
from actors.config.command_line import stop_signals
from actors.config.kind import Terms
from actors.config.kinds import kind_of
from actors.config.model import DRAIN_STANDS_S
from actors.group_status import FENCED, REFUSED
from actors.own_process import as_typed
from actors.readable import counted, readable

ANSWERS_EXTRA_S = 2.0
"""How much longer than an append may take to wait for the feed's last answers."""
START_WAIT_S = 30.0
"""How long a run with a time limit waits for nodes that have never answered. A node that has not
answered by then is not called one that is starting."""
WAIT_NOTED_S = 1.0
"""After this time an ordered stop that was asked for says what it waits for."""
LAST_LOOK_S = 2.0
DRAIN_LOOK_S = 0.05
NO_ANSWER = "does not answer"
"""What is said of a node of the run that may have crashed and may be back at any moment."""
NOTES_MAX = 100
NOTE_SHOWN_S = 60.0
"""How long a view shows a note; lasting conditions are shown in the states."""
INTERRUPTED, TERMINATED = "interrupted", "terminated"
BY_SIGNAL = (INTERRUPTED, TERMINATED)


Reader: TypeAlias = Callable[[], Awaitable[None]]


def lacking(
    views: tuple[NodeView, ...],
    groups: Mapping[str, tuple[str, ...]],
    expected: Callable[[str], bool],
) -> tuple[str, ...]:
    """Return a line, for people, for each slave or follower that lacks records and can be waited
    for.

    Args:
        groups: the members of each group.
        expected: returns whether a node of this run is running or is being started. It is waited
            for until it has caught up, unless its log has diverged; other nodes only while they are
            connected.
    """
    lines: list[str] = []
    found = {view.node: view for view in views}
    for name, members in groups.items():
        newest = newest_leader(views, name)
        if newest is None or found[newest[0]].state not in ANSWERING:
            continue
        lead = newest[1]
        lags: dict[str, int | None] = {
            peer.node: peer.lag for peer in lead.peers if peer.awaited and peer.lag
        }
        for node in members:
            own = found[node].groups.get(name) if node in found else None
            if node not in found or not expected(node) or (own is not None and own.diverged):
                continue
            if own is None or found[node].state not in ANSWERING:
                lags[node] = None
            elif own.written < lead.written:
                lags.setdefault(node, lead.written - own.written)
        for node, lag in lags.items():
            lines.append(f"{node} {lacks(lag, lead.terms.unit, name)}")
    return tuple(lines)


def lacks(lag: int | None, unit: str, group: str) -> str:
    """Say what a node lacks, for people.

    Args:
        lag: how much, in `unit`; None: the node does not answer.
    """
    return f"{NO_ANSWER} in {group}" if lag is None else f"lacks {lag} {unit} of {group}"


@attrs.frozen
class Feeding:
    """The feeds that a run will open.

    Attributes:
        masters: the nodes that have to answer first.
        open: makes the feeds, and the functions that read lines for them. Raises ConfigError and
            OSError.
    """

    masters: tuple[str, ...]
    open: Callable[[], tuple[tuple[Feed, ...], tuple[Reader, ...]]]


@attrs.define(kw_only=True)
class Run:
    """One run, from its start to its summary.

    Attributes:
        links: the links to the nodes that it runs.
        feeding: opens the feeds when the masters that they need have answered; None: there are
            none.
        ends_with_feed: whether to stop when all feeds have ended. Records that such a feed has sent
            and that are not acknowledged at the end are a failure.
        feed_resumes: whether the next run reads lines again that were read but not sent. Otherwise
            such lines are a failure, unless a signal ended the run.
        for_s: how many seconds to run after all nodes have answered, or after START_WAIT_S; None:
            no limit.
        look: called with a view to show, every `look_s` seconds.
        on_note: called with each new note.
        on_ready: called with a node's name when it has answered for the first time.
        say_wait: called with a line about what an ordered stop waits for; None: the line is a note.
        judges: whether slaves that are refused at the end are failures. False for a node of a
            larger run, which judges all of its nodes itself.
    """

    config: ClusterConfig
    links: Links
    feeding: Feeding | None = None
    ends_with_feed: bool = False
    feed_resumes: bool = True
    for_s: float | None = None
    look: Callable[[ClusterView], None] = lambda view: None
    look_s: float = 0.5
    on_note: Callable[[str], None] = lambda line: None
    on_ready: Callable[[str], None] = lambda node: None
    say_wait: Callable[[str], None] | None = None
    judges: bool = True
    _feeds: tuple[Feed, ...] = ()
    _backend: Backend | None = None
    _phase: str = "starting"
    _reason: str = ""
    _asked: bool = False
    _waits_until_s: float = 0.0
    _child_code: int = EXIT_FAILED
    _failures: list[str] = attrs.field(factory=list)
    _notes: deque[tuple[float, str]] = attrs.field(factory=lambda: deque(maxlen=NOTES_MAX))
    _stop: trio.Event = attrs.field(factory=trio.Event)
    _fed: trio.Event = attrs.field(factory=trio.Event)
    _opening: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _before_stop: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _hurry_scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _started_s: float = 0.0
    _at_s: float = 0.0
    _starting: tuple[str, ...] = ()  # the nodes that were not up yet when a signal came
    _last_view: ClusterView | None = None
    # if they do not answer at last: they answered as the stop began, or have ended before it
    _had_stopped: set[str] = attrs.field(factory=set)

    def note(self, line: str) -> None:
        """Keep a line for people, and pass it on."""
        line = readable(as_typed(line))
        self._notes.append((self.at_s, line))
        self.on_note(line)

    def stop(self, reason: str, *, asked: bool = False) -> None:
        """Begin the ordered stop. The first reason is the one that is reported.

        Args:
            asked: whether the stop was asked for, so that somebody waits for it.
        """
        if not self._stop.is_set():
            self._asked = asked
            self._had_stopped |= {
                node.node for node in self.links.views() if node.state in ANSWERING
            }
            wait_s = self._feed_wait_s() + self.config.drain_timeout_s
            self._waits_until_s = trio.current_time() + wait_s
        if reason in BY_SIGNAL and not self._stop.is_set() and self._may_still_start():
            self._starting = self.links.silent()
        self._reason = self._reason or reason
        self._stop.set()
        self._before_stop.cancel()
        if self._backend is None:
            self._opening.cancel()  # to stop what has only begun to start is an ordered stop, too

    def _may_still_start(self) -> bool:
        return trio.current_time() < self._started_s + START_WAIT_S

    def hurry(self) -> None:
        """Stop without waiting for answers and slaves."""
        self.stop("hurried")
        self._hurry_scope.cancel()
        if self._backend is not None:
            self._backend.hurry()

    @property
    def at_s(self) -> float:
        """The seconds since the start; 0 before it. In a thread, the value of the last call in
        Trio.
        """
        with suppress(RuntimeError):  # Trio's time is known only inside its run
            self._at_s = trio.current_time() - self._started_s
        return self._at_s

    def view(self) -> ClusterView:
        """Return what is known now."""
        at_s = self.at_s
        newest = tuple((when, line) for when, line in self._notes if when > at_s - NOTE_SHOWN_S)
        return ClusterView(
            cluster=self.config.name,
            at_s=at_s,
            phase=self._phase,
            nodes=self.links.views(),
            feeds=tuple(feed.view() for feed in self._feeds),
            notes=tuple(f"{clock(when)} {line}" for when, line in newest),
        )

    async def run(self, open_backend: OpenBackend) -> Summary:
        """Run until a signal, the end of `for_s`, of the feed, or of the nodes.

        Returns: the summary, which has the failures of nodes and feed.

        Raises:
            ConfigError, or a group with one: a user's mistake; everything has stopped.
        """
        self._started_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._obey_signals)
            nursery.start_soon(self._show)
            nursery.start_soon(self._note_wait)
            try:
                with self._opening:
                    async with open_backend(self.note) as backend:
                        self._backend = backend
                        self.links.restarts = backend.restarts
                        await self._drive(backend)
            except Exception as error:
                explained = explain(error, self.config)
                if explained.exit_code == EXIT_USAGE:
                    raise
                self._failures += explained.lines
                self._reason = self._reason or "failed"
                self._child_code = explained.child_code
            nursery.cancel_scope.cancel()
        if self._backend is not None:  # after they have stopped, because a stop may fail, too
            failed = self._backend.failed().items()
            self._failures += [f"triolog: {node}: {why}" for node, why in failed]
        return self._summary()

    async def _obey_signals(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*stop_signals()) as received:
            task_status.started()
            async for number in received:
                if self._stop.is_set():
                    self.hurry()
                else:
                    self.stop(INTERRUPTED if number == SIGINT else TERMINATED, asked=True)

    async def _show(self) -> None:
        while True:
            self.look(self.view())
            await trio.sleep(self.look_s)

    async def _note_wait(self) -> None:
        """Say once what a stop waits for, if it takes long and was asked for."""
        await self._stop.wait()
        await trio.sleep(WAIT_NOTED_S if self._asked else math.inf)
        # There are two waits, one after the other, and the second has no event.
        while not (waits := self._waits_for()):  # noqa: ASYNC110
            await trio.sleep(DRAIN_LOOK_S)
        most_s = max(1, math.ceil(self._waits_until_s - trio.current_time()))
        signal = "a second signal" if self._reason in BY_SIGNAL else "a signal"
        text = f"stopping: {waits}; waits {most_s} s more at most, {signal} ends it now"
        (self.say_wait or self.note)(text)

    def _waits_for(self) -> str:
        if self._backend is None or self._hurry_scope.cancel_called:
            return ""
        if self._last_view is not None:  # the nodes are being stopped
            return self._backend.waits_for()
        if not self._fed.is_set():
            return "the feed's last answers have not come"
        return ", ".join(lacking(self.links.views(), self._members(), self._backend.expected))

    async def _drive(self, backend: Backend) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.links.run)
            for node in self.links.names:
                nursery.start_soon(self._note_ready, node)
            if self.judges:
                nursery.start_soon(self._note_refusals)
            nursery.start_soon(self._heed, backend)
            nursery.start_soon(self._heed_failures, backend)
            nursery.start_soon(self._feed)
            nursery.start_soon(self._run_out)
            await self._stop.wait()
            self._phase = "stopping"
            with self._hurry_scope:
                await self._finish(backend)
            self._last_view = self.view()
            self._had_stopped |= {node for node in self.links.names if not backend.expected(node)}
            nursery.cancel_scope.cancel()

    async def _note_ready(self, node: str) -> None:
        await self.links.wait_for((node,))
        self.on_ready(node)

    async def _note_refusals(self) -> None:
        """Note each follower that is refused, and each leader that waits for an operator.

        It is noted again only if the reason changes, or if it was over in between.
        """
        noted: dict[tuple[str, str], str] = {}
        while True:
            view, before, noted = self.view(), noted, {}
            for group in self.config.groups:
                peer = self._terms(group).peer
                for node, reason in findings(view, group, REFUSED).items():
                    noted[group, node] = f"{peer} {node} is refused: {reason}"
                for node, reason in findings(view, group, FENCED).items():
                    noted[group, node] = f"{node} takes no appends: {reason}"
            for (group, node), text in noted.items():
                if before.get((group, node)) != text:
                    self.note(f"{group}: {text}")
            await self.links.wait_changed()

    async def _heed(self, backend: Backend) -> None:
        self.stop(await backend.wait_ended(), asked=True)

    async def _heed_failures(self, backend: Backend) -> None:
        """End the run if a node cannot even start; go on without a node that ran before."""
        noted: set[str] = set()
        while True:
            for node in sorted(set(backend.failed()) - noted):
                noted.add(node)
                if node in self.links.silent():
                    self.stop(f"{node} could not start")
                else:
                    self.note(f"{node}: {backend.failed()[node]}, not started again")
            await backend.wait_failed()

    async def _run_out(self) -> None:
        with trio.move_on_after(START_WAIT_S if self.for_s is not None else math.inf):
            await self.links.wait_for(self.links.names)
        if not self._stop.is_set():
            self._phase = "running"
        if self.for_s is not None:
            await trio.sleep(self.for_s)
            self._failures += [f"triolog: {node}: never answered" for node in self.links.silent()]
            self.stop(f"stopped by --for {self.for_s:g}s")

    async def _feed(self) -> None:
        try:
            await self._feed_all()
        except Exception as error:
            explained = explain(error, self.config)
            if explained.exit_code == EXIT_USAGE:
                raise
            self._failures += explained.lines
            self.stop("the feed failed")
        self._fed.set()
        if self.feeding is not None and self.ends_with_feed:
            self.stop("the feed has ended")

    async def _feed_all(self) -> None:
        if self.feeding is None:
            return
        with self._before_stop:
            await self.links.wait_for(self.feeding.masters)
        if self._stop.is_set():
            return
        self._feeds, readers = self.feeding.open()
        async with trio.open_nursery() as reading:
            for reader in readers:
                reading.start_soon(reader)
            async with trio.open_nursery() as feeding:
                for feed in self._feeds:
                    feeding.start_soon(feed.run)
            reading.cancel_scope.cancel()

    async def _finish(self, backend: Backend) -> None:
        for feed in self._feeds:
            feed.stop()
        with trio.move_on_after(self._feed_wait_s()):
            await self._fed.wait()
        backend.end_appends()
        self._waits_until_s = trio.current_time() + self.config.drain_timeout_s
        with trio.move_on_at(self._waits_until_s):
            await self.links.look_again(LAST_LOOK_S)
            before: tuple[str, ...] = ()
            moved_s = trio.current_time()
            while waits := lacking(self.links.views(), self._members(), backend.expected):
                now_s = trio.current_time()
                if waits != before or any(NO_ANSWER in line for line in waits):
                    before, moved_s = waits, now_s
                elif now_s >= moved_s + DRAIN_STANDS_S:
                    break
                await trio.sleep(DRAIN_LOOK_S)
                await self.links.look_again(LAST_LOOK_S)
        await self.links.look_again(LAST_LOOK_S)

    def _members(self) -> dict[str, tuple[str, ...]]:
        return {name: group.members for name, group in self.config.groups.items()}

    def _terms(self, group: str) -> Terms:
        return kind_of(self.config.groups[group]).terms

    def _feed_wait_s(self) -> float:
        """Return how long to wait for the feed's last answers, in seconds."""
        groups = self.config.groups.values()
        return max(group.append_timeout_s for group in groups) + ANSWERS_EXTRA_S

    def _summary(self) -> Summary:
        view = self._with_stopped(self._last_view or self.view())
        groups: list[GroupSummary] = []
        now_s = trio.current_time()
        for name, members in self._members().items():
            here = tuple(node for node in members if node in self.links.names)
            if not here:
                continue
            seconds = sum(feed.seconds for feed in self._feeds if feed.group == name)
            terms = self._terms(name)
            found = group_summary(view, name, terms, here, seconds, now_s)
            groups.append(found)
            if self.judges:
                self._failures += [
                    f"triolog: {name}: {terms.peer} {node} is refused: {reason}"
                    for node, reason in found.findings.get(REFUSED, {}).items()
                ]
        self._failures += self._not_acknowledged()
        failed = self._backend.failed() if self._backend is not None else {}
        silent = set(self.links.silent()) - set(failed)
        return Summary(
            cluster=self.config.name,
            reason=self._reason,
            seconds=now_s - self._started_s,
            groups=tuple(groups),
            starting=tuple(node for node in self._starting if node in silent),
            failures=tuple(self._failures),
            child_code=self._child_code,
        )

    def _with_stopped(self, view: ClusterView) -> ClusterView:
        """Return the last view with nodes as they were last known that stopped in order before they
        could be asked for it: by the same signal, or by `stop`.
        """
        failed = self._backend.failed() if self._backend is not None else {}
        stopped = self._had_stopped - set(failed)
        nodes = tuple(
            attrs.evolve(node, state="stopped") if is_gone(node) and node.node in stopped else node
            for node in view.nodes
        )
        return attrs.evolve(view, nodes=nodes)

    def _not_acknowledged(self) -> list[str]:
        """Return a line for each feed with records that are not acknowledged, or lines that were
        not sent.
        """
        lines = []
        for feed in self._feeds if self.ends_with_feed else ():
            seen = feed.view()
            missing = seen.sent_count - seen.acknowledged_count
            cut_off = not self.feed_resumes and self._reason not in BY_SIGNAL
            if missing:
                what = f"{missing:,} of {counted(seen.sent_count, 'record')} sent not acknowledged"
                lines.append(f"triolog: {feed.group}: {what}")
            elif cut_off and feed.waiting:
                lines.append(f"triolog: {feed.group}: lines were read from the feed and not sent")
        return lines


class Backend(Protocol):
    """The nodes of a run, however they are run."""

    def restarts(self, node: str) -> int:
        """Return how often a node's process was started again."""

    def expected(self, node: str) -> bool:
        """Return whether a node is running, or is being started again."""

    async def wait_ended(self) -> str:
        """Return the reason when the nodes have ended, or want to, without having been asked."""

    def failed(self) -> Mapping[str, str]:
        """Return the nodes that ended and are not started again, with the reasons."""

    async def wait_failed(self) -> None:
        """Return when one more node has failed."""

    def end_appends(self) -> None:
        """Have the nodes take no more appends, and wait at most `drain_timeout_s` from now on for
        other nodes.

        That way they are not waited for twice. If each node has its own process it does this when
        it is stopped.
        """

    def waits_for(self) -> str:
        """Say, for people, what the nodes wait for that are being stopped; "": nothing, as far as
        is known here.
        """

    def hurry(self) -> None:
        """Wait for nothing any more."""


OpenBackend: TypeAlias = Callable[[Callable[[str], None]], AbstractAsyncContextManager[Backend]]
"""Called with a function that takes notes for people. The nodes run between entry and exit of the
context, and are stopped in order at exit."""
