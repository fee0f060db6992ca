"""Logs that are added up where they are read: the same as adding up their rows, however cut."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sources_kit import LedgerWriter, LogWriter, entries, messages, options_of

from actors.pipeline.audits.data_pieces import NOWHERE, Piece, compared
from actors.pipeline.sources import log_sums
from actors.pipeline.sources.formats import COMMIT_LOG, DLEDGER, Format
from actors.pipeline.sources.log_files import logs_at
from actors.pipeline.sources.plan import batch_parts, packed
from actors.pipeline.sources.stretches import Reading
from wire.crc import crc32

BODIES = [b"%03d" % number * (number % 70 + 1) for number in range(80)]
Row = dict[str, Any]


def sums_of(
    form: Format, root: Path, bits: int, receipts: Sequence[tuple[int, int]] | None, **options: Any
) -> list[Row]:
    """The rows of every partition, in order."""
    read = options_of(form, path=root, **options)
    reading = Reading(form, read.crc, read.record_bytes_max)
    (log,) = logs_at(read.paths, form.inner)
    text = None if receipts is None else log_sums.packed_receipts(receipts)
    found: list[Row] = []
    for pack in packed(batch_parts(log, read, reading), read.partition_bytes):
        points = None if text is None else log_sums.Receipts.of(text)
        for rows in log_sums.Adding(form, bits, points).rows(pack, reading):
            found += rows
    return found


def records_of(form: Format, root: Path) -> list[tuple[int, int, bytes, bytes]]:
    """Position, size, bytes and body of each whole record, read plainly."""
    name = "offset" if form is COMMIT_LOG else "index"
    rows = (messages if form is COMMIT_LOG else entries)(root, columns="*")
    return [
        (row[name], row["size"], row["record"], row["body"])
        for row in rows
        if row["damage"] is None
    ]


def damaged(data: Path, form: Format) -> Path:
    """A log of several files with a wrong body and a stretch that is no record."""
    made = LogWriter if form is COMMIT_LOG else LedgerWriter
    writer = made(data / "n0", segment=1 << 13)
    writer.append(BODIES)
    if isinstance(writer, LogWriter):
        writer.put(writer.offsets[11] + 95, b"\1")
        writer.put(writer.offsets[40], bytes(30))
    return data / "n0"


CUTS = [(4 << 20, 1 << 30), (300, 1 << 30), (300, 700), (4 << 20, 2000)]


@pytest.mark.parametrize(("chunk_bytes", "partition_bytes"), CUTS)
@pytest.mark.parametrize("form", [COMMIT_LOG, DLEDGER])
def test_pieces_are_what_the_records_add_up_to(
    form: Format,
    chunk_bytes: int,
    partition_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reading.__init__, "__defaults__", (chunk_bytes,))
    root, bits = damaged(tmp_path, form), 10 if form is COMMIT_LOG else 2
    rows = sums_of(form, root, bits, None, partition_bytes=partition_bytes)
    pieces = [row for row in rows if row.get("bucket") is not None]
    records = records_of(form, root)
    for name, at in (("records", None), ("bytes", 1)):
        whole = [1 if at is None else record[at] for record in records]
        assert sum(row[name] for row in pieces) == sum(whole)
    for piece in pieces:
        own = [each for each in records if piece["low"] <= each[0] <= piece["high"]]
        assert piece["records"] == len(own)
        assert {each[0] >> bits for each in own} == {piece["bucket"]}
        digest = log_sums.blake2b(b"".join(each[2] for each in own), digest_size=8).digest()
        assert piece["digest"] == int.from_bytes(digest, "big", signed=True)
    plain = messages(root) if form is COMMIT_LOG else entries(root)
    names = ("node", "offset", "size", "damage")
    assert sorted(tuple(row[name] for name in names) for row in rows if row.get("damage")) == (
        sorted(tuple(row[name] for name in names) for row in plain if row["damage"])
    )


def test_a_bucket_is_one_piece_however_it_is_read_but_where_a_partition_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogWriter(tmp_path / "n0", segment=1 << 16).append(BODIES)
    whole = sums_of(COMMIT_LOG, tmp_path / "n0", 10, None)
    monkeypatch.setattr(Reading.__init__, "__defaults__", (300,))
    assert sums_of(COMMIT_LOG, tmp_path / "n0", 10, None) == whole
    assert len(sums_of(COMMIT_LOG, tmp_path / "n0", 10, None, partition_bytes=700)) > len(whole)


@pytest.mark.parametrize(("chunk_bytes", "partition_bytes"), CUTS)
@pytest.mark.parametrize("form", [COMMIT_LOG, DLEDGER])
def test_receipts_have_their_records_and_no_others(
    form: Format,
    chunk_bytes: int,
    partition_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Receipts of any length, out of order, over each other, over files, and beyond the log."""
    monkeypatch.setattr(Reading.__init__, "__defaults__", (chunk_bytes,))
    root = damaged(tmp_path, form)
    records = records_of(form, root)
    draw, end = random.Random(7), records[-1][0]
    firsts = [draw.randrange(end) for _ in range(60)]
    receipts = [(first, first + draw.choice([0, 5, 300, 9000])) for first in firsts]
    receipts.append((end + 1, end + 9))
    rows = sums_of(form, root, 10, receipts, partition_bytes=partition_bytes)
    rows = [row for row in rows if row.get("damage") is None and row.get("bucket") is None]
    for number, (first, last) in enumerate(receipts):
        own = [each for each in records if first <= each[0] <= last]
        found = [row for row in rows if row.get("receipt") == number]
        _same_sums(found, own)
        if any(row["crc"] is not None for row in found):
            (only,) = found
            assert only["crc"] == crc32(b"\n".join(each[3] for each in own))
        else:
            found.sort(key=lambda row: row["low"])
            parts = b"\n".join(row["text"] for row in found)
            assert parts == b"\n".join(each[3] for each in own)
    others = [
        each for each in records if not any(first <= each[0] <= last for first, last in receipts)
    ]
    _same_sums([row for row in rows if "receipt" not in row], others)


def _same_sums(rows: Sequence[Row], records: Sequence[tuple[int, int, bytes, bytes]]) -> None:
    assert sum(row["records"] for row in rows) == len(records)
    assert sum(row["bytes"] for row in rows) == sum(each[1] for each in records)
    if records:
        assert min(row["low"] for row in rows) == records[0][0]
        assert max(row["high"] for row in rows) == records[-1][0]


def test_no_receipt_is_none(tmp_path: Path) -> None:
    LogWriter(tmp_path / "n0", segment=1 << 16).append(BODIES)
    (row,) = (row for row in sums_of(COMMIT_LOG, tmp_path / "n0", 30, []) if "bucket" not in row)
    assert ("receipt" in row, row["records"]) == (False, len(BODIES))


# ---- which are equal ----

BUCKET = 100


def log(node: str, first: int, last: int, **changed: int) -> list[Piece]:
    """A record at each position that 10 divides, in pieces of a bucket each."""
    found = []
    for bucket in range(first // BUCKET, last // BUCKET + 1):
        at = range(max(first, bucket * BUCKET), min(last, bucket * BUCKET + 90) + 1, 10)
        found.append(
            Piece(
                node=node, bucket=bucket, records=len(at), size_bytes=10 * len(at), first=at[0],
                last=at[-1], begin=at[0], end=at[-1] + 10,
                digest=changed.get(f"b{bucket}", hash((at[0], at[-1]))),
            )
        )  # fmt: skip
    return found


def asked(pieces: Iterable[Piece], is_loose: bool = False, **ends: int) -> dict[str, Any]:
    nodes = {piece.node for piece in pieces}
    limits = {node: ends.get(node, NOWHERE) for node in nodes}
    return dict(compared(list(pieces), limits, is_loose).within)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (log("a", 0, 990) + log("b", 0, 990), {}),
        (log("a", 0, 990) + log("b", 300, 790), {}),
        (
            log("a", 0, 990) + log("b", 350, 750),
            {"a": ((300, 400), (700, 800)), "b": ((350, 400), (700, 760))},
        ),
        (log("a", 0, 990) + log("b", 0, 990, b4=1), {"a": ((400, 500),), "b": ((400, 500),)}),
        (
            log("a", 0, 990) + log("b", 0, 990, b4=1, b5=1) + log("c", 500, 990),
            {"a": ((400, 600),), "b": ((400, 600),), "c": ((500, 600),)},
        ),
        (log("a", 0, 290) + log("b", 0, 90) + log("b", 200, 290), {"a": ((100, 200),)}),
        (log("a", 0, 90) + log("a", 0, 90), {"a": ((0, 100), (0, 100))}),
        (log("a", 0, 40) + log("a", 60, 90) + log("b", 0, 40) + log("b", 60, 90), {}),
        (
            log("a", 0, 90) + log("b", 0, 40) + log("b", 50, 90),
            {"a": ((0, 100),), "b": ((0, 100),)},
        ),
    ],
)  # fmt: skip
def test_only_what_adds_up_to_something_else_is_looked_at(
    pieces: list[Piece], expected: dict[str, Any]
) -> None:
    assert asked(pieces) == expected


def test_what_is_a_nodes_own_is_nobodys_copy() -> None:
    pieces = log("a", 0, 490) + log("b", 0, 490, b3=1, b4=1)
    assert asked(pieces, b=300) == {}
    assert asked(pieces, b=350) == {"a": ((300, 400),), "b": ((300, 400),)}
    told = compared(pieces, {"a": NOWHERE, "b": 300})
    assert max(piece.last for piece in told.equal if piece.node == "b") == 290


def test_where_nodes_need_not_have_the_same_nothing_is_looked_at_again() -> None:
    pieces = log("a", 0, 490) + log("b", 200, 990, b3=1)
    assert asked(pieces, is_loose=True) == {}
    assert asked(pieces, is_loose=True, b=350) == {"a": ((300, 400),), "b": ((300, 400),)}
