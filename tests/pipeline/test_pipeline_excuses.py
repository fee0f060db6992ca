"""The audit of a feed's record, where what was acknowledged may lawfully be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lines_kit import Boot, events_of
from pyspark.sql import SparkSession
from sources_kit import LedgerWriter, LogWriter
from stores_kit import NODES, classic, end_at, identity, judged, root
from test_pipeline_receipts import copied, fed, feed, told

from actors.events import dledger, ha, node, roles, store
from actors.pipeline.audits.data_excuses import Forced, began_empty, given_up, may_lose
from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE, WRITTEN_READABLE
from actors.pipeline.audits.data_record import Receipt
from actors.pipeline.audits.data_stores import GroupStores, groups_in
from actors.pipeline.locations import Location
from actors.pipeline.sources.formats import COMMIT_LOG


def receipts(*stretches: tuple[int, int]) -> list[Receipt]:
    return [
        Receipt(session=0, line=0, count=1, first=first, last=last, copies=2, crc=None)
        for first, last in stretches
    ]


def promoted(start: int, before: int, first: int, end: int) -> list[Forced]:
    return [Forced(start=start, before=before, first=first, end=end)]


@pytest.mark.parametrize(
    ("stretches", "forced", "expected"),
    [
        ([(0, 50), (60, 90), (100, 150)], [], set()),
        ([(0, 50), (60, 90), (100, 150)], promoted(60, 60, 60, 200), set()),
        ([(0, 50), (60, 90), (100, 150), (60, 80)], promoted(60, 160, 60, 200), {1, 2, 3}),
        ([(60, 90), (100, 150), (60, 80), (160, 190)], promoted(60, 155, 60, 200), {0, 1, 2}),
        ([(60, 90), (100, 150), (95, 99), (160, 190)], promoted(60, 92, 70, 200), {0, 1}),
        ([(0, 50), (60, 90), (120, 150), (160, 170)], promoted(60, 100, 110, 200), {1}),
        ([(0, 50), (60, 90), (100, 150)], promoted(60, 95, 0, 0), {1, 2}),
        ([(0, 50), (60, 90), (100, 150)], promoted(0, 95, 100, 200), {0, 1}),
        ([(60, 90), (50, 80)], promoted(95, 95, 95, 200), set()),
    ],
)
def test_what_force_gave_up_is_told_from_what_came_later(
    stretches: Any, forced: Any, expected: set[int]
) -> None:
    """Whatever is in the record before the first receipt that no earlier epoch can have given; not
    what follows it, unless the record goes back behind it. The sixth: nothing that was fed since
    lies where the old master's tail lay, and the masters have answered far beyond it.
    """
    assert given_up(receipts(*stretches), forced) == expected


def opened(boot: int, seq: int, end: int, clean: bool = True, of: str = "orders") -> dict[str, Any]:
    """A row of a store that was opened."""
    where = {"group": of, "node": "n0", "boot": boot, "seq": seq}
    return {
        **where,
        "kind": "RecoveryFinished",
        "end_bytes": end,
        "was_clean": clean,
        "durability": None,
        "upstream": None,
    }


def configured(durability: str, upstream: bool = False) -> dict[str, Any]:
    return {
        **opened(1, 1, 0),
        "kind": "GroupConfigured",
        "durability": durability,
        "upstream": upstream,
    }


def test_a_store_that_was_empty_in_a_later_boot() -> None:
    assert began_empty([opened(1, 5, 0), opened(2, 5, 900)]) == {}
    lives = [opened(1, 5, 0), opened(3, 4, 0), opened(2, 9, 0), opened(4, 1, 300)]
    assert began_empty(lives) == {("orders", "n0"): (3, 4)}


def test_what_a_loss_of_power_may_take() -> None:
    """Only of "written" groups, and only if a store was not closed in order, or nobody knows."""
    group = GroupStores(name="orders", form=COMMIT_LOG, stores=(), is_written=True)
    strict = GroupStores(name="orders", form=COMMIT_LOG, stores=())
    killed = [opened(1, 1, 0), opened(2, 1, 500, clean=False)]
    other = [opened(1, 1, 0), opened(2, 1, 500, clean=False, of="else")]
    assert may_lose(group, killed)
    assert may_lose(group, [])
    assert may_lose(strict, [configured("written"), *killed])
    assert not may_lose(group, other)
    assert not may_lose(strict, killed)
    assert not may_lose(strict, [configured("synced"), *killed])


def test_what_upstreams_rules_may_take() -> None:
    """Whatever the durability, and also of a group that has our rules again."""
    loose = GroupStores(name="orders", form=COMMIT_LOG, stores=(), is_loose=True)
    strict = GroupStores(name="orders", form=COMMIT_LOG, stores=())
    orderly = [opened(1, 1, 0), opened(2, 1, 500)]
    assert may_lose(loose, orderly)
    assert may_lose(strict, [configured("synced", upstream=True), *orderly])
    assert not may_lose(strict, [configured("synced", upstream=False), *orderly])


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"groups__orders__compat": '"upstream"'}, True),
        ({"groups__orders__term_entry": '"none"'}, True),
        ({"groups__orders__term_entry": '"empty"'}, False),
        ({"groups__others__compat": '"upstream"'}, False),
        ({}, False),
    ],
)
def test_a_nodes_settings_tell_of_upstreams_rules(
    tmp_path: Path, setting: dict[str, str], expected: bool
) -> None:
    """Where its event logs are gone. It is enough that one node has them."""
    classic(tmp_path, "orders", 1)
    identity(tmp_path, "n0", {})
    identity(tmp_path, "n1", {}, **setting)
    (group,) = groups_in(Location(str(tmp_path)))
    assert group.is_loose is expected


def recovered(end: int, clean: bool = True) -> store.RecoveryFinished:
    return store.RecoveryFinished(
        was_clean=clean,
        scanned_from_bytes=0,
        end_bytes=end,
        record_count=0,
        kept_bytes=0,
        reason="",
    )


def short_slaves(data: Path, group: str, batches: int = 4) -> list[Any]:
    """n0 has all, n1 and n2 lack the last batches, each of which two nodes had."""
    log = LogWriter(root(data, "n0", group))
    found = fed(log, batches)
    copied(data, group)
    for each in NODES[1:]:
        end_at(data, each, group, log.offsets[5])
    feed(data, group, found)
    return found


def test_who_copies_again_may_have_had_it(spark: SparkSession, tmp_path: Path) -> None:
    """A slave that lost its log, by its own word, and an emptied member; not one that says nothing,
    nor a member that has called it committed since.
    """
    for group in ("orders", "lost"):
        short_slaves(tmp_path, group)
    for group in ("ledger", "again"):
        entries = fed(LedgerWriter(root(tmp_path, "n0", group)), 4)
        copied(tmp_path, group)
        short = root(tmp_path, "n1", group)
        for path in sorted(short.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        fed(LedgerWriter(short), 2)
        all_three = [(line, told(r.first, r.last, r.count, 3), lines) for line, r, lines in entries]
        feed(tmp_path, group, all_three)
    identity(tmp_path, "n1", {"orders": [(0, 1, 0)], "lost": [(0, 1, 0)]}, forgot=["orders"])
    n1 = Boot("n1", boot=2)
    for group in ("ledger", "again"):
        n1.say(1, f"{group}/storage/store", recovered(0))
    n1.say(2, "again/entry_pusher", dledger.CommittedRose(session=1, index=19))
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path, events_of(spark, n1))
    found = sorted((each["group"], each["line"]) for each in verdict.witnesses)
    assert found == [("again", 10), ("again", 15), ("lost", 5), ("lost", 10), ("lost", 15)]
    assert "orders: n1 lost what it had, and has not all of it again" in verdict.note
    assert "ledger: n1 lost what it had" in verdict.note
    assert "again: n1" not in verdict.note


def test_what_was_given_up_by_force_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """The receipts of the old master lie where others' lines are now; so they do in a group that
    nobody forced. Of a promotion whose opening nobody has a log of, nobody knows that.
    """
    boot = Boot("n1")
    for group in ("forced", "found", "unseen"):
        log = LogWriter(root(tmp_path, "n0", group))
        batches = fed(log, 6)
        copied(tmp_path, group)
        old = [(line, receipt, [b"other"] * 5) for line, receipt, _ in batches[4:]]
        feed(tmp_path, group, [*batches[:4], *old, *batches[4:]])
        if group == "unseen":
            heard = roles.PromotionRecorded(number=1, master="n2", before="n0")
            boot.say(1, f"roles/{group}", heard)
            continue
        begun = roles.GroupOpened(
            number=1,
            token=1,
            start_bytes=batches[4][1].first,
            heard=(),
            forced=group == "forced",
        )
        boot.say(1, f"roles/{group}", begun)
        acknowledged = ha.AppendsAcknowledged(
            first_bytes=0, next_bytes=log.offsets[-1] + 1, appends=1, records=1
        )
        boot.say(2, f"{group}/group_transfer", acknowledged)
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path, events_of(spark, boot))
    assert [(each["group"], each["line"]) for each in verdict.witnesses] == [
        ("found", 20),
        ("found", 25),
    ]
    for group in ("forced", "unseen"):
        said = f"{group}: a promotion that was forced, or may have been, gave up 2 receipts"
        assert said in verdict.note
    assert "found: a promotion" not in verdict.note


def test_what_power_or_upstream_may_take_is_a_warning(spark: SparkSession, tmp_path: Path) -> None:
    """Two groups are "written", but all stores of one of them were closed in order; in the others
    nothing is lost but by the rules.
    """
    said: dict[str, Any] = {
        "mode": "classic", "members": NODES, "java_members": (), "sure_copies": 2, "store": "file"
    }  # fmt: skip
    boot = Boot("n0")
    for group, durability, upstream, clean in (
        ("power", "written", False, False),
        ("orderly", "written", False, True),
        ("theirs", "synced", True, True),
        ("ours", "synced", False, True),
    ):
        short_slaves(tmp_path, group)
        promise = node.GroupConfigured(durability=durability, upstream=upstream, **said)
        boot.say(1, f"{group}/storage", promise)
        boot.say(2, f"{group}/storage/store", recovered(0))
        boot.say(3, f"{group}/storage/store", recovered(500, clean))
    events = events_of(spark, boot)
    for audit, expected in (
        (ACKNOWLEDGED_READABLE, {"orderly", "ours"}),
        (WRITTEN_READABLE, {"power", "theirs"}),
    ):
        verdict = judged(spark, audit, tmp_path, events)
        assert {each["group"] for each in verdict.witnesses} == expected
        assert verdict.findings == 6
        assert verdict.checked.rows == 40
    assert WRITTEN_READABLE.severity == "warning"
