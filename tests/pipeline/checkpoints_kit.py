"""Spark's checkpoint as a run leaves it that is killed while it notes down its first batch."""

from __future__ import annotations

from pathlib import Path

UNFINISHED = (
    ".0.5549e618-b764-4d0f-b28f-2352a5192861.tmp",
    "..0.5549e618-b764-4d0f-b28f-2352a5192861.tmp.crc",
)


def leave_first_note(checkpoint: Path) -> None:
    """Beside what was whole by then: who the stream is."""
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    for name in UNFINISHED:
        (checkpoint / "offsets" / name).touch()
    metadata = checkpoint / "metadata"
    if not metadata.exists():
        metadata.write_text('{"id":"0a1b2c3d-7f8e-4a5b-8c6d-112233445566"}')
