"""What can happen to a replica's requests to its controllers: an answer is lost or late, or who was
asked ends before it answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeAlias

import trio

from actors.broker.replicas_manager import ReplicasManager
from actors.sim.actions.action import Action, Ground
from actors.sim.actions.runner import Runner
from actors.sim.actions.script import Fault
from wire.broker.codes import RequestCode

WAIT_S: Final = 20.0
"""How long to wait for a request of the kind; without one nothing happens."""
KINDS: Final = {
    "alter": RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
    "elect": RequestCode.CONTROLLER_ELECT_MASTER,
    "register": RequestCode.CONTROLLER_REGISTER_BROKER,
    "next_id": RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
    "apply_id": RequestCode.CONTROLLER_APPLY_BROKER_ID,
    "poll": RequestCode.CONTROLLER_GET_REPLICA_INFO,
    "roster": RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
}
"""The requests, by what scripts call them."""
OFTEN: Final = ("alter", "alter", "alter", "elect", "elect", "register")
Asked: TypeAlias = tuple[str, str]
"""Who asks, and where the controller is: the replica's node, "HOST:PORT"."""

_WATCHES: Final[list[Callable[[int, Asked], None]]] = []


@contextmanager
def watched_requests() -> Iterator[None]:
    """Within the block, actions hear of each request to a controller as it is sent."""
    real = ReplicasManager._send

    @wraps(real)
    def send(manager: ReplicasManager, to: str, code: RequestCode, *args: Any) -> None:
        for watch in tuple(_WATCHES):
            watch(code, (manager.ctx.path.split("/")[1], to))
        real(manager, to, code, *args)

    setattr(ReplicasManager, "_send", send)  # noqa: B010 - mypy takes no other method for it
    try:
        yield
    finally:
        setattr(ReplicasManager, "_send", real)  # noqa: B010
        _WATCHES.clear()


async def _next(runner: Runner, kind: str) -> Asked | None:
    """Wait for the next request of a kind. Returns: who asks which node; None: there was none, or
    the controller is on the same node.
    """
    come, found = trio.Event(), []

    def watch(code: int, asked: Asked) -> None:
        if code == KINDS[kind]:
            found.append(asked)
            come.set()

    _WATCHES.append(watch)
    with trio.move_on_after(WAIT_S):
        await come.wait()
    if watch in _WATCHES:
        _WATCHES.remove(watch)
    if not found:
        return None
    node, to = found[0]
    nodes = runner.cluster.config.nodes
    other = next(each for each, host in nodes.items() if host == to.rpartition(":")[0])
    return None if other == node else (node, other)


class _OfRequest(Action[Runner]):
    """An action that waits for a request; `where` says of which kind. The node does not matter."""

    chance = 0.7
    most = 4

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice((rng.choice(OFTEN), rng.choice(tuple(KINDS))))


class LoseAnswer(_OfRequest):
    """From the moment on at which a request is sent, nothing gets from the controller to the
    replica for a while: the answer is late, or comes after the replica has given it up.
    """

    name = "lose_answer"

    async def act(self, runner: Runner, fault: Fault) -> None:
        asked = await _next(runner, fault.where)
        if asked is None:
            return
        replica, controller = asked
        runner.began(fault)
        runner.cluster.cut_one_way(controller, replica)
        await trio.sleep(fault.for_s)
        runner.cluster.heal(controller, replica)
        runner.mended("heal", f"{controller} {replica}")


class KillAsked(_OfRequest):
    """The controller that a request is sent to is killed `extra` seconds later."""

    name = "kill_asked"
    chance = 0.4
    most = 2
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.choice([rng.uniform(0.0, 0.005), rng.uniform(0.0, 0.1)])

    async def act(self, runner: Runner, fault: Fault) -> None:
        asked = await _next(runner, fault.where)
        if asked is None:
            return
        await trio.sleep(fault.extra)
        await runner.strike(fault, asked[1])
