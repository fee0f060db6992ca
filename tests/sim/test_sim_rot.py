"""Bytes that change on a disk after they were written: nobody copies them, and they are named."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
from broken_store import damaged_bytes_leave
from rot_kit import BODY, GROUP, HEAD, SCRUBBED_S, SEGMENT, filled

from actors.api.failures import RequestRefused
from actors.events import ha
from actors.events import store as events
from actors.group_status import group_statuses
from actors.ha.core.role_effects import RoleState
from actors.ha.ha_client import VERIFY_TIMEOUT_S
from actors.ha.role_status import SAID_HOLDS_S
from actors.sim.actions.process import Crash
from actors.sim.classic.atlas import DIGESTED_S
from actors.sim.classic.judges.checkers import NoDamagedCopyCounts
from actors.sim.history import FaultInjected
from actors.sim.network import NetworkOptions
from actors.sim.world import SimEvent
from actors.storage.files.side_file import SideFile
from actors.storage.log.log_reader import OffsetGone
from actors.storage.scrub import log_check, scrubber
from actors.storage.scrub.approval import HOLDS_S
from actors.storage.scrub.log_check import LogCheck, Steps, Walk
from actors.storage.scrub.scrubber import (
    DIGEST_WITHIN_S,
    ROUND_FIRST_S,
    ROUND_PAUSE_S,
    SYNC_S,
)
from actors.storage.scrub.scrubber_messages import RECHECK_S
from wire.api import frames

MAGIC = 5
"""Into a record: what shows that one begins there."""


@pytest.mark.parametrize("place", [HEAD, BODY])
async def test_what_is_damaged_on_a_master_leaves_it_no_more(
    autojump_clock: object, place: int
) -> None:
    async with filled() as on:
        good = on.atlas.logs.written("n0", 0, 4 * SEGMENT)
        on.flip("n0", SEGMENT + place)
        await on.empty("n1")
        await trio.sleep(3 * RECHECK_S)
        assert await on.written("n1") == SEGMENT
        (found,) = on.events("n0", events.RotFound)
        assert found.first_bytes == SEGMENT
        assert "bytes 16384 to 32768 are damaged" in on.view("n0").damage
        assert on.view("n0").state is RoleState.OPEN
        assert (await on.cluster.log(GROUP).read(0)).next == SEGMENT
        for fresh in (False, True):
            with pytest.raises(RequestRefused, match="bytes 16384 to 32768 of its log are damaged"):
                await on.cluster.log(GROUP).read(SEGMENT, fresh=fresh)
        receipt = await on.cluster.log(GROUP).append([b"what is new is good"])
        assert receipt.copies == 2
        on.flip("n0", SEGMENT + place)
        await on.cluster.converged(GROUP)
        assert on.atlas.logs.written("n1", 0, 4 * SEGMENT) == good
        assert len(on.events("n0", events.RotMended)) == 1
        assert on.view("n0").damage == ""


@pytest.mark.parametrize("node", ["n0", "n1"])
@pytest.mark.parametrize("place", [HEAD, BODY])
async def test_what_changes_in_the_file_that_is_written_is_damage_once_it_is_full(
    autojump_clock: object, node: str, place: int
) -> None:
    """No digest is made of it: what is put back is good again, and is what others get."""
    async with filled() as on:
        written = await on.written(node)
        base = written - written % SEGMENT
        assert written - base > 1000
        on.flip(node, base + place)
        while await on.written(node) < base + SEGMENT:
            await on.cluster.log(GROUP).append([b"x" * 700])
        await trio.sleep(RECHECK_S)
        (found,) = on.events(node, events.RotFound)
        assert found.first_bytes == base
        on.flip(node, base + place)
        await trio.sleep(3 * RECHECK_S)
        assert on.view(node).damage == ""
        await on.empty("n2")
        await on.cluster.converged(GROUP)


async def test_damage_beyond_what_is_remembered_is_not_shown_either(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (log_check, scrubber):
        monkeypatch.setattr(module, "ROTTEN_MAX", 1)
    async with filled() as on:
        for number in (1, 2):
            on.flip("n0", number * SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        log = on.cluster.log(GROUP, "n0")
        with pytest.raises(RequestRefused, match="bytes 16384 to 32768 of its log are damaged"):
            await log.read(SEGMENT)
        for number in (2, 3):
            with pytest.raises(RequestRefused, match="bytes from 32768 on of its log are damaged"):
                await log.read(number * SEGMENT)
        on.flip("n0", SEGMENT + HEAD)
        await trio.sleep(3 * RECHECK_S)
        with pytest.raises(RequestRefused, match="32768"):
            await log.read(2 * SEGMENT)
        on.flip("n0", 2 * SEGMENT + HEAD)
        await trio.sleep(3 * SCRUBBED_S)
        for number in (1, 2, 3):
            assert (await log.read(number * SEGMENT)).records


async def test_what_was_compared_long_ago_is_compared_again_before_it_leaves(
    autojump_clock: object,
) -> None:
    """A slave stands still while it copies, and what it lacks rots on the master."""
    async with filled(copies=2, network=NetworkOptions(window_bytes=4096)) as on:
        good = on.atlas.logs.written("n0", 0, 4 * SEGMENT)
        await on.empty("n1")
        while await on.written("n1") < SEGMENT // 2:  # noqa: ASYNC110 - virtual time
            await trio.sleep(0.001)
        on.cluster.pause("n1")
        on.flip("n0", 3 * SEGMENT + BODY)
        await trio.sleep(2 * HOLDS_S)
        on.cluster.resume("n1")
        await trio.sleep(2.0)
        assert await on.written("n1") == 3 * SEGMENT
        (found,) = on.events("n0", events.RotFound)
        assert found.first_bytes == 3 * SEGMENT
        on.flip("n0", 3 * SEGMENT + BODY)
        await on.cluster.converged(GROUP)
        assert on.atlas.logs.written("n1", 0, 4 * SEGMENT) == good


async def test_a_log_without_digests_is_parsed_before_it_is_sent(autojump_clock: object) -> None:
    """As an earlier version has left it."""
    async with filled() as on:
        await on.cluster.stop()
        on.world.node("n0").disk.rmtree(on.layout("n0").digests)
        on.flip("n0", SEGMENT + BODY)
        on.world.node("n1").disk.rmtree(on.layout("n1").root)
        await on.cluster.start()
        await trio.sleep(3 * RECHECK_S)
        assert await on.written("n1") == SEGMENT
        (found,) = on.events("n0", events.RotFound)
        assert found.why.startswith("offset 16384:")
        on.flip("n0", SEGMENT + BODY)
        await on.cluster.converged(GROUP)


@pytest.mark.parametrize("by_older", [True, False])
async def test_digests_of_before_an_older_version_wrote_are_made_anew(
    autojump_clock: object, by_older: bool
) -> None:
    """It keeps none, and may have cut the log and written it otherwise. It writes the mark without
    a seal.
    """
    async with filled() as on:
        await on.cluster.stop("n0")
        on.flip("n0", SEGMENT + HEAD)
        mark, values = SideFile.open(on.world.node("n0").disk, on.layout("n0").synced, 1)
        assert mark.is_sealed
        assert values is not None
        mark.is_sealed = not by_older
        mark.write(values)
        await on.cluster.start("n0")
        await trio.sleep(SCRUBBED_S)
        found = on.events("n0", events.RotFound)
        assert [each.first_bytes for each in found] == ([] if by_older else [SEGMENT])
        assert f"{SEGMENT:020d}" in on.world.node("n0").disk.listdir(on.layout("n0").digests)
        on.flip("n0", SEGMENT + HEAD)
        await on.cluster.stop("n0")
        on.world.node("n0").disk.rmtree(on.layout("n0").digests)
        await on.cluster.start("n0")


@pytest.mark.parametrize("node", ["n0", "n1"])
async def test_what_a_start_has_parsed_is_digested_at_once(
    autojump_clock: object, node: str
) -> None:
    """What changes afterwards where no CRC covers it is found, long before the scrub's round."""
    async with filled(copies=2) as on:
        await on.cluster.kill(node)
        on.world.node(node).disk.rmtree(on.layout(node).digests)
        await on.cluster.start(node)
        await trio.sleep(ROUND_FIRST_S / 2)
        names = on.world.node(node).disk.listdir(on.layout(node).digests)
        assert {f"{number * SEGMENT:020d}" for number in range(4)} <= set(names)
        on.flip(node, SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        (found,) = on.events(node, events.RotFound)
        assert found.first_bytes == SEGMENT
        on.flip(node, SEGMENT + HEAD)
        await trio.sleep(2 * RECHECK_S)


async def test_a_master_says_why_a_slave_is_away(autojump_clock: object) -> None:
    """As long as that one says it; a slave that has gone says nothing."""
    async with filled(copies=2) as on:
        master = on.cluster.running("n0")
        assert master is not None

        async def reason() -> str:
            (group,) = group_statuses(await master.status()).values()
            (peer,) = (peer for peer in group.peers if peer.node == "n1")
            return peer.reason

        assert await reason() == ""
        on.flip("n1", SEGMENT + BODY)
        await trio.sleep(SCRUBBED_S)
        assert "it says damaged: " in await reason()
        assert f"bytes {SEGMENT} to {2 * SEGMENT} are damaged" in await reason()
        assert (await reason()).startswith("the connection broke: ")
        await on.cluster.kill("n1")
        await trio.sleep(SAID_HOLDS_S + 1)
        assert "it says" not in await reason()
        on.flip("n1", SEGMENT + BODY)
        await on.cluster.start("n1")
        await on.cluster.converged(GROUP)


async def test_a_start_waits_for_no_file_to_be_parsed(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier one has found damaged counts until it was, in steps."""
    async with filled(copies=2) as on:
        on.flip("n1", SEGMENT + BODY)
        await trio.sleep(SCRUBBED_S)
        await on.cluster.stop("n1")
        on.world.node("n1").disk.unlink(f"{on.layout('n1').digests}/{SEGMENT:020d}")
        on.flip("n1", SEGMENT + BODY)
        at_once: list[int] = []
        real = LogCheck.digest_file

        def digest_file(check: LogCheck, base: int) -> Steps[None]:
            at_once.append(base)
            return (yield from real(check, base))

        monkeypatch.setattr(LogCheck, "digest_file", digest_file)
        await on.cluster.start("n1")
        await trio.sleep(3 * RECHECK_S)
        assert at_once == []
        assert len(on.events("n1", events.RotMended)) == 1
        await on.cluster.converged(GROUP)


async def test_what_a_slave_was_sent_is_parsed_there(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a master that compares nothing, as a Java broker."""
    damaged_bytes_leave(monkeypatch)
    async with filled(copies=2) as on:
        on.flip("n0", SEGMENT + BODY)
        await on.empty("n1")
        await trio.sleep(RECHECK_S)
        assert await on.written("n1") > 4 * SEGMENT
        (found,) = on.events("n1", events.RotFound)
        assert (found.first_bytes, found.why[:13]) == (SEGMENT, "offset 16384:")
        assert on.view("n1").state is RoleState.DAMAGED
        on.flip("n0", SEGMENT + BODY)
        await on.empty("n1")
        await on.cluster.converged(GROUP)


async def test_a_damaged_slave_does_not_count(autojump_clock: object) -> None:
    async with filled(copies=2) as on:
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        assert len(on.events("n1", events.RotFound)) == 1
        assert on.view("n1").state is RoleState.DAMAGED
        held = await on.written("n1")
        await on.cluster.log(GROUP).append([b"n2 has it"])
        await trio.sleep(1)
        assert await on.written("n1") == held
        node = on.cluster.running("n0")
        assert node is not None
        with pytest.raises(RequestRefused, match="n1 has a damaged copy"):
            await node.promote(GROUP, "n1", force=False)
        # A restart forgets nothing, long before the scrub comes there again.
        await on.cluster.kill("n1")
        await on.cluster.start("n1")
        await trio.sleep(1)
        assert on.view("n1").state is RoleState.DAMAGED
        connected = len(on.events("n1", ha.MasterConnected))
        await trio.sleep(VERIFY_TIMEOUT_S + 2 * RECHECK_S)
        assert len(on.events("n1", ha.MasterConnected)) == connected
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(2 * RECHECK_S)
        await on.cluster.converged(GROUP)
        assert on.view("n1").state is RoleState.FOLLOWING
        await node.promote(GROUP, "n1", force=False)


async def test_a_loss_of_power_does_not_forget_what_was_found(
    autojump_clock: object,
) -> None:
    """Nor by which digest, which a process that was killed may not have made durable: a head reads
    well, for no CRC covers it.
    """
    async with filled(0, copies=2) as on:
        await on.cluster.kill("n1")
        on.world.node("n1").disk.rmtree(on.layout("n1").digests)
        await on.cluster.start("n1")
        await trio.sleep(SYNC_S / 2)
        await on.cluster.kill("n1")
        await on.cluster.start("n1")
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(ROUND_FIRST_S + 2.0)
        assert len(on.events("n1", events.RotFound)) == 1
        await on.world.power_loss("n1")
        await on.cluster.start("n1")
        await trio.sleep(2 * RECHECK_S)
        assert on.view("n1").state is RoleState.DAMAGED
        assert on.events("n1", events.RotMended) == []
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(2 * RECHECK_S)
        assert on.view("n1").damage == ""


async def test_no_scrub_without_a_rate(autojump_clock: object) -> None:
    async with filled(scrub_bytes_per_s=0) as on:
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        assert on.events("n1", events.RotFound) == []
        on.flip("n1", SEGMENT + HEAD)


async def test_status_says_what_the_scrub_has_not_read(autojump_clock: object) -> None:
    async with filled(copies=2) as on:

        async def scrub() -> dict[str, object]:
            running = on.cluster.running("n1")
            assert running is not None
            return dict((await running.status())["groups"][GROUP]["scrub"])

        await trio.sleep(SCRUBBED_S)
        assert (await scrub())["unread_bytes"] == 0, "all of it came since the start"
        end = await on.written("n1")
        await on.cluster.kill("n1")
        await on.cluster.start("n1")
        found = await scrub()
        last = end - end % SEGMENT
        assert last <= found["unread_bytes"] <= end
        assert found["whole_age_s"] is None
        await trio.sleep(SCRUBBED_S)
        found = await scrub()
        assert found["unread_bytes"] <= end - last
        assert 0 <= found["whole_age_s"] <= ROUND_PAUSE_S


async def test_the_furthest_undamaged_one_is_promoted(autojump_clock: object) -> None:
    async with filled(copies=2) as on:
        on.flip("n1", SEGMENT + HEAD)
        await trio.sleep(SCRUBBED_S)
        await on.cluster.kill("n0")
        node = on.cluster.running("n1")
        assert node is not None
        await node.promote(GROUP, None, force=True)
        assert on.cluster.master_of(GROUP) == "n2"
        on.flip("n1", SEGMENT + HEAD)
        await on.cluster.start("n0")


async def test_a_full_disk_keeps_nobody_from_copying(autojump_clock: object) -> None:
    """Digests that cannot be written are kept in memory, and written later."""
    async with filled() as on:
        await on.cluster.stop("n0")
        disk = on.world.node("n0").disk
        disk.rmtree(on.layout("n0").digests)
        await on.cluster.start("n0")
        disk.faults.fill(60.0)
        await on.empty("n1")
        await on.cluster.converged(GROUP)
        disk.faults.clear()
        await trio.sleep(2 * SYNC_S)
        assert f"{0:020d}" in disk.listdir(on.layout("n0").digests)


async def test_no_bit_is_flipped_where_nobody_could_know_of_it(autojump_clock: object) -> None:
    """Without a digest; but of all that a start has parsed the node soon has one."""
    async with filled() as on:
        disk, digests = on.world.node("n0").disk, on.layout("n0").digests
        disk.rmtree(digests)
        assert on.atlas.flip_old_bit("n0", random.Random(3)) is None
        await on.cluster.kill("n0")
        assert on.atlas.flip_old_bit("n0", random.Random(3)) is None
        await on.cluster.start("n0")
        await trio.sleep(DIGESTED_S)
        assert on.atlas.flip_old_bit("n0", random.Random(3)) is not None
        on.atlas.repair("n0")
        disk.rmtree(digests)
        assert on.atlas.flip_old_bit("n0", random.Random(3)) is not None
        on.atlas.repair("n0")


async def test_the_checker_objects_to_a_damaged_copy(autojump_clock: object) -> None:
    async with filled() as on:
        group = on.cluster.config.classic_groups[GROUP]
        checker = NoDamagedCopyCounts(group=group, logs=on.atlas.logs)
        where = on.atlas.flip_old_bit("n0", random.Random(3))
        assert where is not None
        start, good = int(where.split()[0]), on.atlas.newest_good("n0")
        list(checker.see(FaultInjected(at_s=0.0, kind="damaged", where=f"n0 {where}", good=good)))
        (reported,) = [e for e in on.world.events if type(e.event).__name__ == "OffsetReported"][
            -1:
        ]
        seen = SimEvent(**{**attrs.asdict(reported, recurse=False), "node": "n1"})
        assert list(checker.see(seen)) == []
        on.flip("n1", start)
        (text,) = checker.see(seen)
        assert "what was damaged on n0" in text
        list(checker.see(FaultInjected(at_s=0.0, kind="repaired", where=f"n0 {where}")))
        assert list(checker.see(seen)) == []
        on.flip("n1", start)
        on.atlas.repair("n0")


@pytest.mark.parametrize("full", [True, False])
async def test_a_reader_that_comes_to_a_damaged_head_is_not_called_wrong(
    autojump_clock: object, full: bool
) -> None:
    """So a client goes on with another node. Nobody knows of the damage before."""
    async with filled(scrub_bytes_per_s=0) as on:
        log = on.cluster.log(GROUP)
        place = (await log.read(SEGMENT)).records[2].position
        if not full:
            place = (await log.append([b"in a range without a digest"])).first
        on.flip("n0", place + MAGIC)
        for _ in range(2):
            with pytest.raises(RequestRefused, match="of its log are damaged") as found:
                await log.read(place)
            assert found.value.error == frames.ERROR_NOT_AVAILABLE
        on.flip("n0", place + MAGIC)


async def test_who_asks_for_what_no_record_begins_with_gets_that_answer(
    autojump_clock: object,
) -> None:
    async with filled(scrub_bytes_per_s=0) as on:
        with pytest.raises(RequestRefused, match="no record begins at 21") as found:
            await on.cluster.log(GROUP).read(21)
        assert found.value.error == frames.ERROR_BAD_REQUEST
        assert on.events("n0", events.RotFound) == []


async def test_a_round_over_a_file_that_has_just_gone_waits_for_word_of_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It expired, and the scrubber has not heard yet where the log begins now."""
    real, steps = LogCheck.step, 0
    steps_max = 10 * ROUND_FIRST_S / DIGEST_WITHIN_S

    def step(check: LogCheck, walk: Walk) -> Steps[int]:
        nonlocal steps
        if walk.at or steps >= steps_max:
            return (yield from real(check, walk))
        steps += 1
        raise OffsetGone

    async with filled():
        monkeypatch.setattr(LogCheck, "step", step)
        await trio.sleep(ROUND_FIRST_S)
        assert 1 / DIGEST_WITHIN_S < steps < steps_max


async def test_a_scrubber_that_crashes_takes_nothing_good_for_damage(
    autojump_clock: object,
) -> None:
    """It had parsed what an earlier start left, which ended within a file."""
    async with filled() as on:
        await on.cluster.restart("n0")
        await on.cluster.converged(GROUP)
        for number in range(60):
            await on.cluster.log(GROUP).append([b"%d;" % number + b"y" * 700])
        await on.cluster.node("n0").system.ref(f"/n0/{GROUP}/scrubber").tell(Crash())
        await trio.sleep(SCRUBBED_S)
        assert on.events("n0", events.RotFound) == []
        await on.empty("n1")
        await on.cluster.converged(GROUP)
