"""Every reader of bytes, some hundred mutated inputs each, by a fixed seed; `make fuzz`: more.

Hypothesis looks at each too: it knows nothing of coverage, but draws other damage and shrinks it.
"""

from __future__ import annotations

import contextlib
import sys

import fuzz_autoswitch
import fuzz_broker
import fuzz_dledger
import fuzz_namesrv
import fuzz_storage
import fuzz_wire
import pytest
from fuzz_engine import Fuzzer, Target
from hypothesis import given, settings
from hypothesis import strategies as st

EXECUTIONS = 400
TARGETS = (
    *fuzz_wire.targets(),
    *fuzz_autoswitch.targets(),
    *fuzz_broker.targets(),
    *fuzz_namesrv.targets(),
    *fuzz_dledger.targets(),
    *fuzz_storage.targets(),
)


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


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_damage_that_hypothesis_draws(target: Target, data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from((*target.seeds, b""))))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=16))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    with contextlib.suppress(target.raises):
        target.run(bytes(damaged))


def test_names_are_unique() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)
