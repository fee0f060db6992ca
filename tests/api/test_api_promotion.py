"""A promotion carried out over members in memory: the order of its steps, and what ends it."""

from __future__ import annotations

import attrs
import pytest
import trio
from group_states import R0, master, slave
from promotion_members import GONE, group, of

from actors.api.failures import RequestRefused
from actors.epochs import Epoch
from actors.errors import Closed, OutcomeUnknown
from wire.api import frames


async def test_a_dead_master_is_replaced(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(0), slave("n1", 90), slave("n2", 100), gone={"n0": GONE})
    answer = await of(found).run()
    assert found.log == ["record n2 1 n2", "record n1 1 n2"]
    assert answer["master"] == "n2"
    assert answer["old_master"] == "n0"
    assert (answer["number"], answer["start_bytes"], answer["handed_over"]) == (1, 100, False)
    assert answer["losses"] == []
    assert answer["members"]["n0"] == {"silent": "connection refused"}
    assert found.asked.count("n0") == 1, "whoever asked waits for its time-out once"
    assert answer["members"]["n1"]["state"] == "connecting"
    assert answer["members"]["n2"] == {
        "role": "master",
        "state": "open",
        "reason": "",
        "number": 1,
        "written_bytes": 100,
        "synced_bytes": 100,
    }


async def test_force_is_for_what_may_be_lost(autojump_clock: trio.abc.Clock) -> None:
    """A hand-over that loses nothing is checked by the new master as any other."""
    found = group(master(100), slave("n1", 100), slave("n2", 100))
    await of(found, force=True).run()
    assert found.log[:2] == ["fence n0 1", "record n1 1 n1"]
    other = slave("n2", 110, history=(R0, Epoch(0, 99, "n0", 90)))
    found = group(master(100), slave("n1", 100), other)
    await of(found, node="n1", force=True).run()
    assert found.log[:2] == ["fence n0 1", "record n1 1 n1 force"]
    found = group(master(0), slave("n1", 100), slave("n2", 100), gone={"n0": GONE})
    await of(found, force=True).run()
    assert found.log[:1] == ["record n1 1 n1 force"]


async def test_what_may_be_lost_is_refused_in_words(autojump_clock: trio.abc.Clock) -> None:
    found = group(
        master(0),
        slave("n1", 90),
        slave("n2", 0),
        gone={"n0": GONE, "n2": trio.TooSlowError()},
    )
    with pytest.raises(RequestRefused) as refused:
        await of(found).run()
    assert refused.value.error == frames.ERROR_BAD_REQUEST
    lost = (
        "n0 does not answer (connection refused), n2 does not answer (no answer in time): with"
        " copies = 2 they may have what nobody else has"
    )
    assert str(refused.value) == f"{lost} (--force does it all the same)"
    assert found.log == []
    answer = await of(found, force=True).run()
    assert found.log == ["record n1 1 n1 force"]
    assert answer["losses"] == [lost]


async def test_a_hand_over_waits_until_nothing_is_unknown(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(120, unanswered=3), slave("n1", 90), slave("n2", 100))

    async def catch_up() -> None:
        await trio.sleep(1.0)
        found.states["n2"] = attrs.evolve(found.states["n2"], written=120, synced=120)
        await trio.sleep(1.0)
        assert found.log == ["fence n0 1"]
        found.states["n0"] = attrs.evolve(found.states["n0"], unanswered=0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(catch_up)
        answer = await of(found).run()
    assert found.log[:2] == ["fence n0 1", "record n2 1 n2"]
    assert sorted(found.log[2:]) == ["record n0 1 n2", "record n1 1 n2"]
    assert (answer["handed_over"], answer["start_bytes"]) == (True, 120)


async def test_a_hand_over_that_takes_too_long_is_taken_back(
    autojump_clock: trio.abc.Clock,
) -> None:
    found = group(master(120, unanswered=3), slave("n1", 90), slave("n2", 100))
    with pytest.raises(RequestRefused, match="n2 did not get all that n0 has within 6 s: n2 has"):
        await of(found).run()
    assert found.log == ["fence n0 1", "unfence n0 1"]
    assert found.states["n0"].state == "open"


async def test_a_master_that_cannot_be_fenced_ends_it(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(120), slave("n1", 120), slave("n2", 120))

    def lose(word: str) -> None:
        if word == "fence n0 1":
            raise trio.BrokenResourceError("the connection broke")

    found.before = lose
    with pytest.raises(RequestRefused, match="n0 cannot be fenced: the connection broke; nothing"):
        await of(found).run()
    assert found.log == ["unfence n0 1"]  # it may have heard it


async def test_a_promotion_that_the_chosen_one_refuses_is_taken_back(
    autojump_clock: trio.abc.Clock,
) -> None:
    found = group(master(120), slave("n1", 120), slave("n2", 120))

    def refuse(word: str) -> None:
        if word.startswith("record"):
            raise RequestRefused(frames.ERROR_BAD_REQUEST, "promotion 7 made n2 master already")

    found.before = refuse
    with pytest.raises(RequestRefused, match="promotion 7"):
        await of(found).run()
    assert found.log == ["fence n0 1", "unfence n0 1"]


async def test_a_chosen_one_that_may_have_heard_it_keeps_the_fence(
    autojump_clock: trio.abc.Clock,
) -> None:
    found = group(master(120), slave("n1", 120), slave("n2", 120))

    def lose(word: str) -> None:
        if word.startswith("record"):
            raise trio.BrokenResourceError("the connection broke")

    found.before = lose
    with pytest.raises(OutcomeUnknown) as unknown:
        await of(found).run()
    assert str(unknown.value) == (
        "nobody knows whether n1 has heard of promotion 1 (the connection broke): see that n1 runs,"
        " and `status` says who is master; while it cannot run, type `promote orders`"
    )
    assert found.log == ["fence n0 1"]
    found.before = lambda word: None
    assert (await of(found).run())["master"] == "n0"  # fenced, and the first of the furthest


async def test_one_that_does_not_open_is_said(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(0), slave("n1", 90), slave("n2", 80), gone={"n0": GONE}, opens=False)
    with pytest.raises(RequestRefused, match="by promotion 1, but takes no appends: asking: "):
        await of(found).run()
    assert "unfence" not in " ".join(found.log)

    def restart(word: str) -> None:
        if word == "record n1 2 n1":
            found.gone["n1"] = Closed("it takes another part")

    found.after = restart
    with pytest.raises(RequestRefused, match="takes no appends: it takes another part"):
        await of(found).run()


async def test_a_later_promotion_by_somebody_else_is_named(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(0), slave("n1", 90), slave("n2", 80), gone={"n0": GONE}, opens=False)

    def overtake(word: str) -> None:
        found.states["n1"] = attrs.evolve(found.states["n1"], number=5, master="n2")

    found.after = overtake
    with pytest.raises(RequestRefused) as refused:
        await of(found).run()
    assert str(refused.value) == (
        "n1 became master of orders by promotion 1, and then a newer promotion came: n2 is master"
        " by promotion 5; if it shall be n1 all the same, type `promote orders n1`"
    )


@pytest.mark.parametrize("when", ["fence n0 1", "record n1 1 n1"])
async def test_an_operator_who_goes_away(autojump_clock: trio.abc.Clock, when: str) -> None:
    """Before the chosen one is asked, the fence goes too; afterwards nobody can know."""
    found = group(master(120), slave("n1", 120), slave("n2", 120))
    with trio.CancelScope() as scope:

        def leave(word: str) -> None:
            if word == when:
                scope.cancel()

        found.after = leave
        await of(found).run()
    expected = (
        ["fence n0 1", "unfence n0 1"]
        if when.startswith("fence")
        else [
            "fence n0 1",
            when,
        ]
    )
    assert found.log == expected
