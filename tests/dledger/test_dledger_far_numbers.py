"""Entries that no log can hold, numbers near the last long among them: none is taken."""

from __future__ import annotations

import pytest
from intake_kit import entry, matched

from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode as C
from wire.dledger.entry import INDEX_MAX, POS_MAX, Entry


@pytest.mark.parametrize(
    ("type_", "wrong"),
    [
        (P.APPEND, {"magic": 2}),
        *(
            (type_, {field: value})
            for type_ in (P.COMPARE, P.TRUNCATE)
            for field, value in (
                ("index", INDEX_MAX + 1),
                ("index", 2**63 - 1),
                ("pos", POS_MAX + 1),
                ("pos", 2**63 - 1),
            )
        ),
    ],
)
def test_an_entry_that_no_store_can_take_is_refused(type_: P, wrong: dict[str, int]) -> None:
    """A log that began anew with one near the last long had no place for another."""
    kit = matched()
    fields = {"index": 10, "magic": 1, "pos": entry(10).pos, "size": 49, "term": 5}
    bad = Entry(body=b"x", **(fields | wrong))
    assert kit.code(kit.push(type_, bad)) is C.UNEXPECTED_ARGUMENT
    assert kit.changes == []
