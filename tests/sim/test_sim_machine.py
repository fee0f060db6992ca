"""The simulation's own state machine: what it is sent, what it answers, what it saves and loads."""

from __future__ import annotations

from typing import Any

import pytest
from test_sim_machine_checkers import BODIES, OPTIONS, RESULTS, made

from actors.sim.dledger.machine import (
    MachineOptions,
    SimRegisters,
    State,
    decode_command,
    encode_command,
    snapshot_bytes,
)
from actors.sim.judges.linear.registers import Add, CompareAndSet, Read, Write
from actors.state_machine import LogEntry


@pytest.mark.parametrize(
    ("key", "action"),
    [
        ("r1", Write(7)),
        ("r2", CompareAndSet(None, 8)),
        ("r2", CompareAndSet(7, 8)),
        ("c1", Add(1)),
        ("c0", Read()),
        ("r0", Read()),
    ],
)
def test_commands_are_read_as_they_were_written(key: str, action: Any) -> None:
    assert decode_command(encode_command("1.2", key, action, b"; \xff")) == (key, action)


@pytest.mark.parametrize("body", [b"", b"x", b"1;r0 write;", b"1;c0 write 5;", b"1;r9 read;"])
def test_what_is_no_command(body: bytes) -> None:
    assert decode_command(body) is None


def test_what_a_machine_answers() -> None:
    state = State()
    given = [index for index in range(len(BODIES)) if BODIES[index]]
    results = [state.apply(index, 1, BODIES[index]) for index in given]
    assert results == [RESULTS[index] for index in given]
    assert (state.values, state.count, state.last) == ({"r0": 6, "c0": 1}, 5, 5)
    assert State.decode(snapshot_bytes(state, OPTIONS)) == state
    assert made(0, 2).chain != made(0, 2, 2).chain != made(0, 3).chain


@pytest.mark.parametrize("lazy", [False, True])
def test_a_machine_loads_what_it_saves_and_nothing_else(lazy: bool) -> None:
    options = MachineOptions(filler_bytes=200_001, lazy=lazy)
    seen: list[str] = []
    one = SimRegisters(options, lambda what, indexes, machine: seen.append(what))
    one.apply([LogEntry(0, 1, BODIES[0]), LogEntry(2, 1, BODIES[2])])
    data = b"".join(one.save())
    assert data == snapshot_bytes(one.state, options)
    two = SimRegisters(options, lambda what, indexes, machine: None)
    assert len(list(two.load(iter([data[:10], data[10:]])))) > 2
    assert two.state == one.state
    torn = bytearray(data)
    torn[150_000] ^= 1
    with pytest.raises(ValueError, match="save"):
        list(two.load(iter([bytes(torn)])))
    assert seen == ["made", "applied"]
    assert not two.loading
