"""A promotion that is itself killed half-way: the one that carries it out, or the chosen one.

Before each step, and after each, one of them dies. Whatever is left, promoting again ends in a
group that takes appends, and nothing that was acknowledged is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from switching_kit import (
    GROUP,
    Ledger,
    check,
    emitted,
    goes_on,
    lines_on,
    load,
    promote,
    refused,
    state,
    until,
    until_part,
)

from actors.api.failures import RequestRefused
from actors.control.members import GroupMembers
from actors.errors import NotEnoughReplicas, OutcomeUnknown, TriologError
from actors.events.roles import PromotionVoid
from actors.ha.core.claims import ASK_CHOSEN_S, CLAIM_LEASE_S
from actors.log_types import Claim, GroupState
from actors.sim.cluster import SimCluster

HAND_OVER = ("fence n0", "fence n1", "keep n0", "record n1", "record n0", "record n2")
PAUSE_S = 0.2
CALM_S = 1.0
"""Between a producer's lines: some come while nodes are promoted and killed, few afterwards."""
FAIL_OVER = ("fence n1", "keep n1", "record n1", "record n2")


@attrs.define
class Killer:
    """Kills a node before or after one request of a promotion, and stops its coordinator there.

    Attributes:
        step: which request, such as "record n1".
        after: it was carried out; else nobody has heard it.
    """

    cluster: SimCluster
    victim: str
    step: str
    after: bool
    coordinator: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    done: bool = False

    async def meet(self, word: str, call: Callable[[], Awaitable[GroupState]]) -> GroupState:
        if word != self.step or self.done:
            return await call()
        self.done = True
        if not self.after:
            await self._kill()
            return await call()
        found = await call()
        await self._kill()
        return found

    async def _kill(self) -> None:
        await self.cluster.kill(self.victim)
        if self.victim == self.coordinator:
            self.scope.cancel()
            await trio.lowlevel.checkpoint()


async def killed_promotion(
    monkeypatch: pytest.MonkeyPatch, killer: Killer, node: str | None
) -> None:
    """Run it until it ends, or until its coordinator is dead: then it says nothing any more."""
    cluster = killer.cluster
    members = GroupMembers
    fence, record = members.fence, members.record

    async def fenced(self: object, name: str, claim: Claim, on: bool) -> GroupState:
        if killer.victim == killer.coordinator and killer.done:
            raise ConnectionError("the dead say nothing")
        word = f"keep {name}" if claim.kept else f"fence {name}" if on else f"unfence {name}"
        word = f"again {name}" if claim.again else word
        return await killer.meet(word, lambda: fence(self, name, claim, on))  # type: ignore[arg-type]

    async def recorded(
        self: object, name: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        return await killer.meet(
            f"record {name}",
            lambda: record(self, name, number, master, token, force),  # type: ignore[arg-type]
        )

    with monkeypatch.context() as patch:
        patch.setattr(members, "fence", fenced)
        patch.setattr(members, "record", recorded)
        with killer.scope:
            with contextlib.suppress(TriologError, OSError):
                await promote(cluster, killer.coordinator, node)
    assert killer.done


async def promoted_again(cluster: SimCluster, by: str) -> None:
    """As an operator does: until somebody is master, or is so already."""
    for _ in range(10):
        try:
            await promote(cluster, by)
        except RequestRefused as error:
            if "is the master of" in str(error):
                return
            await trio.sleep(1.0)
        except OutcomeUnknown:
            await trio.sleep(1.0)
        else:
            return
    raise AssertionError(f"nobody became master: {await state(cluster, by)}")


async def somebody_is_open(cluster: SimCluster) -> str | None:
    """Who takes appends after a while, if anybody does."""
    with trio.move_on_after(8.0):
        while True:
            for name in cluster.names:
                if cluster.runs(name) and cluster.node(name).is_open(GROUP):
                    return name
            await trio.sleep(0.1)
    return None


async def all_is_there(cluster: SimCluster, ledger: Ledger) -> None:
    numbers = set()
    for name in cluster.names:
        found = await until(cluster, name, lambda found: found.acknowledged == found.written > 0)
        numbers.add((found.number, found.master))
        check(ledger, await lines_on(cluster, name))
    assert len(numbers) == 1
    epochs = (await state(cluster, "n2")).history
    assert len({epoch.number for epoch in epochs}) == len(
        {(epoch.number, epoch.master) for epoch in epochs}
    ), "one number has one master"


async def with_everybody_back(cluster: SimCluster) -> None:
    """All nodes run, and those with a tail that nobody else has give it up."""
    for name in cluster.names:
        if not cluster.runs(name):
            await cluster.start(name)
    await trio.sleep(10.0)
    if await somebody_is_open(cluster) is None:
        await promoted_again(cluster, "n2")
    await trio.sleep(5.0)
    for name in cluster.names:
        if (await state(cluster, name)).state == "diverged":
            await cluster.node(name).resync(GROUP)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", HAND_OVER)
@pytest.mark.parametrize("victim", ["n1", "n2"])
async def test_a_hand_over_killed_half_way(
    cluster: SimCluster,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
    step: str,
    after: bool,
) -> None:
    """n2 carries it out, n1 is chosen."""
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        killer = Killer(cluster, victim, step, after, coordinator="n2")
        await killed_promotion(monkeypatch, killer, "n1")
        ledger.pause_s = CALM_S
        if await somebody_is_open(cluster) is None:
            await promoted_again(cluster, "n0")
        await goes_on(ledger)  # with two of three
        await with_everybody_back(cluster)
        await goes_on(ledger)
    await all_is_there(cluster, ledger)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", FAIL_OVER)
@pytest.mark.parametrize("victim", ["n1", "n2"])
async def test_a_fail_over_killed_half_way(
    cluster: SimCluster,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
    step: str,
    after: bool,
) -> None:
    """The master is dead already; n2 carries it out, n1 is chosen; the dead one starts again."""
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        await cluster.kill("n0")
        killer = Killer(cluster, victim, step, after, coordinator="n2")
        await killed_promotion(monkeypatch, killer, None)
        ledger.pause_s = CALM_S
        await with_everybody_back(cluster)
        await goes_on(ledger, 5.0)
    await all_is_there(cluster, ledger)


@pytest.mark.parametrize("lost", [True, False], ids=["master is lost", "hand-over"])
async def test_of_two_promotions_at_once_one_is_refused(cluster: SimCluster, lost: bool) -> None:
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        if lost:
            await cluster.kill("n0")
        done: list[str] = []
        refused: list[str] = []

        async def one(by: str, node: str) -> None:
            try:
                done.append((await promote(cluster, by, node))["master"])
            except RequestRefused as error:
                refused.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "n1", "n1")
            nursery.start_soon(one, "n2", "n2")
        ledger.pause_s = CALM_S
        (master,) = done
        (said,) = refused
        by_claim = f"promotion 1 makes {master} master, by {master}, since "
        assert by_claim in said or f"promotion 1 made {master} master already" in said
        await until_part(cluster, master, "open")
        await goes_on(ledger, 5.0)  # nobody has to promote again
        await with_everybody_back(cluster)
        await goes_on(ledger)
    await all_is_there(cluster, ledger)
    assert (await state(cluster, master)).number == 1


async def test_a_coordinator_that_dies_while_it_waits_leaves_nothing_behind(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n0 is fenced, nobody has learned of it: n0 goes on by itself, and says so."""
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        killer = Killer(cluster, "n2", "keep n0", after=False, coordinator="n2")
        await killed_promotion(monkeypatch, killer, "n1")
        ledger.pause_s = CALM_S
        assert (await state(cluster, "n0")).state == "fenced"
        before = len(ledger.acknowledged)
        await trio.sleep(CLAIM_LEASE_S + 1.0)
        assert (await state(cluster, "n0")).state == "open"
        assert len(ledger.acknowledged) > before
        answer = await promote(cluster, "n0", "n1")
        assert (answer["number"], answer["handed_over"]) == (1, True)
        await with_everybody_back(cluster)
        await goes_on(ledger)
    await all_is_there(cluster, ledger)


async def test_a_coordinator_that_dies_as_it_asks_leaves_what_the_chosen_one_ends(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n1 may be master, for all that n0 can know; so n0 asks it."""
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        killer = Killer(cluster, "n2", "record n1", after=False, coordinator="n2")
        await killed_promotion(monkeypatch, killer, "n1")
        ledger.pause_s = CALM_S
        said = await refused(cluster, "n1", "n1")
        assert "promotion 1 makes n1 master, by n2, since " in said
        assert (await state(cluster, "n0")).state == "fenced"
        before = len(ledger.acknowledged)
        await trio.sleep(CLAIM_LEASE_S + ASK_CHOSEN_S + 1.0)
        assert (await state(cluster, "n0")).state == "open"
        assert len(ledger.acknowledged) > before
        (void,) = emitted(cluster, PromotionVoid)
        assert (void.number, void.master, void.by) == (1, "n1", "n2")
        answer = await promote(cluster, "n0", "n1")
        assert (answer["number"], answer["handed_over"], answer["losses"]) == (1, True, [])
        await with_everybody_back(cluster)
        await goes_on(ledger)
    await all_is_there(cluster, ledger)


@pytest.mark.parametrize("how", ["comes back", "promoted"])
async def test_a_chosen_one_that_dies_as_it_is_asked_leaves_a_fence_that_says_what_to_do(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """n1 may have heard of it, and be silent: no time makes that safe."""
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        killer = Killer(cluster, "n1", "record n1", after=False, coordinator="n2")
        await killed_promotion(monkeypatch, killer, "n1")
        ledger.pause_s = CALM_S
        await trio.sleep(60.0)
        fenced = await state(cluster, "n0")
        assert fenced.state == "fenced"
        reported = (
            "n2 went away while it made n1 master by promotion 1; n1 knows whether it is, and has"
            " not answered: start n1, or type `promote orders`"
        )
        assert fenced.reason.endswith(reported)
        with pytest.raises(NotEnoughReplicas, match="start n1, or type `promote orders`"):
            await cluster.log(GROUP, "n0").append([b"nobody waits for this"])
        if how == "comes back":
            await cluster.start("n1")
            await until_part(cluster, "n0", "open")
            assert [each.number for each in emitted(cluster, PromotionVoid)] == [1]
        else:
            answer = await promote(cluster, "n0")
            assert (answer["number"], answer["losses"]) == (2, [])
        await with_everybody_back(cluster)
        await goes_on(ledger)
    await all_is_there(cluster, ledger)


async def test_a_chosen_one_that_started_anew_refuses_and_the_old_master_goes_on(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator stands still between its confirmation and the promotion."""
    record = GroupMembers.record

    async def late(self: GroupMembers, name: str, *args: Any) -> GroupState:
        await cluster.kill("n1")
        await cluster.start("n1")
        return await record(self, name, *args)

    monkeypatch.setattr(GroupMembers, "record", late)
    async with load(cluster, pause_s=PAUSE_S) as ledger:
        await trio.sleep(1.0)
        said = await refused(cluster, "n2", "n1")
        assert said == "n1: promotion 1 is not claimed here any more; nothing was done"
        before = len(ledger.acknowledged)
        await trio.sleep(1.0)
        assert len(ledger.acknowledged) > before, "nobody waits for anything to end"
    for name in cluster.names:
        found = await until(cluster, name, lambda found: found.acknowledged == found.written)
        assert (found.number, found.master) == (0, "n0")
    check(ledger, await lines_on(cluster, "n0"))
