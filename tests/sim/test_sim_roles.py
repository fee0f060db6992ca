"""Whole nodes change roles: fencing, promotion, what an old master meets when it comes back."""

from __future__ import annotations

import attrs
import pytest
import trio
from node_roles_kit import (
    CLAIM,
    GROUP,
    becomes,
    cluster_in,
    emitted,
    lose_disk,
    promote,
    started,
    state,
)

from actors.api.failures import RequestRefused
from actors.errors import NotEnoughReplicas, NotMaster, ReplicationTimeout
from actors.events import roles as events
from actors.sim.world import World, open_world


async def test_a_promoted_slave_takes_over_and_the_old_master_follows_it(
    autojump_clock: object,
) -> None:
    async with open_world(1) as world:
        cluster = await started(world)
        await cluster.kill("n0")
        await promote(cluster, 1, "n2", "n1")
        opened = await becomes(cluster, "n2", "open")
        assert (opened.number, opened.master, opened.role) == (1, "n2", "master")
        assert [epoch.master for epoch in opened.history] == ["n0", "n2"]
        await becomes(cluster, "n1", "following")
        receipt = await cluster.log(GROUP, "n2").append([b"two"])
        assert receipt.copies == 2
        with pytest.raises(NotMaster) as refused:
            await cluster.log(GROUP, "n1").append([b"three"])
        assert refused.value.hint == "n2"
        await cluster.start("n0")
        back = await becomes(cluster, "n0", "following")
        assert (back.role, back.number, back.master) == ("slave", 1, "n2")
        await cluster.log(GROUP, "n2").append([b"four"])
        await trio.sleep(1.0)
        ends = {(await state(cluster, name)).written for name in cluster.names}
        assert len(ends) == 1
        batch = await cluster.log(GROUP, "n0").read(0)
        assert [record.body for record in batch.records] == [b"one", b"two", b"four"]


async def test_a_restarted_master_hears_of_a_promotion_before_it_takes_appends(
    autojump_clock: object,
) -> None:
    async with open_world(3) as world:
        cluster = await started(world, copies=1, slave_timeout_s=0.5)
        await cluster.kill("n0")
        await promote(cluster, 1, "n1", "n2")
        cluster.cut("n0")
        await cluster.start("n0")
        with pytest.raises(NotEnoughReplicas, match="has not heard n1, n2"):
            await cluster.log(GROUP, "n0").append([b"alone"])
        cluster.heal()
        back = await becomes(cluster, "n0", "following")
        assert back.master == "n1"
        with pytest.raises(NotMaster):
            await cluster.log(GROUP, "n0").append([b"two"])


async def test_a_promotion_recorded_at_one_member_only_spreads(autojump_clock: object) -> None:
    async with open_world(4) as world:
        cluster = await started(world)
        await promote(cluster, 1, "n1")  # and the operator's command is killed
        await becomes(cluster, "n1", "open")
        for name in ("n0", "n2"):
            found = await becomes(cluster, name, "following")
            assert (found.number, found.master) == (1, "n1")
        assert (await cluster.log(GROUP, "n1").append([b"two"])).copies == 2
        recorded = emitted(world, events.PromotionRecorded)
        assert [each.number for each in recorded] == [1, 1, 1]
        with pytest.raises(RequestRefused, match="promotion 1 made n1 master already"):
            await cluster.node("n2").record(GROUP, 1, "n2", CLAIM.token, False)


async def test_whoever_lacks_what_was_acknowledged_does_not_open(autojump_clock: object) -> None:
    async with open_world(5) as world:
        cluster = await started(world)
        cluster.cut("n0", "n2")
        await cluster.log(GROUP).append([b"two"])
        await promote(cluster, 1, "n2", "n1")
        fenced = await becomes(cluster, "n2", "fenced")
        assert "n1 goes on up to" in fenced.reason
        with pytest.raises(NotEnoughReplicas, match="fenced"):
            await cluster.log(GROUP, "n2").append([b"three"])
        cluster.heal()
        await promote(cluster, 2, "n1", "n2", "n0")
        await becomes(cluster, "n1", "open")
        await cluster.log(GROUP, "n1").append([b"three"])
        await becomes(cluster, "n2", "following")
        batch = await cluster.log(GROUP, "n1").read(0)
        assert [record.body for record in batch.records] == [b"one", b"two", b"three"]


async def test_a_hand_over_answers_all_and_loses_nothing(autojump_clock: object) -> None:
    async with open_world(6) as world:
        cluster = cluster_in(world)
        await cluster.start()
        await cluster.log(GROUP).append([b"one"])
        fenced = await cluster.node("n0").fence(GROUP, CLAIM, True)
        assert (fenced.state, fenced.opened) == ("fenced", True)
        appended: list[object] = []

        async def append() -> None:
            try:
                appended.append(await cluster.log(GROUP, "n0").append([b"two"]))
            except NotMaster as error:
                appended.append(error.hint)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await trio.sleep(0.2)
            assert appended == []
            assert (await state(cluster, "n0")).written == fenced.written
            await promote(cluster, 1, "n1", "n0", "n2")
        assert appended == ["n1"]
        await becomes(cluster, "n1", "open")
        assert (await cluster.log(GROUP, "n1").append([b"two"])).copies == 2
        await becomes(cluster, "n0", "following")


async def test_a_hand_over_that_is_given_up_goes_on_as_before(autojump_clock: object) -> None:
    async with open_world(7) as world:
        cluster = cluster_in(world)
        await cluster.start()
        await cluster.node("n0").fence(GROUP, CLAIM, True)
        opened = await cluster.node("n0").fence(GROUP, CLAIM, False)
        assert opened.state == "open"
        assert len(opened.history) == 1
        await cluster.log(GROUP).append([b"one"])
        with pytest.raises(RequestRefused, match="made n0 master already"):
            await cluster.node("n0").fence(GROUP, attrs.evolve(CLAIM, number=0), True)


@pytest.mark.checklist(8)
async def test_a_master_restored_from_an_older_copy_stays_closed(autojump_clock: object) -> None:
    async with open_world(8) as world:
        cluster = await started(world)
        await cluster.stop("n0")
        disk = world.node("n0").disk
        root = cluster.config.group_dir("n0", GROUP)
        for path in ("commitlog", "consumequeue", "index"):
            disk.rmtree(f"{root}/{path}")
        for path in ("synced", "dispatched", "checkpoint"):
            disk.unlink(f"{root}/{path}")
        await cluster.start("n0")
        fenced = await becomes(cluster, "n0", "fenced")
        assert "this log ends at 0" in fenced.reason or "acknowledged" in fenced.reason
        with pytest.raises(NotEnoughReplicas):
            await cluster.log(GROUP).append([b"two"])


def files_of(world: World, name: str, path: str) -> dict[str, bytes]:
    """A file of a node's disk, or all that lies below a folder."""
    disk, found = world.node(name).disk, {}
    try:
        entries = disk.listdir(path)
    except NotADirectoryError:
        file = disk.open(path, "r")
        found[path] = file.pread(0, file.size_bytes)
        file.close()
    else:
        for entry in entries:
            found.update(files_of(world, name, f"{path}/{entry}"))
    return found


@pytest.mark.checklist(8)
async def test_a_master_restored_with_its_memory_is_reported_by_who_lost_its_log(
    autojump_clock: object,
) -> None:
    """n1 has all, and is away; n2 has nothing any more, but knows how far n0 once was."""
    async with open_world(8) as world:
        cluster = await started(world)
        await cluster.stop("n0")
        copy = files_of(world, "n0", cluster.config.node_dir("n0"))
        for line in (b"two", b"three"):
            await cluster.start("n0")
            await becomes(cluster, "n0", "open")
            await cluster.log(GROUP).append([line])
            await cluster.converged(GROUP)
            await cluster.stop("n0")
        for name in ("n1", "n2"):
            await cluster.stop(name)
        world.node("n2").disk.rmtree(cluster.config.group_dir("n2", GROUP))
        disk = world.node("n0").disk
        disk.rmtree(cluster.config.node_dir("n0"))
        for path, data in copy.items():
            disk.mkdir(path.rpartition("/")[0])
            file = disk.open(path, "x")
            file.pwrite(data, 0)
            file.close()
        await cluster.start("n0")
        await cluster.start("n2")
        found = await becomes(cluster, "n0", "fenced")
        assert "n2 knows that it ended at " in found.reason
        await cluster.start("n1")
        await cluster.node("n0").promote(GROUP, None, False)
        await becomes(cluster, "n1", "open")


async def test_what_is_remembered_survives_a_power_loss(autojump_clock: object) -> None:
    async with open_world(9) as world:
        cluster = await started(world)
        await promote(cluster, 3, "n2", "n0", "n1")
        before = await becomes(cluster, "n2", "open")
        await trio.sleep(2.0)
        for name in cluster.names:
            await cluster.power_loss(name)
        await cluster.start()
        after = await becomes(cluster, "n2", "open")
        assert after.number == 3
        assert after.history[:1] == before.history[:1]
        assert after.high_water >= before.written
        assert (await cluster.log(GROUP, "n2").append([b"two"])).copies >= 2


async def test_an_empty_slave_is_no_copy_before_it_has_heard_who_may_have_a_newer_master(
    autojump_clock: object,
) -> None:
    """n1, put back empty, meets the old master; n2 would tell it of the new one."""
    async with open_world(16) as world:
        cluster = await started(world, slave_timeout_s=0.5)
        cluster.cut("n0")
        for other in ("n1", "n2"):
            cluster.reset("n0", other)  # nothing that is said now arrives later
        await promote(cluster, 1, "n2", "n1")
        await becomes(cluster, "n2", "open")
        await cluster.log(GROUP, "n2").append([b"two"])
        await lose_disk(cluster, "n1")
        cluster.cut("n1", "n2")
        cluster.heal("n0", "n1")
        await cluster.start("n1")
        with pytest.raises(ReplicationTimeout):
            await cluster.log(GROUP, "n0").append([b"not two"])
        waits = await state(cluster, "n1")
        assert (waits.state, waits.written, waits.forgot) == ("connecting", 0, "all")
        assert "it began empty, and has not heard n2" in waits.reason
        cluster.heal()
        await becomes(cluster, "n1", "following")
        await trio.sleep(2.0)
        batch = await cluster.log(GROUP, "n1").read(0)
        assert [record.body for record in batch.records] == [b"one", b"two"]
        assert (await state(cluster, "n1")).forgot == ""


async def test_a_promotion_does_not_count_on_an_empty_member(autojump_clock: object) -> None:
    """n1, which held it beside the master, is put back empty; n2 never had it."""
    async with open_world(17) as world:
        cluster = await started(world)
        cluster.cut("n2")
        await cluster.log(GROUP).append([b"two"])
        await lose_disk(cluster, "n1")
        cluster.heal()
        cluster.cut("n0")
        await cluster.start("n1")
        await promote(cluster, 1, "n2", "n1")
        asking = await becomes(cluster, "n2", "asking")
        await trio.sleep(10.0)
        asking = await state(cluster, "n2")
        assert (asking.state, asking.opened) == ("asking", False)
        assert asking.reason == (
            "has not heard n0, and n1 cannot know what was acknowledged (began empty, or lost"
            " bytes)"
        )
        cluster.heal()
        fenced = await becomes(cluster, "n2", "fenced")
        assert "n0 goes on up to" in fenced.reason


async def test_a_master_that_may_have_been_replaced_shows_nothing(autojump_clock: object) -> None:
    """With one copy all that is there was acknowledged, unless a promotion has given it up."""
    async with open_world(18) as world:
        cluster = await started(world, copies=1)
        await cluster.kill("n0")
        cluster.cut("n0")
        await cluster.start("n0")
        await trio.sleep(5.0)
        asking = await cluster.offsets("n0", GROUP)
        assert (asking.written > 0, asking.acknowledged) == (True, 0)
        assert (await state(cluster, "n0")).state == "asking"
        cluster.heal()
        opened = await becomes(cluster, "n0", "open")
        await trio.sleep(0.1)
        assert (await cluster.offsets("n0", GROUP)).acknowledged == opened.written
        batch = await cluster.log(GROUP, "n0").read(0)
        assert [record.body for record in batch.records] == [b"one"]


async def test_an_old_master_that_opens_once_more_is_not_the_cluster_s(
    autojump_clock: object,
) -> None:
    """It has heard one member, which does not know of the promotion either."""
    async with open_world(19) as world:
        cluster = await started(world, copies=3, nodes=4)
        await cluster.kill("n0")
        cluster.cut("n3")
        await promote(cluster, 1, "n1", "n2")
        await becomes(cluster, "n1", "open")
        cluster.cut("n0")
        cluster.heal("n0", "n3")
        await cluster.start("n0")
        await becomes(cluster, "n0", "open")
        assert cluster.master_of(GROUP) == "n1"
