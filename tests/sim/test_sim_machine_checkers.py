"""Every invariant of DLedger groups with a state machine is fed a history that is right, then one
that is broken; and so are the validations.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any

import attrs
import pytest
from test_sim_ledger_checkers import GROUP, committed, entry, fault, leads, reported

from actors.events.dledger import SnapshotSaved
from actors.log_types import Receipt
from actors.sim.disk import SimDisk
from actors.sim.dledger.judges import machine as checkers
from actors.sim.dledger.judges.checkers import Chosen
from actors.sim.dledger.judges.machine import judge_registers, machines_equal, register_operations
from actors.sim.dledger.ledger_bytes import body_of, position_of, term_of
from actors.sim.dledger.machine import (
    MachineOptions,
    State,
    encode_command,
    snapshot_bytes,
)
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendUnknown,
    History,
    MachineDid,
    MachineRead,
    Observation,
)
from actors.sim.judges.linear.registers import Add, CompareAndSet, Read, Write
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.snapshots import TAKEN, SnapshotFolder

OPTIONS = MachineOptions(filler_bytes=100)
BODIES = (
    encode_command("1", "r0", Write(5), b"\0;;"),
    b"",  # opened a term
    encode_command("2", "r0", CompareAndSet(5, 6)),
    encode_command("3", "c0", Add(1)),
    encode_command("4", "r0", Read()),
    b"no command",
)
RESULTS: tuple[Hashable, ...] = ("written", None, True, "added", 6, None)


def log() -> list[bytes]:
    """The entries of BODIES."""
    found = [entry(index, 1, body or b"-") for index, body in enumerate(BODIES)]
    found[1] = entry(1, 1, b"-")[:-1]
    return found


def made(*indexes: int) -> State:
    """A machine's state after these entries."""
    state = State()
    for index in indexes:
        state.apply(index, 1, BODIES[index])
    return state


@attrs.define
class Logs:
    """Each member has all entries, on a disk of its own; what it has let go of is below `begin`."""

    disks: dict[str, SimDisk] = attrs.field(factory=dict)
    begin: dict[str, int] = attrs.field(factory=dict)

    def entry(self, node: str, index: int) -> bytes:
        return log()[index] if index < len(BODIES) else b""

    def holds(self, node: str, wanted: bytes) -> bool:
        return wanted in log()

    def vote(self, node: str) -> None:
        return None

    def has_let_go(self, node: str, place: int) -> bool:
        return place < 100 * self.begin.get(node, 0)

    def disk(self, node: str) -> SimDisk:
        return self.disks[node]

    def layout(self, node: str) -> LedgerLayout:
        return LedgerLayout(f"/{node}")

    def save(
        self, node: str, index: int, data: bytes, term: int = 1, *, syncs: bool = True
    ) -> None:
        """A snapshot on the disk."""
        disk = self.disks[node]
        folder = SnapshotFolder(disk, self.layout(node).snapshot, GROUP.members)
        folder.open()
        writer = folder.writer(TAKEN)
        writer.write(data)
        for path in writer.finish(index, term):
            if syncs:
                file = disk.open(path, "r")
                file.sync()
        writer.commit()


@attrs.define
class Judged:
    """A history with all checkers of a group with a machine."""

    logs: Logs = attrs.field(factory=Logs)
    chosen: Chosen = attrs.field(init=False)
    history: History = attrs.field(init=False)
    own: list[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        for name in GROUP.members:
            self.logs.disks[name] = SimDisk(random.Random(1))
        self.chosen = Chosen(group=GROUP, logs=self.logs)
        replay = checkers.Replay(self.chosen)
        self.own = checkers.machine_invariants(replay, self.logs, OPTIONS)  # type: ignore[arg-type]
        self.history = History((self.chosen, *self.own))

    def see(self, *observations: Observation) -> list[str]:
        """Which checkers have objected so far."""
        for one in observations:
            self.history.add(one)
        return [violation.checker for violation in self.history.violations]


@pytest.fixture
def judged() -> Judged:
    """Entries 0 to 5 are committed."""
    one = Judged()
    assert one.see(leads("n0", 1), committed("n0", len(BODIES) - 1)) == []
    assert [body_of(each) for each in one.chosen.entries] == list(BODIES)
    return one


def did(what: str, state: State, *indexes: int, node: str = "n1", boot: int = 1) -> MachineDid:
    return MachineDid(
        at_s=1.0,
        node=node,
        boot=boot,
        group="g0",
        what=what,
        indexes=indexes,
        last=state.last,
        chain=state.chain,
    )


def saved(index: int, term: int = 1) -> Observation:
    event = SnapshotSaved(index=index, term=term, size_bytes=1, installed=False)
    return reported("n1", event, part="state_machine_caller")


# ---- invariants ----


def test_a_good_history_passes(judged: Judged) -> None:
    state = made(0, 2, 3)
    judged.logs.save("n1", 3, snapshot_bytes(state, OPTIONS))
    judged.logs.begin["n1"] = 3
    good = (
        did("made", State()),
        did("applied", made(0, 2), 0, 2),
        did("applied", state, 3),
        saved(3),
        fault("kill", "n1"),
        did("made", State(), boot=2),
        did("loads", State(), boot=2),
        did("loaded", state, boot=2),
        did("applied", made(0, 2, 3, 4, 5), 4, 5, boot=2),
    )
    assert judged.see(*good) == []


@pytest.mark.parametrize(
    "broken",
    [
        [did("applied", made(0, 2), 0, 2), did("applied", made(0, 2, 2), 2)],
        [did("applied", made(2, 0), 2, 0)],
        [did("loaded", made(0, 2)), did("applied", made(0, 2, 2), 2)],
        [did("applied", made(0, 2), 0, 2), did("loaded", made(0))],
        [did("made", State())],
    ],
    ids=["again", "order", "again after a load", "back", "a second machine"],
)
def test_what_is_applied_twice_or_out_of_order(judged: Judged, broken: list[Observation]) -> None:
    judged.see(did("made", State()))
    assert "AppliedOnceInOrder" in judged.see(*broken)


@pytest.mark.parametrize(
    "broken",
    [did("applied", made(2), 2), did("loaded", made(0, 2, 2)), did("applied", made(0, 3), 0, 3)],
    ids=["one left out", "one twice in a snapshot", "another left out"],
)
def test_a_machine_that_is_not_what_is_committed(judged: Judged, broken: Observation) -> None:
    assert judged.see(did("made", State()), broken) == ["MachineIsReplay"]


def test_a_machine_that_is_ahead_is_judged_later() -> None:
    judged = Judged()
    ahead = did("applied", made(0, 2), 0, 2)
    assert judged.see(leads("n0", 1), committed("n0", 0), ahead) == []
    assert len([text for each in judged.own[1:2] for text in each.unfounded()]) == 1
    assert judged.see(committed("n0", 3)) == []
    assert list(judged.own[1].unfounded()) == []
    assert judged.see(saved(2)) == ["SnapshotIsReplay"]  # it is not on the disk
    early = Judged()
    wrong = did("applied", made(0, 3), 0, 3)
    assert early.see(leads("n0", 1), committed("n0", 0), wrong) == []
    assert early.see(committed("n0", 3)) == ["MachineIsReplay"]


def test_a_machine_that_does_not_wait_for_the_commit() -> None:
    judged = Judged()
    ahead = did("applied", made(0, 2), 0, 2)
    assert judged.see(leads("n0", 1), committed("n0", 0), ahead) == []
    other, same = committed("n2", 0), attrs.evolve(committed("n1", 0), at_s=1.1)
    assert judged.see(other, attrs.evolve(same, node="n2", at_s=1.1)) == []
    assert judged.see(same) == ["MachineIsReplay"]


def answered(first: int, *results: object) -> tuple[AppendAsked, AppendAnswered]:
    last = first + len(results) - 1
    receipt = Receipt(
        first=first,
        last=last,
        next=last + 1,
        count=len(results),
        copies=2,
        durability="synced",
        results=results,
    )
    bodies = BODIES[first : last + 1]
    asked = AppendAsked(at_s=1.0, client="c", operation=first, bodies=bodies, group="g0")
    return asked, AppendAnswered(at_s=1.0, client="c", operation=first, receipt=receipt)


def test_results_that_are_others(judged: Judged) -> None:
    assert judged.see(*answered(2, True, "added", 6)) == []
    assert judged.see(*answered(2, True, "added", 5)) == ["ResultsAreReplay"]
    assert judged.see(*answered(2, False)) == ["ResultsAreReplay"] * 2


@pytest.mark.parametrize(
    ("state", "term"),
    [(made(0, 2), 1), (made(0, 2, 3, 4), 1), (made(0, 2, 3), 0)],
    ids=["too little", "too much", "another term"],
)
def test_a_snapshot_that_says_something_else(judged: Judged, state: State, term: int) -> None:
    judged.logs.save("n1", 3, snapshot_bytes(state, OPTIONS), term)
    assert judged.see(saved(3, term)) == ["SnapshotIsReplay"]


def test_a_torn_snapshot(judged: Judged) -> None:
    data = snapshot_bytes(made(0, 2, 3), OPTIONS)
    judged.logs.save("n1", 3, data[:-1] + b"\0")
    assert judged.see(saved(3)) == ["SnapshotIsReplay"]


def test_a_snapshot_that_is_not_synced(judged: Judged) -> None:
    judged.logs.save("n1", 3, snapshot_bytes(made(0, 2, 3), OPTIONS), syncs=False)
    assert judged.see(saved(3)) == ["SnapshotIsReplay"]


def test_a_log_that_lets_go_of_what_no_snapshot_has(judged: Judged) -> None:
    judged.logs.begin["n1"] = 3
    assert judged.see(fault("kill", "n2")) == ["GoneIsInSnapshot"]
    judged.logs.save("n1", 3, snapshot_bytes(made(0, 2, 3), OPTIONS))
    judged.logs.begin["n1"] = 4
    assert judged.see(fault("kill", "n2")) == ["GoneIsInSnapshot"]
    judged.logs.begin["n1"] = 5
    assert judged.see(fault("kill", "n2")) == ["GoneIsInSnapshot"] * 2


@pytest.mark.parametrize("torn", ["data", "snapshot_meta"])
def test_a_snapshot_that_is_damaged_is_none(judged: Judged, torn: str) -> None:
    judged.logs.save("n1", 3, snapshot_bytes(made(0, 2, 3), OPTIONS))
    layout, disk = judged.logs.layout("n1"), judged.logs.disk("n1")
    before: checkers.Judged = {}
    assert checkers.durable_snapshots(disk, layout, before) == [3]
    path = f"{layout.snapshot}/snapshot_3/{torn}"
    good = disk.durable_range(path, 20, 21)
    disk.flip_bits(path, 20, 1)
    assert checkers.durable_snapshots(disk, layout) == []
    assert checkers.durable_snapshots(disk, layout, before) == []
    disk.inode(path).patch(good, 20)
    assert checkers.durable_snapshots(disk, layout, before) == [3]
    disk.rmtree(f"{layout.snapshot}/snapshot_3")
    assert checkers.durable_snapshots(disk, layout, before) == []
    assert before == {}


def test_a_snapshot_that_has_not_changed_is_not_read_again(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.logs.save("n1", 3, snapshot_bytes(made(0, 2, 3), OPTIONS))
    layout, disk = judged.logs.layout("n1"), judged.logs.disk("n1")
    before: checkers.Judged = {}
    assert checkers.durable_snapshots(disk, layout, before) == [3]
    monkeypatch.setattr(type(disk), "durable", None)
    assert checkers.durable_snapshots(disk, layout, before) == [3]


def test_where_a_log_begins(judged: Judged) -> None:
    for begin in range(len(BODIES) + 1):
        judged.logs.begin["n1"] = begin
        assert checkers.log_begin(judged.chosen, judged.logs, "n1") == begin  # type: ignore[arg-type]
    assert [position_of(each) for each in judged.chosen.entries] == [100 * at for at in range(6)]
    assert {term_of(each) for each in judged.chosen.entries} == {1}


# ---- validations ----


def test_machines_that_differ_at_the_end(judged: Judged) -> None:
    replay = checkers.Replay(judged.chosen)
    whole = made(0, 2, 3, 4, 5)
    assert list(machines_equal({"n0": whole, "n1": whole}, replay)) == []
    assert len(list(machines_equal({"n0": whole, "n1": made(0, 2, 3, 4)}, replay))) == 1
    other = attrs.evolve(whole, values={"r0": 7})
    assert len(list(machines_equal({"n0": other, "n1": whole}, replay))) == 1


def shown(value: int | None, key: str = "r0", asked: int = 1 << 20) -> MachineRead:
    return MachineRead(at_s=1.0, node="n0", boot=1, group="g0", asked=asked, key=key, value=value)


def unknown(*bodies: bytes) -> tuple[AppendAsked, AppendUnknown]:
    return (
        AppendAsked(at_s=1.0, client="u", operation=9, bodies=bodies, group="g0"),
        AppendUnknown(at_s=1.0, client="u", operation=9, error="given up"),
    )


def judge(*seen: Observation) -> int:
    history = [
        attrs.evolve(one, asked=min(one.asked, place)) if isinstance(one, MachineRead) else one
        for place, one in enumerate(seen)
    ]
    return len(judge_registers(register_operations(history, "g0")))


def test_what_clients_may_see() -> None:
    one = answered(0, "written", None, True, "added", 6, None)
    assert judge(*one, shown(6), shown(1, "c0"), shown(None, "r1")) == 0
    assert len(register_operations(one, "g0")) == 4
    assert register_operations(one, "g1") == []
    late = unknown(encode_command("9", "r0", Write(9)))
    assert judge(*one, *late, shown(6), shown(9)) == 0
    assert judge(*one, *late, shown(6)) == 0


def test_what_clients_may_not_see() -> None:
    one = answered(0, "written", None, True, "added", 6, None)
    late = unknown(encode_command("9", "r0", Write(9)))
    assert judge(*one, shown(5)) == 1
    assert judge(*one, shown(0, "c0")) == 1
    assert judge(*one, *late, shown(9), shown(6)) == 1
    assert judge(*answered(0, "written"), *answered(2, False)) == 1
