"""Every validation of DLedger groups is shown data that is right, then data that is broken."""

from __future__ import annotations

import attrs
from test_sim_ledger_checkers import answered, asked, entry, read

from actors.sim.dledger.judges.validations import (
    StoredLedger,
    client_operations,
    holds,
    index_fits,
    ledgers_equal,
)
from actors.sim.history import AppendRefused, AppendUnknown, Observation
from actors.sim.judges.linear.judge import judge_log
from wire.dledger.entry import IndexRecord

ENTRIES = {index: entry(index) for index in range(2, 5)}
RECORDS = {index: IndexRecord(1, 100 * index, 49, index, 1) for index in ENTRIES}
STORED = StoredLedger(entries=ENTRIES, records=RECORDS, index=RECORDS)


def test_what_fits() -> None:
    chosen = [entry(index) for index in range(5)]
    assert list(index_fits(STORED)) == []
    assert list(holds(STORED, chosen)) == []
    assert list(ledgers_equal({"n0": ENTRIES, "n1": dict(enumerate(chosen))})) == []


def test_an_index_that_lacks_a_record_or_has_one_more() -> None:
    lacking = {index: record for index, record in RECORDS.items() if index != 3}
    assert len(list(index_fits(attrs.evolve(STORED, index=lacking)))) == 1
    more = {**RECORDS, 5: RECORDS[4]}
    assert len(list(index_fits(attrs.evolve(STORED, index=more)))) == 1
    other = {**RECORDS, 3: RECORDS[4]}
    assert len(list(index_fits(attrs.evolve(STORED, index=other)))) == 1


def test_a_committed_entry_that_is_gone_or_another() -> None:
    assert len(list(holds(STORED, [entry(index) for index in range(6)]))) == 1
    assert len(list(holds(STORED, [entry(index, 1 + (index == 3)) for index in range(5)]))) == 1


def test_members_that_differ() -> None:
    assert len(list(ledgers_equal({"n0": ENTRIES, "n1": {**ENTRIES, 3: entry(3, 2)}}))) == 1
    assert len(list(ledgers_equal({"n0": ENTRIES, "n1": {**ENTRIES, 5: entry(5)}}))) == 1


def unknown(operation: int) -> AppendUnknown:
    return AppendUnknown(at_s=1.0, client="c", operation=operation, error="given up")


def findings(*history: Observation) -> int:
    return len(judge_log(client_operations(history, "g0")))


def test_a_history_that_is_linearizable() -> None:
    refused = AppendRefused(at_s=1.0, client="c", operation=3, error="NotMaster()")
    good = [
        *(asked(1, b"a", b"b"), asked(2, b"c"), asked(3, b"d")),
        *(answered(1, 0, 1), unknown(2), refused),
        read(3, (0, b"a"), (1, b"b"), (2, b"c")),
    ]
    assert findings(*good) == 0
    assert len(client_operations(good, "g0")) == 4
    assert client_operations(good, "g1") == []


def test_histories_that_are_not() -> None:
    one = (asked(1, b"a"), answered(1, 0, 0))
    assert findings(*one, read(1, (0, b"b"))) == 1
    assert findings(*one, attrs.evolve(read(0), fresh=True, asked=2)) == 1
    assert findings(*one, read(2, (0, b"a"), (1, b"never asked"))) == 1
