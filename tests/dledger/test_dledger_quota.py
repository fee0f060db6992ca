"""dledger.md 6.2: how many bytes a peer that is far behind gets in a second."""

from __future__ import annotations

import pytest
from dispatch_kit import MIB, Kit

from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode as C


@pytest.mark.checklist(19, of="dledger")
def test_a_peer_far_behind_gets_20_mib_in_each_second() -> None:
    kit = Kit(end=3000, entry_bytes=MIB, in_flight_bytes_max=1 << 40)
    push = kit.one(P.COMPARE, 3000)
    kit.now_s = 0.25
    kit.answer(push, C.INCONSISTENT_STATE, end=999)
    kit.answer(kit.one(P.COMPARE, 999))
    sent: dict[int, int] = {}
    for _ in range(40):
        pushes, kit.sent = kit.sent, []
        if pushes:
            sent[int(kit.now_s)] = sent.get(int(kit.now_s), 0) + len(pushes)
        for push in pushes:
            kit.answer(push)
        kit.tick()
    assert sent
    assert set(sent.values()) == {20}
    assert sorted(sent) == list(range(len(sent))), "every second is used"


@pytest.mark.parametrize(
    ("end", "entry_bytes"), [(1000, MIB), (2900, 100)], ids=["few entries", "few bytes"]
)
def test_a_peer_that_is_near_has_no_quota(end: int, entry_bytes: int) -> None:
    kit = Kit(end=end, entry_bytes=entry_bytes, in_flight_bytes_max=1 << 40, pending_max=1 << 20)
    kit.answer(kit.one(P.COMPARE, end), C.INCONSISTENT_STATE, end=0)
    kit.answer(kit.one(P.COMPARE, 0))
    assert len(kit.sent) == end


def test_the_quota_can_be_switched_off() -> None:
    kit = Kit(
        end=3000,
        entry_bytes=MIB,
        in_flight_bytes_max=1 << 40,
        pending_max=1 << 20,
        quota_bytes_per_s=0,
    )
    kit.answer(kit.one(P.COMPARE, 3000), C.INCONSISTENT_STATE, end=0)
    kit.answer(kit.one(P.COMPARE, 0))
    assert len(kit.sent) == 3000
