"""A mode that only this file knows: with one entry in the table its stores are checked at a start,
warned of, checked, dumped and backed up.
"""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
import pytest
from store_kit import small_group
from tools_command_kit import run

from actors.config import DLedgerGroup
from actors.env.local_disk import LocalDisk
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.storage.commit_log import is_segment_name, segment_path
from actors.storage.group_kind import check_group_kinds, inner_kind_problems, warn_of_others
from actors.storage.identity import Identity, open_directory
from actors.storage.kind import StoreKind
from actors.storage.kinds import KINDS
from actors.storage.tools.check import CheckOptions
from actors.storage.tools.copying import (
    BackedUp,
    BackedUpGroup,
    Limit,
    LogCopy,
    verify_group,
)
from actors.storage.tools.dump import Dumped, Wanted
from actors.storage.tools.findings import Report
from actors.storage.tools.kind import StoreTools
from actors.storage.tools.steps import Step, Work
from actors.storage.tools.stores import FoundStore, file_size, log_bases

DISK = LocalDisk()
FILE_BYTES = 64


@attrs.frozen
class Layout:
    root: str

    @property
    def commit_log(self) -> str:
        return f"{self.root}/lines"

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.root, self.commit_log)

    @property
    def files(self) -> tuple[str, ...]:
        return ()


@attrs.frozen
class MirrorGroup:
    name: str = "pair"
    mode: str = "mirror"


@attrs.frozen(kw_only=True)
class Mirror(FoundStore):
    mode = "mirror"


@attrs.define(kw_only=True)
class MirrorReport(Report):
    mode = "mirror"
    columns = ("lines",)
    lines: int = 0

    @property
    def row(self) -> tuple[str, ...]:
        return (str(self.lines),)


@attrs.frozen(kw_only=True)
class MirrorCopy:
    mode: ClassVar = "mirror"
    log: BackedUpGroup

    @property
    def name(self) -> str:
        return self.log.name

    @property
    def line(self) -> str:
        return f"{self.name}: {len(self.log.files)} files of lines"


def _find(disk: Disk, root: str, identity: Identity | None) -> Mirror:
    layout = Layout(root)
    size = file_size(disk, layout.commit_log, None)
    return Mirror(name=root.rpartition("/")[2], layout=layout, segment_bytes=size, settings={})


def _lines(disk: Disk, store: Mirror, base: int) -> list[bytes]:
    file = disk.open(segment_path(store.layout.commit_log, base), "r")
    try:
        return bytes(file.pread(0, file.size_bytes)).rstrip(b"\0").splitlines()
    finally:
        file.close()


def _check(disk: Disk, store: Mirror, options: CheckOptions) -> Work[Report]:
    report = MirrorReport(group=store.name, state="running" if options.is_running else "stopped")
    for base in log_bases(disk, store):
        for line in _lines(disk, store, base):
            if line.startswith(b"line "):
                report.lines += 1
            else:
                report.findings.hurt(f"{line.decode()} is no line")
        yield Step("lines", base, 0)
    if options.copied is not None:
        for wrong in (yield from verify_group(disk, store.layout.commit_log, options.copied.log)):
            report.findings.hurt(wrong)
    return report


def _dump(
    disk: Disk, store: Mirror, wanted: Wanted, write: Callable[[bytes], object], limit: int | None
) -> Work[Dumped]:
    done = Dumped()
    for base in log_bases(disk, store):
        for line in _lines(disk, store, base):
            write(json.dumps(line.decode()).encode() + b"\n")
            done.records += 1
        yield Step("dump", base, 0)
    return done


def _end(disk: Disk, store: Mirror) -> int:
    return sum(store.segment_bytes for _ in log_bases(disk, store))


def _stopped(disk: Disk, store: Mirror) -> Work[Limit]:
    yield Step("end", 0, 0)
    return Limit(end_bytes=_end(disk, store), why="the end", is_sure=True)


def _running(disk: Disk, store: Mirror, status: Mapping[str, Any] | None, node: str) -> Limit:
    return Limit(end_bytes=_end(disk, store), why="running", is_sure=True)


def _copy(disk: Disk, store: Mirror, root: str, limit: Limit, done: BackedUp) -> Work[MirrorCopy]:
    copy = LogCopy(
        disk=disk,
        name=store.name,
        source=store.layout.commit_log,
        target=Layout(root).commit_log,
        file_bytes=store.segment_bytes,
        end_bytes=limit.end_bytes,
        limit=limit.why,
        done=done,
    )
    return MirrorCopy(log=(yield from copy.run(log_bases(disk, store))))


def _is_store(disk: Disk, root: str) -> bool:
    return disk.exists(Layout(root).commit_log)


TOOLS = StoreTools(
    find=_find,
    check=_check,
    dump=_dump,
    stays_up_to=_end,
    stopped_limit=_stopped,
    running_limit=_running,
    copy=_copy,
    parse_copy=lambda found: MirrorCopy(log=BackedUpGroup.parse(found["log"])),
    truncate="a mirror keeps its end",
    seed="a mirror is made by looking into it",
)
MIRROR = StoreKind(
    key="mirrors",
    layout=Layout,
    signs=lambda root: (Layout(root).commit_log,),
    start_paths=lambda root: (Layout(root).folders, ()),
    named_files=lambda root: {Layout(root).commit_log: is_segment_name},
    is_store=lambda disk, root, identity: _is_store(disk, root),
    is_store_alone=_is_store,
    tools=lambda: TOOLS,
)


@pytest.fixture(autouse=True)
def third_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "mirror", MIRROR)


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
    check_group_kinds(DISK, str(node), (MirrorGroup(),))  # type: ignore[arg-type]
    others = (small_group(name="pair"), DLedgerGroup(name="pair", members=("n0", "n1", "n2")))
    for group in others:
        with pytest.raises(ConfigError, match="found that of a mirror group"):
            check_group_kinds(DISK, str(node), (group,))
    (node / "groups/orders/commitlog").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"a mirror group, as .* found that of a classic group"):
        check_group_kinds(DISK, str(node), (MirrorGroup("orders"),))  # type: ignore[arg-type]


def test_what_is_of_the_wrong_kind(node: pathlib.Path) -> None:
    inside = node / "groups/pair/lines" / f"{2 * FILE_BYTES:020d}"
    inside.mkdir()
    found = inner_kind_problems(DISK, str(node), (MirrorGroup(),))  # type: ignore[arg-type]
    assert found == (f"{inside}: expected a file, found a folder",)
    (node / "groups/other").mkdir()
    (node / "groups/other/lines").write_bytes(b"")
    with pytest.raises(ConfigError, match="lines: expected a folder, found a file"):
        check_group_kinds(DISK, str(node), (MirrorGroup("other"),))  # type: ignore[arg-type]


def test_warnings(node: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    strange = node / "groups/pair/lines/strange"
    strange.write_bytes(b"")
    with caplog.at_level(logging.WARNING, logger="triolog"):
        warn_of_others(DISK, str(node), "n0", (MirrorGroup(),))  # type: ignore[arg-type]
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
    assert (head, row) == (["group", "result", "state", "lines"], ["pair", "good", "stopped", "2"])
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
    assert "expected a classic group, found pair: a mirror keeps its end" in err
    assert run(capfd, "backup", node, tmp_path / "copy")[0] == 0
    code, _, err = run(capfd, "seed", tmp_path / "copy", tmp_path / "n1")
    assert code == 2
    assert "expected a classic group, found pair: a mirror is made by looking into it" in err


def test_a_folder_of_nobody(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "check", tmp_path)
    assert code == 2
    assert "a store root (commitlog/ or data/ or lines/)" in err
