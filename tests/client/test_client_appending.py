"""Appending lines, in this process: what was read, what became of it, and the progress."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from api_kit import MemoryNode, sink_of

from actors.api.handle import NodeIdentity
from actors.client.appending import Appending, Progress, Rules, Summary, summary_lines
from actors.client.lines import open_source
from actors.errors import NotEnoughReplicas
from actors.log import Log

pytestmark = pytest.mark.real_io

TIMEOUT_S = 60.0


async def appended(
    node: MemoryNode,
    path: Path,
    shown: list[Progress] | None = None,
    rules: Rules = Rules(),  # noqa: B008 - frozen
) -> Summary:
    appending = Appending(Log(node, "orders"), "n0", open_source(str(path), "FILE"), rules)
    if shown is not None:
        appending.show = shown.append
    with trio.fail_after(TIMEOUT_S):
        return await appending.run()


async def test_progress_knows_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")
    shown: list[Progress] = []
    summary = await appended(MemoryNode(), path, shown)
    assert shown[-1] == Progress(lines=2, acknowledged=2, read_bytes=8, total_bytes=8)
    assert (summary.lines, summary.acknowledged, summary.bytes) == (2, 2, 6)


async def test_what_stands_before_a_line_that_is_too_long_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.client.appending.LINE_BYTES_MAX", 10)
    monkeypatch.setattr("actors.client.lines.READ_BYTES", 8)
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n" + b"x" * 11 + b"\n")
    node = MemoryNode()
    summary = await appended(node, path)
    assert node.stored == [b"one", b"two"]
    assert (summary.lines, summary.acknowledged, summary.error) == (2, 2, "LineTooLong")
    text = "the input's line 3 has 11 bytes, more than the client sends in one line, 10"
    assert re.sub("at least ", "", summary_lines(summary)[0]) == f"LineTooLong: {text}"


async def test_what_a_group_takes_less_than_the_client(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n\nfour\n\n" + b"x" * 11 + b"\n")
    node = MemoryNode()
    summary = await appended(node, path, rules=Rules(takes_empty=False, body_bytes_max=10))
    assert node.stored == [b"one", b"four"]
    assert (summary.lines, summary.acknowledged, summary.empty) == (2, 2, 2)
    assert summary_lines(summary)[:2] == [
        "LineTooLong: the input's line 5 has 11 bytes, more than orders takes in a record, 10",
        "2 empty lines were passed over: orders takes no empty records",
    ]


async def test_a_refusal_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 1000 + b"\n" * 20_000_000)
    identity = NodeIdentity(cluster="demo", node="n0", boot=1, groups=("orders",))
    node = MemoryNode(sink=sink_of("n0"), identity=identity, refuse=NotEnoughReplicas("one of two"))
    summary = await appended(node, path)
    assert (summary.error, summary.message) == ("NotEnoughReplicas", "one of two")
    assert (summary.acknowledged, summary.in_doubt, summary.next) == (0, 0, None)
    assert summary.lines < 1_000_000
