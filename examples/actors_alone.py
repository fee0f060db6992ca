"""Supervised actors without any replication: a worker crashes, comes back, and the tree shows it.

Run: python examples/actors_alone.py
"""

import attrs
import trio

from actors.runtime import (
    Actor,
    ActorDown,
    ActorRef,
    ChildSpec,
    ReplyTo,
    SupervisorSpec,
    open_system,
    render_spec,
    render_tree,
)


@attrs.frozen(kw_only=True)
class Divide:
    number: int
    by: int
    reply_to: ReplyTo[float]


@attrs.define
class Divider(Actor[Divide]):
    async def on_start(self) -> None:
        print(f"{self.ctx.path}#{self.ctx.incarnation} is ready")

    async def handle(self, message: Divide) -> None:
        message.reply_to.send(message.number / message.by)


SPEC = SupervisorSpec(children=(ChildSpec(name="divider", start=Divider),))


async def divide(divider: ActorRef[Divide], by: int) -> float:
    return await divider.ask(
        float, lambda reply_to: Divide(number=6, by=by, reply_to=reply_to), timeout_s=1.0
    )


async def main() -> None:
    print(render_spec(SPEC, "demo"))
    async with open_system("demo", SPEC) as system:
        divider = system.ref("/demo/divider", Divide)  # stays valid across restarts
        for by in (2, 0, 4):
            try:
                print(f"6 / {by} = {await divide(divider, by)}")
            except ActorDown as exc:  # its cause is the crash, which is logged as well
                print(f"6 / {by}: {type(exc).__name__}: {exc}")
            await trio.sleep(0.01)  # the supervisor starts a fresh divider meanwhile
        print(render_tree(system.tree()))


if __name__ == "__main__":
    trio.run(main)
