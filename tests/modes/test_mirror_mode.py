"""A further mode needs its own folder, and no other file: for its cluster file, its guarantees, its
nodes, its replication, its status and its simulation.
"""

from __future__ import annotations

import pytest
import trio
from mirror_sim import GROUP, MirroredBeforeAnswered, MirrorPlan, answers_alone, mirror_config

from actors import modes
from actors.api.failures import RequestRefused
from actors.config import loads
from actors.config.check import memory, ports, render
from actors.config.kinds import guarantee_of, table
from actors.errors import ConfigError, NotMaster, OutcomeUnknown
from actors.sim.cluster import SimCluster
from actors.sim.running import run_plan, run_seed
from actors.sim.world import open_world

FILE = """
name = "demo"
data_dir = "d"
nodes = { n0 = "127.0.0.1", n1 = "127.0.0.2" }
[groups.pair]
mode = "mirror"
members = ["n0", "n1"]
port = 30001
"""
SEEDS = range(3)


def test_what_is_known_of_a_mode() -> None:
    assert list(modes.kinds()) == ["classic", "dledger", "autoswitch", "mirror"]
    with pytest.raises(ValueError, match="there is a mode 'mirror' already"):
        modes.register("mirror", modes.kinds()["mirror"])


def test_a_cluster_file() -> None:
    config = loads(FILE, "x.toml")
    group = config.groups["pair"]
    assert (group.mode, group.sure_copies, group.members) == ("mirror", 2, ("n0", "n1"))
    assert [(use.node, use.port) for use in ports(config)] == [("n0", 30_001)]
    assert {bound.node for bound in memory(config)} == {"n0", "n1"}
    assert guarantee_of(group).returns_when == "both nodes have it, each on its disk"
    assert table()[-1].mode == "mirror"
    page = render(config, {})
    assert "writer of pair" in page
    assert "sends copies what they lack" in page


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('members = ["n0"]', "key groups.pair.members: expected two members, found 1"),
        ('members = ["n0", "n7"]', 'expected one of the nodes n0, n1, found "n7"'),
        ('members = ["n0", "n1"]\ncopies = 2', "a key of mirror groups, found one of classic"),
    ],
)
def test_a_wrong_cluster_file(line: str, expected: str) -> None:
    text = FILE.replace('members = ["n0", "n1"]', line)
    with pytest.raises(ConfigError) as caught:
        loads(text, "x.toml")
    assert expected in str(caught.value)


async def test_two_nodes_replicate(autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster = SimCluster(world, mirror_config())
        await cluster.start()
        receipt = await cluster.log(GROUP, "n0").append([b"line 1", b"line 2"])
        assert (receipt.first, receipt.last, receipt.next, receipt.copies) == (0, 7, 14, 2)
        await cluster.log(GROUP, "n0").append([b"line 3"])
        await trio.sleep(3)
        batch = await cluster.log(GROUP, "n1").read(7)
        assert [each.body for each in batch.records] == [b"line 2", b"line 3"]
        with pytest.raises(NotMaster) as caught:
            await cluster.log(GROUP, "n1").append([b"line 4"])
        assert caught.value.hint == "n0"
        with pytest.raises(RequestRefused, match="pair is a mirror group: its first member takes"):
            await cluster.node("n0").promote(GROUP, None, force=False)
        await cluster.kill("n1")
        with pytest.raises(OutcomeUnknown):
            await cluster.log(GROUP, "n0").append([b"line 5"])
        await cluster.start("n1")
        receipt = await cluster.log(GROUP, "n0").append([b"line 6"])
        assert (await cluster.offsets("n1", GROUP)).written == receipt.next
        await cluster.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulated_world(seed: int) -> None:
    outcome = run_seed(str(seed), mode="mirror")
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 10


def test_the_checker_catches_a_mutation(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_alone(monkeypatch)
    outcome = run_plan(MirrorPlan.draw("0"))
    checkers = {violation.checker for violation in outcome.violations}
    assert MirroredBeforeAnswered.__name__ in checkers
