"""A gate: an actor whose mailbox fills while the test looks."""

from operator import attrgetter
from typing import Any

import attrs
import trio
from runtime_probe import Boom, Crash, Events, settle

from actors.runtime import (
    Actor,
    ChildSpec,
    MailboxSpec,
    Overflow,
    ReplyTo,
    SupervisorSpec,
    System,
    open_system,
)


@attrs.frozen(kw_only=True)
class Acked:
    connection: int
    offset_bytes: int = 0


@attrs.frozen(kw_only=True)
class Gone:
    connection: int


@attrs.frozen(kw_only=True)
class Data:
    body: bytes
    reply_to: ReplyTo[str] | None = None


@attrs.frozen(kw_only=True)
class Role:
    name: str


@attrs.frozen(kw_only=True)
class Pass:
    """Let the next batch be handled."""


CONFLATE = {Acked: attrgetter("connection")}


# Through a running actor. `Gate` handles nothing until it is sent Pass, so that its mailbox fills.


@attrs.define
class Gate(Actor[Any]):
    mailbox = MailboxSpec(capacity=3, control=(Role,), control_capacity=1, conflate=CONFLATE)
    log: list[Any]
    gate: trio.Semaphore

    async def handle_batch(self, messages: list[Any]) -> None:
        await self.gate.acquire()
        self.log.append(tuple(messages))
        for message in messages:
            if isinstance(message, Crash):
                raise Boom


@attrs.define
class RefusingGate(Gate):
    mailbox = MailboxSpec(capacity=3, overflow=Overflow.REFUSE)


@attrs.define
class BytesGate(Gate):
    mailbox = MailboxSpec(capacity_bytes=10, size_of=lambda m: len(getattr(m, "body", b"")))


class Held:
    """A system with one gate whose first batch is in work, so that its mailbox fills."""

    def __init__(self, kind: type[Gate] = Gate, **child: Any) -> None:
        self.log: list[Any] = []
        self.seen = Events()
        self.gate = trio.Semaphore(0)
        start = ChildSpec(name="g", start=lambda: kind(self.log, self.gate), **child)
        self.context = open_system("n0", SupervisorSpec(children=(start,)), events=self.seen)

    async def __aenter__(self) -> "Held":
        self.system: System = await self.context.__aenter__()
        self.ref = self.system.ref("/n0/g")
        await self.ref.tell("first")
        await settle()
        return self

    async def __aexit__(self, *error: Any) -> None:
        for _ in range(1000):
            self.gate.release()
        await self.context.__aexit__(*error)

    async def next_batches(self, count: int = 1) -> list[Any]:
        for _ in range(count):
            self.gate.release()
        await settle()
        batches = self.log[:]
        self.log.clear()
        return batches

    def statistics(self):
        return self.system.tree().children[0].mailbox
