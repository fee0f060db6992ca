"""The rules of replicated waits: one test per rule, and a state machine against a model of a few
lines.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.ha.core.extent import LogExtent
from actors.ha.core.transfer_wait import TransferWait


@attrs.frozen
class Put:
    next_bytes: int
    deadline_s: float


def group(copies: int = 2, *, synced: bool = False, whole_range: bool = True) -> TransferWait[Put]:
    return TransferWait(copies=copies, synced=synced, counted=("n1", "n2"), whole_range=whole_range)


def grown(wait: TransferWait[Put], written: int, synced: int | None = None) -> None:
    wait.grew(LogExtent(0, written, written if synced is None else synced))


def test_a_wait_is_done_when_enough_nodes_hold_it() -> None:
    wait = group(copies=3)
    grown(wait, 100)
    put = Put(100, 3.0)
    wait.wait([put])
    wait.joined("n1", 1, 0)
    wait.acked("n1", 1, 100, 0.0)
    assert wait.settle(0.0).done == ()
    wait.joined("n2", 2, 0)
    wait.acked("n2", 2, 99, 0.0)
    assert wait.settle(0.0).done == ()
    wait.acked("n2", 2, 100, 0.0)
    assert wait.settle(0.0).done == ((put, 3),)


@pytest.mark.checklist(34)
def test_two_connections_of_one_node_are_one_copy() -> None:
    wait = group(copies=3)
    grown(wait, 100)
    wait.wait([Put(100, 3.0)])
    for connection in (1, 2):
        wait.joined("n1", connection, 0)
        wait.acked("n1", connection, 100, 0.0)
    assert wait.settle(0.0).done == ()
    assert wait.held_bytes() == 0


@pytest.mark.checklist(34)
def test_the_newest_connection_replaces_the_older() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("n1", 1, 0)
    wait.acked("n1", 1, 100, 0.0)
    wait.joined("n1", 2, 0)
    assert wait.held_bytes() == 0
    wait.acked("n1", 1, 100, 0.0)  # late, from the older one
    wait.gone("n1", 1)
    assert wait.held_bytes() == 0
    wait.acked("n1", 2, 40, 0.0)
    assert wait.held_bytes() == 40
    wait.joined("n1", 1, 0)  # even later
    assert wait.held_bytes() == 40


def test_an_older_connection_that_speaks_last_counts_by_what_was_written_since() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("n1", 7, 0)
    wait.acked("n1", 7, 100, 0.0)
    wait.gone("n1", 7)
    wait.joined("n1", 6, 0)
    wait.acked("n1", 6, 100, 0.0)
    assert wait.held_bytes() == 0, "this report may be older than what became of connection 7"
    put = Put(150, 3.0)
    wait.wait([put])
    grown(wait, 150)
    wait.acked("n1", 6, 120, 0.0)
    assert wait.held_bytes() == 120, "bytes that were not there before nobody can have reported"
    wait.acked("n1", 6, 150, 0.0)
    assert wait.settle(0.0).done == ((put, 2),)


def test_a_connection_that_outlives_a_newer_one_starts_afresh() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("n1", 6, 0)
    wait.acked("n1", 6, 100, 0.0)
    wait.joined("n1", 7, 0)
    wait.acked("n1", 7, 40, 0.0)
    wait.gone("n1", 7)
    wait.acked("n1", 6, 100, 0.0)
    assert wait.held_bytes() == 0
    grown(wait, 101)
    wait.acked("n1", 6, 101, 0.0)
    assert wait.held_bytes() == 101
    wait.joined("n1", 8, 0)
    wait.acked("n1", 6, 101, 0.0)
    assert wait.held_bytes() == 0, "only the newest is heard"
    wait.acked("n1", 8, 30, 0.0)
    assert wait.held_bytes() == 30, "and needs no proof"


def test_records_that_wait_are_no_proof_before_the_log_s_growth_is_reported() -> None:
    wait = group()
    grown(wait, 10)
    wait.joined("n1", 7, 0)
    wait.wait([Put(100, 3.0)])
    wait.gone("n1", 7)
    wait.joined("n1", 6, 0)
    wait.acked("n1", 6, 100, 0.0)
    grown(wait, 100)
    assert wait.held_bytes() == 0


def test_nothing_late_revives_a_connection() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("n1", 7, 0)
    wait.gone("n1", 7)
    wait.acked("n1", 7, 100, 0.0)
    wait.gone("n2", 9)
    wait.joined("n1", 7, 0)
    wait.acked("n1", 7, 100, 0.0)
    assert wait.held_bytes() == 0


@pytest.mark.checklist(35)
def test_losing_all_slaves_lowers_what_is_held_but_not_what_was_acknowledged() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("n1", 1, 0)
    wait.acked("n1", 1, 80, 0.0)
    assert wait.settle(0.0).acknowledged_bytes == 80
    wait.gone("n1", 1)
    wait.acked("n1", 1, 100, 0.0)  # nothing late revives it
    put = Put(80, 1.0)
    wait.wait([put])
    effects = wait.settle(0.5)
    assert (effects.done, effects.acknowledged_bytes) == ((), None)
    assert wait.held_bytes() == 0
    assert wait.acknowledged_bytes == 80
    assert wait.settle(1.0).timed_out == (put,)


@pytest.mark.checklist(29)
def test_the_offset_is_tested_before_the_deadline() -> None:
    wait = group()
    grown(wait, 100)
    put, late = Put(50, 3.0), Put(100, 3.0)
    wait.wait([put, late])
    wait.joined("n1", 1, 0)
    wait.acked("n1", 1, 50, 0.0)
    effects = wait.settle(1000.0)
    assert effects.done == ((put, 2),)
    assert effects.timed_out == (late,)


@pytest.mark.checklist(28)
def test_deadlines_are_each_wait_s_own_and_need_no_order() -> None:
    wait = group()
    grown(wait, 300)
    slow, quick, middle = Put(100, 9.0), Put(200, 1.0), Put(300, 2.0)
    wait.wait([slow, quick, middle])
    assert wait.settle(0.0).deadline_s == 1.0
    assert wait.settle(2.5).timed_out == (quick, middle)
    assert wait.settle(2.5).deadline_s == 9.0
    wait.joined("n1", 1, 0)
    wait.acked("n1", 1, 300, 0.0)
    effects = wait.settle(3.0)
    assert effects.done == ((slow, 2),)
    assert effects.deadline_s is None
    assert wait.waiting_count == 0


@pytest.mark.checklist(31)
def test_one_copy_never_waits_for_a_slave() -> None:
    wait = group(copies=1)
    grown(wait, 100)
    put = Put(100, 3.0)
    wait.wait([put])
    assert wait.settle(0.0).done == ((put, 1),)


def test_a_synced_group_waits_for_the_master_s_own_sync() -> None:
    wait = group(copies=1, synced=True)
    grown(wait, 100, synced=60)
    first, second = Put(60, 3.0), Put(100, 3.0)
    wait.wait([first, second])
    assert wait.settle(0.0).done == ((first, 1),)
    grown(wait, 100, synced=100)
    assert wait.settle(0.0).done == ((second, 1),)


def test_slaves_alone_do_not_replace_the_master_s_copy() -> None:
    wait = group(synced=True)
    grown(wait, 100, synced=60)
    wait.joined("n1", 1, 0)
    wait.acked("n1", 1, 100, 0.0)
    assert wait.held_bytes() == 60


def test_a_slave_that_is_not_counted_is_no_copy() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("java", 1, 0)
    wait.acked("java", 1, 100, 0.0)
    assert wait.held_bytes() == 0


@pytest.mark.parametrize(("whole_range", "held"), [(True, 0), (False, 100)])
def test_a_slave_without_the_beginning_counts_only_under_compat(
    whole_range: bool, held: int
) -> None:
    wait = group(whole_range=whole_range)
    grown(wait, 100)
    wait.joined("n1", 1, 64)
    wait.acked("n1", 1, 100, 0.0)
    assert wait.held_bytes() == held


def test_a_slave_counts_again_when_the_master_has_deleted_what_it_lacks() -> None:
    wait = group()
    grown(wait, 100)
    wait.joined("n1", 1, 64)
    wait.acked("n1", 1, 100, 0.0)
    wait.grew(LogExtent(64, 100, 100))
    assert wait.held_bytes() == 100


@pytest.mark.checklist(61)
def test_close_hands_back_what_still_waits() -> None:
    wait = group()
    grown(wait, 100)
    puts = [Put(10, 1.0), Put(20, 9.0), Put(30, 9.0)]
    wait.wait(puts)
    wait.settle(2.0)
    assert wait.close() == (puts[1], puts[2])
    assert wait.close() == ()


def test_waits_out_of_order_are_our_bug() -> None:
    wait = group()
    wait.wait([Put(100, 1.0)])
    with pytest.raises(AssertionError):
        wait.wait([Put(99, 1.0)])


def test_deadlines_of_answered_waits_do_not_pile_up() -> None:
    wait = group(copies=1)
    stays = Put(10_000_000, 0.5)
    for number in range(1, 5001):
        grown(wait, number)
        wait.wait([Put(number, 1000.0 + number)])
        wait.settle(0.0)
        if number == 1:
            wait.wait([])
    wait.wait([stays])
    wait.settle(0.0)
    assert len(wait._deadlines) <= 2 + 1024


class Machine(RuleBasedStateMachine):
    """Random reports, ends and time against a model that recounts everything from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.written = 0
        self.synced_bytes = 0
        self.connection = 0
        self.newest: dict[str, tuple[int, int, int | None]] = {}  # node -> connection, from, offset
        self.waiting: list[Put] = []
        self.shown = 0
        self.wait = TransferWait[Put](copies=2, synced=True, counted=("n1", "n2"))

    @rule(size=st.integers(1, 50), timeouts=st.lists(st.integers(0, 5), max_size=3))
    def write(self, size: int, timeouts: list[int]) -> None:
        puts = []
        for timeout in timeouts:
            self.written += size
            puts.append(Put(self.written, self.now_s + timeout))
        self.waiting += puts
        self.wait.wait(puts)
        self.wait.grew(LogExtent(0, self.written, self.synced_bytes))

    @rule(share=st.floats(0, 1))
    def sync(self, share: float) -> None:
        self.synced_bytes += int((self.written - self.synced_bytes) * share)
        self.wait.grew(LogExtent(0, self.written, self.synced_bytes))

    @rule(node=st.sampled_from(["n1", "n2", "java"]), hole=st.booleans())
    def join(self, node: str, hole: bool) -> None:
        self.connection += 1
        self.newest[node] = (self.connection, int(hole), None)
        self.wait.joined(node, self.connection, int(hole))

    @rule(node=st.sampled_from(["n1", "n2", "java"]), share=st.floats(0, 1), late=st.booleans())
    def ack(self, node: str, share: float, late: bool) -> None:
        connection, holds_from, _ = self.newest.get(node, (0, 0, None))
        offset = int(self.synced_bytes * share)
        if late:
            self.wait.acked(node, connection - 1, offset, 0.0)
        else:
            self.wait.acked(node, connection, offset, 0.0)
            if node in self.newest:
                self.newest[node] = (connection, holds_from, offset)

    @rule(node=st.sampled_from(["n1", "n2"]), late=st.booleans())
    def leave(self, node: str, late: bool) -> None:
        if node in self.newest:
            connection = self.newest[node][0]
            self.wait.gone(node, connection - late)
            if not late:
                del self.newest[node]
                self.wait.acked(node, connection, self.synced_bytes, 0.0)

    @rule(pause_s=st.floats(0, 3))
    def settle(self, pause_s: float) -> None:
        self.now_s += pause_s
        effects = self.wait.settle(self.now_s)
        done = [put for put in self.waiting if self.copies_of(put.next_bytes) >= 2]
        late = [p for p in self.waiting if p not in done and p.deadline_s <= self.now_s]
        assert effects.done == tuple((put, self.copies_of(put.next_bytes)) for put in done)
        assert sorted(effects.timed_out, key=lambda p: p.next_bytes) == late
        self.waiting = [put for put in self.waiting if put not in done and put not in late]
        rest = [put.deadline_s for put in self.waiting]
        assert effects.deadline_s == (min(rest) if rest else None)
        held = max(o for o in range(self.synced_bytes + 1) if o == 0 or self.copies_of(o) >= 2)
        self.shown = max(self.shown, held)
        assert self.wait.acknowledged_bytes == self.shown

    def copies_of(self, offset: int) -> int:
        holders = int(self.synced_bytes >= offset)
        for node in ("n1", "n2"):
            _, holds_from, acked = self.newest.get(node, (0, 1, None))
            holders += acked is not None and holds_from == 0 and acked >= offset
        return holders if self.synced_bytes >= offset else 0

    @invariant()
    def counts_what_waits(self) -> None:
        assert self.wait.waiting_count == len(self.waiting)


TestTransferWaitMachine = Machine.TestCase
TestTransferWaitMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_slave_of_the_last_file_counts_once_the_files_before_it_are_gone() -> None:
    wait = group()
    wait.grew(LogExtent(0, 200, 200))
    wait.joined("n1", 1, 100)
    wait.acked("n1", 1, 200, 0.0)
    assert wait.held_bytes() == 0
    wait.grew(LogExtent(100, 200, 200))
    assert wait.held_bytes() == 200
