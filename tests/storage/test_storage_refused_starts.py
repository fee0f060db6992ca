"""A start that is refused changes nothing, whatever else it would have changed; `check` agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tools_kit import LAYOUT, ROOT, S, checked, node_disk, read_all, starts, write_at

from actors.env.path_kinds import kind_of
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.derived.small_files import create_abort
from actors.storage.files.side_file import SideFile

DATA = LAYOUT.commit_log
Change = Callable[[SimDisk], None]


def picture(disk: SimDisk, folder: str = ROOT) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder."""
    found: dict[str, bytes | None] = {}
    for name in disk.listdir(folder):
        path = f"{folder}/{name}"
        if kind_of(disk, path) == "folder":
            found |= {path: None} | picture(disk, path)
        else:
            found[path] = read_all(disk, path)
    return found


def resize(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path, "w" if disk.exists(path) else "x")
    file.resize(size)
    file.sync()
    file.close()


# ---- stores that a start changes ----


def stopped(disk: SimDisk) -> None:
    pass


def torn(disk: SimDisk) -> None:
    create_abort(disk, LAYOUT.abort, "n0")
    end = checked(disk).end_bytes
    write_at(disk, f"{DATA}/{end - end % S:020d}", end % S, b"torn")


def unmarked(disk: SimDisk) -> None:
    torn(disk)
    disk.unlink(LAYOUT.synced)
    resize(disk, f"{LAYOUT.synced}.tmp", 7)


def empty_file(disk: SimDisk) -> None:
    last = int(disk.listdir(DATA)[-1])
    resize(disk, f"{DATA}/{last + S:020d}", 0)


def underived(disk: SimDisk) -> None:
    disk.unlink(LAYOUT.dispatched)


def being_cut(disk: SimDisk) -> None:
    torn(disk)
    intent, _ = SideFile.open(disk, LAYOUT.truncating, 2)
    intent.write((checked(disk).end_bytes, S))
    intent.sync()
    intent.close()


STORES: list[Change] = [stopped, torn, unmarked, empty_file, underived, being_cut]

# ---- what refuses a start ----


def files(disk: SimDisk) -> list[str]:
    return [f"{DATA}/{name}" for name in disk.listdir(DATA)]


def side(path: str, data: bytes) -> Change:
    def change(disk: SimDisk) -> None:
        resize(disk, path, len(data))
        write_at(disk, path, 0, data)

    return change


def last_record(disk: SimDisk) -> None:
    """The first one of the file that holds the mark."""
    end = checked(disk).end_bytes
    write_at(disk, f"{DATA}/{end - end % S:020d}", 4, b"\x7f")


def folder_instead(disk: SimDisk) -> None:
    path = files(disk)[0]
    disk.unlink(path)
    disk.mkdir(path)


def all_larger(disk: SimDisk) -> None:
    for path in files(disk):
        resize(disk, path, 2 * S)


def last_gone(disk: SimDisk) -> None:
    for path in files(disk)[-2:]:
        disk.unlink(path)


SPOILT: dict[str, Change] = {
    "empty mark": side(LAYOUT.synced, b""),
    "spoilt mark": side(LAYOUT.synced, b"x" * 1024),
    "empty given_up": side(LAYOUT.given_up, b""),
    "empty intent": side(LAYOUT.truncating, b""),
    "spoilt intent": side(LAYOUT.truncating, b"x" * 1024),
    "record below the mark": last_record,
    "no file in the middle": lambda disk: disk.unlink(files(disk)[1]),
    "no last files": last_gone,
    "no files": lambda disk: disk.rmtree(DATA),
    "a short file": lambda disk: resize(disk, files(disk)[0], 100),
    "a long file": lambda disk: resize(disk, files(disk)[1], 2 * S),
    "files of another size": all_larger,
    "a folder among the files": folder_instead,
}


@pytest.mark.parametrize("spoilt", SPOILT)
@pytest.mark.parametrize("store", STORES, ids=lambda each: each.__name__)
async def test_a_refused_start_changes_nothing(
    store: Change, spoilt: str, autojump_clock: Any
) -> None:
    disk = await node_disk()
    store(disk)
    SPOILT[spoilt](disk)
    before = picture(disk)
    refused: Exception | None = None
    reported: Exception | None = None
    try:
        found = checked(disk)
    except ConfigError as error:
        reported = error
    try:
        starts(disk)
    except (CorruptLog, ConfigError) as error:
        refused = error
    assert refused is None or picture(disk) == before, refused
    if reported is not None:  # what is no file is refused before it is looked into
        assert str(refused) == str(reported)
        return
    assert not isinstance(refused, CorruptLog) or found.findings.damage
    taken = store is unmarked and spoilt in ("record below the mark", "no last files", "no files")
    assert (refused is None) == taken
