"""Every validation is shown good data, then data that is broken in the way it guards against."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from test_sim_checkers import record as read_record

from actors.log_types import Batch, Receipt
from actors.sim.classic.judges import validations
from actors.sim.classic.judges.derived import DERIVED_DAMAGED, Damaged, IndexFileContent, damaged
from actors.sim.classic.judges.validations import StoredLog
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    ClientAppend,
    FaultInjected,
    History,
    Observation,
    RecordsRead,
    client_appends,
    line,
)
from actors.sim.world import open_world
from actors.storage.node.event_reader import BootSummary
from wire.files.commit_log import Record, decode_record, encode_record, scan_heads
from wire.files.index_file import IndexUnit, index_keys, key_hash
from wire.files.message_record import body_crc

SLOTS = 7


def stored(*bodies: bytes, keys: str = "k") -> StoredLog:
    """A log of these records, each in queue 0 of one topic."""
    data = b""
    for number, body in enumerate(bodies):
        data += encode_record(make_record(body, number, len(data), keys))
    heads, stopped = scan_heads(data, physical_offset=0)
    assert stopped.end == len(data)
    records = tuple(decode_record(data, head.physical_offset) for head in heads)
    return StoredLog(heads=tuple(heads), records=records, end=len(data))


def make_record(body: bytes, number: int, offset: int, keys: str) -> Record:
    properties = f"KEYS\x01{keys}\x02".encode()
    return Record(
        version=1,
        body_crc=body_crc(body),
        queue_id=0,
        flag=0,
        queue_offset=number,
        physical_offset=offset,
        sys_flag=0,
        born_ts=1,
        born_host=("10.0.0.1", 1),
        store_ts=1,
        store_host=("10.0.0.1", 1),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        topic="orders",
        properties=properties,
        size=88 + len(body) + 1 + len("orders") + 2 + len(properties),
    )


def appended(log: StoredLog, *bodies: bytes, number: int = 1, **changes: Any) -> ClientAppend:
    """An acknowledged append whose receipt says where its records are."""
    places = {record.body: record.physical_offset for record in log.records}
    receipt = Receipt(
        first=places.get(bodies[0], 0),
        last=places.get(bodies[-1], 0),
        next=0,
        count=len(bodies),
        copies=2,
        durability="synced",
    )
    outcome = AppendAnswered(at_s=1.0, client="c0", operation=number, receipt=receipt)
    operation = ClientAppend(
        client="c0", operation=number, bodies=bodies, asked=0, answered=1, outcome=outcome
    )
    return attrs.evolve(operation, **changes)


REFUSED = AppendRefused(at_s=1.0, client="c0", operation=1, error="full")
UNKNOWN = AppendUnknown(at_s=1.0, client="c0", operation=1, error="late")


def texts(found: Any) -> str:
    return "; ".join(found)


def test_acknowledged_survives() -> None:
    log = stored(b"a", b"b", b"c", b"d")
    good = appended(log, b"b", b"c")
    assert texts(validations.acknowledged_survives([good], log)) == ""
    assert "1 of 2 acknowledged" in texts(
        validations.acknowledged_survives([attrs.evolve(good, bodies=(b"b", b"x"))], log)
    )
    assert "not in the order" in texts(
        validations.acknowledged_survives([appended(log, b"c", b"b")], log)
    )
    assert "other records lie" in texts(
        validations.acknowledged_survives([appended(log, b"a", b"c")], log)
    )
    moved = stored(b"longer", b"b", b"c", b"d")
    assert "its receipt says" in texts(validations.acknowledged_survives([good], moved))
    unknown = attrs.evolve(good, bodies=(b"x",), outcome=UNKNOWN)
    assert texts(validations.acknowledged_survives([unknown], log)) == ""
    blind = AppendAnswered(at_s=1.0, client="c0", operation=1, receipt=None)
    assert texts(validations.acknowledged_survives([attrs.evolve(good, outcome=blind)], log)) == ""


def test_nothing_twice() -> None:
    log = stored(b"a", b"b")
    both = appended(log, b"a", b"b")
    assert texts(validations.nothing_twice([both], log)) == ""
    assert "is also at 0" in texts(validations.nothing_twice([both], stored(b"a", b"b", b"a")))
    assert "no client appended" in texts(validations.nothing_twice([appended(log, b"a")], log))
    refused = attrs.evolve(both, outcome=REFUSED)
    assert "was refused" in texts(validations.nothing_twice([refused], log))
    assert texts(validations.nothing_twice([attrs.evolve(both, outcome=UNKNOWN)], log)) == ""


def test_appends_in_order() -> None:
    log = stored(b"a", b"b")
    first = appended(log, b"a", number=1, asked=0, answered=5)
    second = appended(log, b"b", number=2, asked=6, answered=7)
    assert texts(validations.appends_in_order([first, second])) == ""
    at_once = attrs.evolve(second, asked=1, answered=2)
    assert texts(validations.appends_in_order([first, at_once])) == ""
    swapped = [
        attrs.evolve(first, asked=6, answered=7),
        attrs.evolve(second, asked=0, answered=5),
    ]
    assert "#2 lies behind #1" in texts(validations.appends_in_order(swapped))


def test_logs_equal() -> None:
    assert texts(validations.logs_equal({"n0": b"abc", "n1": b"abc"})) == ""
    assert "differ at 2" in texts(validations.logs_equal({"n0": b"abc", "n1": b"abd"}))
    assert "differ at 2" in texts(validations.logs_equal({"n0": b"abc", "n1": b"ab"}))


def test_queues_fit() -> None:
    log = stored(b"a", b"b")
    units = [(head.physical_offset, head.size, head.tags_code) for head in log.heads]
    queues = {("orders", 0): units}
    assert texts(validations.queues_fit(log, queues)) == ""
    for wrong in (
        {},
        {("orders", 0): units[:1]},
        {("orders", 0): [*units, units[0]]},
        {("orders", 0): units[::-1]},
        {**queues, ("orders", 1): units[:1]},
    ):
        assert "is wrong" in texts(validations.queues_fit(log, wrong))
    gap = attrs.evolve(log, heads=(log.heads[0], log.heads[1]._replace(queue_offset=2)))
    assert "where 1 comes next" in texts(validations.queues_fit(gap, queues))


def index_of(log: StoredLog) -> IndexFileContent:
    units: list[IndexUnit] = []
    slots = [0] * SLOTS
    for head in log.heads:
        for key in index_keys(head.topic, head.keys, head.uniq_key, head.tags):
            slot = key_hash(key) % SLOTS
            units.append(IndexUnit(key_hash(key), head.physical_offset, 0, slots[slot]))
            slots[slot] = len(units)
    return IndexFileContent(name="1", units=tuple(units), slots=tuple(slots))


def test_units_of_what_expired_may_be_missing() -> None:
    log, filler = stored(b"a", b"b", b"c"), (0, 0x7FFFFFFF, 0)
    heads = log.heads
    units = [(head.physical_offset, head.size, head.tags_code) for head in heads]
    key = (heads[0].topic, heads[0].queue_id)
    begin = heads[1].physical_offset
    for fine in (units, [filler, *units[1:]]):
        assert texts(validations.queues_fit(log, {key: fine}, begin)) == ""
    for wrong in ([filler, filler, units[2]], units[:2], [(7, 7, 7), *units[1:]]):
        assert "is wrong" in texts(validations.queues_fit(log, {key: wrong}, begin))
    assert "is wrong" in texts(validations.queues_fit(log, {}, log.end))
    assert texts(validations.queues_fit(log, {}, log.end, lacks=log.end)) == ""


def test_index_fits() -> None:
    log = stored(b"a", b"b", keys="red blue")
    good = index_of(log)
    assert len(good.units) == 4
    assert texts(validations.index_fits(log, [good])) == ""
    short = attrs.evolve(good, units=good.units[:-1])
    assert "entry 3 is wrong" in texts(validations.index_fits(log, [short]))
    astray = attrs.evolve(good, units=(good.units[0]._replace(previous=3), *good.units[1:]))
    assert "points at 3" in texts(validations.index_fits(log, [astray]))
    lost = attrs.evolve(good, slots=(0,) * SLOTS)
    assert "slot" in texts(validations.index_fits(log, [lost]))


def test_what_was_damaged_before_its_record_was_gone_may_stay_so() -> None:
    log = stored(b"a", b"b", b"c")
    heads = log.heads
    units = [(head.physical_offset, head.size, head.tags_code) for head in heads]
    key, zeros = (heads[0].topic, heads[0].queue_id), (0, 0, 0)
    begin, other = heads[1].physical_offset, (heads[0].topic, 7)
    for got in ([zeros, *units[1:]], [(1 << 60, 9, 9), *units[1:]]):
        assert texts(validations.queues_fit(log, {key: got}, begin, 0, {key})) == ""
        assert "unit 0" in texts(validations.queues_fit(log, {key: got}, begin, 0, {other}))
        assert "unit 0" in texts(validations.queues_fit(log, {key: got}, 0, 0, {key}))
    for got in ([*units[:1], zeros, *units[2:]], units[:2], [*units, units[2]]):
        assert "is wrong" in texts(validations.queues_fit(log, {key: got}, begin, 0, {key}))


def test_an_index_that_was_damaged_before_records_were_gone() -> None:
    log = stored(b"a", b"b", b"c", keys="red blue")
    good, begin = index_of(log), log.heads[1].physical_offset
    lost = attrs.evolve(good, units=(IndexUnit(0, 0, 0, 0), *good.units[1:]))
    first = good.units[0].key_hash % SLOTS
    behind = [unit.key_hash % SLOTS for unit in good.units].index(first, 1)
    chained = tuple(
        unit._replace(previous=0) if number == behind else unit
        for number, unit in enumerate(lost.units)
    )
    lost = attrs.evolve(lost, units=chained)
    twice = attrs.evolve(good, units=(good.units[2]._replace(previous=9), *good.units[1:]))
    assert texts(validations.index_fits(log, [lost], begin, 0, True)) == ""
    assert "entry" in texts(validations.index_fits(log, [lost], begin))
    assert "entry" in texts(validations.index_fits(log, [lost], 0, 0, True))
    assert "is wrong" not in texts(validations.index_fits(log, [twice], begin, 0, True))
    for units in (good.units[:-1], (*good.units[:3], *good.units[4:])):
        wrong = attrs.evolve(good, units=units)
        assert "is wrong" in texts(validations.index_fits(log, [wrong], begin, 0, True))


def test_who_was_damaged() -> None:
    group = classic_config().classic_groups["orders"]
    where = "/data/n1/groups/orders"

    def seen(kind: str, where: str) -> FaultInjected:
        return FaultInjected(at_s=0.0, kind=kind, where=where)

    rot = [
        seen(DERIVED_DAMAGED, f"n0 {where}/consumequeue/returns/1/{0:020d}: byte 0"),
        seen(DERIVED_DAMAGED, f"n1 {where}/index/{1:017d}: byte 4096"),
    ]
    found = damaged(group, rot)
    assert found["n0"] == Damaged(queues={("returns", 1)})
    assert found["n1"] == Damaged(index=True)
    assert damaged(group, [*rot, seen("wiped", "n0")])["n0"] == Damaged()


def boot(number: int = 1, **changes: Any) -> BootSummary:
    good = BootSummary(
        node="n0",
        boot=number,
        first_seq=1,
        last_seq=9,
        events=9,
        dropped=0,
        ended=True,
        problems=(),
    )
    return attrs.evolve(good, **changes)


def test_events_gapless() -> None:
    assert texts(validations.events_gapless([boot(ended=False), boot(2)], 2)) == ""
    assert texts(validations.events_gapless([], 0)) == ""
    assert "no NodeStopped" in texts(validations.events_gapless([boot(ended=False)], 1))
    assert "no NodeStopped" in texts(validations.events_gapless([], 1))
    assert "begins with seq 2" in texts(validations.events_gapless([boot(first_seq=2)], 1))
    assert "seq 3 to 4" in texts(
        validations.events_gapless([boot(problems=("seq 3 to 4 are missing",))], 1)
    )


def test_operations_follow_the_history() -> None:
    asked = [
        AppendAsked(at_s=0.0, client="c0", operation=number, bodies=(b"%d" % number,))
        for number in (1, 2, 3)
    ]
    refused = AppendRefused(at_s=1.0, client="c0", operation=2, error="x")
    unknown = AppendUnknown(at_s=1.0, client="c0", operation=3, error="x")
    seen: list[Observation] = [*asked, refused, unknown]
    assert all(line(each) for each in seen)
    found = client_appends(seen)
    assert [(each.answered, each.outcome) for each in found] == [
        (None, None),
        (3, refused),
        (4, unknown),
    ]


def test_what_was_shown_stays() -> None:
    log = stored(b"a", b"b")
    one, two = (attrs.asdict(record) for record in log.records)

    def shown(position: int, body: bytes) -> RecordsRead:
        seen = read_record(position, body=body)
        batch = Batch(records=(seen, seen), next=9, acknowledged=9, end=9, lag_bytes=0)
        return RecordsRead(at_s=1.0, node="n1", boot=1, asked=0, start=0, batch=batch)

    good = [shown(one["physical_offset"], b"a"), shown(two["physical_offset"], b"b")]
    assert texts(validations.reads_survive(good, log)) == ""
    for bad in (shown(two["physical_offset"], b"x"), shown(log.end, b"c")):
        (text,) = validations.reads_survive([*good, bad, bad], log)
        assert "n1 showed a record at" in text


@pytest.mark.parametrize("damage", ["none", "log", "body", "tail", "queue", "events"])
async def test_damage_on_a_disk_is_found(damage: str, autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster = SimCluster(world, classic_config())
        group = cluster.config.groups["orders"]
        history = History()
        await cluster.start()
        history.add(AppendAsked(at_s=0.0, client="c", operation=1, bodies=(b"a", b"b")))
        receipt = await cluster.log("orders").append([b"a", b"b"])
        history.add(AppendAnswered(at_s=0.0, client="c", operation=1, receipt=receipt))
        await cluster.converged("orders")
        await cluster.stop()
        disk = world.node("n1").disk
        root = cluster.config.group_dir("n1", "orders")
        log = f"{root}/commitlog/{0:020d}"
        if damage == "log":
            disk.flip_bits(log, receipt.last, 8)
        elif damage == "body":
            disk.flip_bits(log, receipt.last + 88, 1)
        elif damage == "tail":
            disk.flip_bits(log, receipt.next + 500, 1)
        elif damage == "queue":
            disk.flip_bits(f"{root}/consumequeue/orders/0/{0:020d}", 0, 20)
        elif damage == "events":
            disk.rmtree(f"{cluster.config.node_dir('n1')}/events")
        validations.validate(cluster, group, history, DiskLogBytes(cluster, group))
        found = {violation.checker for violation in history.violations}
        assert (
            found
            == {
                "none": set(),
                "log": {"LogIsWhole", "LogsEqual", "AcknowledgedSurvives", "QueuesFitLog"},
                "body": {"LogIsWhole", "LogsEqual", "AcknowledgedSurvives", "QueuesFitLog"},
                "tail": {"LogIsWhole", "LogsEqual"},
                "queue": {"QueuesFitLog"},
                "events": {"EventsGapless"},
            }[damage]
        )
