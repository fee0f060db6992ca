"""The commands `promote`, `resync` and `repair`: one node is asked, and carries them out. See also
`transferring`.

This module asks, and describes the result for people.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import trio

from actors.client.slot_retries import NoSlot, with_slot
from actors.client.status_text import range_text
from actors.cluster.commands import Answer
from actors.cluster.explain import EXIT_FAILED, EXIT_OK
from actors.cluster.links import LOST, Connect, NodeApi
from actors.cluster.reaching import (
    AGAIN_S,
    HANGS,
    NoAnswer,
    first_of,
    not_there,
    open_members,
)
from actors.config import ClusterConfig
from actors.config.kind import Terms
from actors.config.kinds import kind_of
from actors.errors import NodeStopped, OutcomeUnknown
from actors.group_status import FOLLOWING, OPEN, group_statuses
from actors.readable import readable_values
from actors.storage.files.room import NO_ROOM, room_text

SEEN_S = 10.0
"""How long a slave is watched after its resync: it connects, or its master does not answer."""
FOLLOWS_S = 5.0
"""How long members without a connection are watched after a promotion, until they follow."""
CONNECTING = "connecting"
"""The state of a slave without a connection, or that has not compared its log with its master's."""
LOOK_S = 0.1
PROGRESS_S = 3.0
"""How often a repair that takes long says how far it is."""


async def promote(
    config: ClusterConfig,
    group: str,
    node: str | None,
    connect: Connect,
    *,
    force: bool,
    as_json: bool,
) -> Answer:
    """Ask the first member that answers for a promotion; the node to be promoted is tried first.

    Each of the other members connects anew then, and is waited for, for FOLLOWS_S at most.

    Args:
        node: the node to be master; None: the one with most of the log.

    Raises:
        ConfigError: no member is running.
        NoAnswer: no member answers.
        TriologError: the node refuses it, or does not know how it ended.
    """
    members = [each for each in config.groups[group].members if each in config.python_nodes]
    names = tuple(sorted(members, key=lambda each: each != node))
    async with first_of(config, group, open_members(names, connect)) as api:
        try:
            found = readable_values(await api.promote(group, node, force=force))
        except NodeStopped as error:
            what = f"{error}; `status` says who is master of {group}"
            then = f"while nobody is, type `promote {group}` again"
            raise OutcomeUnknown(f"{what}: {then}") from None
    found["members"] = await _once_connected(group, found["members"], connect)
    terms = kind_of(config.groups[group]).terms
    return Answer(
        json.dumps(found) if as_json else "\n".join(promoted_lines(found, terms)), EXIT_OK
    )


async def resync(
    config: ClusterConfig,
    node: str,
    groups: tuple[str, ...],
    connect: Connect,
    *,
    as_json: bool,
) -> Answer:
    """Ask the node itself for a resync, one group after the other. The exit code is 1 if one does
    not follow.

    Raises: as `open_node`; TriologError: the node refuses it.
    """
    found = []
    async with open_node(config, node, connect) as api:
        for group in groups:
            done = readable_values(await api.resync(group))
            row = {"state": CONNECTING, "reason": ""}
            with trio.move_on_after(SEEN_S):
                await _watch(api, group, row)
            found.append({**done, "state": row["state"], "reason": row["reason"]})
    code = EXIT_OK if all(each["state"] == FOLLOWING for each in found) else EXIT_FAILED
    text = json.dumps(found) if as_json else "\n".join(map(resynced_line, found))
    return Answer(text, code)


@asynccontextmanager
async def open_node(config: ClusterConfig, node: str, connect: Connect) -> AsyncIterator[NodeApi]:
    """Connect to a node that has to be running.

    Raises:
        ConfigError: it is not running.
        NoAnswer: it hangs, or is starting.
        NoSlot: it takes no more clients now.
    """
    if not await _runs(config, node, connect):
        look = f"`storage check {shlex.quote(config.node_dir(node))}`"
        expected = f"expected node {node} to run, found nobody there; start it, and if it ends at"
        raise not_there(config, (node,), f"{expected} once, {look} says why")
    enter = partial(connect, node)
    async with with_slot(enter, config.answer_timeout_s, node) as api:
        yield api


async def _watch(api: NodeApi, group: str, row: dict[str, Any]) -> None:
    """Keep in `row` what a slave says of itself, until it is connected."""
    while row["state"] == CONNECTING:
        own = group_statuses(await api.status())[group]
        row |= {"state": own.state, "reason": own.reason, "written_bytes": own.written}
        await trio.sleep(LOOK_S)


async def _once_connected(
    group: str, members: Mapping[str, Any], connect: Connect
) -> dict[str, Any]:
    """Return what a promotion says of its members, with the present state of those that had no
    connection.
    """
    found = {node: dict(member) for node, member in members.items()}

    async def watch(node: str) -> None:
        try:
            async with connect(node) as api:
                await _watch(api, group, found[node])
        except* LOST:
            pass

    with trio.move_on_after(FOLLOWS_S):
        async with trio.open_nursery() as nursery:
            for node, member in members.items():
                if member.get("state") == CONNECTING:
                    nursery.start_soon(watch, node)
    return found


async def _runs(config: ClusterConfig, node: str, connect: Connect) -> bool:
    """Whether a node answers, if only that it has no slot now. Raises: NoAnswer: it hangs."""
    wait_s = config.answer_timeout_s
    with trio.move_on_after(wait_s):
        runs = await _looks_alive(node, connect)
        while runs is None:
            await trio.sleep(AGAIN_S)
            runs = await _looks_alive(node, connect)
        return runs
    raise NoAnswer(f"{node} does not answer within {wait_s:g} s; nothing was done")


async def _looks_alive(node: str, connect: Connect) -> bool | None:
    """Whether a node answers, asked once; None: it has not answered in time."""
    runs: bool | None = False
    try:
        async with connect(node):
            runs = True
    except* NoSlot:
        runs = True
    except* HANGS:
        runs = None
    except* LOST:
        pass
    return runs


def promoted_lines(found: Mapping[str, Any], terms: Terms) -> list[str]:
    """Describe what a promotion has done, for people."""
    group, old, start = found["group"], found["old_master"], found["start_bytes"]
    was = f"; it was {old}" if old not in (None, found["master"]) else ""
    since = f", from byte {start} on" if start is not None else ""
    lines = [f"{group}: {found['master']} is master{terms.by(found['number'])}{since}{was}"]
    if found["handed_over"] and not found["losses"]:
        lines.append(f"  {old} handed over: nothing is lost or in doubt")
    lines += [f"  by force: {loss}" for loss in found["losses"]]
    for node, member in found["members"].items():
        if "silent" in member:
            lines.append(f"  {node}: does not answer, and hears of it later ({member['silent']})")
        else:
            state = _member_text(found["master"], member["state"], member["reason"])
            lines.append(f"  {node}: {member['role']}, {member['written_bytes']} bytes, {state}")
    return lines


def _member_text(master: str, state: str, reason: str) -> str:
    words = {
        OPEN: "takes appends",
        FOLLOWING: f"follows {master}",
        CONNECTING: f"still connecting to {master}: `status` says when it follows",
    }
    if reason.startswith(NO_ROOM):
        return f"{words.get(state, state)}; {room_text(reason)}"
    return f"{state}: {reason}" if reason else words.get(state, state)


def resynced_line(found: Mapping[str, Any]) -> str:
    """Describe what a resync has done for one group, for people."""
    who = f"{found['group']}: {found['node']}"
    if found["cut_bytes"] is None:
        text = f"{who} fits the log of {found['master']}: nothing to cut"
    elif found["cut_bytes"] == 0:
        text = f"{who} begins anew: all of its {found['end_bytes']} bytes are kept in aside/"
    else:
        behind = found["end_bytes"] - found["cut_bytes"]
        text = f"{who} is cut at byte {found['cut_bytes']}: {behind} bytes are kept in aside/"
    why = f" ({found['reason']})" if found["reason"] else ""
    return f"{text}; {found['state']}{why}"


async def repair(
    config: ClusterConfig,
    node: str,
    groups: tuple[str, ...],
    connect: Connect,
    *,
    source: str | None,
    as_json: bool,
    say: Callable[[str], None],
) -> Answer:
    """Ask the node itself for a repair, one group after the other. The exit code is 1 if damage
    remains.

    Args:
        source: the node that has to give the bytes; None: any that has them.
        say: called with a line for people, every PROGRESS_S, as long as a repair runs.

    Raises: as `open_node`; TriologError: the node refuses it.
    """
    found = []
    async with open_node(config, node, connect) as api:
        for group in groups:
            found.append(readable_values(await _repaired(api, node, group, source, say)))
    code = EXIT_FAILED if any(each["left"] for each in found) else EXIT_OK
    lines = [line for each in found for line in repaired_lines(each)]
    return Answer(json.dumps(found) if as_json else "\n".join(lines), code)


async def _repaired(
    api: NodeApi, node: str, group: str, source: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Ask for the repair of one group, and say how far it is, as `status` knows it."""
    found: dict[str, Any] | Exception = {}

    async def tell() -> None:
        with suppress(*LOST):  # then the repair fails, too
            while True:
                await trio.sleep(PROGRESS_S)
                own = group_statuses(await api.status()).get(group)
                if own is not None and (far := own.details.get("repair")):
                    say(f"{group}: {node}: repair: {far}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        try:
            found = await api.repair(group, source)
        except LOST as error:  # raised outside, so that it stays alone
            found = error
        nursery.cancel_scope.cancel()
    if isinstance(found, Exception):
        raise found
    return found


def repaired_lines(found: Mapping[str, Any]) -> list[str]:
    """Describe what a repair has done for one group, for people."""
    who, unit = f"{found['group']}: {found['node']}", found["unit"]
    if not found["mended"] and not found["left"]:
        looked = found.get("looked")  # an older node looks at known damage alone
        if looked is None:
            return [f"{who}: nothing is known to be damaged"]
        if looked["next"] <= looked["first"]:
            return [f"{who}: it has no {unit} to read"]
        read = range_text(unit, looked["first"], looked["next"])
        return [f"{who}: nothing is damaged in {read}"]
    lines = [
        f"{who}: mended from {each['source']}: {range_text(unit, each['first'], each['next'])};"
        " what was there is kept in aside/"
        for each in found["mended"]
    ]
    if found["derived_anew"]:
        lines.append("  consume queues and index were derived from the damage, and are anew soon")
    lines += [
        f"{who}: still damaged: {range_text(unit, each['first'], each['next'])}: {each['reason']}"
        for each in found["left"]
    ]
    if found["left"]:
        lines.append(
            "  mend what a reason names (no room here, a silent node) and repair again; what no"
            " member has: put them back from a backup, or empty this node's group and let it copy,"
            " a master's once another is promoted (OPERATING.md, Something is wrong)"
        )
    return lines
