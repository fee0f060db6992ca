"""The sync state set of a master: who joins, who leaves, and what is confirmed."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.ha.core.ack_policy import ALL_IN_SYNC
from actors.ha.core.extent import LogExtent
from actors.ha.core.sync_state_set import (
    ABSENT_S,
    ASK_AGAIN_S,
    CANDIDATE_S,
    NOTHING,
    Effects,
    InSyncStateSet,
    Refusal,
    SyncStateSet,
)
from actors.ha.core.transfer_wait import TransferWait


def master(
    *others: int, end: int = 1000, confirm: int = 1000, epoch_start: int = 500
) -> SyncStateSet:
    return SyncStateSet(
        own=1,
        members=frozenset({1, *others}),
        set_epoch=7,
        epoch_start_bytes=epoch_start,
        not_catchup_s=15.0,
        end_bytes=end,
        confirm_bytes=confirm,
        now_s=0.0,
    )


def asks(*members: int) -> Effects:
    return Effects(alter=frozenset(members))


def connected(*others: int, end: int = 1000, learners: tuple[int, ...] = ()) -> SyncStateSet:
    """A master whose members are connected and hold all, as well as learners outside."""
    found = master(*others, end=end, confirm=0)
    for replica in (*others, *learners):
        found.joined(replica, replica * 10, 0.0, async_learner=replica in learners)
        assert found.acked(replica, replica * 10, end, 0.0) == NOTHING
    assert found.confirm_bytes == end
    return found


# ---- who joins ----


@pytest.mark.checklist(30, of="autoswitch")
@pytest.mark.parametrize(
    ("ack", "learner", "joins"),
    [(1000, False, True), (1000, True, False), (999, False, False), (499, False, False)],
)
def test_who_holds_what_is_confirmed_joins_but_no_learner(
    ack: int, learner: bool, joins: bool
) -> None:
    found = master()
    found.joined(2, 20, 0.0, async_learner=learner)
    assert found.acked(2, 20, ack, 1.0) == (asks(1, 2) if joins else NOTHING)


@pytest.mark.checklist(30, of="autoswitch")
def test_who_has_not_all_from_before_the_epoch_does_not_join() -> None:
    found = master(2, end=1000, confirm=0, epoch_start=500)
    found.joined(3, 30, 0.0, async_learner=False)
    assert found.confirm_bytes == 0  # member 2 has not connected
    assert found.acked(3, 30, 400, 1.0) == NOTHING
    assert found.acked(3, 30, 1000, 2.0) == asks(1, 2, 3)


@pytest.mark.checklist(30, of="autoswitch")
def test_under_steady_load_a_replica_that_keeps_up_joins() -> None:
    """autoswitch-ha.md T16: upstream's joins at an instant at which it is exactly level."""
    found, end, now_s = master(), 1000, 0.0
    found.joined(2, 20, now_s, async_learner=False)
    asked = NOTHING
    for _ in range(10):  # each report is of the end of the turn before
        now_s += 0.1
        asked = found.acked(2, 20, end, now_s)
        if asked != NOTHING:
            break
        end += 100
        found.grew(end, now_s)
    assert asked == asks(1, 2)
    assert found.confirm_bytes <= end  # and it holds that


def test_a_candidate_that_does_not_get_there_stops_nobody_for_long() -> None:
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    found.acked(2, 20, 990, 0.1)
    found.grew(1100, 0.2)
    assert found.confirm_bytes == 1100
    found.acked(2, 20, 1000, 0.3)  # what the end was at its report before: it keeps up
    found.grew(1200, 0.4)
    assert found.confirm_bytes == 1100
    found.grew(1300, 0.3 + CANDIDATE_S)
    assert found.confirm_bytes == 1300
    found.acked(2, 20, 1200, 2.0)
    found.grew(1400, 2.1)
    assert found.confirm_bytes == 1400  # it had its turn


# ---- who leaves ----


@pytest.mark.checklist(31, of="autoswitch")
def test_a_member_that_is_behind_for_too_long_leaves() -> None:
    found = connected(2, 3)
    found.grew(2000, 1.0)
    assert found.acked(3, 30, 2000, 14.0) == NOTHING
    for now_s in (5.0, 10.0, 15.0):
        assert found.acked(2, 20, 1000, now_s) == NOTHING
    assert found.acked(2, 20, 1000, 15.1) == asks(1, 3)
    assert found.confirm_bytes == 1000  # until it is known to have left
    assert found.adopted(frozenset({1, 3}), 8, 16.0) == NOTHING
    assert found.confirm_bytes == 2000


@pytest.mark.checklist(31, of="autoswitch")
def test_a_silent_member_is_not_caught_up_because_nothing_is_sent() -> None:
    """autoswitch-ha.md T20."""
    found = connected(2)
    assert found.tick(15.0) == NOTHING
    assert found.tick(15.1) == asks(1)


@pytest.mark.checklist(31, of="autoswitch")
def test_a_member_that_disconnects_leaves_and_one_that_never_came_a_little_later() -> None:
    found = master(2, 3, confirm=700)
    found.joined(2, 20, 0.0, async_learner=False)
    assert found.acked(2, 20, 1000, 0.1) == NOTHING
    assert found.tick(ABSENT_S) == NOTHING
    assert found.tick(ABSENT_S + 0.1) == asks(1, 2)
    found.adopted(frozenset({1, 2}), 8, 4.0)
    assert found.gone(2, 20, 5.0) == asks(1)
    assert found.in_sync_count == 1


@pytest.mark.checklist(36, of="autoswitch")
def test_two_that_leave_at_once_both_leave() -> None:
    """autoswitch-ha.md T17: upstream's second request brings the first one back."""
    found = connected(2, 3)
    assert found.gone(2, 20, 1.0) == asks(1, 3)
    assert found.gone(3, 30, 1.0) == NOTHING
    assert found.adopted(frozenset({1, 3}), 8, 1.1) == asks(1)
    assert found.adopted(frozenset({1}), 9, 1.2) == NOTHING
    assert found.members == {1}


def test_an_older_connection_that_ends_changes_nothing() -> None:
    found = connected(2)
    found.joined(2, 21, 1.0, async_learner=False)
    assert found.gone(2, 20, 1.1) == NOTHING
    assert found.acked(2, 20, 1000, 1.2) == NOTHING
    assert found.acked(2, 21, 1000, 1.3) == NOTHING


def test_a_member_that_has_lost_what_it_had_leaves() -> None:
    found = connected(2)
    found.joined(2, 21, 1.0, async_learner=False)
    assert found.acked(2, 21, 0, 1.1) == asks(1)
    assert found.confirm_bytes == 1000


# ---- requests ----


@pytest.mark.checklist(32, of="autoswitch")
def test_while_a_request_is_under_way_the_union_acknowledges() -> None:
    """autoswitch-ha.md T14."""
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    assert found.acked(2, 20, 1000, 1.0) == asks(1, 2)
    assert found.effective == {1, 2}
    found.grew(1500, 1.1)
    assert found.confirm_bytes == 1000
    assert found.in_sync_count == 1  # it may still be refused
    found.acked(2, 20, 1500, 1.2)
    assert found.confirm_bytes == 1500


@pytest.mark.checklist(32, of="autoswitch")
def test_a_refusal_ends_the_wait_for_who_did_not_join() -> None:
    """autoswitch-ha.md T15, T49: with upstream every append hangs from then on."""
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    assert found.acked(2, 20, 1000, 1.0) == asks(1, 2)
    found.gone(2, 20, 1.1)
    found.grew(1500, 1.2)
    assert found.refused(Refusal.REPLICA, 1.3) == NOTHING
    assert (found.effective, found.confirm_bytes) == ({1}, 1500)


def test_after_a_refusal_it_asks_again_and_not_at_once() -> None:
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    found.acked(2, 20, 1000, 1.0)
    assert found.refused(Refusal.REPLICA, 1.1) == NOTHING
    assert found.acked(2, 20, 1000, 1.2) == NOTHING
    assert found.tick(1.1 + ASK_AGAIN_S) == asks(1, 2)


@pytest.mark.checklist(32, of="autoswitch")
def test_a_request_without_an_answer_counts_until_it_is_known_what_became_of_it() -> None:
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    found.acked(2, 20, 1000, 1.0)
    found.unanswered(2.0)
    found.gone(2, 20, 2.1)
    found.grew(1500, 2.2)
    assert found.confirm_bytes == 1000  # it may be a member
    assert found.adopted(frozenset({1}), 7, 2.3) == NOTHING  # the request may still arrive
    assert found.confirm_bytes == 1000
    assert found.tick(2.0 + ASK_AGAIN_S) == asks(1)
    found.refused(Refusal.SAME, 3.1)
    assert found.confirm_bytes == 1500


def test_a_stale_request_waits_for_the_newer_set() -> None:
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    found.acked(2, 20, 1000, 1.0)
    assert found.refused(Refusal.STALE, 1.1) == NOTHING
    assert found.is_stale
    found.grew(1500, 1.2)
    assert found.tick(9.0) == NOTHING
    assert found.confirm_bytes == 1000
    assert found.adopted(frozenset({1, 2}), 9, 9.1) == NOTHING
    assert not found.is_stale


def test_a_set_that_the_controller_has_by_a_lost_answer_is_waited_for() -> None:
    found = master()
    found.joined(2, 20, 0.0, async_learner=False)
    found.acked(2, 20, 1000, 1.0)
    found.unanswered(2.0)
    assert found.tick(2.0 + ASK_AGAIN_S) == asks(1, 2)
    assert found.refused(Refusal.SAME, 3.1) == NOTHING
    found.grew(1500, 3.2)
    assert (found.is_stale, found.confirm_bytes) == (True, 1000)
    found.adopted(frozenset({1, 2}), 8, 3.3)
    assert (found.is_stale, found.members) == (False, {1, 2})


def test_a_set_without_this_master_is_not_adopted() -> None:
    found = connected(2)
    assert found.adopted(frozenset({2}), 9, 1.0) == NOTHING
    assert (found.members, found.is_stale) == ({1, 2}, True)


# ---- what is confirmed ----


@pytest.mark.checklist(34, of="autoswitch")
def test_the_confirm_offset_is_the_least_of_the_set_and_stands_while_one_is_away() -> None:
    found = connected(2, 3)
    found.grew(2000, 1.0)
    found.acked(2, 20, 2000, 1.1)
    found.acked(3, 30, 1600, 1.2)
    assert found.confirm_bytes == 1600
    found.gone(3, 30, 1.3)
    found.grew(2500, 1.4)
    found.acked(2, 20, 2500, 1.5)
    assert found.confirm_bytes == 1600
    assert master(2, 3, end=2500, confirm=1600).confirm_bytes == 1600  # after a restart
    assert master(2, 3, end=1500, confirm=1600).confirm_bytes == 1500
    assert master(end=2500, confirm=1600).confirm_bytes == 2500


@pytest.mark.checklist(33, of="autoswitch")
def test_a_number_of_copies_counts_replicas_and_no_learners() -> None:
    """autoswitch-ha.md T19: upstream counts connections."""
    found = connected(2, learners=(4,))
    found.grew(1500, 1.0)
    found.joined(2, 21, 1.0, async_learner=False)
    found.acked(2, 21, 1200, 1.1)
    found.acked(4, 40, 1500, 1.1)
    assert [found.held_by(copies) for copies in (1, 2, 3)] == [1500, 1200, 0]


# ---- appends ----


@attrs.frozen
class Append:
    next_bytes: int
    deadline_s: float = 3.0


def test_nothing_is_confirmed_with_fewer_members_than_an_append_needs() -> None:
    found = connected(2)
    found.least = 2
    found.grew(1500, 1.0)
    assert found.gone(2, 20, 1.0) == asks(1)
    found.unanswered(1.1)  # the controller may have that set
    found.joined(2, 21, 1.2, async_learner=False)
    assert found.acked(2, 21, 1500, 1.2) == NOTHING
    assert (found.confirm_bytes, found.in_sync_count) == (1000, 1)
    found.adopted(frozenset({1}), 8, 2.2)
    assert (found.confirm_bytes, found.in_sync_count) == (1000, 1)
    found.adopted(frozenset({1, 2}), 9, 2.3)
    assert (found.confirm_bytes, found.in_sync_count) == (1500, 2)


def waits(found: SyncStateSet, need: int = ALL_IN_SYNC, least: int = 1) -> TransferWait[Append]:
    policy = InSyncStateSet(members=found, in_sync_replicas=need, min_in_sync_replicas=least)
    wait: TransferWait[Append] = TransferWait(
        copies=1, synced=False, counted=("n1", "n2"), policy=policy
    )
    wait.grew(LogExtent(0, found.end_bytes, found.end_bytes))
    return wait


def put(wait: TransferWait[Append], found: SyncStateSet, end: int) -> Append:
    append = Append(end)
    wait.wait([append])
    found.grew(end, 0.0)
    wait.grew(LogExtent(0, end, end))
    return append


def done(wait: TransferWait[Append], now_s: float) -> list[Append]:
    return [each for each, _ in wait.settle(now_s).done]


@pytest.mark.checklist(33, of="autoswitch")
def test_an_append_waits_for_every_member_and_is_refused_by_too_few() -> None:
    found = connected(2, 3)
    wait = waits(found, least=3)
    assert wait.refusal() == ""
    one = put(wait, found, 1100)
    found.acked(2, 20, 1100, 0.1)
    assert done(wait, 0.1) == []
    found.acked(3, 30, 1100, 0.2)
    assert done(wait, 0.2) == [one]
    late = put(wait, found, 1200)
    found.acked(2, 20, 1200, 0.3)
    assert found.gone(3, 30, 0.3) == asks(1, 2)
    assert wait.refusal() == "nodes in sync: 2, required: 3"
    assert wait.settle(2.9).done == ()
    assert wait.settle(3.0).timed_out == (late,)  # it is stored all the same
    found.adopted(frozenset({1, 2}), 8, 3.1)
    assert wait.settle(3.1).acknowledged_bytes == 1200


@pytest.mark.checklist(32, 33, of="autoswitch")
def test_an_append_waits_for_who_was_asked_for() -> None:
    found = master()
    wait = waits(found)
    assert done(wait, 0.0) == []
    one = put(wait, found, 1100)
    assert done(wait, 0.1) == [one]
    found.joined(2, 20, 0.1, async_learner=False)
    assert found.acked(2, 20, 1100, 0.2) == asks(1, 2)
    two = put(wait, found, 1200)
    assert done(wait, 0.3) == []
    found.refused(Refusal.REPLICA, 0.4)
    assert done(wait, 0.4) == [two]


@pytest.mark.checklist(33, of="autoswitch")
def test_a_fixed_number_waits_for_no_more_than_that() -> None:
    found = connected(2, 3)
    wait = waits(found, need=2)
    one = put(wait, found, 1100)
    found.acked(3, 30, 1100, 0.1)
    assert done(wait, 0.1) == [one]
    assert found.confirm_bytes == 1000  # readers wait for all


# ---- any history ----


@attrs.define
class Request:
    members: frozenset[int]
    set_epoch: int


class Group(RuleBasedStateMachine):
    """A master, replicas 2 and 3, the learner 4, and a controller behind a link that loses answers.

    What a member of the controller's set lacks was never confirmed, nor anything while that has
    fewer members than appends need.
    """

    least = 1

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.found = master(end=0, confirm=0, epoch_start=0)
        self.found.least = self.least
        self.members, self.set_epoch = self.found.members, self.found.set_epoch
        self.held = {1: 0, 2: 0, 3: 0, 4: 0}
        self.connections = {2: 0, 3: 0, 4: 0}  # 0: not connected
        self.number = 0
        self.under_way: list[Request] = []  # the newest one is being waited for
        self.waits = False
        self.highest = 0

    def take(self, effects: Effects) -> None:
        if effects.alter is not None:
            assert not self.waits
            self.waits = True
            self.under_way.append(Request(effects.alter, self.found.set_epoch))

    def apply(self, request: Request) -> str:
        if request.members == self.members:
            return "same"
        if request.set_epoch != self.set_epoch:
            return "stale"
        assert 4 not in request.members
        self.members, self.set_epoch = request.members, self.set_epoch + 1
        return ""

    @rule(size=st.integers(1, 50))
    def append(self, size: int) -> None:
        self.held[1] += size
        self.take(self.found.grew(self.held[1], self.now_s))

    @rule(replica=st.sampled_from((2, 3, 4)))
    def connect(self, replica: int) -> None:
        self.number += 1
        self.connections[replica] = self.number
        self.found.joined(replica, self.number, self.now_s, async_learner=replica == 4)
        self.report(replica)

    @precondition(lambda self: any(self.connections.values()))
    @rule(replica=st.sampled_from((2, 3, 4)))
    def disconnect(self, replica: int) -> None:
        number, self.connections[replica] = self.connections[replica], 0
        self.take(self.found.gone(replica, number, self.now_s))

    @rule(replica=st.sampled_from((2, 3, 4)), share=st.sampled_from((0.3, 0.9, 1.0)))
    def copy(self, replica: int, share: float) -> None:
        if self.connections[replica]:
            self.held[replica] += int((self.held[1] - self.held[replica]) * share)

    @rule(replica=st.sampled_from((2, 3, 4)))
    def report(self, replica: int) -> None:
        number = self.connections[replica]
        if number:
            self.take(self.found.acked(replica, number, self.held[replica], self.now_s))

    @rule(pause_s=st.sampled_from((0.1, 0.5, 4.0, 16.0)))
    def time(self, pause_s: float) -> None:
        self.now_s += pause_s
        self.take(self.found.tick(self.now_s))

    @precondition(lambda self: self.waits)
    @rule(is_lost=st.booleans())
    def answer(self, is_lost: bool) -> None:
        """The controller acts; its answer says what became of all requests before, too."""
        self.waits = False
        outcome = self.apply(self.under_way[-1])
        if is_lost:
            self.found.unanswered(self.now_s)
        else:
            self.under_way.clear()
            self.say(outcome)

    def say(self, outcome: str) -> None:
        if outcome:
            refusal = Refusal.SAME if outcome == "same" else Refusal.STALE
            self.take(self.found.refused(refusal, self.now_s))
        else:
            self.poll()

    @precondition(lambda self: self.waits)
    @rule()
    def time_out(self) -> None:
        """The request is late: it may still be carried out."""
        self.waits = False
        self.found.unanswered(self.now_s)

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 9))
    def late(self, which: int) -> None:
        if which < len(self.under_way) - self.waits:
            self.apply(self.under_way.pop(which))

    @rule()
    def poll(self) -> None:
        was = self.found.set_epoch
        waited = self.waits
        self.waits = self.waits and self.set_epoch <= was
        if waited and not self.waits:
            self.under_way.pop()
        self.take(self.found.adopted(self.members, self.set_epoch, self.now_s))

    @invariant()
    def members_hold_what_is_confirmed(self) -> None:
        confirmed = self.found.confirm_bytes
        assert self.highest <= confirmed <= self.held[1]
        assert confirmed == self.highest or len(self.members) >= self.least
        self.highest = confirmed
        assert all(self.held[replica] >= confirmed for replica in self.members)

    def teardown(self) -> None:
        """With all connected and all answers, everybody joins and all is confirmed."""
        self.under_way = self.under_way[-1:] if self.waits else []
        for replica in (2, 3, 4):
            if not self.connections[replica]:
                self.connect(replica)
        for _ in range(80):
            self.time(0.5)
            self.append(7)
            for replica in (2, 3, 4):
                self.report(replica)  # of what was there before: it is never level
                self.copy(replica, 1.0)
            if self.waits:
                self.answer(is_lost=False)
            self.poll()
            self.members_hold_what_is_confirmed()
        assert self.members == self.found.members == {1, 2, 3}
        for replica in (2, 3):
            self.report(replica)
        assert self.found.confirm_bytes == self.held[1]


class GroupOfTwo(Group):
    """The same, where two have to be in sync."""

    least = 2


TestGroup, TestGroupOfTwo = Group.TestCase, GroupOfTwo.TestCase
TestGroup.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestGroupOfTwo.settings = TestGroup.settings


# ---- the lease ----


def test_the_end_of_the_lease_is_no_copy() -> None:
    found = connected(2)
    policy = InSyncStateSet(members=found, in_sync_replicas=3, min_in_sync_replicas=1)
    found.joined(3, 30, 0.0, async_learner=False)
    found.acked(3, 30, 600, 0.1)
    assert policy.copied_bytes(3, 1000, ()) == 600
    found.lease_until_s = 1.0
    found.tick(2.0)
    assert (found.has_lease, found.confirm_bytes) == (False, 1000)
    assert policy.copied_bytes(3, 1000, ()) == 600


@pytest.mark.parametrize("need", [ALL_IN_SYNC, 2])
@pytest.mark.checklist(47, of="autoswitch")
def test_nothing_is_confirmed_once_the_lease_has_ended(need: int) -> None:
    found = connected(2)
    policy = InSyncStateSet(members=found, in_sync_replicas=need, min_in_sync_replicas=1)
    found.lease_until_s = 10.0
    found.grew(1500, 9.0)
    found.acked(2, 20, 1200, 9.9)
    assert policy.copied_bytes(need, 1500, ()) == 1200
    assert policy.refusal(1500, ()) == ""
    found.acked(2, 20, 1500, 10.0)
    assert found.confirm_bytes == 1200
    assert policy.copied_bytes(need, 1500, ()) == 1200
    assert policy.refusal(1500, ()).startswith("no controller has answered in time")
    found.lease_until_s = 20.0
    found.tick(10.1)
    assert policy.copied_bytes(need, 1500, ()) == 1500
    assert policy.refusal(1500, ()) == ""
