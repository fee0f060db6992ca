"""What tests of promotions share."""

from __future__ import annotations

from actors.ha.core.promotion import Plan, Refusal


def planned(found: Plan | Refusal) -> Plan:
    assert isinstance(found, Plan), found
    return found
