"""Columns for every event, and the lines that nodes write fit them."""

from __future__ import annotations

import typing
from typing import Any

import attrs
import pytest
from lines_kit import Boot, typed_of
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from actors.events.codec import KINDS, LoggedEvent, _Head
from actors.pipeline import event_files, silver
from actors.pipeline.event_schema import (
    ENVELOPE,
    SchemaConflict,
    all_fields,
    fields_of,
    spark_type,
    union_of,
)

SAMPLES: dict[object, Any] = {
    int: 2**62,
    float: 0.5,
    str: 'a "word" \u2713',
    bool: True,
    tuple[str, ...]: ("a", ""),
    tuple[int, ...]: (2**62, 0),
}


def sample(cls: type) -> Any:
    """An event with a value in every field."""
    hints = typing.get_type_hints(cls)
    return cls(**{field.name: SAMPLES[hints[field.name]] for field in attrs.fields(cls)})


def test_the_envelope_is_the_lines_own() -> None:
    assert tuple(ENVELOPE.names) == _Head.__struct_fields__
    assert event_files._Head.__struct_fields__ == _Head.__struct_fields__
    assert {*ENVELOPE.names} | {"event"} == {field.name for field in attrs.fields(LoggedEvent)} | {
        "kind"
    }
    for name, hint in typing.get_type_hints(_Head).items():
        assert ENVELOPE[name].dataType == spark_type(hint), name


def test_every_line_that_a_node_can_write_is_read_whole(spark: SparkSession) -> None:
    """One event of each kind, through the encoder: every column has what was said."""
    boot = Boot("n0")
    said = [sample(cls) for cls in KINDS.values()]
    for event in said:
        boot.say(1, "orders/x", event)
    table = typed_of(spark, boot).cache()
    found = {row["kind"]: row for row in table.collect()}
    assert len(found) == len(KINDS) > 70
    for event in said:
        row = found[type(event).__name__]
        assert not row["mistyped"]
        assert row["line"] is None
        for name, value in attrs.asdict(event, recurse=False).items():
            expected = list(value) if isinstance(value, tuple) else value
            assert row[name] == expected, f"{row['kind']}.{name}"
    assert table.schema.names == silver.SCHEMA.names
    assert [f.dataType for f in table.schema] == [f.dataType for f in silver.SCHEMA]


def test_a_kinds_columns_are_its_fields() -> None:
    for kind, cls in KINDS.items():
        assert fields_of(kind).names == sorted(field.name for field in attrs.fields(cls))
    assert {*all_fields().names} == {f.name for cls in KINDS.values() for f in attrs.fields(cls)}


def test_types() -> None:
    assert spark_type(tuple[int, ...]) == ArrayType(LongType())
    assert spark_type(float | None) == DoubleType()
    for hint in (bytes, tuple[int, str], int | str, dict[str, int]):
        with pytest.raises(SchemaConflict, match="no column type"):
            spark_type(hint)


def test_one_name_with_two_types_is_refused() -> None:
    one = StructType([StructField("a", LongType()), StructField("b", StringType())])
    other = StructType([StructField("b", LongType())])
    assert union_of({"One": one, "Same": one}) == one
    with pytest.raises(SchemaConflict, match=r"Other\.b is bigint, and in One it is string"):
        union_of({"One": one, "Other": other})
