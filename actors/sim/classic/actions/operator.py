"""What an operator does with a running classic group, for the actions of this folder.

`answer_of` carries out a call of a node, which may refuse it or be gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from actors.errors import TriologError
from actors.ha.core.role_effects import Fence, Role, RoleState, RoleView
from actors.log_types import Offsets
from actors.node.commit_log_part import CommitLogPart
from actors.runtime import ActorError
from actors.sim.classic.runner import FaultRunner

R = TypeVar("R")

PROMOTE_TIMEOUT_S = 60.0
TEND_TIMEOUT_S = 60.0
TEND_LOOK_S = 0.5
CALL_TIMEOUT_S = 5.0
"""A node that is paused, or is stopping, does not answer within this time."""
HEALS_S = 15.0
"""In this time a node whose bytes were put back has read them again, unless its digests are of
damaged bytes: made while a bit was flipped that no record's checksum covers."""
NEEDED = (Fence.SLAVE_AHEAD, Fence.SHORTER_THAN_MARK, Fence.ABANDONED)
"""The fences in which a master waits for an operator."""


async def promoted(
    runner: FaultRunner, asked: str, chosen: str | None, *, force: bool = False
) -> bool:
    """Ask node `asked` to make `chosen` the master; None: the node with most of the log. Returns:
    whether it did.
    """
    group, node = runner.group.name, runner.cluster.node(asked)
    runner.note("promoting", chosen or "the furthest")
    with trio.move_on_after(PROMOTE_TIMEOUT_S):
        try:
            await node.promote(group, chosen, force)
        except (TriologError, ActorError, OSError) as error:
            runner.note("not promoted", f"{chosen or 'the furthest'} {error}")
        else:
            return True
    return False


async def keep_tending(runner: FaultRunner) -> None:
    """Play the operator: do what OPERATING.md says where a node waits for that, and start nodes
    that have died.

    A node whose disk has failed may take long to stop, and be down only after all faults were
    undone.
    """
    damaged_since: dict[str, float] = {}
    while True:
        for name in filter(runner.has_died, runner.cluster.names):
            await runner.up(name)
        await tend(runner, alone=True)
        for name in runner.cluster.names:
            view = view_of(runner, name)
            if view is None or not view.damage:
                damaged_since.pop(name, None)
            elif (
                trio.current_time() > damaged_since.setdefault(name, trio.current_time()) + HEALS_S
            ):
                await ask_repair(runner, name)
        await trio.sleep(TEND_LOOK_S)


async def ask_repair(runner: FaultRunner, name: str) -> None:
    """Have a node mend its copy with `repair`, from any member that has good bytes."""
    if runner.is_ready(name):
        node = runner.cluster.node(name)
        await answer_of(lambda: node.repair(runner.group.name, None))


async def tend(runner: FaultRunner, *, alone: bool = False) -> None:
    """Resync nodes that are refused as diverged, and promote a node if the master needs that.

    If the master is fenced because a member holds what it lacks, or because a promotion was not
    finished, the node with most of the log becomes master.

    Args:
        alone: whether no other task promotes now, so that two masters by the same number would
            stay.
    """
    fences = (*NEEDED, Fence.CONFLICT) if alone else NEEDED
    for name in runner.cluster.names:
        view = view_of(runner, name)
        if view is None or not runner.is_ready(name):
            continue
        if view.state is RoleState.DIVERGED:
            await resync(runner, name)
        elif view.fence in fences:
            await promoted(runner, name, None)
    await refill(runner)


async def refill(runner: FaultRunner) -> None:
    """Empty nodes that need what their master has deleted for its age; they copy what it
    still has.
    """
    held = await offsets_of(runner, runner.master)
    for name in runner.cluster.names:
        own = await offsets_of(runner, name)
        if held is None or own is None or not 0 < own.written < held.min:
            continue
        if runner.is_ready(name) and runner.atlas.may_refill(name):
            await runner.cluster.kill(name)
            runner.wipe(name)
            await runner.up(name)


async def offsets_of(runner: FaultRunner, name: str) -> Offsets | None:
    """Return a node's offsets of the group; None if it does not report them."""
    if not runner.is_ready(name):
        return None
    return await answer_of(lambda: runner.cluster.offsets(name, runner.group.name))


def view_of(runner: FaultRunner, name: str) -> RoleView | None:
    """Return a node's view of its role; None if it is off, or still starting."""
    node = runner.cluster.running(name)
    if node is None or name not in runner.group.members:
        return None
    part = node.part(runner.group.name)
    assert isinstance(part, CommitLogPart)
    return part.role_status.view


async def resync(runner: FaultRunner, name: str) -> None:
    """Have a node cut and keep what it alone has."""
    node = runner.cluster.node(name)
    runner.note("resync", name)
    done = await answer_of(lambda: node.resync(runner.group.name))
    if done is not None and done["cut_bytes"] is not None:
        runner.mended("resynced", name)


async def answer_of(call: Callable[[], Awaitable[R]]) -> R | None:
    """Return a node's answer; None if it gives none, or refuses."""
    with trio.move_on_after(CALL_TIMEOUT_S):
        try:
            return await call()
        except (TriologError, ActorError):
            return None
    return None


def is_whole(runner: FaultRunner) -> bool:
    """Whether all nodes are running, one is an open master, and the others follow."""
    views = [view_of(runner, name) for name in runner.cluster.names if runner.is_ready(name)]
    states = [view.state for view in views if view is not None]
    wanted = len(runner.cluster.names) - 1
    return states.count(RoleState.OPEN) == 1 and states.count(RoleState.FOLLOWING) == wanted


FOLLOWS_S: Final = 30.0
"""In this time a node that can reach its members has heard from all of them, even if it had to ask
twice, has connected to its master, and was accepted or refused."""


async def became_whole(runner: FaultRunner) -> bool:
    """Do what an operator does until the group is whole. Returns: whether it is."""
    with trio.move_on_after(TEND_TIMEOUT_S):
        while not is_whole(runner):
            await tend(runner)
            await trio.sleep(TEND_LOOK_S)
    return is_whole(runner)


async def follows(runner: FaultRunner, node: str) -> None:
    """Wait until a node follows, which it has to do soon after there is an open master."""
    since_s = trio.current_time()
    while True:
        view = view_of(runner, node)
        if view is None or view.state is RoleState.FOLLOWING or view.role is Role.MASTER:
            return
        await tend(runner)
        await trio.sleep(TEND_LOOK_S)
        now_s, master = trio.current_time(), view_of(runner, runner.master)
        if master is None or master.state is not RoleState.OPEN:
            since_s = now_s
        if now_s - since_s > FOLLOWS_S:
            text = f"{node} does not follow {runner.master} after {FOLLOWS_S:g} s: {view.reason}"
            runner.history.violated("SlavesFollow", text)
            return


async def caught_up(runner: FaultRunner, node: str, end: int | None) -> None:
    """Wait until a node holds what there was when its disk was replaced, as long as an operator
    would.
    """
    with trio.move_on_after(TEND_TIMEOUT_S):
        while end is not None and await held_bytes(runner, node) < end:  # noqa: ASYNC110
            await trio.sleep(TEND_LOOK_S)


async def held_bytes(runner: FaultRunner, node: str) -> int:
    """Return how far a node's log is synced; -1 if it does not report that."""
    try:
        return (await runner.cluster.offsets(node, runner.group.name)).synced
    except TriologError:
        return -1
