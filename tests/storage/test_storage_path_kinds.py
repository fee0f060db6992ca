"""What lies in a node's directory, asked before a start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actors.env.local_disk import LocalDisk
from actors.storage.path_kinds import is_file, is_folder, kind_of


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
