"""A leader whose log's beginning is gone, and a peer that needs it: a snapshot, or a refusal."""

from __future__ import annotations

import pytest
from dispatch_kit import Kit

from actors.dledger.core.push_effects import DispatcherState
from actors.events import dledger as events
from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode as C

S = DispatcherState


def asked(kit: Kit, *, begin: int = -1, end: int = -1) -> Kit:
    """The peer has answered that its log is this."""
    kit.answer(kit.one(P.COMPARE, kit.dispatch._end), C.INCONSISTENT_STATE, begin=begin, end=end)
    return kit


def needy(begin: int = 50, end: int = 99, **settings: object) -> Kit:
    kit = Kit(begin=begin, end=end, **({"snapshots": "install"} | settings))
    return asked(kit)


def test_an_empty_peer_gets_a_snapshot_then_the_entry_at_its_index_and_what_follows() -> None:
    kit = needy()
    assert kit.state is S.INSTALL_SNAPSHOT
    assert kit.last.install
    assert kit.last.deadline_s is None, "who sends it says how it ended"
    kit.take()
    kit.did(kit.dispatch.installed(1.0, 70))
    assert not kit.last.install
    push = kit.one(P.TRUNCATE, 70)
    assert kit.dispatch.matched == -1
    effects = kit.answer(push)
    assert effects.matched == 70
    assert kit.state is S.APPEND
    assert kit.sent[0].first == 71


@pytest.mark.parametrize(("begin", "end"), [(0, 20), (0, 49)])
def test_so_does_one_whose_log_ends_before_ours_begins(begin: int, end: int) -> None:
    kit = asked(Kit(begin=50, end=99, snapshots="install"), begin=begin, end=end)
    assert kit.last.install


def test_so_does_one_that_has_nothing_in_common_with_what_is_left() -> None:
    kit = Kit(begin=50, end=52, snapshots="install")
    for index in (52, 51, 50):
        assert not kit.last.install
        kit.answer(kit.one(P.COMPARE, index), C.INCONSISTENT_STATE, begin=0, end=60)
    assert kit.last.install


def test_what_is_shared_is_kept_without_one() -> None:
    kit = asked(Kit(begin=50, end=99, snapshots="install"), begin=0, end=60)
    kit.answer(kit.one(P.COMPARE, 60), end=60)
    assert kit.state is S.APPEND


def test_a_log_that_begins_at_its_beginning_needs_none() -> None:
    kit = needy(begin=0, end=9)
    kit.one(P.TRUNCATE, 0)


def test_without_a_machine_the_log_is_sent_from_where_it_begins() -> None:
    kit = asked(Kit(begin=50, end=99))
    kit.one(P.TRUNCATE, 50)


def test_one_that_failed_is_sent_again_after_a_pause() -> None:
    kit = needy()
    kit.did(kit.dispatch.install_failed(0.0, "no answer"))
    kit.take()
    assert kit.state is S.COMPARE
    kit.tick()
    assert kit.now_s == pytest.approx(0.5)
    asked(kit)
    assert kit.last.install


def test_nothing_else_is_sent_meanwhile() -> None:
    kit = needy()
    kit.did(kit.dispatch.grew(0.5, 60, 120))
    kit.did(kit.dispatch.committed(0.6, 120))
    kit.did(kit.dispatch.tick(5.0))
    kit.take()
    assert not kit.last.install, "once is enough"


def test_what_was_installed_may_have_left_the_log_meanwhile() -> None:
    kit = needy()
    kit.did(kit.dispatch.grew(0.5, 80, 120))
    kit.did(kit.dispatch.installed(1.0, 70))
    kit.one(P.COMPARE, 120)
    assert kit.state is S.COMPARE


def test_the_end_of_the_leadership_ends_it() -> None:
    kit = needy()
    kit.did(kit.dispatch.rest())
    kit.did(kit.dispatch.installed(1.0, 70))
    kit.did(kit.dispatch.install_failed(1.0, "gone"))
    kit.take()
    kit.did(kit.dispatch.lead(2.0, term=6, begin=50, end=99, committed=99))
    kit.one(P.COMPARE, 99)
    kit.did(kit.dispatch.installed(2.1, 70))
    kit.take()
    assert kit.state is S.COMPARE, "that was of the term before"


def test_a_java_member_is_refused_by_name_and_seldom() -> None:
    """dledger.md 11.4; V3: no spin."""
    kit = needy(snapshots="refuse")
    refused = [each for each in kit.last.events if isinstance(each, events.SnapshotRefused)]
    assert [(each.peer, each.index) for each in refused] == [("n1", 50)]
    assert "Java" in refused[0].reason
    kit.take()
    kit.tick()
    assert kit.now_s == pytest.approx(60.0)
    kit.one(P.COMPARE, 99)


def test_it_goes_on_once_the_peer_has_what_it_needs() -> None:
    kit = needy(snapshots="refuse")
    kit.tick()
    kit.answer(kit.one(P.COMPARE, 99), begin=40)
    assert kit.state is S.APPEND
