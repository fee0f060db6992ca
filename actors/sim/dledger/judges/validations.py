"""Validations of a DLedger group, checked once, when a run has converged and stopped in order.

Each is a function from plain data to what is wrong with it; `validate_ledger` fetches the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from actors.sim.dledger.judges.checkers import Chosen
from actors.sim.dledger.ledger_bytes import SimLedgers
from actors.sim.history import (
    AppendAnswered,
    AppendUnknown,
    History,
    Observation,
    RecordsRead,
    client_appends,
)
from actors.sim.judges.linear.judge import judge_log
from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation
from actors.storage.log.commit_log import segment_bases, segment_path
from wire.dledger.entry import BLANK_BYTES, INDEX_BYTES, IndexRecord, decode_index
from wire.dledger.scan import index_record, scan
from wire.files.scanned import Stop

TOLD_MAX: Final = 3


@attrs.frozen(kw_only=True)
class StoredLedger:
    """The content of a member's disk.

    Attributes:
        entries: the whole entries by index, as they lie in the data files.
        records: the index record that belongs to each entry.
        index: the records in the index files, by index.
        problem: why the data files hold no log; "" if they do.
    """

    entries: Mapping[int, bytes]
    records: Mapping[int, IndexRecord]
    index: Mapping[int, IndexRecord]
    problem: str = ""


def validate_ledger(logs: SimLedgers, chosen: Chosen, history: History, *, stopped: bool) -> None:
    """Judge what clients saw, and what is on the members' disks at the end.

    Args:
        stopped: whether all members hold the same and were stopped in order.
    """
    group = logs.group
    seen = client_operations(history.observations, group.name)
    history.judged("Linearizable", map(str, judge_log(seen)))
    if not stopped or group.store == "memory":
        return
    members = {name: stored_ledger(logs, name) for name in group.members}
    for name, stored in members.items():
        history.judged("LedgerIsWhole", filter(None, [stored.problem]), name)
        history.judged("IndexFitsLedger", index_fits(stored), name)
        history.judged("CommittedSurvives", holds(stored, chosen.entries), name)
    entries = {name: each.entries for name, each in members.items()}
    history.judged("LedgersEqual", ledgers_equal(entries))


def client_operations(observations: Sequence[Observation], group: str) -> list[Operation]:
    """Return what clients did to a group's log, for the judge; times are positions in the
    history.
    """
    found: list[Operation] = []
    for each in client_appends(observations, group):
        asked = partial(Operation, client=each.client, called=each.asked)
        match each.outcome:
            case AppendAnswered(receipt=receipt):
                assert receipt is not None
                found += [
                    asked(action=Append(body), returned=each.answered, result=index)
                    for index, body in enumerate(each.bodies, receipt.first)
                ]
            case AppendUnknown():
                found += [asked(action=Append(body)) for body in each.bodies]
    reads = enumerate(observations)
    return found + [
        _read(position, seen)
        for position, seen in reads
        if isinstance(seen, RecordsRead) and seen.group == group
    ]


def _read(position: int, seen: RecordsRead) -> Operation:
    batch = seen.batch
    return Operation(
        client=seen.node,
        action=ReadLog(start=seen.start, fresh=seen.fresh, session=f"{seen.node}#{seen.boot}"),
        called=seen.asked,
        returned=position,
        result=Shown(
            entries=tuple((record.position, record.body) for record in batch.records),
            next=batch.next,
            end=batch.acknowledged,
        ),
    )


# ---- disks ----


def stored_ledger(logs: SimLedgers, node: str) -> StoredLedger:
    """Read all files of a member."""
    disk, layout, size = logs.disk(node), logs.layout(node), logs.group.data_file_bytes
    entries: dict[int, bytes] = {}
    records: dict[int, IndexRecord] = {}
    problem = ""
    for base in segment_bases(disk, layout.commit_log):
        data = disk.inode(segment_path(layout.commit_log, base)).read(0, size)
        start = 0
        if not entries and int.from_bytes(data[:4], "big", signed=True) == -1:
            start = int.from_bytes(data[4:BLANK_BYTES], "big")  # re-based into this file
        heads, stop = scan(data, start, pos=base + start)
        for head in heads:
            if entries and head.index - 1 not in entries:
                problem = problem or f"{head.index} does not follow"
            entries[head.index] = data[head.at : head.at + head.size]
            records[head.index] = index_record(head)
        if stop.stop not in (Stop.BLANK, Stop.UNWRITTEN, Stop.END):
            problem = problem or f"{base + stop.end}: {stop.stop.name} {stop.reason}"
    return StoredLedger(entries=entries, records=records, index=_index(logs, node), problem=problem)


def _index(logs: SimLedgers, node: str) -> dict[int, IndexRecord]:
    disk, layout, size = logs.disk(node), logs.layout(node), logs.group.index_file_bytes
    found = {}
    for base in segment_bases(disk, layout.index):
        data = disk.inode(segment_path(layout.index, base)).read(0, size)
        for number, record in enumerate(decode_index(data), base // INDEX_BYTES):
            if record.magic:
                found[number] = record
    return found


def index_fits(stored: StoredLedger) -> Iterator[str]:
    """The index has the right record of every entry, and none after the last one."""
    last = max(stored.records, default=-1)
    wrong = [
        f"index record {index} is {stored.index.get(index)}, the entry {record}"
        for index, record in stored.records.items()
        if stored.index.get(index) != record
    ]
    wrong += [f"index record {index} without an entry" for index in stored.index if index > last]
    yield from wrong[:TOLD_MAX]


def holds(stored: StoredLedger, chosen: Sequence[bytes]) -> Iterator[str]:
    """Every entry that was ever called committed is there, except those that have expired."""
    begin = min(stored.entries, default=0)
    wrong = [
        f"{index} is not what was committed"
        for index, entry in enumerate(chosen[begin:], begin)
        if stored.entries.get(index) != entry
    ]
    yield from wrong[:TOLD_MAX]


def ledgers_equal(members: Mapping[str, Mapping[int, bytes]]) -> Iterator[str]:
    """An entry that two members have is the same, byte for byte, at the same position, and all logs
    end at the same entry.
    """
    first, *others = members
    for other in others:
        one, two = members[first], members[other]
        if max(one, default=-1) != max(two, default=-1):
            yield f"{first} ends with {max(one, default=-1)}, {other} with {max(two, default=-1)}"
        wrong = [index for index in one.keys() & two.keys() if one[index] != two[index]]
        if wrong:
            yield f"{first} and {other} differ at {min(wrong)}"
