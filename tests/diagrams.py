"""The pictures of the project, drawn from the code so that they cannot go stale: rooms and states.

`python tests/diagrams.py` prints Markdown with Mermaid diagrams. An arrow between rooms is an
import; `test_layering.py` refuses those that go up.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from test_layering import LEVELS, MODULES, imported, room_of

from actors.dledger.core.member_state import ROLE_TRANSITIONS, Role
from actors.dledger.core.push_effects import DISPATCHER_TRANSITIONS, DispatcherState
from actors.ha.core.states import (
    MASTER_TRANSITIONS,
    SLAVE_TRANSITIONS,
    HAConnectionState,
    Trigger,
)

COMMAND = "__main__"


def edges() -> list[tuple[str, str]]:
    """(room, lower room that it imports), sorted; without commands and the public names."""
    found = set()
    for module, path in MODULES.items():
        if module == "actors" or module.endswith(COMMAND):
            continue
        upper = room_of(module)
        for target in imported(path.read_text(), set(MODULES)):
            lower = room_of(target)
            if lower and LEVELS[lower] < LEVELS[upper]:
                found.add((upper, lower))
    return sorted(found)


def needed(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without the edges that a way over other rooms implies: the picture is readable then."""
    below: dict[str, set[str]] = {}
    for upper, lower in found:
        below.setdefault(upper, set()).add(lower)

    def reaches(start: str, end: str) -> bool:
        return any(room == end or reaches(room, end) for room in sorted(below.get(start, ())))

    def is_implied(upper: str, lower: str) -> bool:
        return any(reaches(room, lower) for room in sorted(below[upper] - {lower}))

    return [edge for edge in found if not is_implied(*edge)]


def rooms_picture() -> Iterator[str]:
    """Level by level, the highest on top."""
    drawn = needed(edges())
    rooms = sorted({room for edge in drawn for room in edge}, key=lambda room: -LEVELS[room])
    yield "graph TD"
    for level in sorted({LEVELS[room] for room in rooms}, reverse=True):
        yield f'  subgraph L{level}["level {level}"]'
        yield from (f"    {_node(room)}[{room}]" for room in rooms if LEVELS[room] == level)
        yield "  end"
    yield from (f"  {_node(upper)} --> {_node(lower)}" for upper, lower in drawn)


def states_picture(first: enum.Enum, table: Mapping[Any, Mapping[Any, str]]) -> Iterator[str]:
    """States as a table has them: by state, those that may follow and what leads there."""
    yield "stateDiagram-v2"
    yield f"  [*] --> {first.name}"
    for state, following in table.items():
        if not following:
            yield f"  {state.name} --> [*]"
        for after, why in following.items():
            yield f"  {state.name} --> {after.name}: {why}"


def by_trigger(
    table: Mapping[HAConnectionState, Mapping[Trigger, HAConnectionState]],
) -> dict[HAConnectionState, dict[HAConnectionState, str]]:
    """One connection's table, in the shape of the others."""
    return {
        state: {
            after: " or ".join(each.value for each, to in following.items() if to is after)
            for after in following.values()
        }
        for state, following in table.items()
    }


def document() -> str:
    """All pictures as Markdown."""
    parts = (
        ("Rooms, and what each needs directly", rooms_picture()),
        (
            "A connection, seen by the slave",
            states_picture(HAConnectionState.READY, by_trigger(SLAVE_TRANSITIONS)),
        ),
        (
            "A connection, seen by the master",
            states_picture(HAConnectionState.READY, by_trigger(MASTER_TRANSITIONS)),
        ),
        ("A DLedger member's role", states_picture(Role.CANDIDATE, ROLE_TRANSITIONS)),
        (
            "What a DLedger leader does with one peer",
            states_picture(DispatcherState.COMPARE, DISPATCHER_TRANSITIONS),
        ),
    )
    return "\n".join(
        f"## {title}\n\n```mermaid\n" + "\n".join(lines) + "\n```\n" for title, lines in parts
    )


def _node(room: str) -> str:
    return room.replace(".", "_")


if __name__ == "__main__":
    sys.stdout.write(document())
