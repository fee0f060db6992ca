"""`check` sums up what a node mends of its consume queues while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from tools_kit import GROUP, LAYOUT, checked, node_disk, read_all, write_at

from actors.sim.disk import SimDisk

QUEUE = f"{LAYOUT.consume_queue}/t/0/{0:020d}"

UNITS: dict[str, tuple[Callable[[SimDisk], None], str]] = {
    "missing unit": (
        lambda disk: write_at(disk, QUEUE, 40, bytes(20)),
        "units of 1 queues are not their records'; the first is consumequeue/t/0: unit 2: miss",
    ),
    "wrong unit": (
        lambda disk: write_at(disk, QUEUE, 47, bytes([read_all(disk, QUEUE)[47] ^ 1])),
        "units of 1 queues are not their records'; the first is consumequeue/t/0: unit 2: exp",
    ),
    "page": (
        lambda disk: write_at(disk, QUEUE, 0, bytes(400)),
        "0 units of 1 queues are not their records'; the first is consumequeue/t/0: unit 0: miss",
    ),
}


@pytest.mark.parametrize("what", UNITS)
@pytest.mark.parametrize("rate", [None, 0])
async def test_what_a_node_mends_of_its_queues_is_summed_up(
    what: str, rate: int | None, autojump_clock: Any
) -> None:
    group = GROUP if rate is None else attrs.evolve(GROUP, scrub_bytes_per_s=rate)
    disk = await node_disk(group=group)
    harm, words = UNITS[what]
    harm(disk)
    findings = checked(disk).findings
    (line,) = findings.mends if rate is None else findings.damage
    assert words in line
    assert ("a node on this store mends them" in line) == (rate is None)
    assert findings.mend_count + findings.damage_count == 1
