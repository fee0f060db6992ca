"""A probe actor that writes down its starts and stops, and a run that collects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import trio

from actors.runtime import (
    Actor,
    ChildSpec,
    ReplyTo,
    StopReason,
    SupervisorSpec,
    System,
    open_system,
)


class Boom(Exception):
    """What probes raise."""


@attrs.frozen(kw_only=True)
class Crash:
    pass


@attrs.frozen(kw_only=True)
class Finish:
    pass


@attrs.frozen(kw_only=True)
class Hang:
    """Never come back from handle."""


@attrs.frozen(kw_only=True)
class Note:
    text: str


@attrs.frozen(kw_only=True)
class Keep:
    """A question that is kept and never answered by the probe."""

    reply_to: ReplyTo[str]


@attrs.frozen(kw_only=True)
class Ask:
    reply_to: ReplyTo[str]


@attrs.define
class Probe(Actor[Any]):
    """Writes "+name#1" when it starts, "-name" with the reason when it stops, and notes.

    Attributes:
        log: shared by all probes of a test.
        start_s, stop_s: how long on_start and on_stop take.
        fails_soon: it crashes once it has started.
        failing: starts that shall fail yet, shared by all lives of this child.
    """

    name: str
    log: list[str]
    start_s: float = 0.0
    stop_s: float = 0.0
    failing: list[Exception] = attrs.field(factory=list)
    fails_soon: bool = False
    fails_stop: bool = False
    kept: list[ReplyTo[str]] = attrs.field(factory=list)

    async def on_start(self) -> None:
        if self.start_s:
            await trio.sleep(self.start_s)
        if self.failing:
            self.log.append(f"!{self.name}#{self.ctx.incarnation}")
            raise self.failing.pop(0)
        self.log.append(f"+{self.name}#{self.ctx.incarnation}")
        if self.fails_soon:
            await self.ctx.self_ref.tell(Crash())

    async def handle(self, message: Any) -> None:
        match message:
            case Crash():
                raise Boom(self.name)
            case Finish():
                self.ctx.stop()
            case Hang():
                await trio.sleep_forever()
            case Note(text=text):
                self.log.append(text)
            case Keep(reply_to=reply_to):
                self.kept.append(reply_to)
            case Ask(reply_to=reply_to):
                reply_to.send(f"{self.name}#{self.ctx.incarnation}")

    async def on_stop(self, reason: StopReason) -> None:
        self.log.append(f"-{self.name} {reason.value}")
        if self.fails_stop:
            raise Boom(f"{self.name} stopping")
        if self.stop_s:
            await trio.sleep(self.stop_s)


class Log(list[str]):
    """The log of one test, with the means to look at what is new."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0

    def new(self) -> list[str]:
        """What came since the last call."""
        fresh = self[self._seen :]
        self._seen = len(self)
        return fresh

    def child(self, name: str, *, probe: dict[str, Any] | None = None, **spec: Any) -> ChildSpec:
        """The specification of a probe that writes here."""
        arguments = probe or {}
        return ChildSpec(name=name, start=lambda: Probe(name, self, **arguments), **spec)


class Events(list[tuple[str, int, Any]]):
    """An event sink that keeps everything."""

    def __call__(self, path: str, incarnation: int, event: Any) -> None:
        self.append((path, incarnation, event))

    def of(self, kind: type) -> list[Any]:
        return [event for _, _, event in self if isinstance(event, kind)]


async def settle() -> None:
    """Let everything run that can run now. Needs the autojump clock."""
    await trio.testing.wait_all_tasks_blocked(0.0001)


async def run_children(
    spec: SupervisorSpec, body: Callable[[System], Any], **arguments: Any
) -> None:
    async with open_system("n0", spec, **arguments) as system:
        await body(system)
