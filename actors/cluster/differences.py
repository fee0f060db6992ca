"""Where the cluster files of running nodes say different things of a group.

Each machine has a copy of its own, and nothing on the replication wires tells of a different one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.config import ClusterConfig, settings, stated

DEFAULT: Final = "the default"


def differences(config: ClusterConfig, answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for each key of a group that is not the same everywhere.

    Args:
        config: of who asks, whose file is one of them.
        answers: node -> what it answered to `status`; one of an older version says no settings.
    """
    file = config.path or "the file"
    holders: dict[str, Mapping[str, Mapping[str, str]]] = {
        node: answer["settings"] for node, answer in answers.items() if "settings" in answer
    }
    holders[file] = {name: stated(group) for name, group in config.groups.items()}
    usual, lines = settings(config), list[str]()
    for name in sorted({name for said in holders.values() for name in said}):
        members = config.groups[name].members if name in config.groups else ()
        concerned = {
            holder: said.get(name)
            for holder, said in holders.items()
            if name in said or holder in members or holder == file
        }
        lines += _of_group(f"groups.{name}", concerned, usual)
    return lines


def _of_group(
    name: str, concerned: Mapping[str, Mapping[str, str] | None], usual: Mapping[str, str]
) -> list[str]:
    """Of one group.

    Args:
        concerned: holder -> what it says of the group; None: its file gives it no part.
        usual: what holds for who asks, where it keeps to the default.
    """
    there = {holder: said for holder, said in concerned.items() if said is not None}
    lines = []
    if len(there) < len(concerned):
        words = {holder: "there" if holder in there else "missing" for holder in concerned}
        lines.append(_line(name, words))
    own = list(concerned.values())[-1] or {}
    for key in sorted({key for said in there.values() for key in said}):
        default = DEFAULT if key in own else usual.get(f"{name}.{key}", DEFAULT)
        values = {holder: said.get(key, default) for holder, said in there.items()}
        if len(set(values.values())) > 1:
            lines.append(_line(f"{name}.{key}", values))
    return lines


def _line(key: str, values: Mapping[str, str]) -> str:
    """Args: values: holder -> what it has."""
    by_value: dict[str, list[str]] = {}
    for holder, value in values.items():
        by_value.setdefault(value, []).append(holder)
    parts = (f"{value} in {', '.join(holders)}" for value, holders in by_value.items())
    return f"{key} differs between the cluster files: {'; '.join(parts)}"
