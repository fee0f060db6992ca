"""The command where nobody may write, and where a disk is full or broken."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kept_session import failing, no_session, shared
from pyspark.errors import PySparkException

from actors.pipeline import command_line, failures, locations, steps
from actors.pipeline.__main__ import main
from actors.pipeline.locations import Location

__all__ = ["shared"]


def test_what_the_disk_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    asked = ["bronze", str(tmp_path), "-o", f"{tmp_path}.out"]
    for error, said in (
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ):
        monkeypatch.setattr(command_line, "open_session", partial(failing, error))
        assert main(asked) == 1
        assert capfd.readouterr().err == f"pipeline: {said}\n"
    monkeypatch.setattr(command_line, "open_session", partial(failing, BrokenPipeError()))
    assert main(asked) == 1
    print("nobody reads this")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("step", ["bronze", "audit", "report", "watch"])
@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EROFS, 2), (errno.EACCES, 2), (errno.ENOSPC, 1), (errno.EIO, 1)],
    ids=["read-only", "not ours", "full", "broken"],
)
def test_who_may_not_write_has_made_a_mistake_and_a_full_disk_has_failed(
    step: str,
    number: int,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each step alike, and the line names the place."""
    monkeypatch.setattr(command_line, "open_session", no_session)
    data, out = tmp_path / "data", tmp_path / "page.tables"
    (data / "n0/events/v=1").mkdir(parents=True)
    really = os.open

    def refused(path: Any, *more: Any, **named: Any) -> int:
        if str(path).startswith(str(out)):
            raise OSError(number, "some words")
        return really(path, *more, **named)

    monkeypatch.setattr(os, "open", refused)
    made = tmp_path / "page.html" if step == "report" else out
    assert main([step, str(data), "-o", str(made)]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pipeline: {out}")
    assert line.endswith(f": {os.strerror(number)}")


@pytest.mark.parametrize("step", ["bronze", "watch"])
def test_out_that_cannot_be_made_is_a_mistake(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    assert main([step, str(tmp_path), "-o", "/dev/full/out"]) == 2
    assert capsys.readouterr().err.startswith("pipeline: /dev/full/out")


def test_a_page_that_cannot_be_put_there_is_no_work_of_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    page = f"{tmp_path}.html"
    assert main(["report", str(tmp_path), "-o", page]) == 2
    assert capsys.readouterr().err == f"pipeline: {page}: its folder is not writable\n"


def test_a_full_disk_behind_the_output_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As that of the file into which the lines of a run go."""
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main(["bronze", str(tmp_path), "-o", f"{tmp_path}.out"]) == 1
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    assert capsys.readouterr().err == "pipeline: standard output: No space left on device\n"


def test_a_folder_that_cannot_be_synced_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", partial(failing, OSError(errno.ENOSPC, "some words")))
    with pytest.raises(OSError, match="some words") as caught:
        Location(str(tmp_path)).sync()
    assert caught.value.filename == str(tmp_path)


def test_a_file_that_cannot_be_written_is_named_and_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page of a report on a full disk; pyarrow's words do not say which file it was."""
    page = Location(str(tmp_path / "report.html"))
    page.write_bytes(b"old")
    monkeypatch.setattr(locations, "_sync", partial(failing, OSError(errno.ENOSPC, "some words")))
    with pytest.raises(OSError, match="No space left on device") as caught:
        page.write_bytes(b"new")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(page))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("report.html", b"old")
    ]


def test_a_full_disk_is_named_though_spark_does_not_say_where(
    shared: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise PySparkException("No space left on device\n\tat java.io.Something(A.java:1)\n")

    monkeypatch.setattr(steps, "run_bronze", fail)
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "n0/events/v=1").mkdir(parents=True)
    words = ["bronze", str(data), "-o", str(out)]
    said = "pipeline: Spark failed: No space left on device: "
    between = tempfile.gettempdir()
    really = failures.left_bytes
    assert really(str(tmp_path / "nowhere")) is None
    assert (really(str(tmp_path)) or 0) > 0
    for left, where in (
        ({}, f"{out}, or {between}"),
        ({str(out): 0}, str(out)),
        ({between: failures.FULL_BYTES - 1}, between),
        ({str(out): 0, between: 0}, f"{out}, or {between}"),
    ):
        monkeypatch.setattr(failures, "left_bytes", lambda at, left=left: left.get(at, 1 << 40))
        assert main(words) == 1
        assert capsys.readouterr().err == f"{said}{where}\n"
