"""dledger.md 8 and 5: what a leader commits, and which appends it answers."""

from __future__ import annotations

import attrs
import pytest

from actors.dledger.core.quorum import Quorum, QuorumEffects, quorum_index
from actors.dledger.core.settings import AckSettings
from actors.events import dledger as events


@attrs.frozen(kw_only=True)
class Append:
    last: int
    deadline_s: float = 2.5
    appends: int = 1


def a_quorum(members: int = 3, *, committed: int = -1, **options: bool) -> Quorum[Append]:
    return Quorum(
        self_id="n0",
        peers=tuple(f"n{i}" for i in range(1, members)),
        settings=AckSettings(),
        committed=committed,
        **options,
    )


def leading(
    members: int = 3, *, end: int = 9, end_term: int = 4, committed: int = -1, **options: bool
) -> Quorum[Append]:
    """In session 1 and term 5."""
    quorum = a_quorum(members, committed=committed, **options)
    quorum.lead(session=1, term=5, end=end, end_term=end_term)
    return quorum


def both(quorum: Quorum[Append], index: int, *peers: str) -> QuorumEffects[Append]:
    """This member's disk, then these peers."""
    effects = quorum.stored(1, index)
    for peer in peers:
        effects = quorum.matched(1, peer, index)
    return effects


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [((4,), 4), ((4, 2), 2), ((4, 2, 3), 3), ((9, 1, 5, 3), 3), ((9, 8, 1, 5, 3), 5)],
)
@pytest.mark.checklist(36, of="dledger")
def test_the_highest_index_that_a_majority_has(indexes: tuple[int, ...], expected: int) -> None:
    assert quorum_index(indexes) == expected


@pytest.mark.checklist(36, of="dledger")
@pytest.mark.parametrize(("members", "peers"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_how_many_peers_a_commit_needs(members: int, peers: int) -> None:
    quorum = leading(members)
    names = [f"n{i}" for i in range(1, members)]
    for name in names[: peers - 1] if peers else []:
        assert quorum.matched(1, name, 10).committed is None
    quorum.stored(1, 10)
    if peers:
        assert quorum.committed == -1
        assert quorum.matched(1, names[peers - 1], 10).committed == 10
    assert quorum.committed == 10


@pytest.mark.checklist(24, of="dledger")
def test_figure_8_an_older_entry_is_committed_only_below_one_of_the_own_term() -> None:
    """Bug B1. Entry 9 of term 4 is on all; another leader might still overwrite it."""
    quorum = leading()
    both(quorum, 9, "n1", "n2")
    assert quorum.committed == -1
    quorum.stored(1, 10)
    effects = quorum.matched(1, "n1", 10)
    assert effects.committed == 10
    said = events.CommittedRose(session=1, index=10, holders=("n0", "n1"))
    assert effects.events == (said,)


def test_counting_older_entries_is_upstreams_rule() -> None:
    assert both(leading(count_older=True), 9, "n1").committed == 9


def test_an_entry_of_the_own_term_before_this_session_counts() -> None:
    """This member led the term, stepped down and was elected in it again."""
    quorum = leading(end=9, end_term=5)
    assert quorum.matched(1, "n1", 9).committed == 9


def test_the_leaders_own_disk_is_one_of_the_members() -> None:
    quorum = leading()
    assert quorum.matched(1, "n1", 10).committed is None
    assert quorum.stored(1, 10).committed == 10
    quorum = leading()
    quorum.matched(1, "n1", 10)
    assert quorum.matched(1, "n2", 10).committed == 10, "two others are a quorum"


def test_other_sessions_count_nothing() -> None:
    quorum = leading()
    quorum.stored(1, 10)
    assert quorum.matched(0, "n1", 10).committed is None
    quorum.rest()
    assert quorum.matched(1, "n1", 10).committed is None
    quorum.lead(session=2, term=6, end=10, end_term=5)
    assert quorum.watermarks == {"n1": -1, "n2": -1}


def test_a_peer_that_lost_its_log_is_not_counted_any_more() -> None:
    quorum = leading(5)
    quorum.stored(1, 10)
    quorum.matched(1, "n1", 10)
    quorum.matched(1, "n1", -1)
    assert quorum.matched(1, "n2", 10).committed is None
    assert quorum.matched(1, "n3", 10).committed == 10


def test_the_committed_index_never_falls() -> None:
    quorum = leading()
    both(quorum, 10, "n1")
    assert quorum.matched(1, "n1", 3).committed is None
    assert quorum.committed == 10
    quorum.rest()
    quorum.followed(8)
    assert quorum.committed == 10
    quorum.followed(12)
    assert quorum.committed == 12


# ---- appends that wait ----


def test_appends_are_answered_in_order_when_committed() -> None:
    quorum = leading()
    waits = [Append(last=index) for index in (10, 11, 12)]
    for wait in waits:
        quorum.waiting(wait)
    effects = both(quorum, 11, "n1")
    assert effects.done == tuple(waits[:2])
    assert effects.deadline_s == 2.5
    effects = both(quorum, 12, "n1")
    assert (effects.done, effects.deadline_s) == ((waits[2],), None)


def test_an_append_that_is_committed_already_is_answered_at_once() -> None:
    quorum = leading()
    both(quorum, 10, "n1")
    wait = Append(last=10)
    assert quorum.waiting(wait).done == (wait,)


@pytest.mark.checklist(30, of="dledger")
def test_10001_appends_may_wait_and_fewer_after_time_outs() -> None:
    quorum = leading()
    for index in range(10_000):
        quorum.waiting(Append(last=10 + index, deadline_s=2.5 if index < 5 else 3.0))
    assert quorum.room == 1
    quorum.waiting(Append(last=10_010, deadline_s=3.0))
    assert quorum.room == 0
    assert len(quorum.tick(2.5).timed_out) == 5
    assert quorum.room == 5


@pytest.mark.checklist(30, of="dledger")
def test_what_stands_for_several_appends_counts_as_several() -> None:
    quorum = leading()
    one, two, three = (Append(last=9 + n, deadline_s=float(n), appends=n) for n in (1, 2, 3))
    quorum.waiting(one, two, three)
    assert quorum.open_count == 6
    assert quorum.tick(1.0).timed_out == (one,)
    assert quorum.open_count == 5
    quorum.stored(1, 11)
    assert quorum.matched(1, "n1", 11).done == (two,)
    assert quorum.open_count == 3
    assert quorum.rest().lost == (three,)
    assert quorum.open_count == 0


@pytest.mark.checklist(31, of="dledger")
def test_without_a_quorum_appends_time_out() -> None:
    quorum = leading()
    quorum.stored(1, 11)
    first, second = Append(last=10, deadline_s=2.5), Append(last=11, deadline_s=2.7)
    assert quorum.waiting(first).deadline_s == 2.5
    quorum.waiting(second)
    assert quorum.tick(2.4).timed_out == ()
    effects = quorum.tick(2.5)
    assert (effects.timed_out, effects.deadline_s) == ((first,), 2.7)
    effects = quorum.matched(1, "n1", 11)
    assert (effects.committed, effects.done) == (11, (second,)), "and 10 was answered before"


@pytest.mark.checklist(31, of="dledger")
def test_the_end_of_the_leadership_answers_all_that_wait() -> None:
    """Bug V11."""
    quorum = leading()
    waits = [Append(last=10), Append(last=11, deadline_s=1.0), Append(last=12)]
    for wait in waits:
        quorum.waiting(wait)
    quorum.tick(1.0)
    effects = quorum.rest()
    assert (effects.lost, effects.deadline_s) == ((waits[0], waits[2]), None)
    assert quorum.rest().lost == ()
    assert quorum.room == 10_001


def test_with_a_state_machine_appends_are_answered_when_applied() -> None:
    quorum = leading(by_applied=True)
    wait = Append(last=10)
    quorum.waiting(wait)
    effects = both(quorum, 10, "n1")
    assert (effects.committed, effects.done) == (10, ())
    assert quorum.applied(9).done == ()
    assert quorum.applied(10).done == (wait,)


def test_a_new_leader_does_not_know_what_older_ones_answered_before_it_has_committed() -> None:
    """ReadIndex: with its own entry all that is before it."""
    quorum = leading(committed=7)
    assert both(quorum, 9, "n1").committed is None
    assert quorum.read_index is None
    both(quorum, 10, "n1")
    assert quorum.read_index == 10
    quorum.rest()
    assert quorum.read_index is None


def test_a_leader_that_counts_older_entries_knows_once_all_it_began_with_are_committed() -> None:
    quorum = leading(committed=7, count_older=True)
    assert quorum.read_index is None
    assert both(quorum, 9, "n1").committed == 9
    assert quorum.read_index == 9
    assert leading(committed=9, count_older=True).read_index == 9
    assert leading(end=-1, end_term=-1, count_older=True).read_index == -1
