"""Messages between two tasks: our actors beside Trio's memory channel, asyncio.Queue and Pykka.

Run: python tests/bench/bench_mailbox.py
Prints the median of five rounds, all of one run, and whether the goals hold. Ours runs through
`ActorRef` with everything a real actor has: bounds, a conflated class and a control class in its
mailbox, dead letters counted.

Times are CPU times of this process, so that a busy machine changes the ratios less.

- burst: a sender sends BURST messages, then waits until the receiver has handled them all, again
  and again.
- ask: one question and its answer at a time; ours with a deadline, the channel pair without.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import attrs
import trio

from actors.runtime import Actor, ChildSpec, MailboxSpec, ReplyTo, SupervisorSpec, open_system

ROUNDS = 5
BURST = 1000  # messages in one burst; below every capacity here, so that nobody waits for room
BURSTS = 200
AWAITED = 20_000  # messages through the slow ways
ASKS = 20_000
GOAL_AWAITED = 15.0  # times an awaited memory channel
GOAL_NOWAIT = 1.0  # times its send_nowait and receive_nowait
GOAL_ASK = 1.0  # times a pair of memory channels


@attrs.frozen(kw_only=True)
class Add:
    count: int


@attrs.frozen(kw_only=True)
class Acked:
    connection: int
    offset_bytes: int


@attrs.frozen(kw_only=True)
class Close:
    pass


@attrs.frozen(kw_only=True)
class GetTotal:
    reply_to: ReplyTo[int]


Message = Add | Acked | Close | GetTotal

MAILBOX = MailboxSpec(conflate={Acked: attrgetter("connection")}, control=(Close,))


@attrs.define
class Counter(Actor[Message]):
    """Handles messages one by one."""

    mailbox = MAILBOX
    total: int = 0

    async def handle(self, message: Message) -> None:
        if type(message) is Add:
            self.total += message.count
        elif type(message) is GetTotal:
            message.reply_to.send(self.total)


@attrs.define
class BatchCounter(Actor[Message]):
    """Takes whole mailboxes, as every actor on the data path does."""

    mailbox = MAILBOX
    total: int = 0

    async def handle_batch(self, messages: list[Message]) -> None:
        for message in messages:
            if type(message) is Add:
                self.total += message.count
            elif type(message) is GetTotal:
                message.reply_to.send(self.total)


def get_total(reply_to: ReplyTo[int]) -> GetTotal:
    return GetTotal(reply_to=reply_to)


def our_burst(actor: type[Actor[Message]]) -> float:
    async def main() -> float:
        spec = SupervisorSpec(children=(ChildSpec(name="counter", start=actor),))
        async with open_system("n0", spec) as system:
            ref = system.ref("/n0/counter")
            add = Add(count=1)
            began = time.process_time()
            for _ in range(BURSTS):
                for _ in range(BURST):
                    await ref.tell(add)
                await ref.ask(int, get_total, timeout_s=5.0)
            seconds = time.process_time() - began
            assert await ref.ask(int, get_total, timeout_s=5.0) == BURST * BURSTS
            return BURST * BURSTS / seconds

    return trio.run(main)


def our_ask() -> float:
    async def main() -> float:
        spec = SupervisorSpec(children=(ChildSpec(name="counter", start=Counter),))
        async with open_system("n0", spec) as system:
            ref = system.ref("/n0/counter")
            began = time.process_time()
            for _ in range(ASKS):
                await ref.ask(int, get_total, timeout_s=5.0)
            return ASKS / (time.process_time() - began)

    return trio.run(main)


def trio_awaited() -> float:
    async def main() -> float:
        send, receive = trio.open_memory_channel[Add](BURST)
        total = 0

        async def receiver() -> None:
            nonlocal total
            async for message in receive:
                total += message.count

        add = Add(count=1)
        began = time.process_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receiver)
            async with send:
                for _ in range(AWAITED):
                    await send.send(add)
        assert total == AWAITED
        return AWAITED / (time.process_time() - began)

    return trio.run(main)


def trio_nowait() -> float:
    async def main() -> float:
        send, receive = trio.open_memory_channel[Add](BURST)
        total = 0
        add = Add(count=1)
        began = time.process_time()
        for _ in range(BURSTS):
            for _ in range(BURST):
                send.send_nowait(add)
            for _ in range(BURST):
                total += receive.receive_nowait().count
            await trio.lowlevel.checkpoint()
        assert total == BURST * BURSTS
        return BURST * BURSTS / (time.process_time() - began)

    return trio.run(main)


def trio_pair() -> float:
    async def main() -> float:
        send_question, receive_question = trio.open_memory_channel[Add](1)
        send_answer, receive_answer = trio.open_memory_channel[int](1)

        async def answerer() -> None:
            total = 0
            async for message in receive_question:
                total += message.count
                await send_answer.send(total)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answerer)
            began = time.process_time()
            async with send_question:
                for _ in range(ASKS):
                    await send_question.send(Add(count=1))
                    await receive_answer.receive()
            return ASKS / (time.process_time() - began)

    return trio.run(main)


def asyncio_queue() -> float:
    async def main() -> float:
        queue: asyncio.Queue[Add] = asyncio.Queue(BURST)
        total = 0

        async def receiver() -> None:
            nonlocal total
            while total < AWAITED:
                total += (await queue.get()).count

        task = asyncio.create_task(receiver())
        add = Add(count=1)
        began = time.process_time()
        for _ in range(AWAITED):
            await queue.put(add)
        await task
        return AWAITED / (time.process_time() - began)

    return asyncio.run(main())


def pykka_burst() -> float:
    import pykka  # it is optional

    class PykkaCounter(pykka.ThreadingActor):
        def __init__(self) -> None:
            super().__init__()
            self.total = 0

        def on_receive(self, message: object) -> object:
            if isinstance(message, Add):
                self.total += message.count
            return self.total

    ref = PykkaCounter.start()
    try:
        add = Add(count=1)
        began = time.process_time()
        for _ in range(AWAITED):
            ref.tell(add)
        assert ref.ask(None) == AWAITED
        return AWAITED / (time.process_time() - began)
    finally:
        ref.stop()


def measure(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each way, round by round, so that a slow moment of the machine meets all of
    them.
    """
    seen: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            seen[name].append(way())
    return {name: statistics.median(values) for name, values in seen.items()}


def main() -> None:
    ways: dict[str, Callable[[], float]] = {
        "ours, burst, handle_batch": lambda: our_burst(BatchCounter),
        "ours, burst, handle": lambda: our_burst(Counter),
        "trio channel, awaited": trio_awaited,
        "trio channel, nowait": trio_nowait,
        "asyncio.Queue": asyncio_queue,
        "ours, ask with deadline": our_ask,
        "trio channel pair": trio_pair,
    }
    try:
        import pykka  # noqa: F401 - only to see whether it is there
    except ImportError:
        print("pykka is not installed: left out")
    else:
        ways["Pykka"] = pykka_burst
    got = measure(ways)
    for name, per_s in got.items():
        print(f"{name:28} {per_s / 1e6:8.3f} M/s   {1e6 / per_s:8.3f} us each")
    for name, goal in (
        ("ours, burst, handle_batch / trio channel, awaited", GOAL_AWAITED),
        ("ours, burst, handle / trio channel, awaited", GOAL_AWAITED),
        ("ours, burst, handle_batch / trio channel, nowait", GOAL_NOWAIT),
        ("ours, burst, handle / trio channel, nowait", GOAL_NOWAIT),
        ("ours, ask with deadline / trio channel pair", GOAL_ASK),
    ):
        ours, _, theirs = name.partition(" / ")
        ratio = got[ours] / got[theirs]
        print(f"{name:50} {ratio:6.2f}  goal {goal:4.1f}  {'met' if ratio >= goal else 'MISSED'}")


if __name__ == "__main__":
    main()
