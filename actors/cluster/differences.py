"""Finds where the cluster files of running nodes differ about a group.

Each machine has its own copy, and the replication protocols do not show that they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from actors.config import ClusterConfig, settings, stated

DEFAULT: Final = "the default"
_APART: Final = frozenset(
    {"mode", "port", "members", "data_file_bytes", "master", "slaves", "segment_bytes"}
)
"""Nodes that differ in one of these do not find each other, or refuse what the other one sends."""


@attrs.frozen
class Difference:
    """A key that differs between cluster files.

    Attributes:
        line: the key and its values, with the nodes that have them, for people.
        keeps_apart: whether nodes that differ in it cannot replicate to each other.
    """

    line: str
    keeps_apart: bool


def differences(
    config: ClusterConfig, answers: Mapping[str, Mapping[str, Any]]
) -> list[Difference]:
    """Return the differences, one for each key of a group that is not the same everywhere.

    Args:
        config: the configuration on this machine, which counts as one of the files.
        answers: the status answer of each node; nodes of older versions report no settings.
    """
    file = config.path or "the file"
    holders: dict[str, Mapping[str, Mapping[str, str]]] = {
        node: answer["settings"] for node, answer in answers.items() if "settings" in answer
    }
    holders[file] = {name: stated(group) for name, group in config.groups.items()}
    usual, found = settings(config), list[Difference]()
    for name in sorted({name for said in holders.values() for name in said}):
        members = config.groups[name].members if name in config.groups else ()
        concerned = {
            holder: said.get(name)
            for holder, said in holders.items()
            if name in said or holder in members or holder == file
        }
        found += _of_group(f"groups.{name}", concerned, usual)
    return found


def _of_group(
    name: str, concerned: Mapping[str, Mapping[str, str] | None], usual: Mapping[str, str]
) -> list[Difference]:
    """Return the differences of one group's settings.

    Args:
        concerned: by node or file, its settings of the group; None: its cluster file does not name
            the group.
        usual: the values on this machine, also of keys that have their default.
    """
    there = {holder: said for holder, said in concerned.items() if said is not None}
    found = []
    if len(there) < len(concerned):
        words = {holder: "there" if holder in there else "missing" for holder in concerned}
        found.append(_difference(name, words, keeps_apart=True))
    own = list(concerned.values())[-1] or {}
    for key in sorted({key for said in there.values() for key in said}):
        default = DEFAULT if key in own else usual.get(f"{name}.{key}", DEFAULT)
        values = {holder: said.get(key, default) for holder, said in there.items()}
        if len(set(values.values())) > 1:
            apart = key in _APART
            found.append(_difference(f"{name}.{key}", values, keeps_apart=apart))
    return found


def _difference(key: str, values: Mapping[str, str], *, keeps_apart: bool) -> Difference:
    """Make a difference from the values, by node or file."""
    by_value: dict[str, list[str]] = {}
    for holder, value in values.items():
        by_value.setdefault(value, []).append(holder)
    parts = (f"{value} in {', '.join(holders)}" for value, holders in by_value.items())
    line = f"{key} differs between the cluster files: {'; '.join(parts)}"
    return Difference(f"{line} (this keeps them apart)" if keeps_apart else line, keeps_apart)
