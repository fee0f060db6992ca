"""Spark's view of an event's line, derived from the event catalogue.

The table of types, in which nothing is left to Spark's guessing:

| Catalogue | Spark |
|---|---|
| int | bigint |
| float | double |
| str | string |
| bool | boolean |
| tuple[T, ...] | array of T |
| T or None | T; every column may be null |

A new event needs nothing here. A line of an older catalogue has null where it lacks a field; what a
newer one has beyond ours stays in the line, which bronze keeps.
"""

from __future__ import annotations

import types
import typing
from functools import cache

import attrs
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from actors.events.codec import KINDS

CORRUPT = "_corrupt"
"""The column in which Spark's JSON reader puts a line that does not fit the schema."""

ENVELOPE = StructType(
    [
        StructField("node", StringType()),
        StructField("boot", LongType()),
        StructField("seq", LongType()),
        StructField("path", StringType()),
        StructField("incarnation", LongType()),
        StructField("ts_us", LongType()),
        StructField("kind", StringType()),
    ]
)
"""The columns that every event has, in the order of the line (`actors.events.codec.LoggedEvent`).
"""

_SCALARS: dict[object, type[DataType]] = {
    int: LongType,
    float: DoubleType,
    str: StringType,
    bool: BooleanType,
}


class SchemaConflict(TypeError):
    """The catalogue has a field that no column can hold."""


def spark_type(hint: object) -> DataType:
    """Return the column type for a field's type. Raises: SchemaConflict: there is none."""
    if hint in _SCALARS:
        return _SCALARS[hint]()
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return ArrayType(spark_type(args[0]))
    if origin in (types.UnionType, typing.Union):
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) == 1:
            return spark_type(rest[0])
    raise SchemaConflict(f"no column type for {hint}")


@cache
def fields_of(kind: str) -> StructType:
    """Return the columns of one kind beside the envelope, ordered by name. Raises: KeyError."""
    cls = KINDS[kind]
    hints = typing.get_type_hints(cls)
    names = sorted(field.name for field in attrs.fields(cls))
    return StructType([StructField(name, spark_type(hints[name])) for name in names])


@cache
def all_fields() -> StructType:
    """Return the columns of all kinds together, ordered by name."""
    return union_of({kind: fields_of(kind) for kind in KINDS})


def union_of(kinds: dict[str, StructType]) -> StructType:
    """Return the columns of several kinds together, ordered by name.

    Raises: SchemaConflict: two kinds have a field of the same name and of different types.
    """
    found: dict[str, tuple[str, StructField]] = {}
    for kind, fields in kinds.items():
        for field in fields:
            first, known = found.setdefault(field.name, (kind, field))
            if known.dataType != field.dataType:
                raise SchemaConflict(
                    f"{kind}.{field.name} is {field.dataType.simpleString()}, "
                    f"and in {first} it is {known.dataType.simpleString()}"
                )
    return StructType([found[name][1] for name in sorted(found)])


def line_schema() -> StructType:
    """Return the schema for reading whole lines: every field of every kind, then CORRUPT."""
    return StructType([*all_fields(), StructField(CORRUPT, StringType())])
