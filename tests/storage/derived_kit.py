"""Heads of records for consume queues and index files on a simulated disk."""

import random

from store_kit import ROOT, small_group

from actors.env import Env
from actors.sim.disk import EPOCH_MS, SimDisk
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.layout import StoreLayout
from wire.files.commit_log import RecordHead

LAYOUT = StoreLayout(ROOT)


def head(number: int, offset: int, *, keys: str = "", topic: str = "t", ts: int = 5) -> RecordHead:
    return RecordHead(offset, 10, topic, 0, number, 0, ts, 7, keys, "")


def derived_on(disk: SimDisk) -> DerivedFiles:
    env = Env(
        network=None,  # type: ignore[arg-type] # nothing here speaks
        disk=disk,
        rng=random.Random(1),
        wall_clock_ms=lambda: EPOCH_MS,
        events=lambda path, incarnation, event: None,
    )
    return DerivedFiles(env=env, layout=LAYOUT, group=small_group())
