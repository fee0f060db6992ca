"""`[controllers]` of a cluster file: a DLedger group of fixed name, whose members are controllers.

    [controllers]
    nodes = ["n0", "n1", "n2"]  # one or three
    port = 9878                 # for brokers, operators, and each other

A node may be a controller of Java's: `{ node = "n1", kind = "java" }`, whose controllerDLegerGroup
is "controllers", mappedFileSize `data_file_bytes`. The table's further keys are those of a DLedger
group, some with DEFAULTS of their own, and those of `ControllerSettings`. Upstream:
controllerDLegerPeers, controllerDLegerSelfId, and their port.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from actors.config.dledger import CONTROLLERS, ControllerSettings
from actors.config.problems import KeyPath, Problem, describe

_TABLE: Final = "controllers"
_SETTINGS: Final = frozenset(field.name for field in attrs.fields(ControllerSettings))
_GROUP: Final = ("groups", CONTROLLERS)
DEFAULTS: Final[Mapping[str, int]] = {
    "data_file_bytes": 16 << 20,
    "index_file_bytes": 5 << 20,
    "snapshot_entries": 10_000,
}
"""The keys of a DLedger group that have other defaults here: a decision takes some 200 bytes."""


def as_group(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return a parsed file with the table as a group among the others, and what is wrong."""
    rest = dict(table)
    if _TABLE not in rest:
        return rest, []
    found, groups = rest.pop(_TABLE), rest.get("groups", {})
    if not isinstance(found, dict):
        return rest, [Problem((_TABLE,), "a table", describe(found))]
    if not isinstance(groups, dict):
        return rest, []
    own = {key: found[key] for key in found if key in _SETTINGS}
    group = {key: value for key, value in found.items() if key not in own}
    problems = [
        Problem((_TABLE, key), "a known key", "an unknown one")
        for key in ("members", "mode", "controller")
        if group.pop(key, None) is not None
    ]
    if CONTROLLERS in groups:
        problems.append(
            Problem(_GROUP, "another name ([controllers] makes a group of this one)", "it")
        )
    if "nodes" in group:
        group["members"] = group.pop("nodes")
    group.update(mode="dledger", controller=own)
    rest["groups"] = {**groups, CONTROLLERS: {**DEFAULTS, **group}}
    return rest, problems


def as_written(problem: Problem) -> Problem:
    """Return a problem with the keys that `as_group` has moved where the file has them."""
    return attrs.evolve(problem, key=_as_written(problem.key))


def _as_written(key: KeyPath) -> KeyPath:
    if key[:2] != _GROUP or len(key) == 2:
        return key
    name, *rest = key[2:]
    if name == "controller":
        return (_TABLE, *rest)
    return (_TABLE, "nodes" if name == "members" else name, *rest)
