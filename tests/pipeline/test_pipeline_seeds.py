"""A simulated run, and the same with our own code broken: the audits see what the checkers see."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "sim"))

from broken_store import torn_record_kept
from lines_kit import bronze_of
from pyspark.sql import SparkSession
from seeds_kit import play
from stores_kit import judged

from actors.pipeline import event_files, silver
from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE
from actors.pipeline.audits.data_record import records_in
from actors.pipeline.audits.data_replicas import REPLICAS_EQUAL
from actors.pipeline.locations import Location
from actors.sim.commands.script_file import load_plan

FORCED = """
seed = "1"
nodes = 3
duration_s = 8.0
policy = "in order"
script = ["at 3.0 force_promote n1 for 2.0 extra 2.0"]
[settings]
copies = 2
durability = "synced"
segment_bytes = 65536
reconnect_interval_s = 0.5
[load]
appenders = 1
pause_mean_s = 0.3
batch_max = 1
body_mean_bytes = 300
readers = 1
"""
"""A slave that lacks two seconds is made the master by force: what was told in them is gone.
Some of it lies where nothing that was fed since does.
"""
SCRIPT = Path(__file__).parents[1] / "scripts" / "mutations" / "torn_record_kept.toml"


def test_audits_agree_with_the_checkers(spark: SparkSession, tmp_path: Path) -> None:
    """Four slaves lose their power in the middle of a record; broken, one keeps a part of it."""
    plan, checker = load_plan(SCRIPT.read_text(encoding="utf-8"))
    good = play(plan, "good-", tmp_path)
    broken = play(plan, "bad-", tmp_path, torn_record_kept)
    assert good.checkers == []
    assert checker in broken.checkers
    replicas = judged(spark, REPLICAS_EQUAL, tmp_path)
    assert {each["group"] for each in replicas.witnesses} == {"bad-orders"}
    receipts = judged(spark, ACKNOWLEDGED_READABLE, tmp_path)
    assert not [each for each in receipts.witnesses if each["group"] == "good-orders"]
    compared = [log for log in replicas.checked.logs if log.group == "good-orders"]
    assert len(compared) == plan.nodes
    assert receipts.checked.rows >= good.acknowledged > 0


def test_what_force_gave_up_is_in_the_record_and_no_finding(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As the clients', a feed's record has all that was told. The events say what was forced."""
    plan, _ = load_plan(FORCED)
    played = play(plan, "f-", tmp_path)
    assert played.checkers == []
    assert played.given_up > 0
    (record,) = records_in(Location(str(tmp_path)), ["f-orders"])
    told = sum(each.count for each in record.receipts)
    assert told == played.acknowledged + played.given_up
    files = sorted(tmp_path.rglob("*.jsonl.gz"))
    lines = [line for path in files for line in event_files.lines_of(path.read_bytes())]
    events = silver.typed(bronze_of(spark, lines))
    verdict = judged(spark, ACKNOWLEDGED_READABLE, tmp_path, events)
    assert (verdict.verdict, verdict.witnesses) == ("held", ())
    assert f"may have been, gave up {played.given_up} receipts" in verdict.note
