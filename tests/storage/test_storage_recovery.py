"""Recovery on real files: where the log ends, what may be cut, what refuses the start."""

import os
import pathlib
import struct

import pytest
from storage_kit import GOLDEN, GOLDEN_SEGMENT, fill, finish, golden_copy, new_log, record

from actors.env.local_disk import LocalDisk
from actors.errors import CorruptLog
from actors.storage.commitlog import recovery
from actors.storage.log.commit_log import CommitLog
from actors.storage.log.digests import RANGE_BYTES
from wire.files.commit_log import Checkpoint, encode_blank

pytestmark = pytest.mark.real_io
S = 4096
DISK = LocalDisk()


def find(log: CommitLog, mark: int | None = None, **options: object) -> recovery.ScanResult:
    return finish(
        recovery.find_end(DISK, log, start_bytes=log.min_bytes, mark_bytes=mark, **options)  # type: ignore[arg-type]
    )


def reloaded(folder: pathlib.Path) -> CommitLog:
    return new_log(folder)


def poke(log: CommitLog, offset: int, data: bytes) -> None:
    path = pathlib.Path(log.path_of(offset))
    raw = bytearray(path.read_bytes())
    at = offset % log.segment_bytes
    raw[at : at + len(data)] = data
    path.write_bytes(raw)


@pytest.mark.checklist(45)
def test_the_end_is_behind_the_last_good_record(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    records = fill(log, [b"x" * 700] * 20)
    found = find(reloaded(tmp_path))
    assert found.end_bytes == log.written_bytes
    assert (found.record_count, found.reason) == (20, "")
    assert found.last_store_ts == 1_700_000_000_000
    assert records[-1][0] > 3 * S


@pytest.mark.parametrize("file_bytes", [0, 700, 3000])
def test_a_file_that_became_too_short_is_damage_and_no_endless_scan(
    tmp_path: pathlib.Path, file_bytes: int
) -> None:
    """A start looks at the sizes before; this is for whoever cuts a file in between."""
    log = new_log(tmp_path)
    fill(log, [b"x" * 600] * 12)
    path = log.path_of(S)
    os.truncate(path, file_bytes)
    with pytest.raises(CorruptLog, match=f"{path}: {file_bytes} bytes, expected {S}"):
        find(log)


@pytest.mark.checklist(39)
@pytest.mark.parametrize(
    ("version", "node", "end"),
    [
        ("5.3.3", "master", 243560),
        ("5.3.3", "slave", 243560),
        ("5.3.3", "late", 243560),
        ("4.9.7", "master", None),
    ],
)
def test_golden_logs_are_read_to_their_end(version: str, node: str, end: int | None) -> None:
    log = CommitLog.load(DISK, f"{GOLDEN}/{version}/{node}/commitlog", GOLDEN_SEGMENT)
    found = find(log)
    assert found.record_count >= 10
    assert found.reason == ""
    assert end is None or found.end_bytes == end


def test_reading_in_small_pieces_finds_the_same(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = golden_copy("5.3.3", "master", tmp_path) / "commitlog"
    log = CommitLog.load(DISK, str(folder), GOLDEN_SEGMENT)
    whole = find(log)
    for size in (96, 1000, 40_000):
        monkeypatch.setattr(recovery, "READ_BYTES", size)
        assert find(log) == whole


DAMAGE = {
    "torn": lambda at, size: (at + size - 40, bytes(40)),
    "crc": lambda at, size: (at + 90, b"\xff"),
    "length": lambda at, size: (at, struct.pack(">i", size + 1)),
    "zero page": lambda at, size: (at, bytes(size)),
    "magic": lambda at, size: (at + 4, b"\0"),
    "place": lambda at, size: (at + 28, struct.pack(">q", at + S)),
}


@pytest.mark.checklist(44)
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("which", [0, 4, 7, 19])
def test_damage_above_the_mark_cuts_below_it_refuses(
    tmp_path: pathlib.Path, kind: str, which: int
) -> None:
    log = new_log(tmp_path)
    at, size = fill(log, [b"x" * 700] * 20)[which]
    end = log.written_bytes
    log.close(remove_spare=False)
    poke(log, *DAMAGE[kind](at, size))
    log = reloaded(tmp_path)
    for mark in (None, 0, at):
        found = find(log, mark)
        assert found.end_bytes in (at, at - at % S)
        assert (found.record_count, bool(found.reason)) == (which, kind != "zero page")
    for mark in (at + size, end):
        with pytest.raises(CorruptLog, match=rf"{at - at % S:020d}: byte {at % S} \(offset {at}\)"):
            find(log, mark)
        assert find(log, mark, compat=True).end_bytes == at
    if kind in ("zero page", "magic", "place"):
        with pytest.raises(CorruptLog):
            find(log, at + size - 1)


def test_crc_check_can_be_switched_off(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    records = fill(log, [b"x" * 700] * 3)
    poke(log, records[1][0] + 90, b"\xff")
    assert find(log).record_count == 1
    assert find(log, check_crc=False).record_count == 3


def test_a_missing_last_file_below_the_mark_refuses(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    fill(log, [b"x" * 700] * 20)
    end = log.written_bytes
    log.close(remove_spare=True)
    pathlib.Path(log.path_of(end)).unlink()
    log = reloaded(tmp_path)
    with pytest.raises(CorruptLog, match=f"all below {end} was synced once"):
        find(log, end)


@pytest.mark.checklist(25, 45)
@pytest.mark.parametrize("topic", ["topic", "v" * 200])
def test_a_slave_cut_in_mid_message_is_cut_to_the_message(
    tmp_path: pathlib.Path, topic: str
) -> None:
    """A slave's mark may lie inside a record: the beginning is no damage.

    Cut at every byte: also in topic and properties, which no CRC covers.
    """
    log = new_log(tmp_path)
    fill(log, [b"x" * 700] * 2)
    end = log.written_bytes
    whole = record(end, b"y" * 30, topic=topic, properties={"TAGS": "a", "KEYS": "k" * 300})
    for have in range(len(whole)):
        log.append(whole[have : have + 1])
        expected = end if have + 1 < len(whole) else end + len(whole)
        for mark in (None, 0, end, end + have + 1):
            assert find(log, mark).end_bytes == expected


def test_a_lost_page_in_the_properties_is_seen(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    first, second = fill(log, [b"x", b"y"], properties={"KEYS": "k" * 900})
    end = log.written_bytes
    poke(log, first[0] + 500, bytes(100))
    assert find(log, 0).end_bytes == 0
    assert find(log, first[1]).end_bytes == end  # below the mark upstream's check has to do
    assert find(log).end_bytes == end
    poke(log, second[0] + 500, bytes(100))
    found = find(log)
    assert (found.end_bytes, found.record_count, found.reason) == (second[0], 1, recovery.TORN)


@pytest.mark.checklist(45)
def test_a_blank_at_the_end(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    fill(log, [b"x" * 700] * 4)
    at = log.written_bytes
    log.roll()
    log.close(remove_spare=False)
    log = reloaded(tmp_path)
    assert log.bases() == (0, S)
    assert find(log).end_bytes == S  # a next file exists, no mark: as upstream
    assert find(log, S).end_bytes == S  # all of the filler was synced
    for mark in (0, at, at + 8, S - 1):  # part of it may never have been received
        assert find(log, mark).end_bytes == at
    log.set_end(at)
    log.close(remove_spare=True)
    log = reloaded(tmp_path)
    assert find(log).end_bytes == at  # upstream: it will be sent again
    assert find(log, S).end_bytes == S


@pytest.mark.checklist(45)
@pytest.mark.parametrize("rest", [8, 11, 15, 16])
def test_a_slave_cut_in_mid_filler_starts(tmp_path: pathlib.Path, rest: int) -> None:
    """Also where the filler is too small for anything but its own head."""
    log = new_log(tmp_path)
    log.append(record(0, b"x" * (S - rest - len(record(0, b"")))))
    assert log.written_bytes == S - rest
    for at, byte in enumerate(encode_blank(rest)[:7], S - rest):
        log.append(bytes([byte]))
        assert find(log, at + 1).end_bytes == S - rest


@pytest.mark.checklist(45)
def test_only_a_blank(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.append_raw(0, encode_blank(S) + bytes(S - 8))
    log.close(remove_spare=True)
    log = reloaded(tmp_path)
    assert find(log).end_bytes == 0
    assert find(log, S).end_bytes == S
    assert find(log, S - 1).end_bytes == 0


def test_a_blank_before_a_bad_record_keeps_its_own_rule(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    fill(log, [b"x" * 700] * 4)
    at = log.written_bytes
    log.roll()
    log.append(b"junk that is no record")
    assert find(reloaded(tmp_path), S).end_bytes == S
    assert find(reloaded(tmp_path), at).end_bytes == at
    with pytest.raises(CorruptLog):
        find(reloaded(tmp_path), S + 10)


@pytest.mark.checklist(45)
def test_a_log_that_ends_exactly_at_a_file_end(tmp_path: pathlib.Path) -> None:
    """No BLANK is needed when bytes received fill the file to its end."""
    log = new_log(tmp_path)
    empty = len(record(0, b""))
    log.append(record(0, b"x" * (S - empty)))
    assert log.written_bytes == S
    assert find(reloaded(tmp_path)).end_bytes == S
    log.append(record(S, b"y"))
    found = find(reloaded(tmp_path))
    assert (found.end_bytes, found.record_count) == (S + empty + 1, 2)


@pytest.mark.checklist(45)
def test_precreated_empty_files(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    log.reserve(1)
    assert find(reloaded(tmp_path)).end_bytes == 0
    fill(log, [b"x"])
    found = find(reloaded(tmp_path))
    assert (found.end_bytes, found.reason) == (log.written_bytes, "")


@pytest.mark.parametrize("blank", [S - 900, S + 1, 2 * S])
def test_a_blank_of_the_wrong_length_ends_the_log(tmp_path: pathlib.Path, blank: int) -> None:
    log = new_log(tmp_path)
    fill(log, [b"x" * 700])
    end = log.written_bytes
    log.append(encode_blank(blank))
    found = find(reloaded(tmp_path))
    assert found.end_bytes == end
    assert "BLANK" in found.reason
    with pytest.raises(CorruptLog):
        find(reloaded(tmp_path), end + 8)


def test_a_record_over_the_files_end_ends_the_log(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    end = fill(log, [b"x" * 700])[0][1]
    log.append(record(end, b"y" * 4000))
    found = find(reloaded(tmp_path))
    assert (found.end_bytes, found.reason) == (
        end,
        "a record that reaches over the end of its file",
    )


def test_where_the_scan_begins(tmp_path: pathlib.Path) -> None:
    log = new_log(tmp_path)
    second = 1_700_000_000_000
    for number in range(12):
        fill(log, [b"x" * 1500], ts=second + 10_000 * number)  # two records per file
    log = reloaded(tmp_path)
    last_ts = second + 110_000

    def first(**changes: object) -> int:
        options: dict[str, object] = {
            "clean": True,
            "dispatched_bytes": log.written_bytes,
            "mark_bytes": None,
            "checkpoint": Checkpoint(log_ts=last_ts, queue_ts=last_ts),
        }
        return recovery.first_file(DISK, log, **(options | changes)) // S  # type: ignore[arg-type]

    spare = len(log.bases()) - 1
    assert first() == spare
    assert first(dispatched_bytes=2 * S + 5) == 2
    assert first(dispatched_bytes=2 * S - 1) == 1
    assert first(dispatched_bytes=-1) == 0
    assert first(mark_bytes=3 * S) == 3
    assert first(mark_bytes=0) == 0
    assert first(clean=False) == 5  # its first record is 13 s older than the checkpoint
    assert first(clean=False, mark_bytes=4 * S) == 4
    for at, expected in ((second + 43_000, 2), (second + 42_999, 1), (second + 2_999, 0), (0, 0)):
        assert first(clean=False, checkpoint=Checkpoint(log_ts=at, queue_ts=last_ts)) == expected
        assert first(clean=False, checkpoint=Checkpoint(log_ts=last_ts, queue_ts=at)) == expected


@pytest.mark.parametrize("read_bytes", [3 << 10, 40 << 10, 1 << 20])
def test_it_says_where_a_record_begins_below_the_last_range(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    """Not far below: what lies there is parsed whenever somebody doubts the log's end."""
    monkeypatch.setattr(recovery, "READ_BYTES", read_bytes)
    size = 5 * RANGE_BYTES
    for count in range(1, 100, 7):
        folder = tmp_path / str(count)
        log = new_log(folder, size)
        records = fill(log, [b"x" * 5000] * count)
        found = find(new_log(folder, size))
        begins, end = found.begins_bytes, found.end_bytes
        last = end - end % size % RANGE_BYTES
        assert begins <= last
        assert begins in [at for at, _ in records] or begins % size == 0 or begins == end
        assert begins % size == 0 or last - begins < RANGE_BYTES + read_bytes
        assert begins >= end - end % size


@pytest.mark.parametrize("torn", [True, False])
@pytest.mark.parametrize("read_bytes", [3 << 10, 40 << 10])
def test_it_says_so_where_the_end_is_moved_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int, torn: bool
) -> None:
    """In front of the last record, whose topic is not there, or of a filler that nothing follows:
    what was read last lies behind the end then.
    """
    monkeypatch.setattr(recovery, "READ_BYTES", read_bytes)
    size = 20 * RANGE_BYTES
    for count in range(10, 40, 3):
        folder = tmp_path / str(count)
        log = new_log(folder, size)
        records = fill(log, [b"x" * 20_000] * count)
        end, mark = log.written_bytes, None
        if torn:
            end, length = records[-1]
            poke(log, end + length - 3, b"\0")
        else:
            mark = end
            log.roll()
        found = find(new_log(folder, size), mark)
        assert found.end_bytes == end
        last = end - end % RANGE_BYTES
        assert max(0, last - RANGE_BYTES - read_bytes - 20_100) <= found.begins_bytes <= last
