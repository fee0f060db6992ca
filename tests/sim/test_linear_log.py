"""What a replicated log may show, and each thing it may not."""

from __future__ import annotations

import pytest
from linear_kit import did

from actors.sim.judges.linear.judge import judge_log
from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation

A, B = Append(b"a"), Append(b"b")
FRESH, STALE = ReadLog(0, fresh=True), ReadLog(0)


def shown(*entries: tuple[int, bytes], end: int, upto: int | None = None) -> Shown:
    return Shown(entries, end if upto is None else upto, end)


A0, B1 = (0, b"a"), (1, b"b")

BROKEN: dict[str, tuple[list[Operation], str]] = {
    "lost append": (
        [did("c", 1, 2, A, 0), did("d", 3, 4, B, 1), did("e", 5, 6, FRESH, shown(B1, end=2))],
        "leaves out index 0",
    ),
    "stale read that is said to be fresh": (
        [did("c", 1, 2, A, 0), did("d", 3, 4, FRESH, shown(end=0))],
        "a read that found the end 0 comes before the append of index 0",
    ),
    "reordered appends": (
        [did("c", 1, 2, A, 1), did("d", 3, 4, B, 0)],
        "the append of index 0 comes before the append of index 1",
    ),
    "one index twice": (
        [did("c", 1, 4, A, 0), did("d", 2, 3, B, 0)],
        "two appends were given index 0",
    ),
    "duplicated append": (
        [did("c", 1, 2, A, 0), did("d", 3, 4, FRESH, shown(A0, (1, b"a"), end=2))],
        "more often than it was appended",
    ),
    "unknown outcome duplicated": (
        [did("c", 1, None, A), did("d", 3, 4, STALE, shown(A0, (1, b"a"), end=2))],
        "more often than it was appended",
    ),
    "what nobody appended, or what was refused": (
        [did("d", 3, 4, STALE, shown(A0, end=1))],
        "no client appended that",
    ),
    "another payload": (
        [
            did("c", 1, 2, A, 0),
            did("c", 1, None, B),
            did("d", 3, 4, FRESH, shown((0, b"b"), end=1)),
        ],
        "index 0 is b'a' and b'b'",
    ),
    "uncommitted and later vanished": (
        [
            did("c", 1, None, A),
            did("d", 2, 3, STALE, shown(A0, end=1)),
            did("e", 4, 5, FRESH, shown(end=1)),
        ],
        "leaves out index 0",
    ),
    "uncommitted and later replaced": (
        [
            did("c", 1, None, A),
            did("d", 2, 3, STALE, shown(A0, end=1)),
            did("e", 4, 5, B, 0),
        ],
        "index 0 is b'b' and b'a'",
    ),
    "seen before it was committed for others": (
        [
            did("c", 1, None, A),
            did("d", 2, 3, STALE, shown(A0, end=1)),
            did("e", 4, 5, FRESH, shown(end=0)),
        ],
        "a read that found the end 0 comes before a read that found the end 1",
    ),
    "future read": (
        [did("d", 1, 2, STALE, shown(A0, end=1)), did("c", 3, 4, A, 0)],
        "the append of index 0 comes before a read that found the end 1",
    ),
    "append below an end that was seen": (
        [did("d", 1, 2, STALE, shown(end=1, upto=0)), did("c", 3, 4, A, 0)],
        "the append of index 0 comes before a read that found the end 1",
    ),
    "unknown outcome that took effect before its call": (
        [did("d", 1, 2, B, 1), did("c", 3, None, A), did("e", 4, 5, STALE, shown(A0, B1, end=2))],
        "the append of index 0 comes before the append of index 1",
    ),
    "end that goes back": (
        [did("d", 1, 2, FRESH, shown(end=3)), did("e", 3, 4, FRESH, shown(end=2))],
        "a read that found the end 2 comes before a read that found the end 3",
    ),
    "read beyond the committed end": (
        [did("c", 1, None, A), did("d", 1, 2, STALE, shown(A0, end=0, upto=1))],
        "beyond the committed end 0",
    ),
    "read that shows more than it says": (
        [did("c", 1, None, A), did("d", 1, 2, STALE, shown(A0, end=1, upto=0))],
        "says that next is 0",
    ),
    "read that goes backwards": (
        [did("d", 1, 2, ReadLog(3), Shown((), 2, 5))],
        "a read from 3 says that next is 2",
    ),
    "read out of order": (
        [did("c", 1, 2, A, 0), did("c", 3, 4, B, 1), did("d", 5, 6, FRESH, shown(B1, A0, end=2))],
        "shows index 0 after 1",
    ),
    "session that goes back": (
        [
            did("c", 1, 2, A, 0),
            did("d", 3, 4, ReadLog(0, session="n1#2"), shown(A0, end=1)),
            did("d", 5, 6, ReadLog(0, session="n1#2"), shown(end=0)),
        ],
        "n1#2 shows the end 0 after it has shown 1",
    ),
}

GOOD: dict[str, list[Operation]] = {
    "gaps": [
        did("c", 1, 2, A, 1),
        did("c", 3, 4, B, 4),
        did("d", 5, 6, FRESH, shown((1, b"a"), (4, b"b"), end=6)),
        did("d", 7, 8, ReadLog(2), shown((4, b"b"), end=5)),
    ],
    "a part": [
        did("c", 1, 2, A, 0),
        did("c", 3, 4, B, 1),
        did("d", 5, 6, FRESH, shown(A0, end=2, upto=1)),
        did("d", 7, 8, ReadLog(1, fresh=True), shown(B1, end=2)),
    ],
    "beyond the end": [did("c", 1, 2, A, 0), did("d", 3, 4, ReadLog(9), Shown((), 9, 1))],
    "stale": [did("c", 1, 2, A, 0), did("d", 3, 4, STALE, shown(end=0))],
    "another session may be behind": [
        did("c", 1, 2, A, 0),
        did("d", 3, 4, ReadLog(0, session="n1#2"), shown(A0, end=1)),
        did("d", 5, 6, ReadLog(0, session="n1#3"), shown(end=0)),
    ],
    "committed while it was read": [
        did("c", 1, 9, A, 0),
        did("d", 2, 3, FRESH, shown(end=0)),
        did("d", 4, 5, FRESH, shown(A0, end=1)),
    ],
    "unknown outcome that never took effect": [
        did("c", 1, None, A),
        did("d", 2, 3, B, 0),
        did("e", 4, 5, FRESH, shown((0, b"b"), end=1)),
    ],
    "unknown outcome that took effect late": [
        did("c", 1, None, A),
        did("d", 2, 3, B, 0),
        did("e", 4, 5, FRESH, shown((0, b"b"), end=1)),
        did("e", 6, 7, FRESH, shown((0, b"b"), (1, b"a"), end=2)),
    ],
    "retry of an unknown outcome that took effect too": [
        did("c", 1, None, A),
        did("c", 2, 3, A, 1),
        did("e", 4, 5, FRESH, shown(A0, (1, b"a"), end=2)),
    ],
    "equal payloads, the first called first": [
        did("c", 8, None, A),
        did("c", 1, None, A),
        did("e", 4, 5, FRESH, shown(A0, end=1)),
        did("e", 9, 10, FRESH, shown(A0, (1, b"a"), end=2)),
    ],
    "read of unknown outcome": [did("c", 1, 2, A, 0), did("d", 3, None, FRESH)],
}


@pytest.mark.parametrize(("history", "reason"), BROKEN.values(), ids=BROKEN)
def test_each_anomaly_is_rejected(history: list[Operation], reason: str) -> None:
    (finding,) = judge_log(history)
    assert reason in str(finding)


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_what_may_be_is_accepted(history: list[Operation]) -> None:
    assert judge_log(history) == []


@pytest.mark.parametrize(
    "foreign",
    [
        did("c", 1, 2, "append", 0),
        did("c", 1, 2, A),
        did("c", 1, 2, A, b"0"),
        did("c", 1, None, A, 0),
        did("c", 1, 2, FRESH),
        did("c", 1, None, FRESH, shown(end=0)),
    ],
    ids=str,
)
def test_what_is_no_append_or_read_is_a_type_error(foreign: Operation) -> None:
    with pytest.raises(TypeError, match="neither an append nor a read"):
        judge_log([foreign])
