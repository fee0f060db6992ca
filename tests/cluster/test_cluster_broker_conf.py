"""A broker's store, opened where it lies: what is made beside it, and that nothing else changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from actors.cluster.broker_stores import prepare_stores
from actors.cluster.command_line import run_command_line
from actors.config.brokerconf import BrokerConf, load_broker_conf
from actors.env.local_disk import LocalDisk
from actors.env.protocols import Address
from actors.errors import ConfigError
from actors.follow.folder import Shape, take_folder
from actors.storage.node.identity import open_directory, read_identity

DISK = LocalDisk()


def file(folder: Path, name: str, *more: str, role: str = "ASYNC_MASTER", number: int = 0) -> str:
    path = folder / f"{name}.properties"
    lines = ("brokerName=broker-a", f"brokerId={number}", f"brokerRole={role}")
    store = f"storePathRootDir={folder}/{name}"
    path.write_text("\n".join((*lines, store, "mappedFileSizeCommitLog=65536", *more)))
    return str(path)


def slave(folder: Path, *more: str) -> str:
    return file(folder, "slave", *more, role="SLAVE", number=1)


def prepare(conf: BrokerConf) -> None:
    prepare_stores(DISK, conf.config, conf.stores, conf.config.python_nodes)


def broker_wrote(root: Path, log: Path | None = None) -> dict[Path, bytes]:
    """A store as a broker leaves it; every file of it with what is in it."""
    for path, data in {
        (log or root / "commitlog") / ("0" * 20): b"\0" * 65536,
        root / "config/topics.json": b"{}",
        root / "checkpoint": b"\0" * 4096,
        root / "lock": b"lock",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files_in(root) | files_in(log or root)


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_pair_has_each_node_in_its_own_store(tmp_path: Path) -> None:
    conf = load_broker_conf([file(tmp_path, "master"), slave(tmp_path)])
    for _ in range(2):  # the second start finds all as it is
        prepare(conf)
        for node, root in ("broker-a-0", "master"), ("broker-a-1", "slave"):
            home, store = Path(conf.config.node_dir(node)), tmp_path / root
            assert home.resolve() == store / "triolog" / node
            assert Path(conf.config.group_dir(node, "broker-a")).resolve() == store
            assert (store / "commitlog").is_dir()
            assert read_identity(DISK, str(home)) is not None
    alone = load_broker_conf([slave(tmp_path, "haMasterAddress=127.0.0.1:10912")])
    prepare(alone)
    of_pair, of_one = (each.config.node_dir("broker-a-1") for each in (conf, alone))
    assert os.path.realpath(of_pair) == os.path.realpath(of_one), "it is the same node"


def test_a_moved_store_is_found_where_it_is(tmp_path: Path) -> None:
    conf = load_broker_conf([file(tmp_path, "master")])
    prepare(conf)
    (tmp_path / "master").rename(tmp_path / "moved")
    link = tmp_path / "moved/triolog/broker-a-0/groups/broker-a"
    assert link.resolve() == tmp_path / "moved"


@pytest.mark.parametrize("apart", [False, True])
def test_nothing_of_a_brokers_changes(apart: bool, tmp_path: Path) -> None:
    root, log = tmp_path / "master", tmp_path / "fast/log" if apart else None
    before = broker_wrote(root, log)
    conf = load_broker_conf(
        [file(tmp_path, "master", *([f"storePathCommitLog={log}"] if log else []))]
    )
    prepare(conf)
    after = files_in(root) | files_in(log or root)
    ours = root / "triolog/broker-a-0/identity.json"
    assert {path: data for path, data in after.items() if path != ours} == before
    assert (root / "commitlog").resolve() == (log or root / "commitlog")
    home = conf.config.node_dir("broker-a-0")
    identity = read_identity(DISK, home)
    assert identity is not None
    assert (identity.node, identity.groups, identity.records) == ("broker-a-0", ("broker-a",), {})
    opened = open_directory(
        DISK, home, cluster=conf.config.name, node="broker-a-0", groups=["broker-a"], settings={}
    )
    assert opened.record("broker-a").forgot == "all", "its log is judged as a stranger's"
    opened.close()


def test_what_was_ours_is_not_taken_for_a_brokers(tmp_path: Path) -> None:
    """A lost identity.json is an operator's to look at, as everywhere."""
    broker_wrote(tmp_path / "master")
    (tmp_path / "master/synced").write_bytes(b"")
    conf = load_broker_conf([file(tmp_path, "master")])
    prepare(conf)
    home = conf.config.node_dir("broker-a-0")
    assert read_identity(DISK, home) is None
    with pytest.raises(ConfigError, match=r"expected identity\.json beside the groups' data"):
        open_directory(
            DISK,
            home,
            cluster="DefaultCluster",
            node="broker-a-0",
            groups=["broker-a"],
            settings={},
        )


def test_a_copy_that_follow_made_is_a_brokers(tmp_path: Path) -> None:
    """Though it has a node's files beside the log. Only one of the two may run at a time."""
    store = tmp_path / "master"
    shape = Shape(segment_bytes=65536)
    copy = take_folder(DISK, str(store), Address("192.0.2.1", 10912), shape)
    (store / "synced").write_bytes(b"")
    conf = load_broker_conf([file(tmp_path, "master")])
    prepare(conf)
    home = conf.config.node_dir("broker-a-0")
    of_node = {"cluster": conf.config.name, "node": "broker-a-0", "groups": ["broker-a"]}
    with pytest.raises(ConfigError, match="is in use by this process"):
        open_directory(DISK, home, **of_node, settings={})
    copy.close()
    opened = open_directory(DISK, home, **of_node, settings={})
    assert opened.record("broker-a").forgot == "all", "its log is judged as a stranger's"
    with pytest.raises(ConfigError, match="is in use by this process"):
        take_folder(DISK, str(store), Address("192.0.2.1", 10912), shape)
    opened.close()


@pytest.mark.parametrize("what", ["a folder", "a file", "a link"])
def test_what_is_in_a_links_place_stays(what: str, tmp_path: Path) -> None:
    conf = load_broker_conf([file(tmp_path, "master")])
    place = tmp_path / "master/triolog/broker-a-0/groups/broker-a"
    place.parent.mkdir(parents=True)
    if what == "a folder":
        place.mkdir()
    elif what == "a file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path)
    with pytest.raises(ConfigError) as caught:
        prepare(conf)
    found = f"a link to {tmp_path}" if what == "a link" else "something"
    assert caught.value.problems == (
        f"{place}: expected nothing, or a link to {tmp_path}/master (storePathRootDir), found"
        f" {found}: move it away if it is of no use any more",
    )
    assert place.is_symlink() == (what == "a link")


def test_a_commit_log_beside_the_default_one(tmp_path: Path) -> None:
    """Of two logs one would be passed over."""
    before = broker_wrote(tmp_path / "master")
    conf = load_broker_conf([file(tmp_path, "master", f"storePathCommitLog={tmp_path}/other")])
    with pytest.raises(ConfigError, match=r"commitlog: expected nothing, or a link to .*/other"):
        prepare(conf)
    assert files_in(tmp_path / "master") == before


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("a file")
    conf = load_broker_conf([file(tmp_path, "master")])
    with pytest.raises(ConfigError, match="expected a folder for the store of broker-a-0, found"):
        prepare(conf)


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run_command_line(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_check_explains_each_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = file(tmp_path, "master", "slaveReadEnable=true", "x=1"), slave(tmp_path, "deleteWhen=05")
    options = [word for one in both for word in ("--broker-conf", one)]
    code, out, err = run(*options, "check", capsys=capsys)
    assert (code, err) == (0, "")
    assert f"{both[0]}:6: key slaveReadEnable: not done yet: " in out
    assert f"{both[0]}: keys that mean nothing here: x\n" in out
    rows = out.partition(f"\n\n{both[0]}\n")[2].partition("\n\n")[0].splitlines()
    assert rows[4].split() == ["mappedFileSizeCommitLog", "65536", "segment_bytes", "=", "65536"]
    assert f"\n\n{both[1]}\n" in out
    assert "deleteWhen               05" in out
    assert not (tmp_path / "master").exists(), "it starts nothing"
    code, out, _ = run(*options, "check", "--json", capsys=capsys)
    found = json.loads(out)
    assert {use["key"] for use in found["properties"]} >= {"slaveReadEnable", "deleteWhen"}
    assert found["settings"]["groups.broker-a.segment_bytes"] == "65536"


@pytest.mark.parametrize("content", ["", "# nothing\n"])
def test_a_file_with_no_key_is_a_broker_of_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(content)
    assert run_command_line(["check", "--broker-conf", str(file)]) == 0
    assert f"\n\n{file}\n\ntree of " in capsys.readouterr().out


def test_check_prints_the_cluster_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--broker-conf", file(tmp_path, "master"), "--broker-conf", slave(tmp_path)]
    code, out, _ = run(*options, "check", "--toml", capsys=capsys)
    assert code == 0
    made = tmp_path / "c.toml"
    made.write_text(out)
    page = run(str(made), "check", capsys=capsys)[1].partition("\n\nto know")[0]
    of_conf, notes, _ = run(*options, "check", capsys=capsys)[1].partition("\n\nto know")
    assert notes, "at the end, where a terminal still shows it"
    before, trees, rest = page.partition("\n\ntree of ")
    assert of_conf.startswith(before + "\n\n")
    assert of_conf.endswith(trees + rest)


def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, "master", "fileReservedTime=two days")
    code, out, err = run("--broker-conf", path, capsys=capsys)
    assert (code, out) == (2, "")
    assert err == (
        f"triolog: {path}:6: key fileReservedTime: expected an integer from 1 to 87840 hours, found"
        ' "two days"\n'
    )


def test_nobody_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(tmp_path, "master")
    assert run("--broker-conf", path, "stop", capsys=capsys)[0] == 2
    code, out, _ = run("--broker-conf", path, "status", capsys=capsys)
    assert code == 1
    assert "broker-a-0: not running" in out
