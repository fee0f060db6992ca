"""The command `check`: everything that a cluster file means, with its nodes' trees and memory
bounds.

It imports everything that a node is made of, to know the bounds; other commands import far less.
"""

from __future__ import annotations

import json
import os
import re

import attrs

from actors.api.credentials import secret_state
from actors.api.limits import limits_of
from actors.api.socket_file import api_socket_path
from actors.cluster.commands import Answer
from actors.cluster.explain import EXIT_OK
from actors.config import ClusterConfig, changes, settings
from actors.config.brokerconf import BrokerConf
from actors.config.check import MemoryBound, memory, ports, render, warnings
from actors.config.command_line import columns
from actors.config.kinds import guarantee_of
from actors.env.local_secrets import LocalSecretStore
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.log_types import Membership
from actors.namesrv.tree import CONNECTIONS_MAX, MEMORY_BYTES
from actors.node.kinds import KINDS
from actors.owners import loose_in
from actors.readable import counted
from actors.storage.group_kind import group_kind_problems, inner_kind_problems
from actors.storage.layout import LedgerLayout
from actors.storage.node.identity import kind_problems, own_identity, read_identity


def check(
    config: ClusterConfig,
    disk: Disk,
    trees: dict[str, str],
    conf: BrokerConf | None = None,
    *,
    as_json: bool,
) -> Answer:
    """Describe everything that a file means, without starting anything.

    Args:
        disk: the disk with the nodes' identity files of their last start.
        trees: the tree of each node, as text.
        conf: the properties files from which `config` was made, which are described too; None:
            there are none.

    Raises: ConfigError: a node's next start would be refused for what lies in its folder.
    """
    _need_kinds(config, disk)
    changed, notes = _changed(config, disk), secret_state(config, LocalSecretStore())
    notes = notes if conf is None else (*conf.notes, *notes)
    lost = _lost_majorities(config, disk)
    notes = (*lost, *notes)
    loose = _loose(config)
    if as_json:
        found = {
            "cluster": config.name,
            "settings": settings(config),
            "ports": [attrs.asdict(use) for use in ports(config)],
            "guarantees": {
                name: attrs.asdict(guarantee_of(group)) for name, group in config.groups.items()
            },
            "memory": [attrs.asdict(bound) for bound in (*memory(config), *fixed_memory(config))],
            "to_know": (*warnings(config), *notes),
            "changed": changed,
            "loose": loose,
        }
        if conf is not None:
            found["properties"] = [attrs.asdict(use) for use in conf.uses]
            found["unknown_properties"] = dict(conf.unknown)
        return Answer(json.dumps(found, ensure_ascii=False), EXIT_OK)
    sockets = {node: api_socket_path(config.node_dir(node)) for node in config.python_nodes}
    page = render(
        config,
        sockets,
        fixed_memory(config),
        notes,
        details=[*([] if conf is None else _properties(conf)), *_trees(config, trees)],
        changes=[
            f"changed since the last start of {node}\n{_indented(chr(10).join(lines))}"
            for node, lines in changed.items()
        ],
    )
    if loose:
        page += "\n\nnot the nodes' alone\n" + _indented("\n".join(loose))
    return Answer(
        f"{page}\n\n{_summed_up(config, len(warnings(config)) + len(loose) + len(lost))}", EXIT_OK
    )


def _summed_up(config: ClusterConfig, warned: int) -> str:
    """Return the last line, which says whether anything above is a warning."""
    files = ", ".join(os.path.relpath(file) for file in config.broker_files or (config.path,))
    of = f"{counted(len(config.nodes), 'node')}, {counted(len(config.groups), 'group')}"
    return f"{files}: {of}, {counted(warned, 'warning') if warned else 'nothing wrong'}"


def _properties(conf: BrokerConf) -> list[str]:
    """A table for each file: key, value, what it does here."""
    blocks = []
    for file in conf.unknown:
        rows = [(use.key, use.value, use.does) for use in conf.uses if use.file == file]
        lines = [file, *(f"  {row}" for row in columns(rows, left=3))]
        if conf.unknown[file]:
            lines.append(f"  mean nothing here: {', '.join(conf.unknown[file])}")
        blocks.append("\n".join(lines))
    return blocks


def _trees(config: ClusterConfig, trees: dict[str, str]) -> list[str]:
    """Make one block for each tree; nodes whose trees differ only in node names share one."""
    alike: dict[str, list[str]] = {}
    for node, text in trees.items():
        alike.setdefault(_without_names(config, node, text), []).append(node)
    blocks = []
    for first, *more in alike.values():
        of = f"tree of {first}"
        if more:
            of += f"; the same, but for the names of nodes, on {', '.join(more)}"
        blocks.append(f"{of}\n{_indented(trees[first])}")
    return blocks


def _without_names(config: ClusterConfig, node: str, tree: str) -> str:
    """Return a node's tree with NODE for its own name and PEER 0, PEER 1 and so on for the
    others'.
    """
    others = [name for name in config.nodes if name != node]
    roles = {node: "NODE", **{name: f"PEER {number}" for number, name in enumerate(others)}}
    names = "|".join(re.escape(name) for name in sorted(roles, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda found: roles[found[0]], tree)


def fixed_memory(config: ClusterConfig) -> tuple[MemoryBound, ...]:
    """Return the bounds on bytes of records that no key of the file sets."""
    bounds = []
    for node in config.python_nodes:
        rows = [
            row
            for mode, kind in KINDS.items()
            for row in kind.memory(config.groups_of(node, mode), node)
        ]
        if node in config.name_servers:
            what = f"name server, {CONNECTIONS_MAX} connections that all send the most"
            rows.append((what, MEMORY_BYTES))
        limits = limits_of(config, node)
        what = f"API, {limits.connections} connections that all send and read the most"
        rows.append((what, limits.memory_bytes()))
        bounds += [MemoryBound(node=node, what=what, size_bytes=held) for what, held in rows]
    return tuple(bounds)


def _changed(config: ClusterConfig, disk: Disk) -> dict[str, tuple[str, ...]]:
    after = settings(config)
    found = {}
    for node in config.python_nodes:
        identity = read_identity(disk, config.node_dir(node))
        lines = changes(identity.settings, after) if identity is not None else ()
        if lines:
            found[node] = lines
    return found


def _need_kinds(config: ClusterConfig, disk: Disk) -> None:
    """Check what lies in the nodes' folders. Raises: ConfigError: a node's next start would be
    refused.
    """
    problems: list[str] = []
    for node in config.python_nodes:
        folder, groups = config.node_dir(node), config.groups_of(node)
        names, sockets = [one.name for one in groups], (api_socket_path(folder),)
        found = kind_problems(disk, folder, names, sockets=sockets)
        found = found or group_kind_problems(disk, folder, groups)
        problems += found or (
            *_identity_problems(config, disk, node),
            *inner_kind_problems(disk, folder, groups),
        )
    if problems:
        raise ConfigError(tuple(problems))


def _identity_problems(config: ClusterConfig, disk: Disk, node: str) -> tuple[str, ...]:
    """Return why a folder is not this node's, one line; nothing if it is, or may become it."""
    try:
        own_identity(disk, config.node_dir(node), config.name, node)
    except ConfigError as error:
        return error.problems
    return ()


def _lost_majorities(config: ClusterConfig, disk: Disk) -> tuple[str, ...]:
    """Return a line for each DLedger group of which a majority begins empty, and another does not.

    On several machines the folders of the others are not to be seen.
    """
    if not config.on_one_machine:
        return ()
    groups = {
        group.name: group
        for node in config.python_nodes
        for group in config.ledger_groups_of(node)
        if group.store == "file"
    }
    lines = []
    for name, group in groups.items():
        ours = [node for node in group.members if node not in group.java_nodes]
        have = [node for node in ours if _has_ledger(disk, config.node_dir(node), name)]
        lack = [node for node in ours if node not in have]
        if have and len(lack) > len(group.members) // 2:
            empty, others = ", ".join(lack), ", ".join(have)
            lines.append(
                f"group {name}: {empty} begin without a log, and {others}"
                f" {'has' if len(have) == 1 else 'have'} one: once all run one that has it is"
                f" elected, and what was committed on {empty} alone is lost: put their folders"
                " back, or begin the group anew on a backup, on all members"
            )
    return tuple(lines)


def _has_ledger(disk: Disk, folder: str, group: str) -> bool:
    """Whether a node holds, as far as its files tell, what its member of the group acknowledged."""
    identity, layout = read_identity(disk, folder), LedgerLayout(f"{folder}/groups/{group}")
    is_full = identity is not None and identity.membership.get(group) is Membership.FULL
    return is_full and disk.exists(layout.commit_log) and bool(disk.listdir(layout.commit_log))


def _loose(config: ClusterConfig) -> list[str]:
    """Return a line for each node of whose folder other users may use some file."""
    lines = []
    for node in config.python_nodes:
        folder = config.node_dir(node)
        loose = loose_in(folder)
        if loose is not None:
            more = f" and {loose.count - 1} more" if loose.count > 1 else ""
            lines.append(
                f"{node}: others may use {loose.path} (mode {loose.mode:04o}){more}, and perhaps"
                f" read records or replace what the node must not forget: chmod -R go= {folder}"
            )
    return lines


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
