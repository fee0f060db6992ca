"""The audit of a feed's record: what it was told, held against the nodes' logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from lines_kit import Boot, events_of
from pyspark.sql import SparkSession
from sources_kit import LedgerWriter, LogWriter
from stores_kit import NODES, classic, end_at, identity, judged, ledger, overwrite, root

from actors.cluster.feed_record import FeedRecord, digest
from actors.events import dledger
from actors.log_types import Receipt
from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE
from actors.pipeline.audits.data_record import records_in
from actors.pipeline.locations import Location

Fed = tuple[int, int, Receipt, list[bytes]]
LINE = b"line %d \xff" + b"y" * 150


def told(first: int, last: int, count: int, copies: int = 2) -> Receipt:
    return Receipt(
        first=first, last=last, next=last + 1, count=count, copies=copies, durability="synced"
    )


def feed(data: Path, group: str, batches: Sequence[tuple[int, Receipt, list[bytes]]]) -> Path:
    """Write a record as the feed does."""

    async def run() -> None:
        record = FeedRecord(str(data / "feed"), group)
        record.open("/source", resumable=True)
        await record.note([(line, receipt, digest(lines)) for line, receipt, lines in batches])
        record.close()

    trio.run(run)
    return data / "feed" / f"{group}.jsonl"


def fed(
    writer: LogWriter | LedgerWriter, batches: int, size: int = 5
) -> list[tuple[int, Receipt, list[bytes]]]:
    """Lines that are appended here, in batches, and their receipts."""
    found = []
    for batch in range(batches):
        lines = [LINE % number for number in range(batch * size, (batch + 1) * size)]
        before = len(writer.offsets) if isinstance(writer, LogWriter) else writer.count
        writer.append(lines)
        positions = (
            writer.offsets[before:]
            if isinstance(writer, LogWriter)
            else list(range(before, writer.count))
        )
        found.append((batch * size, told(positions[0], positions[-1], size), lines))
    return found


def copied(data: Path, group: str) -> None:
    """n1 and n2 get what n0 has."""
    for node in NODES[1:]:
        shutil.copytree(root(data, "n0", group), root(data, node, group), dirs_exist_ok=True)


def test_lines_that_are_none_are_named_and_a_torn_end_is_not(tmp_path: Path) -> None:
    file = feed(tmp_path, "orders", [(0, told(0, 5, 3), [b"a"])])
    whole = file.read_text()
    (tmp_path / "feed" / "orders.1.jsonl").write_text(whole + "what\n" + '{"kind": "acked"}\n')
    (tmp_path / "feed" / "x.1.jsonl").write_text(whole)
    (tmp_path / "feed" / "note.txt").write_text("no record")
    file.write_text(whole.replace(', "copies": 2', "") + '{"kind": "ack')
    orders, other = records_in(Location(str(tmp_path)), ["orders", "x.1"])
    assert (orders.group, other.group, len(other.receipts)) == ("orders", "x.1", 1)
    assert [(each.copies, each.crc) for each in orders.receipts] == [
        (2, digest([b"a"])),
        (0, digest([b"a"])),
    ]
    assert [(number, text) for _, number, text in orders.problems] == [
        (3, "what"),
        (4, "{'kind': 'acked'}"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"line": -1},
        {"line": True},
        {"count": 0},
        {"count": 1 << 63},
        {"first": -1},
        {"first": 6},
        {"last": 1 << 63},
        {"first": 0, "last": (64 << 20) + 1},
        {"copies": 1 << 63},
        {"copies": -1},
        {"copies": "2"},
        {"crc": 1 << 32},
        {"crc": -1},
    ],
)
def test_numbers_that_no_log_has_are_no_receipt(tmp_path: Path, wrong: dict[str, object]) -> None:
    """Nor does any of them end the judging."""
    file = feed(tmp_path, "orders", [(0, told(0, 5, 3), [b"a"])])
    opened, acked = file.read_text().splitlines()
    file.write_text("\n".join([opened, json.dumps(json.loads(acked) | wrong), acked, ""]))
    (record,) = records_in(Location(str(tmp_path)), ["orders"])
    assert (len(record.receipts), record.receipts[0].last) == (1, 5)
    assert [number for _, number, _ in record.problems] == [2]


def test_order_is_counted_within_a_session(tmp_path: Path) -> None:
    rows = [
        (0, told(100, 104, 5), [b""]),
        (10, told(50, 54, 5), [b""]),
        (5, told(60, 64, 5), [b""]),
    ]
    feed(tmp_path, "orders", rows)
    feed(tmp_path, "orders", rows[1:2])
    (record,) = records_in(Location(str(tmp_path)), ["orders"])
    assert record.out_of_order == 2


def test_what_was_acknowledged_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """Also where a head expired, a tail is on its way, an entry is not called committed."""
    log = LogWriter(root(tmp_path, "n0", "orders"))
    log.append([b"of somebody else"])
    batches = fed(log, 12)
    copied(tmp_path, "orders")
    begins = sorted((root(tmp_path, "n1", "orders") / "commitlog").iterdir())
    begins[0].unlink()
    end_at(tmp_path, "n2", "orders", log.offsets[-7])
    feed(tmp_path, "orders", batches)
    members = LedgerWriter(root(tmp_path, "n0", "ledger"))
    entries = fed(members, 4)
    copied(tmp_path, "ledger")
    shutil.rmtree(root(tmp_path, "n2", "ledger") / "index")
    overwrite(tmp_path, "n2", "ledger", members.end - 20, b"uncommitted")
    feed(tmp_path, "ledger", entries)
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path)
    assert (verdict.verdict, verdict.witnesses, verdict.note) == ("held", (), "")
    assert verdict.checked.rows == 60 + 20
    found = {(each.group, each.node): each for each in verdict.checked.logs}
    assert (found["orders", "n0"].records, found["orders", "n0"].last) == (61, log.offsets[-1])
    assert found["orders", "n1"].first == int(begins[1].name)
    assert (found["ledger", "n2"].first, found["ledger", "n2"].last) == (0, 19)


def test_what_was_lost_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """A line that is another, on one node and on all; a tail that too few have; two lines
    exchanged; an entry that its member called committed; a group without logs; a line that is none.
    """
    log = LogWriter(root(tmp_path, "n0", "orders"))
    batches = fed(log, 6)
    copied(tmp_path, "orders")
    for node in NODES[1:]:
        end_at(tmp_path, node, "orders", log.offsets[-1])
    swapped = list(batches[2])
    swapped[2] = [batches[2][2][1], batches[2][2][0], *batches[2][2][2:]]
    batches[2] = (swapped[0], swapped[1], swapped[2])
    file = feed(tmp_path, "orders", batches)
    file.write_text(file.read_text() + "?\n\n")
    members = LedgerWriter(root(tmp_path, "n0", "ledger"))
    entries = fed(members, 2)
    copied(tmp_path, "ledger")
    overwrite(tmp_path, "n1", "ledger", members.end - 20, b"other")
    feed(tmp_path, "ledger", entries)
    feed(tmp_path, "gone", [(0, told(0, 0, 1), [b"a"])])
    boot = Boot("n1")
    boot.say(1, "ledger/entry_pusher", dledger.CommittedRose(session=1, index=9))
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path, events_of(spark, boot))
    found = {(each["group"], each.get("line")): each for each in verdict.witnesses}
    assert (verdict.verdict, verdict.findings, len(found)) == ("violated", 5, 5)
    assert found["orders", 10]["what"] == "something else is there"
    assert found["orders", 10]["nodes"] == list(NODES)
    assert found["orders", 25]["what"] == "found on 1, acknowledged on 2"
    assert (found["ledger", 5]["first"], found["ledger", 5]["nodes"]) == (5, ["n1"])
    texts = " ".join(str(found[group, None]["what"]) for group in ("gone", "orders"))
    assert "1 receipt, and no node has a log of the group here" in texts
    assert f"{file}: line 8 is no row of a record: ?" in texts


def test_what_there_is_too_little_for(spark: SparkSession, tmp_path: Path) -> None:
    """No record; entries in memory; a member whose directory is missing; an older record."""
    classic(tmp_path, "orders", 1, ["n0"])
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path)
    assert (verdict.verdict, verdict.checked.rows) == ("not_applicable", 0)
    assert verdict.note.startswith("no feed record here")
    members = ledger(tmp_path, "ledger", 3, ["n0"])
    file = feed(tmp_path, "ledger", fed(members, 1))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**row, "crc": None}) + "\n" for row in rows))
    feed(tmp_path, "memory", [(0, told(0, 0, 1), [b"a"])])
    identity(
        tmp_path, "n0", {}, groups__memory__store='"memory"',
        groups__ledger__members="[n0, n1]",
    )  # fmt: skip
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path)
    assert (verdict.verdict, verdict.checked.rows) == ("held", 5)
    assert verdict.note == (
        "ledger: n1 has no log here; "
        "ledger: 1 receipt without a CRC: only positions are compared; "
        "memory: its entries are in memory only"
    )
    feed(tmp_path, "orders", [(0, told(0, 0, 1), [b"a"])])
    ledger(tmp_path, "orders", 1, ["n1"])
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path)
    assert (verdict.findings, verdict.checked.rows) == (1, 5)
    assert verdict.witnesses[0]["group"] == "orders"
    assert "of two formats: n0: rocketmq" in str(verdict.witnesses[0]["what"])
