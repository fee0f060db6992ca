"""Dynamic supervisors: children that come and go by message, as OTP's simple_one_for_one.

A `ChildSpec` whose `start` is a `DynamicSpec` makes one. Its ref takes `StartChild` and
`StopChild`:

    outcome = await connections.ask(
        (dynamic.Started, dynamic.Refused),
        lambda reply_to: dynamic.StartChild(child=spec, reply_to=reply_to),
        timeout_s=5.0,
    )

Children are restarted one for one and stopped all at once, each with its own `shutdown_s`. A
child that ended for good is forgotten, and its name is free again. A start is carried out before
the next message is read, as in OTP.
"""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

import attrs

from actors.runtime.child import Child, Launch
from actors.runtime.errors import describe
from actors.runtime.ref import ActorRef, Registry, ReplyTo
from actors.runtime.requests import Refused, answer
from actors.runtime.spec import SUPERVISOR_EXTRA_S, ChildSpec, DynamicSpec, SupervisorSpec
from actors.runtime.supervisor import Supervisor


@attrs.frozen(kw_only=True)
class Started:
    """The child is ready. `ref` is its ref, even that of a supervisor, which takes no messages."""

    ref: ActorRef[Any]
    incarnation: int


@attrs.frozen(kw_only=True)
class Stopped:
    """The child has ended."""

    name: str


@attrs.frozen(kw_only=True)
class StartChild:
    """Start a child. A start that fails leaves nothing behind and is not tried again."""

    child: ChildSpec
    reply_to: ReplyTo[Started | Refused] | None = None


@attrs.frozen(kw_only=True)
class StopChild:
    """Stop a child in order and forget it."""

    name: str
    reply_to: ReplyTo[Stopped | Refused] | None = None


Message: TypeAlias = StartChild | StopChild


class DynamicSupervisor(Supervisor):
    """One incarnation of a dynamic supervisor. A restart forgets all children."""

    kind = "dynamic"

    def __init__(
        self, registry: Registry, path: str, incarnation: int, spec: DynamicSpec, launch: Launch
    ) -> None:
        fixed = SupervisorSpec(
            intensity=spec.intensity, period_s=spec.period_s, takes_requests=True
        )
        super().__init__(registry, path, incarnation, fixed, launch)
        self.type = "simple_one_for_one"
        self._children_max = spec.children_max

    def shutdown_s(self, own_s: float) -> float:
        del own_s
        return max(self._shutdown_times_s(), default=0.0) + SUPERVISOR_EXTRA_S

    async def _carry_out(self, message: Any) -> None:
        command: Message = message
        match command:
            case StartChild():
                await self._start_dynamic(command)
            case StopChild():
                await self._stop_dynamic(command)
            case _:
                assert_never(command)

    async def _start_dynamic(self, message: StartChild) -> None:
        spec = message.child
        if self._find(spec.name) is not None:
            answer(message.reply_to, Refused(reason=f"{spec.name} is running already"))
        elif len(self._children) >= self._children_max:
            answer(message.reply_to, Refused(reason=f"{self._children_max} children run"))
        else:
            child = Child(spec, f"{self.path}/{spec.name}")
            self._children.append(child)
            try:
                await self._start_child(child)
            except Exception as exc:  # noqa: BLE001 - the answer to whoever asked
                self._ended_for_good(child)
                refused = Refused(reason=f"could not start: {describe(exc)}", error=exc)
                answer(message.reply_to, refused)
            else:
                ref = self._registry.ref(child.path)
                answer(message.reply_to, Started(ref=ref, incarnation=child.incarnation))

    async def _stop_dynamic(self, message: StopChild) -> None:
        child = self._find(message.name)
        if child is None:
            answer(message.reply_to, Refused(reason=f"there is no {message.name}"))
            return
        await self._stop_child(child)
        self._ended_for_good(child)
        answer(message.reply_to, Stopped(name=message.name))

    def _ended_for_good(self, child: Child) -> None:
        self._children.remove(child)
        self._registry.forget(child.path)

    async def _stop_children(self) -> None:
        self._close_requests()
        for child in reversed(self._children):
            if child.current is not None:
                child.current.request_stop(child.spec.shutdown_s)
        await super()._stop_children()
