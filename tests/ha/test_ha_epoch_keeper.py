"""EpochKeeper: what it opens behind a replica's store, begins and publishes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from actors.ha.autoswitch.epoch_keeper import EpochKeeper, EpochsOpened
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.runtime import Actor, ChildSpec, Registry, SupervisorSpec, open_system
from actors.sim.disk import SimDisk
from actors.storage.commitlog.store_messages import GetRange, LogGrew, LogRange
from actors.storage.files.room import Room
from actors.storage.layout import StoreLayout
from actors.storage.log.growth import Subscribe
from actors.storage.log.log_reader import LogReader

LAYOUT = StoreLayout("/set1")
RANGE = LogRange(
    min_bytes=0,
    written_bytes=900,
    synced_bytes=900,
    segment_bytes=4096,
    folder=LAYOUT.commit_log,
    confirmed_bytes=700,
)


@attrs.define
class Store(Actor[Any]):
    """Answers with a range, and tells that a file was deleted."""

    was_clean: bool

    async def handle(self, message: Any) -> None:
        if isinstance(message, GetRange):
            message.reply_to.send(attrs.evolve(RANGE, was_clean=self.was_clean))
        elif isinstance(message, Subscribe):
            grown = LogGrew(min_bytes=300, written_bytes=950, synced_bytes=950)
            await message.subscriber.tell(grown)


@attrs.define
class Owner(Actor[EpochsOpened]):
    heard: list[EpochsOpened]

    async def handle(self, message: EpochsOpened) -> None:
        self.heard.append(message)


def tree_of(
    disk: SimDisk,
    view: EpochsView,
    heard: list[EpochsOpened],
    *,
    leads: bool,
    synced: bool = True,
    was_clean: bool = True,
) -> Callable[[Registry], SupervisorSpec]:
    """Return a tree with a keeper, and with who speaks to it."""

    def tree(registry: Registry) -> SupervisorSpec:
        keeper = partial(
            EpochKeeper,
            disk=disk,
            layout=LAYOUT,
            store=registry.ref("/n0/store"),
            make_reader=lambda: LogReader(disk, LAYOUT.commit_log, 4096),
            owner=registry.ref("/n0/owner"),
            view=view,
            build=3,
            begins=5 if leads else None,
            synced=synced,
            room=Room(disk=disk, path=LAYOUT.root, owner="n0: orders"),
        )
        return SupervisorSpec(
            children=(
                ChildSpec(name="owner", start=lambda: Owner(heard)),
                ChildSpec(name="store", start=lambda: Store(was_clean)),
                ChildSpec(name="epochs", start=keeper),
            )
        )

    return tree


@pytest.mark.parametrize("leads", [False, True])
async def test_it_publishes_history_end_and_what_readers_saw(
    autojump_clock: Any, leads: bool
) -> None:
    disk, view, heard = SimDisk(random.Random(1)), EpochsView(), list[EpochsOpened]()
    disk.mkdir(LAYOUT.root)
    tree = tree_of(disk, view, heard, leads=leads)
    async with open_system("n0", tree, events=lambda path, incarnation, event: None):
        await trio.sleep(1)
        assert heard == [EpochsOpened(build=3, problem="")]
        assert view.end_bytes == 950
        assert view.last_epoch == (5 if leads else -1)
        # The next store's readers see at once what was confirmed when the process ended.
        assert view.mark.offset_bytes == 700


async def test_a_log_of_what_is_written_is_in_doubt_after_a_start_that_was_not_clean(
    autojump_clock: Any,
) -> None:
    """Of the first tree alone: a later one of the process finds what its store had written."""
    for synced, was_clean in ((True, False), (False, True), (False, False)):
        disk, view = SimDisk(random.Random(1)), EpochsView()
        disk.mkdir(LAYOUT.root)
        for first in (True, False):
            tree = tree_of(disk, view, [], leads=first, synced=synced, was_clean=was_clean)
            async with open_system("n0", tree, events=lambda path, incarnation, event: None):
                await trio.sleep(1)
            assert (view.doubts is not None) == (not synced and not was_clean)
            assert view.doubts in (None, 5)
