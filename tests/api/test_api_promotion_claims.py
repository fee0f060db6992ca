"""What a promotion claims before it acts, and whom it loses on the way."""

from __future__ import annotations

import attrs
import pytest
import trio
from group_states import master, slave
from promotion_members import DRAIN_S, GONE, group, of

from actors.api.failures import RequestRefused
from actors.control.promotion import GONE_S, RENEW_S
from wire.api import frames


async def test_claims_come_first_in_the_files_order_and_are_kept_last_of_all(
    autojump_clock: trio.abc.Clock,
) -> None:
    found = group(master(120), slave("n1", 120), slave("n2", 120))
    await of(found).run()
    assert found.words[:3] == ["fence n0 1", "claim n1 1", "claim n2 1"]
    assert sorted(found.words[3:5]) == ["keep n0 1", "keep n1 1"]
    assert found.words[5] == "record n1 1 n1"
    assert not any(word.startswith("un") for word in found.words)


async def test_a_member_whose_promotion_follows_nothing_is_asked_for_no_word(
    autojump_clock: trio.abc.Clock,
) -> None:
    """It refuses every later one, and would end them all."""
    found = group(master(120), slave("n1", 120), slave("n2", 130, number=2**62))
    with pytest.raises(RequestRefused, match="n2 knows of promotion 4611686018427387904"):
        await of(found).run()
    await of(found, force=True).run()
    assert found.words[:2] == ["fence n0 1", "claim n1 1"]
    assert not any(" n2" in word for word in found.words)


async def test_a_claim_that_is_refused_ends_it_and_says_whose_it_is(
    autojump_clock: trio.abc.Clock,
) -> None:
    found = group(master(120), slave("n1", 120), slave("n2", 120))

    def refuse(word: str) -> None:
        if word == "claim n1 1":
            raise RequestRefused(frames.ERROR_BAD_REQUEST, "n1: promotion 1 makes n2 master, by n2")

    found.before = refuse
    with pytest.raises(RequestRefused, match="makes n2 master, by n2; nothing was done"):
        await of(found).run()
    assert found.log == ["fence n0 1", "unfence n0 1"]
    assert "claim n2 1" not in found.words


@pytest.mark.parametrize("gone", ["n1", "n2"])
async def test_a_member_that_is_lost_while_it_is_claimed(
    autojump_clock: trio.abc.Clock, gone: str
) -> None:
    """The chosen one has to hear it; for another one nobody waits."""
    found = group(master(120), slave("n1", 120), slave("n2", 120))

    def lose(word: str) -> None:
        if word == f"claim {gone} 1":
            found.gone[gone] = GONE
            raise GONE

    found.before = lose
    if gone == "n1":
        with pytest.raises(RequestRefused, match="n1 cannot be asked: connection refused; nothing"):
            await of(found, node="n1").run()
        assert found.log == ["fence n0 1", "unfence n0 1"]
    else:
        answer = await of(found, node="n1").run()
        assert (answer["master"], answer["handed_over"]) == ("n1", True)


async def test_what_cannot_be_confirmed_is_not_reported(autojump_clock: trio.abc.Clock) -> None:
    """The master has taken appends since: its coordinator was not heard for too long."""
    found = group(master(120), slave("n1", 120), slave("n2", 120))

    def refuse(word: str) -> None:
        if word == "keep n0 1":
            raise RequestRefused(frames.ERROR_BAD_REQUEST, "n0: not claimed here any more")

    found.before = refuse
    with pytest.raises(RequestRefused, match="n0 was lost: n0: not claimed here any more; nothing"):
        await of(found).run()
    assert found.log == ["fence n0 1", "unfence n0 1"]


async def test_members_hear_that_the_coordinator_is_at_it(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(120, unanswered=3), slave("n1", 90), slave("n2", 100))
    with pytest.raises(RequestRefused):
        await of(found).run()
    times = int(DRAIN_S / RENEW_S) - 1
    assert all(found.renewed.count(node) >= times for node in ("n0", "n1", "n2"))


@pytest.mark.parametrize("how", ["dead", "hanging", "connecting"])
async def test_a_chosen_one_that_is_lost_is_not_waited_for(
    autojump_clock: trio.abc.Clock, how: str
) -> None:
    found = group(master(120), slave("n1", 90), slave("n2", 100))
    said = "n2 has not answered for 3 s"
    if how == "hanging":
        found.hangs = "n2"
    elif how == "connecting":
        found.states["n2"] = attrs.evolve(found.states["n2"], state="connecting")
        said = "n2 has had no connection to n0 for 3 s (connecting)"

    def lose(word: str) -> None:
        if how == "dead" and word == "claim n2 1":
            found.gone["n2"] = GONE

    found.after = lose
    began_s = trio.current_time()
    with pytest.raises(RequestRefused) as refused:
        await of(found).run()
    assert str(refused.value) == f"{said}; n0 goes on as master"
    assert trio.current_time() - began_s < GONE_S + 1.0
    assert found.log == ["fence n0 1", "unfence n0 1"]


async def test_a_connection_that_comes_back_soon_is_waited_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    found = group(master(120), slave("n1", 90), slave("n2", 100))

    async def come_and_go() -> None:
        for state in ("connecting", "following", "connecting", "following"):
            found.states["n2"] = attrs.evolve(found.states["n2"], state=state)
            await trio.sleep(GONE_S - 2.0)
        found.states["n2"] = attrs.evolve(found.states["n2"], written=120, synced=120)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come_and_go)
        answer = await of(found).run()
    assert answer["handed_over"]


async def test_an_old_master_that_is_lost_in_a_hand_over(autojump_clock: trio.abc.Clock) -> None:
    found = group(master(120), slave("n1", 90), slave("n2", 100))
    found.after = lambda word: found.gone.update(n0=GONE) if word == "claim n2 1" else None
    with pytest.raises(RequestRefused, match="n0 has not answered for 3 s; nothing was done"):
        await of(found).run()
