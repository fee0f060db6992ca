"""Real members that speak another dialect beside one of ours, which leads them, and follows one.

Nothing that they say is taken for more than it is: no append is acknowledged that they have not,
nothing of theirs reaches our log, and both are named in `status`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop_java_dledger import JavaDLedger
from interop_ledger import EQUAL, JAVAS, OURS, MixedGroup
from interop_ledger_wire import ADDRESSES, GROUP, SETTLE_S
from interop_nodes import status_of
from interop_processes import TEST_S, Processes, wait_for
from interop_versions import beside

from wire.dledger.rpc import AppendEntryRequest, AppendEntryResponse

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

PATIENCE_S = 10.0
"""More than ours keeps an append waiting."""


def status(group: MixedGroup) -> dict[str, Any]:
    """What our member says of the group."""
    return status_of(group.folder / "data" / OURS, GROUP)


def names_it(reason: object) -> bool:
    return "speaks the dialect of DLedger 0.4.0" in str(reason)


@pytest.mark.checklist(37, of="dledger")
@beside("other dialects")
def test_nothing_that_is_not_understood_counts(
    java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    with MixedGroup(tmp_path, java, processes, leads="python", batch=True) as group:
        group.start()
        group.leader(OURS)

        def refused() -> bool:
            peers = status(group).get("peers", [])
            return len(peers) == len(JAVAS) and all(names_it(peer["reason"]) for peer in peers)

        wait_for(refused, "both named", timeout_s=SETTLE_S, alive=[group.running[OURS]])
        append = AppendEntryRequest(group=GROUP, remote_id=OURS, body=b"nobody else has it")
        answer = group.ask(OURS, append, timeout_s=PATIENCE_S)
        assert isinstance(answer, AppendEntryResponse)
        assert answer.code != 200
        assert {peer["end"] for peer in status(group)["peers"]} <= {None, 0}
        for name in JAVAS:
            assert not group.log(name).bodies

        for name in ADDRESSES:
            group.kill(name)
        ours = group.log(OURS).content
        group.leads, group.timings = "java", dict.fromkeys(JAVAS, EQUAL)
        group.start(*JAVAS)
        leader = group.append(2, *JAVAS)
        group.start(OURS)
        wait_for(
            lambda: names_it(status(group).get("details", {}).get("refusal")),
            f"{leader} named",
            timeout_s=SETTLE_S,
            alive=[group.running[OURS]],
        )
        group.append(2, *JAVAS)
        assert group.log(OURS).content == ours
        assert group.running[OURS].stop() == 0
