"""Backups and seeds for tests, made as the commands make them."""

from __future__ import annotations

from typing import Any

from tools_kit import NODE_DIR, log_of

from actors.sim.disk import SimDisk
from actors.storage.files.stepping import finish
from actors.storage.tools import seed
from actors.storage.tools.backup import copy_stores, make_manifest, open_backup
from actors.storage.tools.commitlog.backup import stopped_limit
from actors.storage.tools.copying import BackedUp, Limit
from actors.storage.tools.manifest import read_manifest, write_manifest
from actors.storage.tools.target import find_target

DEST = "/backup"
NEW = "/data/n1"


def backup(disk: Any, limit: int | None = None, dest: str = DEST) -> BackedUp:
    """As the command does it."""
    target = find_target(disk, NODE_DIR)
    limits = {
        store.name: finish(stopped_limit(disk, store))
        if limit is None
        else Limit(end_bytes=limit, why="test")
        for store in target.stores
    }
    open_backup(disk, target, dest)
    done = BackedUp()
    finish(copy_stores(disk, target, dest, limits, done))
    write_manifest(disk, dest, make_manifest(disk, target, done, 5))
    return done


def seeding(disk: Any, node: str = "n1", node_dir: str = NEW) -> seed.Seed:
    manifest = read_manifest(disk, DEST)
    assert manifest is not None
    return seed.Seed(backup=DEST, manifest=manifest, node_dir=node_dir, cluster="demo", node=node)


def seeded(disk: Any) -> None:
    plan = seeding(disk)
    seed.check_free(disk, plan)
    finish(seed.seed_node(disk, plan))


def copied_log(disk: SimDisk) -> bytes:
    return log_of(disk, f"{DEST}/groups/orders/commitlog")
