"""The drawn pictures show what the code has."""

import diagrams
from diagrams import by_trigger
from test_layering import LEVELS

from actors.dledger.core.member_state import ROLE_TRANSITIONS, Role
from actors.ha.core.states import MASTER_TRANSITIONS, SLAVE_TRANSITIONS, HAConnectionState


def test_edges_that_others_imply_are_left_out() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
    assert diagrams.needed(edges) == [("a", "b"), ("b", "c"), ("a", "d")]


def test_every_arrow_between_rooms_goes_down() -> None:
    names = {room.replace(".", "_"): level for room, level in LEVELS.items()}
    arrows = [line.split() for line in diagrams.rooms_picture() if "-->" in line]
    assert ["actors_broker", "-->", "actors_ha"] in arrows
    assert all(names[upper] > names[lower] for upper, _, lower in arrows)


def test_every_transition_is_drawn() -> None:
    drawn = list(diagrams.states_picture(HAConnectionState.READY, by_trigger(SLAVE_TRANSITIONS)))
    assert "  TRANSFER --> READY: connection lost" in drawn
    assert "  SHUTDOWN --> [*]" in drawn
    assert sum(": " in line for line in drawn) == sum(map(len, SLAVE_TRANSITIONS.values()))
    master = list(diagrams.states_picture(HAConnectionState.READY, by_trigger(MASTER_TRANSITIONS)))
    assert "  TRANSFER --> SHUTDOWN: connection lost or stopped" in master
    roles = list(diagrams.states_picture(Role.CANDIDATE, ROLE_TRANSITIONS))
    assert roles[:2] == ["stateDiagram-v2", "  [*] --> CANDIDATE"]
    assert sum(": " in line for line in roles) == sum(map(len, ROLE_TRANSITIONS.values()))
    assert "  CANDIDATE --> LEADER: a quorum of votes" in diagrams.document()
