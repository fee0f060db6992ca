"""`triolog follow` as a process: killed again and again, its disk filled, and several at once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from free_ports import free_port
from mount_space import OWN_SPACE, need_mounts
from stock_master import FILE, StockMaster, files_of

from actors.env.real import real_env

pytestmark = [pytest.mark.real_io, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0
SHAPE = (
    *("--segment-bytes", str(FILE), "--consume-queue-bytes", "2000"),
    *("--index-slots", "100", "--index-units", "400"),
)


@asynccontextmanager
async def master_runs() -> AsyncIterator[StockMaster]:
    """A stock master on this machine."""
    master = StockMaster(host="127.0.0.1", port=free_port())
    async with trio.open_nursery() as nursery:
        await nursery.start(master.main, real_env())
        yield master
        nursery.cancel_scope.cancel()


def command(master: StockMaster, folder: Path, *more: str) -> list[str]:
    address = f"{master.host}:{master.port}"
    words = ["-m", "actors.follow", address, "--into", str(folder), "--json", *SHAPE, *more]
    return [sys.executable, *words]


async def start(words: list[str]) -> trio.Process:
    return await trio.lowlevel.open_process(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


async def said_until(process: trio.Process, state: str) -> list[dict[str, Any]]:
    """Read what it prints, until it is in that state or ends."""
    assert process.stdout is not None
    data = b""
    while f'"state": "{state}"'.encode() not in data:
        came = await process.stdout.receive_some()
        if not came:
            break
        data += came
    return [json.loads(line) for line in data.split(b"\n") if line.endswith(b"}")]


async def ends(words: list[str]) -> tuple[int, str, list[dict[str, Any]]]:
    """Run a command to its end. Returns: its exit code, its errors, and what it printed."""
    with trio.fail_after(WITHIN_S):
        done = await trio.run_process(
            words, cwd=ROOT, capture_stdout=True, capture_stderr=True, check=False
        )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, done.stderr.decode(), said


async def until_reported(master: StockMaster, count: int) -> None:
    """A connection of which the master has had so few before has said where it goes on."""
    with trio.fail_after(WITHIN_S):
        while len(master.connections) <= count:  # noqa: ASYNC110 - it is another process's
            await trio.sleep(0.02)
        await master.connections[count].began.wait()


async def until_acknowledged(master: StockMaster) -> None:
    with trio.fail_after(WITHIN_S):
        while master.acknowledged <= 0:  # noqa: ASYNC110 - it is another process's
            await trio.sleep(0.02)


def assert_equal(master: StockMaster, folder: Path) -> None:
    """All files of the copy that hold something are the master's, byte by byte."""
    found = {file.name: file.read_bytes() for file in (folder / "commitlog").iterdir()}
    theirs = files_of(bytes(master.log), 0)
    assert {name: data for name, data in found.items() if any(data)} == theirs


async def test_killed_twenty_times_under_load_it_is_equal(tmp_path: Path) -> None:
    rng, folder = random.Random(1), tmp_path / "copy"
    async with master_runs() as master:

        async def load() -> None:
            while True:
                master.append(rng.randrange(30), rng.randrange(8, 3000))
                await trio.sleep(0.02)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                count = len(master.connections)
                process = await start(command(master, folder))
                await until_reported(master, count)
                if not number:  # it has to have something before it is sent the last file only
                    nursery.start_soon(load)
                    await until_acknowledged(master)
                await trio.sleep(rng.random() * 0.4)
                process.kill()
                await process.wait()
            code, errors, said = await ends(command(master, folder, "--once"))
            assert code == 0, errors
            assert (said[-1]["state"], said[-1]["begin"]) == ("follows", 0)
            assert said[-1]["end"] > 5 * FILE
            nursery.cancel_scope.cancel()
        code, errors, said = await ends(command(master, folder, "--once"))
        assert code == 0, errors
        assert said[-1]["end"] == said[-1]["dispatched"] == master.end
    assert_equal(master, folder)
    words = [sys.executable, "-m", "actors.storage", "check", str(folder)]
    checked = await trio.run_process(words, cwd=ROOT, check=False)
    assert checked.returncode == 0


FILLED = """
mount -t tmpfs -o size=6m none "$1" || exit 99
head -c 4500000 /dev/zero > "$1/ballast"
exec 3<&0
(read line <&3; rm "$1/ballast") &
folder=$1 kept=$2
shift 2
"$@"
code=$?
cp -r "$folder/copy" "$kept"
exit $code
"""
"""FOLDER KEPT COMMAND...: run a command beside a file that leaves its disk no room, until a line
comes on stdin; then keep the copy.
"""


async def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    need_mounts()
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    async with master_runs() as master:
        words = command(master, disk / "copy", "--once")
        script = [*OWN_SPACE, "sh", "-c", FILLED, "sh", str(disk), str(kept), *words]
        process = await start(script)
        await until_reported(master, 0)
        master.append(600, 4000)
        with trio.fail_after(WITHIN_S):
            said = await said_until(process, "waits for room")
            assert "no room" in said[-1]["no_room"]
            assert process.stdin is not None
            await process.stdin.send_all(b"go on\n")
            await said_until(process, "")
            assert await process.wait() == 0
    assert_equal(master, kept)


async def test_two_masters_at_once_and_one_that_is_not_there(tmp_path: Path) -> None:
    async with master_runs() as one, master_runs() as other:
        one.append(100)
        other.append(150)
        words = command(one, tmp_path / "one", f"{other.host}:{other.port}")
        words += ["--into", str(tmp_path / "other"), "--once"]
        code, errors, said = await ends(words)
        assert code == 0, errors
        for master, name in ((one, "one"), (other, "other")):
            assert_equal(master, tmp_path / name)
            assert {line["state"] for line in said if line["folder"].endswith(name)} >= {"follows"}
        words = command(one, tmp_path / "one", f"127.0.0.1:{free_port()}")
        words += ["--into", str(tmp_path / "none"), "--once", "--wait", "1"]
        code, errors, _ = await ends(words)
        assert code == 1
        assert "Connection refused" in errors


async def test_two_processes_on_one_folder_are_refused_with_the_holders_pid(tmp_path: Path) -> None:
    async with master_runs() as master:
        process = await start(command(master, tmp_path / "copy"))
        await until_reported(master, 0)
        code, errors, _ = await ends(command(master, tmp_path / "copy"))
        assert code == 2
        assert f"is in use by process {process.pid}" in errors
        process.terminate()  # an ordered stop
        with trio.fail_after(WITHIN_S):
            assert await process.wait() == 0
        assert not (tmp_path / "copy" / "abort").exists()
        assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700


async def test_a_master_that_lost_its_log_ends_it_with_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    async with master_runs() as master:
        master.append(100)
        code, errors, _ = await ends(command(master, folder, "--once"))
        assert code == 0, errors
        assert "whose reports can satisfy a SYNC_MASTER" in errors
        before = (folder / "commitlog" / f"{0:020}").read_bytes()
        del master.log[20_000:]
        code, errors, said = await ends(command(master, folder))
        assert code == 1
        assert "the master has lost the rest; nothing was overwritten: `" in errors
        assert said[-1]["final"] == "FOREIGN_LOG"
        assert (folder / "commitlog" / f"{0:020}").read_bytes() == before


async def test_what_rots_here_is_cut_and_copied_again(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    async with master_runs() as master:
        process = await start(command(master, folder, "--once"))
        await until_reported(master, 0)
        master.append(200, 1000)
        with trio.fail_after(WITHIN_S):
            assert await process.wait() == 0
        file = folder / "commitlog" / f"{FILE:020}"
        data = bytearray(file.read_bytes())
        data[30_000] ^= 1
        file.write_bytes(data)
        code, errors, _ = await ends(command(master, folder))
        assert code == 1
        assert "storage check DIR` says whether this copy is damaged" in errors
        check = [sys.executable, "-m", "actors.storage", "check", str(folder), "--json"]
        checked = await trio.run_process(check, cwd=ROOT, check=False, capture_stdout=True)
        assert checked.returncode == 1
        (found,) = json.loads(checked.stdout)["groups"]
        where = found["end_bytes"]
        assert FILE < where <= FILE + 30_000
        cut = [sys.executable, "-m", "actors.storage", "truncate", str(folder), str(where)]
        await trio.run_process([*cut, "--force", "--yes"], cwd=ROOT, capture_stdout=True)
        code, errors, said = await ends(command(master, folder, "--once"))
        assert code == 0, errors
        assert (said[-1]["lag"], said[-1]["end"]) == (0, master.end)
    assert_equal(master, folder)


async def test_a_master_with_smaller_files_is_not_told_as_damage(tmp_path: Path) -> None:
    """Neither by the command that was sent its bytes, nor by the next one."""
    folder = tmp_path / "copy"
    async with master_runs() as master:
        words = command(master, folder)
        words[words.index("--segment-bytes") + 1] = str(4 * FILE)
        process = await start(words)
        await until_reported(master, 0)
        master.append(200, 1000)
        with trio.fail_after(WITHIN_S):
            assert await process.wait() == 1
        assert process.stderr is not None
        errors = (await process.stderr.receive_some()).decode()
        assert f"begin another copy with --segment-bytes {FILE}\n" in errors
        code, errors, _ = await ends(words)
        assert code == 1
        assert errors.endswith(f"begin another copy with --segment-bytes {FILE}\n")
        code, errors, _ = await ends(command(master, tmp_path / "again", "--once"))
        assert code == 0, errors


async def test_a_master_with_larger_files_may_be_one(tmp_path: Path) -> None:
    """Its records reach over the ends of files here, as damaged ones would."""
    async with master_runs() as master:
        words = command(master, tmp_path / "copy")
        words[words.index("--segment-bytes") + 1] = str(FILE // 4)
        process = await start(words)
        await until_reported(master, 0)
        master.append(200, 1000)
        with trio.fail_after(WITHIN_S):
            assert await process.wait() == 1
        assert process.stderr is not None
        errors = (await process.stderr.receive_some()).decode()
        assert "a record" in errors
        assert "larger than this copy's: then set the folder aside" in errors
        assert "OPERATING" not in errors
