"""Data directories with stores by hand: logs of several nodes, equal until a test changes one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from sources_kit import LedgerWriter, LogWriter

from actors.pipeline import silver
from actors.pipeline.audits.audit import Audit, Evidence
from actors.pipeline.audits.judging import judge
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import Verdict

NODES = ("n0", "n1", "n2")


def root(data: Path, node: str, group: str) -> Path:
    return data / node / "groups" / group


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"record %d " % number + b"x" * 200 for number in range(start, start + count)]


def classic(data: Path, group: str, count: int = 30, nodes: Sequence[str] = NODES) -> LogWriter:
    """The same log on each node; the writer of the first one's."""
    first, *others = nodes
    writer = LogWriter(root(data, first, group))
    writer.append(bodies(count))
    for node in others:
        shutil.copytree(root(data, first, group), root(data, node, group))
    return writer


def ledger(data: Path, group: str, count: int = 30, nodes: Sequence[str] = NODES) -> LedgerWriter:
    """Likewise, of term 1."""
    first, *others = nodes
    writer = LedgerWriter(root(data, first, group))
    writer.append(bodies(count))
    for node in others:
        shutil.copytree(root(data, first, group), root(data, node, group))
    return writer


def overwrite(data: Path, node: str, group: str, offset: int, new: bytes) -> None:
    """Bytes of a node's log, in the file that has them."""
    folder = root(data, node, group)
    inner = folder / ("data" if (folder / "data").exists() else "commitlog")
    path = max(file for file in inner.iterdir() if int(file.name) <= offset)
    whole = bytearray(path.read_bytes())
    at = offset - int(path.name)
    whole[at : at + len(new)] = new
    path.write_bytes(whole)


def end_at(data: Path, node: str, group: str, offset: int) -> None:
    """Nothing at or behind the offset was ever written."""
    for path in (root(data, node, group) / "commitlog").iterdir():
        at = max(offset - int(path.name), 0)
        whole = path.read_bytes()
        path.write_bytes(whole[:at].ljust(len(whole), b"\0"))


def identity(
    data: Path,
    node: str,
    epochs: dict[str, list[tuple[int, int, int]]],
    forgot: Sequence[str] = (),
    **settings: str,
) -> None:
    """What the node says of its logs: number, token and start of each epoch.

    Args:
        forgot: groups of which it has yet to get back what it had.
    """
    records = {
        group: {
            "history": [
                {"number": number, "token": token, "start_bytes": start, "master": "n0"}
                for number, token, start in history
            ],
            "forgot": "log" if group in forgot else "",
        }
        for group, history in epochs.items()
    }
    nodes = {f"nodes.{each}": '"127.0.0.1"' for each in NODES}
    said = {key.replace("__", "."): value for key, value in settings.items()}
    (data / node).mkdir(parents=True, exist_ok=True)
    note = {"node": node, "records": records, "settings": {**nodes, **said}}
    (data / node / "identity.json").write_text(json.dumps(note))


def judged(spark: SparkSession, audit: Audit, data: Path, events: Any = None) -> Verdict:
    """What an audit says of a data directory, and of silver's events (default: none)."""
    table = spark.createDataFrame([], silver.SCHEMA) if events is None else events
    place = Location(str(data))
    evidence = Evidence(spark=spark, events=table, data=place, out=place / "out")
    with closing(evidence.logs):
        return judge(audit, evidence)
