"""The sources inside Spark: batches, streams that grow, and a user's mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sources_kit import GOLDEN, LogWriter, entries, messages

from actors.pipeline.sources.log_source import register
from actors.pipeline.sources.mistakes import line_of

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
    frame = read("rocketmq_commitlog", GOLDEN / "classic" / node, partition_bytes=30000)
    found = [row | {"body": bytes(row["body"])} for row in collected(frame)]
    assert found == plain(messages(GOLDEN / "classic" / node))


def test_dledgers_stores_are_the_same_inside_spark(read: Callable[..., DataFrame]) -> None:
    columns = "node,offset,size,damage,index,term,record_crc"
    frame = read("dledger_store", GOLDEN / "dledger/store-n*", columns=columns)
    assert collected(frame) == entries(GOLDEN / "dledger/store-n*", columns=columns)
    differ = frame.groupBy("offset").agg({"record_crc": "min", "*": "count"})
    assert differ.count() > 10


def test_damage_is_counted_by_sql(read: Callable[..., DataFrame], tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append([b"x" * 200] * 40)
    writer.put(writer.offsets[5] + 100, b"!")
    writer.put(writer.offsets[9], b"\xff")
    frame = read("rocketmq_commitlog", tmp_path / "n0")
    frame.createOrReplaceTempView("log")
    found = frame.sparkSession.sql(
        "SELECT count(damage) damaged, count(*) rows, count_if(damage LIKE 'body%') crc,"
        " str_to_map(max(properties), chr(2), chr(1))['TAGS'] tags FROM log"
    ).first()
    assert found is not None
    assert found.asDict() == {"damaged": 2, "rows": 40, "crc": 1, "tags": "red"}


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
