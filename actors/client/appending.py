"""The command `append`: appends lines of a file or a pipe to a group's log, and counts what became
of them.

Each line is one record. In the end every line that was sent is acknowledged, not stored, or in
doubt; the summary says so by line numbers of the input, and from which line on nothing was sent.
When a node is lost, the next appender sends the lines that were not stored, and with `again` also
those in doubt; apart from these, lines keep their order. The feed (`actors.cluster.feed`) works
alike, but keeps a file of what was acknowledged, so nothing is in doubt at its end. A DLedger group
takes no empty records (`node.ledger` says why), so empty lines are skipped there and counted.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import attrs
import trio

from actors.client.lines import CHUNKS_WAITING_MAX, Chunk, LineTooLong, read_lines
from actors.client.members import pause_s
from actors.client.report import error_text
from actors.client.status_text import range_text
from actors.config.kind import unit_word
from actors.errors import OutcomeUnknown, TriologError
from actors.group_status import group_status
from actors.log import Appender, Log
from actors.log_types import NewRecord
from actors.readable import counted

LINE_BYTES_MAX = 4 << 20
"""Upstream's largest message; a group may allow less."""
LIMIT = "the client sends in one line"
LOOK_S = 0.1

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last of each run of neighbours."""


@attrs.frozen(kw_only=True)
class Summary:
    """What became of the lines.

    Attributes:
        lines: how many lines were sent.
        empty: how many lines were skipped because the group takes no empty records.
        acknowledged: how many of `lines` have a receipt.
        in_doubt: how many of `lines`, at most, have an unknown outcome.
        bytes: the size of all lines that were sent, without newlines.
        sent_again: how many lines were in doubt when they were sent once more.
        next: the position after the last acknowledged record; None: there is none.
        unit: what positions of the log count, "bytes" or "entries"; "": an older node does not say.
        error: the class of the error that ended the command before the input, or that came from the
            input; `message` has its text. None: there was none.
        first, last: the positions in doubt, if `error` names them.
        in_doubt_to: the position after these; None: unknown, as of an older node.
        in_doubt_from: no line in doubt is below this position; None: unknown.
        in_doubt_lines, not_stored_lines: the numbers of these lines in the input, counted from 1.
        unsent_from: no line of the input from this number on was sent. None: the input was read to
            its end, and all of it was sent. A line that is in none of these three fields is
            acknowledged, or was empty and skipped.
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
    sent_again: int = 0
    error: str | None = None
    message: str | None = None
    first: int | None = None
    last: int | None = None
    in_doubt_to: int | None = None
    in_doubt_from: int | None = None
    in_doubt_lines: Ranges = ()
    not_stored_lines: Ranges = ()
    unsent_from: int | None = None
    unit: str = ""


@attrs.frozen
class Progress:
    """How far the command is, for a progress bar.

    Attributes:
        total_bytes: the size of the input; None: it is not known.
    """

    lines: int
    acknowledged: int
    read_bytes: int
    total_bytes: int | None


@attrs.frozen(kw_only=True)
class Rules:
    """Which records a group takes.

    Attributes:
        takes_empty: whether it takes empty records.
        body_bytes_max: the largest body; None: it is not known, and the node will refuse a line
            that is larger.
        unit: see `Summary`.
    """

    takes_empty: bool = True
    body_bytes_max: int | None = None
    unit: str = ""

    @classmethod
    def of(cls, status: Mapping[str, Any], group: str) -> Rules:
        """Return the rules in a node's status; the defaults if an older node does not name them."""
        own = group_status(status, group)
        if own is None:
            return cls()
        return cls(
            takes_empty=own.takes_empty, body_bytes_max=own.body_bytes_max, unit=own.terms.unit
        )


@attrs.frozen
class _Again:
    """A line that was sent and has no receipt, to be sent once more.

    Attributes:
        line: the record.
        place: the numbers of two lines of the input: of the first of the empty lines that were
            skipped before this line (or of the line itself), and of this line.
        in_doubt: whether its outcome is unknown.
    """

    line: NewRecord
    place: tuple[int, int]
    in_doubt: bool


@attrs.define
class Appending:
    """One run of the command.

    Attributes:
        node: the name of the node that takes the lines, for the summary.
        descriptor: the input, which is read to its end and closed.
        rules: which lines the group takes.
        again: whether the next appender sends lines in doubt once more.
        goes_on: returns whether another appender may go on after this failure.
        show: called with the progress, ten times a second.
    """

    log: Log
    node: str
    descriptor: int
    rules: Rules = Rules()
    again: bool = False
    goes_on: Callable[[Exception], bool] = lambda failure: False
    show: Callable[[Progress], None] = lambda progress: None
    _lines: int = 0
    _bytes: int = 0
    _empty: int = 0
    _acknowledged: int = 0
    _next: int | None = None
    _pending: deque[bytes] = attrs.field(factory=deque)
    _to_send_again: list[_Again] = attrs.field(factory=list)
    _sent: list[_Again] = attrs.field(factory=list)  # of these, what the appender has
    _places: deque[tuple[int, int]] = attrs.field(factory=deque)  # of unanswered lines
    _answered: int = 0  # how many lines have left `_places`
    _given_up: list[tuple[int, int]] = attrs.field(factory=list)  # in doubt, not to be sent again
    _in_doubt_from: int | None = None
    _sent_again: int = 0
    _appender: Appender | None = None
    _reading: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _read_failure: LineTooLong | OSError | None = None
    _read_all: bool = False
    _sent_all: bool = False
    _unsent_from: int = 1

    def stop(self) -> None:
        """Stop reading; what was read is still appended."""
        self._reading.cancel()

    async def run(self) -> Summary:
        """Append all lines and wait for their receipts. Errors are in the summary, and not raised.

        Lines before one that is too long, or that cannot be read, are appended.
        """
        begun_s = trio.current_time()
        failure: Exception | None = None
        total_bytes = _total_bytes(self.descriptor)
        put, get = trio.open_memory_channel[Chunk](CHUNKS_WAITING_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, total_bytes)
            nursery.start_soon(self._read, put)
            failure, reason = await self._append_all(get)
            nursery.cancel_scope.cancel()
        self.show(self._progress(total_bytes))
        if failure is None and self._read_failure is not None:
            failure, reason = self._read_failure, error_text(self._read_failure)
        return self._summary(failure, reason, trio.current_time() - begun_s)

    async def _read(self, put: trio.MemorySendChannel[Chunk]) -> None:
        most, limit = LINE_BYTES_MAX, LIMIT
        its_most = self.rules.body_bytes_max
        if its_most is not None and its_most < most:
            most, limit = its_most, f"{self.log.name} takes in a record"
        try:
            with self._reading:
                await read_lines(self.descriptor, [put], line_bytes_max=most, limit=limit)
                self._read_all = True
        except (LineTooLong, OSError) as error:
            self._read_failure = error  # what was read before it is appended first

    async def _append_all(
        self, get: trio.MemoryReceiveChannel[Chunk]
    ) -> tuple[TriologError | None, str]:
        """Append all lines, with one appender after the other.

        Returns: the first failure since the last receipt, of which later ones are consequences, and
            its text; None and "" if all lines have receipts.
        """
        first: TriologError | None = None
        since_s = trio.current_time()
        while True:
            before = self._acknowledged
            failure = await self._use_one_appender(get)
            if failure is None:
                return None, ""
            if first is None or self._acknowledged > before:
                first, since_s = failure, trio.current_time()
            if not self.goes_on(failure):
                text = error_text(first)
                return first, text if failure is first else f"{text}; {error_text(failure)}"
            await trio.sleep(pause_s(since_s))

    async def _use_one_appender(self, get: trio.MemoryReceiveChannel[Chunk]) -> TriologError | None:
        self._appender = appender = self.log.appender()
        failure: TriologError | None = None
        self._sent, self._places, self._answered = [], deque(), 0
        try:
            async with appender:
                await self._send_again(appender)
                await self._send(get, appender)
        except TriologError as error:
            failure = error
        self._take_stock(appender)
        return failure

    async def _send_again(self, appender: Appender) -> None:
        for line in self._to_send_again:
            await appender.send(line.line)
            self._sent_again += line.in_doubt
            self._sent.append(line)
            self._places.append(line.place)

    async def _send(self, get: trio.MemoryReceiveChannel[Chunk], appender: Appender) -> None:
        pending = self._pending
        while True:
            while pending:
                line = pending[0]
                if line or self.rules.takes_empty:
                    await appender.send(line)
                    self._lines += 1
                    self._bytes += len(line)
                    number = self._lines + self._empty
                    self._places.append((self._unsent_from, number))
                    self._unsent_from = number + 1
                else:
                    self._empty += 1
                pending.popleft()
            self._forget_answered(appender)
            try:
                pending.extend(await get.receive())
            except trio.EndOfChannel:
                self._sent_all = True
                return

    def _forget_answered(self, appender: Appender) -> None:
        """Forget the places of the lines that have an answer, so that memory stays bounded."""
        for _ in range(appender.unanswered_from - self._answered):
            self._places.popleft()
        self._answered = appender.unanswered_from

    def _take_stock(self, appender: Appender) -> None:
        """Sort the lines of an appender that has ended: acknowledged, in doubt, or to be sent
        again. The lines in `_sent` were its first.
        """
        self._appender = None
        self._acknowledged += appender.acknowledged_count
        if appender.last_receipt is not None:
            self._next = appender.last_receipt.next
        kept: list[_Again] = []
        for left in appender.left():
            before = left.number < len(self._sent) and self._sent[left.number].in_doubt
            place = self._places[left.number - self._answered]
            if left.in_doubt and not self._given_up:
                self._in_doubt_from = self._next
            if left.in_doubt and not self.again:
                self._given_up.append(place)
            else:
                kept.append(_Again(left.record, place, left.in_doubt or before))
        self._to_send_again = kept + self._to_send_again[len(self._sent) :]

    async def _look(self, total_bytes: int | None) -> None:
        while True:
            self.show(self._progress(total_bytes))
            await trio.sleep(LOOK_S)

    def _progress(self, total_bytes: int | None) -> Progress:
        now = self._appender.acknowledged_count if self._appender is not None else 0
        return Progress(
            lines=self._lines,
            acknowledged=self._acknowledged + now,
            read_bytes=self._bytes + self._lines + self._empty,  # each with its newline
            total_bytes=total_bytes,
        )

    def _summary(self, failure: Exception | None, reason: str, seconds: float) -> Summary:
        unknown = failure if isinstance(failure, OutcomeUnknown) else None
        doubted = [line.place for line in self._to_send_again if line.in_doubt]
        in_doubt = sorted(self._given_up + doubted)
        return Summary(
            group=self.log.name,
            node=self.node,
            lines=self._lines,
            acknowledged=self._acknowledged,
            in_doubt=len(in_doubt),
            bytes=self._bytes,
            seconds=round(seconds, 3),
            next=self._next,
            unit=self.rules.unit,
            empty=self._empty,
            sent_again=self._sent_again,
            error=type(failure).__name__ if failure else None,
            message=reason or None,
            first=unknown.first if unknown else None,
            last=unknown.last if unknown else None,
            in_doubt_to=unknown.next if unknown else None,
            in_doubt_from=self._in_doubt_from if in_doubt else None,
            in_doubt_lines=_ranges(in_doubt),
            not_stored_lines=_ranges(
                line.place for line in self._to_send_again if not line.in_doubt
            ),
            unsent_from=None if self._read_all and self._sent_all else self._unsent_from,
        )

    @property
    def unanswered_from(self) -> int:
        """The number of the first line of the input that has no answer, sent or to be sent again.

        All lines before it are acknowledged, in doubt because their appender ended, or skipped.
        """
        if self._appender is not None:
            self._forget_answered(self._appender)
        to_come = (line.place for line in self._to_send_again[len(self._sent) :])
        _, line = next(chain(self._places, to_come), (0, self._unsent_from))
        return line


def _total_bytes(descriptor: int) -> int | None:
    """Return how many bytes of a regular file remain to be read; None for another kind of file."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return None
    return max(0, found.st_size - os.lseek(descriptor, 0, os.SEEK_CUR))


def _ranges(places: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges of line numbers of ascending places; skipped empty lines end no range."""
    found: list[tuple[int, int]] = []
    for first, number in places:
        if found and found[-1][1] == first - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return tuple(found)


def _spans(ranges: Ranges) -> Iterator[str]:
    for first, last in ranges:
        yield f"line {first}" if first == last else f"lines {first} to {last}"


def _go_on(summary: Summary) -> str:
    """Say with which lines of the input to go on; "" if every line was sent and stored."""
    ranges, unsent = summary.not_stored_lines, summary.unsent_from
    if unsent is not None and ranges and ranges[-1][1] == unsent - 1:
        ranges, unsent = ranges[:-1], ranges[-1][0]
    if unsent is not None:
        ranges = *ranges, (unsent, unsent)
    if not ranges:
        return ""
    fates = {
        "acknowledged": summary.acknowledged,
        "in doubt": summary.in_doubt,
        "passed over": summary.empty,
    }
    others = " or ".join(fate for fate, count in fates.items() if count)
    behind = "" if unsent is None else " and all after it"
    text = f"go on with {', '.join(_spans(ranges))} of the input{behind}"
    return f"{text}; the others are {others}" if others else text


def summary_lines(summary: Summary) -> list[str]:
    """Describe a summary for people: the failure first, and in the last line the whole."""
    rate = summary.acknowledged / summary.seconds if summary.seconds else 0.0
    lines = [] if summary.error is None else [f"{summary.error}: {summary.message}"]
    one = unit_word(summary.unit)
    if summary.in_doubt:
        first = summary.in_doubt_from if summary.first is None else summary.first
        if first is None:
            where = "at unknown positions"
        elif summary.unit and summary.in_doubt_to is not None:
            where = f"at {range_text(summary.unit, first, summary.in_doubt_to)}"
        else:
            where = f"from {one} {first} on"
        if spans := ", ".join(_spans(summary.in_doubt_lines)):
            where = f"{where}: {spans} of the input"
        lines.append(f"{counted(summary.in_doubt, 'line')} may be stored, or not, {where}")
    refused = summary.lines - summary.acknowledged - summary.in_doubt
    if refused:
        lines.append(f"not stored: {counted(refused, 'line')}")
    if summary.sent_again:
        lines.append(
            f"{counted(summary.sent_again, 'line')} in doubt went out again: stored once or twice"
        )
    if summary.empty:
        are = counted(summary.empty, "empty line was", "empty lines were")
        lines.append(f"{are} passed over: {summary.group} takes no empty records")
    lines += filter(None, [_go_on(summary)])
    end = "" if summary.next is None else f"; the log goes on at {one} {summary.next}"
    lines.append(
        f"{summary.acknowledged:,} of {counted(summary.lines, 'line')} acknowledged in"
        f" {summary.group}"
        f" by {summary.node}, {summary.seconds:.2f} s, {rate:.0f} lines/s{end}"
    )
    return lines
