"""`repair`: a node is asked to mend what is damaged of its logs, and says what it could not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actors.cluster.commands import Answer
from actors.cluster.explain import EXIT_FAILED, EXIT_OK
from actors.cluster.links import Connect
from actors.cluster.switching import open_node
from actors.config import ClusterConfig
from actors.readable import readable_values


async def repair(
    config: ClusterConfig,
    node: str,
    groups: tuple[str, ...],
    connect: Connect,
    *,
    source: str | None,
    as_json: bool,
) -> Answer:
    """Ask the node itself, one group after the other. Exit code 1 if anything is damaged still.

    Args:
        source: who is to give the bytes; None: whoever has them.

    Raises: as `switching.open_node`; TriologError: what the node refuses.
    """
    found = []
    async with open_node(config, node, connect) as api:
        for group in groups:
            found.append(readable_values(await api.repair(group, source)))
    code = EXIT_FAILED if any(each["left"] for each in found) else EXIT_OK
    lines = [line for each in found for line in repaired_lines(each)]
    return Answer(json.dumps(found) if as_json else "\n".join(lines), code)


def repaired_lines(found: Mapping[str, Any]) -> list[str]:
    """What a repair has done for one group."""
    who, unit = f"{found['group']}: {found['node']}", found["unit"]
    if not found["mended"] and not found["left"]:
        return [f"{who}: nothing is known to be damaged"]
    lines = [
        f"{who}: {unit} {each['first']} to {each['next']} are mended, as {each['source']} has them;"
        " what was there is kept in aside/"
        for each in found["mended"]
    ]
    if found["derived_anew"]:
        lines.append("  consume queues and index were derived from the damage, and are anew soon")
    lines += [
        f"{who}: {unit} {each['first']} to {each['next']} stay damaged: {each['reason']}"
        for each in found["left"]
    ]
    if found["left"]:
        lines.append(
            "  mend what a reason names (no room here, a silent node) and repair again; what no"
            " member has: put them back from a backup, or empty this node's group and let it copy,"
            " a master's once another is promoted (README, Running it)"
        )
    return lines
