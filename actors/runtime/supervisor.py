"""The supervisor: one task, one nursery, and the rules of OTP's supervisor.erl.

When the host cancels, only the root's own awaits are interrupted: everything below is shielded.
Its `finally` is shielded too and stops the children in reverse order: ask, wait, kill, wait. A
supervisor below is asked by cancelling its `_loop_scope`, which interrupts it in the same place,
whatever it was waiting for. `incarnations` has the rest of the rules of cancellation.

Source for the rules: erlang/otp, lib/stdlib/src/supervisor.erl (restart/2,
restart_multiple_children/3, do_auto_shutdown/2). Differs:
- a start that fails in a restart is tried again after the child's back-off, and counts as a
  restart each time, as OTP's try_again_restart does at once;
- a crash of a significant child is carried by SignificantChildFailed, so that it reaches the host;
  so is a start of it that fails, and a tree that cannot start for that reason is not tried again;
- more restarts than `intensity` end the supervisor with an error (OTP: with reason shutdown), so
  the parent counts one failed exit;
- what `on_stop` raises in the last stop is raised to the host (OTP only reports it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import trio

from actors.events import runtime as events
from actors.readable import counted
from actors.runtime.child import Child, Exit, Launch, RestartWindow
from actors.runtime.errors import (
    ActorDown,
    RestartIntensityExceeded,
    SignificantChildFailed,
    StopFailed,
    describe,
)
from actors.runtime.incarnations import Incarnations
from actors.runtime.mailbox import MailboxStatistics, StopReason
from actors.runtime.ref import Registry
from actors.runtime.requests import Refused, RequestBox, RestartChild, Restarted, answer
from actors.runtime.spec import (
    SUPERVISOR_EXTRA_S,
    AutoShutdown,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.runtime.tree import State

_NEVER = math.inf


class Supervisor(Incarnations):
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
        super().__init__(registry, path, incarnation, spec.children, launch)
        self.type = spec.strategy.value
        self.stopped_as = StopReason.SHUTDOWN
        self._spec = spec
        self._window = RestartWindow(spec.intensity, spec.period_s)
        self._failure: Exception | None = None
        self._loop_scope = trio.CancelScope()
        self._budget_scope = trio.CancelScope()
        self._stop_timeout_s = stop_timeout_s
        self._stop_errors: list[StopFailed] = []
        self._killed = False
        self._requests: RequestBox | None = None
        if spec.takes_requests:
            self._requests = RequestBox(registry, path, self._parker)

    # What the parent, the kill walk and the snapshot use.

    def request_stop(self) -> None:
        self._loop_scope.cancel()

    def hurry(self) -> None:
        """Stop at once, killing what has not ended, because the time for the stop is used up."""
        self._stop_timeout_s = 0.0
        self._budget_scope.deadline = -_NEVER
        self.request_stop()

    def open_to_kill(self) -> None:
        self._killed = True
        for child in self._children:
            if child.current is not None:
                child.current.open_to_kill()

    def shutdown_s(self, own_s: float) -> float:
        del own_s  # the children's times count
        return sum(self._shutdown_times_s()) + SUPERVISOR_EXTRA_S

    def statistics(self) -> MailboxStatistics | None:
        return self._requests.statistics() if self._requests is not None else None

    # From start to end.

    async def run(self, started: Callable[[], None]) -> None:
        """Start the children, call `started`, supervise them, and stop them however this ends."""
        if self._requests is not None:
            self._requests.open()
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
                    self._failure = exc
                    interrupted = False
                finally:
                    with trio.CancelScope(shield=True):
                        await self._stop_all()
                    if interrupted:
                        self._raise_stop_errors(None)
        finally:
            if self._killed:
                self.stopped_as = StopReason.KILLED
            if self._requests is not None:
                self._requests.end()
            self._on_exit()
        self._raise_stop_errors(self._failure)

    def _on_exit(self) -> None:
        if self._spec.on_exit is not None:
            self._spec.on_exit()

    def _raise_stop_errors(self, failure: Exception | None) -> None:
        errors = self._stop_errors
        if isinstance(failure, SignificantChildFailed):
            raise SignificantChildFailed(failure.message, [*failure.exceptions, *errors])
        if failure is not None:
            if errors:
                raise ExceptionGroup(f"{self.path} failed, also while stopping", [failure, *errors])
            raise failure
        if errors:
            raise StopFailed(f"{self.path} failed while stopping", errors)

    async def _serve(self) -> None:
        """Handle exits, due restarts and requests. Return to end without an error."""
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
            elif not await self._do_request():
                with trio.move_on_at(due_s):
                    await self._parker.park()

    async def _on_exit_notice(self, notice: Exit) -> bool:
        """Handle a child's exit. Returns: whether the supervisor has to shut itself down."""
        child = self._find(notice.name)
        if child is None or child.current is None or child.current.number != notice.incarnation:
            return False  # it was stopped, or replaced, before its notice was read
        child.current = None
        child.state = State.STOPPED
        return await self._ended(child, notice.error)

    async def _ended(self, child: Child, error: Exception | None) -> bool:
        """Handle an incarnation that ended or failed to start.

        Returns: whether that ends the supervisor too, without an error.

        Raises: SignificantChildFailed: it ends the supervisor with the child's error.
        """
        if _comes_back(child, error):
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
        """Return whether this supervisor ends because a significant child has ended for good."""
        if self._spec.auto_shutdown is AutoShutdown.ANY_SIGNIFICANT:
            return True
        return self._spec.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT and not any(
            child.spec.significant and child.state is not State.STOPPED for child in self._children
        )

    def _ends_with(self, child: Child, error: Exception) -> bool:
        """Return whether this error of the child, once it runs, would end this supervisor."""
        any_significant = self._spec.auto_shutdown is AutoShutdown.ANY_SIGNIFICANT
        return child.spec.significant and any_significant and not _comes_back(child, error)

    # Requests.

    async def _do_request(self) -> bool:
        """Carry out one request. Returns: False if there is none."""
        message = self._requests.next() if self._requests is not None else None
        if message is None:
            return False
        await self._carry_out(message)
        return True

    async def _carry_out(self, message: Any) -> None:
        request: RestartChild = message
        child = self._find(request.name)
        if child is None:
            answer(request.reply_to, Refused(reason=f"there is no {request.name}"))
        elif child.state is State.WAITING:
            answer(request.reply_to, Refused(reason=f"{request.name} waits for its restart"))
        else:
            await self._restart_on_request(child, request)

    async def _restart_on_request(self, child: Child, request: RestartChild) -> None:
        await self._stop_child(child)
        child.requested += 1
        try:
            await self._start_child(child)
        except Exception as exc:  # noqa: BLE001 - a failed start is a failed incarnation
            reason = f"could not start: {describe(exc)}"
            answer(request.reply_to, Refused(reason=reason, error=exc))
            await self._ended(child, exc)
        else:
            restarted = Restarted(name=request.name, incarnation=child.incarnation)
            answer(request.reply_to, restarted)

    def _close_requests(self) -> None:
        if self._requests is not None:
            self._requests.close()

    # Restarts.

    async def _restart(self, child: Child, error: Exception | None) -> None:
        """Count the restart, stop the children that go down with it, and plan when all start."""
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
                assert not each.spec.significant  # its supervisor's specification was refused
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
            f"{self.path}: {child.path} ended once more after"
            f" {counted(spec.intensity, 'restart')} in {spec.period_s:g} s"
        ) from error

    async def _start_due(self, now_s: float) -> None:
        """Start, left to right, the children whose time has come.

        The first failure ends the round.
        """
        for child in [c for c in self._children if c.state is State.WAITING and c.due_s <= now_s]:
            child.restarts += 1
            try:
                await self._start_child(child)
            except Exception as exc:  # noqa: BLE001 - a failed start is a failed incarnation
                await self._ended(child, exc)
                return

    # Starting.

    async def _start_all(self) -> None:
        for child in self._children:
            try:
                await self._start_child(child)
            except Exception as exc:  # noqa: BLE001 - any error of a start
                failed, error = (_is_down(exc) and self._first_failed()) or (child, exc)
                text = f"{failed.path} could not start"
                if failed is not child:
                    text = f"{failed.path} failed before {child.path} could start"
                if self._ends_with(failed, error):
                    raise SignificantChildFailed(text, [error]) from None
                raise ExceptionGroup(text, [error]) from None

    def failure(self) -> Exception | None:
        if self._failure is not None:
            return self._failure
        failed = self._first_failed()
        if failed is None or not self._ends_with(*failed):
            return failed and failed[1]
        child, error = failed
        return SignificantChildFailed(f"{child.path} was significant and failed", [error])

    def _first_failed(self) -> tuple[Child, Exception] | None:
        """Return a child that had started and is down, itself or below, with the error of that.

        A child that starts after it and asks it fails, but only because it is not running.
        """
        for child in self._children:
            error = child.failure()
            if error is not None:
                return child, error
        return None

    # Stopping.

    async def _stop_all(self) -> None:
        """Stop all children in reverse order, within the budget if this is the root."""
        incarnations = [child.current for child in self._children if child.current is not None]
        self._budget_scope.deadline = trio.current_time() + self._stop_timeout_s
        with self._budget_scope:
            await self._stop_children()
        if self._budget_scope.cancelled_caught:
            self._emit(events.StopTimedOut(paths=tuple(self.running_paths())))
            for child in reversed(self._children):
                if child.current is not None:
                    child.current.kill()
                    await child.current.ended.wait()
        errors = [incarnation.error for incarnation in incarnations]
        self._stop_errors += [error for error in errors if isinstance(error, StopFailed)]

    async def _stop_children(self) -> None:
        self._close_requests()
        for child in reversed(self._children):
            await self._stop_child(child)


def _is_down(error: BaseException) -> bool:
    """Return whether an error says only that an actor is not running."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_down(each) for each in error.exceptions)
    return isinstance(error, ActorDown)


def _comes_back(child: Child, error: Exception | None) -> bool:
    """Return whether a child that ended with this error, or with none, is started again."""
    failed = error is not None and not isinstance(error, SignificantChildFailed)
    restart = child.spec.restart
    return restart is Restart.PERMANENT or (restart is Restart.TRANSIENT and failed)
