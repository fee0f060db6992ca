"""Java's and ours in one sync state set: each is killed as master, and comes back as slave; and an
operator, who elects one by mqadmin and looks at ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop_mixed_sets import MixedSet
from interop_processes import TEST_S, Processes
from interop_versions import Peer, beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]


@beside("rocketmq", "5.3.3", whose=["java", "ours"])
def test_each_takes_over_from_the_other(
    peer: Peer, whose: str, tmp_path: Path, processes: Processes
) -> None:
    both = MixedSet.make(peer, tmp_path, processes, whose)
    both.java.start()
    both.wait(1, 1)
    both.ours.start()
    both.wait(1, 1, 2)
    both.send()
    both.wait_equal()

    both.java.kill()
    both.wait(2, 2)
    both.append()
    both.java.start()
    both.wait(2, 1, 2)
    both.append()
    both.wait_equal()

    both.ours.kill()
    both.wait(1, 1)
    both.send()
    both.ours.start()
    both.wait(1, 1, 2)
    both.send()
    both.wait_equal()
    both.look(leads=False)
    assert both.consumed() == set(range(both.sent))

    both.elect(2)
    both.append()
    both.wait(2, 1, 2)
    both.wait_equal()
    both.look(leads=True)
