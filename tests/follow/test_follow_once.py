"""`--once` in a simulated world: it ends with all that was asked for, or says that it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from follow_kit import ROOT, Stage, stage
from stock_master import ADDRESS, FILE, PORT
from test_follow_copy import started
from test_follow_metadata import broker_of, log_of

from actors.env import Env
from actors.env.protocols import Address
from actors.follow.arguments import parse
from actors.follow.command_line import EXIT_FAILED, EXIT_OK, Run, Screen
from actors.metadata.config_folder import ConfigFolder
from wire.files.record_encoder import encode_blank

sys.path.append(str(Path(__file__).parents[1] / "metadata"))
from metadata_kit import BROKER_PORT, NODES

SIZES = f"--segment-bytes {FILE} --consume-queue-bytes 2000 --index-slots 100 --index-units 400"


async def once(on: Stage, *words: str, within_s: float) -> Run:
    """The command's copy, on the machine of the stage's copy, once it has ended."""
    metadata = Address(NODES["n0"], BROKER_PORT) if "--metadata" in words else None
    line = f"{ADDRESS}:{PORT} --into {ROOT} {SIZES} --once"
    follow = parse([*line.split(), *words])

    async def main(env: Env, task_status: trio.TaskStatus[Run]) -> None:
        run = Run(follow, Address(ADDRESS, PORT), ROOT, metadata, env, Screen(follow))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.run)
            task_status.started(run)
        ended.set()

    ended = trio.Event()
    run = await on.world.start_node("copy", main)
    with trio.fail_after(within_s):
        await ended.wait()
    assert isinstance(run, Run)
    return run


async def test_a_master_that_takes_connections_and_says_nothing_is_away(
    autojump_clock: object, capfd: pytest.CaptureFixture[str]
) -> None:
    async with stage() as on:
        await started(on)
        await on.world.stop_node("copy")
        on.master.append(10)
        on.world.pause_node("broker")
        assert (await once(on, "--wait", "40", within_s=60.0)).code == EXIT_FAILED
        assert "did not say what its log is" in capfd.readouterr().err
        on.world.resume_node("broker")
        assert (await once(on, "--wait", "40", within_s=60.0)).code == EXIT_OK
        on.assert_equal()


async def refusing(env: Env, task_status: trio.TaskStatus[None]) -> None:
    """A master of ours whose cluster file names no slave at the copy's address."""
    listener = await env.network.listen(ADDRESS, PORT)
    task_status.started()
    while True:
        (await listener.accept()).abort()


@pytest.mark.parametrize("is_empty", [True, False])
async def test_a_master_that_refuses_each_connection_is_away_and_says_why(
    autojump_clock: object, capfd: pytest.CaptureFixture[str], is_empty: bool
) -> None:
    async with stage() as on:
        if not is_empty:
            await started(on)
            await on.world.stop_node("copy")
            await on.world.stop_node("broker")
        await on.world.start_node("broker", refusing)
        capfd.readouterr()
        assert (await once(on, "--wait", "12", within_s=14.0)).code == EXIT_FAILED
        said = capfd.readouterr().err
        assert "if it is one of ours, its cluster file may name no slave at " in said


async def test_the_code_of_a_copy_that_has_ended_stays(autojump_clock: object) -> None:
    """Others of the same command may still run when the second signal comes."""
    async with stage() as on:
        await on.start_master()
        on.master.append(50)
        run = await once(on, within_s=60.0)
        for _ in range(2):
            run.end()
        assert run.code == EXIT_OK


async def test_it_ends_once_the_metadata_is_in_its_files(
    autojump_clock: object, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--metadata", f"{NODES['n0']}:{BROKER_PORT}", "--wait", "40")
    async with stage() as on:
        on.world.add_node("n0", NODES["n0"])
        await broker_of(on.master).start(on.world)
        await on.start_master()
        on.master.append(50)
        disk = on.world.node("copy").disk
        await disk_full_of_names(on)
        assert (await once(on, *words, within_s=90.0)).code == EXIT_FAILED
        assert "topics.json: no room" in capfd.readouterr().err
        await trio.sleep(200.0)
        disk.faults.slow_syncs(3.0, 60.0)
        assert (await once(on, *words, within_s=90.0)).code == EXIT_OK
        found = ConfigFolder(disk, f"{ROOT}/config", "copy").read()
        assert set(found.topics.topic_config_table) == {"a", "b"}
        assert found.consumer_offsets.offset_table


@pytest.mark.parametrize("with_metadata", [False, True])
async def test_an_idle_master_whose_log_ends_with_a_file_has_nothing_for_an_empty_copy(
    autojump_clock: object, capfd: pytest.CaptureFixture[str], with_metadata: bool
) -> None:
    """It sends what its last file has, which is nothing, and says where its log ends."""
    words = ("--metadata", f"{NODES['n0']}:{BROKER_PORT}") if with_metadata else ()
    async with stage() as on:
        on.world.add_node("n0", NODES["n0"])
        await broker_of(on.master).start(on.world)
        await on.start_master()
        on.master.append(300)
        rest = FILE - on.master.end % FILE
        on.master.log += encode_blank(rest).ljust(rest, b"\0")
        assert on.master.end % FILE == 0
        assert (await once(on, *words, within_s=60.0)).code == EXIT_OK
        shown = capfd.readouterr().err
        assert f"this copy has nothing: the master's log ends at offset {on.master.end}" in shown
        assert on.held() == (0, b"")
        on.master.append(20)
        assert (await once(on, *words, within_s=60.0)).code == EXIT_OK
        assert "this copy has nothing" not in capfd.readouterr().err
        begin, _ = on.held()
        assert begin % FILE == 0 < begin
        on.assert_equal()
        rest = FILE - on.master.end % FILE
        on.master.log += encode_blank(rest).ljust(rest, b"\0")
        assert (await once(on, *words, within_s=60.0)).code == EXIT_OK
        on.assert_equal()


async def test_another_broker_at_the_metadata_port_ends_it(
    autojump_clock: object, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--metadata", f"{NODES['n0']}:{BROKER_PORT}", "--wait", "40")
    async with stage() as on:
        on.world.add_node("n0", NODES["n0"])
        await broker_of(log_of(10)).start(on.world)
        await on.start_master()
        on.master.append(50)
        assert (await once(on, *words, within_s=60.0)).code == EXIT_FAILED
        line = capfd.readouterr().err.splitlines()[-1]
        expected = f"{ROOT}: --metadata: expected the broker of {ADDRESS}:{PORT}, which has sent"
        assert line.startswith(f"triolog: {expected}")
        assert line.endswith("name that one's listenPort, or begin another copy")


async def disk_full_of_names(on: Stage) -> None:
    """There is a copy, whose disk takes no further file for a while."""
    assert (await once(on, within_s=60.0)).code == EXIT_OK
    on.world.node("copy").disk.faults.use_up_inodes(200.0)
