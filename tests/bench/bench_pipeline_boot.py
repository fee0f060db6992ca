"""The events of one master that never stops, out of a real run's: for bench_pipeline."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

WRITE: Final = "RecordsAppended"
REPEATED: Final = (WRITE, "LogSynced", "SlaveAcked", "AppendsAcknowledged")
"""What a master says of its appends, over and over."""
PLACES: Final = ("first_bytes", "next_bytes", "offset_bytes")
"""Their fields that are places in the log, and so move on with it."""
FILE_EVENTS: Final = 50_000
"""As the nodes roll their files."""
_LEVEL: Final = 1

Event: TypeAlias = dict[str, Any]


def event_files(data: Path) -> list[Path]:
    """A data directory's event files, by node, day and place."""
    return sorted(data.glob("*/events/v=1/dt=*/node=*/*.jsonl.gz"))


def make_long_boot(data: Path, target: Path, writes: int) -> tuple[int, int]:
    """Write it as a data directory of one node; returns (events, bytes gzipped).

    Raises: SystemExit: no boot there has an append that was answered.
    """
    path, boot = busiest(event_files(data))
    folder = target / path.parents[4].name / "events" / Path(*path.parts[-4:-1])
    folder.mkdir(parents=True)
    lines = (json.dumps(event, separators=(",", ":")) + "\n" for event in prolonged(boot, writes))
    events = size = 0
    while block := list(islice(lines, FILE_EVENTS)):
        packed = gzip.compress("".join(block).encode(), _LEVEL)
        (folder / f"{boot[0]['boot']:06d}-{events + 1:012d}.jsonl.gz").write_bytes(packed)
        events, size = events + len(block), size + len(packed)
    return events, size


def busiest(files: Iterable[Path]) -> tuple[Path, list[Event]]:
    """The boot with the most writes, in order, and its first file."""
    boots: dict[tuple[str, str], list[Event]] = {}
    first: dict[tuple[str, str], Path] = {}
    for file in files:
        key = file.parent.name, file.name.partition("-")[0]
        lines = gzip.decompress(file.read_bytes()).splitlines()
        boots.setdefault(key, []).extend(map(json.loads, lines))
        first.setdefault(key, file)
    if not boots:
        raise SystemExit("no event logs there; make audit leaves some, --data names others")
    most = max(boots, key=lambda key: sum(event["kind"] == WRITE for event in boots[key]))
    return first[most], sorted(boots[most], key=lambda event: int(event["seq"]))


def prolonged(boot: list[Event], writes: int) -> Iterator[Event]:
    """The boot up to its first write, then what it says of appends, again and again."""
    kinds = Counter(event["kind"] for event in boot)
    if not kinds[WRITE] or not kinds["AppendsAcknowledged"]:
        raise SystemExit("no master there has answered an append")
    begin = next(at for at, event in enumerate(boot) if event["kind"] == WRITE)
    again = [event for event in boot[begin:] if event["kind"] in REPEATED]
    group = again[0]["path"].split("/")[2]
    again = [event for event in again if event["path"].split("/")[2] == group]
    grown = max(e["next_bytes"] for e in again if e["kind"] == WRITE) - again[0]["first_bytes"]
    took_us = again[-1]["ts_us"] - again[0]["ts_us"] + 1
    seqs = count(1)
    for event in boot[:begin]:
        yield {**event, "seq": next(seqs)}
    written = 0
    for turn in count():
        for event in again:
            if event["kind"] == WRITE:
                if written == writes:
                    return
                written += 1
            places = {key: event[key] + turn * grown for key in PLACES if key in event}
            yield {**event, "seq": next(seqs), "ts_us": event["ts_us"] + turn * took_us, **places}
