"""What `python -m actors.storage backup` and `seed` do. See `command_line`."""

from __future__ import annotations

import os
import re

from actors.api.socket_file import api_socket_path
from actors.client.connection import connect
from actors.client.targets import parse_target
from actors.config import ClusterConfig
from actors.config.bounds import NAME
from actors.config.command_line import complain
from actors.env.protocols import Disk, Env
from actors.errors import ConfigError, StorageError, TriologError
from actors.group_status import GroupStatus, group_status
from actors.storage.kinds import KINDS, tools_of
from actors.storage.tools import arguments, report
from actors.storage.tools import seed as seeding
from actors.storage.tools.backup import copy_stores, held_backup, make_manifest
from actors.storage.tools.command_steps import EXIT_OK, absolute, answer, drive, held
from actors.storage.tools.copying import BackedUp, Limit
from actors.storage.tools.manifest import write_manifest
from actors.storage.tools.stores import FoundStore
from actors.storage.tools.target import Target, find_target


async def backup(env: Env, command: arguments.Backup) -> int:
    """Copy the groups of a node or a store. Returns the exit code."""
    disk, folder = env.disk, absolute(command.target)
    target = find_target(disk, absolute(command.folder), command.group)
    locks, is_running = held(disk, target)
    with locks:
        limits: dict[str, Limit] = {}
        for store in target.stores:
            if is_running:
                limits[store.name] = await _running_limit(disk, target, store)
            else:
                limits[store.name] = await drive(tools_of(store).stopped_limit(disk, store))
        locks.enter_context(held_backup(disk, target, folder))
        done = BackedUp()
        await drive(copy_stores(disk, target, folder, limits, done))
        if is_running:
            for store in [each for each in target.stores if not limits[each.name].is_sure]:
                now = await _running_limit(disk, target, store)
                if now.end_bytes < limits[store.name].end_bytes:
                    raise StorageError(f"{store.name}: its log was cut while it was copied; again")
        write_manifest(disk, folder, make_manifest(disk, target, done, env.wall_clock_ms()))
    result = report.backup_object(done, folder)
    await answer(result, report.backup_lines(done, folder), json=command.json)
    return EXIT_OK


async def _status(target: Target, group: str) -> GroupStatus | None:
    """What a running node says of a group; None: it does not answer."""
    assert target.node_dir is not None
    try:
        async with connect(api_socket_path(target.node_dir), name="backup") as client:
            return group_status(await client.status(), group)
    except (OSError, TriologError, ExceptionGroup):
        return None


async def _running_limit(disk: Disk, target: Target, store: FoundStore) -> Limit:
    """As `StoreTools.running_limit`."""
    assert target.identity is not None
    status = await _status(target, store.name)
    return tools_of(store).running_limit(disk, store, status, target.identity.node)


async def seed(env: Env, command: arguments.Seed) -> int:
    """Make a backup a node's data directory. Returns the exit code."""
    plan, config = _seed_plan(env.disk, command)
    if config is not None:
        seeding.check_fit(plan, config)
    seeding.check_free(env.disk, plan)
    copied = await drive(seeding.seed_node(env.disk, plan))
    ends = {name: copied.log.end_bytes for name, copied in plan.groups}
    lines = [f"{name}: ends at {end}" for name, end in ends.items()]
    lines.append(
        f"{plan.node_dir}: node {plan.node} of {plan.cluster}, {copied} bytes; start it as a slave"
    )
    result = {"path": plan.node_dir, "cluster": plan.cluster, "node": plan.node, "ends": ends}
    await answer(result, lines, json=command.json)
    return EXIT_OK


def _seed_plan(disk: Disk, command: arguments.Seed) -> tuple[seeding.Seed, ClusterConfig | None]:
    """What is meant, and the cluster file if one was named. Raises: ConfigError."""
    source = find_target(disk, absolute(command.folder))
    if source.manifest is None:
        raise ConfigError(f"{source.path}: expected a backup with a manifest, found none")
    able = seeding.seedable(source.manifest)
    others = {
        store.name: why for store in source.stores if isinstance(why := tools_of(store).seed, str)
    }
    if not able:
        every = {mode: kind.tools().seed for mode, kind in KINDS.items()}
        modes = " or ".join(mode for mode, duty in every.items() if not isinstance(duty, str))
        names, why = ", ".join(others), next(iter(others.values()), "nothing is in it")
        raise ConfigError(f"{source.path}: expected a {modes} group, found {names}: {why}")
    for name, why in others.items():
        complain(f"triolog: {name} is passed over: {why}")
    text, config = command.target, None
    if text.endswith(".toml") or text.rpartition(":")[0].endswith(".toml"):
        found = parse_target(text)
        config, node = found.config, command.node or found.node
        if config is None or node is None:
            raise ConfigError(f"TARGET: expected CLUSTER.toml:NODE or a folder, found {text}")
        if node not in config.python_nodes:
            known = ", ".join(config.python_nodes)
            raise ConfigError(f"--node: expected one of {known}, found {node}")
        node_dir, cluster = config.node_dir(node), config.name
    else:
        node_dir, cluster = absolute(text), source.manifest.cluster
        node = command.node or os.path.basename(node_dir)
        _check_name("--node", node)
    if not cluster:
        raise ConfigError("TARGET: expected CLUSTER.toml:NODE, for the backup names no cluster")
    if command.group is not None:
        _check_name("--group", command.group)
        if len(able) != 1:
            raise ConfigError(f"--group: expected a backup of one group, found {source.top}")
    plan = seeding.Seed(
        backup=source.top,
        manifest=source.manifest,
        node_dir=node_dir,
        cluster=cluster,
        node=node,
        group=command.group,
    )
    return plan, config


def _check_name(what: str, name: str) -> None:
    if re.fullmatch(NAME.pattern, name) is None:
        raise ConfigError(f"{what}: expected {NAME.expected}, found {name!r}")
