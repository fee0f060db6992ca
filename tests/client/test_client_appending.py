"""Appending lines, in this process: what was read, what became of it, and the progress."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
from api_kit import MemoryNode, sink_of

from actors.api.handle import NodeIdentity
from actors.client.appending import Appending, Progress, Rules, Summary, summary_lines
from actors.client.lines import open_source
from actors.errors import LeadershipLost, LogFull, NodeStopped, NotEnoughReplicas, NotMaster
from actors.log import AppendOutcome, Log
from actors.log_types import Chain, NewRecord

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
    assert summary_lines(summary)[-2] == "go on with line 1 of the input and all after it"


@pytest.mark.parametrize("in_doubt", [False, True])
async def test_with_which_lines_to_go_on_after_an_end(tmp_path: Path, in_doubt: bool) -> None:
    """Empty lines count in the input, though nothing of them is sent."""
    path = tmp_path / "lines"
    path.write_bytes(b"\n" + b"".join(line + b"\n\n" for line in LINES) + b"last")
    failure = NodeStopped("gone") if in_doubt else LogFull("no room")
    node = Failing(fails={2: failure})
    summary = await appended(node, path, rules=Rules(takes_empty=False))
    assert node.stored == LINES[:2]  # lines 2 and 4 of the input
    assert summary.in_doubt_lines == (((6, 6),) if in_doubt else ())
    *_, left, last = summary_lines(summary)
    fates = "acknowledged or in doubt or passed over" if in_doubt else "acknowledged or passed over"
    line = "[78]" if in_doubt else "6"  # whether the line behind it was handed over, too
    assert re.fullmatch(
        f"go on with line {line} of the input and all after it; the others are {fates}", left
    )
    assert last.startswith(f"2 of {summary.lines} lines acknowledged in orders by n0, ")


async def test_what_an_interrupt_leaves_of_the_input_is_said(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    node = MemoryNode()
    source = os.open(path, os.O_RDWR)
    appending = Appending(Log(node, "orders"), "n0", open_source(str(path), "FILE"))
    try:
        os.write(source, b"one\ntwo\nhalf a li")
        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop_behind, node, 2, appending)
                summary = await appending.run()
    finally:
        os.close(source)
    assert (summary.lines, summary.acknowledged, summary.error) == (2, 2, None)
    text = "go on with line 3 of the input and all after it; the others are acknowledged"
    assert summary_lines(summary)[:-1] == [text]


async def stop_behind(node: MemoryNode, count: int, appending: Appending) -> None:
    while len(node.stored) < count:
        await trio.lowlevel.checkpoint()
    appending.stop()


@attrs.define(eq=False)
class Failing(MemoryNode):
    """Fails batches by their number, counted over all appenders; those in `stored_too` it keeps."""

    fails: dict[int, Exception] = attrs.Factory(dict)
    stored_too: tuple[int, ...] = ()
    came: int = -1

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        self.came += 1
        failure = self.fails.get(self.came)
        if failure is None or self.came in self.stored_too:
            await MemoryNode.submit(
                self, group, records, (lambda _: on_done(failure)) if failure else on_done
            )
        else:
            await trio.lowlevel.checkpoint()
            on_done(failure)


LINES = [bytes([65 + number]) * 300_000 for number in range(6)]
"""Each is a batch."""


async def over_a_loss(tmp_path: Path, node: Failing, *, again: bool = False) -> Summary:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in LINES))
    appending = Appending(
        Log(node, "orders"),
        "n0",
        open_source(str(path), "FILE"),
        again=again,
        goes_on=lambda failure: not isinstance(failure, NotEnoughReplicas),
    )
    with trio.fail_after(TIMEOUT_S):
        return await appending.run()


async def test_what_was_not_stored_goes_to_the_next_leader(tmp_path: Path) -> None:
    node = Failing(fails={2: NotMaster("n1 leads", "n1")})
    summary = await over_a_loss(tmp_path, node)
    assert sorted(bytes(line) for line in node.stored) == LINES  # type: ignore[arg-type]
    assert (summary.lines, summary.acknowledged, summary.in_doubt) == (6, 6, 0)
    assert (summary.error, summary.message, summary.sent_again) == (None, None, 0)


@pytest.mark.parametrize("stored", [False, True])
async def test_lines_in_doubt_are_counted_and_left(tmp_path: Path, stored: bool) -> None:
    node = Failing(fails={2: NodeStopped("gone")}, stored_too=(2,) if stored else ())
    summary = await over_a_loss(tmp_path, node)
    expected = LINES if stored else [*LINES[:2], *LINES[3:]]
    assert sorted(bytes(line) for line in node.stored) == expected  # type: ignore[arg-type]
    assert (summary.lines, summary.acknowledged, summary.in_doubt) == (6, 5, 1)
    assert (summary.error, summary.in_doubt_from) == (None, 200)
    text = "1 line may be stored, or not, from position 200 on: line 3 of the input"
    assert summary_lines(summary)[:-1] == [text]


async def test_lines_in_doubt_are_sent_again_if_asked(tmp_path: Path) -> None:
    node = Failing(fails={2: LeadershipLost("no more"), 3: NodeStopped("gone")}, stored_too=(2,))
    summary = await over_a_loss(tmp_path, node, again=True)
    assert {bytes(line) for line in node.stored} == set(LINES)  # type: ignore[arg-type]
    assert len(node.stored) == 7
    assert (summary.lines, summary.acknowledged, summary.in_doubt) == (6, 6, 0)
    assert (summary.error, summary.sent_again) == (None, 2)
    assert summary_lines(summary)[0] == "2 lines in doubt went out again: stored once or twice"


async def test_a_line_stays_in_doubt_though_it_is_refused_then(tmp_path: Path) -> None:
    """What was in doubt and is not taken a second time may be stored all the same."""
    refused = NotEnoughReplicas("one of two")
    node = Failing(fails={0: NodeStopped("gone"), **dict.fromkeys(range(1, 20), refused)})
    summary = await over_a_loss(tmp_path, node, again=True)
    assert node.stored == []
    assert (summary.acknowledged, summary.in_doubt, summary.in_doubt_from) == (0, 1, None)
    assert summary.error == "NodeStopped"
    assert summary.message == "gone; one of two"
    first, doubt, *_ = summary_lines(summary)
    assert first == "NodeStopped: gone; one of two"
    assert doubt == "1 line may be stored, or not, at unknown positions: line 1 of the input"
