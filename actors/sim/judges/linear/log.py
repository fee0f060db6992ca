"""Judges what clients saw of one replicated log, without a search.

Every entry has an index, so the order of the appends is known. It remains to find out whether all
that was seen is one log, and whether that order agrees with real time. The log's committed end only
grows, at each index at some moment:

- an append that returned index i: the end passed i between its call and its return;
- an append of unknown outcome whose payload was seen at i: the end passed i after its call;
- a fresh read that found the end e: at a moment between its call and its return the end was e;
- any other read that found the end e: the end was e at some moment before it returned.

In the order of indexes (a fresh read with end e stands before index e) these are intervals, and
there are such moments if and only if nothing returned before something was called that stands
before it: then each moment may be the latest call so far. So a sort and one pass decide.

Indexes may have gaps: a leader opens its term with an empty entry, which readers skip.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from itertools import groupby

import attrs

from actors.sim.judges.linear.operations import BEFORE_ALL, Operation

_SHOWN_MAX = 6
_PAYLOAD_CHARS = 24


@attrs.frozen
class Append:
    """Append one payload; the result is its index. A batch counts as several appends with the same
    times.
    """

    payload: bytes

    def __str__(self) -> str:
        return f"append {_short(self.payload)}"


@attrs.frozen
class ReadLog:
    """Read the log from an index on; the result is `Shown`.

    Attributes:
        start: the index of the first entry to read.
        fresh: whether the answer has to include everything that was acknowledged when the read was
            called. Without it any earlier state of the log may be shown, but only what was
            committed.
        session: a name for whatever promises that reads, one after the other, never go back, such
            as a node's incarnation; "": nothing promises it.
    """

    start: int
    fresh: bool = False
    session: str = ""

    def __str__(self) -> str:
        session = f" by {self.session}" if self.session else ""
        return f"read{' fresh' if self.fresh else ''} from {self.start}{session}"


@attrs.frozen
class Shown:
    """What a read saw.

    Attributes:
        entries: index and payload of all entries from its start on and below `next`.
        next: the index to read next, at least the start.
        end: the committed end as far as the read knows it: all entries below are committed.
    """

    entries: tuple[tuple[int, bytes], ...]
    next: int
    end: int

    def __str__(self) -> str:
        words = [f"{index}={_short(payload)}" for index, payload in self.entries[:_SHOWN_MAX]]
        if len(self.entries) > _SHOWN_MAX:
            words.append(f"and {len(self.entries) - _SHOWN_MAX} more")
        return f"{', '.join(words) or 'nothing'}; next {self.next}, end {self.end}"


def _short(payload: bytes) -> str:
    text = repr(payload)
    return text if len(text) <= _PAYLOAD_CHARS else f"{text[: _PAYLOAD_CHARS - 3]}..."


@attrs.define
class _Entry:
    """One index of the log. `append` is known at once if the append returned, and otherwise found
    by its payload.
    """

    payload: bytes
    append: Operation | None


class _Wrong(Exception):
    """The log cannot be as clients saw it; the text says why."""


def judge_one_log(operations: Sequence[Operation]) -> str | None:
    """Find the reason why no log can have shown this.

    Args:
        operations: `Append` and `ReadLog` operations on one log, in any order. Reads of unknown
            outcome are ignored. Equal payloads are allowed.

    Returns: the reason in words; None: there is such a log. The time grows with n log n for n
        operations, and with the number of entries that were read.

    Raises:
        TypeError: an operation is neither, or its result is of another type.
    """
    appends, reads = _sorted_out(operations)
    try:
        for read, shown in reads:
            _well_formed(read, shown)
        log = _one_log(appends, reads)
        _find_authors(log, appends)
        _nothing_left_out(log, reads)
        _in_time(log, reads)
        _sessions_go_on(reads)
    except _Wrong as wrong:
        return str(wrong)
    return None


_Reads = list[tuple[Operation, Shown]]


def _sorted_out(operations: Sequence[Operation]) -> tuple[list[Operation], _Reads]:
    appends, reads = [], []
    for each in sorted(operations, key=lambda each: each.called):
        known = each.returned is not None
        match each.action, each.result:
            case Append(), int() | None as index if known is (index is not None):
                appends.append(each)
            case ReadLog(), Shown() as shown if known:
                reads.append((each, shown))
            case ReadLog(), None if not known:
                pass
            case _:
                raise TypeError(f"neither an append nor a read of a log: {each}")
    return appends, reads


def _start(read: Operation) -> int:
    assert isinstance(read.action, ReadLog)
    return read.action.start


def _well_formed(read: Operation, shown: Shown) -> None:
    start, before = _start(read), _start(read) - 1
    for index, _ in shown.entries:
        if index <= before:
            raise _Wrong(f"a read shows index {index} after {before}")
        before = index
    if shown.next < start:
        raise _Wrong(f"a read from {start} says that next is {shown.next}")
    if before >= shown.next:
        raise _Wrong(f"a read shows index {before}, but says that next is {shown.next}")
    if shown.next > max(shown.end, start):
        raise _Wrong(f"a read goes up to {shown.next}, beyond the committed end {shown.end}")


def _one_log(appends: list[Operation], reads: _Reads) -> dict[int, _Entry]:
    """Return all entries that any operation shows."""
    log: dict[int, _Entry] = {}
    for each in appends:
        if each.returned is None:
            continue
        assert isinstance(each.action, Append)
        assert isinstance(each.result, int)
        if each.result in log:
            raise _Wrong(f"two appends were given index {each.result}")
        log[each.result] = _Entry(each.action.payload, each)
    for _, shown in reads:
        for index, payload in shown.entries:
            entry = log.setdefault(index, _Entry(payload, None))
            if entry.payload != payload:
                raise _Wrong(f"index {index} is {_short(entry.payload)} and {_short(payload)}")
    return log


def _find_authors(log: dict[int, _Entry], appends: list[Operation]) -> None:
    """Give each entry without a known author the append of unknown outcome with its payload.

    If several appends have it, the one called first gets the lowest index. Any other choice can
    only fit worse, because only the times of their calls are known.
    """
    asked: dict[bytes, Iterator[Operation]] = {}
    for payload, same in groupby(sorted(appends, key=_payload), key=_payload):
        asked[payload] = iter([each for each in same if each.returned is None])
    for index, entry in sorted(log.items()):
        if entry.append is None:
            if entry.payload not in asked:
                raise _Wrong(f"index {index} is {_short(entry.payload)}: no client appended that")
            entry.append = next(asked[entry.payload], None)
            if entry.append is None:
                times = f"{_short(entry.payload)} stands in the log more often than it was appended"
                raise _Wrong(f"{times}, also at index {index}")


def _payload(append: Operation) -> bytes:
    assert isinstance(append.action, Append)
    return append.action.payload


def _nothing_left_out(log: dict[int, _Entry], reads: _Reads) -> None:
    """Check that each read shows all known entries in its part of the log."""
    indexes = sorted(log)
    for read, shown in reads:
        low = bisect.bisect_left(indexes, _start(read))
        expected = indexes[low : bisect.bisect_left(indexes, shown.next, lo=low)]
        if len(expected) != len(shown.entries):
            seen = {index for index, _ in shown.entries}
            missing = next(index for index in expected if index not in seen)
            lost = f"index {missing} ({_short(log[missing].payload)})"
            raise _Wrong(f"a read from {_start(read)} up to {shown.next} leaves out {lost}")


@attrs.frozen
class _Moment:
    """Something that happened between a call and a return.

    Attributes:
        position: 2i + 1 for the moment when the end passed i, 2e for a moment when the end was e.
        called: when it was called; BEFORE_ALL for reads that are not fresh.
        returned: when it returned; None: never.
        what: a description for people.
    """

    position: int
    called: float
    returned: float | None
    what: str


def _in_time(log: dict[int, _Entry], reads: _Reads) -> None:
    moments = []
    for index, entry in log.items():
        author = entry.append
        assert author is not None
        what = f"the append of index {index}"
        moments.append(_Moment(2 * index + 1, author.called, author.returned, what))
    for read, shown in reads:
        assert isinstance(read.action, ReadLog)
        called = read.called if read.action.fresh else BEFORE_ALL
        what = f"a read that found the end {shown.end}"
        moments.append(_Moment(2 * shown.end, called, read.returned, what))
    moments.sort(key=lambda each: each.position)
    latest: _Moment | None = None
    for _, group in groupby(moments, key=lambda each: each.position):
        here = list(group)
        for each in here:
            if latest is not None and each.returned is not None and each.returned < latest.called:
                order = f"in the log, {latest.what} comes before {each.what}"
                raise _Wrong(f"{order}, although it was called after that had returned")
        newest = max(here, key=lambda each: each.called)
        if latest is None or newest.called > latest.called:
            latest = newest


def _sessions_go_on(reads: _Reads) -> None:
    sessions: dict[str, _Reads] = {}
    for read, shown in reads:
        assert isinstance(read.action, ReadLog)
        if read.action.session:
            sessions.setdefault(read.action.session, []).append((read, shown))
    for name, own in sessions.items():
        # In the order of their calls; those that return, in the order of their returns.
        returning = sorted(own, key=lambda pair: pair[0].returned or 0.0)
        returned, end = 0, 0
        for read, shown in own:
            while returning[returned][0].precedes(read):
                end = max(end, returning[returned][1].end)
                returned += 1
            if shown.end < end:
                raise _Wrong(f"{name} shows the end {shown.end} after it has shown {end}")
