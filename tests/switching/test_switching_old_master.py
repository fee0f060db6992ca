"""The old master is started again by its supervisor: it acknowledges nothing that the others do not
have, and never counts as a copy of a log that it does not hold.
"""

from __future__ import annotations

import pytest
import trio
from switching_kit import (
    GROUP,
    check,
    lines_on,
    load,
    log_bytes,
    promote,
    state,
    until,
    until_part,
)

from actors.config import ClusterConfig
from actors.errors import NotEnoughReplicas, NotMaster, NotStored, OutcomeUnknown
from actors.sim.cluster import SimCluster, classic_config

TAIL = b"what the old master has alone"


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def cluster_config(request: pytest.FixtureRequest) -> ClusterConfig:
    return classic_config(copies=request.param)


def copies_of(cluster: SimCluster) -> int:
    return cluster.config.groups[GROUP].copies


async def append(cluster: SimCluster, node: str, *lines: bytes) -> None:
    await cluster.log(GROUP, node).append(lines)


async def never_takes_appends(cluster: SimCluster, name: str, for_s: float = 30.0) -> None:
    """Nothing is written by a producer who tries again and again."""
    before = log_bytes(cluster, name)
    with trio.move_on_after(for_s):
        while True:
            with pytest.raises(NotStored):
                await append(cluster, name, b"nobody may have this acknowledged")
            await trio.sleep(0.5)
    assert log_bytes(cluster, name) == before


async def parted(cluster: SimCluster, tail_lines: int) -> str:
    """All have one line; n0 dies with a tail; another one is master. Gives who."""
    await append(cluster, "n0", b"all have this")
    await cluster.converged(GROUP)
    cluster.cut("n0")
    for other in ("n1", "n2"):
        cluster.reset("n0", other)
    for _ in range(tail_lines):
        with trio.move_on_after(0.2):
            await append(cluster, "n0", TAIL)
    await cluster.kill("n0")
    cluster.heal("n0")
    force = copies_of(cluster) == 1  # what the dead master alone acknowledged is given up by name
    answer = await promote(cluster, "n1", force=force)
    assert bool(answer["losses"]) == force
    master = answer["master"]
    assert isinstance(master, str)
    return master


@pytest.mark.parametrize("outgrown", [False, True], ids=["before", "after"])
async def test_it_is_refused_whatever_the_lengths(cluster: SimCluster, outgrown: bool) -> None:
    """Before and after the new master's log has outgrown the old one's tail."""
    master = await parted(cluster, tail_lines=10)
    for number in range(40 if outgrown else 1):
        await append(cluster, master, b"new %d" % number)
    await cluster.start("n0")
    longer = len(log_bytes(cluster, "n0")) > len(log_bytes(cluster, master))
    assert longer is not outgrown
    found = await until_part(cluster, "n0", "diverged")
    assert (found.role, found.number, found.master) == ("slave", 1, master)
    await never_takes_appends(cluster, "n0")
    assert TAIL in log_bytes(cluster, "n0"), "nothing is cut before an operator says so"
    for _ in range(3):
        await cluster.restart("n0")
        await until_part(cluster, "n0", "diverged")
    await cluster.node("n0").resync(GROUP)
    await until_part(cluster, "n0", "following")
    await append(cluster, master, b"the last")
    end = (await state(cluster, master)).written
    await until(cluster, "n0", lambda found: found.written == found.acknowledged == end)
    assert (await lines_on(cluster, "n0"))[-1] == b"the last"
    assert TAIL not in log_bytes(cluster, "n0")


async def test_alone_it_takes_nothing(cluster: SimCluster) -> None:
    """It cannot know of the promotion, and finds nobody to ask."""
    master = await parted(cluster, tail_lines=1)
    await append(cluster, master, b"new")
    await cluster.stop("n1", "n2")
    await cluster.start("n0")
    found = await until_part(cluster, "n0", "asking")
    assert (found.role, found.number) == ("master", 0)
    assert "has not heard n1, n2" in found.reason
    await never_takes_appends(cluster, "n0", for_s=120.0)
    await cluster.start("n1", "n2")
    found = await until_part(cluster, "n0", "diverged")
    assert (found.role, found.number) == ("slave", 1)


async def test_without_a_promotion_it_opens_again_once_one_member_answers(
    cluster: SimCluster,
) -> None:
    await append(cluster, "n0", b"one")
    await cluster.converged(GROUP)
    await cluster.stop()
    await cluster.start("n0")
    await never_takes_appends(cluster, "n0")
    await cluster.start("n2")
    await until_part(cluster, "n0", "open")
    await append(cluster, "n0", b"two")


async def test_by_force_it_opens_alone(cluster: SimCluster) -> None:
    await append(cluster, "n0", b"one")
    await cluster.converged(GROUP)
    await cluster.stop()
    await cluster.start("n0")
    await until_part(cluster, "n0", "asking")
    answer = await promote(cluster, "n0", "n0", force=True)
    assert (answer["master"], answer["number"]) == ("n0", 1)
    assert "n1 does not answer" in answer["losses"][0]
    if copies_of(cluster) == 1:
        await append(cluster, "n0", b"two")
    else:
        with pytest.raises((NotEnoughReplicas, OutcomeUnknown)):
            await append(cluster, "n0", b"two")
    await cluster.start("n1", "n2")
    await append(cluster, "n0", b"three")
    for name in ("n1", "n2"):
        found = await until_part(cluster, name, "following")
        assert found.number == 1


async def test_while_a_slave_is_silent(cluster: SimCluster) -> None:
    """It hears of the promotion from the member that answers, whoever that is."""
    master = await parted(cluster, tail_lines=1)
    other = "n2" if master == "n1" else "n1"
    await append(cluster, master, b"new")
    for silent in (other, master):
        cluster.cut(silent)
        await cluster.restart("n0")
        found = await until(cluster, "n0", lambda found: found.number == 1)
        assert (found.role, found.master) == ("slave", master)
        await never_takes_appends(cluster, "n0", for_s=10.0)
        cluster.heal()
    await until_part(cluster, "n0", "diverged")


async def test_it_is_no_copy_of_what_it_does_not_hold(cluster: SimCluster) -> None:
    """With the other slave off, only the diverged one is left: nothing gets its second copy."""
    master = await parted(cluster, tail_lines=20)
    other = "n2" if master == "n1" else "n1"
    await cluster.stop(other)
    await cluster.start("n0")
    await until_part(cluster, "n0", "diverged")
    if copies_of(cluster) == 1:
        await append(cluster, master, b"one copy is enough")
        assert (await cluster.offsets("n0", GROUP)).acknowledged == 0, "it shows nothing"
        return
    for _ in range(5):
        with pytest.raises((NotEnoughReplicas, OutcomeUnknown)):
            await append(cluster, master, b"this has one copy")
    status = await cluster.node(master).status()
    rows = {row["node"]: row for row in status["groups"][GROUP]["peers"]}
    assert rows["n0"]["end"] is None
    await cluster.start(other)
    await append(cluster, master, b"two copies")
    assert (await state(cluster, "n0")).state == "diverged"


async def test_a_master_that_was_only_paused_finds_out(cluster: SimCluster) -> None:
    """It wakes up as a master by the old number; its appends reach nobody."""
    async with load(cluster, pause_s=0.2) as ledger:
        await trio.sleep(2.0)
        await cluster.converged(GROUP)
        cluster.pause("n0")
        force = copies_of(cluster) == 1
        master = (await promote(cluster, "n1", force=force))["master"]
        await append(cluster, master, b"new")
        cluster.resume("n0")
        found = await until(cluster, "n0", lambda found: found.number == 1)
        assert found.role == "slave"
        await trio.sleep(5.0)
        if (await state(cluster, "n0")).state == "diverged":
            await cluster.node("n0").resync(GROUP)
        await until_part(cluster, "n0", "following")
        await trio.sleep(2.0)
        with pytest.raises(NotMaster):
            await append(cluster, "n0", b"too late")
    for name in cluster.names:
        await until(cluster, name, lambda found: found.acknowledged == found.written)
        lines = await lines_on(cluster, name)
        if copies_of(cluster) == 2:
            check(ledger, lines)
