"""Stores of a further mode are checked at a start, warned of, checked, dumped and backed up."""

from __future__ import annotations

import json
import logging
import pathlib

import attrs
import pytest
from mirror_config import MirrorGroup
from store_kit import small_group
from tools_command_kit import run

from actors.config import DLedgerGroup
from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError
from actors.storage.group_kind import check_group_kinds, inner_kind_problems, warn_of_others
from actors.storage.node.identity import open_directory

DISK = LocalDisk()
FILE_BYTES = 64
PAIR = MirrorGroup(name="pair", members=("n0", "n1"))


@pytest.fixture
def node(tmp_path: pathlib.Path) -> pathlib.Path:
    """The directory of a node that has stopped: two files with a line each."""
    path = tmp_path / "n0"
    open_directory(DISK, str(path), cluster="c", node="n0", groups=["pair"], settings={}).close()
    folder = path / "groups/pair/lines"
    folder.mkdir(parents=True)
    for number in range(2):
        name = f"{number * FILE_BYTES:020d}"
        (folder / name).write_bytes(b"line %d" % number + bytes(FILE_BYTES - 6))
    return path


def test_a_start_takes_its_own_store_alone(node: pathlib.Path) -> None:
    check_group_kinds(DISK, str(node), (PAIR,))
    others = (small_group(name="pair"), DLedgerGroup(name="pair", members=("n0", "n1", "n2")))
    for group in others:
        with pytest.raises(ConfigError, match="found that of a mirror group"):
            check_group_kinds(DISK, str(node), (group,))
    (node / "groups/orders/commitlog").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"a mirror group, as .* found that of a classic group"):
        check_group_kinds(DISK, str(node), (attrs.evolve(PAIR, name="orders"),))


def test_what_is_of_the_wrong_kind(node: pathlib.Path) -> None:
    inside = node / "groups/pair/lines" / f"{2 * FILE_BYTES:020d}"
    inside.mkdir()
    found = inner_kind_problems(DISK, str(node), (PAIR,))
    assert found == (f"{inside}: expected a file, found a folder",)
    (node / "groups/other").mkdir()
    (node / "groups/other/lines").write_bytes(b"")
    with pytest.raises(ConfigError, match="lines: expected a folder, found a file"):
        check_group_kinds(DISK, str(node), (attrs.evolve(PAIR, name="other"),))


def test_warnings(node: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    strange = node / "groups/pair/lines/strange"
    strange.write_bytes(b"")
    with caplog.at_level(logging.WARNING, logger="triolog"):
        warn_of_others(DISK, str(node), "n0", (PAIR,))
    (record,) = caplog.records
    assert record.getMessage().endswith(f"as it cannot be ours: {strange}")


@pytest.mark.parametrize("alone", [False, True])
def test_check(node: pathlib.Path, alone: bool, capfd: pytest.CaptureFixture[str]) -> None:
    path = node / "groups/pair" if alone else node
    if alone:
        (node / "identity.json").unlink()
        path = path.rename(node.parent / "pair")
    code, out, err = run(capfd, "check", path)
    assert (code, err) == (0, "")
    head, row = (line.split() for line in out.splitlines())
    assert head == ["in", "bytes", "result", "state", "lines"]
    assert row == ["pair", "good", "stopped", "2"]
    log = path / ("lines" if alone else "groups/pair/lines")
    (log / f"{0:020d}").write_bytes(b"else" + bytes(FILE_BYTES - 4))
    code, out, err = run(capfd, "check", path, "--json")
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert found["groups"] == found["ledgers"] == []
    assert found["mirrors"][0]["findings"]["damage"] == ["else is no line"]


def test_dump_and_backup(
    node: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = '"line 0"\n"line 1"\n'
    assert run(capfd, "dump", node) == (0, lines, "")
    copy = tmp_path / "copy"
    code, out, err = run(capfd, "backup", node, copy)
    assert (code, err) == (0, "")
    assert out.startswith("pair: 2 files of lines\n")
    assert run(capfd, "dump", copy) == (0, lines, "")
    assert run(capfd, "check", copy)[0] == 0
    (copy / "groups/pair/lines" / f"{0:020d}").write_bytes(b"line 7" + bytes(FILE_BYTES - 6))
    code, out, _ = run(capfd, "check", copy)
    assert code == 1
    assert "expected CRC-32" in out


def test_what_it_does_not_have(
    node: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capfd, "truncate", node, "0", "--yes")
    assert code == 2
    assert "expected a classic or autoswitch group, found pair: a mirror keeps its end" in err
    assert run(capfd, "backup", node, tmp_path / "copy")[0] == 0
    code, _, err = run(capfd, "seed", tmp_path / "copy", tmp_path / "n1")
    assert code == 2
    assert (
        "expected a classic or autoswitch group, found pair: a mirror is made by looking into it"
        in err
    )


def test_a_folder_of_nobody(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "check", tmp_path)
    assert code == 2
    assert "a store root (commitlog/ or data/ or lines/)" in err
