"""The committed index on the disk, written down while a store runs."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from ledger_kit import LAYOUT, sim_disk
from ledger_store_kit import running

from actors.errors import StorageError
from actors.sim.disk import SimFile
from actors.storage.ledger import store_messages
from actors.storage.ledger.term_files import read_checkpoint
from wire.dledger.files import decode_ledger_checkpoint


async def test_the_committed_index_is_written_beside_the_loop(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of a busy disk takes a second: appends go on meanwhile."""
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"a", b"b")
        await kit.store.tell(store_messages.Commit(session=1, index=0))
        await trio.sleep(2)

        def refuse(*_: object) -> None:
            raise AssertionError("the loop would stand")

        with monkeypatch.context() as patch:
            patch.setattr(SimFile, "sync", refuse)
            disk.faults.slow_syncs(4.0, 2.0)
            await trio.sleep(1.5)
            await kit.store.tell(store_messages.Commit(session=1, index=1))
            assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == -1
            await kit.append(1, b"c")
            patch.undo()
            await trio.sleep(20)
        assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == 1
        durable = disk.durable(LAYOUT.checkpoint)
    assert durable is not None
    assert decode_ledger_checkpoint(durable).committed_index == 1


async def test_the_committed_index_waits_for_room(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"a", b"b")
        disk.faults.fail("write", 28, path_part="checkpoint", times=2)
        await kit.store.tell(store_messages.Commit(session=1, index=1))
        await trio.sleep(5)
        assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == -1
        await trio.sleep(6)
        assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == 1


async def test_a_checkpoint_that_fails_ends_the_store(autojump_clock: Any) -> None:
    disk = sim_disk()
    with pytest.RaisesGroup(
        pytest.RaisesExc(StorageError, match="checkpoint cannot be written"), flatten_subgroups=True
    ):
        async with running(disk) as kit:
            await kit.open(1)
            await kit.append(1, b"a")
            await trio.sleep(2)
            disk.faults.fail("sync", 5, path_part="checkpoint")
            await kit.store.tell(store_messages.Commit(session=1, index=0))
            await trio.sleep(5)
