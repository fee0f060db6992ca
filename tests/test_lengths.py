"""No file and no function is longer than one can hold in mind; CONTRIBUTING.md says how long.

A function's decorators do not count: a test's table of samples may stand there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for top in ("actors", "wire", "tests", "examples")
    for path in (ROOT / top).rglob("*.py")
)
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70


def too_long(source: str) -> Iterator[str]:
    """What of one file is, with its length."""
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name}: {lines} lines"


def test_no_file_and_no_function_is_too_long() -> None:
    assert len(SOURCES) > 600, "it looks where the sources are"
    found = [f"{path}: {each}" for path in SOURCES for each in too_long((ROOT / path).read_text())]
    assert not found, "\n".join(found)


def function(lines: int, head: str = "def f():") -> str:
    return f"{head}\n" + "    pass\n" * (lines - 1)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\n" * FILE_LINES_MAX, []),
        ("x = 1\n" * 701, ["701 lines"]),
        (function(70), []),
        (function(71), ["f: 71 lines"]),
        (function(71, "async def g():"), ["g: 71 lines"]),
        ("@decorated(\n    1,\n)\n" + function(70), []),
        ("class A:\n    def f(self):\n" + "        pass\n" * 70, ["f: 71 lines"]),
        ("def outer():\n    def f():\n" + "        pass\n" * 69, ["outer: 71 lines"]),
    ],
)
def test_planted_samples_are_found(source: str, expected: list[str]) -> None:
    assert list(too_long(source)) == expected
