"""Folders of a DLedger member that are links, or mounts of another file system."""

from __future__ import annotations

from pathlib import Path

import pytest
from free_ports import free_port
from mount_space import need_mounts, run_script

pytestmark = pytest.mark.real_io

SCRIPT = Path(__file__).with_name("ledger_volumes_script.py")


@pytest.mark.parametrize("kind", ["mount", "link", "link here"])
def test_each_folder_of_a_member_on_another_volume(kind: str, tmp_path: Path) -> None:
    """`link`: to another file system; `link here`: within one, and needs no namespace."""
    mounts = kind != "link here"
    if mounts:
        need_mounts()
    done = run_script(SCRIPT, kind, str(tmp_path), str(free_port()), mounts=mounts)
    assert done.stdout.endswith("done\n"), done.stderr
