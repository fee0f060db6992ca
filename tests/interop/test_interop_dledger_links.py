"""Links are cut between real Java members and one of ours, the leader, in both directions and in
one. What a cut link held comes late, or never.

The judge is that of `test_interop_dledger.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_java_dledger import JavaDLedger
from interop_ledger import EQUAL, JAVAS, OURS, MixedGroup, other
from interop_ledger_wire import ADDRESSES, SETTLE_S
from interop_processes import TEST_S, Processes, wait_for
from interop_versions import beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]


@pytest.mark.checklist(37, of="dledger")
@beside("dledger", "0.3.3.4")
def test_cut_links(java: JavaDLedger, tmp_path: Path, processes: Processes) -> None:
    """Ours should lead, and does whenever it can be reached."""
    timings = dict.fromkeys(ADDRESSES, EQUAL)
    with MixedGroup(
        tmp_path, java, processes, leads="python", batch=True, timings=timings, linked=True
    ) as group:
        group.start()
        group.append(30, OURS)

        group.links.cut(OURS)
        stray = group.send_unanswered(OURS)
        leader = group.append(30, *JAVAS)

        group.links.heal()  # what was said meanwhile comes late
        group.links.cut(leader)
        another = group.send_unanswered(leader)
        group.append(30, OURS)  # with the other one, from which ours had to learn first

        group.links.heal(lost=True)
        group.append(20, OURS)
        log = group.wait_until_equal()
        assert not {stray, another} & set(log.bodies)
        assert len(set(log.terms)) > 1

        deaf = other(JAVAS, leader)
        group.links.cut_to(OURS, deaf)  # it hears no leader, and is heard
        wait_for(lambda: group.leader_of(deaf) is None, "a campaign", timeout_s=SETTLE_S)
        group.append(30, OURS)
        group.links.heal()
        group.append(20, OURS)
        group.wait_until_equal()
        assert group.running[OURS].stop() == 0
