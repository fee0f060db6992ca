"""A group of DLedger 0.2.7, a newer one and ours, in which each leads, by election and by transfer.

0.2.7 says nowhere who sent a push, holds 100 requests at most, and has a JSON reader of its own.
The judge is that of `test_interop_dledger.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_java_dledger import JavaDLedger
from interop_ledger import EQUAL, JAVAS, OURS, MixedGroup
from interop_ledger_wire import ADDRESSES
from interop_processes import TEST_S, Processes
from interop_versions import beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]


@pytest.mark.checklist(32, 37, of="dledger")
@beside("dledger", "0.3.3.4")
def test_an_older_member(
    java: JavaDLedger, oldest: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    older, newer = JAVAS
    timings = dict.fromkeys(ADDRESSES, EQUAL)
    versions = {older: oldest}
    with MixedGroup(
        tmp_path, java, processes, leads="any", batch=True, older=versions, timings=timings
    ) as group:
        group.start()
        group.append(60, OURS)
        group.kill(older)
        group.append(30, OURS)
        group.start(older)
        group.append(30, OURS)
        group.wait_until_equal()

        group.kill(OURS)
        group.append(60, older)
        group.start(OURS)
        group.append(30, older)
        group.read_back(older)
        group.append(20, OURS)
        group.append(20, newer)
        log = group.wait_until_equal()
        assert len(set(log.terms)) > 3
        assert group.running[OURS].stop() == 0
