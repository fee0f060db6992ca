"""A node's directory, held against its cluster file before anything of the node runs."""

from __future__ import annotations

from actors.config import ClusterConfig, settings
from actors.env import Env
from actors.errors import ConfigError, NoRoomToStart
from actors.node.kinds import KINDS
from actors.storage.files.room import NO_ROOM_CODES, why_no_room
from actors.storage.group_kind import check_group_kinds, warn_of_others
from actors.storage.node.identity import NodeDirectory, open_directory


def take_directory(config: ClusterConfig, name: str, env: Env) -> NodeDirectory:
    """Take what a node remembers.

    Raises: ConfigError: it is not this one's, or in use. NoRoomToStart.
    """
    path = config.node_dir(name)
    try:
        check_group_kinds(env.disk, path, config.groups_of(name))
        directory = open_directory(
            env.disk,
            path,
            cluster=config.name,
            node=name,
            groups=tuple(group.name for group in config.groups_of(name)),
            settings=settings(config),
            ledgers=config.ledger_groups_of(name),
            source=config.path,
        )
    except OSError as error:
        if error.errno in NO_ROOM_CODES:
            raise NoRoomToStart(f"{path}: {why_no_room(env.disk, path, error)}") from error
        raise ConfigError(f"{path}: cannot be used as a data directory: {error}") from error
    warn_of_others(env.disk, path, name, config.groups_of(name))
    return directory


def check_groups(config: ClusterConfig, name: str, directory: NodeDirectory) -> None:
    """Look at the groups in the light of what the node remembers. Raises: ConfigError."""
    for group in config.groups_of(name):
        KINDS[group.mode].check(config, group, directory)
