"""A mistake that a node's process finds reaches the user as one line of the parent, exit code 2.

The same mistakes without processes, and all others, are in `test_cluster_refusals.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from free_ports import free_port

from actors.cluster.__main__ import main
from actors.env.local_disk import LocalDisk

pytestmark = pytest.mark.real_io

ROOT = Path(__file__).parents[2]
TEXT = """
version = 1
name = "mistakes"
data_dir = "data"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1"]
port = PORT
"""
LEDGER = """
[groups.ledger]
mode = "dledger"
members = ["n0", "n1"]
port = PORT
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "actors.cluster", *words, "--plain", "--for", "0.2s"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def only_line(folder: Path, text: str) -> str:
    """Run a file's text in processes and return the only line on stderr."""
    file = folder / "cluster.toml"
    file.write_text(text.replace("PORT", str(free_port())))
    ran = run(str(file), "--processes")
    assert ran.returncode == 2, ran
    (line,) = ran.stderr.splitlines()
    assert "Traceback" not in line
    return line


def test_an_address_that_is_not_this_machines(tmp_path: Path) -> None:
    line = only_line(tmp_path, TEXT.replace("127.0.0.1", "192.0.2.7"))
    assert "192.0.2.7" in line


@pytest.mark.checklist(1)
def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        line = only_line(tmp_path, TEXT.replace("PORT", str(port)))
    assert str(port) in line
    assert "in use" in line


Spoil = Callable[[Path, ExitStack], None]


def of_another_node(directory: Path, stack: ExitStack) -> None:
    identity = json.loads((directory / "identity.json").read_text())
    (directory / "identity.json").write_text(json.dumps({**identity, "node": "n5"}))


def of_a_newer_format(directory: Path, stack: ExitStack) -> None:
    identity = json.loads((directory / "identity.json").read_text())
    (directory / "identity.json").write_text(json.dumps({**identity, "format_version": 99}))


def locked_by_another_process(directory: Path, stack: ExitStack) -> None:
    """This test's process is another one than the command's."""
    lock = LocalDisk().lock(str(directory / "lock"))
    stack.callback(lock.release)


SPOILS: dict[str, tuple[Spoil, str]] = {
    "another node's": (of_another_node, "found that of node 'n5'"),
    "newer format": (of_a_newer_format, "written by a newer version"),
    "locked": (locked_by_another_process, f"of node n0 in use by process {os.getpid()}"),
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.mark.parametrize("spoiled", SPOILS)
def test_a_data_directory_that_does_not_fit(tmp_path: Path, stack: ExitStack, spoiled: str) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT.replace("PORT", str(free_port())))
    assert main([str(file), "--node", "n0", "--plain", "--for", "10ms"]) == 0
    spoil, said = SPOILS[spoiled]
    spoil(tmp_path / "data/n0", stack)
    ran = run(str(file), "--processes")
    assert ran.returncode == 2, ran
    (line,) = ran.stderr.splitlines()
    assert said in line
    assert str(tmp_path / "data/n0") in line


@pytest.mark.parametrize(
    ("name", "is_folder", "found"),
    [
        ("identity.json.spare", True, "expected a file, found a folder"),
        ("api.sock", False, "expected a socket, found a file"),
        ("events", False, "expected a folder, found a file"),
    ],
)
def test_check_says_what_refuses_the_next_start(
    name: str, is_folder: bool, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT.replace("PORT", str(free_port())))
    assert main([str(file), "check", "--json"]) == 0
    path = tmp_path / "data" / "n0" / name
    if is_folder:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert main([str(file), "check"]) == 2
    assert f"{path}: {found}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["other", "nowhere", "loop"])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("orders/commitlog/00000000000000000000", "file"),
        ("orders/index/20261128000000000", "file"),
        ("orders/consumequeue/orders", "folder"),
        ("orders/consumequeue/orders/1", "folder"),
        ("ledger/data", "folder"),
        ("ledger/snapshot", "folder"),
        ("ledger/data/00000000000000000000", "file"),
        ("ledger/sums/00000000000000000000", "file"),
    ],
)
def test_check_says_what_refuses_the_next_start_inside_a_group(
    name: str, wanted: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The start alone said so; a topic's and a file of sums ended it with a bare error."""
    file = tmp_path / "cluster.toml"
    for text in (TEXT, LEDGER):
        with file.open("a") as out:
            out.write(text.replace("PORT", str(free_port())))
    start = (str(file), "--node", "n0", "--plain", "--for", "10ms")
    assert main(start) == 0
    capfd.readouterr()
    path = tmp_path / "data/n0/groups" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind != "other":
        path.symlink_to(path.name if kind == "loop" else "missing")
    elif wanted == "file":
        path.mkdir()
    else:
        path.write_text("")
    assert main([str(file), "check"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{path}: expected a {wanted}, found a " in line
    assert main(start) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{path}: expected a {wanted}, found a " in line


@pytest.mark.parametrize(
    ("copies", "end"), [(2, "nothing wrong"), (3, "1 warning")], ids=["well", "warned"]
)
def test_a_check_ends_with_a_line_that_sums_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], copies: int, end: str
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        f"""\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
master = "n0"
slaves = ["n1", "n2"]
copies = {copies}
"""
    )
    assert main([str(file), "check"]) == 0
    found = capfd.readouterr().out.splitlines()[-1]
    assert found == f"{os.path.relpath(file)}: 3 nodes, 1 group, {end}"
