"""Copies of a stock master in a simulated world: what ends them, and that they go on or say why."""

from __future__ import annotations

import json
from contextlib import closing

import attrs
import pytest
import trio
from follow_kit import ROOT, SHAPE, Stage, stage
from stock_master import ADDRESS, FILE, PORT, StockMaster, files_of

from actors.env.protocols import Address
from actors.errors import ConfigError
from actors.follow.copy import CopyStatus
from actors.follow.folder import Shape, take_folder
from actors.follow.lines import final_text
from actors.ha import log_judge
from actors.ha.core.states import Lost
from actors.sim.disk import DiskOptions
from actors.storage.files.whole_files import read_bytes
from actors.trees.group_setup import CopyRules


async def started(on: Stage, records: int = 50) -> None:
    """The copy has all of a master with so many records."""
    await on.start_master()
    await on.start_copy()
    # Connected before there is anything: later it would be sent the last file only.
    await on.until(lambda status: status.reported is not None)
    on.master.append(records)
    await on.until_all()


async def restarted_master(on: Stage) -> None:
    await on.world.kill_node("broker")
    await on.start_master()


async def final(on: Stage) -> CopyStatus:
    return await on.until(lambda status: status.final is not None)


async def test_it_is_equal_and_says_that_it_follows(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on, 500)
        status = await on.until(lambda status: status.follows)
        assert (status.begin, status.lag, status.error) == (0, 0, "")
        assert status.end == status.reported == on.master.acknowledged == on.master.end > 2 * FILE
        on.assert_equal()
        await trio.sleep(100)
        assert len(on.master.connections) == 1  # reports keep it
        on.master.append()
        await on.until(lambda status: status.follows and status.end == on.master.end)


@pytest.mark.parametrize("seed", range(4))
async def test_it_goes_on_after_kills_power_losses_and_cuts_of_either_side(
    autojump_clock: object, seed: int
) -> None:
    async with stage(seed) as on:
        await started(on)
        rng = on.world.rng("test")
        async with trio.open_nursery() as nursery:

            async def load() -> None:
                while True:
                    on.master.append(rng.randrange(20), rng.randrange(8, 4000))
                    await trio.sleep(rng.random() * 0.2)

            nursery.start_soon(load)
            for _ in range(20):
                await trio.sleep(rng.random() * 3)
                match rng.randrange(5):
                    case 0:
                        await on.world.kill_node("copy")
                        await on.start_copy()
                    case 1:
                        await on.world.power_loss("copy")
                        await on.start_copy()
                    case 2:
                        await on.world.stop_node("copy")
                        await on.start_copy()
                    case 3:
                        await restarted_master(on)
                    case 4:
                        on.world.network.cut_both("broker", "copy")
                        await trio.sleep(rng.random() * 30)
                        on.world.network.heal_all()
            nursery.cancel_scope.cancel()
        status = await on.until_all()
        assert (status.begin, status.final) == (0, None)
        on.assert_equal()


async def test_a_full_disk_is_waited_for(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on)
        faults = on.world.node("copy").disk.faults
        faults.fill(60.0)
        on.master.append(600)
        status = await on.until(lambda status: bool(status.no_room))
        assert "no room" in status.no_room
        assert status.final is None
        await on.until_all()
        on.assert_equal()


async def test_no_file_is_deleted_for_room(autojump_clock: object) -> None:
    async with stage(disk=DiskOptions(capacity_bytes=2 << 20)) as on:
        await started(on, 4000)
        await trio.sleep(60)
        assert on.world.node("copy").disk.usage(ROOT) > 0.85  # where others delete forcibly
        assert (await on.status()).begin == 0
        on.master.append(4000)
        status = await on.until(lambda status: bool(status.no_room))
        assert status.begin == 0


async def lost(on: Stage, keeps_records: int) -> tuple[CopyStatus, int]:
    """The master comes back with less. Returns: how the copy stands, and where the master ends."""
    await started(on, keeps_records)
    keeps = on.master.end
    on.master.append(500 - keeps_records)
    await on.until_all()
    held = on.held()
    await on.world.kill_node("broker")
    del on.master.log[keeps:]
    await on.start_master()
    status = await final(on)
    assert on.held() == held
    return status, keeps


async def test_a_master_that_lost_its_end_is_not_followed(autojump_clock: object) -> None:
    async with stage() as on:
        status, keeps = await lost(on, 490)
        assert status.final is Lost.FOREIGN_LOG
        assert f"the master's log ends at {keeps}, this copy at {status.end}" in status.error
        # It goes on with other records, and comes to be longer than the copy.
        held = on.held()
        on.master.append(900, 200)
        await on.until(lambda status: "the master has other bytes from offset" in status.error)
        assert on.held() == held


@pytest.mark.parametrize("keeps_records", [0, 10])
async def test_a_master_that_lost_most_is_not_followed(
    autojump_clock: object, keeps_records: int
) -> None:
    async with stage() as on:
        status, _ = await lost(on, keeps_records)
        assert status.final is Lost.FOREIGN_LOG
        assert "the master has lost the rest" in status.error


async def test_a_master_that_deleted_what_the_copy_lacks_is_said(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on)
        await on.world.stop_node("copy")
        on.master.append(900)
        on.master.min_bytes = on.master.end // FILE * FILE
        held = on.held()
        await on.start_copy()
        status = await final(on)
        assert "the master has deleted its file that holds offset" in status.error
        assert on.held() == held


async def test_it_goes_on_where_the_master_still_has_the_last_file_alone(
    autojump_clock: object,
) -> None:
    async with stage() as on:
        await started(on, 500)
        await on.world.stop_node("copy")
        on.master.min_bytes = on.master.end // FILE * FILE
        assert on.master.end % FILE
        on.master.append(50)
        await on.start_copy()
        await on.until_all()
        on.assert_equal()


async def test_another_brokers_log_is_not_followed(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on)
        await on.world.stop_node("copy")
        await on.world.kill_node("broker")
        held = on.held()
        on.master = StockMaster()
        on.master.append(70, topic="u")
        await on.start_master()
        await on.start_copy()
        status = await final(on)
        assert "the master has other bytes from offset" in status.error
        assert on.held() == held


async def test_a_late_copy_begins_with_the_masters_last_file(autojump_clock: object) -> None:
    async with stage() as on:
        on.master.append(500)
        await on.start_master()
        await on.start_copy()
        status = await on.until_all()
        assert status.begin == on.master.end // FILE * FILE > 0
        on.assert_equal()


async def test_a_store_that_somebody_put_there_is_gone_on_with(autojump_clock: object) -> None:
    async with stage() as on:
        on.master.append(500)
        disk = on.world.node("copy").disk
        for name, data in files_of(bytes(on.master.log), 0).items():
            disk.mkdir(f"{ROOT}/commitlog")
            disk.open(f"{ROOT}/commitlog/{name}", "x").pwrite(data, 0)
        on.master.append(500)
        await on.start_master()
        await on.start_copy()
        status = await on.until_all()
        assert status.begin == 0
        on.assert_equal()


async def test_a_passive_copy_reports_where_a_connection_begins_and_no_more(
    autojump_clock: object,
) -> None:
    async with stage(rules=CopyRules(passive=True)) as on:
        await started(on)
        await trio.sleep(60)
        on.master.append(50)
        status = await on.until(lambda status: status.follows and status.good == on.master.end)
        assert (on.master.acknowledged, status.reported) == (0, 0)
        assert set(on.master.connections[0].reports) == {0}
        assert not on.master.connections[0].closed  # it is kept
        before = on.master.end
        await restarted_master(on)
        await on.until(lambda status: status.connected and status.reported == before)
        on.master.append(50)
        await on.until_all()
        await trio.sleep(30)
        assert on.master.acknowledged == before
        on.assert_equal()


async def test_a_damaged_record_of_the_masters_is_named_and_not_reported(
    autojump_clock: object,
) -> None:
    async with stage() as on:
        await started(on)
        good = on.master.end
        on.master.append(3)
        on.master.log[good + 120] ^= 1
        status = await final(on)
        assert status.final is Lost.BAD_RECORD
        assert f"offset {good}" in status.error
        assert on.master.acknowledged <= good


async def test_files_of_another_size_are_named(autojump_clock: object) -> None:
    async with stage() as on:
        on.shape = Shape(segment_bytes=1 << 30)
        on.master.append(500)
        await on.start_master()
        await on.start_copy()
        status = await final(on)
        assert status.final is Lost.UNALIGNED
        await on.world.stop_node("copy")
        on.shape = SHAPE  # nothing has come yet, so it may begin with the right one
        await on.start_copy()
        await on.until_all()
        on.assert_equal()


async def test_smaller_files_of_the_masters_are_no_damage_and_their_size_is_said(
    autojump_clock: object,
) -> None:
    async with stage() as on:
        on.shape = attrs.evolve(SHAPE, segment_bytes=1 << 20)
        await started(on, 100)
        on.master.append(500)
        status = await final(on)
        assert status.final in (Lost.BAD_RECORD, Lost.DAMAGED)
        assert "damage" not in final_text(status)
        assert final_text(status).endswith(f"begin another copy with --segment-bytes {FILE}")
        assert status.good < FILE
        assert on.master.acknowledged < FILE


async def test_damage_of_the_copy_is_named(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on, 500)
        disk = on.world.node("copy").disk
        disk.flip_bits(f"{ROOT}/commitlog/{0:020}", 1000, 100)
        status = await final(on)
        assert status.final is Lost.DAMAGED
        assert "dama" in status.error, status.error


async def test_a_limit_of_bytes_per_second_holds(autojump_clock: object) -> None:
    async with stage(rules=CopyRules(bytes_per_s=FILE)) as on:
        await on.start_master()
        await on.start_copy()
        await trio.sleep(10)
        before_s = trio.current_time()
        on.master.append(3000)
        await on.until_all()
        took_s = trio.current_time() - before_s
        assert took_s >= on.master.end / FILE - 2.0  # a second's worth may come at once
        assert len([each for each in on.master.connections if not each.closed]) == 1
        on.assert_equal()


async def test_a_master_that_does_not_answer_is_asked_again(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on)
        await on.world.stop_node("copy")
        on.world.pause_node("broker")
        await on.start_copy()
        status = await on.until(lambda status: "did not say what its log is" in status.error)
        assert status.final is None
        on.world.resume_node("broker")
        on.master.append(10)
        await on.until_all()
        on.assert_equal()


async def test_the_comparison_reports_nothing_that_is_not_on_the_disk(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_judge, "COMPARE_BYTES", 4096)
    async with stage() as on:
        await started(on)
        synced = on.master.end
        on.world.node("copy").disk.faults.slow_syncs(30.0, 5.0)
        on.master.append(60)
        await on.until(lambda status: status.end == on.master.end)
        await restarted_master(on)
        await on.until(lambda status: len(on.master.connections) > 2)
        await trio.sleep(1.0)
        assert (await on.status()).synced == synced < on.master.end - 4096
        assert [each.ack for each in on.master.connections[1:]] == [-1, synced]
        await on.until_all()
        on.assert_equal()


# ---- its folder ----


async def refused(on: Stage, shape: Shape = SHAPE, limit_bytes: int | None = None) -> str:
    disk = on.world.node("copy").disk
    before = disk.listdir(ROOT)
    with pytest.raises(ConfigError) as raised:
        take_folder(disk, ROOT, Address(ADDRESS, PORT), shape, limit_bytes)
    assert disk.listdir(ROOT) == before
    return str(raised.value)


async def test_a_folder_with_something_else_is_refused(autojump_clock: object) -> None:
    async with stage() as on:
        disk = on.world.node("copy").disk
        disk.mkdir(f"{ROOT}/photos")
        assert "expected an empty folder, a copy, or a broker's store" in await refused(on)
        assert "found photos" in await refused(on)


async def test_two_at_once_on_one_folder_are_refused(autojump_clock: object) -> None:
    async with stage() as on:
        disk = on.world.node("copy").disk
        taken = take_folder(disk, ROOT, Address(ADDRESS, PORT), SHAPE)
        assert f"{ROOT}: is in use by" in await refused(on)
        taken.close()
        take_folder(disk, ROOT, Address(ADDRESS, PORT), SHAPE).close()


async def test_a_copy_keeps_the_sizes_that_it_began_with(autojump_clock: object) -> None:
    async with stage() as on:
        await started(on)
        await on.world.stop_node("copy")
        found = await refused(on, Shape(segment_bytes=1 << 20))
        assert found.startswith(f"--segment-bytes: expected {FILE}, with which the copy in")
        found = await refused(on, Shape(), FILE - 1)
        assert found.startswith(f"--segment-bytes: expected at most {FILE - 1}, the largest file ")
        found = await refused(on, Shape(index_slots_count=7))
        assert found.startswith("--index-slots: expected 100, ")
        on.shape = Shape()  # as before
        await on.start_copy()
        on.master.append(500)
        await on.until_all()
        on.assert_equal()


async def test_a_copied_stores_queues_and_index_keep_their_sizes(autojump_clock: object) -> None:
    """They would be built anew in a stock broker's sizes; that of the index says less than two."""
    async with stage() as on:
        on.master.append(50)
        disk = on.world.node("copy").disk
        put = {
            f"commitlog/{name}": data for name, data in files_of(bytes(on.master.log), 0).items()
        }
        put["consumequeue/T/0/00000000000000000000"] = bytes(2000)
        for name, data in put.items():
            disk.mkdir(f"{ROOT}/{name}".rpartition("/")[0])
            disk.open(f"{ROOT}/{name}", "x").pwrite(data, 0)
        at = Address(ADDRESS, PORT)
        with closing(take_folder(disk, ROOT, at, Shape())) as taken:
            assert taken.group.consume_queue_bytes == 2000
            assert taken.group.index_slots_count == 5_000_000
        disk.unlink(f"{ROOT}/follow/identity.json")
        found = await refused(on, Shape(consume_queue_bytes=6_000_000))
        assert found.startswith("--consume-queue-bytes: expected 2000, that of the files in ")

        index = f"{ROOT}/index/20260101000000000"
        disk.mkdir(f"{ROOT}/index")
        disk.open(index, "x").pwrite(bytes(40 + 4 * 100 + 20 * 400), 0)
        found = await refused(on, Shape())
        assert found.startswith("--index-slots: expected the broker's maxHashSlotNum, as the files")
        found = await refused(on, Shape(index_slots_count=101))
        assert found.startswith("--index-slots: expected the broker's maxHashSlotNum, as the files")
        with closing(take_folder(disk, ROOT, at, Shape(index_slots_count=100))) as taken:
            assert taken.group.index_units_count == 400


@pytest.mark.parametrize("value", ["no JSON", '"text"', "[]", "null"])
async def test_what_a_copy_cannot_have_begun_with_is_left_out_or_named(
    autojump_clock: object, value: str
) -> None:
    """Somebody has changed the copy's own file."""
    async with stage() as on:
        await started(on)
        await on.world.stop_node("copy")
        disk = on.world.node("copy").disk
        path = f"{ROOT}/follow/identity.json"
        found = json.loads(read_bytes(disk, path, 1 << 20))
        found["settings"] |= {"max_message_bytes": value, "store_version": value}
        with closing(disk.open(path, "w")) as file:
            file.resize(0)
            file.pwrite(json.dumps(found).encode(), 0)
        if value in ("no JSON", "null"):
            on.shape = Shape()
            await on.start_copy()
            on.master.append(5)
            await on.until_all()
        else:
            line = await refused(on, Shape())
            assert line.startswith(f"{path}: what the copy began with cannot be: expected ")


async def test_a_nodes_store_is_refused(autojump_clock: object) -> None:
    async with stage() as on:
        disk = on.world.node("copy").disk
        disk.mkdir("/node/groups/orders/commitlog")
        disk.open("/node/identity.json", "x").pwrite(
            b'{"format_version": 1, "cluster": "c", "node": "n0", "groups": ["orders"],'
            b' "boot": 1, "settings": {}}',
            0,
        )
        with pytest.raises(ConfigError, match="found what belongs to /node"):
            take_folder(disk, "/node/groups/orders", Address(ADDRESS, PORT), SHAPE)
