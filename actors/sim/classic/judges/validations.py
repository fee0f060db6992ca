"""Validations of a classic group. They judge once, when a run was healed, has converged and was
stopped in order.

Each is a function from plain data to texts about what is wrong with it, so that a test can give it
broken data. `validate` takes the data from the history and the disks. Invariants are in `checkers`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import attrs

from actors.config import CommitLogGroup
from actors.sim.classic.judges.derived import (
    NO_ENTRY,
    IndexFileContent,
    Units,
    damaged,
    first_lost,
    first_unfit,
    first_wrong,
    index_files,
    queue_units,
    underived,
)
from actors.sim.classic.log_bytes import LogBytes
from actors.sim.cluster import SimCluster
from actors.sim.history import (
    AppendAnswered,
    AppendRefused,
    ClientAppend,
    History,
    Observation,
    RecordsRead,
    client_appends,
    given_up,
)
from actors.storage.derived.queue_files import QueueKey
from actors.storage.log.commit_log import segment_bases
from actors.storage.node.event_reader import BootSummary, read_events, summarize
from wire.errors import RemoteProtocolError
from wire.files.commit_log import Record, Stop, decode_record, scan_heads
from wire.files.index_file import (
    index_keys,
    key_hash,
)
from wire.files.record_scan import RecordHead


@attrs.frozen(kw_only=True)
class StoredLog:
    """A node's decoded log: its whole records from the beginning.

    Attributes:
        end: where the records end, as an offset.
        problem: what is wrong there; "" if nothing is.
    """

    heads: tuple[RecordHead, ...]
    records: tuple[Record, ...]
    end: int
    problem: str = ""


def validate(
    cluster: SimCluster,
    group: CommitLogGroup,
    history: History,
    logs: LogBytes,
    *,
    shown_stays: bool = True,
) -> None:
    """Judge the disks of all members; violations are added to the history.

    All members have to hold the same range, and every node has to be stopped in order.

    Args:
        shown_stays: whether what any node has shown has to be there.
    """
    done = client_appends(history.observations)
    kept = without_given_up(done, history.observations)
    members = {name: decode_log(group, logs, name) for name in group.members}
    lacks = underived(group, history.observations)
    rotten = damaged(group, history.observations)
    for name, stored in members.items():
        layout = cluster.layout(name, group.name)
        disk = cluster.disk(name)
        queues = queue_units(disk, layout.consume_queue)
        index = index_files(disk, layout.index, group.index_slots_count)
        begin, lack = min(segment_bases(disk, layout.commit_log), default=0), lacks[name]
        for checker, problems in (
            ("LogIsWhole", filter(None, [stored.problem])),
            ("AcknowledgedSurvives", acknowledged_survives(kept, stored)),
            ("NothingTwice", nothing_twice(done, stored)),
            ("QueuesFitLog", queues_fit(stored, queues, begin, lack, rotten[name].queues)),
            ("IndexFitsLog", index_fits(stored, index, begin, lack, rotten[name].index)),
        ):
            history.judged(checker, problems, name)
    end = max(stored.end for stored in members.values())
    end += -end % group.segment_bytes
    history.judged("LogsEqual", logs_equal({name: logs.written(name, 0, end) for name in members}))
    history.judged("AppendsInOrder", appends_in_order(kept))
    if shown_stays:
        history.judged("ReadsSurvive", reads_survive(history.observations, members[logs.master]))
    for name in cluster.names:
        disk = cluster.disk(name)
        boots = summarize(read_events(disk, f"{cluster.config.node_dir(name)}/events"))
        history.judged("EventsGapless", events_gapless(boots, cluster.world.node(name).boots))


# ---- from observations and disks to plain data ----


def without_given_up(
    done: Iterable[ClientAppend], observations: Sequence[Observation]
) -> list[ClientAppend]:
    """Return the appends without those that a forced promotion gave up.

    These were acknowledged, but do not end below the offset at which the forced master opened its
    log. If a client did not learn positions, all of its records count as given up.
    """
    cuts = [
        (at, end) for at, seen in enumerate(observations) if (end := given_up(seen)) is not None
    ]

    def is_given_up(each: ClientAppend) -> bool:
        if each.answered is None or not isinstance(each.outcome, AppendAnswered):
            return False
        receipt = each.outcome.receipt
        next_bytes = math.inf if receipt is None else receipt.next
        return any(each.answered < at and next_bytes > end for at, end in cuts)

    return [each for each in done if not is_given_up(each)]


def decode_log(group: CommitLogGroup, logs: LogBytes, node: str) -> StoredLog:
    """Decode a node's log as far as it holds records, file by file."""
    heads: list[RecordHead] = []
    records: list[Record] = []
    base, size = 0, group.segment_bytes
    while data := logs.written(node, base, base + size):
        found, stopped = scan_heads(data, physical_offset=base)
        for head in found:
            try:
                records.append(decode_record(data, head.physical_offset - base))
            except RemoteProtocolError as error:
                return StoredLog(
                    heads=tuple(heads),
                    records=tuple(records),
                    end=head.physical_offset,
                    problem=f"offset {head.physical_offset}: {error}",
                )
            heads.append(head)
        if stopped.stop not in (Stop.BLANK, Stop.END):
            bad = stopped.stop is not Stop.UNWRITTEN or any(data[stopped.end :])
            return StoredLog(
                heads=tuple(heads),
                records=tuple(records),
                end=base + stopped.end,
                problem=f"offset {base + stopped.end}: {stopped.reason or 'odd bytes'}" * bad,
            )
        base += size
    return StoredLog(heads=tuple(heads), records=tuple(records), end=base)


# ---- judging ----


def acknowledged_survives(done: Iterable[ClientAppend], stored: StoredLog) -> Iterator[str]:
    """Check that every acknowledged record is where its receipt says, whole and in order."""
    positions = {record.body: number for number, record in enumerate(stored.records)}
    for each in done:
        outcome = each.outcome
        if not isinstance(outcome, AppendAnswered):
            continue
        found = [positions.get(body) for body in each.bodies]
        numbers = [number for number in found if number is not None]
        if len(numbers) < len(found):
            lost = len(found) - len(numbers)
            yield f"{lost} of {len(found)} acknowledged records of #{each.operation} are missing"
            continue
        if numbers != sorted(numbers):
            yield f"the records of #{each.operation} are not in the order of their append"
        if outcome.receipt is None:
            continue
        last = stored.records[numbers[-1]]
        ends = (stored.records[numbers[0]].physical_offset, last.physical_offset)
        if ends != (outcome.receipt.first, outcome.receipt.last):
            yield f"#{each.operation} lies at {ends}, its receipt says {outcome.receipt}"
        if numbers[-1] - numbers[0] != len(numbers) - 1:
            yield f"other records lie between those of #{each.operation}"


def nothing_twice(done: Iterable[ClientAppend], stored: StoredLog) -> Iterator[str]:
    """Check that each record is there at most once, that a client appended it, and that it was not
    refused.
    """
    owners = {body: each for each in done for body in each.bodies}
    known: dict[bytes, int] = {}
    for record in stored.records:
        before = known.setdefault(record.body, record.physical_offset)
        owner = owners.get(record.body)
        if before != record.physical_offset:
            yield f"the record at {record.physical_offset} is also at {before}"
        if owner is None:
            yield f"no client appended the record at {record.physical_offset}"
        elif isinstance(owner.outcome, AppendRefused):
            yield f"#{owner.operation} was refused, but lies at {record.physical_offset}"


def reads_survive(observations: Iterable[Observation], stored: StoredLog) -> Iterator[str]:
    """Check that every record that a node has shown is at its position in the end, unless it was
    given up since.
    """
    bodies = {record.physical_offset: record.body for record in stored.records}
    shown: dict[tuple[int, bytes], str] = {}
    for seen in observations:
        if (end := given_up(seen)) is not None:
            shown = {known: node for known, node in shown.items() if known[0] < end}
        if isinstance(seen, RecordsRead):
            for record in seen.batch.records:
                shown.setdefault((record.position, record.body), seen.node)
    for (position, body), node in shown.items():
        if bodies.get(position) != body:
            yield f"{node} showed a record at {position} that is not there"


def appends_in_order(done: Iterable[ClientAppend]) -> Iterator[str]:
    """Check that an append that was answered before another one was begun comes before it in the
    log.
    """
    placed = [
        (each.outcome.receipt.first, each)
        for each in done
        if isinstance(each.outcome, AppendAnswered) and each.outcome.receipt is not None
    ]
    latest: ClientAppend | None = None  # of the appends before, the one that was begun last
    for _, each in sorted(placed, key=lambda pair: pair[0]):
        assert each.answered is not None
        if latest is not None and each.answered < latest.asked:
            yield f"#{each.operation} lies behind #{latest.operation}, asked after its answer"
        if latest is None or each.asked > latest.asked:
            latest = each


def logs_equal(logs: Mapping[str, bytes]) -> Iterator[str]:
    """Check that all logs are equal, byte for byte, with fillers and the unused rest."""
    names = list(logs)
    for name in names[1:]:
        one, other = logs[names[0]], logs[name]
        if one == other:
            continue
        pairs = enumerate(zip(one, other, strict=False))
        position = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
        yield f"{names[0]} and {name} differ at {position} (sizes {len(one)}, {len(other)})"


def queues_fit(
    stored: StoredLog,
    queues: Units,
    begin: int = 0,
    lacks: int = 0,
    rotten: Container[QueueKey] = (),
) -> Iterator[str]:
    """Check that each queue has exactly the units of its records, from the one on with which it
    last began anew.

    Args:
        begin, lacks: see `first_unfit`.
        rotten: the queues that were damaged.
    """
    expected: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for head in stored.heads:
        units = expected.setdefault((head.topic, head.queue_id), [])
        if not head.queue_offset:
            units.clear()  # its topic was made anew
        if head.queue_offset != len(units):
            yield (
                f"the record at {head.physical_offset} is number {head.queue_offset} of"
                f" {head.topic}/{head.queue_id}, where {len(units)} comes next"
            )
        units.append((head.physical_offset, head.size, head.tags_code))
    for topic, queue_id in sorted({**expected, **queues}):
        want, got = expected.get((topic, queue_id), []), list(queues.get((topic, queue_id), []))
        is_damaged = (topic, queue_id) in rotten
        position = first_unfit(want, got, begin, lacks, is_damaged=is_damaged)
        if position is not None:
            counts = f"{len(got)} units, {len(want)} due"
            yield f"{topic}/{queue_id}: unit {position} is wrong ({counts})"


def index_fits(
    stored: StoredLog,
    files: Sequence[IndexFileContent],
    begin: int = 0,
    lacks: int = 0,
    is_damaged: bool = False,
) -> Iterator[str]:
    """Check that the index has exactly the keys of the records, in log order, and that each can be
    found.

    Args:
        begin: files with entries of records below this offset may be missing; if `is_damaged`,
            these entries do not matter.
        lacks: any entry of a record below this offset may be missing.
    """
    expected = [
        (key_hash(key), head.physical_offset)
        for head in stored.heads
        for key in index_keys(head.topic, head.keys, head.uniq_key, head.tags)
    ]
    got = [(unit.key_hash, unit.physical_offset) for file in files for unit in file.units]
    first = first_lost if is_damaged and begin else first_wrong
    position = first(expected, got, begin, lacks)
    if position is not None:
        yield f"index: entry {position} is wrong ({len(got)} entries, {len(expected)} due)"
    for file in files:
        newest = dict.fromkeys(range(len(file.slots)), 0)
        for number, unit in enumerate(file.units, 1):
            slot = unit.key_hash % len(file.slots)
            is_gone = is_damaged and unit.physical_offset < begin
            if is_gone and unit == NO_ENTRY:
                continue
            if unit.previous != newest[slot] and not is_gone:
                yield f"index {file.name}: entry {number} points at {unit.previous}"
            newest[slot] = number
        wrong = [slot for slot, unit in newest.items() if file.slots[slot] != unit]
        if wrong:
            yield f"index {file.name}: slot {wrong[0]} points at {file.slots[wrong[0]]}"


def events_gapless(boots: Sequence[BootSummary], boots_count: int) -> Iterator[str]:
    """Check that no event is missing within a boot, and that the last boot ended in order."""
    for each in boots:
        for problem in each.problems:
            yield f"{each.node}#{each.boot}: {problem}"
        if each.first_seq != 1:
            yield f"{each.node}#{each.boot} begins with seq {each.first_seq}"
    if boots_count and (not boots or not boots[-1].ended):
        yield f"the last of {boots_count} boots has no NodeStopped"
