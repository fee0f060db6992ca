"""The garbage collector of our commands' processes, and of nobody else's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAY = "print(*gc.get_threshold(), gc.get_freeze_count() > 10_000)"
COMMAND = """
import gc, runpy, sys
from actors.cluster import session

def run_session(*arguments):
    assert "actors.node.node" in sys.modules, "a node was imported after this"
    return 0

session.run_session = run_session
sys.argv = ["cluster", "examples/3node.toml"]
try:
    runpy.run_module("actors.cluster", run_name="__main__")
except SystemExit as ended:
    assert not ended.code, ended
"""
EMBEDDED = """
import gc
import actors
from actors.cluster import session
from actors.cluster.__main__ import main
actors.open_node
session.run_session = lambda *arguments: 0
assert main(["examples/3node.toml"]) == 0
assert main(["examples/3node.toml", "check"]) == 0
"""


def said(program: str) -> str:
    """The last line of what it prints."""
    words = [sys.executable, "-c", program + SAY]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[-1]


def test_a_command_collects_less() -> None:
    assert said(COMMAND) == "20000 20 20 True"


def test_a_program_that_imports_us_collects_as_it_did() -> None:
    assert said(EMBEDDED) == said("import gc\n")
