"""What the tests of the sources share: logs made to measure, golden ones, and reading them plainly.

Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from entry_kit import encode_entry, encode_index, new_entry

from actors.pipeline.sources.formats import COMMIT_LOG, DLEDGER, Format
from actors.pipeline.sources.log_files import logs_at
from actors.pipeline.sources.options import Options, read_options
from actors.pipeline.sources.plan import batch_parts
from actors.pipeline.sources.rows import batches
from actors.pipeline.sources.stretches import Reading
from wire.dledger.entry import encode_blank as encode_ledger_blank
from wire.dledger.entry import fits_in_file as entry_fits
from wire.files.commit_log import RecordEncoder, encode_blank, encode_properties, segment_name
from wire.files.record_encoder import fits_in_segment

GOLDEN = Path(__file__).parents[1] / "golden"
HOST = ("127.0.0.1", 10911)
SEGMENT = 4096
START_MS = 1_700_000_000_000


class LogWriter:
    """A commit log in files of SEGMENT bytes, made at full size as RocketMQ makes them."""

    def __init__(self, root: Path, *, start: int = 0, segment: int = SEGMENT) -> None:
        self.folder = root / "commitlog"
        self.folder.mkdir(parents=True)
        self.segment, self.end, self.offsets = segment, start, list[int]()

    def file_of(self, offset: int) -> tuple[Path, int]:
        start = offset // self.segment * self.segment
        return self.folder / segment_name(start), offset - start

    def put(self, offset: int, data: bytes) -> None:
        """Write bytes as they are; the file is made if it is not there."""
        path, at = self.file_of(offset)
        if not path.exists():
            path.write_bytes(bytes(self.segment))
        whole = bytearray(path.read_bytes())
        whole[at : at + len(data)] = data
        path.write_bytes(whole)

    def record(self, body: bytes, ms: int, host: tuple[str, int] = HOST) -> bytes:
        """The next record, not written yet. A BLANK is, if the file has no room for it."""
        out = bytearray()
        for _ in range(2):
            out.clear()
            RecordEncoder("orders", host, host).encode_into(
                out, body, queue_id=1, queue_offset=len(self.offsets), physical_offset=self.end,
                store_ts=ms, born_ts=ms - 5, properties=encode_properties({"TAGS": "red"}),
            )  # fmt: skip
            rest = self.segment - self.end % self.segment
            if fits_in_segment(len(out), rest):
                return bytes(out)
            self.put(self.end, encode_blank(rest))
            self.end += rest
        raise AssertionError("no file holds it")

    def append(self, bodies: Iterable[bytes], ms: int = START_MS, step_ms: int = 1) -> None:
        """One record after the other, `step_ms` apart."""
        for number, body in enumerate(bodies):
            data = self.record(body, ms + number * step_ms)
            self.put(self.end, data)
            self.offsets.append(self.end)
            self.end += len(data)


class LedgerWriter:
    """DLedger's data files, small."""

    def __init__(self, root: Path, *, segment: int = SEGMENT) -> None:
        self.folder = root / "data"
        self.folder.mkdir(parents=True)
        self.segment, self.end, self.count = segment, 0, 0

    put = LogWriter.put
    file_of = LogWriter.file_of

    def begin_at(self, index: int, position: int) -> None:
        """As a follower that is re-based: a BLANK fills its first file up to there."""
        head = position % self.segment
        self.put(position - head, encode_ledger_blank(head))
        self.end, self.count = position, index

    def put_index(self, record: bytes) -> None:
        """Behind the others, in one file."""
        path = self.folder.parent / "index" / segment_name(0)
        path.parent.mkdir(exist_ok=True)
        whole = bytearray(path.read_bytes() if path.exists() else bytes(1 << 16))
        whole[self.count * 32 : self.count * 32 + 32] = record
        path.write_bytes(whole)

    def append(self, bodies: Iterable[bytes], term: int = 1) -> None:
        for body in bodies:
            rest = self.segment - self.end % self.segment
            if not entry_fits(48 + len(body), rest):
                self.put(self.end, encode_ledger_blank(rest))
                self.end += rest
            entry = new_entry(index=self.count, term=term, pos=self.end, body=body)
            self.put(self.end, encode_entry(entry))
            self.put_index(encode_index([entry]))
            self.end += entry.size
            self.count += 1


def options_of(form: Format, **given: object) -> Options:
    """Options as Spark hands them over."""
    text = {key.rstrip("_"): str(value) for key, value in given.items()}
    return read_options(text, tuple(form.columns), form.default, form.has_crc)


def reading_of(form: Format, **given: Any) -> Reading:
    return Reading(form, form.has_crc, 1 << 20, **given)


def rows_of(form: Format, path: Path | str, **given: object) -> list[dict[str, Any]]:
    """All rows that a batch gives, without Spark."""
    options = options_of(form, path=path, **given)
    reading = Reading(form, options.crc, options.record_bytes_max)
    found: list[dict[str, Any]] = []
    for log in logs_at(options.paths, form.inner, options.nodes):
        for part in batches(form, options, batch_parts(log, options, reading)):
            part.validate(full=True)
            found += part.to_pylist()
    return found


def messages(path: Path | str, **given: object) -> list[dict[str, Any]]:
    return rows_of(COMMIT_LOG, path, **given)


def entries(path: Path | str, **given: object) -> list[dict[str, Any]]:
    return rows_of(DLEDGER, path, **given)


def damage_in(rows: Sequence[dict[str, Any]]) -> list[tuple[int, int | None, str]]:
    """Offset, size and text of each row that names damage."""
    return [(row["offset"], row["size"], row["damage"]) for row in rows if row["damage"]]
