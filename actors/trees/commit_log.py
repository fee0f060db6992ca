"""The children of a group whose log is a commit log, whoever says which node is master.

`storage` is store and syncer, one_for_all and significant. If either crashes, the group ends, and
with it the node, because what was written last is in doubt. If they cannot start when the group
gets another role, another attempt would fail, too. A crash of the dispatcher ends the group as
well: it syncs files of its own, and a failed sync is never tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from actors.config import CommitLogGroup
from actors.ha.core.dialect import Dialect
from actors.ha.record_verifier import RecordVerifier
from actors.ha.settings import ConnectionSettings
from actors.runtime import AutoShutdown, Backoff, ChildSpec, Restart, Strategy, SupervisorSpec
from actors.storage.commitlog.pull_service import PullService
from actors.storage.commitlog.store import Store
from actors.storage.dispatch.derived_scrubber import DerivedScrubber
from actors.storage.dispatch.dispatcher import Dispatcher
from actors.storage.log.log_reader import LogReader
from actors.storage.log.pacing import Pacing
from actors.storage.log.syncer import Syncer
from actors.storage.scrub.scrubber import Scrubber
from actors.trees.group_setup import GroupSetup
from actors.trees.node import STORAGE_SHUTDOWN_S, storage_child

Setup: TypeAlias = GroupSetup[CommitLogGroup]
SCRUBBER_BACKOFF = Backoff(first_s=1.0, max_s=30.0)
"""The pause between crashes of a scrubber. What it fails on is mended by others, or not at all."""


def log_group(
    setup: Setup,
    *,
    acknowledges: bool,
    waits_within_s: float,
    behind_store: tuple[ChildSpec, ...] = (),
    confirmed: Callable[[], int] | None = None,
    children: tuple[ChildSpec, ...],
) -> SupervisorSpec:
    """Return the tree of one group: its log, then `children`, which start last and stop first.

    Args:
        acknowledges: whether appends are taken, which group_transfer acknowledges.
        waits_within_s: see `Store`.
        behind_store: children that start before all that reads the log.
        confirmed: see `DerivedFiles`.
    """
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            _storage(setup, acknowledges=acknowledges, waits_within_s=waits_within_s),
            *behind_store,
            ChildSpec(
                name="dispatcher",
                start=partial(_dispatcher, setup, confirmed),
                restart=Restart.TEMPORARY,
                significant=True,
                shutdown_s=STORAGE_SHUTDOWN_S,
            ),
            ChildSpec(name="pull_service", start=partial(_pull_service, setup)),
            ChildSpec(name="scrubber", start=partial(_scrubber, setup), backoff=SCRUBBER_BACKOFF),
            ChildSpec(
                name="derived_scrubber",
                start=partial(_derived_scrubber, setup),
                backoff=SCRUBBER_BACKOFF,
            ),
            *children,
        ),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )


def _storage(setup: Setup, *, acknowledges: bool, waits_within_s: float) -> ChildSpec:
    """Return the supervisor of syncer and store, which run together; the store stops first."""
    registry, paths = setup.registry, setup.paths
    interval_s = 0.0 if setup.synced else setup.group.flush_interval_s
    syncer = partial(
        Syncer,
        disk=setup.env.disk,
        store=registry.ref(paths.store),
        interval_s=interval_s,
        upstream=setup.group.compat is not None,
        least_bytes=setup.group.flush_least_bytes,
        thorough_s=setup.group.flush_thorough_interval_s,
    )
    store = partial(
        Store,
        env=setup.env,
        layout=setup.layout,
        group=setup.group,
        node=setup.node,
        host=(setup.address_of(setup.node), setup.group.port),
        syncer=registry.ref(paths.syncer),
        acknowledger=registry.ref(paths.group_transfer) if acknowledges else None,
        waits_within_s=waits_within_s,
        guard=setup.guard,
        expires=setup.copy is None,
        changed_group=None if setup.changed is None else partial(getattr, setup.changed, "group"),
        time=setup.store_time,
    )
    return storage_child(syncer, store)


def _pull_service(setup: Setup) -> PullService:
    return PullService(
        disk=setup.env.disk,
        store_ref=setup.registry.ref(setup.paths.store),
        master=setup.group.master,
        record_bytes_max=setup.group.record_bytes_max,
        synced_only=setup.synced,
        mark=setup.acknowledged,
        unacknowledged=setup.group.compat is not None,
        scrubber=setup.registry.ref(setup.paths.scrubber),
    )


def _dispatcher(setup: Setup, confirmed: Callable[[], int] | None) -> Dispatcher:
    return Dispatcher(
        env=setup.env,
        layout=setup.layout,
        group=setup.group,
        store=setup.registry.ref(setup.paths.store),
        pacing=Pacing(gives_way=setup.group.master != setup.node),
        keeper=setup.keeper,
        scrubber=setup.registry.ref(setup.paths.scrubber),
        confirmed=confirmed,
    )


def _scrubber(setup: Setup) -> Scrubber:
    registry, paths = setup.registry, setup.paths
    return Scrubber(
        env=setup.env,
        layout=setup.layout,
        group=setup.group,
        store=registry.ref(paths.store),
        writes_itself=setup.group.master == setup.node,
        log_syncer=registry.ref(paths.syncer),
        keeper=setup.keeper,
        readers=registry.ref(paths.pull_service),
    )


def _derived_scrubber(setup: Setup) -> DerivedScrubber:
    registry, paths = setup.registry, setup.paths
    return DerivedScrubber(
        env=setup.env,
        layout=setup.layout,
        group=setup.group,
        dispatcher=registry.ref(paths.dispatcher),
        scrubber=registry.ref(paths.scrubber),
    )


def record_verifier(setup: Setup, at_bytes: int) -> RecordVerifier:
    group = setup.group
    return RecordVerifier(
        reader=LogReader(setup.env.disk, setup.layout.commit_log, group.segment_bytes),
        record_bytes_max=group.record_bytes_max,
        at_bytes=at_bytes,
    )


def connection_settings(
    setup: Setup, dialect: Dialect, *, poll_s: float | None = None
) -> ConnectionSettings:
    """Return what all connections of a group on its master share."""
    group, registry, paths = setup.group, setup.registry, setup.paths
    return ConnectionSettings(
        registry=registry,
        disk=setup.env.disk,
        dialect=dialect,
        log_folder=setup.layout.commit_log,
        segment_bytes=group.segment_bytes,
        frame_bytes=group.frame_bytes,
        synced=group.strict_sync,
        heartbeat_s=group.ha_send_heartbeat_interval_s,
        housekeeping_s=group.ha_housekeeping_interval_s,
        rate_bytes_per_s=group.max_ha_transfer_bytes_per_s or None,
        poll_s=poll_s,
        connections_path=paths.connections,
        store=registry.ref(paths.store),
        group_transfer=registry.ref(paths.group_transfer),
        connection_state=registry.ref(paths.connection_state),
        scrubber=registry.ref(paths.scrubber) if group.compat is None else None,
    )
