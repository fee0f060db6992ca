"""A batch of a log: all that is whole, once, and one row for each thing that is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources_kit import (
    GOLDEN,
    SEGMENT,
    LedgerWriter,
    LogWriter,
    damage_in,
    entries,
    messages,
    options_of,
)

from actors.pipeline.errors import SourceError
from actors.pipeline.sources import stretches as stretches_module
from actors.pipeline.sources.formats import COMMIT_LOG
from actors.pipeline.sources.log_files import LogFolder, logs_at
from actors.pipeline.sources.plan import batch_parts
from actors.pipeline.sources.rows import batches
from actors.pipeline.sources.stretches import Reading
from wire.files.commit_log import encode_blank

BODIES = [b"%03d" % number * (number % 90 + 1) for number in range(100)]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Some 7 files of a log, the last half written."""
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES)
    assert 5 < len(list(writer.folder.iterdir())) < 12
    return writer


@pytest.mark.parametrize("partition_bytes", [1, 700, 1 << 30])
@pytest.mark.parametrize("chunk_bytes", [300, 4 << 20])
def test_all_is_read_once_however_it_is_cut(
    log: LogWriter, partition_bytes: int, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading.__init__, "__defaults__", (chunk_bytes,))
    rows = messages(log.folder.parent, partition_bytes=partition_bytes)
    assert [row["body"] for row in rows] == BODIES
    assert [row["offset"] for row in rows] == log.offsets
    assert {row["node"] for row in rows} == {"n0"}
    assert damage_in(rows) == []


def test_a_partition_is_part_of_a_file_where_files_are_few(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "n0")
    log.append(BODIES[:55])
    assert len(list(log.folder.iterdir())) == 3
    options = options_of(COMMIT_LOG, path=log.folder.parent, partition_bytes=1000)
    (one,) = logs_at(options.paths, "commitlog")
    parts = batch_parts(one, options, Reading(COMMIT_LOG, True, 1 << 20))
    sizes = [part.end - part.begin for part in parts]
    assert len(parts) > 8
    assert max(sizes) < 2000


@pytest.mark.parametrize(("files", "task_bytes"), [(20, 500), (3, 600)])
def test_a_log_of_many_files_or_of_small_ones_is_walked_only_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, task_bytes: int
) -> None:
    writer = LogWriter(tmp_path / "n0", segment=600)
    writer.append([b"x" * 300] * files)
    opened = []
    real = LogFolder.open
    monkeypatch.setattr(
        LogFolder, "open", lambda self, each: (opened.append(each.start), real(self, each))[1]
    )
    options = options_of(COMMIT_LOG, path=tmp_path / "n0", partition_bytes=task_bytes)
    (one,) = logs_at(options.paths, "commitlog")
    batch_parts(one, options, Reading(COMMIT_LOG, True, 1 << 20))
    assert set(opened) == {(files - 1) * 600}


def test_spare_files_and_zeros_are_nothing(log: LogWriter) -> None:
    last = max(int(path.name) for path in log.folder.iterdir())
    log.put(last + SEGMENT, bytes(8))
    log.put(last + 2 * SEGMENT, bytes(8))
    assert damage_in(messages(log.folder.parent)) == []


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "n0" / "commitlog").mkdir(parents=True)
    assert messages(tmp_path / "n0") == []
    writer = LogWriter(tmp_path / "n1")
    writer.put(0, bytes(8))
    assert messages(tmp_path / "n1") == []


@pytest.mark.parametrize("written", [4, 7, 8, 40, 120])
def test_a_half_written_record_is_not_read_and_is_named(log: LogWriter, written: int) -> None:
    data = log.record(b"late" * 20, 5)
    log.put(log.end, data[:written])
    rows = messages(log.folder.parent)
    assert [row["body"] for row in rows if not row["damage"]] == BODIES
    ((offset, size, text),) = damage_in(rows)
    assert (offset, size) == (log.end, None)
    assert text.startswith("the log ends here: ")


def test_the_last_record_is_left_out_while_its_crc_is_wrong(log: LogWriter) -> None:
    data = bytearray(log.record(b"late" * 20, 5))
    data[100] ^= 1
    log.put(log.end, bytes(data))
    ((offset, _, text),) = damage_in(messages(log.folder.parent))
    assert (offset, "CRC of the last record" in text) == (log.end, True)
    assert damage_in(messages(log.folder.parent, crc="false")) == []
    log.put(log.end, data[:99] + bytes(len(data) - 99))
    assert len(damage_in(messages(log.folder.parent, crc="false"))) == 1


def test_a_wrong_crc_is_a_row_of_its_own(log: LogWriter) -> None:
    at = log.offsets[20]
    log.put(at + 89, b"!")
    rows = messages(log.folder.parent)
    assert len(rows) == len(BODIES)
    assert [(row["offset"], row["damage"]) for row in rows if row["damage"]] == [
        (at, "body CRC is wrong")
    ]
    assert rows[20]["topic"] == "orders"
    assert damage_in(messages(log.folder.parent, crc="false")) == []
    with pytest.raises(SourceError, match=f"n0: damage at offset {at}: body CRC is wrong"):
        messages(log.folder.parent, damage="fail")


@pytest.mark.parametrize("partition_bytes", [1, 1 << 30])
def test_bytes_that_are_no_record_are_one_row_and_reading_goes_on(
    log: LogWriter, partition_bytes: int
) -> None:
    at, good = log.offsets[20], log.offsets[22]
    log.put(at, b"\xff\xff")
    log.put(log.offsets[21] + 4, b"nope")
    rows = messages(log.folder.parent, partition_bytes=partition_bytes)
    assert [row["body"] for row in rows if not row["damage"]] == BODIES[:20] + BODIES[22:]
    ((offset, size, text),) = damage_in(rows)
    assert (offset, size) == (at, good - at)
    assert "size" in text
    with pytest.raises(SourceError, match=f"n0: damage at offset {at}"):
        messages(log.folder.parent, damage="fail")


def test_zeros_before_the_last_file_are_damage(log: LogWriter) -> None:
    log.put(log.offsets[3], bytes(SEGMENT - log.offsets[3]))
    rows = messages(log.folder.parent)
    ((offset, size, text),) = damage_in(rows)
    assert (offset, size, text) == (
        log.offsets[3], SEGMENT - log.offsets[3], "nothing was written here",
    )  # fmt: skip
    read = [row["offset"] for row in rows if not row["damage"]]
    assert read == log.offsets[:3] + [each for each in log.offsets if each >= SEGMENT]


def test_a_broken_end_says_whether_records_lie_behind_it(log: LogWriter) -> None:
    last = [each for each in log.offsets if each >= log.end // SEGMENT * SEGMENT]
    log.put(last[1], b"\xff\xff")
    rows = messages(log.folder.parent)
    ((offset, _, text),) = damage_in(rows)
    assert offset == last[1]
    assert f"a whole record lies behind it at {last[2]}" in text
    assert [row["offset"] for row in rows if not row["damage"]] == [
        each for each in log.offsets if each < last[1]
    ]


def test_a_bodys_own_record_image_is_no_record(tmp_path: Path) -> None:
    """A body may hold the image of a record, which even names the position where it lies."""
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"a"])
    inner = LogWriter(tmp_path / "other", start=writer.end + 88)
    writer.append([inner.record(b"planted", 5), b"b", b"c"])
    rows = messages(tmp_path / "n0", partition_bytes=1)
    assert [row["offset"] for row in rows] == writer.offsets


def test_a_missing_file_and_expired_ones(log: LogWriter) -> None:
    (log.folder / f"{2 * SEGMENT:020d}").unlink()
    rows = messages(log.folder.parent)
    assert damage_in(rows) == [(2 * SEGMENT, SEGMENT, "a file is missing here")]
    (log.folder / f"{0:020d}").unlink()
    (log.folder / f"{SEGMENT:020d}").unlink()
    rows = messages(log.folder.parent)
    assert damage_in(rows) == []
    assert rows[0]["offset"] == 3 * SEGMENT
    rows = messages(log.folder.parent, from_=100)
    assert damage_in(rows) == [(100, 3 * SEGMENT - 100, "expired: deleted before it was read")]


@pytest.mark.parametrize(
    "damage", ["gone", "short"], ids=["a file that is deleted", "a file that is cut"]
)
def test_a_file_lost_between_planning_and_reading(log: LogWriter, damage: str) -> None:
    options = options_of(COMMIT_LOG, path=log.folder.parent)
    reading = Reading(COMMIT_LOG, True, 1 << 20)
    (one,) = logs_at(options.paths, "commitlog")
    parts = batch_parts(one, options, reading)
    path = log.folder / f"{SEGMENT:020d}"
    inside = [each for each in log.offsets if SEGMENT <= each < 2 * SEGMENT]
    if damage == "gone":
        path.unlink()
        wanted = (SEGMENT, SEGMENT, "the file is gone")
    else:
        path.write_bytes(path.read_bytes()[: inside[2] + 5 - SEGMENT])
        rest = 2 * SEGMENT - inside[2]
        wanted = (inside[2], rest, f"the file ends {rest:,} bytes too early")
    rows = [row for batch in batches(COMMIT_LOG, options, parts) for row in batch.to_pylist()]
    assert damage_in(rows) == [wanted]
    lost = inside if damage == "gone" else inside[2:]
    assert [row["offset"] for row in rows if not row["damage"]] == [
        each for each in log.offsets if each not in lost
    ]


def test_records_above_a_read_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stretches_module.CHUNK_BYTES == 4 << 20
    monkeypatch.setattr(Reading.__init__, "__defaults__", (128,))
    writer = LogWriter(tmp_path / "n0")
    bodies = [b"x" * 3000, b"y", b"z" * 2000]
    writer.append(bodies)
    assert [row["body"] for row in messages(tmp_path / "n0")] == bodies


def test_from_an_offset(log: LogWriter) -> None:
    rows = messages(log.folder.parent, from_=log.offsets[30])
    assert [row["offset"] for row in rows] == log.offsets[30:]
    assert messages(log.folder.parent, from_=log.end) == []
    for wrong, text in (
        (log.offsets[30] + 1, "no record of n0 begins at"),
        (log.end + 1, f"n0 ends at {log.end}"),
        ("latest", "latest is for streams"),
    ):
        with pytest.raises(SourceError, match=text):
            messages(log.folder.parent, from_=wrong)


@settings(max_examples=40)
@given(at=st.integers(0, 2 * SEGMENT - 1), length=st.integers(1, 300), byte=st.integers(0, 255))
def test_whatever_is_broken_nothing_else_is_lost(
    tmp_path_factory: pytest.TempPathFactory, at: int, length: int, byte: int
) -> None:
    """Records that no broken byte touches are read, once; what was touched is named."""
    writer = LogWriter(tmp_path_factory.mktemp("log") / "n0")
    writer.append(BODIES[:60])
    whole = messages(writer.folder.parent)
    assert writer.end > 2 * SEGMENT
    length = min(length, SEGMENT - at % SEGMENT)
    writer.put(at, bytes([byte]) * length)
    rows = messages(writer.folder.parent, partition_bytes=500)
    touched = {
        row["offset"] for row in whole
        if row["offset"] < at + length and at < row["offset"] + row["size"]
    }  # fmt: skip
    good = [row for row in rows if not row["damage"] and row["offset"] not in touched]
    assert good == [row for row in whole if row["offset"] not in touched]
    assert len({row["offset"] for row in rows}) == len(rows)


@pytest.mark.parametrize("node", ["4.9.7/master", "5.3.3/master", "5.3.3/slave", "5.3.3/late"])
def test_rocketmqs_own_stores(node: str) -> None:
    rows = messages(GOLDEN / "classic" / node)
    assert rows
    assert damage_in(rows) == []
    assert rows[-1]["offset"] + rows[-1]["size"] < 262144


def test_replicas_of_rocketmq_are_equal() -> None:
    names = "offset,record_crc"
    master = messages(GOLDEN / "classic/5.3.3/master", columns=f"{names},damage")
    slave = messages(GOLDEN / "classic/5.3.3/slave", columns=f"{names},damage")
    assert master == slave
    assert len(master) > 20


@pytest.mark.parametrize("store", ["store-n0", "store-n1", "store-n2", "store-divergent"])
def test_dledgers_own_stores(store: str) -> None:
    rows = entries(GOLDEN / "dledger" / store)
    assert damage_in(rows) == []
    assert [row["index"] for row in rows] == list(range(len(rows)))
    assert len(rows) > 10


def test_a_ledger_that_begins_inside_a_file(tmp_path: Path) -> None:
    """A re-based follower's: what fills the file before its first entry is no damage."""
    writer = LedgerWriter(tmp_path / "n1")
    writer.begin_at(70, SEGMENT + 1000)
    assert entries(tmp_path / "n1") == []
    writer.append([b"x" * 300] * 20, term=3)
    rows = entries(tmp_path / "n1")
    assert [row["index"] for row in rows] == list(range(70, 90))
    assert rows[0]["offset"] == SEGMENT + 1000
    assert damage_in(rows) == []
    filled = LogWriter(tmp_path / "n2")
    filled.put(0, encode_blank(1000))
    assert [row["damage"][:40] for row in messages(tmp_path / "n2")] == [
        "the log ends here: a BLANK of 1000 bytes"
    ]


def test_a_ledger_in_all_its_cuts(tmp_path: Path) -> None:
    writer = LedgerWriter(tmp_path / "dledger-n7")
    writer.append(BODIES)
    writer.append(BODIES, term=4)
    for partition_bytes in (1, 1 << 20):
        rows = entries(tmp_path / "dledger-n7", partition_bytes=partition_bytes)
        assert [row["body"] for row in rows] == BODIES + BODIES
        assert [row["index"] for row in rows] == list(range(200))
        assert {row["node"] for row in rows} == {"n7"}
    position = rows[40]["offset"]
    writer.put(position + 24, b"\xff")  # its position
    rows = entries(tmp_path / "dledger-n7")
    ((offset, size, _),) = damage_in(rows)
    assert (offset, size) == (position, 48 + len(BODIES[40]))
    shutil.rmtree(tmp_path / "dledger-n7" / "data")
    with pytest.raises(SourceError, match="no store"):
        entries(tmp_path / "dledger-n7")
