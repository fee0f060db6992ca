"""A store that is stopped after somebody has removed what it has: one line, and the system's error
is not reported beside it. See also `tests/dledger/test_dledger_actors_removed.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from ledger_kit import LAYOUT, sim_disk
from ledger_store_kit import running

from actors.cluster.explain import explain
from actors.sim.disk import SimDisk
from actors.storage.log.syncer import WHAT_TO_DO


async def stopped_without(disk: SimDisk, path: str) -> BaseException | None:
    """What an ordered stop of an idle store raises from which that folder is gone."""
    try:
        async with running(disk) as kit:
            await kit.open(1)
            await kit.append(1, b"one")
            await kit.synced(0)
            await trio.sleep(5.0)  # nothing is left to be synced
            disk.rmtree(path)
    except BaseExceptionGroup as group:
        return group
    return None


@pytest.mark.parametrize("folder", [LAYOUT.root, LAYOUT.commit_log, LAYOUT.index, LAYOUT.sums])
async def test_a_stop_names_what_is_missing(autojump_clock: Any, folder: str) -> None:
    failure = await stopped_without(sim_disk(), folder)
    assert failure is not None
    assert explain(failure).lines == (f"triolog: {folder}: the folder is missing: {WHAT_TO_DO}",)
