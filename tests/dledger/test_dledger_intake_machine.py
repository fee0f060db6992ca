"""A follower with a state machine takes no log that begins behind what its machine has."""

from __future__ import annotations

import pytest
from intake_kit import Kit, entries, entry

from actors.events.dledger import SnapshotRefused
from wire.dledger.codes import ResponseCode as C


def kit_at(machine: int | None) -> Kit:
    kit = Kit(*entries(0, 9, term=4))
    kit.intake.machine.at = machine
    return kit


def test_a_log_that_begins_too_late_is_refused_and_said_once() -> None:
    kit = kit_at(9)
    for _ in range(2):
        token = kit.truncate(entry(50))
        assert kit.code(token) is C.INCONSISTENT_STATE
        assert kit.changes == []
    kit.truncate(entry(60))
    assert kit.last.events == ()
    assert (kit.intake.begin, kit.intake.end) == (0, 9)
    assert kit.alarm == ""


def test_who_is_concerned_is_said() -> None:
    kit = kit_at(9)
    kit.truncate(entry(50))
    (said,) = kit.last.events
    assert isinstance(said, SnapshotRefused)
    assert (said.peer, said.index) == ("n1", 50)
    assert said.reason == "the leader's log begins at 50, the state machine is at 9"
    kit.follow(session=2)
    kit.truncate(entry(50))
    assert len(kit.last.events) == 1, "once a session"


@pytest.mark.parametrize(("machine", "index"), [(49, 50), (80, 50), (None, 50)])
def test_one_that_the_machine_needs_nothing_before_is_taken(
    machine: int | None, index: int
) -> None:
    kit = kit_at(machine)
    token = kit.truncate(entry(index))
    kit.sync()
    assert kit.code(token) is C.SUCCESS
    assert kit.changes == [(None, True, [index])]


def test_an_empty_machine_takes_a_log_from_its_beginning() -> None:
    kit = Kit()
    kit.intake.machine.at = -1
    token = kit.truncate(entry(0))
    kit.sync()
    assert kit.code(token) is C.SUCCESS
