"""The storage tools and the store of an auto-switch group's replica, as a real broker wrote it."""

from __future__ import annotations

import json
import pathlib
import random
import re
from collections.abc import Callable

import golden_autoswitch as golden
import pytest
from storage_kit import finish
from store_kit import sim_disk
from tools_command_kit import run
from tools_kit import Killed, KillingDisk, env_of

from actors.env.local_disk import LocalDisk
from actors.sim.disk import SimDisk
from actors.storage.commitlog.epoch_store import EpochStore, record_begins
from actors.storage.files.side_file import write_side_file
from actors.storage.layout import AutoSwitchLayout
from actors.storage.log.log_reader import LogReader
from actors.storage.node.identity import open_directory
from actors.storage.tools.commitlog.replicas import prepare_replica_truncation
from actors.storage.tools.stores import ReplicaStore
from actors.storage.tools.target import find_target
from wire.files.commit_log import segment_name
from wire.files.epoch_file import EpochStart, encode_epoch_file

DISK = LocalDisk()
S = 4096
END = 3571
EPOCHS = [(1, 0), (2, 1338), (3, 2234), (4, 2901)]
FILES = ("epochFileCheckpoint", "epochFileCheckpoint.bak", "brokerIdentity")


def encoded(*epochs: tuple[int, int]) -> bytes:
    return encode_epoch_file([EpochStart(*each) for each in epochs])


@pytest.fixture
def node(tmp_path: pathlib.Path) -> pathlib.Path:
    """The directory of a node that has stopped, with the store of Java's broker a."""
    path = tmp_path / "n0"
    directory = open_directory(
        DISK, str(path), cluster="C", node="n0", groups=["set1"], settings={}
    )
    directory.close()
    put_store(path / "groups/set1")
    return path


def put_store(root: pathlib.Path) -> None:
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / segment_name(0)).write_bytes(
        golden.file("broker-a/commitlog").ljust(S, b"\0")
    )
    (root / "checkpoint").write_bytes(golden.file("broker-a/checkpoint").ljust(4096, b"\0"))
    for name in FILES:
        (root / name).write_bytes(golden.file(f"broker-a/{name}"))


def store(node: pathlib.Path) -> pathlib.Path:
    return node / "groups/set1"


def found(capfd: pytest.CaptureFixture[str], path: pathlib.Path) -> tuple[int, dict[str, object]]:
    code, out, err = run(capfd, "check", path, "--json")
    assert err == ""
    (report,) = json.loads(out)["replicas"]
    return code, report


@pytest.mark.parametrize("alone", [False, True])
def test_a_java_broker_s_store_is_good(
    node: pathlib.Path, alone: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    if alone:
        node = store(node).rename(node.parent / "store")
    code, report = found(capfd, node)
    assert (code, report["end_bytes"], report["confirmed_bytes"]) == (0, END, END)
    assert (report["epochs"], report["last_epoch"]) == (4, 4)
    assert report["replica"] == "C#set1#1"
    code, out, _ = run(capfd, "check", node)
    assert code == 0
    head, row = (line.split() for line in out.splitlines()[:2])
    assert head[-5:] == ["confirmed", "epochs", "last", "epoch", "replica"]
    assert row[-4:] == [str(END), "4", "4", "C#set1#1"]


Damage = tuple[Callable[[pathlib.Path], object], str, str]
DAMAGE: dict[str, Damage] = {
    "torn": (
        lambda root: (root / FILES[0]).write_bytes(golden.file("broker-a/" + FILES[0])[:-3]),
        "damage",
        "cannot be read: an epoch file of 4 epochs says|cannot be read: a line|CRC",
    ),
    "backwards": (
        lambda root: (root / FILES[0]).write_bytes(b"2\n0\n2-0\n1-1338\n"),
        "damage",
        "cannot be read: an epoch file in which epoch 1 follows epoch 2",
    ),
    "offsets backwards": (
        lambda root: (root / FILES[0]).write_bytes(b"2\n0\n1-1338\n2-0\n"),
        "damage",
        "in which epoch 2 begins at 0, the one before at 1338",
    ),
    "where no record begins": (
        lambda root: (root / FILES[0]).write_bytes(encoded((1, 0), (2, 1338), (3, 2300))),
        "damage",
        "epoch 3 begins at 2300, where no record begins",
    ),
    "of another log": (
        lambda root: (root / FILES[0]).write_bytes(encoded((1, 0), (2, 1300), (3, 2300))),
        "damage",
        "of another log, whose records begin elsewhere; what lies behind 0 is not believed",
    ),
    "older": (
        lambda root: write_side_file(DISK, f"{root}/newest_epoch", (6,)),
        "damage",
        "was newer, with epoch 6; what lies behind 2901 is not believed",
    ),
    "behind the end": (
        lambda root: (root / FILES[0]).write_bytes(encoded(*EPOCHS, (5, 3600))),
        "notes",
        "epoch 5 begins at 3600, behind the log's end, 3571: the next start drops it",
    ),
    "identity of another set": (
        lambda root: (root / FILES[2]).write_bytes(b"C#set2#3"),
        "damage",
        "is of replica 3 of broker set set2 of cluster C, not of set1 of C: a start is refused",
    ),
    "identity of another cluster": (
        lambda root: (root / FILES[2]).write_bytes(b"D#set1#3"),
        "damage",
        "broker set set1 of cluster D, not of set1 of C",
    ),
    "identity": (
        lambda root: (root / FILES[2]).write_bytes(b"C#set1"),
        "damage",
        "brokerIdentity: .* CLUSTER#NAME#ID.*: a start is refused",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_check_names_what_is_wrong(
    node: pathlib.Path, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    act, where, text = DAMAGE[what]
    act(store(node))
    code, report = found(capfd, node)
    assert code == (1 if where == "damage" else 0)
    lines = report["findings"][where]  # type: ignore[index]
    assert any(re.search(text, line) for line in lines), lines


def test_a_file_whose_backup_says_as_much_is_mended(
    node: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What the torn file may have had more begins at the log's end at most."""
    (store(node) / FILES[1]).write_bytes(encoded(*EPOCHS, (5, END)))
    (store(node) / FILES[0]).write_bytes(b"")
    code, report = found(capfd, node)
    assert (code, report["last_epoch"]) == (3, 5)


def test_dump_shows_epochs_and_identity(
    node: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capfd, "dump", node)
    assert (code, err) == (0, "")
    head, *records = (json.loads(line) for line in out.splitlines())
    assert head == {
        "replica": "C#set1#1",
        "confirm_offset": END,
        "epochs": [{"epoch": number, "start": at} for number, at in EPOCHS],
    }
    for each in records:
        assert each["epoch"] == [number for number, at in EPOCHS if at <= each["offset"]][-1]
    assert {each["epoch"] for each in records} == {1, 2, 3, 4}
    write_side_file(DISK, f"{store(node)}/newest_epoch", (6,))
    code, out, err = run(capfd, "dump", node, "--from", "2901", "--limit", "1")
    assert (code, json.loads(out.splitlines()[1])["epoch"]) == (1, None)
    assert "was newer, with epoch 6" in err


def test_a_copy_has_the_epochs_and_no_identity(
    node: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    code, out, err = run(capfd, "backup", node, copy)
    assert (code, err) == (0, "")
    assert "4 epochs; of replica C#set1#1: what is made of the copy is another one" in out
    (entry,) = json.loads((copy / "backup.json").read_text())["replicas"]
    assert (entry["epochs"], entry["replica"]) == ([list(each) for each in EPOCHS], "C#set1#1")
    assert (store(copy) / FILES[0]).read_bytes() == golden.file("broker-a/" + FILES[0])
    assert not (store(copy) / FILES[2]).exists()
    code, report = found(capfd, copy)
    assert (code, report["epochs"], report["state"]) == (0, 4, "backup")

    seeded = tmp_path / "n7"
    code, out, err = run(capfd, "seed", copy, seeded)
    assert (code, err) == (0, "")
    assert not (store(seeded) / FILES[2]).exists()
    code, report = found(capfd, seeded)
    assert (code, report["end_bytes"], report["last_epoch"]) == (0, END, 4)
    assert report["replica"] == ""

    (store(copy) / FILES[0]).write_bytes(encoded(*EPOCHS[:2]))
    code, report = found(capfd, copy)
    assert code == 1
    assert "expected the 4 epochs of the manifest" in str(report["findings"])
    (store(copy) / FILES[0]).write_bytes(golden.file("broker-a/" + FILES[0]))
    (store(copy) / FILES[2]).write_bytes(b"C#set1#1")
    code, report = found(capfd, copy)
    assert code == 1
    assert "a copy must not have it" in str(report["findings"])


def test_no_copy_without_a_history_that_is_believed(
    node: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_side_file(DISK, f"{store(node)}/newest_epoch", (6,))
    code, _, err = run(capfd, "backup", node, tmp_path / "copy")
    assert code == 1
    assert "was newer, with epoch 6: of which epochs the bytes behind 2901 are is not known" in err


FILE = """
version = 1
name = "C"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
[groups.{name}]
mode = "{mode}"
{keys}
segment_bytes = {size}
"""
REPLICAS = 'members = ["n0", "n1"]\nmin_in_sync_replicas = 1\ncontrollers = ["127.0.0.1:9878"]'


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"name": "set2"}, "groups.set1: expected the autoswitch group of the backup"),
        ({"size": 8192}, "groups.set1.segment_bytes: expected 4096"),
        ({"mode": "classic", "keys": 'master = "n0"\nslaves = ["n1"]'}, "expected the autoswitch"),
    ],
)
def test_a_copy_fits_a_group_of_its_kind(
    node: pathlib.Path,
    tmp_path: pathlib.Path,
    capfd: pytest.CaptureFixture[str],
    changes: dict[str, object],
    problem: str,
) -> None:
    copy, file = tmp_path / "copy", tmp_path / "c.toml"
    assert run(capfd, "backup", node, copy)[0] == 0
    words = {"name": "set1", "mode": "autoswitch", "keys": REPLICAS, "size": 4096} | changes
    file.write_text(FILE.format(**words))
    code, _, err = run(capfd, "seed", copy, f"{file}:n1")
    assert (code, problem in err) == (2 if problem else 0, True)
    if not problem:
        assert (store(tmp_path / "var/n1") / FILES[0]).exists()


# ---- truncate ----


def test_truncate_cuts_the_epochs_too(
    node: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capfd, "truncate", node, "1338", "--yes", "--index-slots", "100")
    assert (code, err) == (0, "")
    assert (store(node) / FILES[0]).read_bytes() == golden.file(
        "broker-a/epochFileCheckpoint.before-truncation"
    )
    code, report = found(capfd, node)
    assert (code, report["end_bytes"], report["last_epoch"]) == (0, 1338, 1)
    assert report["confirmed_bytes"] == 1338


def on_disk(seed: int) -> tuple[SimDisk, ReplicaStore]:
    disk, root = sim_disk(seed), "/set1"
    layout = AutoSwitchLayout(root)
    disk.mkdir(layout.commit_log)
    log = golden.file("broker-a/commitlog").ljust(S, b"\0")
    for path, data in (
        (f"{layout.commit_log}/{segment_name(0)}", log),
        *((f"{root}/{name}", golden.file(f"broker-a/{name}")) for name in FILES),
    ):
        file = disk.open(path, "x")
        file.pwrite(data, 0)
        file.sync()
        disk.sync_dir(path.rpartition("/")[0])
    (one,) = find_target(disk, root).stores
    assert isinstance(one, ReplicaStore)
    return disk, one


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_truncation_killed_anywhere_leaves_log_and_epochs_of_one_piece(
    loses_power: bool,
) -> None:
    kills, killed = 0, True
    while killed:
        disk, one = on_disk(kills)
        env = env_of(KillingDisk(disk, kills))
        try:
            finish(finish(prepare_replica_truncation(env, one, 1338, None, None)).carry_out())
            killed = False
        except Killed:
            killed = True
        disk.power_loss(random.Random(kills)) if loses_power else disk.kill()
        log = bytes(disk.open(f"{one.layout.commit_log}/{segment_name(0)}", "r").pread(0, S))
        whole = golden.file("broker-a/commitlog")
        end = 1338 if not any(log[1338:]) else END
        if killed and log.rstrip(b"\0") not in (whole, whole[:1338].rstrip(b"\0")):
            end = 1338  # half cut: the next start ends that, and so does the command
        reader = LogReader(disk, one.layout.commit_log, S)
        kept = EpochStore.open(disk, one.layout, 0, end, record_begins(reader, end))
        reader.close()
        assert kept.problem == ""
        numbers = [each.number for each in kept.history if each.start_bytes < end]
        assert numbers == ([1] if end == 1338 else [1, 2, 3, 4])
        finish(finish(prepare_replica_truncation(env_of(disk), one, 1338, None, None)).carry_out())
        said = bytes(disk.open(one.layout.epochs, "r").pread(0, 100))
        assert said == encoded((1, 0))
        kills += 1
    assert kills > 10
