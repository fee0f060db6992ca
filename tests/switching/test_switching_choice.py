"""Choosing and refusing: who may become master, and what `--force` gives up."""

from __future__ import annotations

import attrs
import pytest
import trio
from switching_kit import (
    GROUP,
    lines_on,
    promote,
    refused,
    state,
    until,
    until_part,
)

from actors.config import ClusterConfig
from actors.control.promotion import GONE_S
from actors.errors import OutcomeUnknown
from actors.ha.core.role_rules import ASK_GRACE_S
from actors.log import AppendOutcome
from actors.sim.cluster import SimCluster, classic_config
from actors.storage.commitlog.store import MAILBOX_CAPACITY


async def append(cluster: SimCluster, node: str, *lines: bytes) -> None:
    await cluster.log(GROUP, node).append(lines)


async def furthest_is_n2(cluster: SimCluster) -> None:
    """n1 lacks the last lines, and then the master dies."""
    await append(cluster, "n0", b"both have this")
    await cluster.converged(GROUP)
    cluster.cut("n0", "n1")
    cluster.reset("n0", "n1")
    await append(cluster, "n0", b"n1 lacks this")
    await cluster.kill("n0")
    cluster.heal("n0")


async def test_the_furthest_is_chosen(cluster: SimCluster) -> None:
    await furthest_is_n2(cluster)
    answer = await promote(cluster, "n1")
    assert (answer["master"], answer["losses"]) == ("n2", [])
    await append(cluster, "n2", b"more")
    await until(cluster, "n1", lambda found: found.written == found.acknowledged > 0)
    assert await lines_on(cluster, "n1") == [b"both have this", b"n1 lacks this", b"more"]


async def test_another_one_is_refused_and_forced(cluster: SimCluster) -> None:
    await furthest_is_n2(cluster)
    said = await refused(cluster, "n2", "n1")
    assert "n2 has 110 bytes that n1 does not have" in said
    assert "--force does it all the same" in said
    assert (await state(cluster, "n1")).number == 0
    answer = await promote(cluster, "n2", "n1", force=True)
    assert answer["master"] == "n1"
    assert "n2 has 110 bytes that n1 does not have" in answer["losses"][0]
    parted = await until_part(cluster, "n2", "diverged")
    assert parted.master == "n1"
    with pytest.raises(OutcomeUnknown):  # n2 is no copy: its log is another one
        await append(cluster, "n1", b"a line with one copy")
    found = await cluster.node("n2").resync(GROUP)
    assert found["cut_bytes"] == answer["start_bytes"]
    await until_part(cluster, "n2", "following")
    await append(cluster, "n1", b"two copies")


async def test_a_silent_slave_is_named_and_forced(cluster: SimCluster) -> None:
    await furthest_is_n2(cluster)
    await cluster.stop("n2")
    said = await refused(cluster, "n1")
    assert "n0 does not answer" in said
    assert "n2 does not answer" in said
    answer = await promote(cluster, "n1", force=True)
    assert answer["master"] == "n1"
    assert len(answer["losses"]) == 1
    with pytest.raises(OutcomeUnknown):
        await append(cluster, "n1", b"there is no second copy")
    # What the silent one had alone is refused when it is back, whatever its length.
    await cluster.start("n2")
    await until_part(cluster, "n2", "diverged")
    await cluster.start("n0")
    await until_part(cluster, "n0", "diverged")
    with pytest.raises(OutcomeUnknown):
        await append(cluster, "n1", b"nor now")
    for name in ("n0", "n2"):
        await cluster.node(name).resync(GROUP)
        await until_part(cluster, name, "following")
    await append(cluster, "n1", b"three copies")
    await until(cluster, "n1", lambda found: found.written == found.acknowledged)
    assert (await lines_on(cluster, "n1"))[-1] == b"three copies"


async def test_nobody_is_promoted_who_does_not_answer(cluster: SimCluster) -> None:
    await cluster.stop("n2")
    assert (await refused(cluster, "n1", "n2")).startswith("n2 does not answer: ")
    assert await refused(cluster, "n1", "n9") == "n9 is no member of orders"


async def test_a_hand_over_with_a_silent_slave_loses_nothing(cluster: SimCluster) -> None:
    await cluster.stop("n2")
    await append(cluster, "n0", b"one")
    answer = await promote(cluster, "n0")
    assert (answer["master"], answer["handed_over"], answer["losses"]) == ("n1", True, [])
    await append(cluster, "n1", b"two")
    await cluster.start("n2")
    await until(cluster, "n2", lambda found: found.number == 1 and found.state == "following")
    await append(cluster, "n1", b"three")
    await until(cluster, "n2", lambda found: found.written == found.acknowledged)
    assert await lines_on(cluster, "n2") == [b"one", b"two", b"three"]


async def test_a_hand_over_waits_for_nobody_who_gave_up_before_there_was_room(
    cluster: SimCluster,
) -> None:
    """A producer is cancelled while it waits for room in the store's mailbox."""
    outcomes: list[AppendOutcome] = []
    with trio.CancelScope() as gives_up:
        gives_up.cancel()  # so the first tell that would wait is the last
        for _ in range(MAILBOX_CAPACITY + 1):
            await cluster.node("n0").submit(GROUP, (b"",), outcomes.append)
    assert gives_up.cancelled_caught
    answer = await promote(cluster, "n0", "n1")
    assert (answer["master"], answer["handed_over"]) == ("n1", True)
    assert len(outcomes) == MAILBOX_CAPACITY, "it hears nothing of what was never handed over"


async def test_a_hand_over_that_cannot_end_is_taken_back(cluster: SimCluster) -> None:
    """n1 answers, but gets nothing of what the master wrote."""
    await append(cluster, "n0", b"one")
    await cluster.converged(GROUP)
    cluster.cut("n0", "n1")
    await append(cluster, "n0", b"two")
    said = await refused(cluster, "n2", "n1")
    assert "n1 did not get all that n0 has within 10 s" in said
    assert "n0 goes on as master" in said
    await append(cluster, "n0", b"three")
    cluster.heal()
    await cluster.converged(GROUP)


@pytest.mark.parametrize("how", ["killed", "cut off", "disconnected"])
async def test_a_chosen_one_that_is_lost_in_a_hand_over_is_not_waited_for(
    cluster: SimCluster, how: str
) -> None:
    await append(cluster, "n0", b"one")
    await cluster.converged(GROUP)
    cluster.cut("n0", "n1")
    if how == "disconnected":
        cluster.reset("n0", "n1")
    await append(cluster, "n0", b"two")
    found: list[str] = []

    async def ask() -> None:
        found.append(await refused(cluster, "n2", "n1"))

    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until_part(cluster, "n0", "fenced")
        if how == "killed":
            await cluster.kill("n1")
        if how == "cut off":
            cluster.cut("n1")
    assert trio.current_time() - began_s < GONE_S + 2.0
    lost = "has had no connection to n0 for 3 s (connecting)"
    lost = lost if how == "disconnected" else "has not answered for 3 s"
    assert found == [f"n1 {lost}; n0 goes on as master"]
    await append(cluster, "n0", b"three")


async def test_an_operator_who_leaves_takes_the_fence_with_him(cluster: SimCluster) -> None:
    cluster.cut("n0", "n1")
    await append(cluster, "n0", b"one")
    with trio.move_on_after(3.0) as left:
        await promote(cluster, "n2", "n1")
    assert left.cancelled_caught
    await append(cluster, "n0", b"two")


@pytest.fixture
def cluster_config(request: pytest.FixtureRequest) -> ClusterConfig:
    """Two copies, or what a test is given: another number of them, or a configuration."""
    param: int | ClusterConfig = getattr(request, "param", 2)
    return param if isinstance(param, ClusterConfig) else classic_config(copies=param)


@pytest.mark.parametrize("cluster_config", [1], indirect=True, ids=["one copy"])
@pytest.mark.parametrize("force", [False, True])
async def test_a_hand_over_of_a_single_copy_needs_no_silent_slave(
    cluster: SimCluster, force: bool
) -> None:
    """All that was acknowledged is in the log of the master that hands over."""
    await cluster.stop("n1")
    await append(cluster, "n0", b"one")
    answer = await promote(cluster, "n0", "n2", force=force)
    assert (answer["master"], answer["handed_over"], answer["losses"]) == ("n2", True, [])
    await append(cluster, "n2", b"two")
    assert await lines_on(cluster, "n2") == [b"one", b"two"]


HASTY = attrs.evolve(classic_config(), answer_timeout_s=1.0)


@pytest.mark.parametrize("cluster_config", [HASTY], indirect=True, ids=["hasty"])
async def test_a_hanging_master_is_waited_for_as_the_file_says(cluster: SimCluster) -> None:
    await append(cluster, "n0", b"one")
    await cluster.converged(GROUP)
    cluster.cut("n0")
    began_s = trio.current_time()
    answer = await promote(cluster, "n2")
    assert answer["members"]["n0"]["silent"]
    assert trio.current_time() - began_s < 1.0 + ASK_GRACE_S + 1.0
    await append(cluster, answer["master"], b"two")


@pytest.mark.parametrize("cluster_config", [1], indirect=True, ids=["one copy"])
async def test_a_master_that_asks_in_vain_is_forced(cluster: SimCluster) -> None:
    """n2 is to be master, and then neither hears from the other two nor is heard."""
    await append(cluster, "n0", b"one")
    await cluster.converged(GROUP)
    await cluster.kill("n0")
    await cluster.kill("n1")
    assert "n0 does not answer" in await refused(cluster, "n2", "n2")
    answer = await promote(cluster, "n2", "n2", force=True)
    assert answer["master"] == "n2"
    await append(cluster, "n2", b"two")
    await cluster.kill("n2")
    await cluster.start("n2")
    assert (await until_part(cluster, "n2", "asking")).number == 1
    answer = await promote(cluster, "n2", "n2", force=True)
    assert answer["number"] == 2
    await append(cluster, "n2", b"three")
    assert await lines_on(cluster, "n2") == [b"one", b"two", b"three"]
