"""Finds the nodes' logs in a data directory, and what the nodes' settings state about them.

| File below DATA_DIR | What is taken from it |
|---|---|
| NODE/groups/GROUP/commitlog | the log of a classic group |
| NODE/groups/GROUP/data | the log of a DLedger group |
| NODE/identity.json | the group's members and durability, which epochs the node's log comes from, \
and whether it has yet to get back what it had |

Needs no Spark. What a broker left, or a copy without identities, is read as it is: then nothing is
known of epochs, and every node that is there counts as all that there are.
"""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import attrs

from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.sources.formats import COMMIT_LOG, DLEDGER, Format

NODES_MAX: Final = 64
"""How many nodes' logs can be compared, as each is a bit of a number. No cluster file has more."""
_LISTED: Final = re.compile(r"[^\s,\[\]\"']+")
History: TypeAlias = tuple[tuple[int, int, int], ...]
"""The epochs of a log, oldest first: number, token, and the offset where it began."""
_BEFORE_EPOCHS: Final[History] = ((0, 0, 0),)


@attrs.frozen(kw_only=True)
class Store:
    """One node's store of a group.

    Attributes:
        root: the folder that holds the log's folder.
        history: the epochs that the log comes from; None if they are unknown.
        has_forgotten: whether the node once had more, by its own record, and does not have it now.
    """

    node: str
    root: Location
    history: History | None = None
    has_forgotten: bool = False

    @property
    def path(self) -> str:
        """The path for the sources, in which no character is a pattern."""
        name = str(self.root)
        return name if ":/" in name else glob.escape(name)


@attrs.frozen(kw_only=True)
class GroupStores:
    """The stores of one group, and what its nodes' settings state about it.

    Attributes:
        form: the format of its logs.
        stores: the stores of all nodes that have such a log, sorted by node.
        missing: members that have no store here.
        is_written: whether a node's settings have durability = "written".
        is_loose: whether a node's settings ask for upstream's looser rules (`compat`, or
            `term_entry = "none"`).
        problem: why its logs cannot be judged, for people; "" if they can.
    """

    name: str
    form: Format
    stores: tuple[Store, ...]
    missing: tuple[str, ...] = ()
    is_written: bool = False
    is_loose: bool = False
    problem: str = ""

    @property
    def is_ledger(self) -> bool:
        return self.form is DLEDGER

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(store.node for store in self.stores)


def groups_in(data: Location) -> tuple[GroupStores, ...]:
    """Return the groups of which any node has a log, ordered by name.

    Raises:
        PipelineError: a file identity.json is not valid.
        OSError: one cannot be read.
    """
    found: dict[str, dict[str, tuple[Format, Store]]] = {}
    members: dict[str, set[str]] = {}
    written: set[str] = set()
    loose: set[str] = set()
    for node, folder in _nodes(data):
        identity = (folder / "identity.json").read_json() or {}
        settings = _object(identity.get("settings"))
        for name in (folder / "groups").children():
            members.setdefault(name, set()).update(_members(settings, name))
            if _setting(settings, name, "durability") == "written":
                written.add(name)
            if _is_loose(settings, name):
                loose.add(name)
            root = folder / "groups" / name
            form = _form_of(root)
            if form is not None:
                record = _object(identity.get("records")).get(name)
                store = Store(
                    node=node,
                    root=root,
                    history=_history(record),
                    has_forgotten=bool(_object(record).get("forgot")),
                )
                found.setdefault(name, {})[node] = form, store
    return tuple(
        attrs.evolve(
            _group(name, found[name], members[name]),
            is_written=name in written,
            is_loose=name in loose,
        )
        for name in sorted(found)
    )


def in_memory(data: Location) -> set[str]:
    """Return the groups that keep their entries in memory, so that no node has a log of them.

    Raises: the errors of `groups_in`.
    """
    found = set()
    for _, folder in _nodes(data):
        for key, value in _settings(folder).items():
            if key.endswith(".store") and str(value).strip('"') == "memory":
                found.add(key.removeprefix("groups.").removesuffix(".store"))
    return found


def loose_in(data: Location) -> set[str]:
    """Return the groups with upstream's looser rules, also those without any log.

    An invalid identity.json is skipped here; the audits that need it report it.
    """
    found = set()
    for _, folder in _nodes(data):
        with suppress(PipelineError, OSError):
            settings = _settings(folder)
            names = {key.removeprefix("groups.").rpartition(".")[0] for key in settings}
            found |= {name for name in names if _is_loose(settings, name)}
    return found


def _settings(folder: Location) -> Mapping[str, Any]:
    """Return a node's settings, from its identity.json."""
    return _object(((folder / "identity.json").read_json() or {}).get("settings"))


def _group(name: str, found: Mapping[str, tuple[Format, Store]], members: set[str]) -> GroupStores:
    stores = tuple(store for _, store in (found[node] for node in sorted(found)))
    forms = {form.name: form for form, _ in found.values()}
    said = ", ".join(f"{node}: {found[node][0].name}" for node in sorted(found))
    problem = f"its nodes' logs are of two formats: {said}" if len(forms) > 1 else ""
    if len(found) > NODES_MAX:
        problem = f"logs of {len(found)} nodes: no more than {NODES_MAX} can be compared"
    return GroupStores(
        name=name,
        form=next(iter(forms.values())),
        stores=stores,
        missing=tuple(sorted(members - set(found))),
        problem=problem,
    )


def _nodes(data: Location) -> list[tuple[str, Location]]:
    """Return the nodes with stores, and their folders; the data directory may be a node's own."""
    if (data / "groups").is_folder():
        return [(str(data).rpartition("/")[2], data)]
    folders = [(name, data / name) for name in data.children()]
    return [(name, folder) for name, folder in folders if (folder / "groups").is_folder()]


def _form_of(root: Location) -> Format | None:
    return next((form for form in (COMMIT_LOG, DLEDGER) if (root / form.inner).is_folder()), None)


def _members(settings: Mapping[str, Any], group: str) -> set[str]:
    """Return the group's members that are Python nodes, as a node's settings name them."""
    keys = (f"groups.{group}.{key}" for key in ("master", "slaves", "members"))
    said = " ".join(str(settings.get(key, "")) for key in keys)
    return {word for word in _LISTED.findall(said) if f"nodes.{word}" in settings}


def _setting(settings: Mapping[str, Any], group: str, key: str) -> str:
    """Return a group's setting that is a single word; "" if it is not set."""
    return str(settings.get(f"groups.{group}.{key}", "")).strip('"')


def _is_loose(settings: Mapping[str, Any], group: str) -> bool:
    """Return whether the settings ask for upstream's rules, as `actors.service` judges them."""
    compat, first = (_setting(settings, group, key) for key in ("compat", "term_entry"))
    return compat == "upstream" or first == "none"


def _history(record: Any) -> History | None:
    """Return the history in a group's record of an identity.json; None if there is none."""
    epochs = _object(record).get("history")
    if not isinstance(epochs, list):
        return None
    found = tuple(
        (int(each["number"]), int(each["token"]), int(each["start_bytes"]))
        for each in map(_object, epochs)
        if all(isinstance(each.get(key), int) for key in ("number", "token", "start_bytes"))
    )
    return found or _BEFORE_EPOCHS


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# ---- where logs part ----


def shared_end(one: History, other: History) -> float:
    """Return the offset up to which two logs have to be equal.

    It is where the first of them leaves the last epoch that both share, in which one master wrote;
    infinite if neither leaves it.
    """
    common = [epoch for epoch in one if epoch in other]
    if not common:
        return 0
    ends = [_end_of(history, common[-1]) for history in (one, other)]
    return min(ends)


def _end_of(history: History, epoch: tuple[int, int, int]) -> float:
    behind = history[history.index(epoch) + 1 :]
    return behind[0][2] if behind else math.inf


def own_from(stores: tuple[Store, ...]) -> dict[str, float]:
    """Return, by node, the offset from which on its log has no copies.

    A master that was replaced may have written more, and keeps that until an operator runs
    `resync`. The offset is infinite for all others. The log of the newest promotion is the one that
    the others are compared with.
    """
    known = [store for store in stores if store.history is not None]
    if not known:
        return {store.node: math.inf for store in stores}
    newest = max(known, key=lambda store: (_last(store)[0], len(store.history or ())))
    assert newest.history is not None
    return {
        store.node: math.inf if store.history is None else shared_end(store.history, newest.history)
        for store in stores
    }


def _last(store: Store) -> tuple[int, int, int]:
    assert store.history
    return store.history[-1]
