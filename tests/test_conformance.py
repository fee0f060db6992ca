"""Every item of the conformance checklists has a test or a stated reason."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("conformance", HERE / "conformance.py")
assert _spec is not None
assert _spec.loader is not None
conformance = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(conformance)


@pytest.mark.parametrize("of", conformance.CHECKLISTS)
def test_every_item_has_a_test_or_a_reason(of: str) -> None:
    items, later, coming = conformance.CHECKLISTS[of]
    claimed = {item for item, _ in conformance.claims(HERE, of)}
    missing = set(items) - claimed - set(later) - set(coming)
    assert sorted(missing) == []
    assert sorted(claimed & set(coming)) == [], "has tests now: no longer coming"


@pytest.mark.parametrize("of", conformance.CHECKLISTS)
def test_no_claim_of_an_item_that_does_not_exist(of: str) -> None:
    items, later, coming = conformance.CHECKLISTS[of]
    unknown = [claim for claim in conformance.claims(HERE, of) if claim[0] not in items]
    assert unknown == []
    assert {*later, *coming} <= set(items)


def test_every_claim_is_of_a_list_that_exists() -> None:
    assert conformance.lists_named(HERE) <= set(conformance.CHECKLISTS)
