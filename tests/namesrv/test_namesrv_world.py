"""Simulated name servers under faults: routes name who lives, and broken ones are caught."""

from __future__ import annotations

import pytest
from broken_namesrv import MUTATIONS
from namesrv_checkers import FOUND_S, GONE_S, Life, Role, Truth, lives_s
from namesrv_mutations import judges_at
from namesrv_world import run_seed

from wire.broker.routes import BrokerData, QueueData, TopicRouteData

SEEDS = range(4)
CAUGHT = {
    "ended_connections_are_ignored": ("RouteNamesWhoLives", 1),
    "silence_is_ignored": ("RouteNamesWhoLives", 0),
    "the_wall_clock_decides": ("LivingIsFound", 0),
    "any_connection_ends_a_registration": ("LivingIsFound", 0),
    "a_promoted_address_keeps_its_old_id": ("LivingIsFound", 0),
    "an_older_state_takes_the_id": ("LivingIsFound", 3),
    "whoever_goes_takes_the_topics_along": ("LivingIsFound", 0),
    "routes_survive_a_restart": ("RouteNamesWhoLives", 3),
    "a_registration_renews_the_whole_group": ("RouteNamesWhoLives", 0),
}
"""By mutation: the judge that objects first, and the seed; `make mutations` draws them anew."""


def test_routes_name_who_lives_and_all_of_them() -> None:
    faults: dict[str, int] = {}
    for seed in SEEDS:
        world = run_seed(seed)
        assert not world.truth.objections, (seed, world.truth.objections[:3])
        assert min(world.truth.counts.values()) > 500
        for kind, count in world.counts.items():
            faults[kind] = faults.get(kind, 0) + count
    assert len(faults) == 10, f"each kind of fault happens: {faults}"


def test_a_run_repeats() -> None:
    one, two = run_seed(1), run_seed(1)
    assert one.truth.counts == two.truth.counts
    assert one.truth.said == two.truth.said


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_a_broken_name_server_is_caught(mutation: object) -> None:
    assert callable(mutation)
    judge, seed = CAUGHT[mutation.__name__]
    assert judges_at(seed, mutation)[0] == judge


# ---- the judges themselves ----

A0, A1 = Role("a", 0, "h0:1"), Role("a", 1, "h1:1")


def route(*roles: Role, queues: int = 1) -> TopicRouteData:
    addresses = {role.broker_id: role.address for role in roles}
    queue = QueueData(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1)
    data = BrokerData(broker_addrs=addresses, broker_name="a", cluster="C")
    return TopicRouteData(broker_datas=(data,), queue_datas=(queue,) * queues)


def truth_at(now_s: float) -> Truth:
    """A master that registered at 0, and a name server that is up since then."""
    truth = Truth(lambda: now_s)
    truth.lives.append(Life("h0", A0, 0.0))
    truth.said["ns", A0] = now_s
    truth.up_s["ns"] = 0.0
    return truth


def judged(truth: Truth, found: TopicRouteData | None) -> list[str]:
    truth.judge("ns", "t", {"a"}, found)
    return [each.partition(":")[0] for each in truth.objections]


def test_a_good_route_is_none_s_objection() -> None:
    assert judged(truth_at(1000.0), route(A0)) == []
    assert judged(truth_at(FOUND_S - 1), None) == []


def test_who_is_not_found_is_missed() -> None:
    assert judged(truth_at(FOUND_S + 1), None) == ["LivingIsFound"]
    late = truth_at(FOUND_S + 1)
    late.broken_s["h0", "ns"] = 1.0
    assert judged(late, None) == []


@pytest.mark.parametrize(
    ("ended_s", "found"), [(GONE_S - 1, []), (GONE_S + 1, ["RouteNamesWhoLives"])]
)
def test_who_has_gone_stays_a_moment(ended_s: float, found: list[str]) -> None:
    truth = truth_at(1000.0)
    truth.lives[0].ended_s = 1000.0 - ended_s
    assert judged(truth, route(A0)) == found


@pytest.mark.parametrize(
    ("silent_s", "found"), [(lives_s("a") - 1, []), (lives_s("a") + 1, ["RouteNamesWhoLives"])]
)
def test_who_is_silent_goes_in_time(silent_s: float, found: list[str]) -> None:
    truth = truth_at(1000.0)
    truth.lives[0].ended_s, truth.lives[0].is_silent = 1000.0 - silent_s, True
    truth.said["ns", A0] = 1000.0 - silent_s
    assert judged(truth, route(A0)) == found


def test_what_nobody_said_and_what_is_there_twice() -> None:
    assert judged(truth_at(10.0), route(A1)) == ["RouteNamesWhoLives"]
    twice = truth_at(10.0)
    twice.said["ns", Role("a", 1, "h0:1")] = 10.0
    assert judged(twice, route(A0, Role("a", 1, "h0:1"))) == ["OneIdForEach"]
    assert judged(truth_at(10.0), route(A0, queues=2)) == ["OneIdForEach"]
