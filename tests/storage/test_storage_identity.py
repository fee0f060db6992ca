"""A node's directory: locks, whose it is, boot numbers; every refusal is one line."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from special_files import SPECIAL

from actors.env import Disk
from actors.env.local_disk import LocalDisk
from actors.epochs import Epoch
from actors.errors import ConfigError
from actors.log_types import GroupRecord
from actors.sim.disk import SimDisk
from actors.storage.node.identity import (
    NEW_RECORD,
    NodeDirectory,
    identity_path,
    open_directory,
    read_identity,
)

DIRECTORY = "/data/n0"


def opened(disk: object, path: str = DIRECTORY, **changes: object) -> NodeDirectory:
    arguments: dict[str, object] = {
        "cluster": "demo",
        "node": "n0",
        "groups": ("orders",),
        "settings": {"copies": "2"},
        **changes,
    }
    return open_directory(disk, path, **arguments)  # type: ignore[arg-type]


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(1))


def test_the_boot_number_rises_with_every_start(disk: SimDisk) -> None:
    for boot in (1, 2, 3):
        directory = opened(disk)
        assert directory.boot == boot
        directory.close()


def test_the_boot_number_survives_a_power_loss_right_after_the_start(disk: SimDisk) -> None:
    opened(disk)
    disk.power_loss(random.Random(2))
    assert opened(disk).boot == 2


def test_settings_and_former_groups_are_kept(disk: SimDisk) -> None:
    opened(disk, groups=("old",)).close()
    opened(disk, settings={"copies": "3"}).close()
    identity = read_identity(disk, DIRECTORY)
    assert identity is not None
    assert identity.groups == ("old", "orders")
    assert identity.settings == {"copies": "3"}


RECORD = GroupRecord(
    promotion_number=3,
    promotion_master="n2",
    history=(Epoch(0, 2**63 - 1, "n0", 0), Epoch(3, 17, "n2", 4096)),
    high_water_bytes=5000,
    cut_bytes=4096,
    forgot="log",
)


def test_a_new_group_has_nothing_to_remember(disk: SimDisk) -> None:
    assert opened(disk).record("orders") == NEW_RECORD == GroupRecord(forgot="all")


def test_records_are_kept_group_by_group_also_of_former_ones(disk: SimDisk) -> None:
    directory = opened(disk, groups=("orders", "old"))
    directory.update("orders", RECORD)
    directory.update("old", attrs.evolve(RECORD, promotion_number=4))
    assert directory.record("orders") == RECORD
    directory.close()
    later = opened(disk, groups=("orders",))
    assert later.record("orders") == RECORD
    assert later.record("old").promotion_number == 4
    assert later.boot == 2


def test_an_update_is_durable_when_it_returns(disk: SimDisk) -> None:
    opened(disk).update("orders", RECORD)
    disk.power_loss(random.Random(3))
    assert opened(disk).record("orders") == RECORD


@pytest.mark.parametrize("seed", range(40))
def test_a_power_loss_in_an_update_leaves_the_old_or_the_new_record(
    disk: SimDisk, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step of the replacement, and with any part of what is not synced."""
    directory = opened(disk)
    directory.update("orders", RECORD)
    rng = random.Random(seed)
    steps = ["open", "exchange", "sync_dir"]
    dying_at = steps[seed % len(steps)]

    def die(*arguments: object) -> None:
        raise PowerLossError

    monkeypatch.setattr(disk, dying_at, die)
    newer = attrs.evolve(RECORD, promotion_number=9)
    with pytest.raises(PowerLossError):
        directory.update("orders", newer)
    assert directory.record("orders") == RECORD  # what is not known to be durable is not shown
    monkeypatch.undo()
    disk.power_loss(rng)
    assert opened(disk).record("orders") in (RECORD, newer)


class PowerLossError(Exception):
    """Stands for the moment after which nothing runs."""


def test_the_identity_of_an_older_version_opens(disk: SimDisk) -> None:
    old = {"cluster": "demo", "node": "n0", "groups": ["orders"], "boot": 4, "settings": {}}
    rewrite(disk, json.dumps({"format_version": 1, **old}).encode())
    directory = opened(disk)
    assert directory.boot == 5
    assert directory.record("orders") == NEW_RECORD
    assert not directory.has_voted("orders")


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        {**attrs.asdict(RECORD), "promotion_number": "3"},
        {**attrs.asdict(RECORD), "promotion_number": True},
        {**attrs.asdict(RECORD), "high_water_bytes": -1},
        {**attrs.asdict(RECORD), "high_water_bytes": 2**63},
        {**attrs.asdict(RECORD), "history": [[0, 1, "n0", 0]]},
        {**attrs.asdict(RECORD), "cut_bytes": -1},
        {**attrs.asdict(RECORD), "forgot": "nothing"},
        {**attrs.asdict(RECORD), "forgot": []},
        {**attrs.asdict(RECORD), "cut_bytes": 2**63},
    ],
)
def test_a_record_that_cannot_be_read(disk: SimDisk, record: object) -> None:
    opened(disk).close()
    file = disk.open(identity_path(DIRECTORY), "r")
    found = json.loads(file.pread(0, 1 << 20))
    file.close()
    found["records"] = {"orders": record}
    rewrite(disk, json.dumps(found).encode())
    assert "expected a node's identity" in refused(disk)


WHOLE = {
    "format_version": 1,
    "cluster": "c",
    "node": "n",
    "groups": [],
    "boot": 1,
    "settings": {},
}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "it is no JSON: Expecting property name"),
        (b"\xff", "it is no JSON: these bytes are no text"),
        (b"5", "it is no object"),
        (b"[" * 9999, "it has too many brackets in brackets"),
        (b"{}", "it has no 'format_version'"),
        (b'{"format_version": []}', "format_version is no number"),
        (WHOLE | {"settings": []}, "a value in it is of another kind than has to be there"),
        (WHOLE | {"groups": 7}, "a value in it is of another kind than has to be there"),
        (WHOLE | {"ledgers": {"a": {"members": 1}}}, "members is no list"),
    ],
)
@pytest.mark.usefixtures("usual_recursion")
def test_what_is_no_identity_is_told_in_words(disk: SimDisk, content: object, why: str) -> None:
    opened(disk).close()
    rewrite(disk, content if isinstance(content, bytes) else json.dumps(content).encode())
    assert f"({why}" in refused(disk)


def test_a_directory_without_identity_says_nothing(disk: SimDisk) -> None:
    assert read_identity(disk, DIRECTORY) is None


def refused(disk: object, path: str = DIRECTORY, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        opened(disk, path, **changes)
    (line,) = caught.value.problems
    assert "\n" not in line
    return line


def test_locked_by_this_process(disk: SimDisk) -> None:
    directory = opened(disk)
    assert "in use by this process" in refused(disk)
    directory.close()
    assert opened(disk).boot == 2


@pytest.mark.parametrize("changes", [{"node": "n1"}, {"cluster": "other"}])
def test_the_data_of_another_node_or_cluster(disk: SimDisk, changes: dict[str, object]) -> None:
    opened(disk, **changes).close()
    line = refused(disk)
    assert "expected the data of node 'n0' of cluster 'demo'" in line
    assert repr(next(iter(changes.values()))) in line


def rewrite(disk: SimDisk, data: bytes) -> None:
    opened(disk).close()
    disk.unlink(identity_path(DIRECTORY))
    file = disk.open(identity_path(DIRECTORY), "x")
    file.pwrite(data, 0)
    file.close()


def test_a_newer_format(disk: SimDisk) -> None:
    rewrite(disk, b'{"format_version": 7, "unknown": []}')
    assert "found 7: it was written by a newer version" in refused(disk)


BOOT = (
    b'{"format_version": 1, "cluster": "demo", "node": "n0", "groups": [], "settings": {},'
    b' "boot": %b}'
)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 64,
        b"[]",
        b'{"format_version": "1"}',
        b'{"format_version": 1}',
        pytest.param(b"[" * 100_000, id="deep"),
        b'{"format_version": 1, "cluster": "demo", "node": "n0", "groups": [], "boot": Infinity}',
        BOOT % b"-1",
        BOOT % b"1e300",
        BOOT % b'"5"',
    ],
)
def test_an_identity_that_cannot_be_read(disk: SimDisk, data: bytes) -> None:
    rewrite(disk, data)
    assert "expected a node's identity" in refused(disk)


FOLDERS = (
    "",
    "/groups",
    "/groups/orders",
    "/groups/orders/commitlog",
    "/groups/orders/consumequeue",
    "/groups/orders/index",
    "/groups/orders/cut",
    "/events",
    "/events/v=1",
)
FILES = (
    "/identity.json",
    "/identity.json.spare",
    "/lock",
    "/groups/orders/lock",
    "/groups/orders/checkpoint",
    "/groups/orders/abort",
    "/groups/orders/synced",
    "/groups/orders/dispatched",
    "/groups/orders/given_up",
    "/groups/orders/truncating",
)


@pytest.fixture(params=["sim", pytest.param("real", marks=pytest.mark.real_io)])
def any_disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "sim":
        return SimDisk(random.Random(1)), DIRECTORY
    return LocalDisk(), str(tmp_path / "n0")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_file_where_a_folder_has_to_be(any_disk: tuple[Disk, str], name: str) -> None:
    disk, path = any_disk
    disk.mkdir(f"{path}{name}".rpartition("/")[0])
    disk.open(f"{path}{name}", "x").close()
    line = refused(disk, path)
    assert line == f"{path}{name}: expected a folder, found a file"


@pytest.mark.parametrize("name", FILES)
def test_a_folder_where_a_file_has_to_be(any_disk: tuple[Disk, str], name: str) -> None:
    disk, path = any_disk
    opened(disk, path).close()
    if disk.exists(f"{path}{name}"):
        disk.unlink(f"{path}{name}")
    disk.mkdir(f"{path}{name}")
    line = refused(disk, path)
    assert line == f"{path}{name}: expected a file, found a folder"


@pytest.mark.real_io
@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(
    ("name", "wanted"), [(each, "file") for each in FILES] + [(each, "folder") for each in FOLDERS]
)
def test_what_is_neither_file_nor_folder(kind: str, name: str, wanted: str, tmp_path: Path) -> None:
    disk, path = LocalDisk(), tmp_path / "n0"
    opened(disk, str(path)).close()
    place = Path(f"{path}{name}")
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    SPECIAL[kind](str(place))
    assert refused(disk, str(path)) == f"{place}: expected a {wanted}, found a {kind}"


def test_reading_an_identity_that_is_a_folder(any_disk: tuple[Disk, str]) -> None:
    """As `check` does, which opens nothing else."""
    disk, path = any_disk
    disk.mkdir(identity_path(path))
    with pytest.raises(ConfigError, match="expected a file, found a folder"):
        read_identity(disk, path)


@pytest.mark.parametrize("folder", ["groups/orders/commitlog", "groups/orders/x", "groups/old/x"])
def test_groups_without_an_identity(disk: SimDisk, folder: str) -> None:
    opened(disk).close()
    disk.mkdir(f"{DIRECTORY}/{folder}")
    disk.open(f"{DIRECTORY}/{folder}/file", "x").close()  # an empty folder may be a mount's place
    disk.unlink(identity_path(DIRECTORY))
    assert "expected identity.json beside the groups' data" in refused(disk)


def test_a_file_among_groups_without_an_identity(disk: SimDisk) -> None:
    disk.mkdir(f"{DIRECTORY}/groups")
    disk.open(f"{DIRECTORY}/groups/stray", "x").close()
    assert "expected identity.json beside the groups' data" in refused(disk)


@pytest.mark.parametrize("left", ["", "groups", "groups/orders", "lock", "groups/orders/lock"])
def test_a_first_start_that_was_killed_early(disk: SimDisk, left: str) -> None:
    """Locks and folders come before the identity, and hold nothing that could be lost."""
    path = f"{DIRECTORY}/{left}".rstrip("/")
    if left.endswith("lock"):
        disk.mkdir(path.rpartition("/")[0])
        disk.open(path, "x").close()
    else:
        disk.mkdir(path)
    assert opened(disk).boot == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "it is no object"),
        (b"null", "it is no object"),
        (b'{"format": 99}', "it has no 'format_version'"),
        (b'{"format_version": 1}', "it has no 'cluster'"),
    ],
)
def test_an_identity_of_another_shape(disk: SimDisk, text: bytes, why: str) -> None:
    disk.mkdir(DIRECTORY)
    file = disk.open(identity_path(DIRECTORY), "x")
    file.pwrite(text, 0)
    file.close()
    assert f"({why})" in refused(disk)


def test_a_refusal_releases_the_locks(disk: SimDisk) -> None:
    opened(disk, node="n1").close()
    refused(disk)
    assert opened(disk, node="n1").boot == 2


@pytest.mark.real_io
def test_java_finds_its_own_lock_file(tmp_path: Path) -> None:
    directory = opened(LocalDisk(), str(tmp_path / "n0"))
    assert (tmp_path / "n0/groups/orders/lock").read_bytes() == b"lock"
    assert json.loads((tmp_path / "n0/identity.json").read_text())["boot"] == 1
    directory.close()


HOLD = """
import sys
from actors.env import Disk
from actors.env.local_disk import LocalDisk
lock = LocalDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.real_io
@pytest.mark.parametrize("held", ["lock", "groups/orders/lock"])
def test_locked_by_another_process(tmp_path: Path, held: str) -> None:
    opened(LocalDisk(), str(tmp_path)).close()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / held)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=f"in use by process {other.pid}$"):
            opened(LocalDisk(), str(tmp_path))
        other.communicate(timeout=10)
    assert opened(LocalDisk(), str(tmp_path)).boot == 2
