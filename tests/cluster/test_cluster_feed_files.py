"""The feeder's files: lines from a source, and its own record. Real files and threads."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest
import trio
from cluster_kit import WAIT_S
from hypothesis import given, settings
from hypothesis import strategies as st
from special_files import SPECIAL

from actors.client import lines
from actors.client.lines import LineTooLong, open_source, read_lines
from actors.cluster import feed_record
from actors.cluster.feed_record import FeedRecord, Prefix, digest
from actors.errors import ConfigError
from actors.log_types import Receipt

pytestmark = pytest.mark.real_io


def receipt(first: int, count: int) -> Receipt:
    return Receipt(
        first=first,
        last=first + count - 1,
        next=first + count,
        count=count,
        copies=2,
        durability="synced",
    )


async def lines_of(
    path: Path, *, limit: int = 10**6, line_bytes_max: int = 100, **keys: int
) -> list[bytes]:
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](0)
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: read_lines(
                open_source(str(path), "x"), [send], line_bytes_max=line_bytes_max, **keys
            )
        )
        async for chunk in receive:
            found += chunk
            if len(found) >= limit:
                nursery.cancel_scope.cancel()
                break
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\n\xff", [b"a\r", b"\xff"]),
    ],
)
@pytest.mark.parametrize("read_bytes", [1, 2, 1 << 18])
async def test_lines(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    expected: list[bytes],
    read_bytes: int,
) -> None:
    monkeypatch.setattr(lines, "READ_BYTES", read_bytes)
    file = tmp_path / "f"
    file.write_bytes(data)
    assert await lines_of(file) == expected


async def test_skip_and_repeat(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"0\n1\n2\n")
    assert await lines_of(file, skip=2) == [b"2"]
    assert await lines_of(file, skip=3) == []
    for skip in (0, 1, 3, 4, 10**12 + 1):
        found = await lines_of(file, skip=skip, repeat=True, limit=7)
        assert found[:7] == [b"%d" % ((skip + number) % 3) for number in range(7)]


async def test_empty_file_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"")
    with trio.fail_after(WAIT_S):
        assert await lines_of(file, repeat=True) == []


async def test_several_targets_get_everything(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nb\n")
    sends, receives = zip(
        *(trio.open_memory_channel[tuple[bytes, ...]](5) for _ in range(2)), strict=True
    )
    await read_lines(open_source(str(file), "x"), sends, line_bytes_max=10)
    for channel in receives:
        assert [chunk async for chunk in channel] == [(b"a", b"b")]


@pytest.mark.parametrize("read_bytes", [1, 1 << 18])
@pytest.mark.parametrize("data", [b"ok\nabcde\n", b"ok\nabcde"])
async def test_line_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, read_bytes: int
) -> None:
    monkeypatch.setattr(lines, "READ_BYTES", read_bytes)
    file = tmp_path / "f"
    file.write_bytes(data)
    with pytest.RaisesGroup(
        pytest.RaisesExc(LineTooLong, match=r"line 2 has (at least )?5 bytes, more than .* 4")
    ):
        await lines_of(file, line_bytes_max=4)
    file.write_bytes(b"abcd\n")
    assert await lines_of(file, line_bytes_max=4) == [b"abcd"]


async def test_chunks_are_bounded(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\n" * (lines.CHUNK_LINES_MAX + 1))
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](5)
    await read_lines(open_source(str(file), "x"), [send], line_bytes_max=10)
    assert [len(chunk) async for chunk in receive] == [lines.CHUNK_LINES_MAX, 1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "no such file or directory"), ("", "is a directory"), ("a\0b", "no such file")],
)
def test_source_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_source(os.path.join(tmp_path, name), "--feed")
    [line] = caught.value.problems
    assert line.startswith("--feed: expected a file to read, found ")
    assert line.endswith(reason)
    assert line.isprintable()


async def test_pipe_that_stays_open_can_be_left(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](5)
    with trio.move_on_after(20) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: read_lines(reading, [send], line_bytes_max=10))
            os.write(writing, b"a\nb")
            assert await receive.receive() == (b"a",)
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught
    os.fstat(reading)  # kept: a thread still reads it
    os.close(writing)


async def test_pipe_is_closed_at_its_end() -> None:
    reading, writing = os.pipe()
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](5)
    os.write(writing, b"a\nb")
    os.close(writing)
    await read_lines(reading, [send], line_bytes_max=10)
    assert [chunk async for chunk in receive] == [(b"a",), (b"b",)]
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(reading)


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_record_is_read_back(tmp_path: Path) -> None:
    record = FeedRecord(str(tmp_path / "feed"), "g")
    assert record.open("/x", resumable=True) == 0
    proof = digest([b"a", b"", b"\xff"])
    assert proof == zlib.crc32(b"a\n\n\xff")
    await record.note([(0, receipt(100, 5), 7), (5, receipt(200, 2), proof)])
    record.close()
    acked = [
        {"kind": "acked", "line": 0, "count": 5, "first": 100, "last": 104, "next": 105},
        {"kind": "acked", "line": 5, "count": 2, "first": 200, "last": 201, "next": 202},
    ]
    assert rows(tmp_path / "feed" / "g.jsonl") == [
        {"kind": "opened", "source": "/x", "line": 0},
        acked[0] | {"copies": 2, "crc": 7},
        acked[1] | {"copies": 2, "crc": proof},
    ]
    record = FeedRecord(str(tmp_path / "feed"), "g")
    assert record.open("/x", resumable=True) == 7
    await record.note([(7, receipt(1, 1), 0)])
    await record.end()
    record.close()
    record = FeedRecord(str(tmp_path / "feed"), "g")
    assert record.open("/x", resumable=True) == 0  # it had ended
    record.close()


def test_a_record_without_proofs_is_gone_on_with(tmp_path: Path) -> None:
    """As older versions wrote it."""
    older = (
        {"kind": "opened", "source": "/x", "line": 0},
        {"kind": "acked", "line": 0, "count": 5},
    )
    (tmp_path / "g.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in older))
    record = FeedRecord(str(tmp_path), "g")
    assert record.open("/x", resumable=True) == 5
    record.close()


async def test_note_returns_when_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    sync = os.fdatasync

    def counted(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    await record.note([(0, receipt(0, 1), 0)])
    await record.end()
    record.close()
    assert len(sizes) == 3
    assert sizes[-1] == (tmp_path / "g.jsonl").stat().st_size


async def test_another_source_begins_at_its_start(tmp_path: Path) -> None:
    for source, resumable in (("/x", True), ("/y", True), ("-", False), ("-", False)):
        record = FeedRecord(str(tmp_path), "g")
        assert record.open(source, resumable=resumable) == 0
        await record.note([(0, receipt(0, 9), 0)])
        record.close()


async def test_gap_is_fed_again(tmp_path: Path) -> None:
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    await record.note([(0, receipt(0, 2), 0), (5, receipt(5, 2), 0)])
    record.close()
    record = FeedRecord(str(tmp_path), "g")
    assert record.open("/x", resumable=True) == 2
    record.close()


@pytest.mark.parametrize(
    "torn", [b'{"kind": "acked", ' + b" " * 1000, b'{"kind": "x"}', b"\xff\n", b"3\n"]
)
async def test_torn_end_is_cut(tmp_path: Path, torn: bytes) -> None:
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    await record.note([(0, receipt(0, 2), 0)])
    record.close()
    (tmp_path / "g.jsonl").write_bytes((tmp_path / "g.jsonl").read_bytes() + torn)
    record = FeedRecord(str(tmp_path), "g")
    assert record.open("/x", resumable=True) == 2
    record.close()
    assert [row["kind"] for row in rows(tmp_path / "g.jsonl")] == ["opened", "acked", "opened"]


@pytest.mark.parametrize(
    "row",
    [
        b'{"kind": "opened", "line": 0}',
        b'{"kind": "opened", "source": 3, "line": 0}',
        b'{"kind": "opened", "source": "/x", "line": -1}',
        b'{"kind": "acked", "line": 0}',
        b'{"kind": "acked", "line": "0", "count": 1}',
        b'{"kind": "acked", "line": 0, "count": 1.5}',
        b'{"kind": "acked", "line": 0, "count": 0}',
        b'{"kind": "acked", "line": 0, "count": {}}',
        b'{"kind": "other"}',
        b'{"kind": {}}',
        b"{}",
    ],
)
@pytest.mark.parametrize("after", [b"", b'{"kind": "ended", "line": 2}\n'])
def test_row_that_nobody_wrote_is_named_and_nothing_is_changed(
    tmp_path: Path, row: bytes, after: bytes
) -> None:
    file = tmp_path / "g.jsonl"
    data = b'{"kind": "opened", "source": "/x", "line": 0}\n' + row + b"\n" + after
    file.write_bytes(data)
    record = FeedRecord(str(tmp_path), "g")
    with pytest.raises(ConfigError) as caught:
        record.open("/x", resumable=True)
    record.close()
    [line] = caught.value.problems
    assert line.startswith(f"{file}: line 2: expected a row of a feed record, found ")
    assert len(line) < len(str(file)) + 250
    assert file.read_bytes() == data


@pytest.mark.parametrize("row", [b"\xff\n", b"3\n", b"\n", b'{"kind"\n', b"[" * 99999 + b"\n"])
def test_only_the_last_line_can_be_torn(tmp_path: Path, row: bytes) -> None:
    data = row + b'{"kind": "ended", "line": 2}\n'
    (tmp_path / "g.jsonl").write_bytes(data)
    record = FeedRecord(str(tmp_path), "g")
    with pytest.raises(ConfigError, match="line 1: expected a row"):
        record.open("/x", resumable=True)
    record.close()
    assert (tmp_path / "g.jsonl").read_bytes() == data


async def test_record_is_rolled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_record, "FILE_BYTES_MAX", 300)
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    open_before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        await record.note([(number, receipt(number, 1), 0)])
    assert len(os.listdir("/proc/self/fd")) == open_before
    with pytest.raises(ConfigError):
        FeedRecord(str(tmp_path), "g")  # the lock has moved along
    record.close()
    assert sorted(os.listdir(tmp_path)) == ["g.1.jsonl", "g.jsonl"]
    assert (tmp_path / "g.jsonl").stat().st_size < 500
    assert rows(tmp_path / "g.jsonl")[0]["source"] == "/x"
    record = FeedRecord(str(tmp_path), "g")
    assert record.open("/x", resumable=True) == 50
    record.close()


def test_record_in_use(tmp_path: Path) -> None:
    record = FeedRecord(str(tmp_path), "g")
    with pytest.raises(ConfigError, match="expected a free feed record"):
        FeedRecord(str(tmp_path), "g")
    record.close()
    FeedRecord(str(tmp_path), "g").close()


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=20))
def test_prefix_is_the_first_gap(parts: list[tuple[int, int]]) -> None:
    prefix = Prefix()
    for line, count in parts:
        prefix.add(line, count)
    have = {line + number for line, count in parts for number in range(count)}
    assert prefix.line == next(number for number in range(100) if number not in have)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("feed", "a folder"), ("feed/g.jsonl", "a file"), ("feed/g.1.jsonl", "a file")],
)
def test_a_record_of_another_kind_is_refused_in_one_line(
    tmp_path: Path, name: str, expected: str
) -> None:
    path = tmp_path / name
    if expected == "a folder":
        path.write_text("")
    else:
        path.mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        FeedRecord(str(tmp_path / "feed"), "g")
    (line,) = caught.value.problems
    assert line.startswith(f"{path}: expected {expected}, found a ")


def test_a_deeply_nested_line_ends_the_record_as_a_torn_one_does(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text("[" * 100_000 + "\n")
    record = FeedRecord(str(tmp_path), "g")
    assert record.open("source", resumable=True) == 0
    record.close()


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["g.jsonl", "g.1.jsonl"])
def test_a_record_that_is_no_file(kind: str, name: str, tmp_path: Path) -> None:
    SPECIAL[kind](str(tmp_path / name))
    with pytest.raises(ConfigError, match=f"{name}: expected a file, found a {kind}"):
        FeedRecord(str(tmp_path), "g")


def test_a_records_folder_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "feed")
    with pytest.raises(ConfigError, match="feed: expected a folder, found a named pipe"):
        FeedRecord(str(tmp_path / "feed"), "g")
