"""Groups of two real Java DLedger members and one of ours, in which everybody is killed once.

The judge shares no code with the project: all that was acknowledged is in the data files of all
members, which are the same to the last byte.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_java_dledger import JavaDLedger
from interop_ledger import JAVAS, OURS, MixedGroup, other
from interop_processes import Processes

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(240, func_only=True)]
BATCH = pytest.mark.parametrize("batch", [False, True], ids=["single", "batch"])


@pytest.mark.checklist(37, of="dledger")
@BATCH
def test_ours_follows_java_leaders(
    batch: bool, java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    group = MixedGroup(tmp_path, java, processes, leads="java", batch=batch)
    group.start(*JAVAS)
    group.append(60, *JAVAS)
    group.start(OURS)  # with nothing
    leader = group.append(60, *JAVAS)
    group.wait_until_equal()

    follower = other(JAVAS, leader)
    group.kill(follower)
    leader = group.append(60, leader)  # by our acknowledgements
    group.start(follower)
    group.append(20, *JAVAS)
    group.wait_until_equal()

    group.kill(OURS)
    group.append(20, *JAVAS)
    group.start(OURS)
    leader = group.append(20, *JAVAS)
    group.wait_until_equal()

    group.kill(leader)
    leader, killed = group.append(60, other(JAVAS, leader)), leader  # by our vote
    group.read_back(leader)
    group.start(killed)
    group.append(20, *JAVAS)
    log = group.wait_until_equal()
    assert len(set(log.terms)) > 1
    assert group.running[OURS].stop() == 0


@pytest.mark.checklist(37, of="dledger")
@BATCH
def test_ours_leads_java_followers(
    batch: bool, java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    group = MixedGroup(tmp_path, java, processes, leads="python", batch=batch)
    group.start()
    group.append(120, OURS)
    group.use_java_client(30)
    group.wait_until_equal()

    one, two = JAVAS
    group.kill(one)
    group.append(60, OURS)
    group.start(one)
    group.append(20, OURS)
    group.wait_until_equal()

    group.empty(two)
    group.append(20, OURS)
    group.start(two)
    group.wait_until_equal()

    group.kill(OURS)
    group.start(OURS)
    group.append(60, OURS)
    log = group.wait_until_equal()
    assert len(set(log.terms)) > 1
    assert b"" in log.bodies  # a term's own entry, which Java's members took
    assert group.running[OURS].stop() == 0
