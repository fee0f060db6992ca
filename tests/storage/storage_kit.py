"""What the tests of the storage room share: records, folders, golden stores."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Generator
from typing import Any, TypeVar

from actors.env.local_disk import LocalDisk
from actors.storage.log.commit_log import CommitLog
from wire.files.commit_log import RecordEncoder, encode_properties, fits_in_segment

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "classic"
GOLDEN_SEGMENT = 65536
HOST = ("127.0.0.1", 10911)
T = TypeVar("T")


def finish(work: Generator[Any, Any, T]) -> T:
    """Run a generator that yields between pieces of work, or what is to be run, to its end."""
    answer = None
    while True:
        try:
            asked = work.send(answer)
            answer = asked() if callable(asked) else None
        except StopIteration as stop:
            result: T = stop.value
            return result


def record(
    offset: int,
    body: bytes = b"body",
    *,
    topic: str = "t",
    queue_id: int = 0,
    queue_offset: int = 0,
    ts: int = 1_700_000_000_000,
    properties: dict[str, str] | None = None,
) -> bytes:
    """One record as it lies in the log at `offset`."""
    out = bytearray()
    RecordEncoder(topic, HOST, HOST, body_bytes_max=64 << 20).encode_into(
        out,
        body,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=offset,
        store_ts=ts,
        born_ts=ts,
        properties=encode_properties(properties) if properties else b"",
    )
    return bytes(out)


def fill(log: CommitLog, bodies: list[bytes], **fields: object) -> list[tuple[int, int]]:
    """Append records as a master does; gives (offset, size) of each."""
    found = []
    for number, body in enumerate(bodies):
        data = record(log.written_bytes, body, queue_offset=number, **fields)  # type: ignore[arg-type]
        rest = log.segment_bytes - log.written_bytes % log.segment_bytes
        if not fits_in_segment(len(data), rest):
            log.roll()
            data = record(log.written_bytes, body, queue_offset=number, **fields)  # type: ignore[arg-type]
        found.append((log.written_bytes, len(data)))
        log.append(data)
    return found


def new_log(folder: pathlib.Path, segment_bytes: int = 4096) -> CommitLog:
    return CommitLog.load(LocalDisk(), f"{folder}/commitlog", segment_bytes)


def log_bytes(folder: pathlib.Path | str) -> bytes:
    """All files of a commit log folder, one after the other."""
    return b"".join(path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir()))


def golden_copy(version: str, node: str, folder: pathlib.Path) -> pathlib.Path:
    """A writable copy of a golden store."""
    target = folder / f"{version}-{node}"
    shutil.copytree(GOLDEN / version / node, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def derived(root: pathlib.Path, folder: str) -> dict[str, bytes]:
    """Relative name -> content of consume queue files."""
    top = root / folder
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def index_contents(root: pathlib.Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]
