"""What lies in a node's directory, asked before a start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actors.env.local_disk import LocalDisk
from actors.env.path_kinds import check_kinds, is_file, is_folder, kind_of
from actors.env.protocols import FileStat
from actors.errors import ConfigError
from actors.storage.derived.queue_files import list_queues
from actors.storage.ledger.per_index import PerIndexFiles


@pytest.mark.real_io
def test_a_link_that_leads_nowhere_or_to_itself_is_nothing(tmp_path: Path) -> None:
    """Somebody's link in `groups/` or `consumequeue/` ended starts, checks and backups."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "file").write_bytes(b"")
    disk = LocalDisk()
    for name in ("loop", "nowhere", "missing", "file/inside", "loop/inside"):
        path = os.fspath(tmp_path / name)
        assert kind_of(disk, path) is None
        assert not is_folder(disk, path)
        assert not is_file(disk, path)
    assert kind_of(disk, os.fspath(tmp_path / "file")) == "file"
    assert kind_of(disk, os.fspath(tmp_path)) == "folder"


@pytest.mark.real_io
def test_other_errors_are_not_taken_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        kind_of(LocalDisk(), os.fspath(tmp_path / ("x" * 300)))


@pytest.mark.real_io
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    """It was taken for nothing, and what was then done with its name ended with a bare error."""
    (tmp_path / "nowhere").symlink_to("missing")
    path = os.fspath(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=f"^{path}: expected a file, found a link that leads no"):
        check_kinds(LocalDisk(), folders=(), files=(path, os.fspath(tmp_path / "missing")))


class MadeMeanwhile(LocalDisk):
    """Each name that is looked for and missing is made at once after it, as by a start."""

    def stat(self, path: str) -> FileStat:
        try:
            return super().stat(path)
        except FileNotFoundError:
            Path(path).touch()
            raise


@pytest.mark.real_io
def test_what_is_made_while_it_is_looked_for_is_no_link(tmp_path: Path) -> None:
    """`check FILE` beside nodes that started was refused for a file that they had just made."""
    path = os.fspath(tmp_path / "synced")
    check_kinds(MadeMeanwhile(), folders=(), files=(path,))
    other = os.fspath(tmp_path / "commitlog")
    with pytest.raises(ConfigError, match="expected a folder, found a file"):
        check_kinds(MadeMeanwhile(), folders=(other,), files=())


@pytest.mark.real_io
def test_a_file_of_sums_that_is_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}").symlink_to("missing")
    with pytest.raises(ConfigError, match="found a link that leads nowhere"):
        PerIndexFiles.load(LocalDisk(), os.fspath(tmp_path), 80, 8, key="k", is_sure=True)


@pytest.mark.real_io
def test_only_what_may_be_a_queue_is_looked_for_as_one(tmp_path: Path) -> None:
    """As upstream, a name that is no int of Java's is no queue's."""
    (tmp_path / "t" / "7").mkdir(parents=True)
    for name in ("9" * 19, "0" * 19, str(1 << 31), "07"):
        (tmp_path / "t" / name).write_bytes(b"")
    assert list_queues(LocalDisk(), os.fspath(tmp_path)) == [("t", 7)]
