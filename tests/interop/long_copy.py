"""`triolog follow` of a broker with 200 topics under load, killed twenty times, its disk filled
once; and a stock consumer group that had read half goes on at the copy. `make long` runs it.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from interop_checks import sizes
from interop_logs import common_difference
from interop_nodes import ROOT
from interop_processes import PEER_S, Process, Processes, wait_for
from interop_rocketmq import Broker, Driver, NameServer
from interop_versions import BENCHED, Peer, beside
from long_pairings import LONG_S
from mount_space import OWN_SPACE, need_mounts
from test_interop_follow import Copy, start

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(LONG_S, func_only=True)]

TOPICS: Final = 200
KILLS: Final = 20
PER_LIFE: Final = 400
"""Messages that are sent while a copy runs that will be killed: two to each topic."""
BODY_BYTES_MAX: Final = 4_000
FILLED = """
mount -t tmpfs none "$1" || exit 99
cp -r "$2" "$1/copy" || exit 99
mount -o "remount,size=$(($(du -s --block-size=1 "$1" | cut -f1) + 8000000))" "$1" || exit 99
head -c 7000000 /dev/zero > "$1/ballast"
exec 3<&0
(read line <&3; rm "$1/ballast") &
disk=$1 folder=$2
shift 2
"$@" || exit
rm -r "$folder" && cp -r "$disk/copy" "$folder"
"""
"""DISK FOLDER COMMAND...: have a copy on a disk of its own, which has little room until a line
comes on stdin; once the command has ended, it is back in its folder.
"""


def offsets(folder: Path, group: str) -> dict[str, dict[str, int]]:
    """Of the group, by topic and queue, as the copy's file has them."""
    try:
        table = json.loads((folder / "config" / "consumerOffset.json").read_text())["offsetTable"]
    except (OSError, ValueError):
        return {}
    return {key.partition("@")[0]: row for key, row in table.items() if key.endswith(f"@{group}")}


def copied_counts(folder: Path, group: str) -> int:
    """How many messages the group has read, as the copy has it: every queue begins at 0."""
    return sum(sum(row.values()) for row in offsets(folder, group).values())


class Load:
    """A stock producer, whose messages go to all topics in turn."""

    def __init__(self, driver: Driver, topics: list[str]) -> None:
        self.driver, self.topics, self.sent = driver, topics, 0

    def begin(self, count: int) -> None:
        """Its answers have to be read."""
        self.driver.begin("send", self.topics, self.sent, sizes(count, BODY_BYTES_MAX))
        self.sent += count


def lives(copy: Copy, load: Load, running: Process, count: int, rng: random.Random) -> Process:
    """Kill the copy so often, at any moment of the load. Returns: the one that runs afterwards."""
    for _ in range(count):
        load.begin(PER_LIFE)
        answers = load.driver.answers()
        for _ in range(rng.randrange(PER_LIFE)):
            next(answers)
        running.kill()
        running = copy.start()
        for _ in answers:
            pass
        copy.wait_for_report(running, 1)  # it follows again
    return running


def fill_its_disk(copy: Copy, load: Load, disk: Path, processes: Processes) -> None:
    """A life on a disk that has no room for what is sent, until some is made."""
    disk.mkdir()
    command = [*OWN_SPACE, "sh", "-c", FILLED, "sh", disk, copy.folder]
    command += copy.command("--once", "--json", into=disk / "copy")
    pipe, folder = subprocess.PIPE, disk.with_name("follow")
    process = processes.start("follow", command, folder, cwd=ROOT, stdin=pipe, stdout=pipe)
    copy.wait_for_report(process, 1)
    for _ in range(3):
        load.begin(1000)
        list(load.driver.answers())
    assert process.popen.stdout is not None
    assert process.popen.stdin is not None
    said = next(line for line in process.popen.stdout if b'"waits for room"' in line)
    assert b"no room" in said
    process.popen.stdin.write(b"go on\n")
    process.popen.stdin.flush()
    *_, last = process.popen.stdout
    assert process.popen.wait(PEER_S) == 0, last


def wait_until_copied(copy: Copy, running: Process, group: str, count: int) -> None:
    began_s = time.monotonic()
    wait_for(
        lambda: copied_counts(copy.folder, group) == count,
        f"offsets of {count} messages in the copy",
        timeout_s=PEER_S,
        alive=[running],
    )
    print(f"offsets of {group} copied {time.monotonic() - began_s:.1f} s after they were told")


def pushed(driver: Driver, group: str, topics: list[str], count: int) -> list[dict[str, Any]]:
    return driver.run("push", group, count, 120, topics)


def numbers_of(messages: list[dict[str, Any]]) -> Counter[int]:
    return Counter(int(each["properties"]["number"]) for each in messages)


@beside("rocketmq", BENCHED.version)
def test_twenty_kills_a_full_disk_and_a_group_that_goes_on(
    peer: Peer, name_server: NameServer, driver: Driver, tmp_path: Path, processes: Processes
) -> None:
    need_mounts()
    rng = random.Random(1)
    settings: dict[str, object] = {"defaultTopicQueueNums": 1}
    port = name_server.port
    master = Broker.of(peer, tmp_path.name, tmp_path / "master", port, processes, **settings)
    copy = Copy(master, tmp_path / "copy", processes)
    load = Load(driver, [f"{master.name}-{number}" for number in range(TOPICS)])
    group = f"{master.name}-half"
    start(master, name_server)
    # Connected before there is anything: later it would be sent the last file only.
    copy.wait_for_report(running := copy.start(), 0)

    running = lives(copy, load, running, KILLS // 2, rng)
    half = load.sent
    assert numbers_of(pushed(driver, group, load.topics, half)) == Counter(range(half))
    wait_until_copied(copy, running, group, half)
    assert running.stop() == 0
    fill_its_disk(copy, load, tmp_path / "disk", processes)
    running = lives(copy, load, copy.start(), KILLS - KILLS // 2, rng)
    copy.wait_for_report(running, master.end_bytes())
    assert running.stop() == 0
    once = copy.start("--once")
    assert once.popen.wait(PEER_S) == 0
    assert master.process is not None
    master.process.stop()
    assert common_difference(master.commitlog, copy.commitlog) is None
    check = [sys.executable, "-m", "actors.storage", "check", str(copy.folder)]
    assert subprocess.run(check, cwd=ROOT, capture_output=True).returncode == 0
    theirs = json.loads((copy.folder / "config" / "topics.json").read_text())["topicConfigTable"]
    assert set(load.topics) <= set(theirs)

    settings |= {"storePathRootDir": copy.folder, "storePathCommitLog": copy.commitlog}
    heir = Broker.of(peer, master.name, tmp_path / "heir", port, processes, **settings)
    start(heir, name_server)
    rest = numbers_of(pushed(driver, group, load.topics, load.sent - half))
    assert rest == Counter(range(half, load.sent)), "it goes on where it was, and misses nothing"
    anew = numbers_of(pushed(driver, f"{group}-anew", load.topics, load.sent))
    assert anew == Counter(range(load.sent))
