"""`examples/dledger5.toml` as five processes: any two may be killed, three may not."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
from cluster_kit import ROOT, Cluster, bodies_of, statuses, wait_for
from free_ports import free_port

from actors.cluster.links import connect_own
from actors.config import load
from actors.errors import TriologError

pytestmark = pytest.mark.real_io

EXAMPLE = ROOT / "examples" / "dledger5.toml"
NODES = ("n0", "n1", "n2", "n3", "n4")
OWN = {
    'data_dir = "../var/five"': 'data_dir = "var"',
    "heartbeat_interval_s = 2.0": "heartbeat_interval_s = 0.5",
}
LINES = 500
PAUSE_S = 0.2


@attrs.define
class Members:
    """Each a process, in the cluster file of the example without its feed."""

    cluster: Cluster
    running: dict[str, subprocess.Popen[str]] = attrs.field(factory=dict)

    def start(self, *names: str) -> None:
        for name in names:
            with (self.cluster.folder / f"{name}.out").open("a") as out:
                command = [sys.executable, "-m", "actors.cluster", self.cluster.file]
                command += ["--node", name, "--plain"]
                self.running[name] = subprocess.Popen(
                    command, cwd=ROOT, text=True, stdout=out, stderr=out
                )

    def kill(self, *names: str) -> None:
        """All before the first has ended."""
        gone = [self.running.pop(name) for name in names]
        for process in gone:
            process.kill()
        for process in gone:
            process.wait()

    def leader(self) -> str | None:
        for name, found in statuses(self.cluster).items():
            if found is not None and found["status"]["groups"]["ledger"]["is_open"]:
                return str(name)
        return None

    def append(self, lines: list[bytes]) -> bool:
        """All in one batch. Whether they are acknowledged; what is not may be stored."""
        leader = self.leader()
        done = leader is not None and trio.run(self._append, leader, lines)
        if not done:
            time.sleep(PAUSE_S)
        return done

    async def _append(self, leader: str, lines: list[bytes]) -> bool:
        try:
            async with connect_own(load(self.cluster.file), leader) as client:
                await client.log("ledger").append(lines)
        except (TriologError, OSError):
            return False
        return True


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    port = free_port()
    text, _, _ = EXAMPLE.read_text().partition("[demo.feed]")
    for old, new in {**OWN, "port = 20921 ": f"port = {port} "}.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    cluster = Cluster(tmp_path, port, text)
    cluster.write()
    found = Members(cluster)
    yield found
    found.kill(*found.running)


def numbered(word: bytes) -> list[bytes]:
    return [b"%s %d" % (word, number) for number in range(LINES)]


def test_two_of_five_are_killed_and_the_rest_go_on(members: Members) -> None:
    before, without_two, without_three, after = map(numbered, (b"a", b"b", b"c", b"d"))
    members.start(*NODES)
    wait_for(lambda: members.append(before))

    first = wait_for(members.leader)
    second, third, *_ = (name for name in NODES if name != first)
    members.kill(first, second)
    wait_for(lambda: members.append(without_two))

    members.kill(third)  # two are left, and three would have to have it
    assert not members.append(without_three)

    members.start(first, second, third)
    wait_for(lambda: members.append(after))
    wait_for(lambda: len({tuple(bodies_of(members.cluster, name)) for name in NODES}) == 1)
    # What was not acknowledged at once was appended again.
    log = dict.fromkeys(bodies_of(members.cluster, NODES[0]))
    assert [line for line in log if line not in without_three] == before + without_two + after
