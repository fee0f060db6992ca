"""Which nodes of a run are fed: the present master counts, as the nodes remember it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio
from cluster_kit import make_cluster

from actors.cluster.arguments import parse
from actors.cluster.links import Links
from actors.cluster.session import feeding_of, present_masters
from actors.config import ClusterConfig, load
from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError
from actors.log_types import GroupRecord
from actors.storage.identity import identity_path, open_directory

pytestmark = pytest.mark.real_io


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    return load(make_cluster(tmp_path).write())


def remember(config: ClusterConfig, node: str, number: int, master: str) -> None:
    path = config.node_dir(node)
    LocalDisk().mkdir(config.data_dir)
    found = open_directory(
        LocalDisk(), path, cluster="demo", node=node, groups=("orders",), settings={}
    )
    found.update("orders", GroupRecord(promotion_number=number, promotion_master=master))
    found.close()


def masters_fed(config: ClusterConfig, lines: Path, *nodes: str) -> tuple[str, ...]:
    arguments = parse([str(config.path), "--feed", str(lines)])
    links = Links(names=nodes, connect=lambda name: trio.open_nursery())  # type: ignore[arg-type, return-value]
    feeding = feeding_of(arguments, config, nodes, links)
    assert feeding is not None
    return feeding.masters


def test_the_newest_promotion_says_who_is_master(config: ClusterConfig) -> None:
    disk = LocalDisk()
    assert present_masters(config, ("n0", "n1"), disk) == {"orders": "n0"}
    remember(config, "n0", 1, "n2")
    remember(config, "n1", 2, "n1")
    remember(config, "n2", 3, "n7")
    assert present_masters(config, ("n0",), disk) == {"orders": "n2"}
    assert present_masters(config, ("n0", "n1"), disk) == {"orders": "n1"}
    assert present_masters(config, ("n1", "n2"), disk) == {"orders": "n1"}, "n7 is gone"


def test_a_feed_goes_where_the_master_is(config: ClusterConfig, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    assert masters_fed(config, lines, "n0") == ("n0",)
    with pytest.raises(ConfigError, match="expected a group's master among"):
        masters_fed(config, lines, "n1")
    remember(config, "n1", 2, "n1")
    assert masters_fed(config, lines, "n1") == ("n1",)
    assert masters_fed(config, lines, "n0", "n1") == ("n1",)
    assert masters_fed(config, lines, "n0") == ("n0",), "it says itself who is master now"


def test_an_identity_that_is_none_is_named(config: ClusterConfig) -> None:
    remember(config, "n1", 2, "n1")
    Path(identity_path(config.node_dir("n1"))).write_text("{")
    with pytest.raises(ConfigError, match="expected a node's identity"):
        present_masters(config, ("n1",), LocalDisk())
    shutil.rmtree(config.node_dir("n1"))
    Path(config.node_dir("n1")).write_text("no folder")
    assert present_masters(config, ("n1",), LocalDisk()) == {"orders": "n0"}
