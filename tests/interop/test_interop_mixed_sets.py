"""Java's and ours in one sync state set under our controllers: each is killed as master, and comes
back as slave; and an operator, who elects one by mqadmin and looks at ours. `make long` has the
same under Java's.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_mixed_sets import MixedSet
from interop_processes import TEST_S, Processes
from interop_versions import Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]


@beside("rocketmq", "5.3.3", whose=["ours"])
def test_each_takes_over_from_the_other(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    MixedSet.make(peer, tmp_path, processes, whose).take_over_in_turn()
