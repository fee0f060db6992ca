"""CommitLog, truncation and LogReader on real files."""

import errno
import pathlib

import pytest
from storage_kit import fill, finish, log_bytes, new_log, record

from actors.env.local_disk import LocalDisk, LocalFile
from actors.errors import ConfigError, CorruptLog
from actors.storage.files.room import NoRoom
from actors.storage.files.side_file import SideFile
from actors.storage.layout import StoreLayout
from actors.storage.log import truncation
from actors.storage.log.commit_log import OffsetMismatch
from actors.storage.log.log_reader import HANDLES_MAX, LogReader, OffsetGone

pytestmark = pytest.mark.real_io
S = 4096


def names(folder: pathlib.Path) -> list[int]:
    return [int(path.name) for path in sorted((folder / "commitlog").iterdir())]


@pytest.mark.checklist(37)
def test_files_have_exact_size_and_a_spare_follows(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    assert log.is_empty
    assert names(tmp_path) == []
    log.append(b"x" * 10)
    assert names(tmp_path) == [0, S]
    assert all(p.stat().st_size == S for p in (tmp_path / "commitlog").iterdir())
    log.append(b"y" * S)  # goes on in the next file, which brings the next spare
    assert names(tmp_path) == [0, S, 2 * S]
    assert log_bytes(tmp_path / "commitlog")[: S + 10] == b"x" * 10 + b"y" * S
    assert log.take_dirty() == (f"{log.folder}/{0:020d}", f"{log.folder}/{S:020d}")
    assert log.take_dirty() == ()
    log.close(remove_spare=True)
    assert names(tmp_path) == [0, S]


@pytest.mark.checklist(37, 38)
@pytest.mark.parametrize(("short_by", "rolls"), [(8, False), (7, True), (0, True)])
def test_a_record_needs_8_more_bytes(tmp_path: pathlib.Path, short_by: int, rolls: bool) -> None:
    empty = len(record(0, b""))
    log = new_log(tmp_path)
    fill(log, [b"b" * 1000, b"c" * (S - 1000 - 2 * empty - short_by)])
    raw = log_bytes(tmp_path / "commitlog")
    blank_at = empty + 1000
    if not rolls:
        assert log.written_bytes == S - 8
        return
    assert raw[blank_at : blank_at + 8] == (S - blank_at).to_bytes(4, "big") + b"\xcb\xd4\x31\x94"
    assert not any(raw[blank_at + 8 : S])


def test_roll_leaves_the_log_at_the_file_end(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    fill(log, [b"a"])
    log.roll()
    assert log.written_bytes == S
    log.append(b"z")
    assert log_bytes(tmp_path / "commitlog")[S : S + 1] == b"z"


@pytest.mark.checklist(17)
def test_an_empty_log_begins_at_any_file_boundary(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    with pytest.raises(OffsetMismatch, match="no multiple of its file size"):
        log.append_raw(S + 1, b"abc")
    with pytest.raises(OffsetMismatch):
        log.append_raw(-S, b"abc")
    assert names(tmp_path) == []
    log.append_raw(3 * S, b"abc")
    assert names(tmp_path) == [3 * S, 4 * S]
    assert (log.min_bytes, log.written_bytes) == (3 * S, 3 * S + 3)


@pytest.mark.checklist(16, 17)
def test_only_the_continuation_is_taken(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append_raw(0, b"abc")
    for offset in (0, 2, 4, S):
        with pytest.raises(OffsetMismatch, match=f"expected 3, offered {offset}"):
            log.append_raw(offset, b"d")
    log.append_raw(3, b"d" * (2 * S))
    assert log.written_bytes == 3 + 2 * S


def test_an_empty_log_with_its_first_file_may_still_move(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.reserve(1)
    log.set_end(0)
    log.append_raw(2 * S, b"abc")
    assert names(tmp_path) == [2 * S, 3 * S]


def test_load_deletes_an_empty_last_file(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append(b"x")
    log.close(remove_spare=True)
    (tmp_path / f"commitlog/{S:020d}").touch()
    (tmp_path / "commitlog/notes.txt").touch()  # not a segment: left alone
    assert new_log(tmp_path).bases() == (0,)
    assert (tmp_path / "commitlog/notes.txt").exists()


@pytest.mark.checklist(39)
def test_load_refuses_what_does_not_fit(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append(b"x" * 3 * S)
    log.close(remove_spare=False)
    with pytest.raises(ConfigError, match=r"segment_bytes: expected 4096.* found 8192"):
        new_log(tmp_path, 2 * S)
    middle = tmp_path / f"commitlog/{S:020d}"
    middle.rename(tmp_path / "away")
    with pytest.raises(CorruptLog, match=f"{S:020d}: the file is missing"):
        new_log(tmp_path)
    (tmp_path / "away").rename(middle)
    with middle.open("ab") as file:
        file.write(b"!")
    with pytest.raises(CorruptLog, match="expected 4096 bytes, found 4097"):
        new_log(tmp_path)
    middle.unlink()
    middle.touch()  # empty, but not the last one
    with pytest.raises(CorruptLog, match="found 0"):
        new_log(tmp_path)
    for name in ("0".zfill(20), str(2 * S).zfill(20)):
        (tmp_path / "commitlog" / name).write_bytes(b"")
    with pytest.raises(CorruptLog, match="expected 4096 bytes, found 0"):  # no size that was meant
        new_log(tmp_path)


@pytest.mark.parametrize("base", [0, S, 2 * S])
def test_load_refuses_a_folder_in_a_file_s_place(tmp_path: pathlib.Path, base: int) -> None:
    log = new_log(tmp_path)
    log.append(b"x" * 2 * S)
    log.close(remove_spare=False)
    path = tmp_path / f"commitlog/{base:020d}"
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError) as refused:
        new_log(tmp_path)
    assert refused.value.problems == (f"{path}: expected a file, found a folder",)


def test_load_refuses_a_name_off_the_grid(tmp_path: pathlib.Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / f"commitlog/{5:020d}").write_bytes(bytes(S))
    with pytest.raises(CorruptLog, match="no multiple of 4096"):
        new_log(tmp_path)


@pytest.mark.checklist(46)
def test_the_oldest_file_goes_first_and_the_last_stays(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append(b"x" * (2 * S + 1))
    assert log.delete_first() == S
    assert log.delete_first() == 2 * S
    assert log.min_bytes == 2 * S
    assert log.take_dirty() == (f"{log.folder}/{2 * S:020d}",)
    with pytest.raises(AssertionError):
        log.delete_first()  # only the file being written and its spare are left


def test_closing_keeps_the_only_trace_of_where_the_log_goes_on(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append(b"x" * S)
    log.append(b"")
    log.close(remove_spare=True)
    assert names(tmp_path) == [0]
    log = new_log(tmp_path / "b")
    log.append(b"x" * S + b"y")
    log.delete_first()
    log.set_end(S)
    log.close(remove_spare=True)
    assert names(tmp_path / "b") == [S]


def test_a_full_disk_is_found_before_anything_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path)
    log.append(b"x")

    def full(self: LocalFile, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", self.path)

    monkeypatch.setattr(LocalFile, "prepare", full)
    with pytest.raises(OSError, match="No space left"):
        log.append(b"y" * 2 * S)
    assert log.written_bytes == 1
    assert log_bytes(tmp_path / "commitlog")[:2] == b"x\0"
    monkeypatch.undo()
    log.append(b"y" * 2 * S)
    assert log.written_bytes == 1 + 2 * S


def test_a_file_that_cannot_be_sized_is_not_left_behind(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LocalFile, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", self.path)

    log = new_log(tmp_path)
    monkeypatch.setattr(LocalFile, "resize", full)
    with pytest.raises(OSError, match="No space left"):
        log.append(b"x")
    assert names(tmp_path) == []
    monkeypatch.undo()
    log.append(b"x")
    assert names(tmp_path) == [0, S]


@pytest.mark.parametrize("part", ["resize", "prepare"])
def test_an_empty_log_without_room_for_its_first_bytes_stays_empty(
    part: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that it ended where they belong: its slave waited for ever for a sync up to there."""

    def full(self: LocalFile, *sizes: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", self.path)

    log = new_log(tmp_path)
    monkeypatch.setattr(LocalFile, part, full)
    with pytest.raises(NoRoom):
        log.append_raw(3 * S, b"x")
    assert (log.is_empty, log.written_bytes, log.take_dirty()) == (True, 0, ())
    assert names(tmp_path) == []
    monkeypatch.undo()
    log.append_raw(3 * S, b"x")
    assert (log.min_bytes, log.written_bytes) == (3 * S, 3 * S + 1)


@pytest.mark.parametrize("end", [0, 1, S - 1, S, S + 5, 2 * S, 2 * S + 3])
def test_truncation_keeps_aside_zeroes_and_can_go_on(tmp_path: pathlib.Path, end: int) -> None:
    disk, layout = LocalDisk(), StoreLayout(str(tmp_path))
    log = new_log(tmp_path)
    data = bytes(i % 251 + 1 for i in range(2 * S + 3))
    log.append(data)
    assert finish(truncation.has_bytes_behind(disk, log, end)) == (end < len(data))
    assert finish(truncation.keep_aside(disk, layout, log, end)) == len(data) - end
    truncation.truncate(disk, layout, log, end)
    assert log.written_bytes == end
    assert not finish(truncation.has_bytes_behind(disk, log, end))
    raw = log_bytes(tmp_path / "commitlog")
    assert raw[:end] == data[:end]
    assert not any(raw[end:])
    kept = sorted((tmp_path / "cut").iterdir()) if end < len(data) else []
    assert b"".join(path.read_bytes() for path in kept) == data[end:]
    assert all(path.name.endswith(".1") for path in kept)
    log.append(b"again")
    log.close(remove_spare=True)
    assert log_bytes(tmp_path / "commitlog")[: end + 5] == data[:end] + b"again"


def test_what_is_cut_twice_at_one_place_is_kept_twice(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, layout = LocalDisk(), StoreLayout(str(tmp_path))
    monkeypatch.setattr(truncation, "CUT_FILES_MAX", 3)
    log = new_log(tmp_path)
    for number in range(5):
        log.append(b"%d" % number)
        finish(truncation.keep_aside(disk, layout, log, 0))
        truncation.truncate(disk, layout, log, 0)
    kept = {path.read_bytes() for path in (tmp_path / "cut").iterdir()}
    assert len(kept) == 3
    assert b"4" in kept


@pytest.mark.parametrize("step", range(8))
def test_an_interrupted_truncation_is_finished_at_load(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Die at every call that changes the disk; the next start ends what was begun."""
    disk, layout = LocalDisk(), StoreLayout(str(tmp_path))
    log = new_log(tmp_path)
    log.append(b"x" * (3 * S))
    calls = 0

    class Died(Exception):
        pass

    def dying(name: str) -> None:
        for kind in (LocalDisk, LocalFile):
            real = getattr(kind, name, None)
            if real is None:
                continue

            def wrapped(*args: object, real: object = real) -> object:
                nonlocal calls
                calls += 1
                if calls > step:
                    raise Died
                return real(*args)  # type: ignore[operator]

            monkeypatch.setattr(kind, name, wrapped)

    SideFile.open(disk, layout.truncating, 2)[0].write((-1, 0))
    for name in ("unlink", "resize", "pwrite"):
        dying(name)
    try:
        truncation.truncate(disk, layout, log, S + 7)
        died = False
    except Died:
        died = True
    monkeypatch.undo()
    finished = truncation.finish_interrupted(disk, layout)
    assert finished == (S + 7 if died and step > 0 else None)
    assert truncation.finish_interrupted(disk, layout) is None
    again = new_log(tmp_path)
    expected = b"x" * (3 * S if died and step == 0 else S + 7)
    assert log_bytes(tmp_path / "commitlog").rstrip(b"\0") == expected
    assert again.bases()[0] == 0


def test_a_reader_has_its_own_bounded_handles(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append(bytes(i % 256 for i in range((HANDLES_MAX + 3) * S)))
    reader = LogReader(LocalDisk(), log.folder, S)
    assert reader.read(S - 2, 100, log.written_bytes) == bytes([254, 255])  # never across files
    assert reader.read(5, 10, 7) == bytes([5, 6])
    assert reader.read(5, 10, 5) == b""
    assert reader.read(5, 0, 9) == b""
    for base in range(0, log.written_bytes, S):
        assert reader.read(base, 1, log.written_bytes) == b"\0"
    assert len(reader._handles) == HANDLES_MAX
    log.delete_first()
    with pytest.raises(OffsetGone, match="offset 3 "):
        reader.read(3, 1, log.written_bytes)
    reader.drop_below(9 * S)
    assert min(reader._handles) == 9 * S
    reader.close()
    assert not reader._handles


@pytest.mark.checklist(46)
def test_a_reader_of_a_deleted_file_ends_cleanly(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append(b"x" * S + b"y")
    reader = LogReader(LocalDisk(), log.folder, S)
    assert reader.read(0, 1, S) == b"x"
    log.delete_first()
    assert reader.read(1, 10, S) == b"x" * 10  # the open handle keeps the bytes
    reader.drop_below(log.min_bytes)
    with pytest.raises(OffsetGone):
        reader.read(1, 10, S)
