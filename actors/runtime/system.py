"""A running system, with one root supervisor and one registry; how a host starts and stops it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import attrs
import trio

from actors.env.protocols import EventSink
from actors.events import runtime as runtime_events
from actors.runtime.actor import Actor
from actors.runtime.child import Process
from actors.runtime.dynamic import DynamicSupervisor
from actors.runtime.errors import SpecError, describe
from actors.runtime.process import ActorProcess
from actors.runtime.ref import ActorRef, Registry, log_event
from actors.runtime.spec import Start, SupervisorSpec, supervisor_of
from actors.runtime.supervisor import Supervisor
from actors.runtime.tree import State, TreeNode

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

STOP_TIMEOUT_S = 30.0  # the whole stop: service managers give 90 s, and an operator about this long

Build = SupervisorSpec | Callable[[Registry], SupervisorSpec]


class System:
    """A handle on a running system."""

    def __init__(self, registry: Registry, root: Supervisor) -> None:
        self.registry = registry
        self.path = root.path
        self._root = root
        self._ended = trio.Event()

    @overload
    def ref(self, path: str) -> ActorRef[Any]: ...
    @overload
    def ref(self, path: str, message: TypeForm[T]) -> ActorRef[T]: ...
    def ref(self, path: str, message: object = None) -> ActorRef[Any]:
        """Return the ref of a path such as "/n0/orders/store"; see `Registry.ref`."""
        return self.registry.ref(path)

    def tree(self) -> TreeNode:
        """Return a snapshot of what runs at this moment."""
        root = self._root
        return TreeNode(
            path=root.path,
            kind=root.kind,
            type=root.type,
            incarnation=root.incarnation,
            state=State.STOPPED if self._ended.is_set() else State.RUNNING,
            restarts=0,
            mailbox=None,
            children=root.snapshot_children(),
        )

    def request_stop(self) -> None:
        """Begin an ordered stop and return at once. This may be called several times."""
        self._root.request_stop()

    def hurry(self) -> None:
        """Stop without waiting: kill what has not ended by itself."""
        self._root.hurry()

    async def stop(self) -> None:
        """Stop in order and wait until all has ended."""
        self.request_stop()
        await self.wait_ended()

    async def wait_ended(self) -> None:
        """Wait until the system has ended, whatever ended it."""
        await self._ended.wait()

    def end(self) -> None:
        """End the system; only `serve` calls it."""
        self._ended.set()


def launch(registry: Registry, path: str, incarnation: int, start: Start) -> Process:
    """Make the process that a ChildSpec's `start` describes. All children are made here."""
    spec = supervisor_of(start)
    if isinstance(spec, SupervisorSpec):
        return Supervisor(registry, path, incarnation, spec, launch)
    if spec is not None:
        return DynamicSupervisor(registry, path, incarnation, spec, launch)
    assert callable(start)
    actor: Any = start()
    if not isinstance(actor, Actor) or hasattr(actor, "ctx"):
        raise SpecError(f"{path}: start must make a fresh Actor each time, not {actor!r}")
    return ActorProcess(registry, path, incarnation, actor)


async def serve(
    name: str,
    spec: Build,
    *,
    rng: random.Random | None = None,
    events: EventSink = log_event,
    stop_timeout_s: float = STOP_TIMEOUT_S,
    tell_hook: Callable[[], Awaitable[None]] | None = None,
    log_crashes: bool = True,
    task_status: trio.TaskStatus[System] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a system until it is stopped, cancelled or fails.

    Args:
        name: the root's name, with which all paths begin: "/name".
        spec: the root's specification, or a function that builds it from the registry, for
            factories that need refs.
        rng: the only source of randomness; by default one seeded by `name`.
        events: takes the events; by default the logger `triolog.runtime`.
        stop_timeout_s: how many seconds the whole stop may take; what still runs then is killed and
            named in `StopTimedOut`.
        tell_hook: awaited before each tell, for simulation.
        log_crashes: whether crashes and restarts are logged, see `crash_log`.

    It returns when the system has ended. `task_status` gives the `System` once the tree is ready.

    Resource handling: cancelling this is a complete and ordered stop, in at most `stop_timeout_s`.

    Error handling: a failure of the system is raised; the host's nursery makes it an
    ExceptionGroup.
    """
    registry = Registry(
        rng=rng or random.Random(name),
        event_sink=events,
        tell_hook=tell_hook,
        log_crashes=log_crashes,
    )
    root_spec = spec if isinstance(spec, SupervisorSpec) else spec(registry)
    root = Supervisor(
        registry,
        f"/{name}",
        registry.next_incarnation(f"/{name}"),
        root_spec,
        launch,
        stop_timeout_s=stop_timeout_s,
    )
    system = System(registry, root)

    def started() -> None:
        began = runtime_events.ActorStarted(role=root.kind, type=root.type)
        registry.emit(root.path, root.incarnation, began)
        task_status.started(system)

    ended: object = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registry.deadlines.run, name=f"/{name} deadlines")
            try:
                await root.run(started)
            finally:
                registry.deadlines.close()
    except Exception as exc:
        ended = runtime_events.ActorCrashed(error=describe(exc), starting=False)
        raise
    finally:
        if ended is None:
            ended = runtime_events.ActorStopped(reason=root.stopped_as.value)
        registry.flush()
        registry.emit(root.path, root.incarnation, ended)
        system.end()


def open_system(
    name: str,
    spec: Build,
    *,
    rng: random.Random | None = None,
    events: EventSink = log_event,
    stop_timeout_s: float = STOP_TIMEOUT_S,
    tell_hook: Callable[[], Awaitable[None]] | None = None,
    log_crashes: bool = True,
    shield: bool = False,
) -> AbstractAsyncContextManager[System]:
    """Run a system in a block: `async with open_system(...) as system`.

    It is ready on entry, and stopped in order on exit.

    Args:
        shield: whether a cancellation of the block does not reach the system, which then stops
            only when the block is left; for a caller that has something to do before that.
        Others: as in `serve`.

    Error handling: if the system fails, the body is cancelled and an ExceptionGroup is raised. An
    error of the body stops the system in order and passes unchanged, or in a group with the
    system's error if that fails too.
    """
    return _OpenSystem(
        f"/{name}#1",
        partial(
            serve,
            name,
            spec,
            rng=rng,
            events=events,
            stop_timeout_s=stop_timeout_s,
            tell_hook=tell_hook,
            log_crashes=log_crashes,
        ),
        shield,
    )


class _OpenSystem(AbstractAsyncContextManager[System]):
    def __init__(self, task_name: str, run: Callable[..., Awaitable[None]], shield: bool) -> None:
        self._task_name = task_name
        self._shield = shield
        self._run = run
        self._stack = AsyncExitStack()
        self._system: System | None = None

    async def _shielded(self, *, task_status: trio.TaskStatus[System]) -> None:
        """Run the system so that only the exit of the block stops it, no cancellation."""
        with trio.CancelScope() as scope:
            await self._run(task_status=_Shielding(scope, task_status))

    async def __aenter__(self) -> System:
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(trio.open_nursery())
            run = self._shielded if self._shield else self._run
            self._system = system = await nursery.start(run, name=self._task_name)
            self._stack = stack.pop_all()
        assert isinstance(system, System)
        return system

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._system is not None
        self._system.request_stop()
        if error is None or _holds_cancelled(error):
            return await self._stack.__aexit__(kind, error, traceback)
        try:
            await self._stack.__aexit__(None, None, None)
        except Exception as exc:  # noqa: BLE001 - both errors travel on
            raise BaseExceptionGroup(
                "the system failed while its caller's error stopped it", [error, exc]
            ) from None
        return False


@attrs.frozen
class _Shielding:
    """Passes `started` on, and shields the system from the caller's cancellation from then on."""

    _scope: trio.CancelScope
    _inner: trio.TaskStatus[System]

    def started(self, system: System) -> None:
        self._scope.shield = True
        self._inner.started(system)


def _holds_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(trio.Cancelled) is not None
    return isinstance(error, trio.Cancelled)
