"""`make dist`: sdist and wheel in `dist/`, and a trial of each in an environment of its own.

The sdist is made of the files that git tracks, as they are now, and the wheel of the sdist. What is
tried: the command, the import, a cluster of one node from its start to its stop, and for the wheel
a user's file under `mypy --strict`, which `py.typed` promises.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
CONSTRAINTS = ROOT / "constraints.txt"
START_S = 60
CLUSTER = """\
version = 1
name = "alone"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
[groups.orders]
master = "n0"
slaves = []
copies = 1
port = 10912
segment_bytes = 1_048_576
"""
USER = """\
import actors
from actors.errors import NotStored
from actors.log_types import Receipt


async def use(file: str) -> int:
    async with actors.open_node(file, "n0") as node:
        log = node.log("orders")
        try:
            receipt: Receipt = await log.append([b"one", b"two"])
        except NotStored:
            return 0
        async with log.reader(start=receipt.first) as batches:
            async for batch in batches:
                bodies: list[bytes] = [record.body for record in batch.records]
                return len(bodies)
    return receipt.count
"""
WRONG = "return receipt.count\n", "return receipt.durability\n"
"""What `mypy` has to object to, or the types of the package are not seen."""


def run(*words: str | Path, cwd: Path | None = None) -> str:
    """What a command prints. Raises: SystemExit, with all that it printed, if it fails."""
    # A checkout on the path would be tried in place of what was built.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def environment(folder: Path, *packages: str | Path) -> Path:
    """Make a virtual environment with these in it. Returns: its folder of commands."""
    venv.create(folder, with_pip=True)
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check")
    run(*pip, "--quiet", "-c", CONSTRAINTS, *packages)
    return folder / "bin"


def built(scratch: Path) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    source = scratch / "source"
    for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    python = environment(scratch / "builder", "setuptools>=77") / "python"
    make = f"from setuptools import build_meta; build_meta.build_sdist({str(DIST)!r})"
    run(python, "-c", make, cwd=source)
    [sdist] = DIST.glob("*.tar.gz")
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", DIST, sdist)
    [wheel] = DIST.glob("*.whl")
    return sdist, wheel


def tried(commands: Path, folder: Path) -> None:
    """Command, import, and a cluster of one node. Raises: SystemExit, AssertionError."""
    folder.mkdir()
    triolog, file = commands / "triolog", folder / "c.toml"
    file.write_text(CLUSTER)
    names = run(
        commands / "python",
        "-c",
        "import actors, wire; actors.open_node; print(actors.__version__, actors.__file__)",
        cwd=folder,
    )
    version, _, where = names.strip().partition(" ")
    assert run(triolog, "--version", cwd=folder) == f"triolog {version}\n"
    assert str(ROOT) not in where, f"{where} was tried in place of what was built"
    run(triolog, "check", file, cwd=folder)
    words = [str(triolog), "run", str(file), "--json"]
    with subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as node:
        assert node.stderr is not None
        ready = node.stderr.readline()
        assert "n0: runs on 127.0.0.1" in ready, ready + node.stderr.read()
        assert node.poll() is None
        until_s = time.monotonic() + START_S
        while subprocess.run([triolog, "status", file], cwd=folder, capture_output=True).returncode:
            assert time.monotonic() < until_s, "the master opens, and `status` has exit code 0 then"
        status = run(triolog, "status", file, cwd=folder)
        assert "orders: n0 is master" in status, status
        assert "n0: stopped" in run(triolog, "stop", file, cwd=folder)
        _, err = node.communicate(timeout=START_S)
        assert node.returncode == 0, err


def typed(commands: Path, folder: Path) -> None:
    """A user's file under mypy, against what is installed. Raises: SystemExit, AssertionError."""
    mypy = (commands / "python", "-m", "mypy", "--strict")
    (folder / "user.py").write_text(USER)
    run(*mypy, "user.py", cwd=folder)
    (folder / "wrong.py").write_text(USER.replace(*WRONG))
    objection = ""
    try:
        run(*mypy, "wrong.py", cwd=folder)
    except SystemExit as error:
        objection = str(error)
    assert "[return-value]" in objection, f"mypy sees no types in what is installed: {objection}"


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        sdist, wheel = built(scratch)
        for number, package in enumerate((sdist, wheel)):
            more = ("mypy",) if package == wheel else ()
            commands = environment(scratch / f"venv{number}", package, *more)
            tried(commands, scratch / f"trial{number}")
            if more:
                typed(commands, scratch / f"trial{number}")
            print(f"{package.relative_to(ROOT)}: {package.stat().st_size >> 10} KiB, tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
