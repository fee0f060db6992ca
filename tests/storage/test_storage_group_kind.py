"""A group whose mode was changed in the cluster file keeps its store: the start is refused."""

import logging
from pathlib import Path

import pytest
from special_files import SPECIAL
from store_kit import sim_disk, small_group

from actors.config import DLedgerGroup, Group
from actors.config.autoswitch import AutoSwitchGroup
from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError
from actors.sim.disk import SimDisk
from actors.storage.group_kind import NAMED_MAX, check_group_kinds, warn_of_others
from actors.storage.node.identity import open_directory
from actors.storage.tools.target import find_target

NODE = "/data/n0"
ROOT = f"{NODE}/groups/orders"
CLASSIC = small_group()
REPLICA = AutoSwitchGroup(name="orders", members=("n0", "n1", "n2"))
SIGNS = (
    "epochFileCheckpoint",
    "epochFileCheckpoint.bak",
    "newest_epoch",
    "brokerIdentity",
    "brokerIdentity-temp",
)
LEDGER = DLedgerGroup(name="orders", members=("n0", "n1", "n2"))


def disk_with(*names: str) -> SimDisk:
    disk = sim_disk()
    disk.mkdir(ROOT)
    for name in names:
        if name == "currterm":
            disk.open(f"{ROOT}/{name}", "x").close()
        else:
            disk.mkdir(f"{ROOT}/{name}")
    return disk


@pytest.mark.parametrize("names", [(), ("commitlog",), ("commitlog", "data")])
def test_a_classic_group_starts_on(names: tuple[str, ...]) -> None:
    check_group_kinds(disk_with(*names), NODE, (CLASSIC,))


@pytest.mark.parametrize("names", [(), ("data",), ("currterm",), ("commitlog", "currterm")])
def test_a_dledger_group_starts_on(names: tuple[str, ...]) -> None:
    check_group_kinds(disk_with(*names), NODE, (LEDGER,))


@pytest.mark.parametrize("name", ["data", "currterm"])
def test_a_classic_group_is_kept_off_a_dledger_store(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_group_kinds(disk_with(name), NODE, (CLASSIC,))
    (line,) = caught.value.problems
    assert line.startswith(f"{ROOT}: expected the store of a classic group, as groups.orders.mode")
    assert "found that of a dledger group: put the mode back" in line


def test_a_dledger_group_is_kept_off_a_classic_store() -> None:
    with pytest.raises(ConfigError, match=r"a dledger group, as .*found that of a classic group"):
        check_group_kinds(disk_with("commitlog"), NODE, (LEDGER,))


@pytest.mark.parametrize("sign", SIGNS)
def test_an_auto_switch_group_s_store_is_no_classic_one_any_more(sign: str) -> None:
    disk = disk_with("commitlog")
    check_group_kinds(disk, NODE, (REPLICA,))  # all that it has is of epoch 0
    disk.open(f"{ROOT}/{sign}", "x").close()
    check_group_kinds(disk, NODE, (REPLICA,))
    with pytest.raises(ConfigError) as caught:
        check_group_kinds(disk, NODE, (CLASSIC,))
    (line,) = caught.value.problems
    assert line == (
        f"{ROOT}: expected the store of a classic group, as groups.orders.mode says, found that of"
        " an autoswitch group, whose epochs a classic group does not keep: put the mode back, or"
        " name the group anew"
    )
    with pytest.raises(ConfigError, match=r"a dledger group, .* found that of an autoswitch group"):
        check_group_kinds(disk, NODE, (LEDGER,))


def test_an_auto_switch_group_is_kept_off_a_dledger_store() -> None:
    with pytest.raises(ConfigError, match=r"an autoswitch group, .* found that of a dledger group"):
        check_group_kinds(disk_with("data"), NODE, (REPLICA,))


def test_an_epoch_file_that_is_a_folder_is_named() -> None:
    problem = "epochFileCheckpoint: expected a file, found a folder"
    with pytest.raises(ConfigError, match=problem):
        check_group_kinds(disk_with("commitlog", "epochFileCheckpoint"), NODE, (REPLICA,))


@pytest.mark.real_io
@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["currterm", "checkpoint", "synced", "truncating", "lock"])
def test_a_dledger_groups_file_that_is_none(kind: str, name: str, tmp_path: Path) -> None:
    root = tmp_path / "n0/groups/orders"
    root.mkdir(parents=True)
    SPECIAL[kind](str(root / name))
    with pytest.raises(ConfigError) as caught:
        check_group_kinds(LocalDisk(), str(tmp_path / "n0"), (LEDGER,))
    assert caught.value.problems == (f"{root}/{name}: expected a file, found a {kind}",)


@pytest.mark.parametrize(("name", "found"), [("currterm", "folder"), ("data", "file")])
def test_a_dledger_groups_files_and_folders_are_what_they_are(name: str, found: str) -> None:
    disk = disk_with()
    if found == "folder":
        disk.mkdir(f"{ROOT}/{name}")
    else:
        disk.open(f"{ROOT}/{name}", "x").close()
    with pytest.raises(ConfigError, match=f"{ROOT}/{name}: expected a .*, found a {found}"):
        check_group_kinds(disk, NODE, (LEDGER,))


def warnings_of(
    disk: SimDisk, caplog: pytest.LogCaptureFixture, group: Group = CLASSIC
) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="triolog"):
        warn_of_others(disk, NODE, "n0", (group,))
    return [record.getMessage() for record in caplog.records]


def test_data_of_a_group_that_the_file_does_not_name(caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_with("commitlog")
    assert warnings_of(disk, caplog) == []
    for name in ("ordres", "sales"):
        disk.mkdir(f"{NODE}/groups/{name}")
        disk.open(f"{NODE}/groups/{name}/lock", "x").close()
    assert warnings_of(disk, caplog) == [], "a lock is what a start leaves that was refused"
    disk.mkdir(f"{NODE}/groups/ordres/commitlog")
    disk.open(f"{NODE}/groups/sales/currterm", "x").close()
    (line,) = warnings_of(disk, caplog)
    assert line.startswith(f"n0: {NODE}/groups has data of ordres, sales, in which")
    assert "\n" not in line


def test_one_line_names_a_few_of_many_groups(caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_with()
    for number in range(NAMED_MAX + 3):
        disk.mkdir(f"{NODE}/groups/g{number:02}/commitlog")
    (line,) = warnings_of(disk, caplog)
    assert f"g{NAMED_MAX - 1:02} and 3 more, in which" in line


def test_what_cannot_be_ours_is_left_alone_and_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = sim_disk()
    for name in ("lost+found", "groups/.snapshot", "groups/orders/commitlog/lost+found"):
        disk.mkdir(f"{NODE}/{name}")
    disk.open(f"{NODE}/groups/.snapshot/file", "x").close()
    (line,) = warnings_of(disk, caplog)
    assert line == (
        f"n0: left alone, as it cannot be ours: {NODE}/lost+found,"
        f" {NODE}/groups/orders/commitlog/lost+found, {NODE}/groups/.snapshot"
    )
    open_directory(disk, NODE, cluster="c", node="n0", groups=["orders"], settings={}).close()
    assert [store.name for store in find_target(disk, NODE).stores] == ["orders"]


@pytest.mark.parametrize(
    ("group", "folder", "own"),
    [
        (CLASSIC, "commitlog", "00000000000000000000"),
        (CLASSIC, "index", "20260101000000000"),
        (LEDGER, "data", "00000000000000000000"),
        (LEDGER, "index", "00000000000000000000"),
    ],
)
def test_a_name_that_no_file_of_a_log_or_an_index_has_is_noted(
    caplog: pytest.LogCaptureFixture, group: Group, folder: str, own: str
) -> None:
    disk, path = sim_disk(), f"{NODE}/groups/{group.name}/{folder}"
    disk.mkdir(path)
    for name in (own, ".moving", "00000000000000000000.old"):
        disk.open(f"{path}/{name}", "x").close()
    found = f"{path}/00000000000000000000.old"
    assert warnings_of(disk, caplog, group) == [f"n0: left alone, as it cannot be ours: {found}"]


def test_a_directory_that_is_new_has_none(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(sim_disk(), caplog) == []
