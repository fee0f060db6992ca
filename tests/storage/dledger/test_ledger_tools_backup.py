"""`backup` of DLedger members: whole or called incomplete, and no member starts on a copy."""

from __future__ import annotations

import copy
import pathlib
import random
from typing import Any

import attrs
import pytest
from ledger_kit import (
    FILE,
    LAYOUT,
    ROOT,
    dying_after,
    finish,
    fresh,
    golden_copy,
    model,
    opened,
    sim_disk,
)
from ledger_tools_kit import (
    COUNT,
    all_bytes,
    body,
    checked,
    dumped,
    filled,
    flip,
    take_snapshot,
    tree_bytes,
    write_file,
)

from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError, CorruptLog, StorageError
from actors.sim.disk import SimDisk
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import TermVote
from actors.storage.tools.backup import copy_stores, make_manifest, open_backup
from actors.storage.tools.copying import BackedUp
from actors.storage.tools.ledger.backup import (
    BackedUpLedger,
    limit_at,
    stopped_ledger_limit,
    verify_ledger,
)
from actors.storage.tools.manifest import read_manifest, write_manifest
from actors.storage.tools.target import Kind, Target, find_target

DEST = "/backup"
COPY = LedgerLayout(f"{DEST}/groups/ledger")


def target_of(disk: Any, path: str) -> Target:
    """With the size that a node's identity keeps."""
    target = find_target(disk, path)
    (ledger,) = target.stores
    return attrs.evolve(target, stores=(attrs.evolve(ledger, segment_bytes=FILE),))


def backup(
    disk: Any, path: str = ROOT, *, dest: str = DEST, committed: int | None = None
) -> BackedUp:
    """As the command does it; `committed`: of a running member."""
    target = target_of(disk, path)
    (ledger,) = target.stores
    if committed is None:
        limit = finish(stopped_ledger_limit(disk, ledger))
    else:
        limit = limit_at(disk, ledger, committed, "test")
    open_backup(disk, target, dest)
    done = BackedUp()
    finish(copy_stores(disk, target, dest, {ledger.name: limit}, done))
    write_manifest(disk, dest, make_manifest(disk, target, done, 5))
    return done


def manifest_of(disk: Any, dest: str = DEST) -> BackedUpLedger:
    manifest = read_manifest(disk, dest)
    assert manifest is not None
    (ledger,) = manifest.copies
    return ledger


def verified(disk: Any, dest: str = DEST) -> list[str]:
    """What a check of the copy finds, with its manifest."""
    layout = LedgerLayout(f"{dest}/groups/{manifest_of(disk, dest).name}")
    report = checked(disk, layout.root, is_backup=True)
    finish(verify_ledger(disk, layout, manifest_of(disk, dest), report))
    return report.findings.damage


def test_a_stopped_member() -> None:
    disk = filled()
    take_snapshot(disk, 100, 2)
    before = all_bytes(disk)
    done = backup(disk)
    assert all_bytes(disk) == before
    found = manifest_of(disk)
    assert done.copies == [found]
    assert (found.first_index, found.end_index, found.committed_index) == (0, COUNT - 1, COUNT - 1)
    assert (found.term, found.voted_for, found.snapshots) == (2, "n1", (100,))
    assert find_target(disk, DEST).kind is Kind.BACKUP
    assert verified(disk) == []
    assert dumped(disk, COPY.root)[0] == dumped(disk)[0]
    assert disk.listdir(COPY.root) == ["data", "snapshot", "synced"]


@pytest.mark.real_io
@pytest.mark.parametrize("name", ["store-n0", "store-divergent"])
def test_a_java_store(name: str, tmp_path: pathlib.Path) -> None:
    disk, dest = LocalDisk(), str(tmp_path / "copy")
    before = tree_bytes(layout := golden_copy(name, tmp_path))
    backup(disk, layout.root, dest=dest)
    assert verified(disk, dest) == []
    assert dumped(disk, f"{dest}/groups/{name}")[0] == dumped(disk, layout.root)[0]
    assert tree_bytes(layout) == before
    for path in pathlib.Path(layout.commit_log).iterdir():
        copied = pathlib.Path(f"{dest}/groups/{name}/data/{path.name}")
        assert copied.read_bytes() == path.read_bytes()


def test_no_member_starts_on_a_copy() -> None:
    """It would have forgotten its vote, and what it has acknowledged since."""
    disk = filled()
    backup(disk)
    with pytest.raises(
        CorruptLog, match="may vote twice in one term, so it does not start"
    ) as refused:
        opened(disk, COPY)
    _, _, reported = str(refused.value).partition("if the folder is a backup's")
    for words in (
        "with all else removed from it",
        "may lose some",
        "its vote counts only with all others'",
        "a whole group begins anew on backups without their `synced`, on every member",
        "OPERATING.md, A lost disk",
    ):
        assert words in reported


def test_check_says_the_same_of_a_copy_in_a_members_place() -> None:
    disk = filled()
    backup(disk)
    (found,) = checked(disk, COPY.root).findings.damage
    assert "if the folder is a backup's, or has lost more" in found


def test_a_whole_group_begins_anew_on_a_copy_without_its_mark() -> None:
    disk = filled()
    wanted = model(opened(copy.deepcopy(disk)))
    backup(disk)
    disk.unlink(COPY.synced)
    ledger = opened(disk, COPY)
    assert model(ledger) == wanted
    assert (ledger.vote.term, ledger.vote.voted_for) == (2, "")
    ledger.save_vote(TermVote(3, "n0"))
    ledger.append_as_leader([b"goes on"], 3)
    ledger.close(ordered=True)
    assert checked(disk, COPY.root).is_good


def test_of_a_running_member_what_is_committed() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    for number in range(COUNT):
        ledger.append_as_leader([body(number)], 1)
    backup(disk, committed=COUNT - 40)
    assert manifest_of(disk).end_index == COUNT - 40
    finish(ledger.truncate(COUNT - 39))
    assert verified(disk) == []
    assert [line["index"] for line in dumped(disk, COPY.root)[0]] == list(range(COUNT - 39))
    with pytest.raises(StorageError, match="run it again"):
        limit_at(disk, target_of(disk, ROOT).stores[0], 5000, "test")


def test_a_member_that_begins_anew_while_it_is_copied() -> None:
    disk = filled()
    ledger = opened(disk)
    target = target_of(disk, ROOT)
    limit = limit_at(disk, target.stores[0], 100, "test")
    assert ledger.delete_expired(COUNT, snapshot=True) is not None
    open_backup(disk, target, DEST)
    finish(copy_stores(disk, target, DEST, {"ledger": limit}, done := BackedUp()))
    assert done.copies[0].first_index == ledger.begin_index > 0
    finish(ledger.restart_at(5000, 1 << 20))
    with pytest.raises(StorageError, match="run it again"):
        finish(copy_stores(disk, target, DEST, {"ledger": limit}, BackedUp()))
    with pytest.raises(ConfigError, match="expected a whole backup, found an incomplete one"):
        find_target(disk, DEST)


def test_a_log_that_goes_on_behind_no_snapshot_is_not_called_whole() -> None:
    disk = filled()
    take_snapshot(disk, 3, 1)
    ledger = opened(disk)
    for _ in range(2):
        assert ledger.delete_expired(COUNT, snapshot=True) is not None
    ledger.close(ordered=True)
    with pytest.raises(StorageError, match="run it again"):
        backup(disk)
    take_snapshot(disk, 120, 2)
    backup(disk)
    assert manifest_of(disk).snapshots == (120, 3)
    assert verified(disk) == []


def test_an_empty_log() -> None:
    disk = sim_disk()
    fresh(disk).close(ordered=True)
    backup(disk)
    assert (manifest_of(disk).end_index, manifest_of(disk).log.files) == (-1, ())
    assert verified(disk) == []
    assert dumped(disk, COPY.root)[0] == []


def test_damage_is_not_copied() -> None:
    disk = filled()
    flip(disk, f"{LAYOUT.commit_log}/{4096:020d}", 3)
    with pytest.raises(
        StorageError, match=r"entry \d+: magic .* below entry 149, .* what check says"
    ):
        backup(disk)
    with pytest.raises(ConfigError, match="incomplete"):
        find_target(disk, DEST)
    flip(disk, f"{LAYOUT.commit_log}/{4096:020d}", 3)
    write_file(disk, LAYOUT.term, b"nothing\n")
    with pytest.raises(CorruptLog, match="currterm: the term and the vote cannot be read"):
        backup(disk)
    write_file(disk, LAYOUT.truncating, b"x" * 1024)
    with pytest.raises(CorruptLog, match="truncating: cannot be read"):
        backup(disk)


def test_damage_of_a_copy_is_found() -> None:
    disk = filled()
    take_snapshot(disk, 100, 2)
    backup(disk)
    data = f"{COPY.commit_log}/{4096:020d}"
    flip(disk, data, 60)
    assert "expected CRC-32" in " ".join(verified(disk))
    flip(disk, data, 60)
    flip(disk, f"{COPY.snapshot}/snapshot_100/data", 6)
    assert "its meta file has another checksum" in " ".join(verified(disk))
    disk.rmtree(f"{COPY.snapshot}/snapshot_100")
    assert "snapshots: the manifest says (100,), found ()" in " ".join(verified(disk))
    disk.unlink(data)
    assert "the file is missing" in verified(disk)[0]
    assert verified(disk)[0].endswith("; make another backup")
    assert "currterm" not in " ".join(verified(disk)), "nobody starts on it"


@pytest.mark.parametrize("power_loss", [False, True])
def test_killed_anywhere_it_is_incomplete_and_ends_the_next_time(
    power_loss: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = filled(40)
    take_snapshot(template, 30, 2)
    wanted = dumped(template)[0]
    steps, ended = 0, False
    while not ended:
        disk = copy.deepcopy(template)
        with dying_after(monkeypatch, steps) as died:
            backup(disk)
        ended = not died[0]
        lose(disk, steps if power_loss else None)
        if not ended and not disk.exists(f"{DEST}/backup.json"):
            with pytest.raises(ConfigError):
                find_target(disk, DEST)
            backup(disk)
        assert verified(disk) == [], steps
        assert dumped(disk, COPY.root)[0] == wanted
        steps += 1
    assert steps > 20


def lose(disk: SimDisk, seed: int | None) -> None:
    """The process's end, or the machine's."""
    if seed is None:
        disk.kill()
    else:
        disk.power_loss(random.Random(seed))


def test_what_an_interrupted_run_has_copied_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = filled()
    take_snapshot(disk, 100, 2)
    with dying_after(monkeypatch, 30) as died:
        backup(disk)
    assert died[0]
    done = backup(disk)
    assert done.reused_bytes > 0
    assert verified(disk) == []
    with pytest.raises(ConfigError, match="found a whole backup"):
        backup(disk)
