"""A simulated run, and the same with our own code broken: the audits see what the checkers see."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "sim"))

from broken_store import torn_record_kept
from pyspark.sql import SparkSession
from seeds_kit import play
from stores_kit import judged

from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE
from actors.pipeline.audits.data_replicas import REPLICAS_EQUAL
from actors.sim.script_file import load_plan

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
