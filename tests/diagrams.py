"""The pictures of the project, drawn from the code so that they cannot go stale: rooms and states.

`python tests/diagrams.py` prints Markdown with Mermaid diagrams. An arrow between rooms is an
import; `test_layering.py` refuses those that go up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from test_layering import LEVELS, MODULES, imported, room_of

from actors.ha.core.states import (
    MASTER_TRANSITIONS,
    SLAVE_TRANSITIONS,
    HAConnectionState,
    Trigger,
)

Transitions = Mapping[HAConnectionState, Mapping[Trigger, HAConnectionState]]
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


def states_picture(table: Transitions) -> Iterator[str]:
    """One connection's states, as the table has them."""
    yield "stateDiagram-v2"
    yield f"  [*] --> {HAConnectionState.READY.name}"
    for state, following in table.items():
        if not following:
            yield f"  {state.name} --> [*]"
        for trigger, after in following.items():
            yield f"  {state.name} --> {after.name}: {trigger.value}"


def document() -> str:
    """All pictures as Markdown."""
    parts = (
        ("Rooms, and what each needs directly", rooms_picture()),
        ("A connection, seen by the slave", states_picture(SLAVE_TRANSITIONS)),
        ("A connection, seen by the master", states_picture(MASTER_TRANSITIONS)),
    )
    return "\n".join(
        f"## {title}\n\n```mermaid\n" + "\n".join(lines) + "\n```\n" for title, lines in parts
    )


def _node(room: str) -> str:
    return room.replace(".", "_")


if __name__ == "__main__":
    sys.stdout.write(document())
