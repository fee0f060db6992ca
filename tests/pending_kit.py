"""What is pending in a log, found by reading all of its records; tools are held against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from actors.log_types import Message
from actors.storage.tools.commitlog.pending import Pending
from wire.files.commit_log import Record, decode_record, scan

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKER = "CID_RMQ_SYS_TRANS"
Waiting: TypeAlias = tuple[dict[int, list[tuple[int, int]]], list[int]]
"""By level, queue offset and due time of each delayed message; queue offsets of half messages."""


def records_of(log: bytes) -> list[Record]:
    """Args: log: of one file."""
    return [decode_record(log, at) for at, _ in scan(log)[0]]


def pending_in(
    records: Sequence[Record],
    levels_ms: Sequence[int],
    delay: Mapping[int, int],
    half: int = 0,
    op: int = 0,
) -> Waiting:
    """Args: delay, half, op: the cursors."""
    delayed: dict[int, list[tuple[int, int]]] = {}
    decided: set[int] = set()
    for record in records:
        if record.topic == SCHEDULE:
            level = record.queue_id + 1
            due = record.store_ts + levels_ms[min(int(record.properties_map["DELAY"]), level) - 1]
            if record.queue_offset >= delay.get(level, 0):
                delayed.setdefault(level, []).append((record.queue_offset, due))
        elif record.topic == OP and record.queue_offset >= op:
            decided |= {int(number) for number in record.body.split(b",") if number}
    halves = [record.queue_offset for record in records if record.topic == HALF]
    return delayed, [number for number in halves if number >= half and number not in decided]


def said(found: Pending) -> tuple[dict[int, tuple[int, int, int | None, int | None]], list[int]]:
    """By level that has something: the first, the end, and when the first and the last are due;
    and half messages.
    """
    levels = {
        one.level: (one.next_offset, one.end_offset, one.due_ms, one.last_due_ms)
        for one in found.delayed
        if one.messages
    }
    for one in found.delayed:
        assert one.messages == one.end_offset - one.next_offset
    return levels, [each.queue_offset for queue in found.half for each in queue.messages]


def summed_up(wanted: Waiting) -> Any:
    """The same of what `pending_in` found."""
    levels = {
        level: (each[0][0], each[-1][0] + 1, each[0][1], each[-1][1])
        for level, each in wanted[0].items()
    }
    return levels, wanted[1]


def delayed(level: int, body: bytes = b"later") -> Message:
    """As a broker stores it, of a level that its group has."""
    properties = {"DELAY": str(level), "REAL_TOPIC": "Orders", "REAL_QID": "0"}
    return Message(SCHEDULE, body, properties=properties, queue_id=level - 1)


def half(name: str, checks: int = 0) -> Message:
    properties = {"REAL_TOPIC": "Orders", "PGROUP": "P", "UNIQ_KEY": name, "TRAN_MSG": "true"}
    if checks:
        properties["TRANSACTION_CHECK_TIMES"] = str(checks)
    return Message(HALF, name.encode(), properties=properties)


def op(*decided: int) -> Message:
    return Message(OP, "".join(f"{number}," for number in decided).encode(), "d")
