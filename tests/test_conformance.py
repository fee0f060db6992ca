"""Every item of the conformance checklist has a test or a stated reason."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("conformance", HERE / "conformance.py")
assert _spec is not None
assert _spec.loader is not None
conformance = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(conformance)


def test_every_item_has_a_test_or_a_reason() -> None:
    claimed = {item for item, _ in conformance.claims(HERE)}
    missing = set(conformance.ITEMS) - claimed - set(conformance.LATER)
    assert sorted(missing) == []


def test_no_claim_of_an_item_that_does_not_exist() -> None:
    unknown = [claim for claim in conformance.claims(HERE) if claim[0] not in conformance.ITEMS]
    assert unknown == []
