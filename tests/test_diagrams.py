"""The drawn pictures show what the code has."""

import diagrams
from test_layering import LEVELS

from actors.ha.core.states import SLAVE_TRANSITIONS


def test_edges_that_others_imply_are_left_out() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
    assert diagrams.needed(edges) == [("a", "b"), ("b", "c"), ("a", "d")]


def test_every_arrow_between_rooms_goes_down() -> None:
    names = {room.replace(".", "_"): level for room, level in LEVELS.items()}
    arrows = [line.split() for line in diagrams.rooms_picture() if "-->" in line]
    assert ["actors_trees", "-->", "actors_ha"] in arrows
    assert all(names[upper] > names[lower] for upper, _, lower in arrows)


def test_every_transition_is_drawn() -> None:
    drawn = list(diagrams.states_picture(SLAVE_TRANSITIONS))
    assert "  TRANSFER --> READY: connection lost" in drawn
    assert sum(": " in line for line in drawn) == sum(map(len, SLAVE_TRANSITIONS.values()))
