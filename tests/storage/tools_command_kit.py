"""What tests of `python -m actors.storage` share."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from storage_kit import GOLDEN

from actors.storage.tools.command_line import run_command_line

MASTER = str(GOLDEN / "5.3.3" / "master")


def run(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run_command_line([str(word) for word in words])
    return (code, *capfd.readouterr())


def run_apart(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for what is about its standard streams."""
    return subprocess.run(
        [sys.executable, "-m", "actors.storage", *map(str, words)],
        text=True,
        capture_output="stdout" not in more,
        stdin=more.pop("stdin", subprocess.DEVNULL),
        timeout=60,
        check=False,
        **more,
    )
