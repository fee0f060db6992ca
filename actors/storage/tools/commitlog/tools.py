"""The tools for stores of `mode = "classic"` and `mode = "autoswitch"`."""

from __future__ import annotations

from typing import Final

from actors.env.protocols import Disk
from actors.storage.layout import AutoSwitchLayout, StoreLayout
from actors.storage.node.identity import Identity
from actors.storage.tools.commitlog.backup import (
    copy_group,
    running_limit,
    seed_group,
    seed_problems,
    stopped_limit,
    synced_mark,
)
from actors.storage.tools.commitlog.check import check_classic
from actors.storage.tools.commitlog.dump import dump_store
from actors.storage.tools.commitlog.pending import find_pending
from actors.storage.tools.commitlog.replicas import (
    BackedUpReplica,
    check_replica,
    copy_replica,
    dump_replica,
    prepare_replica_truncation,
    replica_seed_problems,
    seed_replica,
)
from actors.storage.tools.commitlog.truncate import prepare_truncation
from actors.storage.tools.copying import BackedUpGroup
from actors.storage.tools.kind import Seeding, StoreTools
from actors.storage.tools.stores import (
    GroupStore,
    ReplicaStore,
    file_size,
    number_in,
    settings_at,
)


def _find(disk: Disk, root: str, identity: Identity | None) -> GroupStore:
    layout, settings = StoreLayout(root), settings_at(root, identity)
    return GroupStore(
        name=root.rpartition("/")[2],
        layout=layout,
        segment_bytes=file_size(disk, layout.commit_log, number_in(settings, "segment_bytes")),
        settings=settings,
    )


def _find_replica(disk: Disk, root: str, identity: Identity | None) -> ReplicaStore:
    found = _find(disk, root, identity)
    return ReplicaStore(
        name=found.name,
        layout=AutoSwitchLayout(root),
        segment_bytes=found.segment_bytes,
        settings=found.settings,
    )


TOOLS: Final = StoreTools(
    find=_find,
    check=check_classic,
    dump=dump_store,
    pending=find_pending,
    stays_up_to=synced_mark,
    stopped_limit=stopped_limit,
    running_limit=running_limit,
    copy=copy_group,
    parse_copy=BackedUpGroup.parse,
    truncate=prepare_truncation,
    seed=Seeding(problems=seed_problems, copy=seed_group),
)
REPLICA_TOOLS: Final = StoreTools(
    find=_find_replica,
    check=check_replica,
    dump=dump_replica,
    pending=find_pending,
    stays_up_to=synced_mark,
    stopped_limit=stopped_limit,
    running_limit=running_limit,
    copy=copy_replica,
    parse_copy=BackedUpReplica.parse,
    truncate=prepare_replica_truncation,
    seed=Seeding(problems=replica_seed_problems, copy=seed_replica),
)
