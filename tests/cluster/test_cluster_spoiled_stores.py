"""A store that does not fit the cluster file, or is damaged, at the command line: one line, and
nothing of it is changed. Of either kind of group, alone and in processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from cluster_kit import unready
from free_ports import free_port

from actors.cluster.__main__ import main

pytestmark = pytest.mark.real_io

TEXT = """\
version = 1
name = "stores"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
[groups.orders]
port = PORT
"""
GROUPS = {
    "classic": 'master = "n0"\ncopies = 1\nsegment_bytes = 65536\n',
    "dledger": 'mode = "dledger"\nmembers = ["n0"]\ndata_file_bytes = 65536\n'
    "index_file_bytes = 65536\n",
}
LINES = 1000
EITHER = pytest.mark.parametrize("mode", GROUPS)
WAYS = pytest.mark.parametrize("words", [(), ("--processes",)], ids=["alone", "processes"])
LOGS = {"classic": "commitlog", "dledger": "data"}


@attrs.frozen
class Fed:
    """A node that has taken some files of lines, and was stopped in order."""

    folder: Path
    mode: str

    @property
    def file(self) -> Path:
        return self.folder / "c.toml"

    @property
    def store(self) -> Path:
        return self.folder / "var/n0/groups/orders"

    @property
    def log_files(self) -> list[Path]:
        return sorted((self.store / LOGS[self.mode]).iterdir())

    def write(self, *changes: tuple[str, str]) -> str:
        text = TEXT.replace("PORT", str(free_port())) + GROUPS[self.mode]
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        self.file.write_text(text)
        return str(self.file)

    def kept(self, *passed_over: str) -> dict[str, bytes]:
        """All that the store's files hold."""
        return {
            str(path.relative_to(self.store)): path.read_bytes()
            for path in sorted(self.store.rglob("*"))
            if path.is_file() and path.name not in ("lock", "abort", *passed_over)
        }


def fed(folder: Path, mode: str, capfd: pytest.CaptureFixture[str]) -> Fed:
    found = Fed(folder, mode)
    lines = folder / "lines"
    lines.write_text("".join(f"{number:0200}\n" for number in range(LINES)))
    assert main([found.write(), "--feed", str(lines), "--json"]) == 0
    capfd.readouterr()
    assert len(found.log_files) > 2
    return found


def refused(
    found: Fed,
    capfd: pytest.CaptureFixture[str],
    code: int,
    *words: str,
    config: str = "",
    changes: str = "",
) -> str:
    """Run it: it ends with that code and one line, and changes nothing, or that file alone."""
    before = found.kept(changes)
    assert main([config or found.write(), "--for", "30s", "--json", *words]) == code
    (line,) = unready(capfd.readouterr().err).splitlines()
    assert line.startswith("triolog: ")
    assert found.kept(changes) == before
    return line


@pytest.mark.parametrize(
    ("mode", "key", "size_bytes", "words"),
    [
        ("classic", "segment_bytes", 131072, ()),
        ("dledger", "data_file_bytes", 131072, ()),
        ("dledger", "data_file_bytes", 32768, ("--processes",)),
        ("dledger", "index_file_bytes", 32768, ()),
    ],
)
def test_files_of_another_size(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    mode: str,
    key: str,
    size_bytes: int,
    words: tuple[str, ...],
) -> None:
    found = fed(tmp_path, mode, capfd)
    other = found.write((f"{key} = 65536", f"{key} = {size_bytes}"))
    line = refused(found, capfd, 2, *words, config=other)
    assert line.startswith(f"triolog: {other}: key data_dir: {found.store}")
    assert f"{key}: expected 65536, the size of the files there, found {size_bytes}" in line
    assert main([found.write(), "--for", "10ms", "--json"]) == 0, "with the right size it goes on"


Spoil = Callable[[Fed], Path]
"""Returns what the line is to name."""


def of_a_byte(found: Fed) -> Path:
    """In the last file, of which a start believes nothing."""
    if found.mode == "classic":
        (found.store / "abort").touch()  # as after kill -9
    last = found.log_files[-1]
    data = bytearray(last.read_bytes())
    data[100] ^= 0xFF
    last.write_bytes(data)
    return last


def of_a_file(found: Fed) -> Path:
    """One between others is gone."""
    found.log_files[-2].unlink()
    return found.store


SPOILS = {"a byte": of_a_byte, "a file": of_a_file}


@WAYS
@EITHER
@pytest.mark.parametrize("spoil", SPOILS)
def test_damage_below_the_mark(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    mode: str,
    spoil: str,
    words: tuple[str, ...],
) -> None:
    found = fed(tmp_path, mode, capfd)
    named = SPOILS[spoil](found)
    assert str(named) in refused(found, capfd, 1, *words)


@pytest.mark.parametrize(
    ("mode", "folder"),
    [("classic", "commitlog"), ("dledger", "data"), ("dledger", "index"), ("dledger", "sums")],
)
def test_a_folder_in_a_file_s_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], mode: str, folder: str
) -> None:
    found = fed(tmp_path, mode, capfd)
    path = sorted((found.store / folder).iterdir())[-1]
    path.unlink()
    path.mkdir()
    line = refused(found, capfd, 2)
    assert line == (f"triolog: {found.file}: key data_dir: {path}: expected a file, found a folder")


def unreadable(found: Fed, old: bytes) -> None:
    (found.store / "currterm").write_bytes(b"voteLeader=n0")


def missing(found: Fed, old: bytes) -> None:
    (found.store / "currterm").unlink()


def older(found: Fed, old: bytes) -> None:
    """Than the log: a copy from before the last start."""
    (found.store / "currterm").write_bytes(old)


@WAYS
@pytest.mark.parametrize("spoil", [unreadable, missing, older], ids=lambda spoil: spoil.__name__)
def test_a_vote_that_nobody_knows(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    spoil: Callable[[Fed, bytes], None],
    words: tuple[str, ...],
) -> None:
    found = fed(tmp_path, "dledger", capfd)
    old = (found.store / "currterm").read_bytes()
    again = tmp_path / "more"
    again.write_text("one more\n")
    assert main([found.write(), "--feed", str(again), "--json"]) == 0
    capfd.readouterr()
    assert (found.store / "currterm").read_bytes() != old
    spoil(found, old)
    # Whether a vote is too old is known once the store is open; the mark says that it was.
    line = refused(found, capfd, 1, *words, changes="synced" if spoil is older else "")
    assert f"{found.store}/currterm: " in line
    assert "may vote twice in one term, so it does not start" in line


@WAYS
@pytest.mark.parametrize("store", ["file", "memory"])
def test_a_member_that_has_lost_all(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], store: str, words: tuple[str, ...]
) -> None:
    """The identity knows that it was one; what is written there as the line says is believed."""
    found = Fed(tmp_path, "dledger")
    file = found.write(("data_file_bytes", f'store = "{store}"\ndata_file_bytes'))
    assert main([file, "--for", "10ms", "--json"]) == 0
    capfd.readouterr()
    shutil.rmtree(found.store)
    line = refused(found, capfd, 1, *words, config=file, changes="synced")
    assert f"{found.store}/currterm: there is none, but identity.json says" in line
    (found.store / "currterm").write_text("voteLeader=\ncurrTerm=9\n")
    assert main([file, "--for", "10ms", "--json"]) == 0


def test_a_group_that_is_new_in_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It begins empty, of either kind; and the data of one that was renamed is named."""
    found = Fed(tmp_path, "dledger")
    assert main([found.write(), "--for", "10ms", "--json"]) == 0
    more = GROUPS["dledger"].replace("65536", "32768")
    file = found.write(
        ("[groups.orders]", f"[groups.orders2]\nport = {free_port()}\n{more}[groups.orders]")
    )
    capfd.readouterr()
    assert main([file, "--for", "10ms", "--json"]) == 0
    assert unready(capfd.readouterr().err) == ""
    assert main([found.write(("orders", "ordres")), "--for", "10ms", "--json"]) == 0
    (line,) = unready(capfd.readouterr().err).splitlines()
    assert f"n0: {found.store.parent} has data of orders, orders2, in which" in line
