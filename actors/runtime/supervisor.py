"""The supervisor: one task, one nursery, and the rules of OTP's supervisor.erl.

How cancellation works here (each rule was seen to matter):
- A child's body runs in its life's own cancel scope. The scope is shielded inside the wrapped
  `started()`, after the inner call and only if the task did move to this nursery: shielded
  earlier, or when `started()` comes after a cancellation, the program would hang.
- So when the host cancels, only the root's own awaits are interrupted. Its `finally` is shielded
  and stops the children in reverse order: ask, wait, kill, wait. A supervisor below is asked by
  cancelling its `_loop_scope`, which interrupts it in the same place, whatever it was waiting
  for.
- A kill lifts every shield of the subtree and then cancels.
- The exit notice is sent from `finally`, outside the life's scope, and errors are caught outside
  it too: inside, an error raised during a cancellation would travel with Cancelled and escape.

Source for the rules: erlang/otp, lib/stdlib/src/supervisor.erl (restart/2,
restart_multiple_children/3, do_auto_shutdown/2). Differs:
- a start that fails in a restart is tried again after the child's back-off, and counts as a
  restart each time, as OTP's try_again_restart does at once;
- a crash of a significant child is carried by SignificantChildFailed, so that it reaches the host;
- more restarts than `intensity` end the supervisor with an error (OTP: with reason shutdown), so
  the parent counts one failed exit;
- errors of children that fail while everything stops are raised to the host (OTP only reports
  them).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from actors.events import runtime as events
from actors.runtime.actor import StopReason
from actors.runtime.child import Child, Exit, Launch, Life, RestartWindow
from actors.runtime.errors import (
    RestartIntensityExceeded,
    SignificantChildFailed,
    StartCancelled,
    describe,
)
from actors.runtime.mailbox import MailboxStatistics
from actors.runtime.parking import Parker
from actors.runtime.registry import Registry
from actors.runtime.spec import (
    SUPERVISOR_EXTRA_S,
    AutoShutdown,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.runtime.tree import State, TreeNode

_NEVER = math.inf


class Supervisor:
    """One incarnation of a supervisor. `run` is its task."""

    kind = "supervisor"

    def __init__(
        self,
        registry: Registry,
        path: str,
        incarnation: int,
        spec: SupervisorSpec,
        launch: Launch,
        *,
        stop_timeout_s: float = _NEVER,
    ) -> None:
        self.path = path
        self.incarnation = incarnation
        self.type = spec.strategy.value
        self.stopped_as = StopReason.SHUTDOWN
        self._registry = registry
        self._spec = spec
        self._launch = launch
        self._children = [Child(each, f"{path}/{each.name}") for each in spec.children]
        self._window = RestartWindow(spec.intensity, spec.period_s)
        self._exits: deque[Exit] = (
            deque()
        )  # bounded: one notice per life, and lives are started one by one here
        self._parker = Parker()
        self._nursery: trio.Nursery | None = None
        self._loop_scope = trio.CancelScope()
        self._stop_scope = trio.CancelScope(shield=True)
        self._budget_scope = trio.CancelScope()
        self._stop_timeout_s = stop_timeout_s
        self._stop_errors: list[Exception] = []
        self._killed = False

    # What the parent, the kill walk and the snapshot use.

    def request_stop(self) -> None:
        self._loop_scope.cancel()

    def hurry(self) -> None:
        """Stop now: the budget is used up."""
        self._stop_timeout_s = 0.0
        self._budget_scope.deadline = -_NEVER
        self.request_stop()

    def open_to_kill(self) -> None:
        self._killed = True
        self._stop_scope.shield = False
        for child in self._children:
            if child.life is not None:
                child.life.open_to_kill()

    def shutdown_s(self, own_s: float) -> float:
        del own_s  # the children's times count
        return self._children_shutdown_s() + SUPERVISOR_EXTRA_S

    def statistics(self) -> MailboxStatistics | None:
        return None

    def snapshot_children(self) -> tuple[TreeNode, ...]:
        return tuple(child.snapshot() for child in self._children)

    def running_paths(self) -> list[str]:
        paths: list[str] = []
        for child in self._children:
            life = child.life
            if life is not None and life.process is not None and not life.ended.is_set():
                paths += life.process.running_paths() or [child.path]
        return paths

    # The life of a supervisor.

    async def run(self, started: Callable[[], None]) -> None:
        """Start the children, call `started`, keep the rules, and stop the children however this
        ends.
        """
        failure: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                interrupted = True
                try:
                    with self._loop_scope:
                        await self._start_all()
                        started()
                        await self._serve()
                        self.stopped_as = StopReason.NORMAL
                    interrupted = False
                except Exception as exc:  # noqa: BLE001 - raised once the children have ended
                    failure = exc
                    interrupted = False
                finally:
                    self._stop_scope.shield = not self._killed
                    with self._stop_scope:
                        await self._stop_all()
                    if interrupted:
                        self._raise_stop_errors(None)
        finally:
            if self._killed:
                self.stopped_as = StopReason.KILLED
            self._on_exit()
        self._raise_stop_errors(failure)

    def _on_exit(self) -> None:
        if self._spec.on_exit is not None:
            self._spec.on_exit()

    def _raise_stop_errors(self, failure: Exception | None) -> None:
        errors = self._stop_errors
        if isinstance(failure, SignificantChildFailed):
            raise SignificantChildFailed(failure.message, [*failure.exceptions, *errors])
        if failure is not None and not errors:
            raise failure
        if errors:
            first = [] if failure is None else [failure]
            raise ExceptionGroup(f"{self.path} failed while stopping", first + errors)

    async def _serve(self) -> None:
        """Deal with exits and due restarts. Returns when it shall end without an error."""
        while True:
            now_s = trio.current_time()
            due_s = min(
                (c.due_s for c in self._children if c.state is State.WAITING), default=_NEVER
            )
            if due_s <= now_s:
                await self._start_due(now_s)
            elif self._exits:
                if await self._on_exit_notice(self._exits.popleft()):
                    return
            elif not await self._do_command():
                with trio.move_on_at(due_s):
                    await self._parker.park()

    async def _do_command(self) -> bool:
        """Carry out one message. False if there is none. (Only dynamic supervisors have a
        mailbox.)
        """
        return False

    async def _on_exit_notice(self, notice: Exit) -> bool:
        """True if the supervisor shall shut itself down."""
        child = self._find(notice.name)
        if child is None or child.life is None or child.life.incarnation != notice.incarnation:
            return False  # it was stopped, or replaced, before its notice was read
        child.life = None
        child.state = State.STOPPED
        error = notice.error
        failed = error is not None and not isinstance(error, SignificantChildFailed)
        restart = child.spec.restart
        if restart is Restart.PERMANENT or (restart is Restart.TRANSIENT and failed):
            await self._restart(child, error)
            return False
        self._ended_for_good(child)
        if not child.spec.significant or not self._shuts_down():
            return False
        if error is not None:
            raise SignificantChildFailed(f"{child.path} was significant and failed", [error])
        return True

    def _ended_for_good(self, child: Child) -> None:
        if child.temporary:
            self._children.remove(child)

    def _shuts_down(self) -> bool:
        """A significant child has ended for good: is that the end of this supervisor?"""
        if self._spec.auto_shutdown is AutoShutdown.ANY_SIGNIFICANT:
            return True
        return self._spec.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT and not any(
            child.spec.significant and child.state is not State.STOPPED for child in self._children
        )

    # Restarts.

    async def _restart(self, child: Child, error: Exception | None) -> None:
        """Count the restart, stop those who go down with the child, and plan when to start them
        all again.
        """
        now_s = trio.current_time()
        if not self._window.add(now_s):
            self._give_up(child, error)
        due_s = now_s + self._delay_s(child)
        affected = self._affected(child)
        for each in affected:
            if each.state is State.WAITING:
                due_s = max(due_s, each.due_s)
        for each in reversed(affected):
            await self._stop_child(each)
            if each.temporary:
                self._ended_for_good(each)
            else:
                each.state = State.WAITING
                each.due_s = due_s

    def _affected(self, child: Child) -> list[Child]:
        at = self._children.index(child)
        match self._spec.strategy:
            case Strategy.ONE_FOR_ONE:
                return [child]
            case Strategy.ONE_FOR_ALL:
                return list(self._children)
            case Strategy.REST_FOR_ONE:
                return self._children[at:]

    def _delay_s(self, child: Child) -> float:
        backoff = child.spec.backoff
        if backoff is None:
            return 0.0
        delay_s = backoff.delay_s(child.attempt, self._registry.rng)
        child.attempt += 1
        return delay_s

    def _give_up(self, child: Child, error: Exception | None) -> None:
        spec = self._spec
        self._emit(
            events.RestartIntensityExceeded(
                child=child.path, intensity=spec.intensity, period_s=spec.period_s
            )
        )
        raise RestartIntensityExceeded(
            f"{self.path}: {child.path} ended once more after {spec.intensity} restarts in"
            f" {spec.period_s:g} s"
        ) from error

    async def _start_due(self, now_s: float) -> None:
        """Start, left to right, the children whose time has come. The first failure ends the
        round.
        """
        for child in [c for c in self._children if c.state is State.WAITING and c.due_s <= now_s]:
            child.restarts += 1
            try:
                await self._start_child(child)
            except Exception as exc:  # noqa: BLE001 - a failed start is a failed life
                await self._restart(child, exc)
                return

    # Starting.

    async def _start_all(self) -> None:
        for child in self._children:
            try:
                await self._start_child(child)
            except Exception as exc:  # noqa: BLE001 - any error of a start
                raise ExceptionGroup(f"{child.path} could not start", [exc]) from None

    async def _start_child(self, child: Child) -> None:
        """Start one life and wait until it is ready. Raises what it raised before that."""
        assert self._nursery is not None
        assert child.life is None  # OneLifePerChild
        life = Life(self._registry.next_incarnation(child.path))
        child.life = life
        child.incarnation = life.incarnation
        child.state = State.STARTING
        try:
            await self._nursery.start(
                partial(self._live, child, life), name=f"{child.path}#{life.incarnation}"
            )
        finally:
            child.state = State.RUNNING if life.ready else State.STOPPED
            if not life.ready:
                child.life = None
        if not life.ready:
            raise StartCancelled(f"{child.path} was cancelled before it was ready")

    async def _live(self, child: Child, life: Life, *, task_status: trio.TaskStatus[None]) -> None:
        """A child's whole life, in its own task."""
        started = partial(self._started, child, life, task_status)
        told = False  # stays so for KeyboardInterrupt and the like, which end this supervisor too
        try:
            with life.scope:
                process = self._launch(
                    self._registry, child.path, life.incarnation, child.spec.start
                )
                child.kind, child.type = process.kind, process.type
                life.process = process
                await process.run(started)
            told = life.ready
        except Exception as exc:
            life.error = exc
            if not life.ready:
                raise
            told = True
        finally:
            life.ended.set()
            self._report(child, life)
            if told:
                self._exits.append(
                    Exit(name=child.spec.name, incarnation=life.incarnation, error=life.error)
                )
                self._parker.wake()

    def _started(self, child: Child, life: Life, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        if trio.lowlevel.current_task().parent_nursery is not self._nursery:
            return  # cancelled meanwhile: it stays with the start, and ends at its next checkpoint
        life.scope.shield = True
        life.ready = True
        life.started_s = trio.current_time()
        self._registry.emit(
            child.path, life.incarnation, events.ActorStarted(role=child.kind, type=child.type)
        )
        if child.restarts:
            self._registry.emit(
                child.path, life.incarnation, events.ActorRestarted(restarts=child.restarts)
            )

    def _report(self, child: Child, life: Life) -> None:
        """Tell the end of a life, and let the back-off begin again after a long one."""
        if life.error is not None:
            event: object = events.ActorCrashed(error=describe(life.error), starting=not life.ready)
        else:
            reason = life.process.stopped_as if life.process is not None else StopReason.KILLED
            event = events.ActorStopped(reason=reason.value)
        self._registry.emit(child.path, life.incarnation, event)
        backoff = child.spec.backoff
        lived_s = trio.current_time() - life.started_s
        if backoff is not None and life.ready and lived_s > backoff.max_s:
            child.attempt = 0

    # Stopping.

    async def _stop_child(self, child: Child) -> None:
        """Ask the child to stop, wait, kill it when its time is over, wait. Nothing to do if it
        does not run.
        """
        life = child.life
        if life is None:
            return
        child.state = State.STOPPING
        life.request_stop(child.spec.shutdown_s)
        with trio.move_on_at(life.stop_deadline_s):
            await life.ended.wait()
        if not life.ended.is_set():
            self._registry.emit(
                child.path,
                life.incarnation,
                events.ChildKilled(shutdown_s=child.spec.shutdown_s),
            )
            life.kill()
            await life.ended.wait()
        child.life = None
        child.state = State.STOPPED

    async def _stop_all(self) -> None:
        """Stop all children in reverse order, within the budget if this is the root."""
        lives = [child.life for child in self._children if child.life is not None]
        self._budget_scope.deadline = trio.current_time() + self._stop_timeout_s
        with self._budget_scope:
            await self._stop_children()
        if self._budget_scope.cancelled_caught:
            self._emit(events.StopTimedOut(paths=tuple(self.running_paths())))
            for child in reversed(self._children):
                if child.life is not None:
                    child.life.kill()
                    await child.life.ended.wait()
        self._stop_errors += [life.error for life in lives if life.asked and life.error is not None]

    async def _stop_children(self) -> None:
        for child in reversed(self._children):
            await self._stop_child(child)

    def _children_shutdown_s(self) -> float:
        return sum(self._shutdown_times_s())

    def _shutdown_times_s(self) -> list[float]:
        return [
            child.life.process.shutdown_s(child.spec.shutdown_s)
            for child in self._children
            if child.life is not None and child.life.process is not None
        ]

    def _find(self, name: str) -> Child | None:
        return next((child for child in self._children if child.spec.name == name), None)

    def _emit(self, event: object) -> None:
        self._registry.emit(self.path, self.incarnation, event)
