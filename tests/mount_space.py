"""Mounts for a test: in a mount namespace of its own, with a user namespace around it.

Nothing of it is seen outside, and it needs no privileges where user namespaces may be made.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN_SPACE = ("unshare", "--map-root-user", "--mount")
WITHOUT_PRIVILEGES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Before a command: it is root by number only, so that a mode of 000 keeps it out."""


@functools.cache
def why_no_mounts() -> str:
    """Why this machine gives a test no mounts of its own; "" where it does."""
    probe = (*OWN_SPACE, "sh", "-c", "mount -t tmpfs none /mnt && exec setpriv --help >/dev/null")
    try:
        done = subprocess.run(probe, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or "unshare failed"


def need_mounts() -> None:
    """Skip the test where there are none, with one line; a failure with CI=true."""
    why = why_no_mounts()
    if not why:
        return
    line = f"needs a mount namespace of its own (unshare -rm): {why}"
    if os.environ.get("CI") == "true":
        pytest.fail(line)
    pytest.skip(line)


def run_script(script: Path, *words: str, mounts: bool) -> subprocess.CompletedProcess[str]:
    """Run a Python script, in a mount namespace of its own or as any other."""
    command: Sequence[str] = (sys.executable, str(script), *words)
    if mounts:
        command = (*OWN_SPACE, *command)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def mount_tmpfs(folder: str, *options: str) -> None:
    """In such a namespace: a file system of its own, in memory.

    Args:
        options: of tmpfs: "size=16m", "nr_inodes=100".
    """
    os.makedirs(folder, exist_ok=True)
    words = ("-o", ",".join(options)) if options else ()
    subprocess.run(("mount", "-t", "tmpfs", *words, "none", folder), check=True)


def drop_privileges() -> None:
    """In such a namespace, once the mounts are made: begin this script anew without privileges.

    Returns at once where that was done.
    """
    if os.environ.get("PRIVILEGES_DROPPED") == "1":
        return
    os.environ["PRIVILEGES_DROPPED"] = "1"
    os.execvp(WITHOUT_PRIVILEGES[0], (*WITHOUT_PRIVILEGES, sys.executable, *sys.argv))
