"""A forced promotion in a simulated cluster: what it gives up is excused, and nothing else."""

from __future__ import annotations

import attrs
import pytest
import trio
from test_sim_actions import GROUP, stage
from test_sim_checkers import (
    GOOD,
    Bytes,
    acknowledged,
    answered,
    appended,
    found,
    offsets,
    read,
    received,
    record,
    reported,
    synced,
)

from actors.sim.classic.judges.validations import (
    StoredLog,
    reads_survive,
    without_given_up,
)
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    FaultInjected,
    Observation,
    client_appends,
    given_up,
)

LOST = FaultInjected(at_s=2.0, kind="lost", where="n1 200")


async def test_what_only_the_lost_ones_had_is_given_up(autojump_clock: object) -> None:
    async with stage(reconnect_interval_s=0.2) as on:

        async def load() -> None:
            await trio.sleep(1.0)
            await on.cluster.log(GROUP).append([b"n2 does not have it"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await on.do("at 0.1 force_promote n2 for 1 extra 3")
        assert on.runner.counts == {"force_promote": 1}
        (end,) = [end for seen in on.history.observations if (end := given_up(seen)) is not None]
        assert on.cluster.master_of(GROUP) == "n2"
        assert (await on.cluster.log(GROUP).append([b"goes on"])).first == end
        assert on.kinds.count("resynced") == 2


async def test_what_all_had_is_not_given_up(autojump_clock: object) -> None:
    async with stage(copies=3) as on:
        written = (await on.cluster.offsets("n0", GROUP)).written
        await on.do("at 0.1 force_promote n2 for 1 extra 0.5")
        (end,) = [end for seen in on.history.observations if (end := given_up(seen)) is not None]
        assert end == written
        assert "resynced" not in on.kinds


@pytest.mark.parametrize("state", ["is the master", "is off", "is damaged"])
async def test_nobody_is_forced_where(state: str, autojump_clock: object) -> None:
    async with stage() as on:
        if state == "is off":
            await on.cluster.kill("n1")
        if state == "is damaged":
            on.runner.atlas.flip_bit("n1", on.world.rng("rot"))
        node = "n0" if state == "is the master" else "n2"
        await on.do(f"at 0.1 force_promote {node} for 1 extra 0.5")
        assert on.kinds == []


async def test_it_waits_for_the_others_and_they_for_it(autojump_clock: object) -> None:
    async with stage(copies=3) as on:
        await on.do(
            "at 0.1 cut n0 n1 for 5",
            "at 0.2 force_promote n2 for 1 extra 0.5",
            "at 0.3 reset n2 n1",
        )
        noted = [kind for kind in on.kinds if kind in ("cut", "heal", "promoting", "reset")]
        assert noted[:3] == ["cut", "heal", "promoting"]
        assert noted[-1] == "reset"


async def test_a_node_may_be_paused_while_it_is_killed(autojump_clock: object) -> None:
    async with stage() as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.cluster.kill, "n1")
            await trio.lowlevel.checkpoint()
            on.cluster.pause("n1")
        assert not on.cluster.runs("n1")


# ---- what is excused ----

ANEW = (
    appended(200, 280),
    synced("n0", 280),
    received("n1", 200, 280),
    synced("n1", 280),
    reported("n1", 280, session=2),
    acknowledged(200, 280),
)


def test_behind_the_place_everything_is_judged_anew() -> None:
    other = record(200, size=80, body=b"other")
    logs = Bytes().all_hold(300)
    fresh = [attrs.evolve(ANEW[0], path="/n0/anew/store"), *ANEW[1:2]]
    again = read(other, start=200, acknowledged=280)
    assert "ReadsAgree" in found([*GOOD, again], logs)
    assert "ReadsAgree" not in found([*GOOD, LOST, again], logs)
    assert "ReadsAgree" in found([*GOOD, LOST, read(record(100, body=b"x"), start=100)], logs)
    assert "ReadsOnlyAcknowledged" not in found([*GOOD, offsets("n1", 300)], logs)
    assert "ReadsOnlyAcknowledged" in found([*GOOD, LOST, offsets("n1", 300)], logs)
    assert "AcknowledgedOnEnoughNodes" in found([*GOOD, LOST, *fresh, ANEW[5]], logs)
    assert "AcknowledgedOnEnoughNodes" not in found([*GOOD, LOST, *fresh, *ANEW[4:]], logs)


def test_the_furthest_need_not_hold_what_was_given_up() -> None:
    logs = Bytes().all_hold(300)
    for name in ("n1", "n2"):
        logs.disk[name] = logs.cache[name] = logs.cache[name][:200]
    heal = FaultInjected(at_s=3.0, kind="heal", where="all")
    seen: list[Observation] = [acknowledged(0, 300)]
    assert "FurthestHolds" in found([*seen, heal], logs)
    assert "FurthestHolds" not in found([*seen, LOST, heal], logs)


def asked(number: int) -> AppendAsked:
    return AppendAsked(at_s=1.0, client="c0", operation=number, bodies=(b"%d" % number,))


def noted(number: int, first: int, end: int) -> AppendAnswered:
    return attrs.evolve(answered(first, end), operation=number)


def test_only_appends_that_were_answered_before_and_lie_behind_are_given_up() -> None:
    unplaced = AppendAnswered(at_s=1.0, client="c0", operation=4, receipt=None)
    seen: list[Observation] = [
        *(asked(number) for number in (1, 2, 3, 4, 5)),
        *(noted(1, 0, 200), noted(2, 100, 201), unplaced),
        LOST,
        *(noted(3, 200, 300),),
    ]
    kept = without_given_up(client_appends(seen), seen)
    assert [each.operation for each in kept] == [1, 3, 5]


def test_only_reads_from_before_are_given_up() -> None:
    log = StoredLog(heads=(), records=(), end=0)
    early, late = read(record(100), record(200)), read(record(200))
    assert len(list(reads_survive([early, late], log))) == 2
    assert len(list(reads_survive([early, LOST], log))) == 1
    assert len(list(reads_survive([early, LOST, late], log))) == 2
