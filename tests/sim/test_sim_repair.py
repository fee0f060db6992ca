"""`repair`: damaged ranges of a node's log are fetched from another member, and only these."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from rot_kit import BODY, GROUP, HEAD, SCRUBBED_S, SEGMENT, Filled, filled

from actors.api.failures import RequestRefused
from actors.control.members import MemberLinks
from actors.errors import Closed
from actors.events import store as events
from actors.group_status import group_status
from actors.ha.core.role_effects import RoleState
from actors.log_types import GoodRange
from actors.node.node import Node
from actors.storage.scrub import log_check, scrubber
from actors.storage.scrub.scrubber import ROUND_FIRST_S
from actors.storage.scrub.scrubber_messages import RECHECK_S


def node_of(on: Filled, name: str) -> Node:
    node = on.cluster.running(name)
    assert node is not None
    return node


async def repaired(on: Filled, name: str, source: str | None = None) -> dict[str, Any]:
    return await node_of(on, name).repair(GROUP, source)


def log_of(on: Filled, name: str) -> bytes:
    return on.atlas.logs.written(name, 0, 4 * SEGMENT)


def aside(on: Filled, name: str) -> dict[str, bytes]:
    """What is kept there, by path."""
    disk, folder = on.world.node(name).disk, on.layout(name).aside
    paths = [
        f"{each}/{file}"
        for each in (disk.listdir(folder) if disk.exists(folder) else ())
        for file in disk.listdir(f"{folder}/{each}")
    ]
    return {path: disk.open(f"{folder}/{path}", "r").pread(0, SEGMENT) for path in paths}


async def test_what_is_beyond_what_is_remembered_is_mended_too(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (log_check, scrubber):
        monkeypatch.setattr(module, "ROTTEN_MAX", 1)
    async with filled(copies=2) as on:
        good = log_of(on, "n1")
        for number in (0, 1, 2):
            on.flip("n1", number * SEGMENT + HEAD)
        await trio.sleep(ROUND_FIRST_S + 2.0)
        assert f"there is more damage from byte {SEGMENT} on" in on.view("n1").damage
        found = await repaired(on, "n1")
        assert [each["first"] for each in found["mended"]] == [0, SEGMENT, 2 * SEGMENT]
        assert found["left"] == []
        await trio.sleep(RECHECK_S)
        assert on.view("n1").damage == ""
        assert log_of(on, "n1") == good
        assert (await on.cluster.log(GROUP, "n1").read(2 * SEGMENT)).records


@pytest.mark.parametrize("place", [HEAD, BODY])
async def test_a_slave_is_mended_from_its_master(autojump_clock: object, place: int) -> None:
    async with filled(copies=2) as on:
        good = log_of(on, "n1")
        on.flip("n1", SEGMENT + place)
        spoilt = log_of(on, "n1")[SEGMENT : 2 * SEGMENT]
        await trio.sleep(SCRUBBED_S)
        assert on.view("n1").state is RoleState.DAMAGED
        found = await repaired(on, "n1")
        assert found["mended"] == [{"first": SEGMENT, "next": 2 * SEGMENT, "source": "n0"}]
        assert found["left"] == []
        assert log_of(on, "n1") == good
        assert on.atlas.logs.durable("n1", 0, 4 * SEGMENT) == good
        assert aside(on, "n1") == {f"{SEGMENT:020d}.1/{SEGMENT:020d}": spoilt}
        assert len(on.events("n1", events.RotMended)) == 1
        (reported,) = on.events("n1", events.RangeRepaired)
        assert (reported.first_bytes, reported.next_bytes, reported.source) == (
            SEGMENT,
            2 * SEGMENT,
            "n0",
        )
        await on.cluster.log(GROUP).append([b"on"])
        await on.cluster.converged(GROUP)
        assert on.view("n1").state is RoleState.FOLLOWING
        await node_of(on, "n0").promote(GROUP, "n1", force=False)


async def test_a_master_is_mended_from_a_slave(autojump_clock: object) -> None:
    async with filled() as on:
        good = log_of(on, "n0")
        on.flip("n0", SEGMENT + HEAD)
        on.flip("n0", 3 * SEGMENT + BODY)
        await trio.sleep(SCRUBBED_S)
        assert len(on.events("n0", events.RotFound)) == 2
        found = await repaired(on, "n0", "n2")
        assert [each["source"] for each in found["mended"]] == ["n2", "n2"]
        assert log_of(on, "n0") == good
        assert on.view("n0").damage == ""


async def test_nothing_is_changed_where_nothing_is_damaged(autojump_clock: object) -> None:
    async with filled() as on:
        found = await repaired(on, "n1")
        assert (found["mended"], found["left"]) == ([], [])
        assert aside(on, "n1") == {}


async def test_without_digests_records_show_what_is_good(autojump_clock: object) -> None:
    """As an earlier version has left it; behind one damage there is another."""
    async with filled() as on:
        await on.cluster.stop()
        good = log_of(on, "n1")
        on.world.node("n1").disk.rmtree(on.layout("n1").digests)
        on.flip("n1", SEGMENT + BODY)
        on.flip("n1", 2 * SEGMENT + BODY)
        await on.cluster.start()
        await trio.sleep(SCRUBBED_S)
        found = await repaired(on, "n1")
        assert [each["first"] for each in found["mended"]] == [SEGMENT, 2 * SEGMENT]
        assert log_of(on, "n1") == good


async def test_the_same_damage_on_all_members_stays(autojump_clock: object) -> None:
    """Each has its own bit of the range damaged: nobody's range is good."""
    async with filled() as on:
        for number, name in enumerate(("n0", "n1", "n2")):
            on.flip(name, SEGMENT + BODY + number)
        before = log_of(on, "n1")
        await trio.sleep(SCRUBBED_S)
        found = await repaired(on, "n1")
        assert found["mended"] == []
        (left,) = found["left"]
        assert left["reason"] == "; ".join(
            f"{name}: its own bytes there are damaged" for name in ("n0", "n2")
        )
        assert log_of(on, "n1") == before
        assert aside(on, "n1") == {}
        assert on.view("n1").state is RoleState.DAMAGED
        for number, name in enumerate(("n0", "n1", "n2")):
            on.flip(name, SEGMENT + BODY + number)


async def test_another_member_gives_what_the_master_has_not(autojump_clock: object) -> None:
    async with filled() as on:
        good = log_of(on, "n1")
        on.flip("n0", SEGMENT + BODY)
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        found = await repaired(on, "n1", "n0")
        assert found["left"][0]["reason"] == "n0: its own bytes there are damaged"
        found = await repaired(on, "n1")
        assert [each["source"] for each in found["mended"]] == ["n2"]
        assert log_of(on, "n1") == good
        assert [each["source"] for each in (await repaired(on, "n0"))["mended"]] == ["n1"]
        assert log_of(on, "n0") == good


async def test_a_silent_member_is_named(autojump_clock: object) -> None:
    async with filled() as on:
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        await on.cluster.kill("n0")
        found = await repaired(on, "n1", "n0")
        assert found["left"][0]["reason"].startswith("n0: does not answer: ")
        assert [each["source"] for each in (await repaired(on, "n1"))["mended"]] == ["n2"]
        await on.cluster.start("n0")


async def test_who_is_no_other_member_gives_nothing(autojump_clock: object) -> None:
    async with filled() as on:
        with pytest.raises(RequestRefused, match=r"\(n0, n2\), found n1"):
            await repaired(on, "n1", "n1")


async def test_one_repair_at_a_time(autojump_clock: object) -> None:
    async with filled() as on, trio.open_nursery() as nursery:
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        nursery.start_soon(repaired, on, "n1")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RequestRefused, match="is being repaired already"):
            await repaired(on, "n1")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (lambda good: good[:-1] + bytes([good[-1] ^ 1]), "do not fit the digest"),
        (lambda good: good[:-1], "bytes from 16384 for 16384 from 16384"),
    ],
)
async def test_what_a_member_gives_is_not_believed(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, sent: Any, reason: str
) -> None:
    async with filled() as on:
        on.flip("n1", SEGMENT + HEAD)
        before = log_of(on, "n1")
        await trio.sleep(SCRUBBED_S)
        data = sent(log_of(on, "n0")[SEGMENT : 2 * SEGMENT])

        async def log_range(links: object, member: str, group: str, start: int) -> GoodRange:
            await trio.lowlevel.checkpoint()
            return GoodRange(start=start, data=data)

        monkeypatch.setattr(MemberLinks, "log_range", log_range)
        found = await repaired(on, "n1")
        assert reason in found["left"][0]["reason"]
        assert log_of(on, "n1") == before
        assert aside(on, "n1") == {}
        on.flip("n1", SEGMENT + HEAD)


async def test_a_full_disk_refuses_it_and_keeps_what_was_there(autojump_clock: object) -> None:
    async with filled() as on:
        on.flip("n1", SEGMENT + HEAD)
        before = log_of(on, "n1")
        await trio.sleep(SCRUBBED_S)
        disk = on.world.node("n1").disk
        disk.faults.fill(60.0)
        found = await repaired(on, "n1")
        (left,) = found["left"]
        assert left["reason"].startswith("n1: no room: ")
        assert left["reason"].count("no room") == 1, "nor would it take n2's"
        assert log_of(on, "n1") == before
        assert aside(on, "n1") == {}
        disk.faults.clear()
        assert len((await repaired(on, "n1"))["mended"]) == 1


async def test_a_sync_that_fails_ends_the_node_and_mends_nothing(autojump_clock: object) -> None:
    async with filled() as on:
        good = log_of(on, "n1")
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        disk = on.world.node("n1").disk
        disk.faults.fail("sync", errno.EIO, path_part=f"commitlog/{SEGMENT:020d}")
        await refused_in_the_end(on)
        await on.world.node("n1").wait_ended()
        assert isinstance(on.world.node("n1").take_failure(), BaseException)
        assert on.events("n1", events.RotMended) == []
        await on.cluster.start("n1")
        await repaired(on, "n1")
        await on.cluster.converged(GROUP)
        assert log_of(on, "n1") == good


@pytest.mark.parametrize("power", [False, True])
async def test_a_crash_before_the_sync_is_found_by_the_next_start(
    autojump_clock: object, power: bool
) -> None:
    """What was written and not synced is damaged still: it may be gone with the power."""
    async with filled() as on:
        good = log_of(on, "n1")
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        on.world.node("n1").disk.faults.slow_syncs(5.0, 20.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused_in_the_end, on)
            await trio.sleep(2.0)
            assert log_of(on, "n1") == good
            assert on.view("n1").state is RoleState.DAMAGED
            await (on.cluster.power_loss if power else on.cluster.kill)("n1")
        on.world.node("n1").disk.faults.clear()
        await on.cluster.start("n1")
        assert on.view("n1").state is RoleState.DAMAGED or log_of(on, "n1") == good
        await repaired(on, "n1")
        assert on.atlas.logs.durable("n1", 0, 4 * SEGMENT) == good
        assert on.view("n1").damage == ""


async def refused_in_the_end(on: Filled) -> None:
    with pytest.raises(Closed, match=r"ended before it answered|is not running"):
        await repaired(on, "n1")


@pytest.mark.parametrize(
    ("place", "size"), [(SEGMENT, SEGMENT), (0, 1 << 18)], ids=["an older file", "the last file"]
)
async def test_what_no_scrub_has_met_is_looked_for(
    autojump_clock: object, place: int, size: int
) -> None:
    async with filled(copies=2, scrub_bytes_per_s=0, segment_bytes=size) as on:
        await on.cluster.log(GROUP).append([b"x" * 700] * 100)
        await on.cluster.converged(GROUP)
        await trio.sleep(SCRUBBED_S)  # it is digested
        written = (await node_of(on, "n1").group_state(GROUP)).synced
        good = on.atlas.logs.written("n1", 0, written)
        on.flip("n1", place + HEAD)
        await trio.sleep(SCRUBBED_S)
        assert on.view("n1").damage == ""
        found = await repaired(on, "n1")
        assert [each["first"] for each in found["mended"]] == [place]
        assert found["looked"] == {"first": 0, "next": written}
        assert on.atlas.logs.written("n1", 0, written) == good
        again = await repaired(on, "n1")
        assert (again["mended"], again["left"]) == ([], [])
        own = group_status(await node_of(on, "n1").status(), GROUP)
        assert own is not None
        assert own.scrub is not None
        assert own.scrub.whole_age_s is not None  # a whole pass, at last
        assert own.details["repair"] == ""


async def test_a_repair_says_how_far_it_is(autojump_clock: object) -> None:
    async with filled(copies=2) as on:
        node, said = node_of(on, "n1"), set[str]()
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                while True:
                    own = group_status(await node.status(), GROUP)
                    assert own is not None
                    said.add(own.details["repair"])
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(ask)
            await repaired(on, "n1")
            nursery.cancel_scope.cancel()
        assert any(text.endswith("are read") for text in said)
