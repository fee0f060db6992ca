"""No step uses what only one kind of Spark has. `clusters.py` runs them on three kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import clusters
import pytest

PIPELINE = Path(clusters.ROOT, "actors/pipeline")
CLASSIC = frozenset(
    {"sparkContext", "rdd", "toDF", "_jvm", "_jsc", "_jdf", "_jsparkSession", "_sc"}
)
"""What a Spark Connect client does not have."""
ONE_PLACE = frozenset({"master"})
"""What only `session` may say: elsewhere it is the user's word."""


def used(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr


@pytest.mark.parametrize(
    "path", sorted(PIPELINE.rglob("*.py")), ids=lambda path: str(path.relative_to(PIPELINE))
)
def test_no_step_knows_where_it_runs(path: Path) -> None:
    banned = CLASSIC if path.name == "session.py" else CLASSIC | ONE_PLACE
    assert banned.isdisjoint(used(path))


def test_a_row_too_many_another_value_and_a_table_less_are_differences() -> None:
    one = {"lag": ["a", "b"], "alarms": ["x"], "verdicts": ["held"]}
    assert clusters.differences(one, dict(one)) == []
    other = {"lag": ["a", "b", "b"], "alarms": ["y"]}
    assert clusters.differences(one, other) == [
        "alarms: 1 and 1 rows, as x",
        "lag: 0 and 0 rows, as another order or number",
        "verdicts: 1 and 0 rows, as held",
    ]
