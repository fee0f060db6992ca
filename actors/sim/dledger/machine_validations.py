"""Validations of a DLedger group with a state machine: looked at once, when a run has converged.

Each is a function from plain data to what is wrong with it; `validate_machines` fetches the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from actors.sim.dledger.checkers import Chosen
from actors.sim.dledger.machine import COUNTERS, State, decode_command
from actors.sim.dledger.machine_checkers import MachineIsReplay, Replay, SnapshotIsReplay
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendUnknown,
    History,
    Invariant,
    MachineRead,
    Observation,
)
from actors.sim.linear.judge import judge_object
from actors.sim.linear.operations import Operation
from actors.sim.linear.registers import Add, Counter, Read, Register, Write


def validate_machines(
    states: Mapping[str, State],
    chosen: Chosen,
    invariants: Iterable[Invariant],
    history: History,
    *,
    stopped: bool,
) -> None:
    """Judge what clients saw of a group's machines, and what these are at the end.

    Args:
        states: of each member's.
        chosen: what is committed in the group.
        invariants: of the run: what they have put off is due.
        stopped: all members hold the same, and were stopped in order.
    """
    now_s = history.observations[-1].at_s if history.observations else 0.0
    group = chosen.group.name

    def note(checker: str, problems: Iterable[str]) -> None:
        for text in problems:
            history.violated(checker, now_s, text)

    note("RegistersLinearizable", judge_registers(register_operations(history.observations, group)))
    for each in invariants:
        if isinstance(each, MachineIsReplay | SnapshotIsReplay) and each.replay.chosen is chosen:
            note(type(each).__name__, each.unfounded())
    if stopped:
        note("MachinesEqual", machines_equal(states, Replay(chosen)))


def machines_equal(states: Mapping[str, State], replay: Replay) -> Iterator[str]:
    """All members' machines are what all committed entries make."""
    ought = replay.at(replay.chosen.end - 1)
    assert ought is not None
    for name, state in states.items():
        if state.encode() != ought.state:
            yield f"{name}'s machine is {state}, the committed entries make {ought.state!r}"


def judge_registers(operations: Sequence[Operation]) -> list[str]:
    """What is wrong with what clients saw of registers and counters, each an object of its own."""
    counters = [each for each in operations if each.key in COUNTERS]
    registers = [each for each in operations if each.key not in COUNTERS]
    found = [*judge_object(Register(), registers), *judge_object(Counter(), counters)]
    return list(map(str, found))


def register_operations(observations: Sequence[Observation], group: str) -> list[Operation]:
    """What clients did to a group's registers and counters, for the judge; times are places in the
    history.
    """
    asked: dict[int, tuple[int, AppendAsked]] = {}
    found: list[Operation] = []
    for place, seen in enumerate(observations):
        match seen:
            case AppendAsked() if seen.group == group:
                asked[seen.operation] = place, seen
            case AppendAnswered(receipt=receipt) if seen.operation in asked:
                assert receipt is not None
                called, append = asked[seen.operation]
                found += _commands(called, append, place, receipt.results)
            case AppendUnknown() if seen.operation in asked:
                called, append = asked[seen.operation]
                found += _commands(called, append, None, (None,) * len(append.bodies))
            case MachineRead() if seen.group == group:
                found.append(
                    Operation(
                        client=seen.node,
                        action=Read(),
                        called=seen.asked,
                        returned=place,
                        result=seen.value,
                        key=seen.key,
                    )
                )
    return found


def _commands(
    called: int, append: AppendAsked, returned: int | None, results: Sequence[object]
) -> Iterator[Operation]:
    for body, result in zip(append.bodies, results, strict=False):
        command = decode_command(body)
        if command is None:
            continue
        key, action = command
        says: Hashable = None  # of a write or an addition it does not matter
        if not isinstance(action, Write | Add) and isinstance(result, Hashable):
            says = result
        yield Operation(
            client=append.client,
            action=action,
            called=called,
            returned=returned,
            result=says,
            key=key,
        )
