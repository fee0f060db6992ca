"""Starts, watches, stops and kills the incarnations of one supervisor's children.

How cancellation works here (each rule was seen to matter):
- A child's body runs in its incarnation's own cancel scope. The scope is shielded inside the
  wrapped `started()`, after the inner call and only if the task did move to this nursery: shielded
  earlier, or when `started()` comes after a cancellation, the program would hang.
- A kill lifts every shield of the subtree and then cancels.
- The exit notice is sent from `finally`, outside the incarnation's scope, and errors are caught
  outside it too: inside, an error raised during a cancellation would travel with Cancelled and
  escape.
- Only `Exception` is caught. KeyboardInterrupt passes through all supervisors; it is no exit to
  restart from.
No child is started outside this path.
"""

from __future__ import annotations

from collections import deque
from functools import partial

import trio

from actors.events import runtime as events
from actors.runtime.child import Child, Exit, Incarnation, Launch
from actors.runtime.errors import describe
from actors.runtime.mailbox import StopReason
from actors.runtime.parking import Parker
from actors.runtime.process import LAG_S
from actors.runtime.ref import Registry
from actors.runtime.spec import ChildSpec
from actors.runtime.tree import State, TreeNode


class Incarnations:
    """The children of one supervisor, in start order. `Supervisor` has the rules."""

    def __init__(
        self,
        registry: Registry,
        path: str,
        incarnation: int,
        children: tuple[ChildSpec, ...],
        launch: Launch,
    ) -> None:
        self.path = path
        self.incarnation = incarnation
        self._registry = registry
        self._launch = launch
        self._children = [Child(each, f"{path}/{each.name}") for each in children]
        self._exits: deque[Exit] = (
            deque()
        )  # bounded by the incarnations, which are started one by one
        self._parker = Parker()
        self._nursery: trio.Nursery | None = None

    def snapshot_children(self) -> tuple[TreeNode, ...]:
        return tuple(child.snapshot() for child in self._children)

    def running_paths(self) -> list[str]:
        paths: list[str] = []
        for child in self._children:
            current = child.current
            if current is not None and current.process is not None and not current.ended.is_set():
                paths += current.process.running_paths() or [child.path]
        return paths

    # Starting.

    async def _start_child(self, child: Child) -> None:
        """Start an incarnation and wait until it is ready. Raises: the error of a failed start."""
        assert self._nursery is not None
        assert child.current is None  # OneIncarnationPerChild
        current = Incarnation(self._registry.next_incarnation(child.path))
        child.current = current
        child.incarnation = current.number
        child.state = State.STARTING
        try:
            await self._nursery.start(
                partial(self._live, child, current), name=f"{child.path}#{current.number}"
            )
        finally:
            child.state = State.RUNNING if current.ready else State.STOPPED
            if not current.ready:
                child.current = None
        assert current.ready  # OnlyReadyChildrenStart: otherwise the start has raised

    async def _live(
        self, child: Child, current: Incarnation, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Run one incarnation of a child from its start to its end, in a task of its own."""
        started = partial(self._started, child, current, task_status)
        is_exit = False  # stays so for KeyboardInterrupt and its like, which end this supervisor
        try:
            with current.scope:
                process = self._launch(self._registry, child.path, current.number, child.spec.start)
                child.kind, child.type = process.kind, process.type
                current.process = process
                await process.run(started)
            is_exit = current.ready
        except Exception as exc:
            current.error = exc
            if not current.ready:
                raise
            is_exit = True
            child.crash = exc
        finally:
            current.ended.set()
            self._report(child, current)
            if is_exit:
                self._exits.append(
                    Exit(name=child.spec.name, incarnation=current.number, error=current.error)
                )
                self._parker.wake()

    def _started(
        self, child: Child, current: Incarnation, task_status: trio.TaskStatus[None]
    ) -> None:
        task_status.started()
        if trio.lowlevel.current_task().parent_nursery is not self._nursery:
            return  # cancelled meanwhile: it stays with the start, and ends at its next checkpoint
        current.scope.shield = True
        current.ready = True
        child.crash = None
        current.started_s = trio.current_time()
        self._registry.emit(
            child.path, current.number, events.ActorStarted(role=child.kind, type=child.type)
        )
        again = child.restarts + child.requested
        if again:
            self._registry.emit(child.path, current.number, events.ActorRestarted(restarts=again))
            self._registry.crash_log.restarted(child.path, current.number, again)

    def _report(self, child: Child, current: Incarnation) -> None:
        """Emit the end of an incarnation as an event. A long one resets the child's back-off."""
        if current.error is not None:
            if current.ready or child.restarts:  # else whoever has it started gets the error
                self._registry.crash_log.crashed(child.path, current.number, current.error)
            event: object = events.ActorCrashed(
                error=describe(current.error), starting=not current.ready
            )
        else:
            reason = (
                current.process.stopped_as if current.process is not None else StopReason.KILLED
            )
            event = events.ActorStopped(reason=reason.value)
        self._registry.emit(child.path, current.number, event)
        backoff = child.spec.backoff
        lived_s = trio.current_time() - current.started_s
        if backoff is not None and current.ready and lived_s > backoff.max_s:
            child.attempt = 0

    # Stopping.

    async def _stop_child(self, child: Child) -> None:
        """Ask the child to stop, and wait for its end; kill it when its time is over.

        If it does not run, do nothing.
        """
        current = child.current
        if current is None:
            return
        child.state = State.STOPPING
        current.request_stop(child.spec.shutdown_s)
        await self._wait_ended(current)
        if not current.ended.is_set():
            self._registry.emit(
                child.path,
                current.number,
                events.ChildKilled(shutdown_s=child.spec.shutdown_s),
            )
            current.kill()
            await current.ended.wait()
        child.current = None
        child.state = State.STOPPED

    async def _wait_ended(self, current: Incarnation) -> None:
        """Wait until the incarnation has ended, or its time is over.

        A program that was suspended (by SIGSTOP or a debugger) has given nobody their time, so all
        that are stopping get it once more.
        """
        for _ in range(2):
            due_s = max(current.stop_deadline_s, trio.current_time())
            with trio.move_on_at(due_s):
                await current.ended.wait()
            if trio.current_time() - due_s <= LAG_S:
                return
            for child in self._children:
                if child.current is not None:
                    child.current.renew_stop(child.spec.shutdown_s)

    def _shutdown_times_s(self) -> list[float]:
        return [
            child.current.process.shutdown_s(child.spec.shutdown_s)
            for child in self._children
            if child.current is not None and child.current.process is not None
        ]

    def _find(self, name: str) -> Child | None:
        return next((child for child in self._children if child.spec.name == name), None)

    def _emit(self, event: object) -> None:
        self._registry.emit(self.path, self.incarnation, event)
