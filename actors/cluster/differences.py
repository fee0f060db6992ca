"""Where the cluster files of running nodes say different things of a group.

Each machine has a copy of its own, and nothing on the replication wires shows that they differ.
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
    """One key that is not the same everywhere.

    Attributes:
        line: which one, and who says what.
        keeps_apart: nodes that differ in it cannot replicate to each other.
    """

    line: str
    keeps_apart: bool


def differences(
    config: ClusterConfig, answers: Mapping[str, Mapping[str, Any]]
) -> list[Difference]:
    """One for each key of a group that is not the same everywhere.

    Args:
        config: of whoever asks, whose file is one of them.
        answers: node -> what it answered to `status`; one of an older version says no settings.
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
    """The differences of one group's settings.

    Args:
        concerned: holder -> what it says of the group; None: its file gives it no part.
        usual: what holds for whoever asks, where it keeps to the default.
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
    """Args: values: holder -> what it has."""
    by_value: dict[str, list[str]] = {}
    for holder, value in values.items():
        by_value.setdefault(value, []).append(holder)
    parts = (f"{value} in {', '.join(holders)}" for value, holders in by_value.items())
    line = f"{key} differs between the cluster files: {'; '.join(parts)}"
    return Difference(f"{line} (this keeps them apart)" if keeps_apart else line, keeps_apart)
