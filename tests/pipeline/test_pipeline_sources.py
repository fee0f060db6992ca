"""The sources inside Spark: batches, streams that grow, and a user's mistakes."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sources_kit import GOLDEN, START_MS, LogWriter, entries, messages

from actors.pipeline import register, session
from actors.pipeline.errors import line_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> Callable[..., DataFrame]:
    register(spark)

    def load(form: str, path: object, **options: object) -> DataFrame:
        text = {key.rstrip("_"): str(value) for key, value in options.items()}
        return spark.read.format(form).options(**text).load(str(path))

    return load


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as Spark collects them: times in UTC without saying so, bytes as bytearrays."""
    return [
        {
            key: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
            for key, value in row.items()
        }
        for row in rows
    ]


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    order = [name for name in ("node", "offset") if name in frame.columns]
    return [row.asDict() for row in frame.orderBy(*order).collect()]


@pytest.mark.parametrize("node", ["4.9.7/master", "5.3.3/late"])
def test_rocketmqs_store_is_the_same_inside_spark(
    read: Callable[..., DataFrame], node: str
) -> None:
    frame = read(
        "rocketmq_commitlog", GOLDEN / "classic" / node, partition_bytes=30000, columns="*"
    )
    found = [
        row | {"body": bytes(row["body"]), "record": bytes(row["record"])}
        for row in collected(frame)
    ]
    wanted = plain(messages(GOLDEN / "classic" / node, columns="*"))
    assert found == [row | {"property_map": dict(row["property_map"])} for row in wanted]
    assert sum(bool(row["keys"]) for row in found) > 3


def test_dledgers_stores_are_the_same_inside_spark(read: Callable[..., DataFrame]) -> None:
    columns = "node,offset,size,damage,index,term,record_crc"
    frame = read("dledger_store", GOLDEN / "dledger/store-n*", columns=columns)
    assert collected(frame) == entries(GOLDEN / "dledger/store-n*", columns=columns)
    differ = frame.groupBy("offset").agg({"record_crc": "min", "*": "count"})
    assert differ.count() > 10


def test_the_example_reads_a_brokers_store(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["example"])
    monkeypatch.setattr(session, "open_session", lambda profile: spark)
    runpy.run_path(str(GOLDEN.parents[1] / "examples" / "spark_over_a_store.py"))
    said = capsys.readouterr().out
    assert "35 rows, 0 of them damage" in said
    assert "keys: array" in said
    assert "[key0]" in said


def test_damage_is_counted_by_sql(read: Callable[..., DataFrame], tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"x" * 200] * 40)
    writer.put(writer.offsets[5] + 100, b"!")
    writer.put(writer.offsets[9], b"\xff")
    frame = read("rocketmq_commitlog", tmp_path / "n0")
    frame.createOrReplaceTempView("log")
    found = frame.sparkSession.sql(
        "SELECT count(damage) damaged, count(*) rows, count_if(damage LIKE 'body%') crc,"
        " max(tags) tags, max(str_to_map(properties, chr(2), chr(1))['TAGS']) same FROM log"
    ).first()
    assert found is not None
    assert found.asDict() == {"damaged": 2, "rows": 40, "crc": 1, "tags": "red", "same": "red"}


def test_a_mistake_is_one_line(read: Callable[..., DataFrame], tmp_path: Path) -> None:
    LogWriter(tmp_path / "n0").append([b"x"] * 9)
    for options, line in (
        ({"path": tmp_path / "nowhere"}, f"{tmp_path}/nowhere: no such folder"),
        ({"path": tmp_path}, f"{tmp_path}: no store"),
        ({"path": tmp_path / "n0", "crc": "no"}, "option crc: expected true or false"),
        ({"path": tmp_path / "n0", "from_": 1}, "option from: no record of n0 begins at 1"),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark makes of it
            read("rocketmq_commitlog", **options).count()
        assert (line_of(caught.value) or "").startswith(line)


def test_damage_that_fails_is_named(read: Callable[..., DataFrame], tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"x" * 200] * 40)
    writer.put(writer.offsets[5] + 100, b"!")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        read("rocketmq_commitlog", tmp_path / "n0", damage="fail").count()
    assert line_of(caught.value) == f"n0: damage at offset {writer.offsets[5]}: body CRC is wrong"


def run_to_end(frame: DataFrame, folder: Path, *, dropped: list[int] | None = None) -> None:
    """One run with availableNow into Parquet; its checkpoint is kept beside."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if dropped is not None:
        for progress in query.recentProgress:
            for operator in progress["stateOperators"]:
                dropped.append(operator["numRowsDroppedByWatermark"])


def stream_of(spark: SparkSession, path: object, **options: object) -> DataFrame:
    text = {key: str(value) for key, value in options.items()}
    return spark.readStream.format("rocketmq_commitlog").options(**text).load(str(path))


def test_a_stream_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, read: Callable[..., DataFrame], tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"x" * 200] * 30)
    stream = stream_of(spark, tmp_path / "n0", columns="offset,body,damage", batch_bytes=4000)
    run_to_end(stream, tmp_path)
    data = writer.record(b"late" * 20, 5)
    writer.put(writer.end, data[:100])
    run_to_end(stream, tmp_path)
    assert spark.read.parquet(f"{tmp_path}/out").count() == 30
    writer.append([b"y" * 200] * 20)
    run_to_end(stream, tmp_path)
    found = spark.read.parquet(f"{tmp_path}/out").orderBy("offset").collect()
    assert [row["offset"] for row in found] == writer.offsets


def test_a_watermark_drops_nothing_of_logs_that_are_apart(
    spark: SparkSession, read: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """One log has 4 s in the bytes in which the other has 40."""
    for node, step_ms in (("n0", 40), ("n1", 400)):
        LogWriter(tmp_path / node).append([b"x" * 100] * 100, step_ms=step_ms)
    from pyspark.sql.functions import col, unix_millis, window

    stream = stream_of(
        spark, f"{tmp_path}/n*", columns="node,store_time", batch_bytes=10_000
    ).withWatermark("store_time", "100 milliseconds")
    counted = stream.groupBy(window("store_time", "1 second"), "node").count()
    dropped: list[int] = []
    run_to_end(counted, tmp_path, dropped=dropped)
    assert len(dropped) > 3
    assert sum(dropped) == 0
    found = spark.read.parquet(f"{tmp_path}/out").select(
        "node", "count", unix_millis(col("window.start")).alias("start")
    )
    by_node = {
        row["node"]: row["sum(count)"] for row in found.groupBy("node").sum("count").collect()
    }
    last_s = (START_MS + 99 * 400 - 100) // 1000  # windows behind the watermark are still open
    closed = sum(START_MS + number * 400 < last_s * 1000 for number in range(100))
    assert by_node == {"n0": 100, "n1": closed}
