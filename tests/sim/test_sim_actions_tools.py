"""Checking the store of a node that runs, in a simulated cluster."""

from __future__ import annotations

import errno

import pytest
import trio
from test_sim_actions import GROUP, stage
from test_sim_expiry import OLD, SETTLED_S

from actors.sim.classic.actions.expiry import age
from actors.sim.classic.atlas import Damage
from actors.sim.classic.marks import ClassicTally


def segment(base: int) -> str:
    """The file of n1's log that begins there."""
    return f"/data/n1/groups/orders/commitlog/{base:020d}"


SEGMENT = segment(0)
CHECK = "at 0.1 check_running n1"


async def test_a_sound_store_passes_while_its_node_runs(autojump_clock: object) -> None:
    async with stage() as on:
        await on.do(CHECK)
        assert on.runner.counts == {"check_running": 1}
        assert "damage found" not in on.kinds


async def test_damage_that_a_script_has_done_is_found(autojump_clock: object) -> None:
    async with stage() as on:
        await on.do("at 0.1 bit_rot n1 for 5", "at 1.0 check_running n1")
        assert on.kinds.count("damage found") == 1
        assert (
            ClassicTally(segment_bytes=1).count(on.history.observations)[
                "mark damage found by a check"
            ]
            == 1
        )


@pytest.mark.parametrize("damaged", [True, False])
async def test_a_check_that_is_wrong_is_reported(damaged: bool, autojump_clock: object) -> None:
    async with stage() as on:
        if damaged:
            on.runner.atlas.damaged["n1"] = [Damage(0, 1, b"\0")]  # which is not true
        else:
            on.world.node("n1").disk.inode(SEGMENT).flip_bit(4, 0)
        await on.do(CHECK)
        (violation,) = on.history.violations
        assert violation.checker == "CheckFindsDamage"
        assert violation.text.startswith("n1 is damaged" if damaged else "n1 is not damaged: ")
        if not damaged:
            on.world.node("n1").disk.inode(SEGMENT).flip_bit(4, 0)
        on.history.violations.clear()


@pytest.mark.parametrize("wrong", [False, True])
async def test_damage_goes_with_its_file(wrong: bool, autojump_clock: object) -> None:
    """What has expired is not looked at, and excuses nothing that is found elsewhere."""
    async with stage(**OLD) as on:
        disk = on.world.node("n1").disk
        disk.inode(SEGMENT).flip_bit(4, 0)
        on.runner.atlas.damaged["n1"] = [Damage(4, 5, b"\xda")]
        await on.do(CHECK)
        assert on.kinds.count("damage found") == 1
        await trio.sleep(SETTLED_S)
        assert age(on.runner)
        await trio.sleep(SETTLED_S)
        assert not disk.exists(SEGMENT)
        oldest = segment((await on.cluster.offsets("n1", GROUP)).min)
        if wrong:
            disk.inode(oldest).flip_bit(4, 0)
        await on.do(CHECK)
        assert on.runner.counts == {"check_running": 2}
        texts = [each.text for each in on.history.violations]
        assert len(texts) == wrong
        assert all(text.startswith("n1 is not damaged: ") for text in texts)
        if wrong:
            disk.inode(oldest).flip_bit(4, 0)
        on.history.violations.clear()


async def test_a_store_that_cannot_be_read_now_is_not_checked(autojump_clock: object) -> None:
    async with stage() as on:
        on.world.node("n1").disk.faults.fail("read", errno.EIO, path_part="commitlog")
        await on.do(CHECK)
        assert on.runner.counts == {}
        assert "not checked" in on.kinds


async def test_a_node_without_its_folder_is_not_checked(autojump_clock: object) -> None:
    async with stage() as on:
        disk = on.world.node("n1").disk
        disk.rename("/data/n1", "/data/away")
        await on.do(CHECK)
        disk.rename("/data/away", "/data/n1")
        assert on.kinds == ["not checked"]


async def test_who_is_off_is_not_checked(autojump_clock: object) -> None:
    async with stage() as on:
        await on.cluster.kill("n1")
        await on.do(CHECK)
        assert on.kinds == []
