"""What tests of promotions share."""

from __future__ import annotations

from actors.ha.core.promotion import Plan, Refusal, Wish

WISH = Wish(
    group="orders",
    members=("n0", "n1", "n2"),
    file_master="n0",
    counting=("n0", "n1", "n2"),
    copies=2,
    synced=True,
)


def planned(found: Plan | Refusal) -> Plan:
    assert isinstance(found, Plan), found
    return found
