"""Actors on Trio: mailboxes, refs and supervision trees in OTP's sense. Useful without any
replication.

    @attrs.define
    class Counter(Actor[Add]):
        total: int = 0

        async def handle(self, message: Add) -> None:
            self.total += message.count

    spec = SupervisorSpec(children=(ChildSpec(name="counter", start=Counter),))
    async with open_system("n0", spec) as system:
        await system.ref("/n0/counter").tell(Add(count=1))

Three decisions that the rest relies on:
- A ref belongs to a path, a mailbox to one incarnation. What is sent between two incarnations, or
  was unread when one ended, is a dead letter; a question fails with `ActorDown`. The mailbox
  opens before `on_start`.
- A `ReplyTo` belongs to the incarnation that was asked and fails when that has ended (after its
  `on_stop`, which may still answer); `reply_to.bound_to(ref)` hands it on.
- Only an actor's supervisor ends it: by asking, then by a kill that walks the whole subtree.
"""

from actors.runtime import dynamic, requests
from actors.runtime.actor import Actor
from actors.runtime.context import ActorContext
from actors.runtime.errors import (
    ActorDown,
    ActorError,
    AskInsideHandle,
    AskTimeout,
    MailboxFull,
    RestartIntensityExceeded,
    SignificantChildFailed,
    SpecError,
    StopFailed,
    Unread,
    describe,
)
from actors.runtime.mailbox import MailboxSpec, MailboxStatistics, Overflow, StopReason
from actors.runtime.ref import ActorRef, Registry, ReplyTo
from actors.runtime.spec import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    LazySpec,
    Restart,
    Strategy,
    SupervisorSpec,
    render_spec,
)
from actors.runtime.system import System, open_system, serve
from actors.runtime.timers import Timers
from actors.runtime.tree import State, TreeNode, render_tree

__all__ = [
    "Actor",
    "ActorContext",
    "ActorDown",
    "ActorError",
    "ActorRef",
    "AskInsideHandle",
    "AskTimeout",
    "AutoShutdown",
    "Backoff",
    "ChildSpec",
    "DynamicSpec",
    "LazySpec",
    "MailboxFull",
    "MailboxSpec",
    "MailboxStatistics",
    "Overflow",
    "Registry",
    "ReplyTo",
    "Restart",
    "RestartIntensityExceeded",
    "SignificantChildFailed",
    "SpecError",
    "State",
    "StopFailed",
    "StopReason",
    "Strategy",
    "SupervisorSpec",
    "System",
    "Timers",
    "TreeNode",
    "Unread",
    "describe",
    "dynamic",
    "open_system",
    "render_spec",
    "render_tree",
    "requests",
    "serve",
]
