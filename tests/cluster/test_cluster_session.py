"""Which nodes of a run are fed: the present master counts, as the nodes remember it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import trio
from cluster_kit import WAIT_S, Cluster, make_cluster, unready

from actors.cluster.arguments import parse
from actors.cluster.feed_record import FeedRecord
from actors.cluster.links import Links
from actors.cluster.session import feeding_of, present_masters
from actors.config import ClusterConfig, load
from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError
from actors.log_types import GroupRecord
from actors.storage.node.identity import identity_path, open_directory

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


@pytest.fixture
def fed(tmp_path: Path) -> Cluster:
    """A cluster whose file has a feed of its own."""
    (tmp_path / "lines").write_text("a\n")
    cluster = make_cluster(tmp_path)
    cluster.text += '[demo.feed]\nfile = "lines"\n'
    return cluster


TAKEN = "orders: not fed from here: another run writes "


@pytest.mark.parametrize(
    ("words", "yields"),
    [(("--node", "n0"), True), (("--node", "n0", "--feed", "FILE"), False), ((), False)],
    ids=["one node", "a feed that was asked for", "the whole cluster"],
)
def test_the_files_feed_yields_to_one_of_another_run(
    fed: Cluster, words: tuple[str, ...], yields: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = load(fed.write())
    words = tuple(str(fed.folder / "lines") if word == "FILE" else word for word in words)
    arguments = parse([fed.file, *words])
    nodes = arguments.nodes or config.python_nodes
    links = Links(names=nodes, connect=lambda name: trio.open_nursery())  # type: ignore[arg-type, return-value]
    other = FeedRecord(str(fed.folder / "var" / "feed"), "orders")
    open_before = len(os.listdir("/proc/self/fd"))
    feeding = feeding_of(arguments, config, nodes, links)
    assert feeding is not None
    if not yields:
        with pytest.raises(ConfigError, match="expected a free feed record"):
            feeding.open()
    else:
        assert feeding.open() == ((), ())
        assert len(os.listdir("/proc/self/fd")) == open_before, "the source is closed"
        [record] = caplog.records
        assert record.getMessage().startswith(TAKEN)
        assert record.getMessage().endswith("var/feed/orders.jsonl")
    other.close()


def test_a_node_runs_though_another_run_feeds(fed: Cluster) -> None:
    fed.write()
    other = FeedRecord(str(fed.folder / "var" / "feed"), "orders")
    with fed.start("--node", "n0", "--json", "--for", "1s") as process:
        out, err = process.communicate(timeout=WAIT_S)
    other.close()
    assert process.returncode == 0, err
    assert unready(err).startswith(TAKEN)
    assert unready(err).count("\n") == 1
    assert json.loads(out)["groups"]["orders"]["appended"] == 0
