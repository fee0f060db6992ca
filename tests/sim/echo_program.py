"""A small simulated program with faults; prints its fingerprint. Run by test_sim_repeats.py.

Arguments: seed. A server appends every line to its disk and answers after a sync; a client sends
lines and reconnects; meanwhile links are cut, the server is killed, loses power and is paused.
"""

from __future__ import annotations

import sys
from typing import Any

import trio
import trio.testing

from actors.env import Env, Stream
from actors.sim.network import NetworkOptions
from actors.sim.world import World, open_world

LINES = 40
PORT = 7
ADDRESS = "10.0.0.1"
PATH = "/data/log"


async def server(env: Env, task_status: trio.TaskStatus[Any]) -> None:
    env.disk.mkdir("/data")
    file = env.disk.open(PATH, "w" if env.disk.exists(PATH) else "x")
    env.disk.sync_dir("/data")
    lock = env.disk.lock("/data/lock")
    syncer = env.disk.syncer()

    async def serve(stream: Stream) -> None:
        receive, send = stream.halves()
        try:
            while data := await receive.receive_some(100):
                file.pwrite(data, file.size_bytes)
                await syncer.sync([PATH])
                env.events("/n0/server", 1, len(data))
                await send.send_all(data)
        except trio.BrokenResourceError:
            pass
        finally:
            stream.abort()

    listener = await env.network.listen(ADDRESS, PORT)
    try:
        task_status.started()
        while True:
            await serve(await listener.accept())
    finally:
        with trio.CancelScope(shield=True):
            await listener.aclose()
            file.close()
            lock.release()


async def client(env: Env, answered: list[bytes]) -> None:
    number = 0
    while number < LINES:
        try:
            with trio.fail_after(2):
                stream = await env.network.connect(ADDRESS, PORT)
        except (OSError, trio.TooSlowError):
            await trio.sleep(env.rng.random())
            continue
        try:
            receive, send = stream.halves()
            while number < LINES:
                line = b"line %02d;" % number
                await send.send_all(line)
                back = b""
                with trio.fail_after(2):
                    while len(back) < len(line):
                        part = await receive.receive_some(100)
                        if not part:
                            raise trio.BrokenResourceError
                        back += part
                assert back == line, back
                answered.append(line)
                number += 1
                await trio.sleep(0.2)
        except (trio.BrokenResourceError, trio.TooSlowError):
            await trio.sleep(env.rng.random())
        finally:
            stream.abort()


async def faults(world: World) -> None:
    rng = world.rng("faults")
    kinds = ["cut", "kill", "power", "pause"]
    while True:
        await trio.sleep(rng.uniform(0.5, 2))
        kind = kinds[rng.randrange(len(kinds))]
        world.fingerprint.note(kind)
        if kind == "cut":
            world.network.cut("n0", "c")
            await trio.sleep(rng.uniform(0.1, 5))
            world.network.heal_all()
        elif kind == "pause":
            world.pause_node("n0")
            await trio.sleep(rng.uniform(0.1, 5))
            world.resume_node("n0")
        else:
            await (world.kill_node("n0") if kind == "kill" else world.power_loss("n0"))
            await trio.sleep(rng.uniform(0.1, 1))
            await world.start_node("n0", server)


async def program(seed: str) -> str:
    """Returns fingerprint, number of steps, virtual seconds and what happened, in one line."""
    answered: list[bytes] = []
    async with open_world(seed, network=NetworkOptions(clog_share=0.05)) as world:
        world.add_node("n0", ADDRESS)
        world.add_node("c", "10.0.0.2")

        async def run_client(env: Env, task_status: trio.TaskStatus[Any]) -> None:
            task_status.started()
            await client(env, answered)

        await world.start_node("n0", server)
        await world.start_node("c", run_client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(faults, world)
            await world.node("c").wait_ended()
            nursery.cancel_scope.cancel()
        await world.kill_node("n0")
        log = world.node("n0").disk.durable(PATH) or b""
        missing = [line for line in answered if line not in log]
        assert not missing, missing  # what was answered was synced
        world.fingerprint.note(repr(log))
        counts = {**world.counts, **world.network.counts, "events": len(world.events)}
        fingerprint = world.fingerprint.hexdigest()
        return f"{fingerprint} {world.fingerprint.steps} {trio.current_time()!r} {counts}"


def main(seed: str) -> str:
    return trio.run(program, seed, clock=trio.testing.MockClock(autojump_threshold=0))


if __name__ == "__main__":
    print(main(sys.argv[1]))
