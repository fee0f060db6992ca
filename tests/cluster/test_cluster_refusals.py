"""Bad input at the command line: one line that names the key, and exit code 2."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import GROUPS, WAIT_S, Cluster, make_cluster, unready, wait_for
from free_ports import free_port

from actors.cluster.__main__ import main
from actors.env.local_disk import LocalDisk
from actors.storage.__main__ import main as storage

pytestmark = pytest.mark.real_io


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path)


@pytest.fixture(params=["classic", "dledger"])
def either(tmp_path: Path, request: pytest.FixtureRequest) -> Cluster:
    """A cluster whose group is of the one kind, or of the other."""
    return make_cluster(tmp_path, request.param)


def refusal(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command, which must end with exit code 2 and one line."""
    assert main(words) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("triolog: ")
    return lines[0].removeprefix("triolog: ")


@pytest.mark.checklist(57)
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("port =", "prot =", "groups.orders.prot: expected a known key (did you mean port?)"),
        ('"n0"', "3", "groups.orders.master: expected a node's name"),
        ("port =", 'check_crc_on_recover = "no"\nport =', "expected true or false, found"),
        ('["n1", "n2"]', '["n1", "n9"]', "slaves[1]: expected one of the nodes n0, n1, n2"),
        ("[groups", '[groups.b]\nmaster = "n1"\nport = PORT\n[groups', "expected a port of its"),
        ("version = 1", "version = 2", "key version: expected 1, found 2"),
        ("[nodes]", "[nodes", "expected TOML"),
    ],
)
def test_mistakes_in_the_file(
    capfd: pytest.CaptureFixture[str], cluster: Cluster, before: str, after: str, line: str
) -> None:
    text = cluster.text.replace(before, after.replace("PORT", str(cluster.port)), 1)
    file = cluster.write(text)
    for command in ("run", "check", "status", "stop"):
        found = refusal(capfd, file, command)
        assert found.startswith(f"{file}: ")
        assert line in found
    assert not (cluster.folder / "var").exists()


def test_missing_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "none.toml")
    assert refusal(capfd, file) == f"{file}: expected a cluster file, found no such file"


def test_usage(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert "FILE" in refusal(capfd)
    found = refusal(capfd, cluster.write(), "--node", "n4")
    assert found == "--node: expected one of n0, n1, n2, found n4"
    java = cluster.text.replace('"n2"]', '{ node = "n2", kind = "java" }]')
    found = refusal(capfd, cluster.write(java), "--node", "n2")
    assert found.endswith("found n2 (a Java broker, not run by us)")


def test_feed_that_cannot_be_read(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    found = refusal(capfd, cluster.write(), "--feed", "/no/such")
    assert found.startswith("--feed: expected a file to read, found ")
    found = refusal(capfd, cluster.write(), "--feed", "-", "--node", "n1")
    assert found == ("--feed: expected a group's master among the nodes that run here, found n1")
    file = cluster.write(cluster.text + '[demo.feed]\nfile = "none.txt"\n')
    assert refusal(capfd, file).startswith(f"{file}: key demo.feed.file: expected a file to read")


def test_port_in_use(capfd: pytest.CaptureFixture[str], either: Cluster) -> None:
    with socket.create_server(("127.0.0.1", either.port)):
        for words in ((), ("--processes",)):
            found = refusal(capfd, either.write(), "--json", "--for", "60s", *words)
            key = f"{either.file}: key groups.orders.port: expected a free port"
            assert found == f"{key}, found 127.0.0.1:{either.port} in use"


def test_address_of_another_machine(capfd: pytest.CaptureFixture[str], either: Cluster) -> None:
    file = either.write(either.text.replace("127.0.0.1", "198.51.100.7"))
    assert refusal(capfd, file, "--for", "60s", "--json") == (
        f'{file}: key nodes.n0: expected an address of this machine, found "198.51.100.7"'
    )


def ran_once(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([cluster.write(), "--for", "10ms", "--json"]) == 0
    capfd.readouterr()


def change_identity(cluster: Cluster, changes: dict[str, object]) -> None:
    path = cluster.folder / "var" / "n1" / "identity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node": "n2"}, "found that of node 'n2'"),
        ({"cluster": "other"}, "of cluster 'other'"),
        ({"format_version": 99}, "found 99"),
    ],
)
def test_data_directory_of_somebody_else(
    capfd: pytest.CaptureFixture[str], cluster: Cluster, changes: dict[str, object], words: str
) -> None:
    ran_once(cluster, capfd)
    change_identity(cluster, changes)
    found = refusal(capfd, cluster.file, "--for", "60s", "--json")
    assert found.startswith(f"{cluster.file}: key data_dir: {cluster.folder}/var/n1: expected ")
    assert words in found


FOLDERS = [
    ("classic", ""),
    ("classic", "/n1"),
    ("classic", "/n1/groups"),
    ("classic", "/n1/groups/orders"),
    ("classic", "/n1/groups/orders/commitlog"),
    ("classic", "/n1/groups/orders/consumequeue"),
    ("classic", "/n1/events"),
    ("classic", "/feed"),
    ("dledger", "/n1/groups/orders"),
    ("dledger", "/n1/groups/orders/data"),
    ("dledger", "/n1/groups/orders/index"),
    ("dledger", "/n1/groups/orders/sums"),
    ("dledger", "/n1/groups/orders/snapshot"),
    ("dledger", "/n1/groups/orders/cut"),
]


@pytest.mark.parametrize(("mode", "name"), FOLDERS)
def test_a_file_where_a_folder_has_to_be(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, mode: str, name: str
) -> None:
    cluster = make_cluster(tmp_path, mode)
    path = cluster.folder / f"var{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    (cluster.folder / "lines").write_text("one\n")
    found = refusal(
        capfd, cluster.write(), "--for", "60s", "--json", "--feed", str(cluster.folder / "lines")
    )
    assert str(path) in found


def test_a_file_where_a_queue_has_its_folder(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    path = cluster.folder / "var/n1/groups/orders/consumequeue/a topic/12"
    path.parent.mkdir()
    path.write_text("")
    found = refusal(capfd, cluster.file, "--for", "60s", "--json")
    assert found == f"{cluster.file}: key data_dir: {path}: expected a folder, found a file"
    assert storage(["check", str(cluster.folder / "var/n1")]) == 2
    assert capfd.readouterr().err == f"triolog: {path}: expected a folder, found a file\n"


FILES = [
    ("classic", "identity.json"),
    ("classic", "lock"),
    ("classic", "groups/orders/lock"),
    ("classic", "groups/orders/checkpoint"),
    ("classic", "groups/orders/abort"),
    ("dledger", "groups/orders/lock"),
    ("dledger", "groups/orders/checkpoint"),
    ("dledger", "groups/orders/currterm"),
    ("dledger", "groups/orders/synced"),
]


@pytest.mark.parametrize(("mode", "name"), FILES)
def test_a_folder_where_a_file_has_to_be(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, mode: str, name: str
) -> None:
    """In processes too; what a process says of any file comes the same way."""
    cluster = make_cluster(tmp_path, mode)
    ran_once(cluster, capfd)
    path = cluster.folder / "var" / "n1" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    for words in ((), ("--processes",)) if name == "lock" else ((),):
        found = refusal(capfd, cluster.file, "--for", "60s", "--json", *words)
        key = f"{cluster.file}: key data_dir"
        assert found == f"{key}: {path}: expected a file, found a folder"


def test_an_identity_that_nobody_can_read(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    (cluster.folder / "var" / "n1" / "identity.json").write_text("[" * 100_000)
    for words in (("check",), ("--for", "60s", "--json")):
        assert "expected a node's identity" in refusal(capfd, cluster.file, *words)


HOLD = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX, 1); print()"
HOLD += "; sys.stdout.flush(); sys.stdin.read()"


def test_data_directory_locked_by_another_process(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    lock = str(cluster.folder / "var" / "n1" / "lock")
    command = [sys.executable, "-c", HOLD, lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        for words in ((), ("--processes",), ("--node", "n1")):
            found = refusal(capfd, cluster.file, "--for", "60s", "--json", *words)
            folder = cluster.folder / "var" / "n1"
            who = f"found that of node n1 in use by process {holder.pid} ({folder})"
            expected = f"{cluster.file}: key data_dir: expected a free data directory, {who}"
            asks = f"`python -m actors.cluster {cluster.file} status`"
            assert found == f"{expected}; {asks} asks what runs there"
        assert main([cluster.file, "--for", "10ms", "--json", "--node", "n2"]) == 0
        capfd.readouterr()
        assert main([cluster.file, "status", "--node", "n1"]) == 1
        assert f"n1: no answer, but process {holder.pid} has its data" in capfd.readouterr().out
        holder.communicate(b"")


@pytest.mark.parametrize("first", [(), ("--processes",)], ids=["one process", "processes"])
def test_data_directory_of_a_cluster_that_runs(
    capfd: pytest.CaptureFixture[str], cluster: Cluster, first: tuple[str, ...]
) -> None:
    with cluster.start("--json", *first) as running:
        wait_for(lambda: main([cluster.file, "status", "--json"]) == 0)
        capfd.readouterr()
        for words in ((), ("--processes",), ("--node", "n1"), ("--processes", "--node", "n2")):
            found = refusal(capfd, cluster.file, "--for", "2s", "--json", *words)
            assert "found that of node n" in found
            assert "in use by process" in found
        assert main([cluster.file, "status", "--json"]) == 0
        capfd.readouterr()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=WAIT_S)
    assert (running.returncode, unready(err)) == (0, "")
    assert json.loads(out)["groups"]["orders"]["restarts"] == 0


def test_a_port_in_use_is_found_before_a_slave_follows_who_has_it(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    with socket.create_server(("127.0.0.1", cluster.port)) as foreign:
        foreign.settimeout(0)
        refusal(capfd, cluster.write(), "--json", "--for", "60s")
        with pytest.raises(BlockingIOError):
            foreign.accept()
    assert not (cluster.folder / "var").exists()


def test_data_directory_locked_by_this_process(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    held = LocalDisk().lock(str(cluster.folder / "var" / "n1" / "lock"))
    try:
        found = refusal(capfd, cluster.file, "--for", "60s", "--json")
    finally:
        held.release()
    assert "found a lock of this process" in found


def test_a_promoted_master_that_was_taken_out_of_the_file(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    ran_once(cluster, capfd)
    identity = cluster.folder / "var" / "n0" / "identity.json"
    known = json.loads(identity.read_text())
    known["records"]["orders"] |= {"promotion_number": 3, "promotion_master": "n1"}
    identity.write_text(json.dumps(known))
    file = cluster.write(cluster.text.replace('["n1", "n2"]', '["n2"]'))
    found = refusal(capfd, file, "--for", "60s", "--json", "--node", "n0")
    assert found.startswith(f"{file}: key groups.orders: expected n1 among its members, whom")
    assert f"({identity}), found n0, n2: put it back" in found


@pytest.mark.parametrize(
    ("mode", "other", "made"), [("classic", "dledger", "data"), ("dledger", "classic", "commitlog")]
)
def test_another_mode_for_a_group_that_has_data(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, mode: str, other: str, made: str
) -> None:
    cluster = make_cluster(tmp_path, mode)
    ran_once(cluster, capfd)
    mark = cluster.folder / "var" / "n0" / "groups" / "orders" / "synced"
    before = mark.read_bytes()
    file = cluster.write(cluster.text.replace(GROUPS[mode], GROUPS[other]))
    found = refusal(capfd, file, "--for", "60s", "--json", "--node", "n0")
    assert found.startswith(f"{file}: key data_dir: {mark.parent}: expected the store of a {other}")
    assert mark.read_bytes() == before
    assert not (mark.parent / made).exists()


def test_nobody_runs(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert refusal(capfd, cluster.write(), "stop").endswith("expected running nodes, found none")
    assert main([cluster.file, "status", "--node", "n1"]) == 1
    lines = capfd.readouterr().out.split("\n")
    assert lines[1] == "orders: who is master is not known: n1 does not answer"
    assert lines[2].startswith("  n1: not running (")
    assert main([cluster.file, "status", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["nodes"] == {"n0": None, "n1": None, "n2": None}


def test_check(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    assert main([cluster.write(), "check"]) == 0
    page = capfd.readouterr().out
    assert f"n0  127.0.0.1:{cluster.port}" in page
    assert page.count("tree of ") == 2, "the slaves' differ in the names of nodes alone"
    assert "tree of n0\n  /n0 [one_for_one" in page
    of_slaves = page.split("tree of n1; the same, but for the names of nodes, on n2\n")[1]
    assert of_slaves.startswith("  /n1 [one_for_one")
    assert "ha_client" in of_slaves
    assert "changed since" not in page
    assert not (cluster.folder / "var").exists()
    assert main([cluster.file, "check", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["guarantees"]["orders"]["returns_when"].startswith("2 distinct nodes")
    assert found["changed"] == {}


def test_check_says_what_changed(capfd: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    ran_once(cluster, capfd)
    file = cluster.write(cluster.text + "copies = 3\n")
    assert main([file, "check"]) == 0
    page = capfd.readouterr().out
    assert "changed since the last start of n0\n  groups.orders.copies: 2 becomes 3" in page
    assert page.count("changed since") == 3


def test_check_refuses_the_folder_of_another_node(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    """With the words of the start that would be refused."""
    ran_once(cluster, capfd)
    folder = cluster.folder / "var" / "n1"
    shutil.rmtree(folder)
    shutil.copytree(cluster.folder / "var" / "n2", folder)
    name = cluster.text.partition('name = "')[2].partition('"')[0]
    started = refusal(capfd, cluster.file, "--for", "60s", "--json")
    assert main([cluster.file, "check"]) == 2
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", f"triolog: {started}\n")
    expected, found = f"node 'n1' of cluster {name!r}", f"node 'n2' of cluster {name!r}"
    assert started.endswith(f"{folder}: expected the data of {expected}, found that of {found}")
    (folder / "identity.json").unlink()
    assert main([cluster.file, "check", "--json"]) == 2
    assert "expected identity.json beside the groups' data, found none" in capfd.readouterr().err


def test_check_names_what_is_not_the_nodes_alone(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    before = os.umask(0)
    try:
        ran_once(cluster, capfd)
    finally:
        os.umask(before)
    file, folder = cluster.file, cluster.folder / "var" / "n1"
    assert main([file, "check"]) == 0
    assert "alone" not in capfd.readouterr().out
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    (folder / "identity.json").chmod(0o644)
    (folder / "groups").chmod(0o755)
    assert main([file, "check"]) == 0
    page = capfd.readouterr().out
    assert page.count("others may use") == 1
    assert f"n1: others may use {folder}/groups (mode 0755) and 1 more" in page
    *_, to_do, _, last = page.rstrip().split("\n")
    assert to_do.endswith(f"chmod -R go= {folder}")
    assert last.endswith("1 warning")
    assert main([file, "check", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["loose"]) == 1


def test_nodes_of_another_cluster_on_the_same_port_are_not_taken_for_ours(
    capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    key = f"api_port = {free_port()}\n[nodes]"
    cluster.text = cluster.text.replace("[nodes]", key)
    other = cluster.folder / "other.toml"
    other.write_text(cluster.text.replace('"demo"', '"other"').replace('"var"', '"var2"'))
    with cluster.start("--json") as running:
        wait_for(lambda: main([cluster.file, "status", "--json"]) == 0)
        capfd.readouterr()
        assert main([str(other), "status", "--node", "n0"]) == 1
        assert "found node n0 of cluster demo" in capfd.readouterr().out
        assert refusal(capfd, str(other), "stop").endswith("expected running nodes, found none")
        assert main([cluster.file, "stop"]) == 0
        capfd.readouterr()
        assert running.wait(WAIT_S) == 0
