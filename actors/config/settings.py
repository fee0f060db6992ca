"""A configuration as flat text, key path -> value: kept at each start, so that `check` can say what
a changed file would change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from actors.config.group import Group
from actors.config.members import MasterNode, MemberNode, SlaveNode
from actors.config.model import ClusterConfig
from actors.config.problems import dotted

_NOT_KEPT = frozenset({"path", "broker_files", "data_dir", "demo", "name", "present_master"})
"""Where the file and the data lie, what only the command reads, and what a table's key says."""

_PROMISES = (".copies", ".in_sync_replicas", ".min_in_sync_replicas")
UNTIL_THE_NEXT = (
    "what was acknowledged before may be on fewer nodes until an append is acknowledged after the"
    " change; until then do not promote while the master is silent"
)


def settings(config: ClusterConfig) -> dict[str, str]:
    """Every setting that a node runs with, defaults included."""
    flat: dict[str, str] = {}
    _flatten(config, (), flat)
    return flat


def stated(group: Group) -> dict[str, str]:
    """What a group's table says beyond the defaults, and its mode, as text: equal on all its nodes
    if their files are. In which order nodes are named makes no difference.
    """
    flat = {"mode": _text(group.mode)}
    for field in attrs.fields(type(group)):
        value = getattr(group, field.name)
        if field.name not in _NOT_KEPT and value != _default(field, group):
            _flatten(_sorted_nodes(value), (field.alias,), flat)
    return flat


def _default(field: attrs.Attribute[Any], group: Group) -> Any:
    default: Any = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return default.factory(group) if default.takes_self else default.factory()
    return default


def _sorted_nodes(value: Any) -> Any:
    if isinstance(value, tuple) and all(isinstance(one, MemberNode | SlaveNode) for one in value):
        return tuple(sorted(value, key=lambda one: one.node))
    return value


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each setting that differs, in the order of the keys."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, "nothing"), after.get(key, "nothing")
        if old != new:
            lines.append(f"{key}: {old} becomes {new}{_so_far(key, old, new)}")
    return tuple(lines)


def _so_far(key: str, old: str, new: str) -> str:
    """A larger promise is not one for what was answered before: a promotion counts by the new."""
    is_raised = key.endswith(_PROMISES) and old.isdigit() and new.isdigit() and int(new) > int(old)
    return f": {UNTIL_THE_NEXT}" if is_raised else ""


def _flatten(value: Any, key: tuple[str, ...], flat: dict[str, str]) -> None:
    if isinstance(value, MasterNode | MemberNode | SlaveNode | tuple):
        flat[dotted(key)] = _text(value)
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            if field.name not in _NOT_KEPT:
                _flatten(getattr(value, field.name), (*key, field.alias), flat)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            _flatten(inner, (*key, name), flat)
    elif value is not None:
        flat[dotted(key)] = _text(value)


def _text(value: Any) -> str:
    if isinstance(value, MasterNode | MemberNode | SlaveNode):
        never_leads = isinstance(value, MemberNode) and not value.candidate
        said = "never leads" if never_leads else value.kind
        return value.node if said == "python" else f"{value.node} ({said})"
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(one) for one in value) + "]"
    return json.dumps(value)
