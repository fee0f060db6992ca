"""Every reader of bytes, some hundred mutated inputs each, by a fixed seed. `make fuzz`: more."""

from __future__ import annotations

import sys

import fuzz_storage
import fuzz_wire
import pytest
from fuzz_engine import Fuzzer, Target

EXECUTIONS = 400
TARGETS = (*fuzz_wire.targets(), *fuzz_storage.targets())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_bytes_are_read_or_refused(target: Target) -> None:
    """Nothing but the documented errors, in bounded work and memory."""
    before = sys.gettrace()
    fuzzer = Fuzzer.of(target, 0)
    finding = fuzzer.run(EXECUTIONS)
    assert sys.gettrace() is before
    if finding is not None:
        raise AssertionError(finding.data) from finding.error
    assert fuzzer.executions == EXECUTIONS
    assert len(fuzzer.corpus) > len(target.seeds) or len(fuzzer.corpus) > 1
    fuzzer.check_memory()


def test_names_are_unique() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)
