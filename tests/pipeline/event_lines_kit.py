"""Event logs as lists of flat objects, to be rewritten: the golden run, and many copies of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

GOLDEN = Path(__file__).parents[1] / "golden" / "pipeline" / "killed"

Line: TypeAlias = dict[str, Any]
Logs: TypeAlias = dict[str, list[Line]]
"""By node: its events in the order of (boot, seq)."""


def golden_logs() -> Logs:
    """A fresh copy of the recorded run."""
    found = {}
    for file in sorted(GOLDEN.glob("*.jsonl.gz")):
        text = gzip.decompress(file.read_bytes()).decode()
        lines = [json.loads(line) for line in text.splitlines()]
        found[file.name.partition(".")[0]] = sorted(lines, key=place)
    return found


def place(line: Line) -> tuple[int, int]:
    return line["boot"], line["seq"]


def of_kind(logs: Logs, kind: str, **fields: Any) -> Iterator[Line]:
    """The events of one kind with these fields, node by node."""
    for lines in logs.values():
        for line in lines:
            if line["kind"] == kind and all(line[key] == value for key, value in fields.items()):
                yield line


def group_in(line: Line) -> str:
    """The part of the path behind the node's name."""
    return str(line["path"]).split("/")[2] if line["path"].count("/") > 1 else ""


def become(line: Line, kind: str, path: str, **fields: Any) -> None:
    """The same place in the log, time and number; another event."""
    kept = {key: line[key] for key in ("node", "boot", "seq", "incarnation", "ts_us")}
    line.clear()
    line.update(kept, path=f"/{kept['node']}/{path}", kind=kind, **fields)


def tagged(logs: Logs, tag: str) -> Logs:
    """The same run of a cluster whose nodes and groups have `-TAG` behind their names."""
    names = set(logs) | {group for line in of_kind(logs, "NodeStarted") for group in line["groups"]}
    for line in of_kind(logs, "GroupConfigured"):
        names |= {group_in(line), *line["members"]}

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(each) for each in value]
        if isinstance(value, str) and value.startswith("/"):
            return "/".join(renamed(part) for part in value.split("/"))
        return f"{value}-{tag}" if isinstance(value, str) and value in names else value

    return {
        renamed(node): [{key: renamed(value) for key, value in line.items()} for line in lines]
        for node, lines in logs.items()
    }


def write_logs(logs: Logs, data: Path, junk: str = "") -> None:
    """As a data directory; `junk`: behind the last line of the first node."""
    for number, (node, lines) in enumerate(logs.items()):
        folder = data / node / "events" / "v=1"
        folder.mkdir(parents=True)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / "all.jsonl").write_text(text + (junk if not number else ""))
