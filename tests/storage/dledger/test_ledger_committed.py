"""What a start makes of the committed index that the checkpoint says."""

from __future__ import annotations

import pytest
from ledger_kit import FILE, LAYOUT, chain, finish, fresh, model, opened, sim_disk, sync

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.ledger.ledger import BelowCommitted, LedgerStore
from actors.storage.ledger.memory_ledger import MemoryLedger
from actors.storage.ledger.term_files import read_checkpoint, write_checkpoint
from wire.dledger.files import LedgerCheckpoint


def patched(disk: SimDisk, at: int, data: bytes) -> None:
    """In the first data file."""
    disk.open(f"{LAYOUT.commit_log}/{0:020d}", "w").pwrite(data, at)


def committed_to_2(kind: str) -> LedgerStore:
    ledger: LedgerStore = MemoryLedger(file_bytes=FILE)
    if kind == "file":
        ledger = fresh(sim_disk())
    ledger.append_as_leader([b"a", b"b", b"c"], 1)
    ledger.commit(2)
    return ledger


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_log_that_holds_nothing_committed_begins_anew_anywhere(kind: str, refused: bool) -> None:
    """The next leader's begins before the last one's. `refused`: there was no room for its entry.

    What was committed has left when the log began anew: it is with the leader.
    """
    ledger = committed_to_2(kind)
    with pytest.raises(BelowCommitted):
        finish(ledger.restart_at(1, FILE))
    finish(ledger.restart_at(100, FILE))
    if not refused:
        ledger.append_as_follower(chain([b"x", b"y"], term=2, index=100, pos=FILE))
    finish(ledger.restart_at(1, 49))
    ledger.append_as_follower(chain([b"b", b"c", b"d"], index=1, pos=49))
    assert model(ledger) == [(1, 1, b"b"), (2, 1, b"c"), (3, 1, b"d")]
    for index in (0, 1, 2):
        with pytest.raises(BelowCommitted):
            finish(ledger.restart_at(index, 0))
    with pytest.raises(BelowCommitted):
        finish(ledger.truncate(2))
    finish(ledger.truncate(3))


def test_a_committed_index_is_never_above_the_end_nor_believed_later() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a", b"b"], 1)
    sync(ledger, disk)
    ledger.append_as_leader([b"c" * 900, b"d" * 900], 1)
    ledger.commit(3)
    ledger.save_checkpoint()
    assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == 1, "what is synced"
    javas = LedgerCheckpoint(committed_index=3, end_index=3)
    write_checkpoint(disk, LAYOUT.checkpoint, javas)
    patched(disk, 98, bytes(948))
    disk.kill()
    disk.unlink(LAYOUT.synced)
    again = opened(disk)
    assert (again.end_index, again.committed_index) == (1, 1)
    assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == 1
    again.append_as_leader([b"e"] * 5, 2)
    disk.kill()
    assert opened(disk).committed_index == 1
    disk.open(LAYOUT.checkpoint, "w").pwrite(b"????", 0)
    assert opened(disk).committed_index == -1


@pytest.mark.parametrize("begins", [0, 5])
def test_a_checkpoint_beyond_a_whole_log_is_corrected_and_reported(
    caplog: pytest.LogCaptureFixture, begins: int
) -> None:
    """It is another program's, or another member's: nothing that was synced here is lost."""
    disk = sim_disk()
    ledger = fresh(disk)
    if begins:
        finish(ledger.restart_at(begins, FILE))
    ledger.append_as_follower(chain([b"a", b"b"], index=begins, pos=FILE if begins else 0))
    ledger.commit(begins + 1)
    ledger.close(ordered=True)
    assert not opened(disk).opened.kept_bytes
    opened(disk).close(ordered=True)
    assert caplog.messages == []
    beyond = LedgerCheckpoint(committed_index=99, end_index=99)
    write_checkpoint(disk, LAYOUT.checkpoint, beyond)
    again = opened(disk)
    assert (again.end_index, again.committed_index) == (begins + 1, begins + 1)
    assert caplog.messages == [
        f"{LAYOUT.checkpoint}: says that entries up to 99 are committed, but the log is whole and"
        f" ends with entry {begins + 1}: corrected to that"
    ]
    assert read_checkpoint(disk, LAYOUT.checkpoint).committed_index == begins + 1
    again.close(ordered=True)
    opened(disk)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "damage",
    [
        (5, b"\x40"),  # the size says an end behind the file's
        (6, b"\x0b"),  # one behind the log's
        (46, b"\x0b"),  # so do both, alike
        (0, bytes(948)),  # a page that never came
    ],
)
def test_what_was_committed_and_synced_is_damage_though_the_mark_is_older(
    damage: tuple[int, bytes],
) -> None:
    """A power loss took the newest mark, which is synced once a second."""
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900], 1)
    sync(ledger, disk)
    old = disk.open(LAYOUT.synced, "r").pread(0, 4096)
    ledger.append_as_leader([b"b" * 900, b"c" * 900], 1)
    sync(ledger, disk, whole=True)
    ledger.commit(2)
    ledger.save_checkpoint()
    disk.open(LAYOUT.synced, "w").pwrite(old, 0)
    at, data = damage
    if at == 46:
        patched(disk, 948 + 6, data)
    patched(disk, 948 + at, data)
    disk.kill()
    before = disk.open(f"{LAYOUT.commit_log}/{0:020d}", "r").pread(0, FILE)
    for _ in range(2):
        with pytest.raises(
            CorruptLog, match=rf"byte 948 .*{LAYOUT.checkpoint}, entries up to 2 were comm"
        ):
            opened(disk)
    assert disk.open(f"{LAYOUT.commit_log}/{0:020d}", "r").pread(0, FILE) == before
    disk.unlink(LAYOUT.synced)  # as the text on an unreadable one says
    assert opened(disk).end_index < 2


def test_what_a_power_loss_took_before_it_was_synced_refuses_no_start() -> None:
    """Others had committed it: this member asks its leader for it again."""
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900], 1)
    sync(ledger, disk, whole=True)
    ledger.append_as_leader([b"b" * 900], 1)
    ledger.commit(1)
    ledger.save_checkpoint()
    patched(disk, 948, bytes(948))
    disk.kill()
    assert (opened(disk).end_index, opened(disk).committed_index) == (0, 0)
