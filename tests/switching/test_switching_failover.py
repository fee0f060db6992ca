"""The master dies for good under load, a slave is promoted, and the old master comes back."""

from __future__ import annotations

import trio
from switching_kit import (
    GROUP,
    check,
    kept_aside,
    lines_on,
    load,
    log_bytes,
    promote,
    refused,
    state,
    until,
    until_part,
)

from actors.sim.cluster import SimCluster

LINE_ALONE = b"only the old master has this"


async def leave_a_tail(cluster: SimCluster) -> None:
    """The master writes what no slave gets, and dies."""
    cluster.cut("n0")
    for other in ("n1", "n2"):
        cluster.reset("n0", other)
    with trio.move_on_after(1.0):
        await cluster.log(GROUP, "n0").append([LINE_ALONE])
    await cluster.kill("n0")
    cluster.heal("n0")
    assert LINE_ALONE in log_bytes(cluster, "n0")


async def test_the_whole_story(cluster: SimCluster) -> None:
    async with load(cluster, pause_s=0.3) as ledger:
        await trio.sleep(5.0)
        await leave_a_tail(cluster)
        before = len(ledger.acknowledged)
        assert before > 10
        answer = await promote(cluster, "n2")
        assert (answer["number"], answer["old_master"]) == (1, "n0")
        assert answer["losses"] == []
        new = answer["master"]
        await trio.sleep(10.0)
        assert len(ledger.acknowledged) > before + 20

        await cluster.start("n0")
        parted = await until_part(cluster, "n0", "diverged")
        assert (parted.role, parted.number, parted.master) == ("slave", 1, new)
        assert "resync n0" in parted.reason
        await trio.sleep(30.0)
        assert (await state(cluster, "n0")).state == "diverged"
        assert LINE_ALONE in log_bytes(cluster, "n0")

        found = await cluster.node("n0").resync(GROUP)
        assert found["cut_bytes"] == answer["start_bytes"]
        await until_part(cluster, "n0", "following")
        assert LINE_ALONE in kept_aside(cluster, "n0")
        assert LINE_ALONE not in log_bytes(cluster, "n0")
        again = await cluster.node("n0").resync(GROUP)
        assert again["cut_bytes"] is None
        await trio.sleep(5.0)
    for name in cluster.names:
        await until(cluster, name, lambda found: found.acknowledged == found.written)
        check(ledger, await lines_on(cluster, name))
    assert log_bytes(cluster, "n0") == log_bytes(cluster, "n1") == log_bytes(cluster, "n2")


async def test_a_hand_over_loses_and_doubles_nothing(cluster: SimCluster) -> None:
    async with load(cluster, pause_s=0.001) as ledger:
        for number, node in enumerate(("n1", "n2", "n0"), 1):
            before = len(ledger.acknowledged)
            await trio.sleep(0.3)
            assert len(ledger.acknowledged) > before + 20
            answer = await promote(cluster, "n1", node)
            assert (answer["number"], answer["master"]) == (number, node)
            assert answer["handed_over"]
        await trio.sleep(0.3)
    assert ledger.duplicates == set()
    for name in cluster.names:
        await until(cluster, name, lambda found: found.acknowledged == found.written)
        assert await lines_on(cluster, name) == ledger.acknowledged


async def test_the_master_is_refused_as_the_next(cluster: SimCluster) -> None:
    assert await refused(cluster, "n0", "n0") == "n0 is the master of orders"


async def test_status_is_answered_while_the_parts_are_changed(cluster: SimCluster) -> None:
    """A tree that is being restarted is waited for: who asks must not take it for an end."""
    seen: list[set[str]] = []

    async def ask(name: str) -> None:
        while True:
            found = (await cluster.node(name).status())["groups"][GROUP]
            seen.append({name, found["role"], found["state"], str(found["epoch"])})
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        for name in cluster.names:
            nursery.start_soon(ask, name)
        await trio.sleep(0.1)
        for name in cluster.names:
            cluster.world.node(name).disk.faults.slow_syncs(0.05, 60.0)
        await cluster.log(GROUP, "n0").append([b"one"])
        await promote(cluster, "n2", "n1")
        await until_part(cluster, "n0", "following")
        nursery.cancel_scope.cancel()
    for part in ({"n0", "master", "open", "0"}, {"n0", "slave", "following", "1"}):
        assert part in seen
    assert {"n1", "master", "open", "1"} in seen
