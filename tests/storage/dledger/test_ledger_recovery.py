"""What a start makes of torn entries, damage, lost indexes, and of what looks like an entry."""

from __future__ import annotations

import random

import pytest
from entry_kit import encode_entry
from hypothesis import given
from hypothesis import strategies as st
from ledger_kit import (
    FILE,
    LAYOUT,
    chain,
    dying_after,
    entries_of,
    finish,
    fresh,
    model,
    opened,
    sim_disk,
    sync,
)

from actors.errors import CorruptLog, StorageError
from actors.sim.disk import SimDisk
from actors.storage.ledger import recovery
from actors.storage.ledger.ledger import GRANULE_BYTES, TermVote, may_be_torn, of_entries
from actors.storage.ledger.mark import Mark
from actors.storage.ledger.term_files import LostVote
from wire.dledger.entry import (
    encode_blank,
)


def patched(disk: SimDisk, offset: int, data: bytes) -> None:
    base = offset - offset % FILE
    disk.open(f"{LAYOUT.commit_log}/{base:020d}", "w").pwrite(data, offset - base)


@pytest.mark.checklist(28, of="dledger")
@pytest.mark.parametrize("left", [0, 1, 47, 48, 100])
def test_a_torn_last_entry_is_cut_and_kept_aside(left: int) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900, b"b" * 900], 1)
    sync(ledger, disk)
    ledger.append_as_leader([b"c" * 900], 1)
    patched(disk, 2 * 948 + left, bytes(948 - left))
    disk.kill()
    again = opened(disk)
    assert [entry[0] for entry in model(again)] == [0, 1]
    kept = [disk.stat(f"{LAYOUT.cut}/{name}").size_bytes for name in disk.listdir(LAYOUT.cut)]
    assert kept == ([left] if left > 3 else [])
    assert again.opened.kept_bytes == sum(kept)
    assert bool(again.opened.found.reason) == (left > 3)


@pytest.mark.parametrize("at", [2, 6, 10, 20, 28, 36, 46, 48, 947])
def test_damage_below_the_mark_refuses_and_says_where(at: int) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900] * 6, 1)
    sync(ledger, disk, whole=True)
    ledger.close(ordered=True)
    patched(disk, FILE + 948 + at, b"\x7f")
    before = disk.open(f"{LAYOUT.commit_log}/{FILE:020d}", "r").pread(0, FILE)
    for _ in range(2):
        with pytest.raises(CorruptLog, match=r"byte 948 \(offset 5044\).*below 5992 was synced"):
            opened(disk)
    assert disk.open(f"{LAYOUT.commit_log}/{FILE:020d}", "r").pread(0, FILE) == before
    disk.unlink(LAYOUT.synced)
    again = opened(disk)
    left = [entry[0] for entry in model(again)]
    assert left == ([0, 1, 2, 3, 4] if at not in (20, 36, 48, 947) else [0, 1, 2, 3, 4, 5])
    assert again.opened.kept_bytes > 900 or len(left) == 6


def test_a_log_that_vanished_refuses_the_start() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    ledger.close(ordered=True)
    disk.rmtree(LAYOUT.commit_log)
    with pytest.raises(CorruptLog, match=r"all below 49 was synced once \(OPERATING.md, "):
        opened(disk)


def test_a_vote_that_vanished_or_cannot_be_read_refuses_the_start() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    ledger.close(ordered=True)
    file = disk.open(LAYOUT.term, "w")
    text = file.pread(0, 100)
    for bad in (b"", b"voteLeader=n0\n", b"currTerm=1x\nvoteLeader=\n", text[:-1], bytes(25)):
        file.resize(0)
        file.pwrite(bad, 0)
        with pytest.raises(CorruptLog, match="may vote twice"):
            opened(disk)
    disk.unlink(LAYOUT.term)
    with pytest.raises(LostVote, match="there is none, but the log holds entries") as refused:
        opened(disk)
    assert "N above the term of every other member" in str(refused.value)


def test_an_unreadable_mark_refuses_the_start() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    sync(ledger, disk)
    ledger.close(ordered=True)
    disk.flip_bits(LAYOUT.synced, 8, 8)
    disk.flip_bits(LAYOUT.synced, 520, 8)
    with pytest.raises(CorruptLog, match="the synced mark cannot be read"):
        opened(disk)
    disk.open(LAYOUT.synced, "w").resize(0)
    with pytest.raises(CorruptLog, match=f"{LAYOUT.synced}: the synced mark cannot be read"):
        opened(disk)


def test_a_blank_that_nothing_follows_is_cut() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900], 1)
    patched(disk, 948, encode_blank(FILE - 948))
    disk.kill()
    again = opened(disk)
    assert again.end_bytes == 948
    assert again.append_as_leader([b"b"], 1).positions == (948,)


@pytest.mark.parametrize(
    "bad",
    [
        encode_blank(100),
        b"\x00\x00\x00\x02" + bytes(44),
        encode_entry(chain([b"x"], index=5, pos=948)[0]),
        encode_entry(chain([b"x"], index=1, pos=949)[0]),
        encode_entry(chain([b"x"], index=1, pos=948, term=0)[0]),
    ],
    ids=["blank", "magic", "index", "pos", "term"],
)
def test_what_is_no_next_entry_ends_the_log(bad: bytes) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900], 1)
    patched(disk, 948, bad)
    disk.kill()
    again = opened(disk)
    assert [entry[0] for entry in model(again)] == [0]
    assert again.opened.found.reason
    assert again.opened.kept_bytes == len(bad.rstrip(b"\0"))


@pytest.mark.checklist(28, of="dledger")
@pytest.mark.parametrize("lost", ["folder", "first", "zeros", "behind"])
def test_the_index_is_made_again_from_the_entries(lost: str) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"%d" % n * 60 for n in range(100)], 1)
    sync(ledger, disk)
    before = model(ledger)
    match lost:
        case "folder":
            disk.rmtree(LAYOUT.index)
        case "first":
            disk.unlink(f"{LAYOUT.index}/{0:020d}")
        case "zeros":
            disk.open(f"{LAYOUT.index}/{1024:020d}", "w").pwrite(bytes(64), 64)
        case _:
            disk.open(f"{LAYOUT.index}/{3072:020d}", "w").pwrite(b"x" * 32, 32 * 5)
    disk.kill()
    again = opened(disk)
    assert model(again) == before
    assert (again.opened.index_made is None) == (lost == "behind")
    last = disk.open(f"{LAYOUT.index}/{3072:020d}", "r").pread(32 * 4, 1024)
    assert not any(last)


@pytest.mark.parametrize("is_lost", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize(
    ("offset", "damage"), [(23, b"\x02"), (948 + 8, b"\x7f"), (4 * 948, b"\0" * 4)]
)
def test_damage_in_a_file_that_is_not_scanned_is_found_before_the_index_is_made_of_it(
    offset: int, damage: bytes, is_lost: bool
) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900] * 12, 1)
    sync(ledger, disk, whole=True)
    ledger.close(ordered=True)
    patched(disk, offset, damage)
    if is_lost:
        disk.rmtree(LAYOUT.index)
    elif offset != 23:  # a term: the index disagrees with it, and is right
        opened(disk).close(ordered=True)  # who needs nothing of it starts
        return
    before = disk.listdir(LAYOUT.index) if not is_lost else []
    for _ in range(2):
        with pytest.raises(CorruptLog, match=r"/0{20}: byte \d+ .*but the log goes on to"):
            opened(disk)
    assert disk.listdir(LAYOUT.index) == before


def test_the_index_above_the_mark_is_not_believed() -> None:
    """It is synced once a second: a power loss may leave any of it."""
    for seed in range(20):
        disk = sim_disk(seed)
        ledger = fresh(disk)
        for number in range(30):
            ledger.append_as_leader([b"e%d" % number * 100], 1)
            sync(ledger, disk, whole=number == 11)
        disk.power_loss()
        again = opened(disk)
        assert len(model(again)) == 30
        assert again.end_term == 1


def test_an_entry_of_zeros_that_was_synced_is_never_cut() -> None:
    """Nothing tells it from a torn one but the mark, so its sync waits for the mark's."""
    for seed in range(20):
        disk = sim_disk(seed)
        ledger = fresh(disk, data_file_bytes=1 << 16)
        ledger.append_as_leader([b"a" * 100], 1)
        sync(ledger, disk)
        ledger.append_as_leader([bytes(20_000)], 1)
        sync(ledger, disk)
        ledger.append_as_leader([b"b" * 20_000], 1)
        assert ledger.synced_index == 1
        disk.power_loss()
        found = model(opened(disk, data_file_bytes=1 << 16))
        assert found[:2] == [(0, 1, b"a" * 100), (1, 1, bytes(20_000))]
        assert found[2:] in ([], [(2, 1, b"b" * 20_000)])


@pytest.mark.checklist(28, of="dledger")
def test_what_a_power_loss_leaves_of_an_entry_is_no_entry() -> None:
    """Its head came, a part of its body did not."""
    cut = 0
    for seed in range(30):
        disk = sim_disk(seed)
        ledger = fresh(disk, data_file_bytes=1 << 16)
        ledger.append_as_leader([b"a" * 100], 1)
        sync(ledger, disk)
        ledger.append_as_leader([random.Random(seed).randbytes(20_000)], 1)
        wanted = model(ledger)
        disk.power_loss()
        again = opened(disk, data_file_bytes=1 << 16)
        assert model(again) in (wanted, wanted[:1])
        cut += again.opened.found.reason == recovery.TORN
    assert cut > 3


@given(
    pos=st.integers(0, 3000),
    body=st.one_of(st.binary(max_size=1500), st.integers(0, 2000).map(bytes)),
    lost=st.integers(0, 8),
    zeros=st.booleans(),
)
def test_an_entry_with_a_lost_piece_is_seen_or_the_piece_was_zeros(
    pos: int, body: bytes, lost: int, zeros: bool
) -> None:
    body = body.rstrip(b"\0") + bytes(len(body) - len(body.rstrip(b"\0"))) * zeros
    entry = chain([body], pos=pos, file_bytes=1 << 20)[0]
    data = encode_entry(entry)
    granule = GRANULE_BYTES
    start = max((pos // granule + lost) * granule - pos, 0)
    end = min((pos // granule + lost + 1) * granule - pos, len(data))
    if start >= end:
        return
    torn = data[:start] + bytes(end - start) + data[end:]
    heads, _ = recovery.scan(torn, pos=pos)
    if torn != data and heads:
        assert may_be_torn(torn, pos)
    if may_be_torn(data, pos):
        batch = of_entries([entry], index=0, term=0, end_bytes=pos, file_bytes=1 << 20)
        assert batch.risky


@pytest.mark.parametrize("pos", [0, 500, 4000])
@pytest.mark.parametrize("left", range(1, 117, 5))
def test_an_entry_whose_write_broke_off_anywhere_is_seen(pos: int, left: int) -> None:
    data = encode_entry(chain([b"b" * 69], pos=pos, file_bytes=1 << 20)[0])
    torn = data[:left] + bytes(len(data) - left)
    heads, _ = recovery.scan(torn, pos=pos)
    assert not heads or may_be_torn(torn, pos)


def test_a_write_that_broke_off_leaves_no_entry_of_other_bytes() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 69], 1)
    sync(ledger, disk)
    disk.faults.shorten_write(path_part="/data/")
    with pytest.raises(StorageError, match="of 117 bytes"):
        ledger.append_as_leader([b"b" * 69], 1)
    disk.kill()
    assert [entry[0] for entry in model(opened(disk))] == [0]


def test_a_member_that_has_not_voted_starts_again() -> None:
    disk = sim_disk()
    ledger = opened(disk)
    ledger.append_as_follower(chain([b"a"]))
    sync(ledger, disk)
    disk.power_loss()
    again = opened(disk)
    assert [entry[0] for entry in model(again)] == [0]
    assert again.vote == TermVote(0, "")


def test_a_scan_begins_at_upstreams_third_file_without_a_mark() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900] * 40, 1)
    ledger.close(ordered=True)
    assert opened(disk).opened.found.first_base == 9 * FILE
    disk.kill()
    disk.unlink(LAYOUT.synced)
    found = opened(disk).opened.found
    assert found.first_base == 7 * FILE
    assert found.first_index == 28
    disk.kill()
    disk.unlink(LAYOUT.synced)
    blank = encode_blank(FILE)
    patched(disk, 7 * FILE, blank)
    assert opened(disk).opened.found.first_base == 6 * FILE


def test_what_a_failed_sync_left_in_the_cache_is_written_again() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a" * 900] * 3, 1)
    disk.faults.fail("sync", 5)
    work = ledger.begin_sync()
    with pytest.raises(OSError, match="Input/output"):
        for path in work.paths:
            disk.open(path, "w").sync()
    disk.kill()
    again = opened(disk)
    assert len(model(again)) == 3
    path = f"{LAYOUT.commit_log}/{0:020d}"
    durable = disk.durable(path)
    assert durable is not None
    assert durable[: again.end_bytes] == disk.inode(path).read(0, again.end_bytes)


@pytest.mark.checklist(7, of="dledger")
def test_a_vote_that_is_believed_is_on_the_disk() -> None:
    """Killed behind the rename, before the folder was synced; then a power loss."""
    for seed in range(10):
        disk = sim_disk(seed)
        ledger = fresh(disk)
        temporary = disk.open(f"{LAYOUT.term}.tmp", "x")
        temporary.pwrite(b"voteLeader=n2\ncurrTerm=9\n", 0)
        temporary.sync()
        disk.rename(f"{LAYOUT.term}.tmp", LAYOUT.term)
        disk.kill()
        assert opened(disk).vote == TermVote(9, "n2")
        disk.power_loss()
        assert opened(disk).vote == TermVote(9, "n2")
        assert ledger.vote == TermVote(1, "n0")


@pytest.mark.parametrize("steps", range(24))
def test_a_vote_in_a_temporary_file_outlives_a_start_that_dies(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Java's writer leaves it when it is killed between its deletion and its rename."""
    disk = sim_disk(steps)
    fresh(disk).close(ordered=True)
    disk.unlink(LAYOUT.term)
    for name, text in (
        ("bak", b"voteLeader=n0\ncurrTerm=1\n"),
        ("tmp", b"voteLeader=n2\ncurrTerm=9\n"),
    ):
        file = disk.open(f"{LAYOUT.term}.{name}", "x")
        file.pwrite(text, 0)
        file.sync()
        file.close()
    disk.sync_dir(LAYOUT.root)
    with dying_after(monkeypatch, steps):
        opened(disk)
    disk.power_loss()
    assert opened(disk).vote == TermVote(9, "n2")


def test_the_mark_of_a_stop_spares_the_look_behind_the_end() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    ledger.close(ordered=True)
    mark = Mark.open(disk, LAYOUT.synced)
    assert mark.values is not None
    assert (mark.values.end_bytes, mark.values.is_clean) == (49, True)
    again = opened(disk)
    assert again.opened.was_clean
    finish(again.restart_at(500, 5 * FILE + 700))
    again.append_as_follower(chain([b"b"], index=500, pos=5 * FILE + 700))
    again.close(ordered=True)
    third = opened(disk)
    assert third.opened.was_clean
    assert [entry.index for entry in entries_of(third)] == [500]
