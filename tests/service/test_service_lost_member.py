"""What is lost of a node's directory, and what a start makes of the rest."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
import trio
from test_service_ledger import bodies

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.env.protocols import Disk
from actors.errors import CorruptLog, NotMaster
from actors.group_status import group_statuses
from actors.sim.cluster import SimCluster, classic_config

pytest_plugins = ["actors.sim.plugin"]
GROUP = "ledger"
BODIES = [b"%d" % number for number in range(5)]


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest) -> Literal["file", "memory"]:
    found: Literal["file", "memory"] = request.param
    return found


@pytest.fixture
def cluster_config(store: Literal["file", "memory"]) -> ClusterConfig:
    """Three nodes with a group of either kind."""
    classic = classic_config()
    ledger = DLedgerGroup(
        name=GROUP,
        members=("n0", "n1", "n2"),
        store=store,
        data_file_bytes=64 << 10,
        index_file_bytes=64 << 10,
    )
    config = attrs.evolve(classic, groups={**classic.groups, GROUP: ledger})
    validate(config)
    return config


def remove(cluster: SimCluster, name: str, *paths: str) -> None:
    disk, root = cluster.world.node(name).disk, cluster.config.node_dir(name)
    for path in paths:
        (disk.unlink if path.endswith(".json") else disk.rmtree)(f"{root}/{path}")
        disk.sync_dir(f"{root}/{path}".rpartition("/")[0])


async def test_an_emptied_member_elects_nobody_who_lacks_what_it_had(cluster: SimCluster) -> None:
    leader = cluster.master_of(GROUP)
    held, lacks = (name for name in cluster.names if name != leader)
    cluster.cut(lacks)
    await cluster.log(GROUP).append(BODIES)
    await cluster.kill(leader)
    await cluster.kill(held)
    cluster.heal()
    remove(cluster, held, f"groups/{GROUP}")
    for _ in range(2):
        with pytest.raises(CorruptLog, match=r"currterm: there is none, but identity\.json says"):
            await cluster.start(held)
    await trio.sleep(30)
    with pytest.raises(NotMaster):
        await cluster.log(GROUP, lacks).append([b"without it"])


async def parted(cluster: SimCluster) -> tuple[str, str, str]:
    """A leader and another that alone hold what was acknowledged, both killed; who lacks it runs.

    Returns: their names, in this order.
    """
    leader = cluster.master_of(GROUP)
    held, lacks = (name for name in cluster.names if name != leader)
    await cluster.converged(GROUP)
    cluster.cut(lacks)
    await cluster.log(GROUP).append(BODIES)
    await cluster.kill(leader)
    await cluster.kill(held)
    cluster.heal()
    return leader, held, lacks


async def said(cluster: SimCluster, name: str) -> str:
    """Why a node's vote does not count alone."""
    status = await cluster.node(name).status()
    words: str = status["groups"][GROUP]["details"]["joining"]
    return words


@pytest.mark.parametrize("lost", ["disk", "log"])
async def test_one_with_a_new_disk_elects_nobody_who_lacks_what_it_had(
    cluster: SimCluster, store: str, lost: str
) -> None:
    leader, held, lacks = await parted(cluster)
    if lost == "disk":
        remove(cluster, held, "identity.json", "groups", "events")
    elif store == "file":
        remove(cluster, held, f"groups/{GROUP}/data", f"groups/{GROUP}/index")
        remove(cluster, held, f"groups/{GROUP}/sums")
        cluster.world.node(held).disk.unlink(
            f"{cluster.config.node_dir(held)}/groups/{GROUP}/synced"
        )
    new = "is new" if lost == "disk" else "lacks its group's log"
    for _ in range(2):
        await cluster.start(held)
        await trio.sleep(30)
        with pytest.raises(NotMaster):
            await cluster.log(GROUP, lacks).append([b"without it"])
        assert cluster.master_of(GROUP) == leader, "nobody was elected since"
        assert new in await said(cluster, held)
        await cluster.kill(held)
    await cluster.start(leader)
    await cluster.start(held)
    if store == "memory":
        return  # whose leader has lost it all, too
    await cluster.log(GROUP).append([b"all are here"])
    await trio.sleep(1)
    assert await said(cluster, held) == ""
    for name in cluster.names:
        assert await bodies(cluster.log(GROUP, name)) == [*BODIES, b"all are here"]
    await cluster.kill(lacks)
    await trio.sleep(30)
    await cluster.log(GROUP).append([b"its vote counts"])


async def begin_again(cluster: SimCluster, name: str) -> None:
    """The member's state maintainer fails, and lives anew in its process."""
    node = cluster.node(name)
    assert node._system is not None
    await node._system.ref(f"/{name}/{GROUP}/state_maintainer").tell(object())  # takes none such


async def test_who_has_joined_counts_whatever_its_process_began_as(cluster: SimCluster) -> None:
    await cluster.log(GROUP).append(BODIES)
    await cluster.converged(GROUP)
    leader = cluster.master_of(GROUP)
    _, away = (name for name in cluster.names if name != leader)
    await cluster.kill(away)
    await begin_again(cluster, leader)
    await trio.sleep(60)
    assert await said(cluster, leader) == ""
    await cluster.log(GROUP).append([b"a majority holds all"])


async def test_who_has_joined_begins_no_group_whatever_its_process_began_as(
    cluster: SimCluster,
) -> None:
    leader, held, lacks = await parted(cluster)
    remove(cluster, held, "identity.json", "groups", "events")
    await begin_again(cluster, lacks)
    await cluster.start(held)
    await trio.sleep(60)
    assert cluster.master_of(GROUP) == leader, "nobody was elected since"
    with pytest.raises(NotMaster):
        await cluster.log(GROUP, lacks).append([b"without it"])


async def test_a_new_identity_replaces_no_events(cluster: SimCluster) -> None:
    name = next(each for each in cluster.names if each != cluster.master_of(GROUP))
    disk, root = cluster.world.node(name).disk, f"{cluster.config.node_dir(name)}/events"
    for _ in range(2):
        await cluster.stop(name)
        await cluster.start(name)
    await cluster.stop(name)
    before = files(disk, root)
    assert len(before) >= 3
    remove(cluster, name, "identity.json", "groups")
    await cluster.start(name)
    assert cluster.node(name).identity.boot == 4
    await cluster.stop(name)
    after = files(disk, root)
    assert before.items() < after.items()


def files(disk: Disk, path: str) -> dict[str, bytes]:
    """All below a folder, by path."""
    found = {}
    for name in disk.listdir(path):
        each = f"{path}/{name}"
        if disk.stat(each).kind == "folder":
            found |= files(disk, each)
        else:
            file = disk.open(each, "r")
            found[each] = file.pread(0, file.size_bytes)
            file.close()
    return found


@pytest.mark.parametrize("store", ["file"], indirect=True)  # of one in memory nothing is left
async def test_a_majority_that_was_lost_begins_with_what_the_rest_has(cluster: SimCluster) -> None:
    """The README's remedy: all members, on new disks."""
    await cluster.log(GROUP).append(BODIES)
    await cluster.converged(GROUP)
    for name in cluster.names:
        await cluster.kill(name)
    lost, emptied, rest = cluster.names
    for name in (lost, emptied):
        remove(cluster, name, "identity.json", "groups", "events")
    await cluster.start(emptied)
    await cluster.start(rest)
    await trio.sleep(30)
    with pytest.raises(NotMaster):
        await cluster.log(GROUP, rest).append([b"it has lost too much"])
    await cluster.start(lost)
    await trio.sleep(30)
    await cluster.log(GROUP, rest).append([b"on"])
    await trio.sleep(1)
    for name in cluster.names:
        assert await bodies(cluster.log(GROUP, name)) == [*BODIES, b"on"]


async def test_one_that_never_ran_begins_no_group_with_one_on_a_new_disk(
    cluster: SimCluster,
) -> None:
    """Those that hold what was acknowledged are down: nobody else knows that there was any."""
    leader = cluster.master_of(GROUP)
    held, away = (name for name in cluster.names if name != leader)
    await cluster.kill(away)
    remove(cluster, away, "identity.json", "groups", "events")
    await cluster.log(GROUP).append(BODIES)
    await cluster.kill(leader)
    await cluster.kill(held)
    remove(cluster, held, "identity.json", "groups", "events")
    await cluster.start(away)
    await cluster.start(held)
    await trio.sleep(60)
    assert cluster.master_of(GROUP) == leader, "nobody was elected since"
    with pytest.raises(NotMaster):
        await cluster.log(GROUP, held).append([b"without it"])


async def test_a_leader_says_that_most_members_had_lost_what_they_had(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture
) -> None:
    leader, held, lacks = await parted(cluster)
    for name in leader, held:
        remove(cluster, name, "identity.json", "groups", "events")
        await cluster.start(name)
    await trio.sleep(30)
    await cluster.log(GROUP).append([b"anew"])
    assert cluster.master_of(GROUP) == lacks
    found = group_statuses(await cluster.node(lacks).status())[GROUP]
    (line,) = found.others
    both = ", ".join(sorted((leader, held)))
    assert line.startswith(f"{both} were new or lacked their logs when {lacks} was elected: ")
    assert " may be lost; if a backup or an old disk has more, stop all members" in line
    assert f"{GROUP}: {line}" in caplog.messages


async def test_a_leader_of_a_new_group_says_nothing_like_it(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture
) -> None:
    leader = cluster.master_of(GROUP)
    (one,) = [name for name in cluster.names if name != leader][:1]
    await cluster.log(GROUP).append(BODIES)
    await cluster.converged(GROUP)
    await cluster.kill(one)
    remove(cluster, one, "identity.json", "groups", "events")
    await cluster.start(one)  # the others have all that was committed
    await cluster.log(GROUP).append([b"more"])
    for name in cluster.names:
        assert group_statuses(await cluster.node(name).status())[GROUP].others == ()
    assert not any("lacked" in each for each in caplog.messages)
