"""What tests of promotions share."""

from __future__ import annotations

from actors.ha.core.promotion import PromotionPlan, PromotionRefusal


def planned(found: PromotionPlan | PromotionRefusal) -> PromotionPlan:
    assert isinstance(found, PromotionPlan), found
    return found
