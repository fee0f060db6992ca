"""`python -m actors.storage` as it is typed: answers, exit codes, and one line for each mistake."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from storage_kit import GOLDEN, golden_copy
from tools_command_kit import MASTER, run_apart

from actors.env.local_disk import LocalDisk
from actors.storage.tools.arguments import parse
from actors.storage.tools.command_line import run_command_line
from actors.storage.tools.target import find_target

pytestmark = pytest.mark.real_io


def said(capfd: pytest.CaptureFixture[str], *words: object, code: int = 0) -> tuple[str, str]:
    """What a command in this process prints."""
    assert run_command_line([str(word) for word in words]) == code
    output, errors = capfd.readouterr()
    return output, errors


LEDGER = str(GOLDEN.parent / "dledger" / "store-n0")
MISTAKES = [
    ((), "the following arguments are required: COMMAND"),
    (("chek", "x"), "invalid choice: 'chek'"),
    (("check",), "the following arguments are required: DIR"),
    (("check", "/nowhere"), "/nowhere: expected a node's data directory"),
    (("check", ""), "DIR: expected a folder, found ''"),
    (("check", "/etc/passwd"), "found a file"),
    (("check", "/proc/self/fd"), "expected a node's data directory"),
    (("check", MASTER, "--group", "x"), "--group: expected a group of"),
    (("check", MASTER, "--index-slots", "0"), "expected at least 1, found 0"),
    (("check", MASTER, "--index-slots", "51"), "--index-slots: expected the number of hash slots"),
    (("dump", MASTER, "--from", "-1"), "expected"),
    (("dump", MASTER, "--from", "9" * 30), "expected a number from 0 on"),
    (("dump", MASTER, "--from", "999999999"), "--from: expected an offset from 0 to 262144"),
    (("dump", MASTER, "--limit", "x"), "expected a number from 0 on, found 'x'"),
    (("pending", "/nowhere"), "/nowhere: expected a node's data directory"),
    (("pending", LEDGER), "a dledger group has no consume queues"),
    (("truncate", MASTER), "the following arguments are required: OFFSET"),
    (("backup", MASTER), "the following arguments are required: DEST"),
    (("backup", MASTER, MASTER), "expected a folder outside of"),
    (("backup", MASTER, "/etc/passwd"), "/etc/passwd: expected a folder, found a file"),
    (("seed", MASTER, "/tmp/x"), "expected a backup with a manifest, found none"),
    (("seed", "/nowhere", "/tmp/x"), "found no such folder"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES)
def test_a_mistake_is_one_line(
    words: tuple[str, ...], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    output, errors = said(capfd, *words, code=2)
    assert output == ""
    assert errors.startswith("triolog: ")
    assert expected in errors
    assert errors.count("\n") == 1


def test_a_folder_of_data_is_no_members_store(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "n0").mkdir(parents=True)
    _, errors = said(capfd, "check", tmp_path, code=2)
    assert errors.endswith(" or a backup, found data\n")
    (tmp_path / "data" / f"{0:020d}").write_bytes(b"")
    assert len(find_target(LocalDisk(), str(tmp_path)).stores) == 1


@pytest.mark.parametrize("words", [["--help"], *([c, "--help"] for c in (
    "check", "dump", "pending", "truncate", "backup", "seed"))])  # fmt: skip
def test_help(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 0
    assert "usage: python -m actors.storage" in capfd.readouterr().out


def test_check_of_a_brokers_store(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output, errors = said(capfd, "check", MASTER, "--index-slots", 50)
    assert errors == ""
    head, row = output.splitlines()
    assert head.split()[:4] == ["in", "bytes", "result", "state"]
    assert row.split() == [
        "master",
        "good",
        "stopped",
        "4",
        "0",
        "243560",
        "35",
        "-",
        "-",
        "35",
        "69",
    ]
    found = json.loads(said(capfd, "check", MASTER, "--index-slots", 50, "--json")[0])
    assert found["good"] is True
    assert found["groups"][0]["records"] == 35
    hurt = golden_copy("5.3.3", "master", tmp_path)
    path = hurt / "commitlog" / f"{65536:020d}"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    output, _ = said(capfd, "check", hurt, "--index-slots", 50, code=1)
    assert "DAMAGE" in output
    assert "damage: " in output
    assert json.loads(said(capfd, "check", hurt, "--json", code=1)[0])["good"] is False
    output, errors = said(capfd, "dump", hurt, code=1)
    assert 0 < output.count("\n") < 35
    assert "damage, or a torn end" in errors


def test_output_that_cannot_be_written() -> None:
    for words in (("check", MASTER), ("dump", MASTER)):
        with open("/dev/full", "w") as full:
            found = run_apart(*words, stdout=full, stderr=subprocess.PIPE)
        assert found.returncode == 1
        assert found.stderr == "triolog: standard output: No space left on device\n"
        reader, writer = os.pipe()
        os.close(reader)
        found = run_apart(*words, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (found.returncode, found.stderr) == (1, "")


def test_it_starts_without_standard_streams() -> None:
    command = f"{sys.executable} -m actors.storage check {MASTER} >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", command], timeout=60).returncode == 0


def test_ctrl_c_is_one_line(tmp_path: pathlib.Path) -> None:
    """While it writes to somebody who does not read."""
    store = golden_copy("5.3.3", "master", tmp_path)
    dump = subprocess.Popen(
        [sys.executable, "-m", "actors.storage", "dump", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,
    )
    assert dump.stdout is not None
    assert dump.stdout.read(1) == b"{"  # it has begun, and there is more than the pipe holds
    dump.send_signal(signal.SIGINT)
    _, errors = dump.communicate(timeout=60)
    assert dump.returncode == 130
    assert errors == b"triolog: interrupted\n"
