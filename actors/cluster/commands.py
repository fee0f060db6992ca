"""The commands `status` and `stop`: functions that return what to print, and the exit code."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs
import trio

from actors.client.slot_retries import NoSlot, pauses_of
from actors.cluster.differences import differences
from actors.cluster.explain import EXIT_FAILED, EXIT_OK
from actors.cluster.headlines import headlines
from actors.cluster.links import LOST, Connect, NodeApi
from actors.cluster.starts import STARTING
from actors.cluster.terminal import node_lines
from actors.cluster.view import ClusterView, NodeView, node_view
from actors.config import ClusterConfig
from actors.env.protocols import process_text
from actors.errors import ConfigError, leaves
from actors.group_status import DAMAGED, FENCED, REFUSED, WITHOUT_ROOM, group_statuses
from actors.readable import readable_values

REST_S = 2.0
"""How long to wait for other nodes once one has answered: the network and this machine are well
then, so a node that is silent longer hangs, or is far busier than the others."""
WAIT_NOTED_S = 1.0
"""How long a stopping node waits for others before that is worth a word."""
NEEDS_SOMEBODY = (REFUSED, FENCED, WITHOUT_ROOM, DAMAGED)
"""The findings that are no passing state of a node."""
GONE_LOOK_S = 0.1
"""The pause between two checks of a node that starts or stops."""

Holder: TypeAlias = Callable[[str], int | None]
"""Returns, for a node, the process that has its data open; None: none on this machine. A node that
starts, stops or hangs does not answer, and still runs."""
Ended: TypeAlias = Callable[[str], str]
"""Describes, for a node that does not run, how it has ended, for people; "": there is nothing to
say."""
Starts: TypeAlias = Callable[[str, int], str]
"""Describes, for a node and the process that has its data open, how far its start is, for people;
"": it does not start, as far as is known."""


def _no_start(node: str, process: int) -> str:
    return ""


@attrs.frozen
class Answer:
    """What a command prints on standard output, and its exit code."""

    text: str
    exit_code: int


async def _each(
    config: ClusterConfig,
    nodes: tuple[str, ...],
    connect: Connect,
    ask: Callable[[str, NodeApi], Awaitable[Any]],
    *,
    rest_s: float = math.inf,
) -> dict[str, Any]:
    """Ask all nodes at the same time. Returns: each node's answer, or the error of a node that
    cannot be asked.

    A node whose slots are all taken is asked again.

    Args:
        rest_s: how long to wait for the others once one has answered.
    """
    found: dict[str, Any] = {}
    begun_s = trio.current_time()

    async def one(node: str) -> None:
        pauses = pauses_of(node)
        while True:
            try:
                async with connect(node) as api:
                    found[node] = await ask(node, api)
                    asking.deadline = min(asking.deadline, trio.current_time() + rest_s)
            except* LOST as group:
                found[node] = next(leaves(group))
            if not _has_no_slot(found[node]):
                return
            await trio.sleep(pauses.next_s())

    with trio.move_on_after(config.answer_timeout_s) as asking:
        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(one, node)
    silence = TimeoutError(f"silent for {trio.current_time() - begun_s:.1f} s")
    return {node: found.get(node, silence) for node in nodes}


def _has_no_slot(answer: Any) -> bool:
    """Whether a node is running, but said that it takes no more clients."""
    return isinstance(answer, NoSlot) and answer.confirmed


def _is_gone(answer: Any) -> bool:
    """Whether nothing answers there."""
    return isinstance(answer, BaseException) and not _has_no_slot(answer)


async def status(
    config: ClusterConfig,
    nodes: tuple[str, ...],
    connect: Connect,
    holder: Holder,
    ended: Ended = lambda node: "",
    starts: Starts = _no_start,
    *,
    as_json: bool,
    trees: bool = False,
) -> Answer:
    """Describe the nodes by what they say of themselves.

    The exit code is 0 if all is well: each node answers, each group takes appends, and no member is
    refused, damaged or without room; else it is 1. So it is if the cluster files differ in a way
    that keeps nodes apart: such nodes run, and never join. The text says how a node that does not
    answer has ended, or how far its start is; it delays the others by no more than `REST_S`.

    Args:
        trees: whether the text has whole trees; JSON always has them.
    """

    async def ask(node: str, api: NodeApi) -> tuple[dict[str, Any], dict[str, Any], NodeView]:
        said, tree = readable_values(await api.status()), readable_values(await api.tree())
        return said, tree, node_view(node, said, tree)

    found = await _each(config, nodes, connect, ask, rest_s=REST_S)
    failed = [node for node in nodes if isinstance(found[node], BaseException)]
    other = differences(config, {node: found[node][0] for node in nodes if node not in failed})
    differ = [each.line for each in other]
    held = {node: holder(node) for node in failed}
    away = {node: _away(node, found[node], held[node], ended, starts) for node in failed}
    gone = [node for node in failed if held[node] is None and _is_gone(found[node])]
    starting = [node for node, how in away.items() if how.startswith(STARTING)]
    view = _view_of(config, found)
    heads = headlines(config, view, starting, gone)
    lacks = failed or any(each.keeps_apart for each in other) or _needs_somebody(view)
    code = EXIT_OK if not lacks and all(head.is_well for head in heads) else EXIT_FAILED
    if as_json:
        plain = {
            node: None if node in failed else {"status": answer[0], "tree": answer[1]}
            for node, answer in found.items()
        }
        said = {"cluster": config.name, "nodes": plain, "differences": differ}
        ends = {node: how for node in failed if held[node] is None and (how := ended(node))}
        begun = {node: how for node, pid in held.items() if pid and (how := starts(node, pid))}
        return Answer(json.dumps(said | {"away": away, "ended": ends, "starting": begun}), code)
    diverged = {
        (group, node)
        for group in view.groups
        for node, own in view.of(group).items()
        if own.diverged and own.troubles
    }
    lines = [
        f"cluster {config.name}",
        *(head.text for head in heads),
        *(f"  {line}" for line in differ),
    ]
    for node, answer in found.items():
        if node in failed:
            lines.append(f"  {node}: {away[node]}")
            continue
        refused = _refused_by_leaders(view, node)
        shown = node_lines(answer[2], trees=trees, refused=refused, diverged=diverged)
        lines += [f"  {line}" for line in shown]
    return Answer("\n".join(lines), code)


def _view_of(config: ClusterConfig, found: dict[str, Any]) -> ClusterView:
    """Make a view of the nodes' answers; a node that did not answer is away."""
    nodes = tuple(
        NodeView(node=node, state="away", groups={}, tree=None)
        if isinstance(answer, BaseException)
        else answer[2]
        for node, answer in found.items()
    )
    return ClusterView(cluster=config.name, at_s=0.0, phase="", nodes=nodes, feeds=())


def _needs_somebody(view: ClusterView) -> bool:
    """Whether a member has found what stays so until somebody does something."""
    owns = [own for group in view.groups for own in view.of(group).values()]
    found = any(kind in own.findings for own in owns for kind in NEEDS_SOMEBODY)
    return found or any(own.diverged or any(peer.refused for peer in own.peers) for own in owns)


def _refused_by_leaders(view: ClusterView, node: str) -> dict[str, str]:
    """Return, by group, why its leader refuses this node, as the leader says."""
    found = {}
    for group in view.groups:
        current = view.leader_of(group)
        for peer in () if current is None else current[1].peers:
            if peer.node == node and peer.refused:
                found[group] = peer.reason
    return found


def _away(node: str, answer: Any, pid: int | None, ended: Ended, starts: Starts) -> str:
    """Describe a node that did not answer."""
    if _has_no_slot(answer):
        return f"runs, but cannot be asked ({answer})"
    if pid is None and isinstance(answer, NoSlot):  # some program took the connection
        return f"no answer ({answer})"
    if pid is None:
        how = ended(node)
        return f"not running, {how}" if how else f"not running ({answer})"
    silent = f"no answer, but {process_text(pid)} has its data ({answer})"
    return _start_text(node, pid, starts) or silent


def _start_text(node: str, pid: int, starts: Starts) -> str:
    how = starts(node, pid)
    return f"{how} ({process_text(pid)})" if how else ""


async def stop(
    config: ClusterConfig,
    nodes: tuple[str, ...],
    connect: Connect,
    holder: Holder,
    starts: Starts = _no_start,
) -> Answer:
    """Ask the running nodes to stop, masters and leaders first, and wait until they have stopped.

    Nodes that share a process may stop together; one that is starting is waited for. The exit code
    is 1 if a node did not stop in time, or has its data open and does not answer.

    Raises:
        ConfigError: none of them is running.
    """

    async def roles(node: str, api: NodeApi) -> int:
        return sum(own.leads for own in group_statuses(await api.status()).values())

    greeted = await _once_started(config, nodes, connect, roles, holder)
    held = {node: pid for node in nodes if (pid := holder(node)) is not None}
    if all(node not in held and _is_gone(greeted[node]) for node in nodes):
        raise ConfigError(f"{config.path}: expected running nodes, found none")
    led = {node: found for node, found in greeted.items() if isinstance(found, int)}
    lines, code = list[str](), EXIT_OK
    for node in sorted(nodes, key=lambda node: led.get(node, 0), reverse=True):
        if _has_no_slot(greeted[node]):
            lines.append(f"{node}: not stopped: {greeted[node]}")
            code = EXIT_FAILED
        elif isinstance(greeted[node], BaseException) and node in held:
            pid = held[node]
            how = (
                _start_text(node, pid, starts) or f"{process_text(pid)} has its data, but no answer"
            )
            lines.append(f"{node}: not stopped: {how}")
            code = EXIT_FAILED
        elif isinstance(greeted[node], BaseException):
            lines.append(f"{node}: was not running")
        else:
            has_stopped, waited = await _stop_one(config, node, connect, holder)
            if not has_stopped:
                return Answer("\n".join([*lines, f"{node}: still running{waited}"]), EXIT_FAILED)
            lines.append(f"{node}: stopped{waited}")
    return Answer("\n".join(lines), code)


async def _once_started(
    config: ClusterConfig,
    nodes: tuple[str, ...],
    connect: Connect,
    ask: Callable[[str, NodeApi], Awaitable[Any]],
    holder: Holder,
) -> dict[str, Any]:
    """Ask all nodes as `_each` does, and wait for nodes that are starting.

    A node that has its data open and accepts no connection is asked again, within the same time.
    One that accepts a connection and is silent hangs, and is asked once.
    """
    until_s = trio.current_time() + config.answer_timeout_s
    found = await _each(config, nodes, connect, ask, rest_s=REST_S)
    with trio.move_on_at(until_s):
        while late := tuple(node for node in nodes if _starts(found[node], holder(node))):
            await trio.sleep(GONE_LOOK_S)
            found |= await _each(config, late, connect, ask)
    return found


def _starts(answer: Any, process: int | None) -> bool:
    """Whether a node may answer soon.

    Args:
        process: the process that has its data open.
    """
    return _is_gone(answer) and not isinstance(answer, TimeoutError) and process is not None


async def _stop_one(
    config: ClusterConfig, node: str, connect: Connect, holder: Holder
) -> tuple[bool, str]:
    """Ask a node to stop.

    Returns: whether nothing answers there any more, nor has its data open, in time; and for people,
        if the node waited long for others to get what they lacked, how long and for whom at last.
    """
    waits, first_s, last_s = "", 0.0, 0.0
    budget_s = config.stop_timeout_s + config.drain_timeout_s + config.answer_timeout_s

    async def ask(name: str, api: NodeApi) -> None:
        await api.stop()

    async def look(name: str, api: NodeApi) -> None:
        nonlocal waits, first_s, last_s
        if found := str(readable_values(await api.status()).get("waits_for", "")):
            last_s = trio.current_time()
            waits, first_s = found, first_s or last_s

    def waited() -> str:
        is_long = last_s - first_s >= WAIT_NOTED_S
        return f"; it waited {last_s - first_s:.0f} s, at last as {waits}" if is_long else ""

    await _each(config, (node,), connect, ask)  # a node that is gone meanwhile has stopped, too
    with trio.move_on_after(budget_s):
        # Another program's end has no event that could be awaited.
        while holder(node) is not None or not _is_gone(  # noqa: ASYNC110
            (await _each(config, (node,), connect, look))[node]
        ):
            await trio.sleep(GONE_LOOK_S)
        return True, waited()
    return False, waited()
