"""The epoch file of a log: what it says, what is believed of it, and dying at every step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import golden_autoswitch as golden
import pytest
from hypothesis import given
from hypothesis import strategies as st
from storage_kit import finish, record
from store_kit import ROOT, sim_disk, small_group
from store_tree import Died, die_after

from actors.epochs import BEFORE_EPOCHS, Epoch, History, Kind, compare
from actors.sim.disk import SimDisk
from actors.storage.commitlog.epoch_store import EpochStore, record_begins
from actors.storage.commitlog.opening import open_store
from actors.storage.layout import StoreLayout
from actors.storage.log.log_reader import LogReader
from wire.files.epoch_file import EpochStart, decode_epoch_file, encode_epoch_file

LAYOUT = StoreLayout(ROOT)
S = 4096


def history(*epochs: tuple[int, int]) -> History:
    return tuple(Epoch(number, 0, "", start) for number, start in epochs)


def put(disk: SimDisk, data: bytes, path: str = LAYOUT.epochs) -> None:
    file = disk.open(path, "w" if disk.exists(path) else "x")
    file.resize(0)
    file.pwrite(data, 0)
    file.sync()
    disk.sync_dir(ROOT)


def entries(*epochs: tuple[int, int]) -> bytes:
    return encode_epoch_file([EpochStart(*each) for each in epochs])


def in_file(disk: SimDisk, path: str = LAYOUT.epochs) -> list[tuple[int, int]]:
    file = disk.open(path, "r")
    return [(each.epoch, each.offset) for each in decode_epoch_file(file.pread(0, 1 << 20))]


def opened(
    disk: SimDisk, end: int, least: int = 0, begins: Callable[[int], bool] = lambda offset: True
) -> EpochStore:
    return EpochStore.open(disk, LAYOUT, least, end, begins)


@pytest.fixture
def disk() -> SimDisk:
    found = sim_disk()
    found.mkdir(ROOT)
    return found


# ---- what is written ----


def test_a_master_s_epochs_are_in_upstream_s_file(disk: SimDisk) -> None:
    store = opened(disk, 0)
    assert store.history == ()
    store.begin(1, 0)
    store.begin(2, 1570)
    file = disk.open(LAYOUT.epochs, "r").pread(0, 1000)
    assert file == b"2\n1190946436\n1-0\n2-1570\n"  # upstream's CRC
    disk.power_loss()
    assert opened(disk, 3140).history == history((1, 0), (2, 1570))


@pytest.mark.checklist(12, of="autoswitch")
@pytest.mark.parametrize("broker", ["broker-a", "broker-b", "broker-c"])
def test_java_s_files_are_read_and_its_backup_where_the_file_is_torn(
    disk: SimDisk, broker: str
) -> None:
    whole = golden.file(f"{broker}/epochFileCheckpoint")
    backup = golden.file(f"{broker}/epochFileCheckpoint.bak")
    put(disk, whole)
    put(disk, backup, LAYOUT.epochs_before)
    store = opened(disk, 3571)
    assert store.history == history((1, 0), (2, 1338), (3, 2234), (4, 2901))
    assert (store.known_bytes, store.problem) == (None, "")
    put(disk, whole[:-3])
    store = opened(disk, 3571)
    said = decode_epoch_file(backup)
    assert [each.number for each in store.history] == [each.epoch for each in said]
    # Epochs that only the torn file had may have begun behind the last one here.
    assert store.known_bytes == said[-1].offset
    assert "cannot be read" in store.problem


@pytest.mark.checklist(19, of="autoswitch")
def test_the_same_epoch_again_changes_nothing(disk: SimDisk) -> None:
    """autoswitch-ha.md T8: upstream moves the epoch's beginning to the end of the log."""
    store = opened(disk, 0)
    store.begin(1, 0)
    store = opened(disk, 654)
    store.begin(1, 654)
    assert in_file(disk) == [(1, 0)]


@pytest.mark.checklist(18, of="autoswitch")
def test_an_epoch_without_bytes_makes_room_for_the_next_one(disk: SimDisk) -> None:
    """autoswitch-ha.md T1: upstream refuses the next one, and its bytes count as the old one's."""
    store = opened(disk, 0)
    store.begin(1, 0)
    store.begin(2, 654)
    store.begin(3, 654)
    assert in_file(disk) == [(1, 0), (3, 654)]
    with pytest.raises(ValueError, match="epoch 2 cannot follow epoch 3"):
        store.begin(2, 700)


def test_the_first_epoch_of_an_empty_log_stays(disk: SimDisk) -> None:
    """Another replica may have bytes of it, which it has to cut: autoswitch-ha.md T1b."""
    store = opened(disk, 0)
    for number in (1, 2, 3):
        store.begin(number, 0)
    assert in_file(disk) == [(1, 0), (3, 0)]
    found = compare(history((1, 0)), 50, opened(disk, 0).history, 0)
    assert (found.kind, found.consistent_bytes) == (Kind.DIVERGED, 0)


@pytest.mark.checklist(21, of="autoswitch")
def test_expired_files_take_their_epochs_but_never_the_last(disk: SimDisk) -> None:
    """autoswitch-ha.md T4: upstream's last epoch keeps an end that was cut, and goes."""
    store = opened(disk, 0)
    for number, start in ((1, 0), (2, 1000), (3, 2000)):
        store.begin(number, start)
    store.expire(999)
    assert len(store.history) == 3
    store.expire(1500)
    assert in_file(disk) == [(2, 1000), (3, 2000)]
    store.cut(1800)
    store.expire(9000)
    assert in_file(disk) == [(2, 1000)]
    assert opened(disk, 9500, 9000).history == history((2, 1000))


def test_a_log_older_than_its_first_epoch_is_of_epoch_0(disk: SimDisk) -> None:
    """autoswitch-ha.md T12."""
    store = opened(disk, 500)
    assert store.history == (BEFORE_EPOCHS,)
    assert store.problem == ""
    store.begin(4, 500)
    assert in_file(disk) == [(4, 500)]
    assert opened(disk, 700).history == (BEFORE_EPOCHS, *history((4, 500)))
    assert opened(disk, 700, least=500).history == history((4, 500))


# ---- following ----


@pytest.mark.checklist(18, of="autoswitch")
def test_a_slave_keeps_the_epoch_that_has_no_bytes_yet(disk: SimDisk) -> None:
    """autoswitch-ha.md T1b: upstream drops it at each reconnect, and its bytes count as others'."""
    master = history((1, 0), (2, 654))
    store = opened(disk, 0)
    store.follow(master, 0)
    assert in_file(disk) == [(1, 0)]
    for _ in range(3):
        store = opened(disk, 654)
        store.follow(master, 654)
        assert in_file(disk) == [(1, 0), (2, 654)]
    store.follow((*history((1, 0)), *history((3, 654))), 654)  # nobody wrote in epoch 2
    assert in_file(disk) == [(1, 0), (3, 654)]


def test_a_slave_of_a_master_with_fewer_files_keeps_its_older_epochs(disk: SimDisk) -> None:
    put(disk, entries((1, 0), (2, 500), (3, 900)))
    store = opened(disk, 950)
    store.follow((BEFORE_EPOCHS, *history((3, 900), (4, 950))), 950)
    assert in_file(disk) == [(1, 0), (2, 500), (3, 900), (4, 950)]


@pytest.mark.checklist(14, of="autoswitch")
def test_a_slave_ahead_is_cut_and_goes_on_in_the_master_s_epochs(disk: SimDisk) -> None:
    put(disk, entries((1, 0), (2, 500), (4, 800)))
    store = opened(disk, 900)
    master = history((1, 0), (2, 500), (3, 700), (5, 800))
    found = compare(store.history, 900, master, 1000)
    assert (found.kind, found.consistent_bytes) == (Kind.DIVERGED, 700)
    store.cut(700)
    assert in_file(disk) == [(1, 0), (2, 500)]
    store.follow(master, 700)
    assert in_file(disk) == [(1, 0), (2, 500), (3, 700)]


# ---- what is believed ----


@pytest.mark.checklist(20, of="autoswitch")
def test_an_epoch_above_the_log_s_end_goes(disk: SimDisk) -> None:
    """autoswitch-ha.md T3: with upstream a slave reports the end of its master's log then."""
    put(disk, entries((1, 0), (2, 500), (3, 900)))
    store = opened(disk, 700)
    assert store.history == history((1, 0), (2, 500))
    store.begin(2, 700)  # the same epoch: and yet the file must forget the third one
    assert in_file(disk) == [(1, 0), (2, 500)]
    assert opened(disk, 1000).history == history((1, 0), (2, 500))


def test_a_file_older_than_the_log_is_believed_up_to_its_last_epoch(disk: SimDisk) -> None:
    store = opened(disk, 0)
    store.begin(1, 0)
    older = entries((1, 0), (2, 500))
    store.begin(2, 500)
    store.begin(3, 700)
    put(disk, older)
    store = opened(disk, 900)
    assert store.known_bytes == 500
    assert "was newer, with epoch 3" in store.problem
    with pytest.raises(ValueError, match="was newer"):
        store.begin(4, 900)
    store.cut(500)
    assert store.known_bytes is None
    store.begin(4, 500)
    assert opened(disk, 900).problem == ""


@pytest.mark.parametrize("left", ["spare", "note", "torn"])
def test_a_lost_file_is_not_taken_for_a_log_older_than_epochs(disk: SimDisk, left: str) -> None:
    store = opened(disk, 0)
    store.begin(1, 0)
    store.begin(2, 500)
    if left == "torn":
        put(disk, b"2\n119")
    else:
        disk.unlink(LAYOUT.epochs)
        disk.unlink(f"{LAYOUT.epochs}.spare" if left == "note" else LAYOUT.newest_epoch)
    store = opened(disk, 900)
    assert store.known_bytes == 0
    assert "cannot be read" in store.problem
    store.cut(0)
    assert (store.known_bytes, store.history) == (None, ())


def test_a_file_of_another_log_is_not_believed(disk: SimDisk) -> None:
    put(disk, entries((1, 0), (2, 500), (3, 700)))
    assert opened(disk, 900, begins={0, 500}.__contains__).known_bytes is None  # perhaps damage
    store = opened(disk, 900, begins={0, 450}.__contains__)
    assert store.known_bytes == 0
    assert "of another log" in store.problem
    assert opened(disk, 0, begins={0}.__contains__).problem == ""


def test_doubt_outlasts_what_does_not_end_it(disk: SimDisk) -> None:
    """A cut behind what is believed, and a file that expires, make no byte surer."""
    store = opened(disk, 0)
    older = entries((1, 0), (2, 500))
    for number, start in ((1, 0), (2, 500), (3, 700)):
        store.begin(number, start)
    put(disk, older)
    store = opened(disk, 900)
    store.cut(800)
    store.expire(100)
    store.expire(600)
    assert store.history == history((2, 500))
    assert in_file(disk) == [(1, 0), (2, 500)]
    store = opened(disk, 800, 600)
    assert (store.known_bytes, store.history) == (500, history((2, 500)))
    assert "was newer, with epoch 3" in store.problem


def test_the_epochs_of_deleted_files_go_as_the_log_opens(disk: SimDisk) -> None:
    """A slave deletes its files without its history's writer: autoswitch-ha.md 4.1."""
    put(disk, entries((1, 0), (2, 500), (3, 700), (4, 700)))
    assert opened(disk, 900, 499).history == history((1, 0), (2, 500), (3, 700), (4, 700))
    assert opened(disk, 900, 500).history == history((2, 500), (3, 700), (4, 700))
    assert opened(disk, 700, 700).history == history((3, 700), (4, 700))
    assert opened(disk, 900, 800).history == history((4, 700))
    store = opened(disk, 500, 500)
    assert store.history == history((2, 500))
    store.begin(5, 600)
    assert in_file(disk) == [(2, 500), (5, 600)]


def test_a_damaged_note_is_no_reason_to_doubt_a_whole_file(disk: SimDisk) -> None:
    store = opened(disk, 0)
    store.begin(1, 0)
    disk.flip_bits(LAYOUT.newest_epoch, 8, 8)
    disk.flip_bits(LAYOUT.newest_epoch, 520, 8)
    assert opened(disk, 10).problem == ""


def test_a_record_begins_where_one_does() -> None:
    disk, group = sim_disk(), small_group()
    store = finish(open_store(disk, LAYOUT, group, is_master=True, owner="n0"))
    first = record(0, b"x" * 100)
    store.log.append(first)
    store.log.append(record(len(first), b"y"))
    end = store.log.written_bytes
    begins = record_begins(LogReader(disk, LAYOUT.commit_log, S), end)
    assert [offset for offset in range(end) if begins(offset)] == [0, len(first)]
    assert not begins(end)
    assert not begins(9 * S)


# ---- dying ----


Change = Callable[[EpochStore], None]
CHANGES: dict[str, tuple[Change, list[tuple[int, int]]]] = {
    "begin": (lambda store: store.begin(5, 900), [(1, 0), (2, 500), (5, 900)]),
    "follow": (
        lambda store: store.follow(history((1, 0), (2, 500), (6, 900)), 900),
        [(1, 0), (2, 500), (6, 900)],
    ),
    "cut": (lambda store: store.cut(400), [(1, 0)]),
    "expire": (lambda store: store.expire(600), [(2, 500)]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("loses_power", [False, True])
def test_dying_at_every_step_of_a_change(
    monkeypatch: pytest.MonkeyPatch, change: str, loses_power: bool
) -> None:
    """The file says what it said or what it shall say, and is never doubted."""
    act, after = CHANGES[change]
    before = [(1, 0), (2, 500)]
    steps, died = 0, True
    while died:
        disk = sim_disk(steps)
        disk.mkdir(ROOT)
        store = opened(disk, 0)
        store.begin(1, 0)
        store.begin(2, 500)
        die_after(monkeypatch, steps)
        try:
            act(store)
            died = False
        except Died:
            died = True
        monkeypatch.undo()
        if loses_power:
            disk.power_loss(random.Random(steps))
        else:
            disk.kill()
        assert in_file(disk) in ([before, after] if died else [after])
        assert opened(disk, 900).problem == ""
        steps += 1
    assert steps > 4


@given(st.data())
def test_a_slave_that_follows_any_master_has_that_master_s_epochs(data: Any) -> None:
    """Through cuts, frames and restarts: each byte is of the master's epoch."""
    starts = data.draw(st.lists(st.integers(0, 90), min_size=1, max_size=5, unique=True))
    starts = [0, *sorted(set(starts) - {0})]
    master = history(*((number, start) for number, start in enumerate(starts, 1)))
    disk = sim_disk()
    disk.mkdir(ROOT)
    end = 0
    for _ in range(data.draw(st.integers(1, 6))):
        store = opened(disk, end)
        found = compare(store.history, end, master, 100)
        assert (found.kind, found.consistent_bytes) == (Kind.FITS, end)
        store.follow(master, end)
        for _ in range(data.draw(st.integers(0, 3))):
            later = [each.start_bytes for each in master if each.start_bytes > end]
            end = data.draw(st.integers(end, min([*later, 100])))
            store.follow(master, end)
        held = tuple(each for each in master if each.start_bytes <= end)
        assert store.history == held
        if data.draw(st.booleans()):
            disk.power_loss(random.Random(1))
