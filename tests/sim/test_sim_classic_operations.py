"""What clients saw of a classic group, as the judge of `linear` takes it."""

from __future__ import annotations

from typing import Any

import attrs

from actors.events import store
from actors.log_types import Batch, Receipt, Record
from actors.sim.classic.judges.operations import client_operations
from actors.sim.cluster import classic_config
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendUnknown,
    FaultInjected,
    Observation,
    RecordsRead,
)
from actors.sim.judges.linear.judge import judge_log
from actors.sim.world import SimEvent

GROUP = classic_config().classic_groups["orders"]
SIZE = 100


def asked(number: int, *bodies: bytes) -> Observation:
    return AppendAsked(at_s=0.0, client="c", operation=number, bodies=bodies)


def answered(number: int, first: int, count: int = 1) -> Observation:
    last = first + SIZE * (count - 1)
    receipt = Receipt(
        first=first, last=last, next=last + SIZE, count=count, copies=2, durability="synced"
    )
    return AppendAnswered(at_s=0.0, client="c", operation=number, receipt=receipt)


def record(position: int, body: bytes) -> Record:
    return Record(
        position=position,
        next_position=position + SIZE,
        body=body,
        topic="orders",
        queue_id=0,
        queue_offset=position // SIZE,
        tags="",
        keys=(),
        properties=(),
        store_timestamp_ms=0,
        born_timestamp_ms=0,
    )


def read(asked_at: int, acknowledged: int, *bodies: bytes, **more: Any) -> Observation:
    batch = Batch(
        records=tuple(record(SIZE * number, body) for number, body in enumerate(bodies)),
        next=SIZE * len(bodies),
        acknowledged=acknowledged,
        end=more.pop("end", acknowledged),
        lag_bytes=more.pop("lag", 0),
    )
    fields = {"node": "n0", "boot": 1, "start": 0, "fresh": True, **more}
    return RecordsRead(at_s=0.0, asked=asked_at, batch=batch, **fields)


def found(*seen: Observation) -> str:
    return "; ".join(map(str, judge_log(list(client_operations(GROUP, seen)))))


ONE = (asked(1, b"one"), answered(1, 0))
TWO = (*ONE, asked(2, b"two", b"three"), answered(2, 100, 2))


def test_a_fresh_read_shows_what_was_acknowledged_before() -> None:
    assert found(*TWO, read(4, 300, b"one", b"two", b"three")) == ""
    assert "called after that had returned" in found(*TWO, read(4, 100, b"one"))
    assert "called after that had returned" in found(*TWO, read(4, 0))
    assert found(*TWO, read(3, 100, b"one")) == "", "it was asked before the answer"
    assert found(*TWO, read(4, 100, b"one", fresh=False)) == ""


def test_what_is_acknowledged_and_not_here_is_not_shown() -> None:
    assert "called after" in found(*TWO, read(4, 300, b"one", lag=200))


def test_half_of_a_record_is_none() -> None:
    assert "called after" in found(*ONE, asked(2, b"two"), answered(2, 100), read(4, 150, b"one"))


def test_an_end_within_a_record_may_be_cut_off() -> None:
    """By a promotion of who holds no more; what was acknowledged stays, and others may follow."""
    within = read(2, 150, b"one", node="n2", fresh=False)
    assert found(*ONE, within, read(3, 100, b"one", node="n1")) == ""
    shorter = attrs.evolve(record(100, b"two"), next_position=140)
    behind = read(4, 140, node="n1", fresh=False)
    assert isinstance(behind, RecordsRead)
    batch = attrs.evolve(behind.batch, records=(shorter,), next=140)
    seen = attrs.evolve(behind, batch=batch, start=100)
    assert found(*ONE, within, read(3, 100, b"one", node="n1"), asked(2, b"two"), seen) == ""
    late = (read(4, 350, b"one", b"two", b"three"), read(5, 250, b"one", b"two", node="n1"))
    assert "comes before" in found(*TWO, *late)


def test_other_reads_of_one_incarnation_go_on() -> None:
    late = read(4, 300, b"one", b"two", b"three", fresh=False)
    back = read(5, 100, b"one", fresh=False)
    assert "after it has shown" in found(*TWO, late, back)
    assert found(*TWO, late, read(5, 100, b"one", fresh=False, node="n1")) == ""
    again = SimEvent(
        at_s=0.0,
        node="n0",
        boot=1,
        path="/n0/orders/storage/store",
        incarnation=1,
        event=store.RecoveryFinished(
            was_clean=True,
            scanned_from_bytes=0,
            end_bytes=300,
            record_count=3,
            kept_bytes=0,
            reason="",
        ),
    )
    assert found(*TWO, late, again, read(6, 100, b"one", fresh=False)) == ""
    assert found(*TWO, late, again, read(5, 100, b"one", fresh=False)) == "", (
        "one life or the other"
    )


def test_what_a_forced_promotion_gave_up_proves_nothing() -> None:
    lost = FaultInjected(at_s=0.0, kind="lost", where="n1 100")
    anew = (asked(3, b"four"), answered(3, 100))
    seen = (*TWO, read(4, 300, b"one", b"two", b"three"), lost, *anew)
    assert found(*seen, read(8, 200, b"one", b"four")) == ""
    assert "called after" in found(*seen, read(8, 100, b"one"))


def test_what_nobody_learnt_the_outcome_of_may_be_there() -> None:
    unknown = AppendUnknown(at_s=0.0, client="c", operation=2, error="")
    seen = (*ONE, asked(2, b"two"))
    for more in ((), (unknown,)):
        at = len(seen) + len(more)
        assert found(*seen, *more, read(at, 200, b"one", b"two")) == ""
        assert found(*seen, *more, read(at, 100, b"one")) == ""
        assert "no client appended" in found(*seen, *more, read(at, 200, b"one", b"six"))


def test_what_has_expired_is_passed_over() -> None:
    batch = Batch(
        records=(record(200, b"three"),), next=300, acknowledged=300, end=300, lag_bytes=0
    )
    over = RecordsRead(at_s=0.0, node="n0", boot=1, asked=4, start=0, batch=batch, fresh=True)
    assert "leaves out" in found(*TWO, over)
    gone = SimEvent(
        at_s=0.0,
        node="n1",
        boot=1,
        path="/n1/orders/storage/store",
        incarnation=1,
        event=store.SegmentExpired(min_bytes=200, reason="age"),
    )
    assert found(*TWO, gone, attrs.evolve(over, asked=5)) == ""
