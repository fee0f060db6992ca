"""`append`: lines of a file or a pipe into a group's log, each one record; what became of them.

Every line that was handed over is accounted for at the end: acknowledged, not stored, or in doubt.
A DLedger group takes no empty records (`node.ledger` says why): empty lines are passed over there
and counted, as a feed does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from actors.client.lines import CHUNKS_WAITING_MAX, Chunk, LineTooLong, read_lines
from actors.client.report import error_text
from actors.errors import OutcomeUnknown, TriologError
from actors.log import Appender, Log

LINE_BYTES_MAX = 4 << 20
"""Upstream's largest message. A group may allow less."""
LIMIT = "the client sends in one line"
LOOK_S = 0.1


@attrs.frozen(kw_only=True)
class Summary:
    """What became of the lines.

    Attributes:
        lines: handed to the appender.
        empty: lines that were passed over, as the group takes no empty records.
        acknowledged: of `lines`, with a receipt.
        in_doubt: of these, at most so many with an unknown outcome.
        bytes: of all lines handed over.
        next: the position after the last acknowledged record; None without any.
        error: why it ended before the input did, or that the input could not be read: the class's
            name; `message` has its words.
        first, last: with an unknown outcome, the positions in doubt, if the node told them.
    """

    group: str
    node: str
    lines: int
    acknowledged: int
    in_doubt: int
    bytes: int
    seconds: float
    next: int | None
    empty: int = 0
    error: str | None = None
    message: str | None = None
    first: int | None = None
    last: int | None = None


@attrs.frozen
class Progress:
    """How far it is, for a bar. `total_bytes`: of the input, None if that is not known."""

    lines: int
    acknowledged: int
    read_bytes: int
    total_bytes: int | None


@attrs.frozen(kw_only=True)
class Rules:
    """What a group takes.

    Attributes:
        takes_empty: empty records.
        body_bytes_max: the largest; None: not known, then its node refuses the line.
    """

    takes_empty: bool = True
    body_bytes_max: int | None = None

    @classmethod
    def of(cls, status: Mapping[str, Any], group: str) -> Rules:
        """As a node's status says them; an older node does not."""
        said = status.get("groups", {}).get(group, {})
        return cls(
            takes_empty=said.get("takes_empty", True), body_bytes_max=said.get("body_bytes_max")
        )


@attrs.define
class Appending:
    """One run of the command. `stop` ends the reading; what was read is appended.

    Attributes:
        node: whom it talks to, for the summary.
        descriptor: read to its end, and closed.
        rules: which lines the group takes.
        show: takes the progress, ten times a second.
    """

    log: Log
    node: str
    descriptor: int
    rules: Rules = Rules()
    show: Callable[[Progress], None] = lambda progress: None
    _lines: int = 0
    _bytes: int = 0
    _empty: int = 0
    _acknowledged: Callable[[], int] = lambda: 0
    _reading: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _read_failure: LineTooLong | OSError | None = None

    def stop(self) -> None:
        """Read no more."""
        self._reading.cancel()

    async def run(self) -> Summary:
        """Append all lines and wait for their receipts; what went wrong is in the summary.

        Lines before one that is too long, or cannot be read, are appended.
        """
        begun_s = trio.current_time()
        failure: TriologError | OSError | None = None
        total_bytes = _total_bytes(self.descriptor)
        put, get = trio.open_memory_channel[Chunk](CHUNKS_WAITING_MAX)
        appender = self.log.appender()
        self._acknowledged = lambda: appender.acknowledged_count
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, total_bytes)
            nursery.start_soon(self._read, put)
            try:
                async with appender:
                    await self._send(get, appender)
            except TriologError as error:
                failure = error
            nursery.cancel_scope.cancel()
        self.show(self._progress(total_bytes))
        failure = failure or self._read_failure
        return self._summary(appender, failure, trio.current_time() - begun_s)

    async def _read(self, put: trio.MemorySendChannel[Chunk]) -> None:
        most, limit = LINE_BYTES_MAX, LIMIT
        its_most = self.rules.body_bytes_max
        if its_most is not None and its_most < most:
            most, limit = its_most, f"{self.log.name} takes in a record"
        try:
            with self._reading:
                await read_lines(self.descriptor, [put], line_bytes_max=most, limit=limit)
        except (LineTooLong, OSError) as error:
            self._read_failure = error  # what was read before it is appended first

    async def _send(self, get: trio.MemoryReceiveChannel[Chunk], appender: Appender) -> None:
        async for chunk in get:
            for line in chunk:
                if not line and not self.rules.takes_empty:
                    self._empty += 1
                    continue
                await appender.send(line)
                self._lines += 1
                self._bytes += len(line)

    async def _look(self, total_bytes: int | None) -> None:
        while True:
            self.show(self._progress(total_bytes))
            await trio.sleep(LOOK_S)

    def _progress(self, total_bytes: int | None) -> Progress:
        return Progress(
            lines=self._lines,
            acknowledged=self._acknowledged(),
            read_bytes=self._bytes + self._lines + self._empty,  # each with its newline
            total_bytes=total_bytes,
        )

    def _summary(
        self, appender: Appender, failure: TriologError | OSError | None, seconds: float
    ) -> Summary:
        acknowledged = appender.acknowledged_count
        unknown = failure if isinstance(failure, OutcomeUnknown) else None
        receipt = appender.last_receipt
        return Summary(
            group=self.log.name,
            node=self.node,
            lines=self._lines,
            acknowledged=acknowledged,
            in_doubt=self._lines - acknowledged if unknown else 0,
            bytes=self._bytes,
            seconds=round(seconds, 3),
            next=receipt.next if receipt else None,
            empty=self._empty,
            error=type(failure).__name__ if failure else None,
            message=error_text(failure) if failure else None,
            first=unknown.first if unknown else None,
            last=unknown.last if unknown else None,
        )


def _total_bytes(descriptor: int) -> int | None:
    """What is left of a regular file."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return None
    return max(0, found.st_size - os.lseek(descriptor, 0, os.SEEK_CUR))


def _lines(count: int) -> str:
    return f"{count} line" if count == 1 else f"{count} lines"


def summary_lines(summary: Summary) -> list[str]:
    """The summary for people; a failure comes first, and the last line is about all of it."""
    rate = summary.acknowledged / summary.seconds if summary.seconds else 0.0
    lines = [] if summary.error is None else [f"{summary.error}: {summary.message}"]
    if summary.in_doubt:
        if summary.first is not None:
            where = f"at positions {summary.first} to {summary.last}"
        elif summary.next is not None:
            where = f"at positions from {summary.next} on"
        else:
            where = "at unknown positions"
        lines.append(f"{_lines(summary.in_doubt)} may be stored, or not, {where}")
    refused = summary.lines - summary.acknowledged - summary.in_doubt
    if refused:
        lines.append(f"not stored: {_lines(refused)}")
    if summary.empty:
        are = "an empty line was" if summary.empty == 1 else f"{summary.empty} empty lines were"
        lines.append(f"{are} passed over: {summary.group} takes no empty records")
    end = "" if summary.next is None else f", next position {summary.next}"
    lines.append(
        f"{summary.acknowledged} of {_lines(summary.lines)} acknowledged in {summary.group}"
        f" by {summary.node}, {summary.seconds:.2f} s, {rate:.0f} lines/s{end}"
    )
    return lines
