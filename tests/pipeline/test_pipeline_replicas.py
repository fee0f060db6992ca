"""The audit of replicas: what differs between logs that ought to be equal, and what may differ."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from audit_events_kit import promise
from entry_kit import encode_entry, new_entry
from lines_kit import Boot, events_of
from pyspark.sql import SparkSession
from sources_kit import LogWriter
from stores_kit import (
    NODES,
    bodies,
    classic,
    end_at,
    identity,
    judged,
    ledger,
    overwrite,
    root,
)

from actors.events import dledger
from actors.pipeline.audits import data_scan
from actors.pipeline.audits.data_pieces import NOWHERE
from actors.pipeline.audits.data_receipts import batches_of, lost, standing
from actors.pipeline.audits.data_record import Receipt, Record
from actors.pipeline.audits.data_replicas import (
    REPLICAS_EQUAL,
    differences,
    positions,
)
from actors.pipeline.audits.data_stores import (
    GroupStores,
    Store,
    groups_in,
    own_from,
    shared_end,
)
from actors.pipeline.locations import Location
from actors.pipeline.sources.formats import COMMIT_LOG
from actors.pipeline.verdicts import CheckedLog


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some records: most are equal on all nodes, and those that are not lie in few."""
    monkeypatch.setattr(data_scan, "BITS", {False: 10, True: 2})


A, B, C = (0, 11, 0), (0, 12, 500), (1, 13, 400)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((A,), (A,), math.inf),
        ((A,), (A, B), 500),
        ((A, B), (A, B), math.inf),
        ((A, B), (A, C), 400),
        ((A,), (C,), 0),
        (((0, 0, 0),), ((0, 0, 0), B), 500),
    ],
)
def test_logs_part_where_the_first_leaves_the_last_epoch_of_both(
    one: Any, other: Any, expected: float
) -> None:
    assert shared_end(one, other) == shared_end(other, one) == expected


def test_groups_and_their_members_are_found(tmp_path: Path) -> None:
    classic(tmp_path, "orders", 1)
    ledger(tmp_path, "ledger", 1, NODES[:2])
    root(tmp_path, "n0", "memory").mkdir()
    identity(
        tmp_path, "n0", {"orders": [A, C]}, groups__orders__master="n0",
        groups__orders__slaves="[n1, n2]", groups__ledger__members="[n0, n1, n2]",
    )  # fmt: skip
    identity(tmp_path, "n1", {"orders": [A, B]})
    by_ledger, orders = groups_in(Location(str(tmp_path)))
    assert (by_ledger.name, by_ledger.nodes, by_ledger.missing) == ("ledger", NODES[:2], ("n2",))
    assert (orders.name, orders.nodes, orders.missing) == ("orders", NODES, ())
    assert own_from(orders.stores) == {"n0": math.inf, "n1": 400, "n2": math.inf}
    alone = groups_in(Location(str(tmp_path / "n2")))
    assert [(group.name, group.nodes) for group in alone] == [("orders", ("n2",))]


def test_a_group_of_two_formats_is_a_finding_of_that_group(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A node that left the group kept its folder from before the group changed its mode."""
    classic(tmp_path, "orders", 1, ["n0"])
    ledger(tmp_path, "orders", 1, ["n1"])
    classic(tmp_path, "whole", 3)
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path)
    two = "its nodes' logs are of two formats: n0: rocketmq_commitlog, n1: dledger_store"
    assert by_group(verdict.witnesses) == {"orders": [(None, two, [])]}
    assert (verdict.verdict, verdict.findings, verdict.checked.rows) == ("violated", 1, 9)


def test_more_nodes_than_bits_are_refused_in_one_line(tmp_path: Path) -> None:
    for number in range(65):
        (root(tmp_path, f"n{number}", "wide") / "commitlog").mkdir(parents=True)
    (wide,) = groups_in(Location(str(tmp_path)))
    assert wide.problem == "logs of 65 nodes: no more than 64 can be compared"


def test_the_last_of_64_nodes_is_told_from_the_others(spark: SparkSession) -> None:
    """Its bit is the sign of a bigint."""
    nodes = tuple(f"n{number:02}" for number in range(64))
    stores = tuple(Store(node=each, root=Location("/nowhere")) for each in nodes)
    group = GroupStores(name="wide", form=COMMIT_LOG, stores=stores)
    held = [(node, at, 90) for node in ("n00", "n63") for at in (0, 100, 200)]
    held.remove(("n63", 100, 90))
    rows = spark.createDataFrame(held, "node string, offset bigint, size bigint").selectExpr(
        "*", "cast(null as string) as damage", "size as record_crc"
    )
    sure = dict.fromkeys(nodes, NOWHERE)
    logs = [
        CheckedLog(group="wide", node=node, records=3, size_bytes=270, first=0, last=200)
        for node in ("n00", "n63")
    ]
    assert [
        tuple(row) for row in differences(positions(rows, group, sure), nodes, logs).collect()
    ] == [(100, "no such record", ["n63"])]
    receipt = Receipt(session=0, line=7, count=1, first=100, last=100, copies=2, crc=None)
    batches = batches_of(spark, Record(group="wide", receipts=(receipt,)))
    there = spark.createDataFrame(
        [("n63", 0, 1, 90, 100, 100, 5)],
        "node string, batch bigint, records bigint, bytes bigint, low bigint, high bigint, "
        "crc bigint",
    )
    every = [attrs.evolve(logs[0], node=node, last=0) for node in nodes[:-1]]
    stood = standing(there, batches, nodes, [*every, logs[1]], sure, {})
    (row,) = lost(stood, nodes, 0).collect()
    assert (row["what"], row["nodes"]) == ("found on 1, acknowledged on 2", ["n63"])


def by_group(witnesses: Any) -> dict[str, list[tuple[Any, str, list[str]]]]:
    found: dict[str, list[tuple[Any, str, list[str]]]] = {}
    for each in witnesses:
        assert isinstance(each, Mapping)
        found.setdefault(each["group"], []).append((each["position"], each["what"], each["nodes"]))
    return found


def test_logs_that_may_differ(spark: SparkSession, tmp_path: Path) -> None:
    """Heads that expired, tails that are on their way or torn, and a tail of its own."""
    log = classic(tmp_path, "orders")
    oldest = min((root(tmp_path, "n1", "orders") / "commitlog").iterdir())
    oldest.unlink()
    end_at(tmp_path, "n2", "orders", log.offsets[20] + 50)
    log = classic(tmp_path, "parted")
    overwrite(tmp_path, "n0", "parted", log.offsets[25] + 19, b"\1")
    (tmp_path / "feed" / "orders.jsonl").mkdir(parents=True)  # no record: another audit's matter
    epochs = [(0, 1, 0)]
    for node in NODES:
        later = [] if node == "n0" else [(1, 2, log.offsets[24])]
        identity(tmp_path, node, {"parted": epochs + later})
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path)
    assert (verdict.verdict, verdict.witnesses) == ("held", ())
    found = {(each.group, each.node): each for each in verdict.checked.logs}
    begin = int(sorted((root(tmp_path, "n1", "orders") / "commitlog").iterdir())[0].name)
    assert (found["orders", "n0"].first, found["orders", "n0"].records) == (0, 30)
    assert found["orders", "n1"].first == begin > 0
    assert found["orders", "n2"].last == log.offsets[19]
    assert found["parted", "n0"].last == log.offsets[23]
    assert found["parted", "n1"].records == 30
    size = sum(each.records for each in verdict.checked.logs)
    assert verdict.checked.rows == size == 30 + found["orders", "n1"].records + 20 + 24 + 60
    assert f"orders: torn end: n2 at {log.offsets[20]}" in verdict.note
    assert f"parted: from {log.offsets[24]} on n0's log is its own" in verdict.note


def test_logs_that_must_not_differ(spark: SparkSession, tmp_path: Path) -> None:
    """A byte outside of the body, where there are three and two; a body; a record that stands
    elsewhere; a whole file.
    """
    log = classic(tmp_path, "flag")
    overwrite(tmp_path, "n1", "flag", log.offsets[7] + 19, b"\1")
    two = classic(tmp_path, "two", nodes=["n0", "n1"])
    overwrite(tmp_path, "n1", "two", two.offsets[7] + 19, b"\1")
    classic(tmp_path, "body")
    overwrite(tmp_path, "n2", "body", log.offsets[3] + 100, b"else")
    classic(tmp_path, "file")
    files = sorted((root(tmp_path, "n0", "file") / "commitlog").iterdir())
    files[1].unlink()
    starts = [int(file.name) for file in files]
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path)
    assert verdict.verdict == "violated"
    found = by_group(verdict.witnesses)
    assert found["flag"] == [(log.offsets[7], "not the record that n0 n2 have", ["n1"])]
    assert found["two"] == [(two.offsets[7], "the records differ", ["n0", "n1"])]
    assert (log.offsets[3], "body CRC is wrong", ["n2"]) in found["body"]
    assert (log.offsets[3], "no such record", ["n2"]) in found["body"]
    lost = [at for at in log.offsets if starts[1] <= at < starts[2]]
    assert (starts[1], "a file is missing here", ["n0"]) in found["file"]
    missing = [
        at for at, what, nodes in found["file"] if (what, nodes) == ("no such record", ["n0"])
    ]
    assert missing == lost
    assert verdict.findings == 2 + 2 + 1 + len(lost)


def test_members_agree_on_what_they_called_committed(spark: SparkSession, tmp_path: Path) -> None:
    """A deposed leader may keep entries of another term, while it does not call them committed. So
    may who heard of what a loss of power took, or of what upstream's rules replace.
    """
    for group in ("stale", "committed", "bytes", "written", "upstream"):
        log = ledger(tmp_path, group)
        other = encode_entry(new_entry(index=29, term=2, pos=log.end - 258, body=bytes(210)))
        if group == "bytes":
            other = encode_entry(new_entry(index=29, term=1, pos=log.end - 258, body=bytes(210)))
        assert log.end - 258 == log.end - len(other)
        overwrite(tmp_path, "n2", group, log.end - 258, other)
        shutil.rmtree(root(tmp_path, "n2", group) / "index")
    boot = Boot("n0")
    two = Boot("n2")
    boot.say(0, "written", promise("dledger", durability="written"))
    boot.say(0, "upstream", promise("dledger", upstream=True))
    for group, last in (
        *(("stale", 28), ("committed", 29), ("bytes", 28)),
        *(("written", 29), ("upstream", 29)),
    ):
        boot.say(1, f"{group}/entry_pusher", dledger.CommittedRose(session=1, index=29))
        two.say(1, f"{group}/entry_pusher", dledger.CommittedRose(session=1, index=last))
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path, events_of(spark, boot, two))
    assert by_group(verdict.witnesses) == {
        "bytes": [(29, "not the record that n0 n1 have", ["n2"])],
        "committed": [(29, "committed in two terms", ["n0", "n2"])],
    }
    assert verdict.checked.rows == 5 * 90
    assert {(each.first, each.last) for each in verdict.checked.logs} == {(0, 29)}
    assert verdict.note == (
        "upstream: only damage is looked for: upstream's rules promise no more; "
        "written: terms are not compared, as nothing is known to stay committed"
    )


def test_upstreams_slaves_may_have_other_logs_and_no_damage(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whole records of another master, on n1, are what upstream's rules let pass; a flipped byte,
    on n2, no rules do. One group's rules are told by its nodes' settings, one's by their events.
    """
    for group in ("by_events", "by_settings", "ours"):
        offsets = classic(tmp_path, group).offsets
        other = LogWriter(root(tmp_path / "elsewhere", "n1", group))
        other.append([b"R" + body[1:] for body in bodies(30)])
        shutil.rmtree(root(tmp_path, "n1", group))
        shutil.copytree(root(tmp_path / "elsewhere", "n1", group), root(tmp_path, "n1", group))
        overwrite(tmp_path, "n2", group, offsets[9] + 150, b"\xff")
    shutil.rmtree(tmp_path / "elsewhere")
    identity(tmp_path, "n1", {}, groups__by_settings__compat='"upstream"')
    boot = Boot("n0")
    boot.say(0, "by_events", promise(upstream=True))
    found = by_group(judged(spark, REPLICAS_EQUAL, tmp_path, events_of(spark, boot)).witnesses)
    assert len(found["ours"]) > 1
    for group in ("by_events", "by_settings"):
        ((position, _, nodes),) = found[group]
        assert (position, nodes) == (offsets[9], ["n2"])


def test_what_cannot_be_compared_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """No logs; one log; a node's directory that is missing; files that are no log."""
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path)
    assert (verdict.verdict, verdict.note) == ("not_applicable", "no node has a log here")
    classic(tmp_path, "orders", 5, ["n0"])
    identity(tmp_path, "n0", {}, groups__orders__slaves="[n1]", groups__orders__master="n0")
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path)
    assert verdict.verdict == "not_applicable"
    assert "orders: n1 has no log here; orders: only n0 has a log" in verdict.note
    log = root(tmp_path, "n1", "orders") / "commitlog"
    log.mkdir(parents=True)
    (log / "00000000000000000000").write_bytes(bytes(100))
    (log / "00000000000000000050").write_bytes(b"what is this?")
    verdict = judged(spark, REPLICAS_EQUAL, tmp_path)
    (witness,) = verdict.witnesses
    assert verdict.verdict == "violated"
    assert str(witness["what"]).endswith("files of two sizes, or of two logs")
