"""Text of others reaches people readable: at every place that prints."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.client import command_line, report
from actors.client.arguments import Status
from actors.cluster.links import Links
from actors.cluster.run import Run
from actors.config.command_line import complain, say
from actors.log_types import Record
from actors.readable import (
    DEPTH_MAX,
    readable,
    readable_json,
    readable_lines,
    readable_values,
)

ROOT = Path(__file__).parents[1]
WILD = "\x1b[2J\x9b31m\u202egnorw\u2066\x00\x7f\u2028\U000e0041\nn9: all is well"
SEEN = (
    "\\u001b[2J\\u009b31m\\u202egnorw\\u2066\\u0000\\u007f\\u2028\\udb40\\udc41"
    "\\u000an9: all is well"
)


def unseen(text: str) -> list[str]:
    """What a terminal would obey, or nobody would see."""
    return [each for each in text if not each.isprintable() and each not in "\n\u00a0\u3000"]


def test_what_is_not_seen_is_shown() -> None:
    assert readable(WILD) == SEEN
    assert readable("\ud800") == "\\ud800"
    for plain in ("", "äöü 漢字 → ✓ 😀", "no\u00a0break\u3000wide", "a\\u001b"):
        assert readable(plain) == plain
    assert readable("x" * 9 + "\x1b", 10) == "xxxxxxxxx…"


def test_lines_and_tabs_stay_in_lines() -> None:
    assert readable_lines("a\tb\n\x1bc\r\n") == "a\tb\n\\u001bc\\u000d\n"


def test_json_means_the_same() -> None:
    value = {"by": WILD, "n": [WILD, 1, None, {"x": "ü"}]}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        shown = readable_json(text.encode())
        assert json.loads(shown) == value
        assert unseen(shown.decode()) == []


def test_values_of_every_depth() -> None:
    value = {WILD: [WILD, (1, WILD), {"x": WILD, "y": 1.5, "z": None, "t": True}]}
    assert readable_values(value) == {
        SEEN: [SEEN, (1, SEEN), {"x": SEEN, "y": 1.5, "z": None, "t": True}]
    }
    deep: Any = WILD
    for _ in range(3 * DEPTH_MAX):
        deep = [deep]
    assert unseen(json.dumps(readable_values(deep), ensure_ascii=False)) == []


# The edges. Each was seen to print what it was given as it was.


def test_what_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"one\n{WILD}")
    complain(f"triolog: {WILD}")
    printed = capsys.readouterr()
    assert printed.err == f"triolog: {SEEN}\n"
    assert unseen(printed.out) == []


def test_notes_of_a_run() -> None:
    notes: list[str] = []
    run = Run(config=None, links=None, on_note=notes.append)  # type: ignore[arg-type]
    run.note(WILD)
    assert notes == [SEEN]


def test_records_as_json() -> None:
    record = Record(
        position=0,
        next_position=100,
        topic=WILD,
        queue_id=0,
        queue_offset=0,
        body=WILD.encode(),
        tags=WILD,
        keys=(WILD,),
        properties=((WILD, WILD),),
        store_timestamp_ms=1,
        born_timestamp_ms=1,
    )
    line = report.record_json(record)
    assert unseen(line.decode()) == []
    assert json.loads(line)["body"] == WILD


class Wild:
    """A node of somebody else's, which says what it likes."""

    async def status(self) -> dict[str, Any]:
        return {"node": WILD, "cluster": WILD, "state": WILD, "boot": WILD, "groups": {}}

    async def tree(self) -> dict[str, Any]:
        return {"path": WILD, "name": WILD, "children": []}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What a client's command wrote."""
    found: list[bytes] = []

    async def write(descriptor: int, data: bytes) -> None:
        found.append(data)

    monkeypatch.setattr(command_line, "write_out", write)
    return found


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "lines"])
async def test_the_clients_status(as_json: bool, printed: list[bytes]) -> None:
    await command_line._status(Wild(), Status(json=as_json))  # type: ignore[arg-type]
    text = printed[0].decode()
    assert unseen(text) == []
    assert "\nn9: all is well" not in text


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
async def test_bodies_are_shown_to_a_terminal_and_given_to_a_pipe(
    terminal: bool, printed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.isatty", lambda descriptor: terminal)
    body = WILD.encode() + b"\xff\x9b\n"
    await command_line._writer()(body)
    assert unseen(printed[0].decode()) == [] if terminal else printed == [body]


async def test_the_views_of_a_run() -> None:
    links = Links(names=("n0",), connect=None)  # type: ignore[arg-type]
    await links._look("n0", Wild())  # type: ignore[arg-type]
    assert links.views()[0].state == SEEN
    links._lose("n0", ExceptionGroup("", [OSError(WILD)]), 0)
    assert links.views()[0].detail == SEEN


WRITES = {
    # What prints, and what it prints passes through there.
    "actors/client/command_line.py": {"write_out": 3},
    "actors/client/lines.py": {"os.write": 1},
    "actors/cluster/painter.py": {"os.write": 1},
    "actors/config/command_line.py": {"sys.stdout.write": 1, "sys.stderr.write": 1},
    "actors/follow/command_line.py": {"sys.stdout.write": 2},
    "actors/storage/tools/command_line.py": {"sys.stderr.write": 4, "write_out": 2},
}
"""The pipeline's prints are in `tests/pipeline/test_pipeline_command.py`; `cluster/child.py` and
`env/` write to pipes, sockets and files.
"""
NO_TERMINAL = (
    "actors/env/",
    "actors/cluster/child.py",
    "actors/own_process.py",
    "actors/pipeline/",
    "actors/sim/",  # what it prints was made by its own seed
)
PRINTERS = ("print", "write_out", "os.write", "sys.stdout.write", "sys.stderr.write")


def called(tree: ast.Module) -> Iterator[str]:
    """What is called, and what is handed on to be called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield ast.unparse(node)


def test_nothing_else_prints() -> None:
    """What prints elsewhere has to be readable too, and to be named here."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted((ROOT / "actors").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(NO_TERMINAL):
            continue
        names = [each for each in called(ast.parse(path.read_text())) if each in PRINTERS]
        if names:
            found[name] = {each: names.count(each) for each in sorted(set(names))}
    assert found == {path: dict(sorted(calls.items())) for path, calls in WRITES.items()}


@pytest.mark.parametrize("text", [WILD, f"n0 {WILD}"])
def test_the_stream_itself_takes_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the terminal knows no UTF-8, and of halves of pairs."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    say(text + "\ud800")
    out.seek(0)
    assert unseen(out.read()) == []
