"""A short run of `interop_ledger_kills.py`; by itself that runs for as long as one likes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from interop_java_dledger import JavaDLedger
from interop_ledger_kills import kill_again_and_again, mixed
from interop_processes import TEST_S, Processes
from interop_versions import beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]
SECONDS = 15.0


@pytest.mark.checklist(37, of="dledger")
@beside("dledger", ours=(1, 2))
def test_kills(ours: int, java: JavaDLedger, tmp_path: Path, processes: Processes) -> None:
    group = mixed(tmp_path, java, processes, ours)
    report = kill_again_and_again(group, SECONDS, random.Random(ours))
    kinds = [each.leader in group.ours for each in report.stretches]
    assert kinds[:2] == [True, False]
    assert {name in group.ours for name in report.leaders_killed} == {True, False}
    assert {name in group.ours for name in report.acknowledged} == {True, False}
    assert report.kills.total() >= len(kinds)
    assert report.reads > 0
    assert report.terms > 1
